"""The share of decode, read from logs whose share is known because they were written with it."""

import random
from pathlib import Path

import pytest

from benchmarks.decode_share import LEAST_GAPS, gaps_of, main, share_of

ROOT = Path(__file__).parents[2]
STAMP = "[2026-12-01 09:00:00 TP0]"


def prefill(tokens):
    return (
        f"{STAMP} Prefill batch, #new-seq: 2, #new-token: {tokens}, #cached-token: 0, token usage: 0.02, #running-req: 98, "
        "#queue-req: 0, #pending-token: 0, cuda graph: False, input throughput (token/s): 812.20"
    )


def decode(rate, running=100, accept=2.5):
    told = f"accept len: {accept:.2f}, accept rate: 0.50, " if accept else ""
    return (
        f"{STAMP} Decode batch, #running-req: {running}, #token: 39962, token usage: 0.05, {told}cuda graph: True, "
        f"gen throughput (token/s): {rate:.2f}, #queue-req: 0"
    )


def log_of(*, count, step_s, batch_s, token_s=0.0, interval=40, noise=0.0, accept=2.5, most=6, seed=0):
    """Lines of a load of 100 and the share of decode in them."""
    rng = random.Random(seed)
    lines, whole, decoded = [decode(1.0, accept=accept)], 0.0, 0.0
    for _ in range(count):
        batches = [rng.randrange(40, 200) for _ in range(rng.randrange(most + 1))]
        lines += [prefill(tokens) for tokens in batches]
        spent = interval * step_s + len(batches) * batch_s + sum(batches) * token_s
        decoded, whole = decoded + interval * step_s, whole + spent
        lines.append(
            decode(interval * 100 * (accept or 1.0) / (spent * rng.uniform(1 - noise, 1 + noise)), accept=accept)
        )
    return lines, decoded / whole


@pytest.mark.parametrize(
    ("step_s", "batch_s", "token_s"), [(0.010, 0.010, 0.0), (0.010, 0.060, 0.0001), (0.002, 0.080, 0.0)]
)
@pytest.mark.parametrize("accept", [None, 2.5])
def test_share_is_found_where_nothing_is_noisy(step_s, batch_s, token_s, accept):
    lines, truth = log_of(count=60, step_s=step_s, batch_s=batch_s, token_s=token_s, accept=accept)
    share = share_of(list(gaps_of(lines, 40)))
    assert share.share == pytest.approx(truth, abs=0.01)
    assert share.step_ms == pytest.approx(1000 * step_s, rel=0.02)
    assert share.low <= share.share <= share.high


def test_uncertainty_holds_the_truth_where_the_host_is_noisy():
    held = 0
    for seed in range(20):
        lines, truth = log_of(count=80, step_s=0.010, batch_s=0.030, noise=0.1, seed=seed)
        share = share_of(list(gaps_of(lines, 40)))
        held += share.low <= truth <= share.high
    assert held >= 16


def test_load_without_prefill_is_all_decode():
    lines, _ = log_of(count=30, step_s=0.01, batch_s=0.0, most=0)
    assert share_of(list(gaps_of(lines, 40))).share == 1.0


def test_prefill_that_never_varies_is_not_called_decode_with_certainty():
    lines = [decode(1.0)]
    rng = random.Random(1)
    for _ in range(40):
        lines += [prefill(100)] * 3
        lines.append(decode(40 * 250 / (0.4 * rng.uniform(0.9, 1.1))))
    share = share_of(list(gaps_of(lines, 40)))
    assert share.verdict(0.8) == "not settled"


def test_gaps_are_of_the_lines_between_and_the_first_line_has_none():
    lines = [prefill(500), decode(100.0), prefill(70), prefill(30), "Traceback", decode(5000.0, running=96)]
    (gap,) = gaps_of(lines, 4)
    assert (gap.running, gap.steps, gap.batches, gap.tokens) == (96, 4, 2, 100)
    assert gap.seconds == pytest.approx(4 * 98 * 2.5 / 5000)


def test_few_gaps_give_no_share():
    lines, _ = log_of(count=LEAST_GAPS - 1, step_s=0.01, batch_s=0.01)
    assert share_of(list(gaps_of(lines, 40))) is None


@pytest.mark.parametrize(("batch_s", "status", "answer"), [(0.001, 0, "yes"), (0.3, 1, "no")])
def test_command_says_whether_decode_fills_the_load(tmp_path, capsys, batch_s, status, answer):
    lines, _ = log_of(count=60, step_s=0.010, batch_s=batch_s)
    path = tmp_path / "server.log"
    # A smaller load in the same log has no part in it.
    path.write_text("\n".join([decode(9.0, running=10)] * 30 + lines))
    assert main([str(path), "--load", "100"]) == status
    assert capsys.readouterr().out.rstrip().endswith(f"at least 80%: {answer}")


def test_command_without_such_a_load_says_what_to_do(tmp_path, capsys):
    path = tmp_path / "server.log"
    path.write_text(decode(9.0, running=10))
    assert main([str(path)]) == 2
    assert "--decode-log-interval" in capsys.readouterr().out


def test_shapes_of_a_shared_start_are_read_apart_and_a_refused_switch_changes_none(tmp_path, capsys):
    path = tmp_path / "server.log"
    fast, _ = log_of(count=40, step_s=0.010, batch_s=0.001)
    slow, _ = log_of(count=40, step_s=0.010, batch_s=0.3)
    said = f"{STAMP} SEARCH_SHAPES {{}} k2-s2-d7 after 1.20 s"
    path.write_text("\n".join([*fast, said.format("refused") + ": no room", *fast, said.format("switched"), *slow]))
    assert main([str(path)]) == 1
    told = capsys.readouterr().out.splitlines()
    assert [(line.split(" at C=")[0], line.rsplit(": ", 1)[1]) for line in told] == [
        ("as started", "yes"),
        ("k2-s2-d7", "no"),
    ]


def test_words_of_a_switch_are_the_plugin_s():
    from benchmarks import decode_share

    assert decode_share.SWITCHED in (ROOT / "plugin/search_shapes/switch.py").read_text().split("SWITCHED, ")[1]
