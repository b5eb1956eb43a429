"""What a made-up world has no room for: requests that wait, throughput that collapses, launches that fail."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random
from typing import Literal

from search.config import SpecConfig, SpecVersion
from search.outcomes import Reason

FaultRule = Literal["hang-v2-fused", "crash-deep", "crash-cut-tree", "fusion-init"]
FAULT_RULES: tuple[FaultRule, ...] = ("hang-v2-fused", "crash-deep", "crash-cut-tree", "fusion-init")

_REASONS: dict[FaultRule, Reason] = {
    "hang-v2-fused": Reason.SERVER_HANG_LOAD,
    "crash-deep": Reason.SERVER_CRASH_LOAD,
    "crash-cut-tree": Reason.SERVER_CRASH_LOAD,
    "fusion-init": Reason.COMM_INIT_HANG,
}


@dataclass(frozen=True, slots=True)
class Limits:
    """Room and faults.

    Attributes:
        admitted: Requests that a speculating worker admits, v1 and v2; 100 is no limit.
        pool: Requests that fit without drafts; each draft token takes `draft_share` of a request more.
        collapse_tokens: Tokens in a pass past which requests are retracted and done again.
        collapse: Share of throughput lost when a pass is twice as large as that.
        prefill_ms: A request's prompt, during which the others wait.
        memory: Draft tokens (v2 counts 1.3 of v1, fusion 1.1) that graphs have room for.
        rules: Further faults that follow a rule.
        odd: Share of configs that fail without any.
    """

    admitted: tuple[int, int]
    pool: float
    draft_share: float
    collapse_tokens: float
    collapse: float
    prefill_ms: float
    memory: float
    rules: tuple[FaultRule, ...]
    odd: float

    @classmethod
    def draw(cls, rng: Random, *, base_ms: float, rough: bool) -> Limits:
        """A machine's memory and its bugs."""
        capped = rng.random() < 0.35
        return cls(
            admitted=(rng.choice((48, 64, 80)) if capped else 100, 64 if capped and rng.random() < 0.4 else 100),
            pool=rng.choice((100.0, 120.0, 200.0, 400.0)),
            draft_share=rng.uniform(0.002, 0.03),
            collapse_tokens=rng.choice((400.0, 900.0, 1800.0, 1e9)),
            collapse=rng.uniform(0.1, 0.4),
            prefill_ms=base_ms * rng.uniform(0.2, 3.0),
            memory=rng.choice((20.0, 36.0, 50.0, 70.0, 1e9)),
            rules=tuple(rng.sample(FAULT_RULES, k=rng.choice((0, 0, 1, 1, 2)))),
            odd=0.08 if rough else rng.choice((0.0, 0.0, 0.01, 0.03)),
        )

    def running(self, config: SpecConfig, concurrency: int) -> int:
        """How many of `concurrency` requests run at once."""
        if not config.speculates:
            return concurrency
        admitted = self.admitted[0 if config.spec_version is SpecVersion.V1 else 1]
        room = int(self.pool / (1.0 + self.draft_share * config.verify_tokens))
        return max(1, min(concurrency, admitted, room))

    def kept(self, config: SpecConfig, running: int) -> float:
        """Share of the throughput that retractions leave."""
        over = running * config.verify_tokens / self.collapse_tokens - 1.0
        return 1.0 - self.collapse * min(1.0, max(0.0, over))

    def failure(self, config: SpecConfig, rng: Random) -> Reason | None:
        """Why a launch of `config` fails, or None; baselines never do."""
        if not config.speculates:
            return None
        assert config.topk and config.num_steps
        need = config.verify_tokens * (1.3 if config.spec_version is SpecVersion.V2 else 1.0)
        if need * (1.1 if config.allreduce_fusion != "off" else 1.0) > self.memory:
            return Reason.OOM_GRAPH
        fused = config.allreduce_fusion != "off"
        holds = {
            "hang-v2-fused": config.spec_version is SpecVersion.V2 and fused and config.verify_tokens > 8,
            "crash-deep": config.num_steps >= 6 and config.topk > 1,
            "crash-cut-tree": config.topk > 1 and config.verify_tokens == config.num_steps + 1,
            "fusion-init": fused and config.topk >= 8,
        }
        for rule in self.rules:
            if holds[rule]:
                return _REASONS[rule]
        if rng.random() < self.odd:
            return rng.choice((Reason.SERVER_CRASH_LOAD, Reason.SERVER_HANG_LOAD, Reason.OOM_RUNTIME))
        return None
