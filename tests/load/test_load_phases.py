import asyncio
import json

import pytest
from conftest import DONE, record, until

from search.contracts import Phase
from search.dialects import MetaFields
from search.errors import LoadFailed, UsageError
from search.load import Prompt, measure, run_phase
from search.outcomes import Evidence, Note, Reason

PROMPTS = [Prompt(f"p{i}", "chat", f"question {i}") for i in range(8)]
ONE = Phase(concurrency=1, requests=1, output_tokens=5)


async def steady(stream):
    """All tokens, one record each."""
    for n in range(1, stream.tokens):
        await stream.write(record(n))
        await asyncio.sleep(0.002)
    await stream.write(record(stream.tokens, finish="length") + DONE)


async def run(server, phase=ONE, prompts=PROMPTS, repeat=1, **options):
    return await run_phase(server.target(**options), prompts, phase, repeat, clock=server.clock)


async def failure(server, phase=ONE, **options) -> LoadFailed:
    with pytest.raises(LoadFailed) as caught:
        await run_phase(server.target(**options), PROMPTS, phase, 1)
    return caught.value


async def test_request_is_greedy_of_fixed_length_and_streamed(server):
    server.script = steady
    await run_phase(server.target(), PROMPTS, ONE, 1)
    assert server.asked == [
        {
            "text": "question 0",
            "sampling_params": {"temperature": 0, "max_new_tokens": 5, "ignore_eos": True},
            "stream": True,
        }
    ]


async def test_times_of_a_scripted_stream_come_out_exactly(server):
    async def script(stream):
        await stream.at(0.5, record(1))
        await stream.at(1.0, record(3))
        await stream.at(2.5, record(5, finish="length") + DONE)

    server.script = script
    result = await run(server)
    assert result.ttft_ms == pytest.approx(500)
    assert result.tpot_ms == pytest.approx(500)  # 2 s for the four tokens after the first
    assert result.output_tps == pytest.approx(2.0)
    assert result.whole_run_tps == pytest.approx(2.0)  # 5 tokens in 2.5 s
    assert result.window_tps == pytest.approx([0, 0, 10, 0, 0, 0, 0, 0, 0, 10])
    assert (result.output_tokens, result.requests, result.duration_s) == (5, 1, 2.5)
    assert (result.accept_length, result.accept_histogram, result.notes) == (None, (), ())


async def test_first_record_of_several_tokens_divides_by_the_tokens_after_it(server):
    async def script(stream):
        await stream.at(1.0, record(3))
        await stream.at(2.0, record(5, finish="length") + DONE)

    server.script = script
    assert (await run(server)).tpot_ms == pytest.approx(500)


async def test_record_cut_inside_a_character_counts_when_it_is_whole(server):
    async def script(stream):
        await stream.at(0.1, record(1, text="日"))
        whole = record(3, text="日本🙂")
        cut = whole.index("🙂".encode()) + 2
        await stream.at(0.2, whole[:cut])
        await stream.at(0.4, whole[cut:] + record(4, text="日本🙂!"))
        await stream.at(0.5, record(5, text="日本🙂!?", finish="length") + DONE)

    server.script = script
    result = await run(server)
    # (0.1, 0.5] in ten slices of 40 ms: tokens 2 to 4 at 0.4 s, token 5 at 0.5 s.
    assert result.window_tps == pytest.approx([0, 0, 0, 0, 0, 0, 0, 75, 0, 25])


async def test_last_record_that_repeats_the_count_moves_no_time(server):
    async def script(stream):
        await stream.at(1.0, record(1))
        await stream.at(3.0, record(5))
        await stream.at(9.0, record(5, finish="length") + DONE)

    server.script = script
    assert (await run(server)).tpot_ms == pytest.approx(500)


async def test_count_told_only_in_the_last_record_is_spread_over_arrivals(server):
    async def script(stream):
        await stream.at(1.0, record(None, text="a"))
        await stream.at(2.0, record(None, text="ab"))
        await stream.at(3.0, record(5, text="abc", finish="length") + DONE)

    server.script = script
    result = await run(server)
    assert (result.output_tokens, result.tpot_ms, result.output_tps) == pytest.approx((5, 500, 2.0))


async def test_counters_of_all_requests_make_accept_length_and_histogram(server):
    async def script(stream):
        passes, histogram = ((2, [0, 2]), (1, [0, 0, 0, 1]))[stream.number]
        await stream.write(record(1))
        await asyncio.sleep(0.005)
        await stream.write(record(5, finish="length", spec_verify_ct=passes, hist=histogram) + DONE)

    server.script = script
    fields = MetaFields(accept_histogram="hist")
    result = await run_phase(
        server.target(num_steps=3, meta_fields=fields), PROMPTS, Phase(concurrency=1, requests=2, output_tokens=5), 2
    )
    assert result.accept_length == pytest.approx(10 / 3)
    assert result.accept_histogram == (0, 2, 0, 1)
    assert (result.repeat, result.notes) == (2, ())


async def test_loop_is_closed_and_prompts_are_cycled_in_order(server):
    server.script = steady
    phase = Phase(concurrency=3, requests=9, output_tokens=4)
    result = await run_phase(server.target(), PROMPTS[:4], phase, 1)
    assert server.most_open == 3
    assert sorted(body["text"] for body in server.asked) == sorted(f"question {i % 4}" for i in range(9))
    assert (result.requests, result.output_tokens, len(result.prompt_tpot_ms)) == (9, 36, 9)


async def test_warm_up_uses_the_last_prompts_until_two_rounds_agree(server):
    waits = iter((1.0, 9.0, 9.2, 5.0))

    async def script(stream):
        base = server.clock.now - 100
        await stream.at(base + 0.5, record(1))
        await stream.at(base + next(waits), record(5, finish="length") + DONE)

    server.script = script
    phase = Phase(concurrency=1, requests=1, output_tokens=5, warmup_requests=1, warmup_rounds=6)
    result = await run(server, phase)
    assert [body["text"] for body in server.asked] == ["question 7"] * 3 + ["question 0"]
    assert result.warmup_s == pytest.approx(19.2)
    assert result.notes == ()
    assert server.flushes == 4


async def test_warm_up_that_never_settles_is_noted(server):
    waits = iter((1.0, 9.0, 4.0, 5.0))

    async def script(stream):
        base = server.clock.now - 100
        await stream.at(base + 0.5, record(1))
        await stream.at(base + next(waits), record(5, finish="length") + DONE)

    server.script = script
    phase = Phase(concurrency=1, requests=1, output_tokens=5, warmup_requests=1, warmup_rounds=3)
    assert (await run(server, phase)).notes == (Note.WARMUP_TAINTED,)


@pytest.mark.parametrize("status", [404, 400])
async def test_flush_that_a_server_refuses_is_no_failure(server, status):
    server.script, server.flush_status = steady, status
    result = await run_phase(server.target(), PROMPTS, ONE, 1)
    assert result.notes == ()
    assert server.flushes == {404: 1, 400: 10}[status]


async def test_prompts_served_from_the_cache_are_noted(server):
    async def script(stream):
        await stream.write(record(1))
        await asyncio.sleep(0.005)
        await stream.write(record(5, finish="length", prompt_tokens=100, cached_tokens=99) + DONE)

    server.script = script
    assert (await run_phase(server.target(), PROMPTS, ONE, 1)).notes == (Note.CACHE_TAINTED,)


async def test_early_stop_voids_the_phase(server):
    async def script(stream):
        await stream.write(record(1))
        await stream.write(record(4, finish="stop") + DONE)

    server.script = script
    failed = await failure(server)
    assert failed.reason is Reason.METRIC_INVALID
    assert "must generate 5 tokens" in failed.evidence.root_line
    assert "after 4" in failed.evidence.root_line


async def test_full_count_with_an_early_finish_reason_voids_the_phase(server):
    async def script(stream):
        await stream.write(record(1))
        await asyncio.sleep(0.005)
        await stream.write(record(5, finish="stop") + DONE)

    server.script = script
    assert (await failure(server)).reason is Reason.METRIC_INVALID


async def test_one_token_answer_voids_the_phase(server):
    async def script(stream):
        await stream.write(record(1, finish="length") + DONE)

    server.script = script
    assert (await failure(server)).reason is Reason.METRIC_INVALID


async def test_answer_that_comes_at_once_voids_the_phase(server):
    async def script(stream):
        await stream.write(record(5, finish="length") + DONE)

    server.script = script
    failed = await failure(server)
    assert failed.reason is Reason.METRIC_INVALID
    assert "came at once" in failed.evidence.root_line


async def test_falling_count_voids_the_phase(server):
    async def script(stream):
        await stream.write(record(3) + record(2) + DONE)

    server.script = script
    failed = await failure(server)
    assert (failed.reason, failed.evidence.root_line) == (
        Reason.METRIC_INVALID,
        "token counts of a stream must not fall, but 3 was followed by 2",
    )


@pytest.mark.parametrize(
    ("num_steps", "passes"),
    [(3, None), (3, 0), (1, 1), (None, 2), (3, 9)],
    ids=["missing", "zero", "beyond num_steps + 1", "without speculation", "below one"],
)
async def test_impossible_verify_count_voids_the_phase(server, num_steps, passes):
    async def script(stream):
        await stream.write(record(1))
        await asyncio.sleep(0.005)
        meta = {} if passes is None else {"spec_verify_ct": passes}
        await stream.write(record(5, finish="length", **meta) + DONE)

    server.script = script
    assert (await failure(server, num_steps=num_steps)).reason is Reason.METRIC_INVALID


async def test_stream_without_any_record_is_no_output(server):
    async def script(stream):
        await stream.write(DONE)

    server.script = script
    assert (await failure(server)).reason is Reason.CLIENT_NO_OUTPUT


async def test_stream_of_zero_tokens_is_no_output(server):
    async def script(stream):
        await stream.write(record(0, finish="length") + DONE)

    server.script = script
    assert (await failure(server)).reason is Reason.CLIENT_NO_OUTPUT


async def test_stream_that_ends_without_its_final_record_is_a_crash(server, monkeypatch):
    monkeypatch.setattr("search.load.client._DEATH_GRACE_S", 0.1)

    async def script(stream):
        await stream.write(record(1) + record(3))

    server.script = script
    failed = await failure(server)
    assert failed.reason is Reason.SERVER_CRASH_LOAD
    assert "p0 was lost" in failed.evidence.root_line
    assert failed.evidence.phase == "c=1"


async def test_server_that_dies_half_way_is_told_by_its_own_last_words(server, monkeypatch):
    monkeypatch.setattr("search.load.phases._WATCH_EVERY_S", 60.0)  # the broken stream alone must ask
    words = Evidence("CUDA error: an illegal memory access was encountered", "c=2", -9, "server.log")
    dead = []

    async def script(stream):
        await stream.write(record(1) + record(3))
        await asyncio.sleep(0.01)
        stream.cut()
        await asyncio.sleep(0.05)  # the supervisor notices a little later than the client
        dead.append(words)

    server.script = script
    phase = Phase(concurrency=2, requests=4, output_tokens=5)
    failed = await failure(server, phase, death=lambda: dead[0] if dead else None)
    assert (failed.reason, failed.evidence) == (Reason.SERVER_CRASH_LOAD, words)


async def test_death_without_a_broken_connection_ends_the_phase(server):
    words = Evidence("killed", "c=1", -9)
    server.script = lambda stream: stream.closed()
    failed = await failure(server, silence_s=0.2, death=lambda: words)
    assert (failed.reason, failed.evidence) == (Reason.SERVER_CRASH_LOAD, words)


async def test_silence_with_open_requests_is_a_hang_and_closes_connections(server):
    closed = []

    async def script(stream):
        await stream.write(record(1))
        await stream.closed()
        closed.append(stream.number)

    server.script = script
    failed = await failure(server, Phase(concurrency=2, requests=2, output_tokens=5), silence_s=0.2)
    assert failed.reason is Reason.SERVER_HANG_LOAD
    assert failed.evidence.root_line == "no token for 0.2 s with 2 requests open"
    await asyncio.sleep(0.05)
    assert sorted(closed) == [0, 1]


async def test_tokens_of_one_stream_keep_all_alive(server):
    async def script(stream):
        await stream.write(record(1))
        if stream.number == 0:
            await until(lambda: len(server.asked) == 5)  # silent while four others come and go
        await asyncio.sleep(0.12)
        await stream.write(record(2, finish="length") + DONE)

    server.script = script
    phase = Phase(concurrency=2, requests=5, output_tokens=2)
    assert (await run_phase(server.target(silence_s=0.3), PROMPTS, phase, 1)).requests == 5


async def test_slow_flush_is_no_silence(server):
    server.script, server.flush_takes_s = steady, 0.4
    phase = Phase(concurrency=1, requests=1, output_tokens=5, warmup_requests=1, warmup_rounds=1)
    assert (await run_phase(server.target(silence_s=0.2), PROMPTS, phase, 1)).requests == 1


async def test_endless_phase_is_a_hang(server):
    async def script(stream):
        for n in range(1, 1000):
            await stream.write(record(n))
            await asyncio.sleep(0.01)

    server.script = script
    failed = await failure(server, Phase(concurrency=1, requests=1, output_tokens=2000), phase_timeout_s=0.3)
    assert failed.reason is Reason.SERVER_HANG_LOAD
    assert "longer than 0.3 s" in failed.evidence.root_line


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (b'data: {"error": {"message": "The input is longer than the context"}}\n\n', Reason.TOOL_ERROR),
        (b'data: {"error": {"message": "broken", "code": 503}}\n\n', Reason.SERVER_CRASH_LOAD),
        (b'data: {"error": "CUDA out of memory"}\n\n', Reason.OOM_RUNTIME),
        (record(2) + b'data: {"error": {"message": "lost a rank"}}\n\n', Reason.SERVER_CRASH_LOAD),
        (b"data: <html>\n\n", Reason.METRIC_INVALID),
        (
            b'data: {"text": "", "meta_info": {"completion_tokens": 0, "finish_reason": '
            b'{"type": "abort", "message": "watchdog", "status_code": 500}}}\n\n',
            Reason.SERVER_CRASH_LOAD,
        ),
    ],
)
async def test_error_record_is_classified(server, line, reason):
    async def script(stream):
        await stream.write(line + DONE)

    server.script = script
    assert (await failure(server)).reason is reason


@pytest.mark.parametrize(("status", "reason"), [(500, Reason.SERVER_CRASH_LOAD), (422, Reason.TOOL_ERROR)])
async def test_error_status_is_classified_and_quoted_and_not_retried(server, status, reason):
    server.status = status
    failed = await failure(server)
    assert failed.reason is reason
    assert "the queue is on fire" in failed.evidence.root_line
    assert len(server.asked) == 1


async def test_server_that_is_not_there_is_a_crash(server, monkeypatch):
    monkeypatch.setattr("search.load.client._DEATH_GRACE_S", 0.1)
    server.url = "http://127.0.0.1:9"
    assert (await failure(server)).reason is Reason.SERVER_CRASH_LOAD


async def test_cancelled_phase_closes_its_connections(server):
    closed = asyncio.Event()

    async def script(stream):
        await stream.write(record(1))
        await stream.closed()
        closed.set()

    server.script = script
    task = asyncio.create_task(run_phase(server.target(), PROMPTS, ONE, 1))
    await until(lambda: server.open == 1)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await asyncio.wait_for(closed.wait(), 5)


async def test_workers_that_are_never_all_busy_void_the_phase(server):
    async def script(stream):
        if stream.number == 1:
            await until(lambda: server.open == 1)  # admitted only after the first request has ended
        await steady(stream)

    server.script = script
    failed = await failure(server, Phase(concurrency=2, requests=2, output_tokens=3))
    assert failed.reason is Reason.METRIC_INVALID
    assert "must be busy at once" in failed.evidence.root_line


async def test_requests_log_holds_times_and_counts_and_no_text(server, tmp_path):
    async def script(stream):
        await stream.at(0.5, record(1))
        await stream.at(2.5, record(5, finish="length", spec_verify_ct=2) + DONE)

    server.script = script
    log = tmp_path / "launch" / "requests.jsonl"
    await run_phase(server.target(num_steps=2), PROMPTS, ONE, 3, requests_log=log, clock=server.clock)
    assert [json.loads(line) for line in log.read_text().splitlines()] == [
        {
            "concurrency": 1,
            "repeat": 3,
            "index": 0,
            "prompt_id": "p0",
            "worker": 0,
            "start_s": 0.0,
            "first_s": 0.5,
            "last_s": 2.5,
            "tokens": 5,
            "verify_count": 2,
        }
    ]


async def test_requests_log_of_a_failed_phase_keeps_what_had_ended(server, tmp_path):
    async def script(stream):
        if stream.number == 1:
            await stream.write(b'data: {"error": {"message": "no"}}\n\n' + DONE)
        else:
            await steady(stream)

    server.script = script
    log = tmp_path / "requests.jsonl"
    with pytest.raises(LoadFailed):
        await run_phase(
            server.target(), PROMPTS, Phase(concurrency=1, requests=3, output_tokens=4), 1, requests_log=log
        )
    assert [json.loads(line)["prompt_id"] for line in log.read_text().splitlines()] == ["p0"]


@pytest.mark.parametrize(
    ("phase", "prompts", "words"),
    [
        (Phase(concurrency=4, requests=3, output_tokens=5), PROMPTS, "concurrency <= requests"),
        (Phase(concurrency=1, requests=1, output_tokens=1), PROMPTS, "output_tokens >= 2"),
        (ONE, [], "at least one prompt"),
    ],
)
async def test_phase_that_cannot_be_measured_is_refused(server, phase, prompts, words):
    with pytest.raises(UsageError, match=words):
        await run_phase(server.target(), prompts, phase, 1)
    assert server.asked == []


async def test_measure_runs_a_phase_from_plain_code(server):
    server.script = steady
    result = await asyncio.to_thread(measure, server.target(), PROMPTS, ONE, 1)
    assert (result.concurrency, result.output_tokens) == (1, 5)
