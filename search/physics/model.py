"""The parameters of the cost model, each with its unit and where its value comes from."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from search.config import SpecConfig
from search.errors import UsageError

# Optional whole-number limits: None means no limit.
LIMITS = ("v1_running_limit", "v2_running_limit", "draft_token_limit")
PROBABILITIES = ("first_accept", "accept_decay", "sibling_share")
POSITIVE = ("base_ms", "bulk_tokens", "bulk_width", "fusion_factor")


@dataclass(frozen=True, slots=True)
class CostModel:
    """Named parameters of the cost model; nothing else enters a prediction.

    Attributes:
        first_accept: Probability that the first guess at depth 1 is accepted.
        accept_decay: Factor on it for each further depth.
        sibling_share: How much of what the first guess misses its siblings find, 0 to 1.
        v1_accept_loss: Acceptance lost on the v1 worker with load: the first guess is multiplied
            by `exp(-loss * (requests - 1) / 100)`. 0 for none.
        base_ms: A pass of the target, before any request: launches, latency of the links.
        request_ms: Added by each running request: attention, sampling, scheduling.
        token_ms: Added by each token in the pass: all-reduce traffic and arithmetic.
        crowding: Growth of what requests and tokens cost, per 100 running requests.
        bulk_ms: Further cost of a pass that is too large for the fast path, at `bulk_tokens`
            tokens if it had fully set in; grows with the square root of the tokens.
        bulk_tokens: Tokens in a pass at which half of that has set in.
        bulk_width: Tokens over which it sets in.
        fusion_factor: Factor on a pass with any all-reduce fusion.
        verify_ms: What a verify pass costs beyond a plain pass with as many tokens, for one draft.
        verify_growth: Power of the number of drafts with which that grows.
        draft_step_ms: One step of the draft model, before any request.
        draft_token_ms: Added to a step by each request and each unit of topk.
        v1_overhead_ms: Serial work between passes on the v1 worker.
        v1_request_ms: The same for each running request.
        v2_overhead_ms: What of it the overlapped v2 worker cannot hide.
        v1_running_limit: Requests the v1 worker admits.
        v2_running_limit: Requests the v2 worker admits.
        draft_token_limit: Draft tokens above which graph capture runs out of memory.
        prefill_ms: One request's prompt.
        boot_s: From the start of a server to its first token.
        stop_s: From the wish to stop to the proof.
        switch_s: A running server's switch to another shape, graphs built and probed.
        boot_spread: Relative standard deviation of a boot.
        start_spread: Relative standard deviation between starts of one config: what a start draws
            once and keeps, such as where its memory lies and which kernels were tuned.
        repeat_spread: Relative standard deviation of a repeat of a phase within a start.
        prompt_spread: Relative standard deviation between prompts, where drafts are used.
    """

    first_accept: float = field(metadata={"unit": "probability"})
    accept_decay: float = field(metadata={"unit": "factor per depth"})
    sibling_share: float = field(metadata={"unit": "share"})
    v1_accept_loss: float = field(metadata={"unit": "per 100 requests"})
    base_ms: float = field(metadata={"unit": "ms"})
    request_ms: float = field(metadata={"unit": "ms per request"})
    token_ms: float = field(metadata={"unit": "ms per token"})
    crowding: float = field(metadata={"unit": "per 100 requests"})
    bulk_ms: float = field(metadata={"unit": "ms"})
    bulk_tokens: float = field(metadata={"unit": "tokens"})
    bulk_width: float = field(metadata={"unit": "tokens"})
    fusion_factor: float = field(metadata={"unit": "factor"})
    verify_ms: float = field(metadata={"unit": "ms"})
    verify_growth: float = field(metadata={"unit": "power"})
    draft_step_ms: float = field(metadata={"unit": "ms per step"})
    draft_token_ms: float = field(metadata={"unit": "ms per step, request and topk"})
    v1_overhead_ms: float = field(metadata={"unit": "ms"})
    v1_request_ms: float = field(metadata={"unit": "ms per request"})
    v2_overhead_ms: float = field(metadata={"unit": "ms"})
    v1_running_limit: int | None = field(metadata={"unit": "requests"})
    v2_running_limit: int | None = field(metadata={"unit": "requests"})
    draft_token_limit: int | None = field(metadata={"unit": "tokens per request"})
    prefill_ms: float = field(metadata={"unit": "ms"})
    boot_s: float = field(metadata={"unit": "s"})
    stop_s: float = field(metadata={"unit": "s"})
    switch_s: float = field(metadata={"unit": "s"})
    boot_spread: float = field(metadata={"unit": "relative"})
    start_spread: float = field(metadata={"unit": "relative"})
    repeat_spread: float = field(metadata={"unit": "relative"})
    prompt_spread: float = field(metadata={"unit": "relative"})

    def __post_init__(self) -> None:
        for name in UNITS:
            value = getattr(self, name)
            if name in LIMITS:
                sound = value is None or (isinstance(value, int) and value >= 1)
                rule = f"`{name}` is a whole number from 1, or null for no limit"
            elif name in PROBABILITIES:
                sound, rule = 0.0 <= value <= 1.0, f"`0 <= {name} <= 1` must hold"
            elif name in POSITIVE:
                sound, rule = value > 0.0 and math.isfinite(value), f"`{name} > 0` must hold"
            else:
                sound, rule = value >= 0.0 and math.isfinite(value), f"`{name} >= 0` must hold"
            if not sound:
                raise UsageError(f"{rule}, but got {value!r}. Correct it in the parameter file.")


UNITS: Mapping[str, str] = {item.name: str(item.metadata["unit"]) for item in dataclasses.fields(CostModel)}
"""Parameter name -> unit, in the order of the file."""


class Kind(StrEnum):
    """Where the value of a parameter comes from."""

    FITTED = "fitted"  # moved by the fit, from a prior
    PRIOR = "prior"  # what one would expect of such a deployment; the data do not determine it
    ASSUMED = "assumed"  # chosen by us, or read off the data by eye


@dataclass(frozen=True, slots=True)
class Origin:
    """Where one value comes from.

    Attributes:
        kind: Fitted, prior or assumed.
        why: One sentence for people.
        sd: Standard deviation of the value: after the fit where fitted (taking the form of the
            model as given), else of the prior; None where none is given.
        prior: Mean and standard deviation before the fit; None where not fitted.
    """

    kind: Kind
    why: str
    sd: float | None = None
    prior: tuple[float, float] | None = None


@dataclass(frozen=True, slots=True)
class FitPoint:
    """One number the model was fitted to, and what the fitted model says instead."""

    config: SpecConfig
    concurrency: int
    output_tps: float
    model_tps: float

    @property
    def error(self) -> float:
        """Relative: 0.02 where the model is 2% above the number."""
        return self.model_tps / self.output_tps - 1.0


@dataclass(frozen=True, slots=True)
class FittedFor:
    """The deployment whose numbers a model was fitted to.

    Attributes:
        model: Last part of the target's path or id.
        gpus: Their kind.
    """

    model: str
    gpus: str

    def is_of(self, *, target: str, kind: str) -> bool:
        """Whether a deployment is that one: numbers of another are invented ones.

        Args:
            target: Path or id of the model.
            kind: Of the GPUs.
        """
        mine, theirs = self.model.lower(), target.rstrip("/").rpartition("/")[2].lower()
        return theirs.startswith(mine) and self.gpus.lower() in kind.lower()


@dataclass(frozen=True, slots=True)
class Physics:
    """A cost model with the provenance of everything in it.

    Attributes:
        name: Such as `kimi-k25-story`.
        about: What it describes, for people.
        origins: Parameter name -> where its value comes from; complete.
        points: The numbers it was fitted to; empty when all of it is prior.
        members: Other parameter sets that fit those numbers about as well, equally likely; see
            `search.physics.bands`. Empty when nothing was fitted.
        caveats: What one must know before believing it, one sentence each.
        fitted_for: Whose numbers `points` are; None where nothing was fitted, or where that is not recorded.
    """

    name: str
    about: str
    model: CostModel
    origins: Mapping[str, Origin]
    points: tuple[FitPoint, ...] = ()
    caveats: tuple[str, ...] = ()
    members: tuple[CostModel, ...] = ()
    fitted_for: FittedFor | None = None

    def __post_init__(self) -> None:
        if set(self.origins) != set(UNITS):
            odd = sorted(set(self.origins) ^ set(UNITS))
            raise UsageError(f"Each parameter of `{self.name}` has one origin; missing or unknown: {', '.join(odd)}.")

    def is_calibrated_for(self, *, target: str, kind: str) -> bool:
        """Whether its numbers say anything of a deployment: it was fitted to that one's own."""
        return bool(self.points) and self.fitted_for is not None and self.fitted_for.is_of(target=target, kind=kind)

    def covers(self, config: SpecConfig, concurrency: int) -> bool:
        """Whether the model was fitted to exactly this config at this load."""
        return any(point.config == config and point.concurrency == concurrency for point in self.points)
