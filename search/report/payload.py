"""The result for machines: `front.json`, and what `--json` prints."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from search.analysis.findings import Gain, LoadWinner, ObjectiveWinner
from search.metrics import own_axes
from search.report.content import ReportContent
from search.report.decision import decide, plain
from search.report.frames import front_rows
from search.report.scripts import ScriptPaths, script_names
from search.report.section_escalation import escalation_json
from search.report.section_workloads import workloads_json
from search.report.text import rounded


def payload(content: ReportContent) -> dict[str, Any]:
    """The result as JSON-able data; values that do not exist are null, never 0."""
    judgement = content.judgement
    first, second = content.spec.objective_names
    scripts = script_names(content)
    own = own_axes(content.axes)
    decision = decide(content)
    return {
        "study": content.study.name,
        "kind": content.study.kind,
        "label": content.label or "MEASURED",
        "objectives": dict(zip((first, second), content.spec.directions, strict=True)),
        "launches": len(content.launches),
        "decision": {
            "verdict": decision.verdict,
            "sentence": plain(decision.sentence),
            "choices": [{"config_id": one.config.config_id, "loads": list(one.loads)} for one in decision.choices],
            "warnings": list(map(plain, decision.warnings)),
            "basis": list(map(plain, decision.basis)),
            "next": plain(decision.next),
        },
        "headlines": list(judgement.headlines),
        "winners": [_winner(winner) for winner in judgement.winners],
        "beyond": [_winner(winner) for winner in judgement.beyond],
        **({"objective_winners": list(map(_at_objective, judgement.objective_winners))} if own else {}),
        **({"workloads": workloads} if (workloads := workloads_json(content)) is not None else {}),
        **({"escalation": phase} if (phase := escalation_json(content)) is not None else {}),
        "front": front_rows(content),
        "baselines": [result.config.config_id for result in judgement.baselines],
        "picks": [
            {
                "roles": list(pick.roles),
                "config_id": pick.result.config.config_id,
                "extrapolated": pick.extrapolated,
                "script": _path(scripts, pick.result.config.config_id),
                "measuring_script": _path(scripts, pick.result.config.config_id, measuring=True),
            }
            for pick in judgement.picks
        ],
        "questions": [
            {"name": answer.name, "verdict": answer.verdict, "text": answer.text} for answer in judgement.verdicts
        ],
        "failures": [
            {
                "launch": failure.launch,
                "config_id": failure.config.config_id,
                "outcome": failure.outcome,
                "reason": failure.reason,
                "root_line": failure.root_line,
            }
            for failure in judgement.failures
        ],
        "knobs": [
            {
                "knob": worth.knob,
                "concurrency": worth.concurrency,
                "value": worth.value,
                "against": worth.other,
                "config_id": worth.best.config_id,
                "against_config_id": worth.other_best.config_id,
                "gain_ratio": rounded(worth.gain.value),
                "gain_ratio_lo": rounded(worth.gain.lo),
                "gain_ratio_hi": rounded(worth.gain.hi),
                "told_apart": worth.gain.separable,
                "differ_too": list(worth.differ_too),
                "alone_ratio": rounded(worth.alone.value if worth.alone else None),
            }
            for worth in judgement.knobs
        ],
        "remarks": list(judgement.remarks),
        "predicted": list(judgement.predictions.sentences),
        "barred": [config.config_id for config in judgement.barred],
        "provenance": list(content.provenance),
    }


def _path(scripts: Mapping[str, ScriptPaths], config_id: str, *, measuring: bool = False) -> str | None:
    paths = scripts.get(config_id)
    return None if paths is None else paths.measuring if measuring else paths.serving


def _winner(winner: LoadWinner) -> dict[str, Any]:
    return {
        "concurrency": winner.concurrency,
        "config_id": winner.config.config_id,
        "output_tps": round(winner.rate.value, 3),
        "output_tps_lo": None if winner.rate.lo is None else round(winner.rate.lo, 3),
        "output_tps_hi": None if winner.rate.hi is None else round(winner.rate.hi, 3),
        "baseline": winner.baseline.config_id,
        "baseline_output_tps": round(winner.baseline_rate.value, 3),
        "gain_ratio": round(winner.gain.value, 5),
        "gain_ratio_lo": rounded(winner.gain.lo),
        "gain_ratio_hi": rounded(winner.gain.hi),
        "gain_claimed": winner.claimed,
        "gain_is": _kind(winner.gain),
        "equal_fusion_gain_ratio": rounded(winner.equal_fusion_gain.value if winner.equal_fusion_gain else None),
        "tied": [config.config_id for config in winner.tied],
        "same": [config.config_id for config in winner.same],
        "ahead": [
            {
                "config_id": one.config.config_id,
                "gain_ratio": rounded(one.gain.value),
                "gain_ratio_lo": rounded(one.gain.lo),
                "gain_ratio_hi": rounded(one.gain.hi),
            }
            for one in winner.ahead
        ],
        "extrapolated": winner.extrapolated,
    }


def _kind(gain: Gain) -> str:
    """What the interval of a gain is."""
    return "90% band of the model" if gain.band else "assumed scatter" if gain.assumed else "95% CI"


def _at_objective(winner: ObjectiveWinner) -> dict[str, Any]:
    return {
        "objective": winner.objective.name,
        "config_id": winner.config.config_id,
        "value": rounded(winner.value.value),
        "value_lo": rounded(winner.value.lo),
        "value_hi": rounded(winner.value.hi),
        "baseline": winner.baseline.config_id,
        "baseline_value": rounded(winner.baseline_value.value),
        "gain_ratio": rounded(winner.gain.value if winner.gain else None),
        "tied": [config.config_id for config in winner.tied],
        "extrapolated": winner.extrapolated,
    }
