"""Whether two launches failed in the same way, though their words differ in numbers, addresses and folders.

A failure that no phrase knows says by itself neither "this config" nor "this host". Seen twice alike it is
no accident; seen alike with another config it is the host's.
"""

from __future__ import annotations

import re

from search.outcomes import Evidence

_VARIES = (
    (re.compile(r"0x[0-9a-fA-F]+|\b[0-9a-f]{8,}\b"), "#"),
    (re.compile(r"(?:/[\w.+@-]+)+/"), ""),
    (re.compile(r"\d+(?:\.\d+)*"), "#"),
    (re.compile(r"\s+"), " "),
)
"""Addresses and hashes; folders, names of files kept; numbers; blanks."""


def cause_key(evidence: Evidence) -> str:
    """A text that is equal for failures of one cause; empty when nothing is known of the cause.

    The moment belongs to it: the same words while loading and under load are two causes. `c=1`
    and `c=100` are one moment.
    """
    line = evidence.root_line.partition("; last line: ")[0]
    for pattern, stands_for in _VARIES:
        line = pattern.sub(stands_for, line)
    moment = evidence.phase.partition("=")[0]
    return f"{moment}: {line.strip()}" if line.strip() else ""


def same_cause(one: Evidence, other: Evidence) -> bool:
    """Whether two failures have one cause, as far as their words show."""
    return bool(key := cause_key(one)) and key == cause_key(other)
