"""The area two objectives dominate, as points of which the first is to be small and the second large.

The judge's own arithmetic, shared with no sampler, so that a sampler's mistake cannot hide in it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from search.metrics import Direction, Objectives

Point = tuple[float, float]
"""Both objectives: milliseconds per token and tokens per second, or whatever else the study searches, see `point_of`."""

WORSE = 0.10
"""The reference point is this share worse than the worst that counts, on each axis."""


def point_of(axes: Objectives, values: tuple[float, float]) -> Point:
    """Values of a study's objectives as a point; one that is better the other way is taken as its reciprocal."""
    first, second = (max(value, axis.metric.floor) for axis, value in zip(axes, values, strict=True))
    small, large = (axis.direction is Direction.MINIMIZE for axis in axes)
    return first if small else 1.0 / first, 1.0 / second if large else second


def front(points: Iterable[Point]) -> list[Point]:
    """The points no other beats on both axes, lowest latency first; equal points once."""
    best: list[Point] = []
    for latency, throughput in sorted(set(points), key=lambda point: (point[0], -point[1])):
        if not best or throughput > best[-1][1]:
            best.append((latency, throughput))
    return best


def hypervolume(points: Iterable[Point], reference: Point) -> float:
    """The area between `reference` and the front, in milliseconds times tokens per second.

    Points no better than the reference on either axis add nothing.
    """
    slowest, least = reference
    inside = [(latency, throughput) for latency, throughput in points if latency < slowest and throughput > least]
    area, floor = 0.0, least
    for latency, throughput in front(inside):
        area += (slowest - latency) * (throughput - floor)
        floor = throughput
    return area


def reference_point(baseline: Point, true_front: Sequence[Point]) -> Point:
    """Per axis the worse of the baseline and the true front's worst point, worsened by 10%."""
    latency = max(baseline[0], *(point[0] for point in true_front))
    throughput = min(baseline[1], *(point[1] for point in true_front))
    return latency * (1 + WORSE), throughput * (1 - WORSE)
