"""The answer per load, and the configs worth a launch script."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from search.analysis.findings import ConfigResult, LoadResult, LoadWinner, ObjectiveWinner, Pick
from search.analysis.results import badness, improvement
from search.config import SpecConfig, simplicity
from search.metrics import Objective, Objectives, is_rate
from search.outcomes import Note
from search.spec.study import StudySpec
from search.stats.estimates import Estimate, ratio, separable

TIE = 0.01
"""Closer than this share, and not told apart beyond doubt, the simpler config is preferred."""


def recommendable(notes: Sequence[Note], *, synthetic: bool) -> bool:
    """Whether numbers with these notes may be recommended.

    Args:
        notes: Of a load or a config.
        synthetic: Nothing in the study was measured; its label says so, and SYNTHETIC bars nothing.
    """
    return not any(note.bars_recommendation and not (synthetic and note is Note.SYNTHETIC) for note in notes)


def all_synthetic(results: Sequence[ConfigResult]) -> bool:
    """Whether every result is computed or hand-made."""
    return all(Note.SYNTHETIC in result.notes for result in results)


def load_winners(spec: StudySpec, results: Sequence[ConfigResult]) -> list[LoadWinner]:
    """A winner for each load at which a baseline was measured, ascending."""
    loads = sorted({*spec.loads, *(load for result in results for load in result.loads)})
    winners = (_winner(load, results) for load in loads)
    return [winner for winner in winners if winner is not None]


def grounded_winners(spec: StudySpec, results: Sequence[ConfigResult]) -> tuple[list[LoadWinner], list[LoadWinner]]:
    """Winners from values that rest on data, and those that only extrapolation makes.

    A simulator fitted to three configs would else answer with a fourth that nobody measured. At
    a load where it was fitted to no speculating config, there is nothing better than its word.
    """
    everything = {winner.concurrency: winner for winner in load_winners(spec, results)}
    fitted = [_only_fitted(result) for result in results]
    loads = {load for result in fitted if result.config.speculates for load in result.loads}
    grounded = {winner.concurrency: winner for winner in load_winners(spec, fitted) if winner.concurrency in loads}
    winners = [grounded.get(load, winner) for load, winner in everything.items()]
    beyond = [winner for load, winner in everything.items() if winner.extrapolated and load in grounded]
    return winners, beyond


def _only_fitted(result: ConfigResult) -> ConfigResult:
    searched = result.searched
    return replace(
        result,
        loads=_fitted(result.loads),
        searched=replace(searched, loads=_fitted(searched.loads)) if searched else None,
    )


def _fitted(loads: Mapping[int, LoadResult]) -> dict[int, LoadResult]:
    return {load: result for load, result in loads.items() if not result.extrapolated}


def rate_at(results: Sequence[ConfigResult], config: SpecConfig, load: int) -> Estimate | None:
    """The rate of `config` at `load`, or None where it was not measured."""
    found = next((result.loads.get(load) for result in results if result.config == config), None)
    return found.rate if found else None


def rates_at(
    results: Sequence[ConfigResult], one: SpecConfig, other: SpecConfig, load: int
) -> tuple[Estimate | None, Estimate | None]:
    """Rates of two configs that may be compared: both confirmed, or both as the search measured them."""
    pair = [result for result in results if result.config in (one, other)]
    if not all(load in result.confirmed_loads for result in pair):
        pair = [result.searched or result for result in pair]
    return rate_at(pair, one, load), rate_at(pair, other, load)


def picks(
    spec: StudySpec,
    results: Sequence[ConfigResult],
    winners: Sequence[LoadWinner],
    at_objectives: Sequence[ObjectiveWinner] = (),
) -> list[Pick]:
    """One pick per config with all its roles; the objectives' roles come first."""
    roles: dict[str, list[str]] = {}
    at = {winner.concurrency: winner.config.config_id for winner in winners}
    chosen = {winner.objective: winner.config.config_id for winner in at_objectives}
    wanted = [(_role(axis), chosen.get(axis) if not is_rate(axis) else at.get(axis.concurrency)) for axis in spec.axes]
    wanted.append(("best-score", _best(results)))
    named = {axis.concurrency for axis in spec.axes if is_rate(axis)}
    wanted += [(f"best-at-c{load}", at.get(load)) for load in sorted(set(spec.watch) - named)]
    for role, config_id in wanted:
        if config_id is not None:
            roles.setdefault(config_id, []).append(role)
    by_id = {result.config.config_id: result for result in results}
    return [Pick(tuple(names), by_id[config_id]) for config_id, names in roles.items()]


def _role(axis: Objective) -> str:
    """Such as `lowest-latency`; of a metric without a role of its own such as `best-ttft-p99-ms-at-c1`."""
    return axis.metric.role or f"best-{axis.metric.name.replace('_', '-')}-at-c{axis.concurrency}"


def objective_winners(axes: Objectives, results: Sequence[ConfigResult]) -> list[ObjectiveWinner]:
    """A winner for each objective that is not the rate of its load, once a baseline was measured."""
    found = (_objective_winner(place, axis, results) for place, axis in enumerate(axes) if not is_rate(axis))
    return [winner for winner in found if winner is not None]


def _objective_winner(place: int, axis: Objective, results: Sequence[ConfigResult]) -> ObjectiveWinner | None:
    """As `_winner`, by the objective's value: of the confirmed ones, if a baseline is among them; else of all as searched."""
    confirmed = [result for result in results if result.confirmed]
    if any(not result.config.speculates for result in confirmed) and len(confirmed) > 1:
        results = confirmed
    else:
        results = [result.searched or result for result in results]
    synthetic = all_synthetic(results)
    baselines = [result for result in results if not result.config.speculates]
    allowed = [result for result in results if recommendable(result.notes, synthetic=synthetic)]
    if not baselines or not allowed:
        return None
    allowed.sort(key=lambda result: (badness(axis, result.values[place]), simplicity(result.config)))
    best = allowed[0].values[place]
    told = [(result, improvement(axis, result.values[place], best)) for result in allowed]
    near = [result for result, gain in told if gain.value >= 1 - TIE and not _differs(gain)]
    tied = [result for result, gain in told if result in near or (gain.hi is not None and not _differs(gain))]
    winner = min(near, key=lambda result: simplicity(result.config)[:-1])
    base = min(baselines, key=lambda result: badness(axis, result.values[place]))
    return ObjectiveWinner(
        objective=axis,
        config=winner.config,
        value=winner.values[place],
        baseline=base.config,
        baseline_value=base.values[place],
        gain=improvement(axis, winner.values[place], base.values[place]) if winner.config.speculates else None,
        tied=tuple(result.config for result in tied if result.config != winner.config),
        extrapolated=winner.loads[axis.concurrency].extrapolated,
    )


def _differs(gain: Estimate) -> bool:
    """Whether a ratio's interval leaves out 1."""
    return gain.lo is not None and gain.hi is not None and (gain.lo > 1 or gain.hi < 1)


def _best(results: Sequence[ConfigResult]) -> str | None:
    synthetic = all_synthetic(results)
    allowed = [result for result in results if recommendable(result.notes, synthetic=synthetic)]
    if not allowed or not any(not result.config.speculates for result in results):
        return None
    return max(allowed, key=lambda result: result.score).config.config_id


def _winner(load: int, results: Sequence[ConfigResult]) -> LoadWinner | None:
    """Of what was confirmed at this load, if that has a baseline and whoever won the search; else of the search.

    What was not confirmed and could not be told from the search's winner is a tie still.
    """
    before = _winner_among(load, [result.searched or result for result in results])
    confirmed = [result for result in results if load in result.confirmed_loads]
    if before is None or not any(result.config == before.config for result in confirmed):
        return before
    after = _winner_among(load, confirmed)
    if after is None:
        return before
    told = {result.config for result in confirmed}
    return replace(after, tied=(*after.tied, *(config for config in before.tied if config not in told)))


def _winner_among(load: int, results: Sequence[ConfigResult]) -> LoadWinner | None:
    synthetic = all_synthetic(results)
    measured: list[tuple[SpecConfig, LoadResult]] = [
        (result.config, result.loads[load]) for result in results if load in result.loads
    ]
    baselines = [(config, at) for config, at in measured if not config.speculates]
    allowed = [(config, at) for config, at in measured if recommendable(at.notes, synthetic=synthetic)]
    if not baselines or not allowed:
        return None
    allowed.sort(key=lambda pair: (-pair[1].rate.value, simplicity(pair[0])))
    fastest = allowed[0][1].rate
    near = [
        (config, at)
        for config, at in allowed
        if at.rate.value >= (1 - TIE) * fastest.value and separable(fastest, at.rate) is not True
    ]
    tied = [(config, at) for config, at in allowed if (config, at) in near or separable(fastest, at.rate) is False]
    # Among equally simple ones the faster: the list is in that order, and `min` takes the first.
    config, at = min(near, key=lambda pair: simplicity(pair[0])[:-1])
    base_config, base = (config, at) if not config.speculates else max(baselines, key=lambda pair: pair[1].rate.value)
    equal = next(
        (b for c, b in baselines if (c.allreduce_fusion, c.extra) == (config.allreduce_fusion, config.extra)), None
    )
    return LoadWinner(
        concurrency=load,
        config=config,
        rate=at.rate,
        baseline=base_config,
        baseline_rate=base.rate,
        gain=ratio(at.rate, base.rate) if config.speculates else Estimate(1.0),
        gain_separable=separable(at.rate, base.rate) if config.speculates else False,
        tied=tuple(other for other, _ in tied if other != config),
        equal_fusion_gain=ratio(at.rate, equal.rate) if equal and config.speculates else None,
        extrapolated=at.extrapolated or base.extrapolated,
    )
