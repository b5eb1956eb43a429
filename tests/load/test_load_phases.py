import asyncio
import itertools
import json
from dataclasses import replace

import pytest
from load_streams import DONE, record, until

from search.contracts import Phase
from search.dialects import MetaFields
from search.errors import LoadFailed, UsageError
from search.load.phases import measure, run_phase
from search.load.sampling import Sampling
from search.load.target import Limits, Prompt
from search.outcomes import Blame, Evidence, Note, Reason

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


@pytest.mark.parametrize(
    ("sampling", "sent", "kept"),
    [
        (Sampling(), {"temperature": 0}, True),
        (Sampling(0.7), {"temperature": 0.7}, False),
        (Sampling(0.7, 0.95, 20), {"temperature": 0.7, "top_p": 0.95, "top_k": 20}, False),
    ],
)
async def test_request_is_sampled_as_asked_and_only_greedy_answers_are_kept(server, sampling, sent, kept):
    async def script(stream):
        await stream.at(0.5, record(1, ids=[1]))
        await stream.at(1.0, record(5, finish="length", ids=[1, 2, 3, 4, 5]) + DONE)

    server.script = script
    result = await run(server, replace(ONE, workload="code"), sampling=sampling)
    assert server.asked[0]["sampling_params"] == {**sent, "max_new_tokens": 5, "ignore_eos": True}
    assert (result.workload, result.outputs) == ("code", ((1, 2, 3, 4, 5),) if kept else ())


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
    assert result.window_tps == pytest.approx([4, 0, 0, 4])  # (0.5, 2.5] s in four slices
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
        await stream.at(0.35, whole[cut:] + record(4, text="日本🙂!"))
        await stream.at(0.5, record(5, text="日本🙂!?", finish="length") + DONE)

    server.script = script
    result = await run(server)
    # (0.1, 0.5] in four slices of 100 ms: tokens 2 to 4 at 0.35 s, token 5 at 0.5 s.
    assert result.window_tps == pytest.approx([0, 0, 30, 10])


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


@pytest.mark.parametrize(
    ("ids", "outputs"),
    [
        (([7], [7, 8, 9], [7, 8, 9, 4, 4]), ((7, 8, 9, 4, 4),)),
        (([7], [8, 9], [4, 4]), ((7, 8, 9, 4, 4),)),
        ((None, None, None), ()),
        (([7], [8, 9], [4]), ()),
        ((None, None, [7, 8, 9, 4, 4]), ((7, 8, 9, 4, 4),)),
        (([7], [7, 8, 9], ["7"]), ()),
    ],
    ids=["all so far", "new ones only", "untold", "not as many as counted", "at the end only", "no ids"],
)
async def test_token_ids_of_answers_are_kept_where_the_stream_tells_them(server, ids, outputs):
    async def script(stream):
        await stream.write(record(1, ids=ids[0]))
        await asyncio.sleep(0.005)
        await stream.write(record(3, ids=ids[1]) + record(5, ids=ids[2], finish="length") + DONE)

    server.script = script
    assert (await run_phase(server.target(), PROMPTS, ONE, 1)).outputs == outputs


async def test_latencies_of_a_scripted_phase_come_out_exactly(server):
    async def script(stream):
        base = 10.0 * stream.number
        await stream.at(base + (1.0, 3.0)[stream.number], record(1))
        await stream.at(base + 5.0, record(2) + record(4))
        await stream.at(base + 6.0, record(5, finish="length") + DONE)
        server.clock.now = 110.0  # the second request is sent at 10 s

    server.script = script
    limits = Limits(ttft_ms=2000)
    result = await run(server, Phase(concurrency=1, requests=2, output_tokens=5), limits=limits)
    assert (result.ttft_ms, result.ttft_p99_ms) == pytest.approx((2000, 2980))
    assert (result.e2e_ms, result.tpot_ms) == pytest.approx((6000, (5000 + 3000) / 2 / 4))
    assert (result.itl_ms, result.itl_p99_ms) == pytest.approx((8000 / 6, 3900))  # 4, 0, 1 and 2, 0, 1 s
    assert result.goodput_rps == pytest.approx(1 / 15)  # one of two in time, window (1, 16] s


@pytest.mark.parametrize(
    ("limits", "good"),
    [
        (None, None),
        (Limits(), 0.5),
        (Limits(ttft_ms=500), 0.5),
        (Limits(ttft_ms=499), 0.0),
        (Limits(tpot_ms=500), 0.5),
        (Limits(ttft_ms=900, tpot_ms=499), 0.0),
    ],
)
async def test_goodput_counts_requests_within_every_limit(server, limits, good):
    async def script(stream):
        await stream.at(0.5, record(1))
        await stream.at(2.5, record(5, finish="length") + DONE)

    server.script = script
    assert (await run(server, limits=limits)).goodput_rps == good


async def test_hash_of_the_prompts_is_of_those_measured_in_order(server):
    server.script = steady
    two = Phase(concurrency=1, requests=2, output_tokens=5)
    hashes = [
        (await run_phase(server.target(), prompts, two, 1)).prompts_sha256
        for prompts in (PROMPTS, PROMPTS[:2], PROMPTS[1:], PROMPTS[1::-1])
    ]
    assert hashes[0] == hashes[1]
    assert len(set(hashes)) == 3


async def test_busy_share_of_the_client_is_its_processor_time_per_run(server):
    async def script(stream):
        await stream.at(0.5, record(1))
        await stream.at(2.0, record(5, finish="length") + DONE)

    server.script = script
    spent = iter((7.0, 8.0))
    result = await run_phase(server.target(), PROMPTS, ONE, 1, clock=server.clock, processor=lambda: next(spent))
    assert result.client_busy == pytest.approx(0.5)


async def test_loop_is_closed_and_prompts_are_cycled_in_order(server):
    server.script = steady
    phase = Phase(concurrency=3, requests=9, output_tokens=4, staggered=False, spread=0.0)
    result = await run_phase(server.target(), PROMPTS[:4], phase, 1)
    assert server.most_open == 3
    assert sorted(body["text"] for body in server.asked) == sorted(f"question {i % 4}" for i in range(9))
    assert (result.requests, result.output_tokens, len(result.prompt_tpot_ms)) == (9, 36, 9)


async def test_staggered_phase_begins_with_one_shorter_answer_per_worker_from_the_end_of_the_prompts(server):
    server.script = steady
    phase = Phase(concurrency=3, requests=4, output_tokens=6, spread=0.0)
    result = await run_phase(server.target(), PROMPTS, phase, 1)
    asked = [(body["text"], body["sampling_params"]["max_new_tokens"]) for body in server.asked]
    assert sorted(asked[:3]) == [("question 5", 2), ("question 6", 4), ("question 7", 6)]
    assert sorted(asked[3:]) == [(f"question {i}", 6) for i in range(4)]
    assert server.most_open == 3
    assert (result.requests, result.output_tokens, len(result.prompt_tpot_ms)) == (4, 24, 4)
    assert result.prompt_ids == ("p0", "p1", "p2", "p3")
    assert result.warmup_s > 0


async def test_ramp_answers_of_one_token_are_no_failure(server):
    server.script = steady
    phase = Phase(concurrency=4, requests=8, output_tokens=3, spread=0.0)
    assert (await run_phase(server.target(), PROMPTS, phase, 1)).requests == 8
    assert sorted(body["sampling_params"]["max_new_tokens"] for body in server.asked[:4]) == [1, 2, 3, 3]


async def test_ramp_that_meets_a_dying_server_fails_as_any_request(server, monkeypatch):
    monkeypatch.setattr("search.load.client._DEATH_GRACE_S", 0.1)

    async def script(stream):
        if stream.tokens == 3:
            stream.cut()
        await steady(stream)

    server.script = script
    failed = await failure(server, Phase(concurrency=2, requests=2, output_tokens=6, spread=0.0))
    assert (failed.reason, failed.evidence.phase) == (Reason.SERVER_CRASH_LOAD, "c=2")


async def test_wall_clock_that_steps_back_moves_no_number(server, monkeypatch):
    async def script(stream):
        await stream.write(record(1))
        monkeypatch.setattr("time.time", lambda: 0.0)
        await asyncio.sleep(0.01)
        await stream.write(record(5, finish="length") + DONE)

    server.script = script
    result = await run_phase(server.target(), PROMPTS, ONE, 1)
    assert 0 < result.duration_s < 60
    assert result.tpot_ms > 0


async def test_answers_of_a_loaded_phase_have_the_same_mixed_lengths_for_every_config(server):
    server.script = steady
    for num_steps in (None, None):
        server.asked.clear()
        result = await run_phase(
            server.target(num_steps=num_steps),
            PROMPTS,
            Phase(concurrency=2, requests=6, output_tokens=16, staggered=False),
            1,
        )
        asked = {body["text"]: body["sampling_params"]["max_new_tokens"] for body in server.asked}
        assert [asked[f"question {i}"] for i in range(6)] == [16, 10, 20, 14, 24, 17]
        assert result.output_tokens == 101


async def test_answers_have_one_length_where_nothing_can_fall_into_step_or_none_is_wanted(server):
    server.script = steady
    for phase in (Phase(1, 3, 16), Phase(2, 3, 16, staggered=False, spread=0.0)):
        server.asked.clear()
        await run_phase(server.target(), PROMPTS, phase, 1)
        assert [body["sampling_params"]["max_new_tokens"] for body in server.asked] == [16, 16, 16]


async def test_ramp_counts_in_the_rate_and_nowhere_else(server):
    async def script(stream):
        # Worker 0 has 2 of 4 tokens to ramp up with, worker 1 all 4; a token every second for both.
        match stream.number:
            case 0:
                await stream.at(1.0, record(1))
                await until(lambda: server.step == 1)
                await stream.at(2.0, record(2, finish="length") + DONE)
            case 1:
                await until(lambda: server.clock.now == 101.0)
                await stream.at(1.0, record(1))
                server.step = 1
                await until(lambda: len(server.asked) == 3)
                await stream.at(3.0, record(2))
                server.step = 2
                await until(lambda: server.step == 3)
                await stream.at(5.0, record(4, finish="length") + DONE)
            case 2:
                await until(lambda: server.step == 2)
                await stream.at(4.0, record(1))
                server.step = 3
                await until(lambda: len(server.asked) == 4)
                await stream.at(6.0, record(4, finish="length") + DONE)
                server.step = 4
            case 3:
                await until(lambda: server.step == 4)
                await stream.at(7.0, record(1))
                await stream.at(9.0, record(4, finish="length") + DONE)

    server.script, server.step = script, 0
    result = await run(server, Phase(concurrency=2, requests=2, output_tokens=4, spread=0.0))
    # Window (1, 6] s: one token at 2, one at 3, one at 4, two at 5, three at 6; the run is 2 to 9 s.
    assert result.output_tps == pytest.approx(8 / 5)
    assert result.window_tps == pytest.approx([0.8, 0.8, 0.8, 4.0])
    assert (result.duration_s, result.whole_run_tps) == pytest.approx((7.0, 8 / 7))
    assert (result.ttft_ms, result.tpot_ms, result.e2e_ms) == pytest.approx((2000, 2000 / 3, 4000))
    assert result.warmup_s == pytest.approx(2.0)


@pytest.mark.parametrize("phase", [ONE, Phase(concurrency=2, requests=2, output_tokens=5, staggered=False, spread=0.0)])
async def test_no_ramp_at_concurrency_1_or_when_not_asked_for(server, phase):
    server.script = steady
    await run_phase(server.target(), PROMPTS, phase, 1)
    assert len(server.asked) == phase.requests


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
    phase = Phase(concurrency=2, requests=4, output_tokens=5, spread=0.0)
    failed = await failure(server, phase, death=lambda: dead[0] if dead else None)
    assert failed.reason is Reason.SERVER_CRASH_LOAD
    assert failed.evidence == replace(words, requested=4, completed=0)


async def test_death_without_a_broken_connection_ends_the_phase(server):
    words = Evidence("killed", "c=1", -9)
    server.script = lambda stream: stream.closed()
    failed = await failure(server, silence_s=0.2, death=lambda: words)
    assert failed.reason is Reason.SERVER_CRASH_LOAD
    assert failed.evidence == replace(words, requested=1, completed=0)


async def test_silence_with_open_requests_is_a_hang_and_closes_connections(server):
    closed = []

    async def script(stream):
        await stream.write(record(1))
        await stream.closed()
        closed.append(stream.number)

    server.script = script
    failed = await failure(server, Phase(concurrency=2, requests=2, output_tokens=5, spread=0.0), silence_s=0.2)
    assert failed.reason is Reason.SERVER_HANG_LOAD
    assert failed.evidence.root_line.startswith("waited for a token: none for 0.2")
    assert failed.evidence.root_line.endswith("s with 2 requests open, and no new line in the log")
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
    phase = Phase(concurrency=2, requests=5, output_tokens=2, spread=0.0)
    assert (await run_phase(server.target(silence_s=0.3), PROMPTS, phase, 1)).requests == 5


async def test_slow_flush_is_no_silence(server):
    server.script, server.flush_takes_s = steady, 0.4
    phase = Phase(concurrency=1, requests=1, output_tokens=5, warmup_requests=1, warmup_rounds=1)
    assert (await run_phase(server.target(silence_s=0.2), PROMPTS, phase, 1)).requests == 1


async def slow(stream):
    for n in range(1, stream.tokens):
        await stream.write(record(n))
        await asyncio.sleep(0.05)
    await stream.write(record(stream.tokens, finish="length") + DONE)


async def test_slow_phase_goes_on_as_long_as_tokens_come(server):
    """Ten times as long as the window of a crawl, and as the longest silence."""
    server.script = slow
    phase = Phase(concurrency=1, requests=1, output_tokens=40)
    result = await run_phase(server.target(silence_s=0.2, crawl_s=0.2, crawl_arrivals=2), PROMPTS, phase, 1)
    assert result.output_tokens == 40


async def test_crawling_phase_is_a_hang_and_says_what_was_waited_for(server):
    server.script = slow
    phase = Phase(concurrency=1, requests=1, output_tokens=400)
    failed = await failure(server, phase, crawl_s=0.3, crawl_arrivals=60)
    assert failed.reason is Reason.SERVER_HANG_LOAD
    assert "waited for tokens: " in failed.evidence.root_line
    assert "in 0.3 s with 1 requests open, but at least 60 must" in failed.evidence.root_line


async def test_silence_is_believed_for_longer_while_the_log_grows(server):
    async def script(stream):
        await stream.write(record(1))
        await asyncio.sleep(0.5)  # prefills chunk by chunk
        await stream.write(record(2, finish="length") + DONE)

    server.script, log = script, itertools.count(1)
    phase = Phase(concurrency=1, requests=1, output_tokens=2)
    target = server.target(silence_s=0.2, log_bytes=lambda: next(log))
    assert (await run_phase(target, PROMPTS, phase, 1)).requests == 1


async def test_log_that_goes_on_for_ever_without_a_token_is_a_hang(server):
    server.script, log = (lambda stream: stream.closed()), itertools.count(1)
    failed = await failure(server, silence_s=0.1, log_bytes=lambda: next(log))
    assert failed.reason is Reason.SERVER_HANG_LOAD
    assert failed.evidence.root_line.endswith("though the log goes on")


async def test_flush_that_is_never_answered_is_a_hang(server, monkeypatch):
    monkeypatch.setattr("search.load.client._FLUSH_ANSWER_S", 0.2)
    server.script, server.flush_takes_s = steady, 30.0
    failed = await failure(server)
    assert (failed.reason, failed.evidence.phase) == (Reason.SERVER_HANG_LOAD, "c=1")
    assert "an answer to /flush_cache" in failed.evidence.root_line


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (b'data: {"error": {"message": "The input is longer than the context"}}\n\n', Reason.TOOL_ERROR),
        (b'data: {"error": {"message": "broken", "code": 500}}\n\n', Reason.SERVER_CRASH_LOAD),
        (b'data: {"error": {"message": "queue is full", "code": 503}}\n\n', Reason.UNKNOWN),
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


@pytest.mark.parametrize(
    ("status", "reason"),
    [
        (500, Reason.SERVER_CRASH_LOAD),
        (422, Reason.TOOL_ERROR),
        (503, Reason.UNKNOWN),
        (429, Reason.UNKNOWN),
    ],
)
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
    failed = await failure(server, Phase(concurrency=2, requests=2, output_tokens=3, staggered=False, spread=0.0))
    assert failed.reason is Reason.METRIC_INVALID
    assert "must be busy at once" in failed.evidence.root_line


async def test_refusal_for_the_moment_blames_no_config(server):
    server.status = 503
    assert (await failure(server)).blame is not Blame.CONFIG


async def test_result_tells_how_many_were_requested_and_how_many_completed(server):
    server.script = steady
    result = await run_phase(server.target(), PROMPTS, Phase(concurrency=1, requests=3, output_tokens=5), 1)
    assert (result.requested, result.requests) == (3, 3)


async def test_failed_phase_tells_how_many_were_requested_and_how_many_completed(server):
    async def script(stream):
        await (stream.write(b'data: {"error": {"message": "no"}}\n\n' + DONE) if stream.number == 2 else steady(stream))

    server.script = script
    failed = await failure(server, Phase(concurrency=1, requests=5, output_tokens=5))
    assert (failed.evidence.requested, failed.evidence.completed) == (5, 2)


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
