"""Whether the host is at the end of a study what it was at its beginning, told by its baseline."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import exp, log, sqrt
from statistics import fmean, stdev

from search.analysis.findings import ConfigResult
from search.analysis.results import config_results, is_baseline_to_compare
from search.analysis.winners import TIE
from search.config import SpecConfig
from search.metrics import gain_percent, rate_tps
from search.outcomes import Outcome
from search.spec.study import StudySpec
from search.stats.estimates import Estimate, ratio, separable
from search.storage.records import LaunchRecord


@dataclass(frozen=True, slots=True)
class HostDrift:
    """The first and the last launch of one baseline on one slot.

    Attributes:
        ratios: Rate of the last / rate of the first, by concurrency.
    """

    slot: int
    config: SpecConfig
    first: int
    last: int
    ratios: dict[int, Estimate]

    @property
    def beyond_doubt(self) -> list[int]:
        """Loads at which the rates differ by more than a percent and beyond their doubt."""
        return [
            load
            for load, told in self.ratios.items()
            if told.lo is not None
            and told.hi is not None
            and (told.lo > 1 or told.hi < 1)
            and abs(told.value - 1) > TIE
        ]


def host_drifts(spec: StudySpec, launches: Sequence[LaunchRecord]) -> list[HostDrift]:
    """One per slot and baseline that was measured there more than once, by slot."""
    groups: dict[tuple[int, SpecConfig], list[LaunchRecord]] = {}
    for launch in launches:
        if is_baseline_to_compare(launch):
            groups.setdefault((launch.slot, launch.config), []).append(launch)
    pairs = [(slot, config, mine[0], mine[-1]) for (slot, config), mine in groups.items() if len(mine) > 1]
    found = [_drift(spec, *pair) for pair in sorted(pairs, key=lambda pair: (pair[0], pair[2].number))]
    return [drift for drift in found if drift is not None]


def slots_to_measure_again(launches: Sequence[LaunchRecord]) -> dict[int, SpecConfig]:
    """Slots that have launched something since their baseline was measured last, with that baseline.

    They owe one more launch of it, or nothing tells whether their host drifted.
    """
    owed: dict[int, SpecConfig] = {}
    baselines: dict[int, SpecConfig] = {}
    for launch in launches:
        if launch.stage == "try":
            continue
        if is_baseline_to_compare(launch):
            baselines.setdefault(launch.slot, launch.config)
            if launch.config == baselines[launch.slot]:
                owed.pop(launch.slot, None)
                continue
        if launch.slot in baselines:
            owed[launch.slot] = baselines[launch.slot]
    return owed


def drift_sentences(drifts: Sequence[HostDrift]) -> Iterator[str]:
    """For the first screen: drifts beyond doubt, one sentence each."""
    for drift in drifts:
        if loads := drift.beyond_doubt:
            yield (
                f"The host drifted: baseline {drift.config} on slot {drift.slot} measures "
                f"{_listed(drift, loads)} in launch {drift.last} against launch {drift.first}. "
                "Configs measured in between may differ by as much for no reason of their own."
            )


def steady_sentences(drifts: Sequence[HostDrift]) -> Iterator[str]:
    """For the remarks: baselines that came out again."""
    for drift in drifts:
        if not drift.beyond_doubt:
            yield (
                f"No drift of the host beyond doubt: baseline {drift.config} on slot {drift.slot} measures "
                f"{_listed(drift, list(drift.ratios))} in launch {drift.last} against launch {drift.first}."
            )


def _drift(spec: StudySpec, slot: int, config: SpecConfig, first: LaunchRecord, last: LaunchRecord) -> HostDrift | None:
    before, after = config_results(spec, [first]), config_results(spec, [last])
    if not before or not after:
        return None
    loads = sorted(before[0].loads.keys() & after[0].loads.keys())
    ratios = {load: ratio(after[0].loads[load].rate, before[0].loads[load].rate) for load in loads}
    return HostDrift(slot, config, first.number, last.number, ratios)


def _listed(drift: HostDrift, loads: Sequence[int]) -> str:
    return ", ".join(f"{gain_words(drift.ratios[load])} at C={load}" for load in loads)


def gain_words(told: Estimate) -> str:
    """A ratio as people read it: `+3.1% [+2.0%, +4.2%]`; without brackets where the doubt is not known."""
    text = gain_percent(told.value)
    return text if told.lo is None or told.hi is None else f"{text} [{gain_percent(told.lo)}, {gain_percent(told.hi)}]"


_FEWEST_LAUNCHES = 5
_MATTERS = 0.01
_BEYOND = 4.0
"""Standard errors of a mean over launches; with five of them, t(4) makes this a chance of 1.6 %."""


def order_effects(launches: Sequence[LaunchRecord]) -> dict[int, float]:
    """Loads at which the last repeat of a launch differs from the first, and the ratio of their rates."""
    shifts: dict[int, list[float]] = {}
    for launch in launches:
        if launch.outcome is not Outcome.MEASURED:
            continue
        for load in {phase.concurrency for phase in launch.phases}:
            repeats = launch.repeats(load)
            if len(repeats) > 1:
                shifts.setdefault(load, []).append(log(rate_tps(repeats[-1]) / rate_tps(repeats[0])))
    return {load: exp(mean) for load, found in sorted(shifts.items()) if (mean := _told(found)) is not None}


def _told(shifts: Sequence[float]) -> float | None:
    if len(shifts) < _FEWEST_LAUNCHES:
        return None
    mean = fmean(shifts)
    error = stdev(shifts) / sqrt(len(shifts))
    return mean if abs(mean) > max(_MATTERS, _BEYOND * error) else None


def slot_sentences(spec: StudySpec, launches: Sequence[LaunchRecord]) -> list[str]:
    """One sentence for each slot whose baseline differs from the first slot's beyond doubt."""
    by_slot: dict[int, list[LaunchRecord]] = {}
    for launch in launches:
        if is_baseline_to_compare(launch):
            by_slot.setdefault(launch.slot, []).append(launch)
    if len(by_slot) < 2:
        return []
    results = {slot: config_results(spec, mine) for slot, mine in sorted(by_slot.items())}
    first, *others = results
    return [sentence for slot in others for sentence in _sentences(first, results[first], slot, results[slot])]


def _sentences(first: int, ours: Sequence[ConfigResult], slot: int, theirs: Sequence[ConfigResult]) -> Iterator[str]:
    """Only configs that both have measured are compared, at each load that both have."""
    for other in theirs:
        one = next((result for result in ours if result.config == other.config), None)
        if one is None:
            continue
        parts = []
        for load in sorted(one.loads.keys() & other.loads.keys()):
            here, there = one.loads[load].rate, other.loads[load].rate
            gain = there.value / here.value
            # A ratio within a percent is no news, however small the doubt. Unknown doubt: the percent decides.
            if separable(here, there) is not False and abs(gain - 1) > TIE:
                parts.append(f"{gain_percent(gain)} at C={load}")
        if parts:
            yield (
                f"Slot {slot} is not like slot {first}: its baseline {other.config} measures {', '.join(parts)}. "
                "Configs measured on different slots differ by as much for no reason of their own."
            )
