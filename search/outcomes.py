"""The closed lists: how a launch can end, why, who is to blame, and what a number carries.

Life of a launch::

    planned -> launched -> MEASURED | GATED
                        -> FAILED       the config is to blame
                        -> LOST         the host, a flake, or this tool is to blame
                        -> INTERRUPTED  the user or a budget ended it
            -> REFUSED                  it never reached the GPUs, or the server left at once
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Self


class Outcome(StrEnum):
    """How a launch ended."""

    MEASURED = "MEASURED"
    GATED = "GATED"
    REFUSED = "REFUSED"
    FAILED = "FAILED"
    LOST = "LOST"
    INTERRUPTED = "INTERRUPTED"

    @property
    def blames_config(self) -> bool:
        """Whether a sampler should learn that this config is infeasible."""
        return self in (Outcome.REFUSED, Outcome.FAILED)


class Blame(StrEnum):
    """Who has to change for a failure not to happen again."""

    CONFIG = "config"
    HOST = "host"
    FLAKE = "flake"
    TOOL = "tool"
    USER = "user"


class Reason(StrEnum):
    """Why a launch gave no measurement, and who is to blame for it: a reason without a blame does not import.

    Attributes:
        blame: It alone decides on retries.
    """

    blame: Blame

    def __new__(cls, value: str, *blame: Blame) -> Self:
        """A member, stored as `value`. Look-ups by value alone, `Reason("OOM_KV")`, do not come here."""
        member = str.__new__(cls, value)
        member._value_ = value
        (member.blame,) = blame
        return member

    # no retry
    ARG_UNKNOWN = "ARG_UNKNOWN", Blame.CONFIG
    ARG_INVALID_COMBO = "ARG_INVALID_COMBO", Blame.CONFIG
    DRAFT_MISMATCH = "DRAFT_MISMATCH", Blame.CONFIG
    OOM_WEIGHTS = "OOM_WEIGHTS", Blame.CONFIG
    OOM_KV = "OOM_KV", Blame.CONFIG
    OOM_GRAPH = "OOM_GRAPH", Blame.CONFIG
    OOM_RUNTIME = "OOM_RUNTIME", Blame.CONFIG
    COMM_UNSUPPORTED = "COMM_UNSUPPORTED", Blame.CONFIG
    COMM_INIT_HANG = "COMM_INIT_HANG", Blame.CONFIG
    SERVER_CRASH_LOAD = "SERVER_CRASH_LOAD", Blame.CONFIG
    SERVER_HANG_LOAD = "SERVER_HANG_LOAD", Blame.CONFIG
    BAD_OUTPUT = "BAD_OUTPUT", Blame.CONFIG
    DETERMINISTIC_CRASH = "DETERMINISTIC_CRASH", Blame.CONFIG
    # queue once more, quarantine the slot if it repeats
    COMM_HOST_FAULT = "COMM_HOST_FAULT", Blame.HOST
    HOST_OOM = "HOST_OOM", Blame.HOST
    HOST_BUSY = "HOST_BUSY", Blame.HOST
    PORT_BUSY = "PORT_BUSY", Blame.HOST
    WEIGHT_LOAD = "WEIGHT_LOAD", Blame.HOST
    MISSING_MODULE = "MISSING_MODULE", Blame.HOST
    HOST_FAULT = "HOST_FAULT", Blame.HOST
    STARTUP_STALL = "STARTUP_STALL", Blame.HOST
    RAY_INFRA = "RAY_INFRA", Blame.HOST
    WORKER_LOST = "WORKER_LOST", Blame.HOST
    # one retry, both attempts kept
    CUDA_FAULT = "CUDA_FAULT", Blame.FLAKE
    START_CRASH = "START_CRASH", Blame.FLAKE
    # no values, loud
    METRIC_INVALID = "METRIC_INVALID", Blame.TOOL
    STALE_SERVER = "STALE_SERVER", Blame.TOOL
    CLIENT_LIMITED = "CLIENT_LIMITED", Blame.TOOL
    CLIENT_NO_OUTPUT = "CLIENT_NO_OUTPUT", Blame.TOOL
    STORAGE_FAULT = "STORAGE_FAULT", Blame.TOOL
    TOOL_ERROR = "TOOL_ERROR", Blame.TOOL
    UNKNOWN = "UNKNOWN", Blame.TOOL
    STOPPED = "STOPPED", Blame.USER

    @property
    def outcome(self) -> Outcome:
        """The outcome of a launch that ended for this reason."""
        if self in (Reason.ARG_UNKNOWN, Reason.ARG_INVALID_COMBO):
            return Outcome.REFUSED
        match self.blame:
            case Blame.CONFIG:
                return Outcome.FAILED
            case Blame.USER:
                return Outcome.INTERRUPTED
            case _:
                return Outcome.LOST


class Note(StrEnum):
    """What travels with a measured number, so that nobody reads it without its caveat."""

    NO_DRAFT_GAIN = "NO_DRAFT_GAIN"
    ACCEPT_DRIFT = "ACCEPT_DRIFT"
    ADMISSION_LIMITED = "ADMISSION_LIMITED"
    EFFECTIVE_DIFFERS = "EFFECTIVE_DIFFERS"
    GRAPH_MISS = "GRAPH_MISS"
    BISTABLE = "BISTABLE"
    WARMUP_TAINTED = "WARMUP_TAINTED"
    CACHE_TAINTED = "CACHE_TAINTED"
    ORDER_EFFECT = "ORDER_EFFECT"
    CLIENT_NEAR_LIMIT = "CLIENT_NEAR_LIMIT"
    THROTTLED = "THROTTLED"
    ENV_NO_EFFECT = "ENV_NO_EFFECT"
    UNSTABLE = "UNSTABLE"
    NOT_VERIFIED = "NOT_VERIFIED"
    SYNTHETIC = "SYNTHETIC"
    START_DIFFERS = "START_DIFFERS"

    @property
    def bars_recommendation(self) -> bool:
        """Whether a row with this note may never be recommended as a measured fact."""
        return self in (Note.NO_DRAFT_GAIN, Note.CACHE_TAINTED, Note.SYNTHETIC)


@dataclass(frozen=True, slots=True)
class Evidence:
    """What a classification is based on, kept so that a person can check it.

    Attributes:
        root_line: The first root cause, as the log or the check worded it; never the echo.
        phase: Where it happened: `arguments`, `loading`, `graph capture`, `warm-up`, `c=100`, …
        exit_code: Of the server's launcher; negative for a signal; None while it lived.
        log_path: The log to read on in; empty when there is none.
        requested: Requests that the phase was to measure; None outside a phase.
        completed: Those of them that had ended by then; None outside a phase.
    """

    root_line: str
    phase: str = ""
    exit_code: int | None = None
    log_path: str = ""
    requested: int | None = None
    completed: int | None = None
