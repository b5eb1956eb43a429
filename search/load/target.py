"""Where a phase sends its requests, and what it may believe of the answers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from search.dialects import MetaFields
from search.load.sampling import GREEDY, Sampling
from search.outcomes import Evidence

LOG_STRETCH = 5.0
"""A long prefill logs each of its chunks and brings no token; a loop that only logs is no progress."""


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
        silence_s: Longest time without a new token anywhere, and without a new line of the log, while
            requests are open; a log that goes on without any token is believed `LOG_STRETCH` times as long.
        crawl_s: A window in which at least `crawl_arrivals` records have to bring tokens. A phase may
            take as long as they do: a slow server is not a hung one.
        crawl_arrivals: See `crawl_s`.
        limits: For goodput; None where nobody asked for it.
        sampling: How tokens are picked.
        death: Asked once a second; evidence when the server process has died, else None.
        log_bytes: Asked once a second; size of the server's log.
    """

    base_url: str
    meta_fields: MetaFields = field(default_factory=MetaFields)
    num_steps: int | None = None
    silence_s: float = 120.0
    crawl_s: float = 600.0
    crawl_arrivals: int = 60
    limits: Limits | None = None
    sampling: Sampling = GREEDY
    death: Callable[[], Evidence | None] = _always_alive
    log_bytes: Callable[[], int] = lambda: 0


@dataclass(frozen=True, slots=True)
class Prompt:
    """One prompt: its id (stable across studies), its kind (chat, code, …) and its text."""

    prompt_id: str
    kind: str
    text: str
