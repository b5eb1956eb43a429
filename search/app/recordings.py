"""Between a study and a recording: the study a table implies, and the table a study gives."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from search.config import SpecConfig
from search.engines.recording import Recording, Row, beside_of
from search.errors import UsageError
from search.metrics import DEFAULTS, METRICS, fields_beside
from search.outcomes import Outcome
from search.spec.study import StudySpec
from search.storage.records import LaunchRecord, StudyRecord
from search.study.scatter import searched_phases

STUDY_FILE = "study_file"
"""Key of `meta.json` under which a recording made here keeps its study file."""


def spec_of_recording(recording: Recording) -> StudySpec:
    """The study of a recorded table: its own study file, or the least one that its rows imply.

    Known configs and questions that were not recorded are left out: replay never invents a row.

    Raises:
        UsageError: The study file inside is not one, or the table names no two concurrencies.
    """
    data = recording.meta.get(STUDY_FILE)
    try:
        spec = StudySpec.model_validate(data if data is not None else _least_study(recording))
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        place = ".".join(map(str, first["loc"]))
        raise UsageError(
            f"Recording {recording.name!r}: its study file is wrong: `{place}`: {first['msg']}."
        ) from error
    recorded = {config.config_id for config in recording.space()}
    questions = {name: question for name, question in spec.questions.items() if recorded.issuperset(question.configs)}
    known = tuple(config_id for config_id in spec.known if config_id in recorded)
    # A second phase is launched, not replayed, and its condition may be a question that was left out.
    return spec.model_copy(update={"known": known, "questions": questions, "escalation": None})


def recording_facts(recording: Recording, folder: Path) -> dict[str, str]:
    """What a replayed study's fingerprint holds: which table, and what its meta says of it."""
    meta = recording.meta
    table = (folder / "measurements.csv").read_bytes()
    facts = {"recording": recording.name, "recording.sha256": hashlib.sha256(table).hexdigest()}
    for name in ("synthetic", "hand_made"):
        if meta.get(name):
            facts[f"recording.{name}"] = "yes"
    for name in ("model", "draft", "gpus", "date", "note"):
        if meta.get(name):
            facts[f"recording.{name}"] = str(meta[name])
    if isinstance(versions := meta.get("versions"), dict):
        facts["recording.versions"] = ", ".join(f"{name} {version}" for name, version in versions.items())
    return facts


def _least_study(recording: Recording) -> dict[str, Any]:
    """A study file with what the table holds; hardware that it does not name is never used in a replay.

    The release stays empty: without a study file nothing says how these configs were launched.
    """
    meta, configs = recording.meta, recording.space()
    trees = [config for config in configs if config.speculates]
    loads = sorted({row.concurrency for row in recording.rows if row.concurrency is not None})
    objectives = _objectives(recording, loads)
    repeats = max((len(rows) for rows in recording.repeats().values()), default=1)
    algorithm = meta.get("algorithm")
    gpus = meta["tp"] if type(meta.get("tp")) is int and 1 <= meta["tp"] <= 1024 else 1
    return {
        "study": re.sub(r"[^a-z0-9._-]+", "-", recording.name.lower()).strip("-._")[:64] or "recording",
        "title": f"{recording.name}, a recorded table",
        "model": {
            "target": str(meta.get("model") or "not recorded"),
            "draft": "" if algorithm == "NGRAM" else str(meta.get("draft") or "not recorded"),
            "tp": gpus,
            "algorithm": algorithm if algorithm in ("EAGLE3", "EAGLE", "STANDALONE", "NGRAM") else "EAGLE3",
        },
        "hardware": {
            "gpus": gpus,
            "kind": str(meta.get("gpus") or "not recorded"),
            "sm": 90,
            "memory_gib": 1,
            "links": "nvlink" if str(meta.get("links", "")).lower().startswith("nvlink") else "pcie",
        },
        "engine": {"release": "", "max_running_requests": max(loads)},
        "space": {
            "spec_version": sorted({config.spec_version.value for config in trees}) or ["v1"],
            "topk": sorted({config.topk for config in trees if config.topk}) or [1],
            "num_steps": sorted({config.num_steps for config in trees if config.num_steps}) or [1],
            "num_draft_tokens": sorted({config.num_draft_tokens for config in trees if config.num_draft_tokens}) or [2],
            "allreduce_fusion": sorted({config.allreduce_fusion for config in configs}),
        },
        "objectives": objectives,
        "watch": [load for load in loads if load not in _loads(objectives)],
        "known": [config.config_id for config in recording.known],
        "measure": {"repeats": min(repeats, 2)},
    }


def _objectives(recording: Recording, loads: Sequence[int]) -> dict[str, int] | list[dict[str, Any]]:
    """As a study file has them: those that the meta names, else the usual ones at two loads of the table."""
    usual = {axis.metric.name for axis in DEFAULTS}
    named = recording.meta.get("objectives")
    if isinstance(named, dict):
        found = [
            {"metric": match[2], "at": int(match[1])}
            for name in named
            if (match := re.fullmatch(r"c(\d+)_(\w+)", str(name)))
        ]
        if len(found) == 2 and {axis["metric"] for axis in found} != usual:
            if all(axis["metric"] in METRICS for axis in found):
                return found
        elif len(found) == 2:
            low, high = sorted(int(axis["at"]) for axis in found)
            return {"latency": low, "throughput": high}
    if len(loads) < 2:
        raise UsageError(
            f"Recording {recording.name!r}: a study compares two concurrencies, but the table has {list(loads)}. Record a second concurrency."
        )
    low, high = _shared_loads(recording, loads)
    return {"latency": low, "throughput": high}


def _shared_loads(recording: Recording, loads: Sequence[int]) -> tuple[int, int]:
    """The two loads that most configs were measured at; of several such pairs the widest, and one with 100."""
    at: dict[SpecConfig, set[int]] = {}
    for config, load in recording.repeats():
        at.setdefault(config, set()).add(load)
    pairs = [(low, high) for place, low in enumerate(loads) for high in loads[place + 1 :]]
    return max(
        pairs, key=lambda pair: (sum(at_all >= set(pair) for at_all in at.values()), -pair[0], pair[1] == 100, pair[1])
    )


def require_baseline(recording: Recording, spec: StudySpec) -> None:
    """Refuse to replay a hand-made table that has nothing to compare with.

    Raises:
        UsageError: No config without speculation is in it at both objectives.
    """
    repeats, loads = recording.repeats(), spec.objective_loads
    baselines = [config for config in recording.space() if not config.speculates]
    if not recording.meta.get("hand_made") or any(
        all((config, load) in repeats for load in loads) for config in baselines
    ):
        return
    at = sorted({load for config, load in repeats if config in baselines})
    has = f"`off` only at concurrency {', '.join(map(str, at))}" if at else "none"
    raise UsageError(
        f"A replay compares with a baseline at concurrency {' and '.join(map(str, loads))}, but recording {recording.name!r} has {has}. "
        f"Use it in what-ifs (`--recording`), comparisons and priors (`earlier`), or add rows with `python -m search import --add`."
    )


def _loads(objectives: dict[str, int] | list[dict[str, Any]]) -> set[int]:
    return set(objectives.values()) if isinstance(objectives, dict) else {axis["at"] for axis in objectives}


def recording_of(study: StudyRecord, spec: StudySpec, launches: Sequence[LaunchRecord], *, name: str) -> Recording:
    """A study's launches as a recording.

    Launches outside the search (`try`) are left out: their arguments may be anything. So are
    interrupted ones, and phases on the held-out prompts, which compare with no other row; what a confirmation
    measured on the search's prompts is a further start of its config.

    Args:
        study: As it is stored.
        spec: Its study file.
        launches: All of it.
        name: Of the recording.

    Raises:
        UsageError: The study is a replay, or nothing of it can be recorded.
    """
    if study.kind == "replay":
        raise UsageError(f"Study {study.name!r} is itself a replay. Copy the recording it was drawn from.")
    kept = [
        launch for launch in launches if launch.stage != "try" and launch.outcome not in (None, Outcome.INTERRUPTED)
    ]
    fields = fields_beside(spec.axes)
    rows = tuple(row for launch in kept for row in _rows(launch, fields))
    if not rows:
        raise UsageError(
            f"Study {study.name!r} has no finished launch to record. Run it first: `python -m search.run --study {study.name}`."
        )
    releases = sorted({launch.effective.release for launch in kept if launch.effective and launch.effective.release})
    meta: dict[str, Any] = {
        "name": name,
        **({"synthetic": True} if study.kind == "simulated" else {}),
        "model": spec.model.target,
        "draft": spec.model.draft,
        "algorithm": spec.model.algorithm,
        "gpus": f"{spec.hardware.gpus}x {spec.hardware.kind}",
        "links": spec.hardware.links,
        "versions": {"sglang": ", ".join(releases) or spec.engine.release},
        "date": f"{kept[0].started_at:%Y-%m-%d}",
        "concurrencies": sorted({row.concurrency for row in rows if row.concurrency is not None}),
        "objectives": dict(zip(spec.objective_names, spec.directions, strict=True)),
        "baseline": next((row.config.config_id for row in rows if not row.config.speculates), "off"),
        "known": [config.config_id for config in spec.known_configs],
        "conditions": dict(study.fingerprint),
        STUDY_FILE: dict(study.spec),
    }
    return Recording(meta, rows)


def _rows(launch: LaunchRecord, fields: Sequence[str]) -> Iterator[Row]:
    failed = launch.reason is not None
    for phase in searched_phases(launch):
        yield Row(
            config=launch.config,
            launch=launch.number,
            # A row with numbers was measured, whatever became of its launch later.
            outcome=Outcome.GATED if failed or launch.outcome is Outcome.GATED else Outcome.MEASURED,
            notes=tuple(dict.fromkeys((*launch.notes, *phase.notes))),
            concurrency=phase.concurrency,
            repeat=phase.repeat,
            requests=phase.requests,
            output_tps=round(phase.output_tps, 4),
            tpot_ms=_rounded(phase.tpot_ms, 5),
            ttft_ms=_rounded(phase.ttft_ms, 3),
            beside=beside_of(phase, fields),
            accept_length=None if phase.accept_length is None else round(phase.accept_length, 4),
            accept_histogram=phase.accept_histogram,
            boot_s=_rounded(launch.boot_s),
            duration_s=_rounded(phase.duration_s),
            start=launch.start,
            place=launch.place,
            switch_s=_rounded(launch.switch_s),
        )
    if failed:
        place = re.fullmatch(r"c=(\d+)", launch.evidence.phase) if launch.evidence else None
        yield Row(
            config=launch.config,
            launch=launch.number,
            outcome=launch.outcome or Outcome.LOST,
            reason=launch.reason,
            notes=launch.notes,
            concurrency=int(place[1]) if place else None,
            boot_s=_rounded(launch.boot_s if launch.boot_s is not None else launch.duration_s),
            start=launch.start,
            place=launch.place,
            switch_s=_rounded(launch.switch_s),
        )


def _rounded(value: float | None, digits: int = 2) -> float | None:
    return None if value is None else round(value, digits)
