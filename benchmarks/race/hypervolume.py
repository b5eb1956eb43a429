"""The area two objectives dominate: latency (smaller is better) against throughput (larger is better).

The judge's own arithmetic, shared with no sampler, so that a sampler's mistake cannot hide in it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

Point = tuple[float, float]
"""Latency in milliseconds per token, throughput in tokens per second."""

WORSE = 0.10
"""The reference point is this share worse than the worst that counts, on each axis."""


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
