"""The answer in words: winner per load, where speculation pays, what is a tie, what is extrapolated."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from search.analysis.findings import ConfigResult, LoadWinner, ObjectiveWinner
from search.analysis.words import gain_words, listed, loads_listed, settled_by
from search.config import SpecConfig
from search.stats.estimates import Estimate


@dataclass(slots=True)
class _Run:
    """Neighbouring loads at which one config wins, or ties with the winner."""

    config: SpecConfig
    winners: list[LoadWinner] = field(default_factory=list)


def headlines(
    results: Sequence[ConfigResult],
    winners: Sequence[LoadWinner],
    beyond: Sequence[LoadWinner] = (),
    at_objectives: Sequence[ObjectiveWinner] = (),
) -> list[str]:
    """One sentence each; none without a winner. What the study searches for stands first.

    Args:
        results: Of all configs.
        winners: By load, in the study's own loads.
        beyond: By load, of ladder loads.
        at_objectives: The winner of each objective.
    """
    if not winners:
        return ["No load has a measured baseline yet, so nothing can be compared."] if results else []
    runs = _runs(winners)
    if not any(winner.compared for winner in winners) and not any(
        at_objective.tied or at_objective.gain for at_objective in at_objectives
    ):
        return [*map(_objective_sentence, at_objectives), *_baselines_alone(winners)]
    measured = [winner for winner in winners if not winner.only_expected]
    runs = _runs(measured)
    return [
        *map(_objective_sentence, at_objectives),
        *(_run_sentence(run, results, last=run is runs[-1]) for run in runs),
        *_pays(measured),
        *_ahead(measured),
        *_fusion(measured),
        *_extrapolated(measured),
        *_expected([winner for winner in winners if winner.only_expected]),
        *_beyond(beyond),
    ]


def _baselines_alone(winners: Sequence[LoadWinner]) -> Iterator[str]:
    """Nothing that speculates was measured: no verdict on speculation."""
    rates = ", ".join(f"{w.baseline} {_with_bounds(w.baseline_rate)} tok/s at C={w.concurrency}" for w in winners)
    yield f"Only baselines are measured: {rates}. Nothing is said of speculation before a config that speculates is measured."


def _runs(winners: Sequence[LoadWinner]) -> list[_Run]:
    """Group loads; a load whose winner ties with a neighbouring run's config joins that run."""
    runs: list[_Run] = []
    for place, winner in enumerate(winners):
        if runs and _joins(runs[-1], winners, place):
            runs[-1].winners.append(winner)
        else:
            runs.append(_Run(winner.config, [winner]))
    return runs


def _joins(run: _Run, winners: Sequence[LoadWinner], place: int) -> bool:
    """A tie joins the run before it only if that run's config wins again before it drops out."""
    for later in winners[place:]:
        if later.config == run.config:
            return True
        if run.config not in later.tied:
            return False
    return False


def _run_sentence(run: _Run, results: Sequence[ConfigResult], *, last: bool) -> str:
    loads = [winner.concurrency for winner in run.winners]
    where = f"At C={loads[0]}"
    if len(loads) > 1:
        where = f"From C={loads[0]} on" if last else f"From C={loads[0]} to C={loads[-1]}"
    parts = [_value(winner, run.config, results, alone=len(loads) == 1) for winner in run.winners]
    if run.config.speculates:
        return f"{where}: {run.config}, {', '.join(parts)}."
    if not any(winner.compared for winner in run.winners):
        return f"{where}: only baselines are measured ({run.config}, {', '.join(parts)})."
    if len(loads) == 1:
        return f"{where}: no speculation ({run.config}, {parts[0]}){_tie(run.winners[0], run.config)}."
    return f"{where}: no speculation ({run.config}), {', '.join(parts)}."


def _value(winner: LoadWinner, config: SpecConfig, results: Sequence[ConfigResult], *, alone: bool) -> str:
    """The gain of a config that speculates, or the rate of one that does not; with its load and ties."""
    if config.speculates:
        result = next((result for result in results if result.config == config), None)
        gain = winner.gain if config == winner.config else result.gains.get(winner.concurrency) if result else None
        text = gain_words(gain or winner.gain)
    else:
        text = f"{_with_bounds(_rate(winner, config, results))} tok/s"
    if not alone:
        text += f" at C={winner.concurrency}"
    return text if alone and not config.speculates else text + _tie(winner, config)


def _rate(winner: LoadWinner, config: SpecConfig, results: Sequence[ConfigResult]) -> Estimate:
    if config == winner.config:
        return winner.rate
    return (
        winner.baseline_rate
        if config == winner.baseline
        else rate_at(results, config, winner.concurrency) or winner.rate
    )


def _objective_sentence(winner: ObjectiveWinner) -> str:
    """Such as `Time to first token, 99th percentile at C=1: off, 41.0 ms [39.5, 42.6].`"""
    metric = winner.objective.metric
    ends = winner.value
    known = "" if ends.lo is None or ends.hi is None else f" [{metric.words(ends.lo)}, {metric.words(ends.hi)}]"
    base = f", where {winner.baseline} has {metric.words(winner.baseline_value.value)}"
    gain = "" if winner.config == winner.baseline else base
    if winner.gain is not None:
        gain = f", {gain_words(winner.gain)} better than {winner.baseline}"
    others = [] if winner.assumed else [config for config in winner.tied if config != winner.config]
    tie = f" (a tie with {listed(others)})" if others else ""
    suffix = ", extrapolated" if winner.extrapolated else ""
    title = winner.objective.title
    return f"{title[:1].upper()}{title[1:]}: {winner.config}, {metric.words(ends.value)}{known}{gain}{tie}{suffix}."


def _with_bounds(rate: Estimate) -> str:
    known = "" if rate.lo is None or rate.hi is None else f" [{rate.lo:.1f}, {rate.hi:.1f}]"
    return f"{rate.value:.1f}{known}"


def _tie(winner: LoadWinner, other: SpecConfig) -> str:
    others = [config for config in (winner.config, *winner.tied) if config != other]
    if not others or winner.assumed:
        return ""  # on assumed scatter nothing can be distinguished from anything
    return f" (a tie with {listed(others)}{_same(winner, others)})"


def _same(winner: LoadWinner, others: Sequence[SpecConfig]) -> str:
    same = [config for config in others if config in winner.same]
    return f"; shown to be the same: {listed(same)}" if same else ""


def _pays(winners: Sequence[LoadWinner]) -> Iterator[str]:
    """At which loads a gain is shown, at which everything is shown to be slower, and what is open."""
    measured = [winner for winner in winners if winner.compared]
    paying = [w.concurrency for w in measured if w.claimed and w.config.speculates]
    slower = [w.concurrency for w in measured if w.slower]
    still = [w.concurrency for w in measured if w.concurrency not in (*paying, *slower)]
    parts = []
    if paying:
        parts.append(f"Speculation pays at C={loads_listed(paying)}")
    if slower:
        lead = "it does not pay" if parts else "Speculation does not pay"
        parts.append(
            f"{lead} at C={loads_listed(slower)}, where everything measured is slower than {_named(measured, slower)}"
        )
    if still:
        parts.append(f"{'no gain' if parts else 'No gain of speculation'} is shown at C={loads_listed(still)}")
    if parts:
        yield "; ".join(parts) + "."


def _named(winners: Sequence[LoadWinner], loads: Sequence[int]) -> str:
    return " or ".join(dict.fromkeys(str(w.baseline) for w in winners if w.concurrency in loads))


def _ahead(winners: Sequence[LoadWinner]) -> Iterator[str]:
    """What is merely ahead, where nothing is claimed, with how many starts would settle it."""
    parts = []
    for winner in winners:
        if winner.claimed or not winner.ahead:
            continue
        best = winner.ahead[0]
        settled = settled_by(best.gain)
        parts.append(
            f"{best.config} at C={winner.concurrency}, {gain_words(best.gain)}{f' ({settled})' if settled else ''}"
        )
    if parts:
        yield f"Ahead of the best baseline, but not shown after all the comparisons made: {'; '.join(parts)}."


def _fusion(winners: Sequence[LoadWinner]) -> Iterator[str]:
    """Gains at equal fusion, where they differ from those over the best baseline."""
    parts = [
        f"{gain_words(winner.equal_fusion_gain)} at C={winner.concurrency}"
        for winner in winners
        if winner.equal_fusion_gain is not None and abs(winner.equal_fusion_gain.value - winner.gain.value) >= 0.001
    ]
    if parts:
        yield f"Against the baseline with the winner's own all-reduce fusion: {', '.join(parts)}."


def _extrapolated(winners: Sequence[LoadWinner]) -> Iterator[str]:
    loads = [winner for winner in winners if winner.extrapolated]
    if loads:
        named = ", ".join(f"{winner.config} at C={winner.concurrency}" for winner in loads)
        yield f"Extrapolated (not in the data the simulator was fitted to): {named}."


def _expected(winners: Sequence[LoadWinner]) -> Iterator[str]:
    """Loads at which nothing that speculates rests on data: what the fit expects there."""
    parts = [
        f"{w.config}{f', {gain_words(w.gain)},' if w.config.speculates else ''} at C={w.concurrency}" for w in winners
    ]
    if parts:
        yield f"Not measured at these loads; the model expects as the best: {'; '.join(parts)}. One launch there would decide it."


def _beyond(beyond: Sequence[LoadWinner]) -> Iterator[str]:
    """What extrapolation would prefer: a reason to launch it, not an answer."""
    parts = [
        f"{winner.config}, {gain_words(winner.gain)}," if winner.config.speculates else str(winner.config)
        for winner in beyond
    ]
    named = [f"{part} at C={winner.concurrency}" for part, winner in zip(parts, beyond, strict=True)]
    if named:
        yield (
            "Extrapolated, not a fact: the simulator was not fitted to these, but expects them ahead, so they are "
            f"worth a launch: {'; '.join(named)}."
        )


def rate_at(results: Sequence[ConfigResult], config: SpecConfig, load: int) -> Estimate | None:
    """The rate of `config` at `load`, or None where it was not measured."""
    found = next((result.loads.get(load) for result in results if result.config == config), None)
    return found.rate if found else None
