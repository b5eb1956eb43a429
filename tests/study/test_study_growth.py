"""What a line about a launch costs late in a study, counted in calls of our own code."""

from datetime import UTC, datetime
from types import SimpleNamespace

from made_phases import phase

from search.config import SpecConfig
from search.outcomes import Outcome
from search.report.lines import launched_line
from search.spec.file import parse_study
from search.storage.records import LaunchRecord
from search.study.progress import Progress


def launch(number, config):
    share = 0.95 if config.allreduce_fusion == "auto" else 1.0
    rates = {1: share * (90 + number % 7), 30: share * (700 + number % 11), 100: share * (770 + number % 13)}
    phases = tuple(phase(load, rate, repeat=repeat) for load, rate in rates.items() for repeat in (1, 2))
    at = datetime(2026, 1, 1, tzinfo=UTC)
    return LaunchRecord(number, "known", config, config, at, outcome=Outcome.MEASURED, phases=phases)


def study_of(many, spec):
    configs = [SpecConfig("off"), SpecConfig("off", allreduce_fusion="auto")]
    configs += [
        SpecConfig("v1", 1, steps, steps + 1, extra=(("page_size", size),))
        for steps in range(1, 251)
        for size in (1, 16, 32, 64)
    ]
    launches = [launch(number, config) for number, config in enumerate(configs[:many], start=1)]
    return Progress(SimpleNamespace(spec=spec), store=None, budget=None, launches=launches)


def test_line_about_a_launch_at_1000_launches_costs_at_most_twice_what_it_costs_at_100(study_text, calls_of):
    spec = parse_study(study_text, name="x")
    costs = []
    for many in (100, 1000):
        progress = study_of(many, spec)
        last = progress.launches[-1]
        costs.append(
            calls_of(lambda progress=progress, last=last: launched_line(last, progress.judgements(last).brief))
        )
    assert costs[1] <= 2 * costs[0], costs


def test_line_says_the_same_from_the_brief_judgement_as_from_the_whole_when_no_baselines_tie(study_text):
    progress = study_of(40, parse_study(study_text, name="x"))
    for record in progress.launches:
        told = progress.judgements(record)
        assert launched_line(record, told.brief) == launched_line(record, told.whole)
    assert "%)" in launched_line(progress.launches[-1], told.brief)
