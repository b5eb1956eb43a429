"""Where a phase sends its requests, and what it may believe of the answers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from search.dialects import MetaFields
from search.outcomes import Evidence


def _always_alive() -> Evidence | None:
    return None


@dataclass(frozen=True, slots=True)
class Limits:
    """What a request must keep to count as good; None for no limit. Milliseconds."""

    ttft_ms: float | None = None
    tpot_ms: float | None = None


@dataclass(frozen=True, slots=True)
class Target:
    """A ready server, seen from the client.

    Attributes:
        base_url: Such as `http://127.0.0.1:31000`.
        meta_fields: Names of the per-request counters in this release.
        num_steps: Depth of the draft tree; None without speculation. An accept length above
            `num_steps + 1` is impossible and voids the phase.
        silence_s: Longest time without a new token anywhere while requests are open.
        phase_timeout_s: Longest time of one phase, warm-up included.
        limits: For goodput; None where nobody asked for it.
        death: Asked once a second; evidence when the server process has died, else None.
    """

    base_url: str
    meta_fields: MetaFields = field(default_factory=MetaFields)
    num_steps: int | None = None
    silence_s: float = 120.0
    phase_timeout_s: float = 3600.0
    limits: Limits | None = None
    death: Callable[[], Evidence | None] = _always_alive


@dataclass(frozen=True, slots=True)
class Prompt:
    """One prompt: its id (stable across studies), its kind (chat, code, …) and its text."""

    prompt_id: str
    kind: str
    text: str
