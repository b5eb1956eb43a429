"""Odd rules by which configs fail: every conjunction of a few facts, weighed by what started and what did not."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import combinations
from typing import Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from search.config import SpecConfig, tree_bound
from search.model.mechanisms import knob_values

Floats: TypeAlias = NDArray[np.float64]
Mask: TypeAlias = NDArray[np.bool_]

_HOW_MANY: Final = (0.6, 0.3, 0.1)
"""Chance that no rule, one, or two hold."""
_FACTS: Final = (0.25, 0.5, 0.25)
"""Chance that a rule joins one, two or three facts."""
_PAIRED: Final = 120
"""Likeliest rules from which the pairs are made."""


class Rules:
    """Which configs of a space a rule stops.

    Args:
        configs: Of the space; those without speculation always start.
    """

    def __init__(self, configs: Sequence[SpecConfig]) -> None:
        shares: dict[bytes, float] = {}
        masks: dict[bytes, Mask] = {}
        for mask, share in _conjunctions(configs):
            key = np.packbits(mask).tobytes()
            masks.setdefault(key, mask)
            shares[key] = shares.get(key, 0.0) + share
        count = len(masks)
        self._masks = np.array(list(masks.values()), dtype=float).reshape(count, len(configs))
        prior = np.array(list(shares.values()))
        self._log_prior = np.log(prior / prior.sum()) if count else prior

    def stops(self, places: NDArray[np.int_], log_odds: Floats) -> Floats:
        """Chance that a rule stops each config, shape (configs,).

        Args:
            places: Configs that were launched.
            log_odds: For each, by how much likelier its end is if a rule stops it, as a logarithm.
        """
        if not len(self._masks):
            return np.zeros(self._masks.shape[1])
        # By config, not by launch: the work is that of the space, however many were launched.
        odds = np.bincount(places, weights=log_odds, minlength=self._masks.shape[1])
        single = np.log(_HOW_MANY[1]) + self._log_prior + self._masks @ odds
        top = np.sort(np.argsort(-single, kind="stable")[:_PAIRED])
        likely = self._masks[top]
        # One of two rules stops what the first stops and what the second stops, less what both do.
        alone = likely @ odds
        either = alone[:, None] + alone[None, :] - (likely * odds) @ likely.T
        pair = np.log(_HOW_MANY[2]) + self._log_prior[top][:, None] + self._log_prior[top][None, :] + either
        highest = max(float(single.max()), float(pair.max()), float(np.log(_HOW_MANY[0])))
        ones, twos = np.exp(single - highest), np.exp(pair - highest)
        total = ones.sum() + twos.sum() + np.exp(np.log(_HOW_MANY[0]) - highest)
        # Of two rules at least one stops: one and the other, less both.
        both = np.einsum("rc,rc->c", twos @ likely, likely)
        stopped = ones @ self._masks + 2.0 * twos.sum(axis=1) @ likely - both
        return np.asarray(np.clip(stopped / total, 0.0, 1.0))


def _conjunctions(configs: Sequence[SpecConfig]) -> Iterator[tuple[Mask, float]]:
    """Rules with their shares: facts of different families, of three at least two of them words."""
    families = _facts(configs)
    for size, chance in enumerate(_FACTS, start=1):
        groups = [
            group for group in combinations(families, size) if size < 3 or sum(name in _NUMBERS for name in group) <= 1
        ]
        for group in groups:
            made = [np.ones(len(configs), dtype=bool)]
            for name in group:
                made = [mask & fact for mask in made for fact in families[name]]
            kept = [mask for mask in made if mask.any()]
            for mask in kept:
                yield mask, chance / len(groups) / len(kept)


_NUMBERS: Final = frozenset({"topk", "num_steps", "num_draft_tokens"})


def _facts(configs: Sequence[SpecConfig]) -> dict[str, list[Mask]]:
    """What can be said of a config, by family: a word is equal, a number is at least, at most or equal."""
    speculates = np.array([config.speculates for config in configs], dtype=bool)
    families: dict[str, list[Mask]] = {}
    for name in ("topk", "num_steps", "num_draft_tokens"):
        values = np.array([getattr(config, name) or 0 for config in configs])
        for value in sorted(set(values[speculates].tolist())):
            families.setdefault(name, []).extend(
                mask & speculates for mask in (values >= value, values <= value, values == value)
            )
    words: dict[tuple[str, object], Mask] = {}
    for place, config in enumerate(configs):
        if not config.speculates:
            continue
        assert config.topk and config.num_steps and config.num_draft_tokens
        facts: list[tuple[str, object]] = [("spec_version", config.spec_version), *knob_values(config)]
        if config.topk > 1:
            full = config.num_draft_tokens == tree_bound(topk=config.topk, num_steps=config.num_steps)
            bare = config.num_draft_tokens == config.num_steps + 1
            facts += [("shape", "whole")] if full else [("shape", "bare")] if bare else [("shape", "between")]
        for fact in facts:
            words.setdefault(fact, np.zeros(len(configs), dtype=bool))[place] = True
    for (name, _), mask in words.items():
        families.setdefault(name, []).append(mask)
    return {name: _different(masks, speculates) for name, masks in families.items()}


def _different(masks: Sequence[Mask], speculates: Mask) -> list[Mask]:
    """Each once, and none that says nothing."""
    unlike = {np.packbits(mask).tobytes(): mask for mask in masks}
    return [mask for mask in unlike.values() if not np.array_equal(mask, speculates)]
