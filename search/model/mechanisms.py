"""The prior: many plausible deployments, each a full set of mechanisms, priced for every config at once.

Each draw is one invented deployment: how well its draft guesses, what a verify pass costs, what the
workers add, what a knob is worth, whether acceptance collapses under load. Times are relative to one
plain decode pass of that deployment, so the priors hold for small and large models alike. The spreads
are wide on purpose (factors of three to ten either way): they say what is thinkable, not what
is; the measurements say the rest.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from search.config import KnobValue, SpecConfig, SpecVersion
from search.physics.trees import accept_lengths

Floats: TypeAlias = NDArray[np.float64]

SILENT_RUNNING_LIMIT = 48
"""Requests that SGLang admits once it speculates, where nobody sets the limit (0.5.9 to 0.5.23)."""


@dataclass(frozen=True)
class Surfaces:
    """What each draw expects of each config at each load.

    Attributes:
        accept: Log accept length, shape (draws, configs, loads); 0 without speculation.
        cycle: Log cycle time relative to a plain pass at concurrency 1, same shape. Where fewer
            requests run than are in flight, their wait is in it: it is what throughput shows.
    """

    accept: Floats
    cycle: Floats


@dataclass(frozen=True)
class _Draws:
    """One array of length n per mechanism; see `_draw` for the priors."""

    count: int
    rng: np.random.Generator

    def positive(self, median: float, spread: float) -> Floats:
        """Log-normal: `spread` is the standard deviation of the logarithm."""
        return median * np.exp(spread * self.rng.standard_normal(self.count))

    def normal(self, mean: float, spread: float) -> Floats:
        return mean + spread * self.rng.standard_normal(self.count)

    def uniform(self, low: float, high: float) -> Floats:
        return self.rng.uniform(low, high, self.count)

    def happens(self, probability: float) -> NDArray[np.bool_]:
        return self.rng.random(self.count) < probability


def sample_surfaces(
    configs: Sequence[SpecConfig], loads: Sequence[int], *, draws: int, rng: np.random.Generator
) -> Surfaces:
    """Draw deployments from the prior and price every config under each.

    Args:
        configs: Of the space, canonical.
        loads: Concurrencies, such as (1, 100).
        draws: Number of deployments.
        rng: Source of all randomness.
    """
    prior = _Draws(draws, rng)
    accept = _accept(configs, loads, prior)
    cycle = _cycle(configs, loads, accept, prior)
    return Surfaces(accept=accept, cycle=cycle)


def _accept(configs: Sequence[SpecConfig], loads: Sequence[int], prior: _Draws) -> Floats:
    """Log accept lengths: a draft tree, prompts that differ, and a loss under load that may be large."""
    logit = prior.normal(0.7, 0.8)  # two thirds of first guesses are right, from a third to nine tenths
    prompts = np.abs(prior.normal(0.0, 0.7))  # easy and hard prompts: half of the passes either side
    decay = np.clip(1.0 - prior.positive(0.05, 0.8), 0.6, 1.0)
    siblings = prior.uniform(0.15, 0.95)
    drift = prior.normal(0.0, 0.03)
    lost_v1 = np.where(prior.happens(0.25), prior.uniform(0.2, 3.0), 0.0)
    lost_v2 = np.where(prior.happens(0.04), prior.uniform(0.2, 3.0), 0.0)
    shapes: dict[tuple[int, int], Floats] = {}
    result = np.zeros((prior.count, len(configs), len(loads)))
    for place, config in enumerate(configs):
        if not config.speculates:
            continue
        assert config.topk and config.num_steps and config.num_draft_tokens
        shape = (config.topk, config.num_steps)
        if shape not in shapes:
            halves = [
                accept_lengths(
                    first=expit(logit + side * prompts),
                    decay=decay,
                    sibling_share=siblings,
                    topk=shape[0],
                    num_steps=shape[1],
                )
                for side in (-1.0, 1.0)
            ]
            shapes[shape] = np.log(0.5 * (halves[0] + halves[1])[:, 1:] - 1.0)
        # NGRAM's trie may hold fewer nodes than tokens are verified: the rest is padding, which nothing accepts.
        gain = shapes[shape][:, min(config.num_draft_tokens - 2, shapes[shape].shape[1] - 1)]
        lost = lost_v1 if config.spec_version is SpecVersion.V1 else lost_v2
        for at, load in enumerate(loads):
            share = np.log(load) / np.log(100.0)
            result[:, place, at] = np.log1p(np.exp(gain + share * (drift - lost)))
    return result


def _cycle(configs: Sequence[SpecConfig], loads: Sequence[int], accept: Floats, prior: _Draws) -> Floats:
    """Log cycle times: verify pass, draft steps, what the worker adds, and the prefills of others."""
    experts, expert_tokens = prior.positive(0.3, 1.2), prior.positive(25.0, 1.0)
    per_token, power = prior.positive(0.25, 1.3), np.clip(prior.normal(0.95, 0.15), 0.6, 1.3)
    per_request = prior.positive(0.3, 1.1)
    overlap = np.where(prior.happens(0.5), 1.0, 3.0)  # arithmetic and memory add up, or hide each other
    tile = prior.rng.choice([1, 1, 1, 16, 32, 64, 128, 128, 256, 256, 512], prior.count).astype(float)
    graph_tokens, graph_edge = prior.positive(350.0, 1.0), prior.positive(0.04, 1.0)
    off_graph = np.where(prior.happens(0.5), prior.positive(0.25, 0.8), 0.0)
    other_kernel, mask = prior.positive(0.07, 1.2), prior.positive(0.03, 1.0)  # verify is no plain decode pass
    step, step_load = prior.positive(0.06, 0.9), prior.positive(0.5, 1.0)
    tree = prior.positive(0.03, 1.0)
    v1, v1_load = prior.positive(0.12, 0.9), prior.positive(0.15, 1.0)
    hidden = np.where(prior.happens(0.85), prior.uniform(0.0, 0.8), prior.positive(1.2, 0.4))
    limited = {
        SpecVersion.V1: np.where(prior.happens(0.1), float(SILENT_RUNNING_LIMIT), np.inf),
        SpecVersion.V2: np.where(prior.happens(0.04), float(SILENT_RUNNING_LIMIT), np.inf),
    }
    prefill = prior.positive(0.3, 1.0)  # passes per token: the prompts of the others, at concurrency 100
    room, draft_room = _room(prior)
    knobs = _KnobEffects(prior)

    def verify(requests: Floats, tokens_each: int) -> Floats:
        tokens = requests * tokens_each
        padded = np.ceil(tokens / tile) * tile
        memory = 1.0 + experts * (1.0 - np.exp(-(tokens - 1.0) / expert_tokens)) + per_request * requests / 100.0
        arithmetic = per_token * (padded / 100.0) ** power
        surge = off_graph * expit((tokens / graph_tokens - 1.0) / graph_edge)
        total: Floats = (memory**overlap + arithmetic**overlap) ** (1.0 / overlap) * (1.0 + surge)
        return total

    unit = np.log(verify(np.ones(prior.count), 1))
    passes: dict[tuple[SpecVersion, int, int], Floats] = {}
    result = np.empty((prior.count, len(configs), len(loads)))
    for place, config in enumerate(configs):
        for at, load in enumerate(loads):
            running = np.minimum(float(load), limited.get(config.spec_version, np.inf)) * np.ones(prior.count)
            if config.speculates:
                running = np.maximum(np.minimum(running, room / (1.0 + draft_room * config.verify_tokens)), 1.0)
            key = (config.spec_version, config.verify_tokens, load)
            if key not in passes:
                passes[key] = verify(running, config.verify_tokens)
            cycle = passes[key]
            if config.speculates:
                assert config.topk and config.num_steps
                overhead = v1 + v1_load * running / 100.0
                overhead = overhead * (hidden if config.spec_version is SpecVersion.V2 else 1.0)
                drafting = config.num_steps * step * (1.0 + step_load * running * config.topk / 100.0)
                building = other_kernel + tree * (config.topk > 1) + mask * np.log2(config.verify_tokens)
                cycle = cycle + drafting + building + overhead
            # Each token waits for its share of a prompt; a cycle that brings more tokens has more of that wait.
            waits = prefill * np.exp(unit) * np.exp(accept[:, place, at]) * running / 100.0 * (load > 1)
            factor = knobs.of(config, load)
            result[:, place, at] = np.log((cycle * np.exp(factor) + waits) * load / running) - unit
    return result


def _room(prior: _Draws) -> tuple[Floats, Floats]:
    """Requests that fit into the cache, and how much of one more each draft token takes."""
    tight = prior.happens(0.3)
    return np.where(tight, prior.positive(120.0, 0.4), np.inf), prior.positive(0.01, 0.8)


_OF_A_KNOB = 0.07
_OF_COMMUNICATION = 0.2
"""Of NCCL's settings: on eight cards without NVLink one public log has 65 against 44 tok/s by them (issue 15)."""


class _KnobEffects:
    """What a knob without a mechanism of its own is worth: a factor per value, load and kind of pass."""

    def __init__(self, prior: _Draws) -> None:
        self._prior = prior
        self._effects: dict[tuple[str, KnobValue], tuple[Floats, Floats, Floats]] = {}

    def of(self, config: SpecConfig, load: int) -> Floats:
        total = np.zeros(self._prior.count)
        share = np.log(load) / np.log(100.0)
        for key in knob_values(config):
            if key not in self._effects:
                wide = _OF_COMMUNICATION if key[0].startswith("NCCL_") else _OF_A_KNOB
                self._effects[key] = (
                    self._prior.normal(0.0, wide),
                    self._prior.normal(0.0, wide),
                    self._prior.normal(0.0, 0.03),
                )
            alone, loaded, speculating = self._effects[key]
            total = total + alone + share * loaded + speculating * config.speculates
        return total


def knob_values(config: SpecConfig) -> list[tuple[str, KnobValue]]:
    """Knobs beside worker and tree that differ from the default."""
    fusion: list[tuple[str, KnobValue]] = (
        [("allreduce_fusion", config.allreduce_fusion)] if config.allreduce_fusion != "off" else []
    )
    return [*fusion, *config.extra]
