"""What a phase learns from the server's log, with lines as SGLang 0.5.11 wrote them on an H200."""

import pytest

from search.engines._decode_log import DecodeLog, log_size, read_decode_log

PREFILL = (
    "[2026-11-29 23:11:48] Prefill batch, #new-seq: 1, #new-token: 9, #cached-token: 0, token usage: 0.00, "
    "#running-req: 0, #queue-req: 70, #pending-token: 0, cuda graph: False, input throughput (token/s): 0.12"
)


def decode(running=100, queued=0, graph=True, rank=""):
    return (
        f"[2026-11-29 23:12:15{rank}] Decode batch, #running-req: {running}, #token: 39962, token usage: 0.05, "
        f"accept len: 2.77, accept rate: 0.89, cuda graph: {graph}, gen throughput (token/s): 20118.42, "
        f"#queue-req: {queued}"
    )


@pytest.fixture
def written(tmp_path):
    def write(*lines, before=()):
        path = tmp_path / "server.log"
        path.write_text("".join(line + "\n" for line in before))
        start = log_size(path)
        with path.open("a") as log:
            log.writelines(line + "\n" for line in lines)
        return read_decode_log(path, start)

    return write


def test_only_decode_lines_of_the_phase_count(written):
    log = written(PREFILL, decode(99), decode(100, 3, rank=" TP0"), before=[decode(256, 9, graph=False)] * 3)
    assert log == DecodeLog(lines=2, without_graph=0, most_running=100, queued=1)


def test_log_that_is_not_there_has_no_lines(tmp_path):
    assert (log_size(tmp_path / "none"), read_decode_log(tmp_path / "none", 7)) == (0, DecodeLog())


@pytest.mark.parametrize(
    ("lines", "misses"),
    [
        ([], False),
        ([PREFILL] * 9, False),
        ([decode()] * 20, False),
        ([decode()] * 19 + [decode(graph=False)], False),
        ([decode()] * 18 + [decode(graph=False)] * 2, True),
        ([decode(graph=False)], True),
        ([decode(graph=False).replace("cuda graph", "npu graph")], True),
    ],
)
def test_graph_miss_needs_over_a_twentieth_of_the_lines(written, lines, misses):
    assert written(*lines).misses_graphs is misses


@pytest.mark.parametrize(
    ("lines", "limited"),
    [
        ([decode(48, 52)] * 3, True),
        ([decode(48, 52)] * 2, False),
        ([decode(40, 60), decode(80, 20), decode(99, 1), decode(100, 0)], False),
        ([decode(99, 0)] * 9, False),
        ([], False),
    ],
    ids=["never all", "too few lines", "filling up", "one between two answers", "no lines"],
)
def test_admission_is_limited_when_requests_wait_and_no_batch_holds_all(written, lines, limited):
    assert written(*lines).admits_less_than(100) is limited
