"""Whether the host is at the end of a study what it was at its beginning, shown by its baseline."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import exp, log, sqrt
from statistics import fmean, stdev

from search.analysis.arenas import RATE, Arena, Key
from search.analysis.findings import Gain
from search.analysis.results import is_baseline_to_compare
from search.analysis.words import gain_words
from search.config import SpecConfig
from search.metrics import rate_tps
from search.outcomes import Outcome
from search.stats.questions import Drift, drifts
from search.stats.readings import Reading
from search.stats.scatter import Scatter, pooled_scatter
from search.storage.records import LaunchRecord


@dataclass(frozen=True, slots=True)
class HostDrift:
    """The last start of one baseline on one slot against all its earlier ones.

    Attributes:
        earlier: Numbers of the earlier launches.
        last: Of the closing one.
        changes: Last / earlier, by concurrency, with whether that is beyond chance.
    """

    slot: int
    config: SpecConfig
    earlier: tuple[int, ...]
    last: int
    changes: Mapping[int, Drift]

    @property
    def shown_at(self) -> list[int]:
        """Loads at which the rates differ beyond chance, and by more than a percent."""
        return [load for load, one in self.changes.items() if one.shown and abs(one.change.ratio - 1) > _MATTERS]


def host_drifts(launches: Sequence[LaunchRecord], arenas: Mapping[Key, Arena]) -> list[HostDrift]:
    """One per slot and baseline that was started there more than once, by slot; false alarms of all of them at most 4%.

    What drifts must not widen its own measure: scatter is pooled without the closing starts.
    """
    groups: dict[tuple[int, SpecConfig], list[LaunchRecord]] = {}
    for launch in launches:
        if is_baseline_to_compare(launch):
            groups.setdefault((launch.slot, launch.config), []).append(launch)
    again = {key: mine for key, mine in groups.items() if len(mine) > 1}
    last = {key: _closing(mine) for key, mine in again.items()}
    closing = set(last.values())
    pairs: dict[tuple[int, SpecConfig, int], tuple[list[Reading], list[Reading], Scatter]] = {}
    for arena in arenas.values():
        if arena.key[0] != RATE:
            continue
        before = {
            config.config_id: [one for one in readings if one.start not in closing]
            for config, readings in arena.groups.items()
        }
        scatter = pooled_scatter(before)
        for slot, config in again:
            mine = [one for one in arena.groups.get(config, ()) if one.slot == str(slot) and not one.fresh]
            end = [one for one in mine if one.start == last[slot, config]]
            pairs[slot, config, arena.concurrency] = [one for one in mine if one.start not in closing], end, scatter
    found = drifts(pairs)
    lines = []
    for slot, config in sorted(again, key=lambda key: (key[0], again[key][0].number)):
        loads = sorted(load for s, c, load in pairs if (s, c) == (slot, config) and (slot, config, load) in found)
        changes = {load: _as_rates(found[slot, config, load], load) for load in loads}
        if changes:
            earlier = tuple(one.number for one in again[slot, config] if one.number not in closing)
            lines.append(HostDrift(slot, config, earlier, last[slot, config], changes))
    return lines


def _closing(launches: Sequence[LaunchRecord]) -> int:
    """The last closing launch; without one the last."""
    ends = [launch.number for launch in launches if launch.stage == "closing"]
    return ends[-1] if ends else launches[-1].number


def _as_rates(drift: Drift, load: int) -> Drift:
    """At a concurrency of 1 readings are times per token."""
    return Drift(drift.change.inverse(), drift.shown) if load == 1 else drift


def slots_to_measure_again(launches: Sequence[LaunchRecord]) -> dict[int, SpecConfig]:
    """Slots that have launched something since their baseline was measured last, with that baseline.

    They owe one more launch of it, or nothing shows whether their host drifted. Of several baselines it is the one
    that was confirmed, which everything is compared with, else the first.
    """
    owed: dict[int, SpecConfig] = {}
    baselines: dict[int, SpecConfig] = {}
    for launch in launches:
        if launch.stage == "confirm" and launch.outcome is Outcome.MEASURED and not launch.config.speculates:
            baselines.setdefault(launch.slot, launch.config)
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


def drift_sentences(found: Sequence[HostDrift]) -> Iterator[str]:
    """For the first screen: drifts beyond chance, one sentence each."""
    for drift in found:
        if loads := drift.shown_at:
            yield (
                f"The host drifted: baseline {drift.config} on slot {drift.slot} measures {_listed(drift, loads)} in "
                f"launch {drift.last} against {_earlier(drift)}. Configs measured in between may differ by as much for "
                "no reason of their own."
            )


def steady_sentences(found: Sequence[HostDrift]) -> Iterator[str]:
    """For the remarks: baselines of which no drift is shown."""
    for drift in found:
        if not drift.shown_at:
            yield (
                f"No drift of the host is shown: baseline {drift.config} on slot {drift.slot} measures "
                f"{_listed(drift, list(drift.changes))} in launch {drift.last} against {_earlier(drift)}."
            )


def _earlier(drift: HostDrift) -> str:
    few = len(drift.earlier) == 1
    return f"launch{'' if few else 'es'} {', '.join(map(str, drift.earlier))}"


def _listed(drift: HostDrift, loads: Sequence[int]) -> str:
    return ", ".join(f"{gain_words(Gain.of(drift.changes[load].change))} at C={load}" for load in loads)


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
            rates = [rate_tps(repeat) for repeat in repeats]
            if len(rates) > 1 and min(rates[0], rates[-1]) > 0:
                shifts.setdefault(load, []).append(log(rates[-1] / rates[0]))
    return {load: exp(mean) for load, found in sorted(shifts.items()) if (mean := _beyond_chance(found)) is not None}


def _beyond_chance(shifts: Sequence[float]) -> float | None:
    if len(shifts) < _FEWEST_LAUNCHES:
        return None
    mean = fmean(shifts)
    error = stdev(shifts) / sqrt(len(shifts))
    return mean if abs(mean) > max(_MATTERS, _BEYOND * error) else None


def slot_sentences(launches: Sequence[LaunchRecord], arenas: Mapping[Key, Arena]) -> list[str]:
    """One sentence for each slot and baseline that differs from the first slot's beyond chance.

    Only configs that both slots have started are compared; false alarms of all of them are at most 4%.
    """
    slots = sorted({launch.slot for launch in launches if is_baseline_to_compare(launch)})
    if len(slots) < 2:
        return []
    first, *others = slots
    pairs: dict[tuple[int, SpecConfig, int], tuple[list[Reading], list[Reading], Scatter]] = {}
    for arena in arenas.values():
        for config, readings in arena.groups.items():
            if arena.key[0] != RATE or config.speculates:
                continue
            for slot in others:
                here, there = (
                    [_anywhere(one) for one in readings if one.slot == str(which)] for which in (first, slot)
                )
                if here and there:
                    pairs[slot, config, arena.concurrency] = here, there, arena.scatter
    drifted = drifts(pairs)
    parts: dict[tuple[int, SpecConfig], list[str]] = {}
    for slot, config, load in sorted(pairs, key=lambda key: (key[0], key[1].config_id, key[2])):
        found = drifted.get((slot, config, load))
        if found is not None and found.shown and abs(found.change.ratio - 1) > _MATTERS:
            change = Gain.of(_as_rates(found, load).change)
            parts.setdefault((slot, config), []).append(f"{gain_words(change)} at C={load}")
    return [
        f"Slot {slot} is not like slot {first}: its baseline {config} measures {', '.join(said)}. Configs measured on "
        "different slots differ by as much for no reason of their own."
        for (slot, config), said in parts.items()
    ]


def _anywhere(reading: Reading) -> Reading:
    """Without its slot: what slots differ by is the question."""
    return replace(reading, slot="")
