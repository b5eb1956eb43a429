"""Readings from measured phases: the one place where these statistics meet the contracts."""

from __future__ import annotations

from collections.abc import Callable

from search.contracts import PhaseResult
from search.stats.readings import Reading


def reading_of(
    phase: PhaseResult,
    of: Callable[[PhaseResult], float | None],
    *,
    start: int,
    place: int = 0,
    slot: str = "",
    prompt_set: str = "",
    fresh: bool = False,
) -> Reading | None:
    """One phase as a reading of one metric; None where the phase does not hold it.

    Prompts go along where their times per token are what the metric is the mean of. A rate of one stream has no
    such prompts: compare times per token and turn the ratio round (`Comparison.inverse`).

    Args:
        phase: One repeat.
        of: The metric: a number in any unit, or None.
        start: Number of the server start.
        place: Of the measurement in its start.
        slot: The GPUs and host.
        prompt_set: `search` or `held-out`.
        fresh: Made after the config had been picked.
    """
    value = of(phase)
    if value is None:
        return None
    mean = value == phase.tpot_ms and phase.concurrency == 1
    return Reading(
        start=start,
        value=value,
        place=place,
        repeat=phase.repeat,
        slot=slot,
        prompt_set=prompt_set,
        fresh=fresh,
        prompts=_by_prompt(phase) if mean and len(phase.prompt_ids) == len(phase.prompt_tpot_ms) else (),
    )


def _by_prompt(phase: PhaseResult) -> tuple[tuple[str, float], ...]:
    """Time per token by prompt, mean over its answers: fewer prompts than requests are cycled."""
    found: dict[str, list[float]] = {}
    for name, value in zip(phase.prompt_ids, phase.prompt_tpot_ms, strict=True):
        found.setdefault(name, []).append(value)
    return tuple((name, sum(values) / len(values)) for name, values in found.items())
