"""The answer in words: winner per load, where speculation pays, what is a tie, what is extrapolated."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from search.analysis.drift import gain_words
from search.analysis.findings import ConfigResult, LoadWinner, ObjectiveWinner
from search.analysis.winners import rate_at
from search.config import SpecConfig
from search.stats.estimates import Estimate, prompts_to_tell, ratio


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
    """One sentence each; none without a winner. What the study was told to search for stands first."""
    if not winners:
        return ["No load has a measured baseline yet, so nothing can be compared."] if results else []
    runs = _runs(winners)
    return [
        *map(_objective_sentence, at_objectives),
        *(_run_sentence(run, results, last=run is runs[-1]) for run in runs),
        _pays(winners),
        *_fusion(winners),
        *_extrapolated(winners),
        *_beyond(beyond),
    ]


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
    if len(loads) == 1:
        return f"{where}: no speculation ({run.config}, {parts[0]}){_tie(run.winners[0], run.config)}."
    return f"{where}: no speculation ({run.config}), {', '.join(parts)}."


def _value(winner: LoadWinner, config: SpecConfig, results: Sequence[ConfigResult], *, alone: bool) -> str:
    """The gain of a config that speculates, or the rate of one that does not; with its load and ties."""
    rate = rate_at(results, config, winner.concurrency) or winner.rate
    text = gain_words(ratio(rate, winner.baseline_rate)) if config.speculates else f"{_with_bounds(rate)} tok/s"
    if not alone:
        text += f" at C={winner.concurrency}"
    return text if alone and not config.speculates else text + _tie(winner, config)


def _objective_sentence(winner: ObjectiveWinner) -> str:
    """Such as `Time to first token, 99th percentile at C=1: off, 41.0 ms [39.5, 42.6].`"""
    metric = winner.objective.metric
    ends = winner.value
    known = "" if ends.lo is None or ends.hi is None else f" [{metric.words(ends.lo)}, {metric.words(ends.hi)}]"
    gain = "" if winner.gain is None else f", {gain_words(winner.gain)} better than {winner.baseline}"
    others = [str(config) for config in winner.tied if config != winner.config]
    more = f" and {len(others) - 2} more" if len(others) > 2 else ""
    tie = f" (a tie with {', '.join(others[:2])}{more})" if others else ""
    told = ", extrapolated" if winner.extrapolated else ""
    title = winner.objective.title
    return f"{title[:1].upper()}{title[1:]}: {winner.config}, {metric.words(ends.value)}{known}{gain}{tie}{told}."


def _with_bounds(rate: Estimate) -> str:
    known = "" if rate.lo is None or rate.hi is None else f" [{rate.lo:.1f}, {rate.hi:.1f}]"
    return f"{rate.value:.1f}{known}"


def _tie(winner: LoadWinner, told: SpecConfig) -> str:
    others = [config for config in (winner.config, *winner.tied) if config != told]
    if not others:
        return ""
    shown = ", ".join(str(config) for config in others[:2])
    more = f" and {len(others) - 2} more" if len(others) > 2 else ""
    return f" (a tie with {shown}{more})"


def _pays(winners: Sequence[LoadWinner]) -> str:
    """From which load to which the best speculating config beats the best baseline."""
    paying = [winner.concurrency for winner in winners if winner.config.speculates]
    if not paying:
        return f"Speculation does not pay at any measured load (C={_listed([w.concurrency for w in winners])})."
    within = [winner for winner in winners if paying[0] <= winner.concurrency <= paying[-1]]
    ties = [winner.concurrency for winner in within if not winner.config.speculates]
    doubtful = [w.concurrency for w in within if w.config.speculates and w.gain_separable is False]
    where = f"from C={paying[0]} to C={paying[-1]}" if len(paying) > 1 else f"at C={paying[0]}"
    lowest, highest = winners[0].concurrency, winners[-1].concurrency
    ends = f", of loads C={lowest} to C={highest}" if (paying[0], paying[-1]) != (lowest, highest) else ""
    text = f"Speculation pays {where}{ends}"
    if ties:
        text += f"; not at C={_listed(ties)}, where no speculation is as fast"
    if doubtful:
        text += f"; the gain at C={_listed(doubtful)} is within its doubt"
        text += "".join(_settled_by(w) for w in within if w.concurrency in doubtful)
    return text + "."


def _settled_by(winner: LoadWinner) -> str:
    """How many prompts would tell a gain from nothing, where prompts are what hides it."""
    needed = prompts_to_tell(winner.rate, winner.baseline_rate)
    return (
        f" (some {needed:,} prompts at C={winner.concurrency} would tell: `measure.requests_at_latency`)"
        if needed
        else ""
    )


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


def _beyond(beyond: Sequence[LoadWinner]) -> Iterator[str]:
    """What extrapolation would prefer: a reason to launch it, not an answer."""
    parts = [
        f"{winner.config} ({gain_words(ratio(winner.rate, winner.baseline_rate))})"
        if winner.config.speculates
        else str(winner.config)
        for winner in beyond
    ]
    named = [f"{part} at C={winner.concurrency}" for part, winner in zip(parts, beyond, strict=True)]
    if named:
        yield (
            "Extrapolated, not a fact: the simulator was not fitted to these, but expects them ahead, so they are "
            f"worth a launch: {', '.join(named)}."
        )


def _listed(loads: Sequence[int]) -> str:
    return ", ".join(map(str, loads))
