"""Whether launches came out as the sampler's belief said before them, and where it was wrong."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from statistics import fmean, stdev
from typing import TypeAlias

from scipy.special import bdtr, stdtr

from search.analysis.findings import PredictedValue, PredictedValues
from search.analysis.results import launch_load, metric_estimate
from search.metrics import METRICS, Metric, Objective
from search.outcomes import Blame, Note, Outcome
from search.spec.study import StudySpec
from search.storage.records import LaunchRecord

Band: TypeAlias = tuple[float, float, float]

BAND = 0.90
"""Share of numbers that are to lie between the quantiles of `Expected`."""
_CHANCE = 0.05
"""A share or a bias that comes by chance more rarely is reported."""
_FEW = 4
"""With fewer numbers nothing is said of bands and bias."""
_SURE = 0.8
"""A config that was thought to start with this probability, and did not, is named."""


def predictions(spec: StudySpec, launches: Sequence[LaunchRecord]) -> PredictedValues:
    """Compare all launches of which something was expected.

    Left out are numbers of a config that nobody asked for (EFFECTIVE_DIFFERS), of garbage, and of launches that
    the host or this tool spoiled.
    """
    expected = [launch for launch in launches if launch.expected is not None and launch.outcome is not None]
    numbers = [number for launch in expected for number in _numbers(spec, launch)]
    return PredictedValues(tuple(numbers), tuple(_sentences(numbers, expected)))


def _numbers(spec: StudySpec, launch: LaunchRecord) -> Iterator[PredictedValue]:
    if launch.outcome not in (Outcome.MEASURED, Outcome.GATED) or Note.EFFECTIVE_DIFFERS in launch.notes:
        return
    assert launch.expected is not None
    for axis, band in zip(spec.axes, (launch.expected.first, launch.expected.second), strict=True):
        at = launch_load(launch, axis.concurrency)
        if at is None:
            continue
        metric, shown = _as_people_see_it(axis, band)
        measured = at.rate if axis.link is not None else metric_estimate(axis.metric, launch.repeats(axis.concurrency))
        if measured is not None:
            yield PredictedValue(launch.number, launch.config, axis.concurrency, metric, shown, measured)


def _as_people_see_it(axis: Objective, band: Band) -> tuple[Metric, Band]:
    """The rate of the load where the objective is that in other units, in tokens per second; else the objective itself."""
    if axis.link is None:
        return axis.metric, band
    low, middle, high = band
    scale, power = axis.link
    load = axis.concurrency
    if power < 0:  # rates of one request or all: scale * pace ** -1
        factor = 1000.0 * load / scale
        return METRICS["output_tps"], (low * factor, middle * factor, high * factor) if factor != 1.0 else band
    return METRICS["output_tps"], (
        1000.0 * load / (high / scale),
        1000.0 * load / (middle / scale),
        1000.0 * load / (low / scale),
    )


def _sentences(numbers: Sequence[PredictedValue], launches: Sequence[LaunchRecord]) -> Iterator[str]:
    if numbers:
        yield _held(numbers)
    for number in sorted((n for n in numbers if not n.held), key=_how_wrong, reverse=True):
        slow, middle, fast = number.expected
        yield (
            f"The model was wrong here: {number.config} at C={number.concurrency} (launch {number.launch}) measured "
            f"{_value(number)}, where it expected {_plain(number, middle)} ({_plain(number, slow)} to "
            f"{_plain(number, fast)})."
        )
    for load, metric in sorted({(number.concurrency, number.metric.name) for number in numbers}):
        same = [number for number in numbers if (number.concurrency, number.metric.name) == (load, metric)]
        yield from _bias(load, METRICS[metric], [number.ratio for number in same if number.ratio is not None])
    yield from _starts(launches)


def _held(numbers: Sequence[PredictedValue]) -> str:
    held, of = sum(number.held for number in numbers), len(numbers)
    text = (
        f"Of {_counted(of, 'number')} that the model predicted before the launch, {held} {'lies' if held == 1 else 'lie'} "
        f"within its {BAND:.0%} band; {BAND * of:.1f} should"
    )
    if of >= _FEW and bdtr(held, of, BAND) < _CHANCE:
        return f"{text}. That is fewer than chance explains: its bands are too narrow for this deployment."
    return f"{text}."


def _counted(count: int, word: str) -> str:
    return f"{count} {word}{'' if count == 1 else 's'}"


def _plain(number: PredictedValue, value: float) -> str:
    return f"{value:,.1f}" if number.metric.unit else f"{value:.1%}"


def _how_wrong(number: PredictedValue) -> float:
    """Of the measured value and the expected one: how far their ratio is from 1, either way."""
    return math.inf if number.ratio is None else abs(math.log(number.ratio))


def _value(number: PredictedValue) -> str:
    return f"{_plain(number, number.measured.value)} {number.metric.unit}".rstrip()


def _bias(load: int, metric: Metric, ratios: Sequence[float]) -> Iterator[str]:
    """One-sided misses; of a mean of few, so by Student's t."""
    if len(ratios) < _FEW:
        return
    logs = [math.log(ratio) for ratio in ratios]
    mean, spread = fmean(logs), stdev(logs) / math.sqrt(len(logs))
    if 2 * stdtr(len(logs) - 1, -abs(mean) / max(spread, 1e-12)) < _CHANCE:
        better, worse = ("faster", "slower") if metric.name == "output_tps" else ("better", "worse")
        of = "" if metric.name == "output_tps" else f" in {metric.title}"
        yield (
            f"At C={load} launches are {better if mean > 0 else worse}{of} than it expected, by {abs(math.expm1(mean)):.1%} "
            "in the mean."
        )


def _starts(launches: Sequence[LaunchRecord]) -> Iterator[str]:
    """Chances to start against what started; a config's second attempt was promised nothing of its own."""
    last = {launch.asked: launch for launch in launches}.values()
    known = [launch for launch in last if launch.blame in (None, Blame.CONFIG)]
    if not known:
        return
    started = sum(launch.blame is None for launch in known)
    chances = [launch.expected.feasible for launch in known if launch.expected]
    yield f"Of {_counted(len(known), 'config')} it expected {sum(chances):.1f} to give a measurement; {started} did."
    for launch in known:
        if launch.blame is not None and launch.expected and launch.expected.feasible >= _SURE:
            yield (
                f"The model was wrong here: {launch.asked} (launch {launch.number}) was to give a measurement with a "
                f"chance of {launch.expected.feasible:.0%}, and did not: {launch.reason}."
            )
