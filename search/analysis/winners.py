"""The answer per load, and the configs worth a launch script."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from math import isnan

from search.analysis.arenas import RATE, Arena, Key, arena_of, contested, key_of, readings_of
from search.analysis.expected import Expectations
from search.analysis.findings import Ahead, ConfigResult, Gain, LoadWinner, ObjectiveWinner, Pick
from search.analysis.memo import Memo
from search.analysis.results import measured_launches
from search.config import SpecConfig, simplicity
from search.metrics import Objective, Objectives, is_rate
from search.outcomes import Note
from search.spec.study import StudySpec
from search.stats.estimates import Estimate
from search.stats.losslessness import worst
from search.stats.verdicts import Verdict
from search.storage.records import LaunchRecord


def recommendable(notes: Sequence[Note], *, synthetic: bool) -> bool:
    """Whether numbers with these notes may be recommended.

    Args:
        notes: Of a load or a config.
        synthetic: Nothing in the study was measured; its label says so, and SYNTHETIC bars nothing.
    """
    return not any(note.bars_recommendation and not (synthetic and note is Note.SYNTHETIC) for note in notes)


def is_shown_lossless(result: ConfigResult) -> bool:
    """Whether its answers were compared with the baseline's and found the same; a baseline's are its own."""
    decisive = worst(result.lossless)
    return not result.config.speculates or (decisive is not None and decisive.verdict == "lossless")


def all_synthetic(results: Sequence[ConfigResult]) -> bool:
    """Whether every result is computed or hand-made."""
    return all(Note.SYNTHETIC in result.notes for result in results)


def arenas_of(
    spec: StudySpec, launches: Sequence[LaunchRecord], results: Sequence[ConfigResult], memo: Memo
) -> dict[Key, Arena]:
    """Every metric and load that anything was measured at, with its verdict.

    Left out of a contest, though not of the pool of scatter, are configs whose answers are lossy or whose numbers may
    not be recommended at any load, for one server serves all of them; and extrapolated ones as long as anything that speculates rests on data: a simulator fitted to three configs would
    else answer with a fourth that nobody measured.

    Args:
        spec: The study.
        launches: All of them.
        results: Of those, see `config_results`.
        memo: See `Memo`.
    """
    synthetic = all_synthetic(results)
    recommended = {
        result.config
        for result in results
        if not result.lossy
        and recommendable(result.notes, synthetic=synthetic)
        and (synthetic or spec.lossless == "checked" or is_shown_lossless(result))
    }
    expects = Expectations.of(spec) if any(result.extrapolated for result in results) else None
    found = {}
    for key, groups in readings_of(spec, measured_launches(launches), memo).items():
        at = {result.config: result.loads[key[1]] for result in results if key[1] in result.loads}
        known = {config: readings for config, readings in groups.items() if config in at}
        if not known:
            continue
        allowed = {config for config in known if config in recommended}
        guessed = frozenset(config for config in known if at[config].extrapolated)
        grounded = allowed - guessed
        found[key] = arena_of(
            key,
            known,
            open_to=frozenset(grounded if any(config.speculates for config in grounded) else allowed),
            extrapolated=guessed,
            expects=expects if guessed and key[0] == RATE else None,
        )
    return contested(spec, found)


def load_winners(arenas: Mapping[Key, Arena], results: Sequence[ConfigResult]) -> list[LoadWinner]:
    """A winner for each load at which a baseline was measured, ascending."""
    by_config = {result.config: result for result in results}
    rates = sorted((arena for key, arena in arenas.items() if key[0] == RATE), key=lambda arena: arena.concurrency)
    winners = (_expected(arena) if arena.only_expected else _winner(arena, by_config) for arena in rates)
    return [winner for winner in winners if winner is not None]


def beyond_winners(arenas: Mapping[Key, Arena], winners: Sequence[LoadWinner]) -> list[LoadWinner]:
    """At loads with a winner that rests on data: what a simulator expects to be better still."""
    found = []
    for winner in winners:
        arena = arenas[RATE, winner.concurrency]
        left_out = [config for config in arena.extrapolated - arena.open if config.speculates]
        gains = [(config, arena.gain(config, winner.config)) for config in left_out]
        ahead = [(gain.value, config) for config, gain in gains if gain is not None and gain.value > 1]
        if not ahead:
            continue
        _, best = min(ahead, key=lambda one: (-one[0], simplicity(one[1])))
        rate, gain = arena.rate(best), arena.gain(best, winner.baseline)
        assert rate is not None and gain is not None
        found.append(
            replace(
                winner, config=best, rate=rate, gain=gain, claimed=False, tied=(), equal_fusion_gain=None,
                extrapolated=True, ahead=(), same=(),
            )
        )  # fmt: skip
    return found


def picks(
    spec: StudySpec,
    results: Sequence[ConfigResult],
    winners: Sequence[LoadWinner],
    at_objectives: Sequence[ObjectiveWinner] = (),
) -> list[Pick]:
    """One pick per config with all its roles; the objectives' roles come first.

    All are winners of the same contests: `best-score` is the one of the objectives' winners whose score is best, not
    whatever scored best by luck. Loads that nobody asked for have a pick where a gain is claimed there.

    Args:
        spec: Names roles by its objectives.
        results: Of all configs.
        winners: By load.
        at_objectives: The winner of each objective.
    """
    roles: dict[str, list[str]] = {}
    at = {winner.concurrency: winner.config.config_id for winner in winners}
    chosen = {winner.objective: winner.config.config_id for winner in at_objectives}
    loads_of: dict[str, set[int]] = {}
    wanted: list[tuple[str, str | None, Collection[int]]] = [
        (_role(axis), chosen.get(axis) if not is_rate(axis) else at.get(axis.concurrency), (axis.concurrency,))
        for axis in spec.axes
    ]
    by_score = [result.config.config_id for result in results if not isnan(result.score)]
    won = {config_id for _, config_id, _ in wanted}
    best = next((config_id for config_id in by_score if config_id in won), None)
    wanted.append(("best-score", best, spec.objective_loads))
    named = {axis.concurrency for axis in spec.axes if is_rate(axis)}
    claimed = {winner.concurrency for winner in winners if winner.claimed}
    measured = {winner.concurrency for winner in winners if not winner.only_expected}
    wanted += [
        (f"best-at-c{load}", at[load], (load,)) for load in sorted(((set(spec.watch) & measured) | claimed) - named)
    ]
    for role, config_id, loads in wanted:
        if config_id is not None:
            roles.setdefault(config_id, []).append(role)
            loads_of.setdefault(config_id, set()).update(loads)
    by_id = {result.config.config_id: result for result in results}
    return [
        Pick(tuple(names), by_id[config_id], by_id[config_id].extrapolated_at(loads_of[config_id]))
        for config_id, names in roles.items()
    ]


def _role(axis: Objective) -> str:
    """Such as `lowest-latency`; of a metric without a role of its own such as `best-ttft-p99-ms-at-c1`."""
    return axis.metric.role or f"best-{axis.metric.name.replace('_', '-')}-at-c{axis.concurrency}"


def objective_winners(
    axes: Objectives, arenas: Mapping[Key, Arena], results: Sequence[ConfigResult]
) -> list[ObjectiveWinner]:
    """A winner for each objective that is not the rate of its load, once a baseline was measured."""
    at = {axis: arenas.get(key_of(axis)) for axis in axes if not is_rate(axis)}
    found = (_objective_winner(axis, arena, results) for axis, arena in at.items() if arena is not None)
    return [winner for winner in found if winner is not None]


def _objective_winner(axis: Objective, arena: Arena, results: Sequence[ConfigResult]) -> ObjectiveWinner | None:
    verdict, reference = arena.verdict, arena.reference
    if verdict is None or verdict.winner is None or reference is None:
        return None
    winner = SpecConfig.from_id(verdict.winner)
    confirmed = any(result.config == winner and axis.concurrency in result.confirmed_loads for result in results)
    value, base = _like(arena, winner, reference, confirmed=confirmed)
    return ObjectiveWinner(
        objective=axis,
        config=winner,
        value=value,
        baseline=reference,
        baseline_value=base,
        gain=arena.gain(winner, reference) if winner.speculates else None,
        tied=tuple(map(SpecConfig.from_id, verdict.tied)),
        extrapolated=winner in arena.extrapolated,
        ahead=tuple(one for one in _ahead(verdict) if arena.has_ratio(one.config, reference)),
        assumed=verdict.assumed,
    )


def _winner(arena: Arena, results: Mapping[SpecConfig, ConfigResult]) -> LoadWinner | None:
    verdict, reference = arena.verdict, arena.reference
    if verdict is None or verdict.winner is None or reference is None:
        return None
    config = SpecConfig.from_id(verdict.winner)
    rate, base = _like(
        arena, config, reference, confirmed=arena.concurrency in results[config].confirmed_loads, as_rate=True
    )
    gain = arena.gain(config, reference)
    assert gain is not None
    gains = [standing.gain for standing in verdict.standings if standing.gain is not None]
    return LoadWinner(
        concurrency=arena.concurrency,
        config=config,
        rate=rate,
        baseline=reference,
        baseline_rate=base,
        gain=gain,
        claimed=any(standing.config == verdict.winner for standing in verdict.claimed),
        tied=tuple(map(SpecConfig.from_id, verdict.tied)),
        equal_fusion_gain=_at_equal_fusion(arena, config),
        extrapolated=bool({config, reference} & arena.extrapolated),
        ahead=_ahead(verdict),
        same=tuple(map(SpecConfig.from_id, verdict.same)),
        assumed=verdict.assumed,
        compared=len(gains),
        slower=bool(gains) and all(not gain.assumed and gain.hi < 1 for gain in gains),
    )


def _expected(arena: Arena) -> LoadWinner | None:
    """Where the fit alone speaks: a baseline, unless the band of something leaves out 1."""
    reference = arena.reference
    if reference is None:
        return None
    gain_of = {config: arena.gain(config, reference) for config in arena.open if config.speculates}
    gains = {config: gain for config, gain in gain_of.items() if gain is not None}
    better = [config for config, gain in gains.items() if gain.lo is not None and gain.lo > 1]
    config, tied = reference, list[SpecConfig]()
    if better:
        best = max(better, key=lambda one: gains[one].value)
        over = {one: arena.gain(best, one) for one in better}
        near = [one for one, gain in over.items() if one == best or (gain and gain.lo is not None and gain.lo <= 1)]
        config = min(near, key=simplicity)
        tied = sorted((one for one in near if one != config), key=lambda one: -gains[one].value)
    rate, base, gain = arena.rate(config), arena.rate(reference), arena.gain(config, reference)
    if rate is None or base is None or gain is None:
        return None
    return LoadWinner(
        concurrency=arena.concurrency,
        config=config,
        rate=rate,
        baseline=reference,
        baseline_rate=base,
        gain=gain,
        claimed=False,
        tied=tuple(tied),
        equal_fusion_gain=_at_equal_fusion(arena, config),
        extrapolated=True,
        compared=len(gains),
        only_expected=True,
    )


def _at_equal_fusion(arena: Arena, config: SpecConfig) -> Gain | None:
    if not config.speculates:
        return None
    equal = next(
        (
            base
            for base in sorted(arena.open, key=simplicity)
            if not base.speculates and (base.allreduce_fusion, base.extra) == (config.allreduce_fusion, config.extra)
        ),
        None,
    )
    return arena.gain(config, equal)


def _ahead(verdict: Verdict) -> tuple[Ahead, ...]:
    return tuple(
        Ahead(SpecConfig.from_id(standing.config), Gain.of(standing.gain))
        for standing in verdict.ahead
        if standing.gain is not None
    )


def _like(
    arena: Arena, config: SpecConfig, base: SpecConfig, *, confirmed: bool, as_rate: bool = False
) -> tuple[Estimate, Estimate]:
    """Values of both, of like prompts where the baseline has some."""
    of = arena.rate if as_rate else arena.value
    mine, theirs = of(config, confirmed=confirmed) or of(config), of(base, confirmed=confirmed) or of(base)
    assert mine is not None and theirs is not None, "an open config has a usable reading"
    return mine, theirs


def leader(results: Sequence[ConfigResult]) -> SpecConfig | None:
    """The best score so far, of what may be recommended: worth starting again, and nothing to be recommended yet."""
    synthetic = all_synthetic(results)
    allowed = [result for result in results if not result.lossy and recommendable(result.notes, synthetic=synthetic)]
    if not allowed or not any(not result.config.speculates for result in results):
        return None
    return max(allowed, key=lambda result: -1.0 if isnan(result.score) else result.score).config
