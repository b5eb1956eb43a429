"""From a config and a load to cycle time, time per token and throughput.

One cycle drafts a tree for every running request, verifies all of them in one pass of the target,
and emits `accept_length` tokens for each. Without speculation a cycle is one plain decode pass.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from search.config import SpecConfig, SpecVersion
from search.physics.acceptance import accept_histogram, accept_length, survival
from search.physics.model import CostModel


@dataclass(frozen=True, slots=True)
class CostPrediction:
    """What the model expects of one config at one load, free of noise.

    Attributes:
        concurrency: Requests kept in flight.
        running: Requests that share a cycle; below `concurrency` where the server admits fewer.
        accept_length: Output tokens per verify pass, bonus included; 1 without speculation.
        accept_histogram: Probability of 0, 1, 2, … accepted drafts; empty without speculation.
        verify_ms: Part of a cycle spent in the target.
        draft_ms: Part spent drafting.
        overhead_ms: Part spent between passes.
        tpot_ms: Time per output token of a running request.
        output_tps: Output tokens per second over all running requests.
        ttft_ms: Time to first token, the wait for admission included.
    """

    concurrency: int
    running: int
    accept_length: float
    accept_histogram: tuple[float, ...]
    verify_ms: float
    draft_ms: float
    overhead_ms: float
    tpot_ms: float
    output_tps: float
    ttft_ms: float

    @property
    def cycle_ms(self) -> float:
        """One whole cycle."""
        return self.verify_ms + self.draft_ms + self.overhead_ms

    @property
    def admission_limited(self) -> bool:
        """Whether some requests wait outside the server's running batch."""
        return self.running < self.concurrency


def running_requests(
    model: CostModel, config: SpecConfig, concurrency: int, *, running_limit: int | None = None
) -> int:
    """Requests that decode at the same time: the load, or the lowest of the limits.

    Args:
        model: Holds the limits of the deployment it describes.
        config: Its worker version decides which of them applies.
        concurrency: Requests kept in flight.
        running_limit: A further limit, such as the one a study sends to its servers.
    """
    by_version = {SpecVersion.V1: model.v1_running_limit, SpecVersion.V2: model.v2_running_limit}
    limits = (by_version.get(config.spec_version), running_limit)
    return min([concurrency, *(limit for limit in limits if limit is not None)])


def pass_ms(model: CostModel, *, requests: float, tokens_per_request: float, fused: bool = False) -> float:
    """Milliseconds of one forward pass of the target over a batch; grows with requests and with tokens.

    Args:
        model: Parameters.
        requests: In the batch.
        tokens_per_request: That the pass sees of each; 1 without speculation.
        fused: Whether all-reduce is fused.
    """
    tokens = requests * tokens_per_request
    surge = model.bulk_ms * math.sqrt(tokens / model.bulk_tokens)
    surge /= 1.0 + math.exp(-(tokens - model.bulk_tokens) / model.bulk_width)
    batch = model.request_ms * requests + model.token_ms * tokens + surge
    total = model.base_ms + batch * (1.0 + model.crowding * requests / 100.0)
    return total * (model.fusion_factor if fused else 1.0)


def draft_ms(model: CostModel, *, topk: int, num_steps: int, requests: float) -> float:
    """Milliseconds of all draft steps of one cycle.

    Args:
        model: Parameters.
        topk: Width of the draft tree.
        num_steps: Its depth.
        requests: In the batch.
    """
    return num_steps * (model.draft_step_ms + model.draft_token_ms * requests * topk)


def tree_survival(model: CostModel, config: SpecConfig, *, requests: float = 1.0) -> tuple[float, ...]:
    """`survival` of a config's tree, with the v1 worker's loss under load; empty for `off`."""
    if not config.speculates:
        return ()
    assert config.topk and config.num_steps and config.num_draft_tokens
    loss = model.v1_accept_loss if config.spec_version is SpecVersion.V1 else 0.0
    return survival(
        topk=config.topk,
        num_steps=config.num_steps,
        num_draft_tokens=config.num_draft_tokens,
        first=model.first_accept * math.exp(-loss * (requests - 1.0) / 100.0),
        decay=model.accept_decay,
        sibling_share=model.sibling_share,
    )


def predict(
    model: CostModel,
    config: SpecConfig,
    concurrency: int,
    *,
    output_tokens: int = 256,
    running_limit: int | None = None,
) -> CostPrediction:
    """Expect one config at one load.

    Knobs outside `CORE_KNOBS` have no effect here: nothing is known about them.

    Args:
        model: The cost model.
        config: A canonical config.
        concurrency: Requests kept in flight, from 1.
        output_tokens: Tokens per request; only the wait for admission depends on it.
        running_limit: See `running_requests`.
    """
    running = running_requests(model, config, concurrency, running_limit=running_limit)
    verify = pass_ms(
        model, requests=running, tokens_per_request=config.verify_tokens, fused=config.allreduce_fusion != "off"
    )
    draft = overhead = 0.0
    reached = tree_survival(model, config, requests=running)
    if config.speculates:
        assert config.topk and config.num_steps
        verify += model.verify_ms * (config.verify_tokens - 1) ** model.verify_growth
        draft = draft_ms(model, topk=config.topk, num_steps=config.num_steps, requests=running)
        overhead = (
            model.v1_overhead_ms + model.v1_request_ms * running
            if config.spec_version is SpecVersion.V1
            else model.v2_overhead_ms
        )
    length = accept_length(reached)
    cycle = verify + draft + overhead
    tpot = cycle / length
    service_ms = model.prefill_ms + output_tokens * tpot
    # A closed loop: whoever waits outside sees `running` requests of service time `service_ms` go by.
    waiting_ms = (concurrency - running) / running * service_ms
    return CostPrediction(
        concurrency=concurrency,
        running=running,
        accept_length=length,
        accept_histogram=accept_histogram(reached) if reached else (),
        verify_ms=verify,
        draft_ms=draft,
        overhead_ms=overhead,
        tpot_ms=tpot,
        output_tps=running / tpot * 1000.0,
        # A new request waits for the cycle that is under way, then prefills.
        ttft_ms=waiting_ms + model.prefill_ms + cycle,
    )
