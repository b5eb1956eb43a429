"""Files are renewed as a study runs; lines read as promised."""

import os
from dataclasses import replace
from datetime import UTC, datetime

import pytest

from search.analysis.findings import PredictedValue, PredictedValues
from search.config import SpecConfig
from search.contracts import VirtualClock
from search.metrics import METRICS, gain_percent, number
from search.outcomes import Evidence, Note
from search.report.lines import brief_line, launched_line, launching_line, start_lines
from search.report.listener import ReportListener, RunLog
from search.report.text import duration
from search.stats.estimates import Estimate
from search.study.events import Ending, Judgements, Launching, RunStart


@pytest.fixture
def clock():
    return VirtualClock(datetime(2026, 3, 2, 20, 0, tzinfo=UTC))


@pytest.fixture
def pages(monkeypatch):
    written = []
    monkeypatch.setattr("search.report.listener.write_page", lambda folder, content: written.append(folder))
    return written


def test_listener_writes_tables_each_time_and_the_page_twice_a_minute(tmp_path, content, clock, pages):
    judgements = Judgements(lambda: content.judgement, lambda: content.judgement)
    listener = ReportListener(tmp_path, lambda judgement: content, clock)
    for _ in range(7):
        (tmp_path / "trials.csv").unlink(missing_ok=True)
        listener.launched(content.launches[0], judgements)
        assert (tmp_path / "trials.csv").exists()
        clock.spend(10.0)
    assert len(pages) == 3  # at 0, 30 and 60 s


def test_listener_writes_the_page_at_the_end_whenever_it_was_written_last(tmp_path, content, clock, pages):
    judgements = Judgements(lambda: content.judgement, lambda: content.judgement)
    listener = ReportListener(tmp_path, lambda judgement: content, clock)
    listener.launched(content.launches[0], judgements)
    listener.ended(Ending.LAUNCHES, content.judgement)
    assert len(pages) == 2


def test_listener_on_a_disk_that_fails_warns_and_goes_on(tmp_path, content, clock, caplog):
    judgements = Judgements(lambda: content.judgement, lambda: content.judgement)
    (tmp_path / "file").write_text("in the way")
    ReportListener(tmp_path / "file", lambda judgement: content, clock).launched(content.launches[0], judgements)
    RunLog(tmp_path / "file" / "run.log", clock).ended(Ending.HOURS, content.judgement)
    assert "the report could not be written" in caplog.text


def test_run_log_appends_lines_with_their_time(tmp_path, content, clock):
    for _ in range(2):
        log = RunLog(tmp_path / "new" / "run.log", clock)
        log.launching(Launching(1, 40, "baseline", SpecConfig.from_id("off"), "first"))
        clock.spend(60.0)
        log.ended(Ending.LAUNCHES, replace(content.judgement, headlines=("a\nb",)))
    assert (tmp_path / "new/run.log").read_text().splitlines()[:4] == [
        "2026-03-02T20:00:00Z [ 1/40] baseline: off starts (first)",
        "2026-03-02T20:01:00Z ended: the launch budget is spent",
        "2026-03-02T20:01:00Z a b",
        "2026-03-02T20:01:00Z [ 1/40] baseline: off starts (first)",
    ]


@pytest.mark.parametrize("kind", ["pipe", "device", "link"])
def test_run_log_that_is_no_file_of_ours_is_neither_waited_for_nor_written(tmp_path, clock, caplog, kind):
    path, elsewhere = tmp_path / "run.log", tmp_path / "elsewhere"
    elsewhere.write_text("mine\n")
    if kind == "pipe":
        os.mkfifo(path)
    else:
        path.symlink_to("/dev/zero" if kind == "device" else elsewhere)
    RunLog(path, clock).noticed("a line")

    assert "run.log could not be written" in caplog.text and elsewhere.read_text() == "mine\n"


def test_run_log_takes_what_no_encoding_has(tmp_path, clock):
    RunLog(tmp_path / "run.log", clock).noticed("caf\udce9")
    assert "caf" in (tmp_path / "run.log").read_text()


def test_result_line_compares_with_the_best_baseline(content):
    assert launched_line(content.launches[1], content.judgement, of=40) == (
        "[ 2/40] v2-k1-s2-d3  c1 86.8 tok/s (-6.4%)  c30 759 tok/s (+10.1%)  c100 775 tok/s (+0.2%)  "
        "c250 754 tok/s (+5.1%)  accept 1.9/1.9/1.9/1.9  boot 13m02s  total 21m00s"
    )


def test_line_of_a_terminal_fits_100_columns(content):
    line = brief_line(content.launches[1], content.judgement, of=40)
    assert line == (
        "[ 2/40] v2-k1-s2-d3  c1 86.8 -6.4%  c30 759 +10.1%  c100 775 +0.2%  c250 754 +5.1%  acc 1.9  21m00s"
    )
    assert len(line) <= 100


def test_line_of_a_ladder_shows_the_repeated_loads_and_counts_the_others(content):
    phases = content.launches[1].phases
    ladder = tuple(replace(phases[1], concurrency=load) for load in (2, 5, 10, 20, 50))
    launch = replace(content.launches[1], phases=(*phases, replace(phases[0], repeat=2), *ladder))
    line = brief_line(launch, content.judgement, of=40)
    assert "  c1 86.8 -6.4%  " in line and "  +5 loads  " in line and len(line) <= 110


def test_line_of_a_failure_is_whole(content):
    assert brief_line(content.launches[3], content.judgement, of=40) == launched_line(
        content.launches[3], content.judgement, of=40
    )


def test_result_line_names_numbers_outside_what_was_predicted(content):
    launch = content.launches[1]
    outside = PredictedValue(2, launch.config, 100, METRICS["output_tps"], (800.0, 850.0, 900.0), Estimate(775.0))
    inside = PredictedValue(2, launch.config, 1, METRICS["output_tps"], (80.0, 85.0, 90.0), Estimate(86.8))
    elsewhere = replace(outside, launch=3)
    judged = replace(content.judgement, predictions=PredictedValues((inside, outside, elsewhere)))
    assert launched_line(launch, judged, of=40).endswith(
        "  total 21m00s  the model was wrong here: c100 expected 850 (800 to 900)"
    )


def test_result_line_of_the_baseline_compares_with_nothing(content):
    assert launched_line(content.launches[0], content.judgement, of=3) == (
        "[1/3] off  c1 92.7 tok/s  c30 689 tok/s  c100 773 tok/s  c250 718 tok/s  boot 13m02s  total 21m00s"
    )


def test_result_line_says_what_was_asked_when_something_else_ran(content):
    asked = SpecConfig.from_id("v2-k2-s2-d7")
    launch = replace(content.launches[1], asked=asked, notes=(Note.EFFECTIVE_DIFFERS,))
    line = launched_line(launch, content.judgement)
    assert line.startswith("[2] v2-k1-s2-d3 (asked: v2-k2-s2-d7)  c1 ")
    assert line.endswith("  EFFECTIVE_DIFFERS")


def test_failure_line_gives_reason_and_log_and_no_control_characters(content):
    launch = replace(content.launches[3], evidence=Evidence("out of\x1b[2J\r memory", log_path="a/server.log"))
    assert launched_line(launch, content.judgement, of=40) == (
        "[ 4/40] v1-k2-s2-d7  FAILED OOM_GRAPH  out of memory  see a/server.log"
    )


def test_start_lines_tell_space_and_budget():
    start = RunStart("kimi-k25.simulated", "simulated", 172, 150, 580, 12, 40, 9.5)
    assert start_lines(start) == [
        "study kimi-k25.simulated [SIMULATED]: 172 valid configs (150 locked and 580 dropped)",
        "plan: 28 launches at most, about 9h30m; 12 launches already made",
    ]
    both = replace(start, expected_hours=None, budget_hours=6.5)
    assert start_lines(both)[1] == "plan: 28 launches or 6.5 hours at most; 12 launches already made"


def test_launching_line_tells_stage_and_reason():
    launch = Launching(3, 40, "known", SpecConfig.from_id("v2-k1-s2-d3"), "named in the study file")
    assert launching_line(launch) == "[ 3/40] known: v2-k1-s2-d3 starts (named in the study file)"


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(None, "-"), (0, "0s"), (59.6, "1m00s"), (782, "13m02s"), (3600, "1h00m"), (88_200, "24h30m"), (180_000, "2d02h")],
)
def test_duration_reads(seconds, text):
    assert duration(seconds) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "-"),
        (2.934, "2.93"),
        (86.82, "86.8"),
        (99.94, "99.9"),
        (99.96, "100"),
        (775.4, "775"),
        (12_100, "12,100"),
    ],
)
def test_number_reads(value, text):
    assert number(value) == text


@pytest.mark.parametrize(("ratio", "text"), [(1.1014, "+10.1%"), (0.9999, "+0.0%"), (0.936, "-6.4%"), (2.2, "+120%")])
def test_ratio_reads_as_a_signed_percentage(ratio, text):
    assert gain_percent(ratio) == text
