"""A shape, what a switch to one gives, and the two ways it can end otherwise."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from search.config import SpecConfig
from search.errors import SearchError
from search.outcomes import Evidence, Reason


class SwitchRefused(SearchError):
    """The server keeps the shape it had, and says why; it is as good as before."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason

    def __str__(self) -> str:
        return f"The server keeps its shape: {self.reason}"


class SwitchFailed(SearchError):
    """A switch that broke, hung, or ended in another shape than was asked.

    Whatever the cause, it does not blame the config yet: a start of its own has other memory and no plugin, and
    shows whether the config itself is at fault.

    Attributes:
        reason: In words, without secrets.
        usable: Whether all ranks put everything back and a probe of the old shape gave what it gave before; then
            only the shape is to blame, and the start may go on. Otherwise it has to be closed.
        cause: What a record of the attempt may say: the log's own cause where the server died, SERVER_HANG_LOAD
            where it hung, OOM_GRAPH where a build ran out of memory, WORKER_LOST or RAY_INFRA where the host of the
            server was lost, TOOL_ERROR else. None from a bare client, which sees no log; a session always says one.
        evidence: With the log of the start; None from a bare client.
    """

    def __init__(
        self, reason: str, usable: bool = False, cause: Reason | None = None, evidence: Evidence | None = None
    ) -> None:
        super().__init__(reason, usable, cause, evidence)
        self.reason = reason
        self.usable = usable
        self.cause = cause
        self.evidence = evidence

    def __str__(self) -> str:
        end = "Everything was put back; the start can go on." if self.usable else "End this start."
        return f"The switch failed: {self.reason} {end}"


@dataclass(frozen=True, slots=True, order=True)
class Shape:
    """What a running server can switch to."""

    topk: int
    num_steps: int
    num_draft_tokens: int

    @classmethod
    def of(cls, config: SpecConfig) -> Shape | None:
        """The shape of a config; None for `off`."""
        if config.topk is None or config.num_steps is None or config.num_draft_tokens is None:
            return None
        return cls(config.topk, config.num_steps, config.num_draft_tokens)

    @property
    def numbers(self) -> tuple[int, int, int]:
        """The three numbers, in order."""
        return (self.topk, self.num_steps, self.num_draft_tokens)

    def __str__(self) -> str:
        return f"k{self.topk}-s{self.num_steps}-d{self.num_draft_tokens}"


@dataclass(frozen=True, slots=True)
class Probe:
    """A short greedy answer of what runs.

    Attributes:
        text_sha256: Of the text; greedy text is the target's own, whatever drafts for it.
        accept_length: Tokens per verify pass; None where the server reported no count.
    """

    text_sha256: str
    accept_length: float | None


@dataclass(frozen=True, slots=True)
class Switched:
    """What a switch took.

    Attributes:
        seconds: From the first command to the end of the probe and the read-back, waiting for idleness included.
        built: Whether backends and graphs were made, rather than taken from those kept.
        memory_gb: GPU memory that building took on the rank where it took most; 0 when nothing was built.
        evicted: Shapes that were dropped to make room.
        same_text: Whether the probe's text is that of the first probe of this start. Another text is no
            failure by itself: verifying more tokens at once may round otherwise. The losslessness gate judges.
        reserve_tokens: Cache slots a request reserves ahead of each decode step; None where not reported. At a load
            near a full cache it limits how many requests run.
    """

    seconds: float
    built: bool
    memory_gb: float
    evicted: int = 0
    same_text: bool = True
    reserve_tokens: int | None = None


@dataclass(frozen=True, slots=True)
class Report:
    """What the plugin says of its server.

    Attributes:
        start: The shape the server was started with.
        now: The shape the worker runs.
        consistent: Whether worker, settings, graphs and buffers of the answering rank agree on it.
        refuses: Why this server never switches; empty when it can.
        broken: Why it must be ended; empty when it need not.
        built: Shapes that are kept, least recently used first.
        last: How the last command ended, as the plugin reports it; empty before the first.
        places: Shape by place, for messages.
        reserve_tokens: See `Switched`.
    """

    start: Shape
    now: Shape
    consistent: bool
    refuses: str = ""
    broken: str = ""
    built: tuple[Shape, ...] = ()
    last: Mapping[str, Any] = field(default_factory=dict)
    places: Mapping[str, Any] = field(default_factory=dict)
    reserve_tokens: int | None = None
