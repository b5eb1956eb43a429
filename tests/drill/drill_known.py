"""Cases that go wrong today, each with the reason; they are expected to, so that mending one is noticed."""

from __future__ import annotations

import fnmatch

from drill_cases import Case

_ACTOR = "the driver waits for a stopped actor without a limit (`RayExecutor.call`), and Ctrl-C waits with it"
_RAYLET = "`ray.shutdown` waits for a stopped raylet without a limit (`RayExecutor.close`)"
_BASELINE = "a baseline that failed once is never launched again, so the same command cannot go on (`_check_baseline`)"

KNOWN: dict[str, str] = {
    "actor-STOP-first-phase": _ACTOR,
    "actor-STOP-phase-stored": _ACTOR,
    "actor-STOP-loaded": _ACTOR,
    "actor+guardian-STOP-loaded": _ACTOR,
    "raylet-STOP-ready": _RAYLET,
    "raylet-STOP-stopping": _RAYLET,
    "raylet-STOP-second-loaded": _RAYLET,
    "launcher-STOP-loaded": _BASELINE,
}
"""Reasons by pattern of case names."""


def known_reason(case: Case) -> str:
    """Why a case is expected to go wrong; empty when it has to pass."""
    return next((reason for pattern, reason in KNOWN.items() if fnmatch.fnmatch(str(case), pattern)), "")
