"""What a cycle takes in a made-up world: verify passes, draft steps, host work, fusion, interactions."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from random import Random
from typing import Literal

from search.config import SpecConfig

CostKind = Literal["roofline", "tiles", "experts", "links"]
KINDS: tuple[CostKind, ...] = ("roofline", "tiles", "experts", "links")
BUCKETS = (1, 2, 4, 8, 12, 16, 24, 32, 48, 64, 80, 96, 112, 128)
"""Batch sizes that graphs were captured for; a batch between two runs as the larger."""

Interaction = Literal["v2-tree", "fusion-wide", "wide-deep", "v1-small", "none"]
INTERACTIONS: tuple[Interaction, ...] = ("v2-tree", "fusion-wide", "wide-deep", "v1-small", "none")


@dataclass(frozen=True, slots=True)
class Passes:
    """Times in milliseconds.

    Attributes:
        shares: How much of a pass of one token each kind of cost takes.
        base_ms: A pass of one token.
        scale: Tokens at which each kind has about doubled a pass.
        tile: Tokens of one tile.
        switch: Tokens in a pass from which the links use the slower algorithm.
        padded: Whether batches are padded to a graph's size.
        request_ms: Attention of one request.
        draft_ms: A draft step at one request.
        draft_growth: Power with which a draft step grows with its rows.
        host_ms: Serial host work of a cycle, and for each request.
        hides: Share of a cycle's host work that the v2 worker overlaps.
        fusion: Factor of fusion on a small and on a large pass.
        interaction: Two knobs that do not add up, and the factor where they meet.
    """

    shares: Mapping[CostKind, float]
    base_ms: float
    scale: Mapping[CostKind, float]
    tile: int
    switch: float
    padded: bool
    request_ms: float
    draft_ms: float
    draft_growth: float
    host_ms: tuple[float, float]
    hides: float
    fusion: tuple[float, float]
    interaction: Interaction
    meeting: float

    @classmethod
    def draw(cls, rng: Random) -> Passes:
        """A machine and a target."""
        raw = {kind: rng.random() ** 2 for kind in KINDS}
        total = sum(raw.values())
        base_ms = math.exp(rng.uniform(math.log(5.0), math.log(25.0)))
        small = rng.choice((rng.uniform(0.82, 0.97), 1.0, rng.uniform(1.0, 1.08)))
        return cls(
            shares={kind: value / total for kind, value in raw.items()},
            base_ms=base_ms,
            scale={kind: math.exp(rng.uniform(math.log(60.0), math.log(600.0))) for kind in KINDS},
            tile=rng.choice((32, 64, 128, 256)),
            switch=rng.choice((64.0, 200.0, 512.0, 1024.0)),
            padded=rng.random() < 0.5,
            request_ms=base_ms * rng.uniform(0.0005, 0.006),
            draft_ms=base_ms * rng.uniform(0.02, 0.14),
            draft_growth=rng.uniform(0.1, 0.5),
            host_ms=(base_ms * rng.uniform(0.01, 0.2), base_ms * rng.uniform(0.0, 0.004)),
            hides=rng.uniform(0.4, 0.95),
            fusion=(small, rng.uniform(0.92, 1.1)),
            interaction=rng.choice(INTERACTIONS),
            meeting=rng.choice((rng.uniform(0.86, 0.95), rng.uniform(1.06, 1.2))),
        )

    def cycle_ms(self, config: SpecConfig, running: int) -> float:
        """From one verify pass to the next, with `running` requests."""
        batch = next((size for size in BUCKETS if size >= running), running) if self.padded else running
        tokens = batch * config.verify_tokens
        gpu_ms = self._pass_ms(tokens) * self._fused(config, tokens) + self.request_ms * running
        if config.speculates:
            assert config.topk and config.num_steps
            # The first step sees one row a request, later ones one for each beam.
            rows = [float(batch), *[float(batch * config.topk)] * (config.num_steps - 1)]
            gpu_ms += self.draft_ms * math.fsum(math.pow(row, self.draft_growth) for row in rows)
        host_ms = (self.host_ms[0] + self.host_ms[1] * running) * (1.0 if config.speculates else 0.4)
        if config.spec_version == "v2":
            # Overlapped host work still shows where it is longer than the pass that hides it.
            hidden = self.hides * host_ms
            host_ms = host_ms - hidden + max(0.0, hidden - gpu_ms)
        return (gpu_ms + host_ms) * self._met(config)

    def _pass_ms(self, tokens: int) -> float:
        grown = {
            "roofline": math.pow(1.0 + (tokens / self.scale["roofline"]) ** 4, 0.25),
            "tiles": 1.0 + self.tile * math.floor((tokens - 1) / self.tile) / self.scale["tiles"],
            "experts": 1.0 + 4.0 * (1.0 - math.exp(-(tokens - 1) / (2.0 * self.scale["experts"]))),
            "links": 1.0 + (1.4 if tokens > self.switch else 1.0) * math.pow(tokens / self.scale["links"], 0.8),
        }
        return self.base_ms * sum(self.shares[kind] * grown[kind] for kind in KINDS)

    def _fused(self, config: SpecConfig, tokens: int) -> float:
        if config.allreduce_fusion == "off":
            return 1.0
        small, large = self.fusion
        return small if tokens <= self.switch else large

    def _met(self, config: SpecConfig) -> float:
        """The factor of the interaction where both its sides hold."""
        topk, steps = config.topk or 0, config.num_steps or 0
        meets = {
            "v2-tree": config.spec_version == "v2" and topk > 1,
            "fusion-wide": config.allreduce_fusion != "off" and config.verify_tokens > 8,
            "wide-deep": topk >= 4 and steps >= 4,
            "v1-small": config.spec_version == "v1" and 1 < config.verify_tokens <= 4,
            "none": False,
        }[self.interaction]
        return self.meeting if meets else 1.0
