"""Uncertainty of accept lengths, and what they say about a server: ACCEPT_DRIFT and unequal workers.

In a correct server the accept length depends on the prompts, the draft and the tree, and on
nothing else: not on load, not on the worker version. So two accept lengths that differ beyond
uncertainty under equal prompts are a fault, however plausible each looks alone (seen: 2.37 at C=1 and
1.15 at C=100 on v1).
"""

from __future__ import annotations

from collections.abc import Sequence
from math import exp, hypot, log, sqrt
from statistics import fmean

from search.contracts import PhaseResult
from search.stats.estimates import Estimate

_PROMPT_CV = 0.20
"""Prompts differ by some 20 % in accept length: code drafts easily, chat does not."""
_PASS_SD = 1.0
"""Drafts accepted in a pass, standard deviation; used where the release gives no histogram."""
_PASSES_ALIKE = 2.0
"""Neighbouring passes are alike, so a pass counts for half of an independent one."""
_FEWEST_PASSES = 50
_MATTERS = 0.05
"""A smaller fall changes no decision, however sure it is."""
_BEYOND = 3.0
"""Standard errors; a study asks this of every launch at every load."""
_TWO_SIDED = 1.96


def accept_estimate(repeats: Sequence[PhaseResult]) -> Estimate | None:
    """Mean accept length over repeats, with its interval over prompts and passes; None without speculation.

    Without counts (a recorded table may lack them) there is no interval. Repeats send the
    same prompts, so they narrow only what comes from passes.
    """
    having = [repeat for repeat in repeats if repeat.accept_length is not None]
    if not having:
        return None
    value = fmean(repeat.accept_length or 1.0 for repeat in having)
    noises = [_pass_noise(repeat) for repeat in having]
    known = [noise for noise in noises if noise is not None]
    if len(known) < len(noises):
        return Estimate(value)
    prompts = {name for repeat in having for name in repeat.prompt_ids}
    count = len(prompts) or max(repeat.requests for repeat in having)
    error = hypot(_PROMPT_CV / sqrt(count), hypot(*known) / len(known))
    return Estimate(value, max(1.0, value * exp(-_TWO_SIDED * error)), value * exp(_TWO_SIDED * error))


def accept_ratio(a: PhaseResult, b: PhaseResult) -> Estimate | None:
    """Accept length of `a` / that of `b` with its 95 % interval; None where the uncertainty is not known.

    What prompts differ by drops out as far as both sent the same ones. Where nobody named them (a
    recorded table), the smaller phase is taken to have sent the first of the larger one's: a study
    sends the same prompts in the same order.
    """
    if (error := accept_ratio_error(a, b)) is None or a.accept_length is None or b.accept_length is None:
        return None
    value = a.accept_length / b.accept_length
    return Estimate(value, value * exp(-_TWO_SIDED * error), value * exp(_TWO_SIDED * error))


def accept_drift(c1: PhaseResult, loaded: PhaseResult) -> bool:
    """Whether accept length fell under load by more than its uncertainty (ACCEPT_DRIFT).

    A fall by more than three standard errors, and by more than 5 %, with at least 50 verify
    passes on both sides.
    """
    if (error := accept_ratio_error(c1, loaded)) is None or c1.accept_length is None or loaded.accept_length is None:
        return False
    fall = log(c1.accept_length / loaded.accept_length)
    return fall > max(_BEYOND * error, -log(1 - _MATTERS))


def accept_ratio_error(a: PhaseResult, b: PhaseResult) -> float | None:
    """Standard error of the logarithm of the ratio of two accept lengths; None where it is not known."""
    noises = (_pass_noise(a), _pass_noise(b))
    if noises[0] is None or noises[1] is None:
        return None
    mine, theirs = set(a.prompt_ids), set(b.prompt_ids)
    if mine and theirs:
        shared = 2 * len(mine & theirs) / (len(mine) * len(theirs))
        prompts = max(0.0, 1 / len(mine) + 1 / len(theirs) - shared)
    else:
        prompts = abs(1 / a.requests - 1 / b.requests)
    return hypot(_PROMPT_CV * sqrt(prompts), *(noise for noise in noises if noise is not None))


def _pass_noise(result: PhaseResult) -> float | None:
    """Relative standard error that comes from passes; None without counts or with too few passes."""
    if not result.accept_length:
        return None
    passes = sum(result.accept_histogram) or (result.output_tokens or 0) / result.accept_length
    if passes < _FEWEST_PASSES:
        return None
    return _pass_sd(result.accept_histogram) * sqrt(_PASSES_ALIKE / passes) / result.accept_length


def _pass_sd(histogram: Sequence[int]) -> float:
    count = sum(histogram)
    if not count:
        return _PASS_SD
    mean = sum(drafts * passes for drafts, passes in enumerate(histogram)) / count
    return sqrt(sum(passes * (drafts - mean) ** 2 for drafts, passes in enumerate(histogram)) / count)
