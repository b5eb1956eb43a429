"""From phases to readings."""

from search.contracts import PhaseResult
from search.stats.phase_readings import reading_of


def phase(concurrency: int = 1, **more: object) -> PhaseResult:
    told = {
        "output_tps": 90.0,
        "tpot_ms": 11.0,
        "ttft_ms": None,
        "prompt_tpot_ms": (10.0, 12.0),
        "prompt_ids": ("a", "b"),
    }
    fixed = {
        "concurrency": concurrency,
        "repeat": 2,
        "requests": 2,
        "output_tokens": 64,
        "duration_s": 1.0,
        "whole_run_tps": None,
    }
    return PhaseResult(**(fixed | told | more))  # type: ignore[arg-type]


def test_reading_of_time_per_token_brings_its_prompts():
    told = reading_of(phase(), lambda one: one.tpot_ms, start=7, slot="0", prompt_set="search", fresh=True)
    assert (told.start, told.repeat, told.value, told.fresh) == (7, 2, 11.0, True)
    assert told.prompts == (("a", 10.0), ("b", 12.0))


def test_reading_of_another_metric_or_load_has_no_prompts():
    assert reading_of(phase(), lambda one: one.output_tps, start=1).prompts == ()
    assert reading_of(phase(100), lambda one: one.tpot_ms, start=1).prompts == ()


def test_reading_without_named_prompts_has_none():
    assert reading_of(phase(prompt_ids=()), lambda one: one.tpot_ms, start=1).prompts == ()


def test_phase_that_does_not_tell_the_metric_is_no_reading():
    assert reading_of(phase(tpot_ms=None), lambda one: one.tpot_ms, start=1) is None


def test_prompt_that_was_sent_twice_counts_with_the_mean_of_its_answers():
    told = reading_of(
        phase(prompt_tpot_ms=(10.0, 12.0, 20.0), prompt_ids=("a", "b", "a")), lambda one: one.tpot_ms, start=1
    )
    assert told.prompts == (("a", 15.0), ("b", 12.0))
