"""What an ask and a judgement cost late in a study, against early: processor seconds at 100 and at 1,000 launches.

An ask is that of `frontier` after one more trial has ended. Of judgements there are two. After every launch the loop
needs the brief one, of the baselines and that launch. The whole one tells of every config, so it grows with them; the
report asks for it no more often than that takes a twentieth of the time.

    python -m benchmarks.growth [--json PATH]
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path

import optuna
from optuna.trial import create_trial

from search.analysis.analyse import judge
from search.analysis.memo import Memo
from search.config import SpecConfig, SpecVersion
from search.contracts import PhaseResult
from search.outcomes import Outcome
from search.samplers.evidence import EVIDENCE, evidence_of
from search.samplers.factory import make_sampler
from search.spec.file import load_study
from search.spec.study import StudySpec
from search.storage.optuna_side import quiet_optuna
from search.storage.records import LaunchRecord

EARLY, LATE = 100, 1000
TARGET = 2.0
"""Times as much late as early, at most."""
TIMES = 3


@dataclass(frozen=True)
class Growth:
    """Processor seconds of one piece of work, the least of three."""

    work: str
    early_s: float
    late_s: float

    @property
    def factor(self) -> float:
        """Late / early."""
        return self.late_s / self.early_s


def space() -> list[SpecConfig]:
    """A baseline and 1,040 chains."""
    chains = [
        SpecConfig(version, 1, steps, steps + 1, allreduce_fusion=fusion, extra=(("page_size", size),))
        for version in (SpecVersion.V1, SpecVersion.V2)
        for fusion in ("off", "auto")
        for size in (1, 16, 32, 64)
        for steps in range(1, 66)
    ]
    return [SpecConfig(SpecVersion.OFF), *chains]


def phases(place: int, loads: Sequence[int]) -> Iterator[PhaseResult]:
    """Two repeats at each load, of a config that differs from its neighbours by some percent."""
    for load in loads:
        rate = (90.0 + place % 7) if load == 1 else 700.0 + place % 11
        for repeat in (1, 2):
            pace = rate * (1 + 0.01 * repeat)
            yield PhaseResult(
                concurrency=load,
                repeat=repeat,
                requests=16,
                output_tokens=4096,
                duration_s=10.0,
                output_tps=pace,
                whole_run_tps=pace,
                tpot_ms=1000 * load / pace,
                ttft_ms=50.0,
                accept_length=None if place == 0 else 2.0 + 0.001 * (place % 50),
            )


def ask_s(many: int) -> float:
    """Of one ask of `frontier`, with `many` trials before it that it has seen and one that it has not."""
    configs = space()
    sampler = make_sampler("frontier", configs=configs, seed=1)
    with quiet_optuna():
        study = optuna.create_study(directions=["minimize", "maximize"], sampler=sampler)
        for place, config in enumerate(configs[:many]):
            _add(study, sampler.distributions, place, config)
        _ = study.ask().relative_params
        spent = []
        for more in range(TIMES):
            _add(study, sampler.distributions, many + more, configs[many + more])
            spent.append(_spent(lambda: study.ask().relative_params))
    return min(spent)


def _add(
    study: optuna.Study,
    distributions: Mapping[str, optuna.distributions.BaseDistribution],
    place: int,
    config: SpecConfig,
) -> None:
    phases_of = list(phases(place, (1, 100)))
    low, high = ([one for one in phases_of if one.concurrency == load] for load in (1, 100))
    study.add_trial(
        create_trial(
            params=config.params,
            distributions={name: distributions[name] for name in config.params},
            values=[low[0].tpot_ms or 0.0, high[0].output_tps],
            constraints={"launch": 0.0},
            user_attrs={EVIDENCE: evidence_of(phases_of).dumped()},
        )
    )


def judgement_s(many: int, spec: StudySpec, *, whole: bool) -> float:
    """Of one judgement, with `many` launches before it that were judged and one that was not."""
    launches = [_launch(place, config, spec) for place, config in enumerate(space()[: many + TIMES])]
    memo, spent = Memo(), []
    judge(spec, launches[:many], memo)
    for more in range(TIMES):
        known = launches[: many + more + 1]
        history = known if whole else [one for one in known if one is known[-1] or not one.config.speculates]
        spent.append(_spent(lambda history=history: judge(spec, history, memo)))  # type: ignore[misc]
    return min(spent)


def _launch(place: int, config: SpecConfig, spec: StudySpec) -> LaunchRecord:
    at = datetime(2026, 1, 1, tzinfo=UTC)
    measured_phases = tuple(phases(place, spec.loads))
    return LaunchRecord(place + 1, "search", config, config, at, outcome=Outcome.MEASURED, phases=measured_phases)


def _spent(work: Callable[[], object]) -> float:
    began = time.process_time()
    work()
    return time.process_time() - began


def measured() -> Iterator[Growth]:
    """The three, one after the other."""
    spec = load_study(Path(__file__).parent.parent / "spaces" / "kimi-k25.yaml")
    yield Growth("ask (frontier)", ask_s(EARLY), ask_s(LATE))
    yield Growth("judgement (brief)", *(judgement_s(many, spec, whole=False) for many in (EARLY, LATE)))
    yield Growth("judgement (whole)", *(judgement_s(many, spec, whole=True) for many in (EARLY, LATE)))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    found = list(measured())
    print(f"{'work':<20}{f'at {EARLY}':>12}{f'at {LATE:,}':>12}{'factor':>9}")
    for one in found:
        print(f"{one.work:<20}{one.early_s:>11.3f}s{one.late_s:>11.3f}s{one.factor:>9.2f}")
    if options.json:
        options.json.write_text(json.dumps([asdict(one) for one in found], indent=2) + "\n")
    if any(one.factor > TARGET for one in found if "whole" not in one.work):
        raise SystemExit(f"Something costs over {TARGET:g} times as much at {LATE:,} launches as at {EARLY}.")


if __name__ == "__main__":
    main()
