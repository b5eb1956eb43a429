"""What of a phase is measured for people, and what a study searches over: metrics and objectives.

One entry of `METRICS` is all that a new metric needs: study files can name it, and sampler, front,
score, report, recordings, dashboard and race follow. What is `1000 / time per token` at concurrency 1
and the steady window's throughput above it, the rate of a load, is defined here and nowhere else.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from statistics import fmean
from typing import Final, TypeAlias

from search.contracts import PhaseResult


class Direction(StrEnum):
    """Which way a metric is better, in Optuna's words."""

    MINIMIZE = "minimize"
    MAXIMIZE = "maximize"


@dataclass(frozen=True, slots=True)
class Metric:
    """One number of a phase.

    Attributes:
        name: As in columns, such as `tpot_ms`.
        title: For people, such as `time per output token`.
        unit: For people, such as `ms`; empty for a share, which is shown in percent.
        direction: Which way is better.
        of: The value of one repeat; None where it was not measured.
        fields: Of `PhaseResult`, what `of` reads; recordings keep a column for each.
        prompts: One value per prompt, in prompt order; empty where only a mean is known. None for a
            metric that has none, such as a percentile.
        pays: The share of change of the value that one share of change of the pace is expected to bring:
            1 for a time that grows with it, -1 for a rate. The belief starts from it, see
            `search.model.linked`.
        exact: The concurrencies at which the value is the pace in other units and needs no model of its
            own: `one` (concurrency 1), `many` (above it), `none`.
        scale: Where `exact`: value = scale(concurrency) * pace ** pays.
        floor: Values below count as this where they are ordered by their logarithms. A share of 0 has none, and no
            ratio: what is told to people of it is its value alone.
        ceiling: The largest value there is, such as 1 for a share; None without one.
        needs_limits: Means nothing without `measure.limits`.
        digits: Decimals in tables.
        beside: Shown to people beside the value: the rate of the load, as tok/s at C=1 beside ms.
        role: Of the config that is best at it, as launch scripts are named; without it `best-<name>`.
    """

    name: str
    title: str
    unit: str
    direction: Direction
    of: Callable[[PhaseResult], float | None]
    fields: tuple[str, ...]
    prompts: Callable[[PhaseResult], tuple[float, ...]] | None = None
    pays: float = 1.0
    exact: str = "none"
    scale: Callable[[int], float] | None = None
    floor: float = 1e-9
    ceiling: float | None = None
    needs_limits: bool = False
    digits: int = 3
    beside: bool = False
    role: str = ""

    def ratio(self, a: float, b: float) -> float | None:
        """How much better `a` is than `b`: above 1 if it is, whichever way is better; None where one is not above `floor`."""
        if min(a, b) <= self.floor:
            return None
        return a / b if self.direction is Direction.MAXIMIZE else b / a

    def words(self, value: float | None) -> str:
        """The value with its unit, such as `10.8 ms`, `775 tok/s`, `97.5%`; `-` for None."""
        if value is None:
            return "-"
        if not self.unit:
            return f"{value:.1%}"
        return f"{number(value)} {self.unit}"


@dataclass(frozen=True, slots=True)
class Objective:
    """A metric at a concurrency: one axis of the front."""

    metric: Metric
    concurrency: int

    @property
    def name(self) -> str:
        """Such as `c1_tpot_ms`: the column of tables and the name of Optuna's value."""
        return f"c{self.concurrency}_{self.metric.name}"

    @property
    def direction(self) -> Direction:
        """Which way is better."""
        return self.metric.direction

    @property
    def title(self) -> str:
        """For people, such as `output throughput at C=100`."""
        return f"{self.metric.title} at C={self.concurrency}"

    def of(self, phase: PhaseResult) -> float | None:
        """The value of one repeat; None at another concurrency and where it was not measured."""
        return self.metric.of(phase) if phase.concurrency == self.concurrency else None

    def mean(self, phases: Iterable[PhaseResult]) -> float | None:
        """Mean over the repeats that have it; None where none does."""
        values = [value for phase in phases if (value := self.of(phase)) is not None]
        return fmean(values) if values else None

    def better(self, a: float, b: float) -> float | None:
        """How much better `a` is than `b`, as a ratio: 1.1 is 10% better, whichever way is better; None as `Metric.ratio`."""
        return self.metric.ratio(a, b)

    def worsened(self, value: float, share: float) -> float:
        """`value`, worse by `share`: 0.1 makes a time 10% longer and a rate 10% lower."""
        return value * (1 + share) if self.direction is Direction.MINIMIZE else value * (1 - share)

    def worst(self, values: Iterable[float]) -> float:
        """The worst of several values."""
        return max(values) if self.direction is Direction.MINIMIZE else min(values)

    @property
    def link(self) -> tuple[float, int] | None:
        """Scale and power where the value is `scale * pace ** power`; None where it needs a model of its own."""
        fits = {"one": self.concurrency == 1, "many": self.concurrency > 1}
        if not fits.get(self.metric.exact, False) or self.metric.scale is None:
            return None
        return self.metric.scale(self.concurrency), round(self.metric.pays)


@dataclass(frozen=True, slots=True)
class Traffic:
    """How a service is used: the share of the day that it spends at each concurrency.

    An objective over several loads, lower being better: the time that a config needs for what a reference serves in a
    day, as a share of the day. A reference that has 20% of the day at concurrency 1 gets through as many tokens there as
    a config that is 10% faster does in 18.2%.

    Attributes:
        shares: Concurrency and share, ascending; they sum to 1.
    """

    shares: tuple[tuple[int, float], ...]

    @property
    def loads(self) -> tuple[int, ...]:
        """Ascending."""
        return tuple(load for load, _ in self.shares)

    @property
    def words(self) -> str:
        """Such as `20% at C=1, 80% at C=100`."""
        return ", ".join(f"{share:.0%} at C={load}" for load, share in self.shares)

    def time(self, paces: Mapping[int, float], reference: Mapping[int, float]) -> float:
        """Time for the reference's day, as a share of it.

        Args:
            paces: Milliseconds per token of one request, by load.
            reference: The same of what the shares are of, such as the best baseline.
        """
        return sum(share * paces[load] / reference[load] for load, share in self.shares)

    def with_share(self, load: int, share: float) -> Traffic:
        """The same with another share at one load; the others keep their proportions."""
        rest = sum(other for at, other in self.shares if at != load)
        return Traffic(
            tuple(
                (at, share if at == load else other / rest * (1 - share) if rest else 0.0) for at, other in self.shares
            )
        )


def rate_tps(phase: PhaseResult) -> float:
    """The rate of a load in tokens per second, by which configs are compared at it.

    `1000 / tpot_ms` at concurrency 1, where it is known; else the steady window's throughput.
    """
    if phase.concurrency == 1 and phase.tpot_ms is not None:
        return 1000 / phase.tpot_ms
    return phase.output_tps


def mean_rate(phases: Sequence[PhaseResult]) -> float:
    """The rate of a load over repeats: at concurrency 1 of the mean time per token, above it the mean throughput.

    Args:
        phases: Of one concurrency, at least one.
    """
    times = [phase.tpot_ms for phase in phases if phase.tpot_ms is not None]
    if phases[0].concurrency == 1 and times:
        return 1000 / fmean(times)
    return fmean(phase.output_tps for phase in phases)


def pace_ms(phase: PhaseResult) -> float | None:
    """Milliseconds per token of one request at the rate of the load; None for a phase that gave none."""
    if phase.concurrency == 1 and phase.tpot_ms is not None:
        return phase.tpot_ms
    return pace_of(phase.output_tps, phase.concurrency) if phase.output_tps > 0.0 else None


def pace_of(rate: float, concurrency: int) -> float:
    """Milliseconds per token of one of `concurrency` requests that share a rate; and the rate of a pace."""
    return 1000.0 * concurrency / rate


def gain_percent(ratio: float) -> str:
    """A ratio as people read it, the only place where one becomes a percentage: `+10.1%`, `-6.4%`, `+0.0%`.

    Whole percents from 100% on.
    """
    gain = ratio - 1
    if abs(gain) >= 1:
        return f"{gain:+.0%}"
    text = f"{gain:+.1%}"
    return "+0.0%" if text == "-0.0%" else text


def number(value: float | None) -> str:
    """Three significant digits or whole numbers: `2.93`, `86.8`, `775`, `12,100`; `-` for None."""
    if value is None:
        return "-"
    size = abs(value)
    if size >= 99.95:
        return f"{value:,.0f}"
    return f"{value:.1f}" if size >= 9.995 else f"{value:.2f}"


def _user_tps(phase: PhaseResult) -> float | None:
    return 1000.0 / phase.tpot_ms if phase.tpot_ms else None


def _per_gpu(phase: PhaseResult) -> float | None:
    return phase.output_tps / phase.gpus if phase.gpus else None


_SHIPPED: Final = (
    Metric(
        "tpot_ms", "time per output token", "ms", Direction.MINIMIZE, lambda phase: phase.tpot_ms, ("tpot_ms",),
        prompts=lambda phase: phase.prompt_tpot_ms, exact="one", scale=lambda _: 1.0, digits=4, beside=True,
        role="lowest-latency",
    ),
    Metric(
        "output_tps", "output throughput", "tok/s", Direction.MAXIMIZE, lambda phase: phase.output_tps, ("output_tps",),
        pays=-1.0, exact="many", scale=lambda load: 1000.0 * load, role="highest-throughput",
    ),
    Metric(
        "user_tps", "rate of one user", "tok/s per user", Direction.MAXIMIZE, _user_tps, ("tpot_ms",),
        prompts=lambda phase: tuple(1000.0 / ms for ms in phase.prompt_tpot_ms if ms > 0), pays=-1.0, exact="one",
        scale=lambda _: 1000.0,
    ),
    Metric(
        "tps_per_gpu", "output throughput per GPU", "tok/s per GPU", Direction.MAXIMIZE, _per_gpu, ("output_tps", "gpus"),
        pays=-1.0,
    ),
    Metric("ttft_ms", "time to first token, mean", "ms", Direction.MINIMIZE, lambda phase: phase.ttft_ms, ("ttft_ms",)),
    Metric(
        "ttft_p50_ms", "time to first token, median", "ms", Direction.MINIMIZE, lambda phase: phase.ttft_p50_ms,
        ("ttft_p50_ms",),
    ),
    Metric(
        "ttft_p99_ms", "time to first token, 99th percentile", "ms", Direction.MINIMIZE, lambda phase: phase.ttft_p99_ms,
        ("ttft_p99_ms",),
    ),
    Metric("e2e_ms", "end-to-end latency, mean", "ms", Direction.MINIMIZE, lambda phase: phase.e2e_ms, ("e2e_ms",)),
    Metric(
        "e2e_p99_ms", "end-to-end latency, 99th percentile", "ms", Direction.MINIMIZE, lambda phase: phase.e2e_p99_ms,
        ("e2e_p99_ms",),
    ),
    Metric(
        "goodput", "share of requests within the limits", "", Direction.MAXIMIZE, lambda phase: phase.goodput,
        ("goodput",), pays=-1.0, floor=0.002, ceiling=1.0, needs_limits=True, digits=4,
    ),
    Metric(
        "goodput_rps", "requests within the limits", "requests/s", Direction.MAXIMIZE, lambda phase: phase.goodput_rps,
        ("goodput_rps",), pays=-1.0, floor=1e-3, needs_limits=True,
    ),
)  # fmt: skip

METRICS: Final[dict[str, Metric]] = {metric.name: metric for metric in _SHIPPED}
"""Metrics by name; to add one is to add an entry, before study files that name it are read."""

BESIDE: Final = ("ttft_p50_ms", "ttft_p99_ms", "e2e_ms", "e2e_p99_ms", "goodput", "goodput_rps", "gpus")
"""Fields of `PhaseResult` that a recording has a column for only where an objective reads them."""


DEFAULTS: Final = (Objective(METRICS["tpot_ms"], 1), Objective(METRICS["output_tps"], 100))
"""What a study searches over that does not say: time per output token alone, throughput under load."""

Objectives: TypeAlias = tuple[Objective, Objective]
"""The two axes of a study's front; what is measured first, and may spare the second, stands first."""


def is_rate(objective: Objective) -> bool:
    """Whether the objective is the rate of its load, which people are shown in tokens per second."""
    return objective.link is not None or objective.metric.role != ""


def own_axes(objectives: Objectives) -> tuple[Objective, ...]:
    """Objectives that are not the rate of their load, and have columns, winners and sentences of their own."""
    return tuple(objective for objective in objectives if not is_rate(objective))


def loads_of(objectives: Sequence[Objective]) -> tuple[int, ...]:
    """Their concurrencies, each once, in their order."""
    return tuple(dict.fromkeys(objective.concurrency for objective in objectives))


def values_of(objectives: Objectives, phases: Sequence[PhaseResult]) -> tuple[float, float] | None:
    """Both values, means over repeats; None where one of them was not measured."""
    first, second = (objective.mean(phases) for objective in objectives)
    return None if first is None or second is None else (first, second)


def fields_beside(objectives: Sequence[Objective]) -> tuple[str, ...]:
    """Fields of `PhaseResult` that a recording of these objectives needs beyond its usual columns."""
    wanted = {name for objective in objectives for name in objective.metric.fields}
    return tuple(name for name in BESIDE if name in wanted)
