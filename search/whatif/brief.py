"""The answer to `whatif` in three lines: legal where, what to expect, what to do and why. The evidence is elsewhere."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from search.dialects import known_releases
from search.whatif.answer import AtLoad, Variant, WhatIf
from search.whatif.verdict import share, tps


def answer_lines(answer: WhatIf) -> tuple[str, str, str]:
    """Legal where; what to expect at the objectives; worth a launch or a patch, and why."""
    return (
        "; ".join(_legal(variant, answer.release) for variant in answer.variants),
        f"{'nothing measured, by priors alone: ' if answer.basis == 'prior' else ''}{'; '.join(_expect(answer))} tok/s",
        "; ".join(_do(variant, answer) for variant in answer.variants),
    )


def release_ranges(releases: Sequence[str]) -> str:
    """Runs of known releases: `0.5.9 to 0.5.12.post1`."""
    known, runs = known_releases(), list[list[str]]()
    for release in releases:
        if runs and known.index(release) == known.index(runs[-1][-1]) + 1:
            runs[-1].append(release)
        else:
            runs.append([release])
    return ", ".join(run[0] if len(run) == 1 else f"{run[0]} to {run[-1]}" for run in runs)


def _legal(variant: Variant, release: str) -> str:
    legality = variant.legality
    runs = release_ranges(legality.releases) or "no known release"
    if legality.legal:
        return f"{variant.config_id} ({runs if release in legality.releases else release})"
    rules = ", ".join(refusal.rule_id for refusal in legality.refusals)
    return f"not {variant.config_id} on {release} ({rules}; {runs})"


def _expect(answer: WhatIf) -> Iterator[str]:
    """By load: every variant with its band, and the best that is known."""
    for load in answer.objectives:
        expectations = [variant.expectation.at(load) for variant in answer.variants]
        best = expectations[0].best_tps
        known = "" if best is None else f" against {tps(best)} of {expectations[0].best}"
        yield f"C={load} {' or '.join(map(_band, expectations))}{known}"


def _band(load: AtLoad) -> str:
    return tps(load.expected) if load.measured else f"{tps(load.expected)} ({_whole(load.low)}-{_whole(load.high)})"


def _whole(value: float) -> str:
    return f"{value:,.0f}" if value >= 9.95 else f"{value:.1f}"


def _do(variant: Variant, answer: WhatIf) -> str:
    name, expectation = variant.config_id, variant.expectation
    chances = [(load.beats, load.concurrency) for load in expectation.loads if load.beats is not None]
    chance, load = max(chances, default=(0.0, 0))
    match variant.worth:
        case "measured":
            return f"{name} is measured already"
        case "impossible":
            return f"{name} can never run"
        case "open":
            return (
                f"measure {answer.test.next_launch or 'a baseline'} first: nothing is measured to compare {name} with"
            )
        case "launch":
            return (
                f"launch {name}: grows the front by {share(expectation.gain)}, noise shows {share(answer.noise_gain)}"
            )
        case "long shot":
            return f"{name} is a long shot: a chance of {share(chance)} to be the fastest at C={load}"
        case "no":
            return f"do not launch {name}: a chance of {share(chance)} at most to be the fastest anywhere"
        case "locked":
            return _patch(variant, answer)


def _patch(variant: Variant, answer: WhatIf) -> str:
    name, gain = variant.config_id, variant.expectation.gain
    if answer.basis == "prior":
        return f"no patch for {name}: nothing is measured"
    if variant.unlocking:
        for item in variant.unlocking.thresholds:
            if item.twin_tps is not None:
                return f"no patch for {name} unless {variant.unlocking.twin} makes {tps(item.twin_tps)} at C={item.concurrency}"
        return f"no patch for {name}: whatever {variant.unlocking.twin} measures"
    worth = gain >= answer.noise_gain
    return f"{'a patch' if worth else 'no patch'} for {name}: grows the front by {share(gain)}, noise shows {share(answer.noise_gain)}"
