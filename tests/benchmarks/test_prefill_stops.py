"""A forecast of the share of decode: its ends, and what moves it."""

import pytest

from benchmarks.prefill_stops import Load, forecast, main


def test_free_prefill_leaves_all_the_time_to_decode():
    share, rate = forecast(Load(100, 128), step_ms=10, prefill_ms=0)
    assert share == 1.0
    assert rate == pytest.approx(100 / 0.010, rel=0.03)


def test_one_request_pays_a_prefill_an_answer():
    share, _ = forecast(Load(1, 100), step_ms=1, prefill_ms=100, steps=40_000)
    assert share == pytest.approx(0.5, abs=0.03)


@pytest.mark.parametrize("better", [Load(100, 900), Load(100, 128, waiting=10)])
def test_longer_answers_and_shared_prefills_leave_more_to_decode(better):
    at_first, then = (forecast(load, step_ms=8, prefill_ms=20)[0] for load in (Load(100, 128), better))
    assert then > at_first + 0.3


def test_share_that_is_measured_is_the_share_that_was_forecast(tmp_path):
    from benchmarks.decode_share import Gap, share_of

    # Every hundredth of a forecast's load as a gap: steps and prefills in their ratio, varied.
    gaps = [Gap(100, 40, (40 * 8 + n * 20) / 1000, n, 95 * n) for n in (12, 20, 28, 16, 24, 22, 18, 20, 14, 26)]
    expected = 400 * 8 / (400 * 8 + sum(gap.batches for gap in gaps) * 20)
    assert share_of(gaps).share == pytest.approx(expected, abs=0.01)


def test_command_prints_a_line_for_each_case_and_refuses_what_is_no_probability(capsys):
    assert main(["--step-ms", "8", "--prefill-ms", "20", "--answers", "128", "--accept", "30", "20", "50"]) == 0
    assert len(capsys.readouterr().out.splitlines()) == 2
    with pytest.raises(SystemExit):
        main(["--step-ms", "8", "--prefill-ms", "20", "--accept", "0"])
