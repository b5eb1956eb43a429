"""Whether a start that holds several configs measures as a start of their own does: one pick is measured both ways.

The confirmation of a pick serves as its start of its own. Accept length at one stream and greedy text decide first:
they are the config's alone, whatever a start draws. Then speed at the objectives, within what starts differ by.

What it would say if nothing were true: the pick was chosen among many for the luck of the very measurement that is
tested, and falls back in its own start though nothing differs. So each bound is one that the luckiest of all configs
that were switched to keeps (Bonferroni), and what a start drew is bounded for the luckiest of all shared starts. The
levels below add up to 5% a study.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from math import exp, log, log1p
from pathlib import Path
from typing import Final

import numpy as np

from search.contracts import LaunchPaths
from search.metrics import Objective, Objectives
from search.outcomes import Note, Outcome
from search.stats.acceptance import accept_ratio_error
from search.stats.bounds import two_sided
from search.stats.compare import compare
from search.stats.losslessness import check_outputs, read_answers
from search.stats.scatter import ASSUMED, Scatter
from search.storage.records import LaunchRecord
from search.study.scatter import axis_scatter, readings_of, searched_phases

ACCEPT_LEVEL: Final = 0.01
"""Chance that equal accept lengths are called different. Greedy text has 1% of its own (`search.stats.losslessness`)."""
SPEED_LEVEL: Final = 0.015
"""Of each objective."""
_SEED: Final = 20261201


@dataclass(frozen=True, slots=True)
class Pair:
    """One config, measured both ways.

    Attributes:
        shared: After a switch, in a start for several configs.
        own: Its first confirmation, in a start of its own.
        configs: That were switched to before: the pick is one of them.
        starts: That they were measured in.
    """

    shared: LaunchRecord
    own: LaunchRecord
    configs: int
    starts: int


@dataclass(frozen=True, slots=True)
class Finding:
    """What a pair shows.

    Attributes:
        differs: What differs beyond its bound, most decisive first; empty where nothing does.
        words: For people: what was compared, with its numbers.
    """

    differs: tuple[str, ...]
    words: tuple[str, ...]


def pair_of(launches: Sequence[LaunchRecord]) -> Pair | None:
    """The first pick that was measured both ways; None before there is one."""
    switched = [one for one in launches if one.switch_s is not None and one.outcome is Outcome.MEASURED]
    for own in launches:
        if own.stage != "confirm" or own.start is not None or own.outcome is not Outcome.MEASURED:
            continue
        for shared in switched:
            if shared.config == own.config and shared.number < own.number:
                before = [one for one in switched if one.number < own.number]
                starts = len({one.start_number for one in before})
                return Pair(shared, own, len({one.config for one in before}), starts)
    return None


def judge_pair(pair: Pair, axes: Objectives, launches: Sequence[LaunchRecord], reports: Path | None = None) -> Finding:
    """Compare both ways: accept length, text, then speed.

    Args:
        pair: Of one config.
        axes: Of the study.
        launches: Of the study: they show how far starts and places differ.
        reports: The study's report folder, where answers lie; text is not compared without it.
    """
    found = [*_accept_length(pair), *_text(pair, reports)]
    found += [difference for axis in axes if (difference := _speed(axis, pair, launches)) is not None]
    return Finding(tuple(words for words, differs in found if differs), tuple(words for words, _ in found))


def _accept_length(pair: Pair) -> Iterator[tuple[str, bool]]:
    """At one stream, on equal prompts. Of the first repeats: greedy repeats are one text, and count no pass twice."""
    ends = [next((p for p in searched_phases(one) if p.concurrency == 1), None) for one in (pair.shared, pair.own)]
    shared, own = ends
    if shared is None or own is None or not shared.accept_length or not own.accept_length:
        return
    if set(shared.prompt_ids) != set(own.prompt_ids) or (error := accept_ratio_error(shared, own)) is None:
        return
    gap = log(shared.accept_length / own.accept_length)
    bound = two_sided(error**2, ACCEPT_LEVEL / pair.configs)
    words = f"accept length at C=1 {shared.accept_length:.3f} after a switch, {own.accept_length:.3f} alone"
    yield f"{words} (counting error allows {_percent(bound)})", abs(gap) > bound


def _text(pair: Pair, reports: Path | None) -> Iterator[tuple[str, bool]]:
    """Greedy answers at one stream against those of the start of its own, whose repeats show how alike they can be."""
    if reports is None:
        return
    shared, own = (read_answers(LaunchPaths(reports / one.folder).outputs(1)) for one in (pair.shared, pair.own))
    if not shared or not own:
        return
    check = check_outputs(1, shared, own, rng=np.random.default_rng(_SEED))
    if check.verdict == "not judged" or check.agreement is None:
        return
    words = f"greedy text at C=1 {check.agreement.value:.1%} alike over {check.prompts} prompts"
    yield words, check.verdict in ("lossy", "garbage")


def _speed(axis: Objective, pair: Pair, launches: Sequence[LaunchRecord]) -> tuple[str, bool] | None:
    """At one objective, the place's effect taken off; None where the two share neither slot nor prompts."""
    one, other = (next(iter(readings_of(axis, [launch]).values()), []) for launch in (pair.shared, pair.own))
    # Were the pair itself among what shows how far starts differ, no difference would be larger than that.
    scatter = _with_prior(axis_scatter(axis, [launch for launch in launches if launch.number != pair.own.number]))
    comparison = compare(one, other, scatter)
    if comparison is None or comparison.basis == "unlike starts":
        return None
    place = pair.shared.place
    gap = comparison.log_ratio - (scatter.slope or 0.0) * place
    luck, _ = scatter.inside(1.0, 1 / max(1, len([reading for reading in one if reading.prompt_set == "search"])))
    drift = scatter.slope_variance * luck.variance * place**2
    across = two_sided(comparison.variance + drift, SPEED_LEVEL / 2 / pair.starts, comparison.freedom)
    bound = across + two_sided(luck.variance, SPEED_LEVEL / 2 / pair.configs, luck.freedom)
    words = f"{axis.name} {exp(gap) - 1:+.1%} after a switch (starts and choice allow {_percent(bound)})"
    return words, abs(gap) > bound


def _with_prior(scatter: Scatter) -> Scatter:
    """With what is assumed pooled in, where starts show little: far out in its tails one degree of freedom bounds nothing."""
    if not scatter.assumed:
        return scatter
    known, prior = scatter.start_freedom, scatter.prior or ASSUMED
    expected = prior.between**2 + scatter.start_inverse * prior.within**2
    pooled = (known * scatter.start + prior.freedom * expected) / (known + prior.freedom)
    return replace(scatter, start=pooled, start_freedom=known + prior.freedom)


def _percent(log_value: float) -> str:
    return f"±{exp(min(log_value, log1p(9.0))) - 1:.1%}"


class Trust:
    """Looks at each launch that ends: the first pick that was measured both ways decides whether starts stay shared.

    Args:
        axes: Of the study.
        reports: Its report folder.
        notice: Gets one line.
        amend: Stores a record with another note.
        end: Ends the sharing of starts, with the reason.
    """

    def __init__(
        self,
        axes: Objectives,
        reports: Path,
        *,
        notice: Callable[[str], None],
        amend: Callable[[LaunchRecord], None],
        end: Callable[[str], None],
    ) -> None:
        self._axes, self._reports = axes, reports
        self._notice, self._amend, self._end = notice, amend, end

    def saw(self, record: LaunchRecord, launches: Sequence[LaunchRecord]) -> None:
        """Judge the pair that `record` completes, if it does.

        Args:
            record: Has just ended.
            launches: Of the study, it included.
        """
        if record.stage != "confirm" or (pair := pair_of(launches)) is None or pair.own.number != record.number:
            return
        found = judge_pair(pair, self._axes, launches, self._reports)
        if not found.words:
            return
        if not found.differs:
            self._notice(f"{record.config} measures alike in a shared start and in its own: {'; '.join(found.words)}")
            return
        notes = tuple(dict.fromkeys((*pair.shared.notes, Note.START_DIFFERS)))
        self._amend(replace(pair.shared, notes=notes))
        self._notice(
            f"{Note.START_DIFFERS.value}: {record.config} measured otherwise after a switch (launch {pair.shared.number}) "
            f"than in a start of its own (launch {record.number}): {'; '.join(found.differs)}. What rests on starts of "
            "their own stands; the search's other numbers of shared starts are to be doubted"
        )
        self._end("a switched server did not measure as a start of its own does")


def differs(launches: Sequence[LaunchRecord]) -> bool:
    """Whether a study has found that its shared starts measure otherwise; it shares none any more."""
    return any(Note.START_DIFFERS in launch.notes for launch in launches)
