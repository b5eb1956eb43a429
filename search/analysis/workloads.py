"""Several workloads in one study: each with its verdict, and what holds in the worst case.

A further workload is judged as the study is, on the phases that were sent its prompts, and shares the chance of a false
gain with the study's own: one more workload leaves each of them less of it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from search.analysis.arenas import RATE
from search.analysis.findings import Gain, LoadWinner
from search.analysis.gains import with_gains
from search.analysis.memo import Memo
from search.analysis.results import config_results
from search.analysis.winners import arenas_of, load_winners
from search.analysis.words import gain_words
from search.config import SpecConfig, simplicity
from search.contracts import PhaseResult
from search.load.workload import OWN
from search.metrics import gain_percent
from search.spec.study import StudySpec
from search.spec.workloads import MAIN
from search.stats.questions import finding
from search.stats.verdicts import LEVEL
from search.storage.records import LaunchRecord


@dataclass(frozen=True, slots=True)
class WorkloadVerdict:
    """What one workload says.

    Attributes:
        name: `main` for the study's own prompts.
        sampling: Such as `greedy` or `temperature 0.6`.
        winners: By load, ascending.
        gains: Over the best baseline, by load and config; those that speculate.
        claimed: Configs that are shown to gain, by load.
    """

    name: str
    sampling: str
    winners: tuple[LoadWinner, ...]
    gains: Mapping[int, Mapping[SpecConfig, Gain]]
    claimed: Mapping[int, frozenset[SpecConfig]]


@dataclass(frozen=True, slots=True)
class Reversal:
    """A config that is shown to gain with some prompts and to lose with others: the prompts decide.

    Attributes:
        better: Where it gains most.
        worse: Where it loses most.
    """

    config: SpecConfig
    better: tuple[str, Gain]
    worse: tuple[str, Gain]


@dataclass(frozen=True, slots=True)
class WorstCase:
    """The answer at one load for whoever cannot tell what comes.

    Attributes:
        config: Whose gain is best where it is worst, as measured; None where the baseline is never beaten so.
        workload: The one in which it gains least.
        gain: There.
        shown: It is shown to gain with each of them.
        nearest: Where `config` is None, what loses least in its worst case, with that workload and gain.
        reversals: See `Reversal`.
    """

    concurrency: int
    config: SpecConfig | None
    workload: str
    gain: Gain | None
    shown: bool
    nearest: tuple[SpecConfig, str, Gain] | None
    reversals: tuple[Reversal, ...]

    @property
    def warnings(self) -> Iterator[str]:
        """One sentence for each reversal."""
        for one in self.reversals:
            (gains_on, better), (loses_on, worse) = one.better, one.worse
            yield (
                f"Prompts decide at C={self.concurrency}: `{one.config}` is at {gain_words(better)} with the {gains_on} workload "
                f"and at {gain_words(worse)} with {loses_on}."
            )

    @property
    def sentence(self) -> str:
        """The worst case in words."""
        start = "Worst case: "
        if self.config is None or self.gain is None:
            if self.nearest is None:
                return start + "no config that speculates was measured with all of them."
            config, workload, gain = self.nearest
            return start + f"no speculation; `{config}` comes nearest, {gain_percent(gain.value)} with {workload}."
        how = "shown with each of them" if self.shown else "as measured, not shown with each of them"
        return start + f"`{self.config}`, {gain_words(self.gain)} with {self.workload}; {how}."


@dataclass(frozen=True, slots=True)
class WorkloadsAnswer:
    """All workloads of a study, its own first, and the worst case at each load that all of them have."""

    verdicts: tuple[WorkloadVerdict, ...]
    worst: tuple[WorstCase, ...]

    @property
    def warnings(self) -> tuple[str, ...]:
        """What turns round with the prompts, a sentence each."""
        return tuple(line for one in self.worst for line in one.warnings)

    @property
    def lines(self) -> tuple[str, ...]:
        """Per load what each workload says, and the worst case."""
        return tuple(
            f"C={one.concurrency} by workload: {self._winners(one.concurrency)}. {one.sentence}" for one in self.worst
        )

    def _winners(self, load: int) -> str:
        lines = []
        for verdict in self.verdicts:
            winner = next((one for one in verdict.winners if one.concurrency == load), None)
            if winner is not None:
                gain = f" {gain_percent(winner.gain.value)}" if winner.claimed else ""
                lines.append(f"{verdict.name} `{winner.config}`{gain}")
        return ", ".join(lines)


def workloads_answer(spec: StudySpec, launches: Sequence[LaunchRecord]) -> WorkloadsAnswer | None:
    """Judge every workload; None for a study of one, or before a further one was measured."""
    names = [name for name in spec.workloads if any(_of(launch, name) for launch in launches)]
    if not names:
        return None
    verdicts = (
        _verdict(spec, MAIN, OWN, launches),
        *(_verdict(spec, name, name, seen_by(launches, name)) for name in names),
    )
    loads = [load for load in spec.objective_loads if all(load in verdict.gains for verdict in verdicts)]
    tests = sum(len(verdict.claimed.get(load, ())) * (len(verdicts) - 1) for verdict in verdicts for load in loads)
    return WorkloadsAnswer(verdicts, tuple(_worst(load, verdicts, LEVEL / max(1, tests)) for load in sorted(loads)))


def seen_by(launches: Sequence[LaunchRecord], workload: str) -> tuple[LaunchRecord, ...]:
    """Launches as they are with the phases of one further workload alone.

    What a cost model says of other prompts rests on a factor that somebody claimed, so its bands do not count.
    """
    return tuple(
        replace(launch, phases=tuple(replace(phase, extrapolated=False) for phase in _of(launch, workload)), beside=())
        for launch in launches
    )


def _of(launch: LaunchRecord, workload: str) -> list[PhaseResult]:
    return [phase for phase in launch.beside if phase.workload == workload]


def _verdict(spec: StudySpec, shown: str, name: str, launches: Sequence[LaunchRecord]) -> WorkloadVerdict:
    memo = Memo()
    pooled = config_results(spec, launches, memo)
    arenas = arenas_of(spec, launches, pooled, memo)
    results = [with_gains(spec, result, arenas) for result in pooled]
    gains: dict[int, dict[SpecConfig, Gain]] = {}
    for result in results:
        for load, gain in result.gains.items():
            if result.config.speculates and result.config in arenas[RATE, load].open:
                gains.setdefault(load, {})[result.config] = gain
    claimed = {
        load: frozenset(SpecConfig.from_id(one.config) for one in arena.verdict.claimed)
        for (metric, load), arena in arenas.items()
        if metric == RATE and arena.verdict is not None
    }
    return WorkloadVerdict(
        shown, spec.measure_of(name).sampling.words, tuple(load_winners(arenas, results)), gains, claimed
    )


def _worst(load: int, verdicts: Sequence[WorkloadVerdict], level: float) -> WorstCase:
    shared = set.intersection(*(set(verdict.gains[load]) for verdict in verdicts))
    lowest = {
        config: min(((verdict.name, verdict.gains[load][config]) for verdict in verdicts), key=lambda one: one[1].value)
        for config in sorted(shared, key=simplicity)
    }
    reversals = tuple(_reversals(load, verdicts, level))
    if not lowest:
        return WorstCase(load, None, "", None, False, None, reversals)
    best = max(lowest, key=lambda config: lowest[config][1].value)
    workload, gain = lowest[best]
    if gain.value <= 1:
        return WorstCase(load, None, "", None, False, (best, workload, gain), reversals)
    everywhere = [
        config for config in lowest if all(config in verdict.claimed.get(load, ()) for verdict in verdicts)
    ]  # what is shown comes before what only measured better
    chosen = max(everywhere, key=lambda config: lowest[config][1].value, default=best)
    return WorstCase(load, chosen, *lowest[chosen], bool(everywhere), None, reversals)


def _reversals(load: int, verdicts: Sequence[WorkloadVerdict], level: float) -> Iterator[Reversal]:
    gaining = {config for verdict in verdicts for config in verdict.claimed.get(load, ())}
    for config in sorted(gaining, key=simplicity):
        gains = [(verdict, verdict.gains[load][config]) for verdict in verdicts if config in verdict.gains[load]]
        better = [(verdict.name, gain) for verdict, gain in gains if config in verdict.claimed.get(load, ())]
        worse = [
            (verdict.name, gain)
            for verdict, gain in gains
            if gain.comparison is not None and finding([gain.comparison], level=level) == "refuted"
        ]
        if better and worse:
            yield Reversal(config, max(better, key=lambda one: one[1].value), min(worse, key=lambda one: one[1].value))
