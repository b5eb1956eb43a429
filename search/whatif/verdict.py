"""From numbers to a verdict: is a config worth a launch, and is a locked one worth a patch?"""

from __future__ import annotations

from collections.abc import Sequence

from search.whatif.answer import AtLoad, Expectation, Legality, Separation, Test, Unlocking, Variant, Worth

LONG_SHOT = 0.15
"""Chance to be the fastest at some load, or to enter the front, from which a launch is at least a gamble."""
_CERTAIN = 0.005


def worth_of(legality: Legality, expectation: Expectation, *, noise_gain: float, modelled: bool) -> Worth:
    """The verdict in a word.

    A launch is worth its time where the growth it promises stands out of noise; a long shot
    where that is not so, but the chance to be first somewhere is no less than `LONG_SHOT`.

    Args:
        legality: Whether it may run.
        expectation: Of a launch of it.
        noise_gain: Growth of the front that noise alone would show, as a share.
        modelled: Whether nothing but a cost model stands behind the expectation.
    """
    if not legality.legal:
        return "locked" if legality.locked else "impossible"
    if modelled:
        return "open"
    if all(load.measured for load in expectation.loads):
        return "measured"
    if expectation.gain >= noise_gain:
        return "launch"
    chances = [load.beats for load in expectation.loads if load.beats is not None]
    return "long shot" if max([*chances, expectation.enters_front]) >= LONG_SHOT else "no"


def verdict_of(
    config_id: str,
    worth: Worth,
    expectation: Expectation,
    unlocking: Unlocking | None,
    *,
    objectives: tuple[int, ...],
    noise_gain: float,
    modelled: bool,
) -> str:
    """The verdict on one config in a sentence.

    Args:
        config_id: Of the config.
        worth: From `worth_of`.
        expectation: Of a launch of it.
        unlocking: What would make it legal, where it is locked.
        objectives: Concurrencies of the objectives.
        noise_gain: Growth of the front that noise alone would show, as a share.
        modelled: Whether nothing but a cost model stands behind the expectation.
    """
    if worth == "measured":
        return f"{config_id} is measured: {_rates(expectation)}."
    if worth == "impossible":
        return f"{config_id} cannot be launched, and nothing lifts what refuses it."
    noise = f"the {share(noise_gain)} that noise alone would show"
    reach = " and ".join(rate_at(load, modelled=modelled) for load in _worth_saying(expectation, objectives))
    if worth == "open":
        return f"{config_id} cannot be judged while nothing is measured; by priors alone it should reach {reach}."
    if worth == "locked" and modelled:
        return f"{config_id} would reach {reach}, by priors alone: no ground for a patch."
    if worth == "locked":
        return f"{config_id} would reach {reach}; {_patching(expectation, unlocking, noise, noise_gain)}."
    said, side = {
        "launch": ("is worth a launch", "above"),
        "long shot": ("is a long shot", "below"),
        "no": ("is not worth a launch for its own sake", "below"),
    }[worth]
    return (
        f"{config_id} {said}: its expected growth of the front is {share(expectation.gain)}, {side} {noise}; "
        f"it should reach {reach}."
    )


def decision_of(
    variants: Sequence[Variant],
    separations: Sequence[Separation],
    test: Test,
    *,
    noise_gain: float,
    modelled: bool,
) -> str:
    """What to do next, in one sentence.

    Args:
        variants: All configs that the question names.
        separations: Effects that the measurements leave confounded.
        test: The launch that promises most.
        noise_gain: Growth of the front that noise alone would show, as a share.
        modelled: Whether nothing but a cost model stands behind the expectation.
    """
    if modelled:
        first = test.next_launch or "the baseline"
        return (
            f"Measure {first} first: without a measured baseline priors alone decide nothing, for or against a launch."
        )
    legal = [variant for variant in variants if variant.legality.legal and variant.worth != "measured"]
    locked = max(
        (variant for variant in variants if variant.worth == "locked"),
        key=lambda variant: variant.expectation.gain,
        default=None,
    )
    best = max(legal, key=lambda variant: variant.expectation.gain, default=None)
    after = _after(best, separations, test, noise_gain)
    if best is not None and separations and best.config_id == separations[0].launch:
        after = f", which also shows what these numbers cannot{after}"
    patch = ""
    if locked is not None:
        more = locked.expectation.gain >= test.next_gain
        patch = (
            f"; a patch for {locked.config_id} promises more than any legal launch ({share(locked.expectation.gain)})"
            if more
            else f"; a patch for {locked.config_id} can wait"
        )
    if best is None:
        if any(variant.worth == "measured" for variant in variants):
            return f"No launch, it is measured already{after}{patch}."
        return f"Nothing of this can be launched as it stands{after}{patch}."
    if test.next_launch == best.config_id:
        return f"Launch {best.config_id} next{after}: nothing legal promises more per GPU hour{patch}."
    if best.worth == "launch":
        return f"Launch {best.config_id}{after}{patch}."
    if best.worth == "long shot":
        return f"With GPU time to spare, launch {best.config_id}{after}{patch}."
    return f"Do not launch {best.config_id} for its own sake{after}{patch}."


def _after(best: Variant | None, separations: Sequence[Separation], test: Test, noise_gain: float) -> str:
    """What comes first: the launch that promises most, and the one that shows most."""
    own = best.config_id if best else ""
    if not test.next_launch or test.next_launch == own:
        return ""
    promise = f"expected growth of the front {share(test.next_gain)}"
    parts = [f"{test.next_launch} promises most per GPU hour ({promise})"]
    if test.next_gain < noise_gain:
        parts = [f"no launch promises more than noise would show (best: {test.next_launch}, {promise})"]
    if separations and separations[0].launch not in (own, test.next_launch):
        parts.append(f"{separations[0].launch} would show what these numbers cannot")
    return f"; {' and '.join(parts)}"


def _worth_saying(expectation: Expectation, objectives: tuple[int, ...]) -> list[AtLoad]:
    """Both objectives, and the load at which the config is likeliest to be the fastest."""
    best = max(expectation.loads, key=lambda load: (load.beats or 0.0, load.expected))
    return [load for load in expectation.loads if load.concurrency in objectives or load == best]


def rate_at(load: AtLoad, *, modelled: bool) -> str:
    """A forecast in words: `490 tok/s at C=100 (393 to 613) against the measured 775 of off (chance …)`."""
    words = f"{tps(load.expected)} tok/s at C={load.concurrency} ({tps(load.low)} to {tps(load.high)})"
    if load.best_tps is None or load.beats is None:
        return words
    known = "modelled" if modelled else "measured"
    return f"{words} against the {known} {tps(load.best_tps)} of {load.best} (chance to beat it {share(load.beats)})"


def share(value: float) -> str:
    """A probability or a share: `41%`, `0.7%`, `under 0.1%`."""
    if 0.0 <= value < 0.001:
        return "under 0.1%"
    if value > 1.0 - _CERTAIN and value <= 1.0:
        return "over 99%"
    return f"{value:.1%}" if value < 0.0995 else f"{value:.0%}"


def tps(value: float) -> str:
    """Three significant digits: `83.8`, `490`, `12,100`."""
    return f"{value:,.0f}" if value >= 99.95 else f"{value:.1f}" if value >= 9.995 else f"{value:.2f}"


def _rates(expectation: Expectation) -> str:
    return ", ".join(f"{tps(load.expected)} tok/s at C={load.concurrency}" for load in expectation.loads)


def _patching(expectation: Expectation, unlocking: Unlocking | None, noise: str, noise_gain: float) -> str:
    gain = f"expected growth of the front {share(expectation.gain)}"
    if unlocking is None or not unlocking.thresholds:
        if expectation.gain >= noise_gain:
            return f"worth patching only if the patch costs less than that growth is worth ({gain}, above {noise})"
        return f"not worth patching ({gain}, below {noise})"
    conditions = [
        f"{tps(item.twin_tps)} tok/s or more at C={item.concurrency} (chance {share(item.chance)})"
        for item in unlocking.thresholds
        if item.twin_tps is not None
    ]
    if not conditions:
        return (
            f"not worth patching: whatever {unlocking.twin} may believably measure, the odds stay below even ({gain})"
        )
    return f"worth patching only if {unlocking.twin} measures {' or '.join(conditions)}; {gain}"
