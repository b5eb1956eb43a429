"""The corpus of start-up failures, and what the tool comes to say of each: one log, the next start, one sibling."""

import json
import re
from datetime import UTC, datetime
from pathlib import Path

from search.config import SpecConfig
from search.dialects import for_release
from search.outcomes import Blame, Outcome, Reason
from search.server.classify import classify
from search.storage.records import LaunchRecord
from search.study.blame import alike, settled
from search.study.budget import STATIC_FAULTS

CORPUS = Path(__file__).parent / "startup_corpus"
_ASKED, _SIBLING = SpecConfig.from_id("v2-k1-s2-d3"), SpecConfig.from_id("off")


def cases(half):
    """The logs of one half, as dictionaries."""
    return [json.loads(line) for line in (CORPUS / f"{half}.jsonl").read_text().splitlines()]


def told(case, folder, *, mutated=False):
    """Reason and evidence of one log; mutated, of another start that dies alike."""
    lines = [_mutated(line) for line in case["log"]] if mutated else case["log"]
    log = folder / "server.log"
    log.write_text("\n".join(lines) + "\n")
    return classify(log, exit_code=case["exit_code"], phase=case["phase"], dialect=for_release("0.5.16"))


def _mutated(line):
    """The line as another start has it: at another hour, of another rank and process, in other folders."""
    line = re.sub(r"(\d{4}-\d\d-\d\d) \d\d:", r"\1 23:", line)
    line = re.sub(r"\b(TP|DP|EP)\d+", r"\g<1>5", line)
    line = re.sub(r"/(home|opt|sgl-workspace|app|usr|data)/", "/elsewhere/v2/", line)
    return re.sub(r"\bpid=\d+", "pid=99123", line)


def _launch(number, config, reason, evidence):
    at = datetime(2026, 1, 1, tzinfo=UTC)
    return LaunchRecord(number, "search", config, config, at, outcome=reason.outcome, reason=reason, evidence=evidence)


def blamed(case, folder):
    """Whom the tool blames in the end: config, shared, host, accident or unknown.

    What the report found decides only what the next starts do: the second one dies alike where the fault is
    deterministic, and the sibling starts where the config is to blame.
    """
    reason, evidence = told(case, folder)
    if reason.blame is Blame.HOST:
        # A baseline meets it first, and then the study stops: every launch shares the fault.
        return "shared" if reason in STATIC_FAULTS and case["blame"] == "shared" else "host"
    if reason.blame is Blame.CONFIG:
        # The baseline is launched first: where it fails for such a reason, no launch of the study can start.
        return "shared" if case["blame"] == "shared" else "config"
    if not case["deterministic"]:
        return "unknown" if reason is Reason.UNKNOWN else "accident"
    again = _launch(3, _ASKED, *told(case, folder, mutated=True))
    first = _launch(2, _ASKED, reason, evidence)
    sibling = LaunchRecord(1, "baseline", _SIBLING, _SIBLING, again.started_at, outcome=Outcome.MEASURED, boot_s=60.0)
    if case["blame"] != "config":
        sibling = _launch(1, _SIBLING, reason, evidence)
    if settled(again, [sibling, first]).blame is Blame.CONFIG:
        return "config"
    return "shared" if len(alike(again, [sibling, first])) == 2 else "unknown"


def is_right(case, answer):
    """Whether the blame is the one that people found."""
    passing = answer == "accident" and not case["deterministic"] and case["blame"] in ("host", "unknown")
    return passing or answer == case["blame"]
