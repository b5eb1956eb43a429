"""Losslessness: whether a config answers as the baseline does, judged by the baseline itself.

Greedy speculation must not change answers (Leviathan et al. 2023, theorem on exactness). On a GPU
it does all the same, a little: a verify pass multiplies matrices of other shapes than a decode
step, sums in another order, and a near tie between two tokens falls the other way. From there on
the two answers have nothing in common, and both are right. The baseline does the same to itself
under load, since the batch a request meets differs from run to run. So answers are compared by
how long their common beginning is, and a config is lossy only if its beginnings are shorter, over
the same prompts, than those the baseline has in common with itself.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from typing import Literal, TypeAlias

import numpy as np
import numpy.typing as npt

from search.contracts import PhaseResult
from search.stats.estimates import Estimate

Answers: TypeAlias = Mapping[str, Sequence[int]]
"""Token ids of one repeat's answers by prompt id; of a prompt sent several times, the first."""
Verdict: TypeAlias = Literal["lossless", "lossy", "garbage", "not judged"]

LEVEL = 0.01
"""A config is called lossy at this chance of a false alarm, per concurrency."""
TOLERANCE = 0.10
"""A shorter common beginning by less than this share of an answer is never called lossy: a tree's
verify pass may round a little worse than any batch shape the baseline meets."""
FEWEST_PROMPTS = 8
"""Below these, even the clearest difference could be chance at `LEVEL` (2 ** -7 = 0.8 %)."""

_UNSTABLE = 0.10
_NOTHING_IN_COMMON = 0.05
_MUCH_IN_COMMON = 0.25
_COLLAPSE = 0.5
_AGREES = 0.45
"""A baseline that agrees with itself less than this loses some answers from their first tokens on, too."""
_PART = 0.15
"""Answers that are none may be so many more than the baseline's, as a share: honest rounding garbles none of them."""
_PART_LEVEL = 0.02
"""Of that: six answers of sixteen are reported (2 ** -6 = 1.6%)."""
_GRAM = 4
_DRAWS = 4000

Floats: TypeAlias = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class OutputCheck:
    """How a launch's answers at one concurrency compare with the baseline's.

    Attributes:
        verdict: `garbage` where the answers are no answers at all; `not judged` says why.
        why: One sentence for people, numbers included.
        prompts: How many were compared.
        agreement: Common beginning of an answer and the baseline's / its length, mean over
            prompts and pairs of repeats, 0 to 1.
        reference: The same between the baseline's own answers.
        exact: Share of answers that are the baseline's to the last token.
        reference_exact: The same between the baseline's own answers.
        chance: Probability of a gap this large from a config that is as good as the baseline;
            one-sided permutation test over prompts.
    """

    concurrency: int
    verdict: Verdict
    why: str
    prompts: int = 0
    agreement: Estimate | None = None
    reference: Estimate | None = None
    exact: float | None = None
    reference_exact: float | None = None
    chance: float | None = None


def answers_of(result: PhaseResult) -> Answers:
    """The answers of one repeat; empty where the release does not report tokens, or nobody named the prompts."""
    if len(result.prompt_ids) != len(result.outputs):
        return {}
    return _first_of_each(zip(result.prompt_ids, result.outputs, strict=True))


def write_answers(path: Path, result: PhaseResult) -> None:
    """Append one repeat's answers: a JSON line per request with repeat, prompt id and token ids."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a", encoding="utf-8") as file:
        for prompt_id, tokens in answers_of(result).items():
            file.write(json.dumps({"repeat": result.repeat, "prompt_id": prompt_id, "tokens": list(tokens)}) + "\n")


def read_answers(path: Path) -> list[Answers]:
    """What `write_answers` wrote, one per repeat from 1 on; empty without the file, or when it is damaged.

    A launch folder may have been tidied away or cut short by a full disk. That only leaves the
    gate without a verdict, so it is no error.
    """
    try:
        lines = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
        rows = [(int(line["repeat"]), str(line["prompt_id"]), tuple(map(int, line["tokens"]))) for line in lines]
    except (OSError, ValueError, KeyError, TypeError):
        return []
    repeats = sorted({repeat for repeat, _, _ in rows if repeat > 0})  # 0 is a probe, of shorter answers
    return [_first_of_each((name, ids) for number, name, ids in rows if number == repeat) for repeat in repeats]


def prefix_agreement(one: Sequence[int], other: Sequence[int]) -> float:
    """Length of the common beginning / length of the longer answer; 1 for two empty ones."""
    longest = max(len(one), len(other))
    if not longest:
        return 1.0
    shared = min(len(one), len(other))
    differs = np.asarray(one[:shared]) != np.asarray(other[:shared])
    return (int(differs.argmax()) if differs.any() else shared) / longest


def diversity(tokens: Sequence[int]) -> float:
    """Distinct runs of four tokens / runs of four tokens: about 1 in prose, near 0 in a loop."""
    grams = [tuple(tokens[place : place + _GRAM]) for place in range(len(tokens) - _GRAM + 1)]
    return len(set(grams)) / len(grams) if grams else 1.0


def check_outputs(
    concurrency: int,
    config: Sequence[Answers],
    baseline: Sequence[Answers],
    elsewhere: Sequence[Answers] = (),
    *,
    rng: np.random.Generator,
) -> OutputCheck:
    """Judge the answers of one config at one concurrency.

    Two references show how well the baseline agrees with itself: its repeats at the same
    concurrency, and its answers at another one, where its batches have other shapes. Alone on a
    GPU it repeats itself to the last token, which no verify pass could match; so the reference is
    the lower of the two.

    Args:
        config: One per repeat.
        baseline: One per repeat, at the same concurrency.
        elsewhere: The baseline at another concurrency.
    """
    config, baseline, elsewhere = _cut(*([one for one in some if one] for some in (config, baseline, elsewhere)))
    if not config:
        return _not_judged(concurrency, "the launch holds no tokens of its answers")
    if not baseline:
        return _not_judged(concurrency, "there are no answers of a baseline at this load to compare with")
    names = _shared(*config, *baseline)
    if len(names) < FEWEST_PROMPTS:
        return _not_judged(
            concurrency, f"at least {FEWEST_PROMPTS} prompts must be shared with the baseline, but {len(names)} are"
        )
    garbled = _collapsed(names, config, baseline, rng)
    cross, cross_exact = _between(names, config, baseline)
    references = list(_references(names, config, baseline, elsewhere, cross, rng))
    agreement = _mean(cross, rng)
    if garbled or not references:
        why = garbled or "the baseline has one repeat here, so nothing shows how well it agrees with itself"
        verdict: Verdict = "garbage" if garbled else "not judged"
        return OutputCheck(concurrency, verdict, why, len(names), agreement, exact=cross_exact)
    values, reference_exact, words, _ = min(references, key=lambda reference: float(reference[0].mean()))
    chance = max(reference[3] for reference in references)
    reference = _mean(values, rng)
    verdict = _verdict(agreement.value, reference.value, chance)
    why = _words(verdict, agreement, reference, words, chance)
    if verdict != "not judged" and (lost := _lost(cross, values, rng)):
        verdict, why = "garbage", f"{lost}; {why}"
    return OutputCheck(
        concurrency,
        verdict,
        why,
        len(names),
        agreement,
        reference,
        cross_exact,
        reference_exact,
        chance,
    )


def _cut(*groups: Sequence[Answers]) -> list[list[Answers]]:
    """All answers to a prompt, each as long as the shortest of them.

    Answers to one prompt have another length at another concurrency, and the longer the text, the
    less of it two runs share.
    """
    lengths: dict[str, int] = {}
    for answers in (one for some in groups for one in some):
        for name, tokens in answers.items():
            lengths[name] = min(len(tokens), lengths.get(name, len(tokens)))
    return [[{name: tokens[: lengths[name]] for name, tokens in one.items()} for one in some] for some in groups]


def is_lossy(checks: Iterable[OutputCheck]) -> bool:
    """Whether answers are worse than the baseline's own: such a config is shown, and neither ranked nor recommended."""
    return any(check.verdict in ("lossy", "garbage") for check in checks)


def worst(checks: Iterable[OutputCheck]) -> OutputCheck | None:
    """The check that decides: garbage, else lossy, else what was not judged, else lossless; None without any."""
    order = ("garbage", "lossy", "not judged", "lossless")
    return min(checks, key=lambda check: order.index(check.verdict), default=None)


def _verdict(agreement: float, reference: float, chance: float) -> Verdict:
    if reference < _UNSTABLE:
        return "not judged"
    if agreement < _NOTHING_IN_COMMON and reference >= _MUCH_IN_COMMON and chance <= LEVEL:
        return "garbage"
    return "lossy" if chance <= LEVEL and reference - agreement > TOLERANCE else "lossless"


def _words(verdict: Verdict, agreement: Estimate, reference: Estimate, against: str, chance: float) -> str:
    if verdict == "not judged":
        return f"the baseline itself is unstable: its answers share {_share(reference)} {against}"
    return (
        f"answers share {_share(agreement)} of their length with the baseline's, which share {_share(reference)} "
        f"{against} (p = {chance:.2g})"
    )


def _share(estimate: Estimate) -> str:
    return f"{estimate.value:.0%} [{estimate.lo:.0%}, {estimate.hi:.0%}]"


def _not_judged(concurrency: int, why: str) -> OutputCheck:
    return OutputCheck(concurrency, "not judged", why)


def _collapsed(
    names: Sequence[str], config: Sequence[Answers], baseline: Sequence[Answers], rng: np.random.Generator
) -> str:
    """Words for answers that loop where the baseline's do not; empty when they do not.

    Under `ignore_eos` a model may loop rightly once its answer has ended, the baseline as well.
    """
    mine, theirs = (
        np.array([np.mean([diversity(one[name]) for one in repeats]) for name in names])
        for repeats in (config, baseline)
    )
    if mine.mean() < _COLLAPSE * theirs.mean() and _sign_flips(theirs - mine, rng) <= LEVEL:
        return (
            f"answers loop: {mine.mean():.0%} of their runs of {_GRAM} tokens are distinct, "
            f"{theirs.mean():.0%} of the baseline's"
        )
    # A part of them: where texts part, either one may loop after its end, so the baseline's loops are set against it.
    loops = (mine < _COLLAPSE * theirs).astype(float) - (theirs < _COLLAPSE * mine)
    if loops.mean() < _PART or _sign_flips(loops, rng) > _PART_LEVEL:
        return ""
    count = int((mine < _COLLAPSE * theirs).sum())
    return f"{count} of {len(names)} answers loop where the baseline's do not"


def _lost(cross: Floats, reference: Floats, rng: np.random.Generator) -> str:
    """Words for a part of the answers that are other texts from their first tokens on; empty where there is none.

    The first token comes from the prefill, which speculation does not touch.
    """
    lost, own = cross < _NOTHING_IN_COMMON, reference < _NOTHING_IN_COMMON
    more = lost.astype(float) - own
    if float(reference.mean()) < _AGREES or more.mean() < _PART or _sign_flips(more, rng) > _PART_LEVEL:
        return ""
    return f"{int(lost.sum())} of {len(lost)} answers share nothing with the baseline's ({int(own.sum())} of its own)"


def _references(
    names: Sequence[str],
    config: Sequence[Answers],
    baseline: Sequence[Answers],
    elsewhere: Sequence[Answers],
    cross: Floats,
    rng: np.random.Generator,
) -> Iterable[tuple[Floats, float, str, float]]:
    """Agreement of the baseline with itself per prompt, share of equal answers, words, and chance of the gap."""
    if len(baseline) > 1:
        pairs = list(combinations(range(len(baseline)), 2))
        values = _pairwise(names, baseline, baseline, pairs)
        yield (
            values.mean(axis=1),
            float((values == 1).mean()),
            "with each other",
            _relabelled(names, config, baseline, rng),
        )
    there = [name for name in names if all(name in one for one in elsewhere)]
    if elsewhere and len(there) == len(names):
        shares, exact = _between(names, baseline, elsewhere)
        yield shares, exact, "with its own at another load", _sign_flips(shares - cross, rng)


def _relabelled(
    names: Sequence[str], config: Sequence[Answers], baseline: Sequence[Answers], rng: np.random.Generator
) -> float:
    """Chance of the gap if a config's repeats were nothing but more repeats of the baseline.

    Then which of a prompt's answers are called the config's is arbitrary. All ways to call them
    so are laid out per prompt, and drawn independently over prompts: exact, whatever the
    distribution of prefix lengths.
    """
    every = [*baseline, *config]
    pairs = list(combinations(range(len(every)), 2))
    values = _pairwise(names, every, every, pairs)
    labels = [frozenset(one) for one in combinations(range(len(every)), len(baseline))]  # the first is the real one
    gaps = np.stack(
        [
            values[:, [one in label and other in label for one, other in pairs]].mean(axis=1)
            - values[:, [(one in label) != (other in label) for one, other in pairs]].mean(axis=1)
            for label in labels
        ],
        axis=1,
    )
    rows = np.arange(len(names))
    drawn = [gaps[rows, rng.integers(len(labels), size=len(names))].mean() for _ in range(_DRAWS)]
    return _chance(float(gaps[:, 0].mean()), np.asarray(drawn))


def _sign_flips(differences: Floats, rng: np.random.Generator) -> float:
    """Chance of a mean this large if each paired difference could as well have the other sign."""
    signs = rng.choice((-1.0, 1.0), size=(_DRAWS, len(differences)))
    return _chance(float(differences.mean()), (signs * differences).mean(axis=1))


def _chance(seen: float, drawn: Floats) -> float:
    return (1 + int(np.sum(drawn >= seen - 1e-12))) / (1 + len(drawn))


def _between(names: Sequence[str], some: Sequence[Answers], others: Sequence[Answers]) -> tuple[Floats, float]:
    pairs = [(one, other) for one in range(len(some)) for other in range(len(others))]
    values = _pairwise(names, some, others, pairs)
    return values.mean(axis=1), float((values == 1).mean())


def _pairwise(
    names: Sequence[str], some: Sequence[Answers], others: Sequence[Answers], pairs: Sequence[tuple[int, int]]
) -> Floats:
    """Prefix agreement, one row per prompt and one column per pair of repeats."""
    return np.array([[prefix_agreement(some[i][name], others[j][name]) for i, j in pairs] for name in names])


def _mean(values: Floats, rng: np.random.Generator) -> Estimate:
    """With the bootstrap interval over prompts."""
    drawn = values[rng.integers(len(values), size=(_DRAWS, len(values)))].mean(axis=1)
    lo, hi = np.quantile(drawn, (0.025, 0.975))
    value = float(values.mean())
    return Estimate(value, min(float(lo), value), max(float(hi), value))


def _shared(first: Answers, *others: Answers) -> list[str]:
    return [name for name in first if all(name in one for one in others)]


def _first_of_each(answers: Iterable[tuple[str, Sequence[int]]]) -> dict[str, Sequence[int]]:
    found: dict[str, Sequence[int]] = {}
    for name, tokens in answers:
        found.setdefault(name, tokens)
    return found
