"""The result for machines: `front.json`, and what `--json` prints."""

from __future__ import annotations

from typing import Any

from search.analysis.findings import LoadWinner
from search.report.content import ReportContent
from search.report.frames import front_rows
from search.report.scripts import script_names


def payload(content: ReportContent) -> dict[str, Any]:
    """The result as JSON-able data; values that do not exist are null, never 0."""
    judgement = content.judgement
    first, second = content.spec.objective_names
    scripts = script_names(content)
    return {
        "study": content.study.name,
        "kind": content.study.kind,
        "label": content.label or "MEASURED",
        "objectives": dict(zip((first, second), content.spec.directions, strict=True)),
        "launches": len(content.launches),
        "headlines": list(judgement.headlines),
        "winners": [_winner(winner) for winner in judgement.winners],
        "beyond": [_winner(winner) for winner in judgement.beyond],
        "front": front_rows(content),
        "baselines": [result.config.config_id for result in judgement.baselines],
        "picks": [
            {
                "roles": list(pick.roles),
                "config_id": pick.result.config.config_id,
                "extrapolated": pick.result.extrapolated,
                "script": scripts.get(pick.result.config.config_id),
            }
            for pick in judgement.picks
        ],
        "questions": [
            {"name": answer.name, "verdict": answer.verdict, "text": answer.text} for answer in judgement.answers
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
        "remarks": list(judgement.remarks),
        "predicted": list(judgement.predictions.sentences),
        "barred": [config.config_id for config in judgement.barred],
        "provenance": list(content.provenance),
    }


def _winner(winner: LoadWinner) -> dict[str, Any]:
    return {
        "concurrency": winner.concurrency,
        "config_id": winner.config.config_id,
        "output_tps": round(winner.rate.value, 3),
        "output_tps_lo": None if winner.rate.lo is None else round(winner.rate.lo, 3),
        "output_tps_hi": None if winner.rate.hi is None else round(winner.rate.hi, 3),
        "baseline": winner.baseline.config_id,
        "baseline_output_tps": round(winner.baseline_rate.value, 3),
        "gain": round(winner.gain, 5),
        "gain_lo": _end(winner.gain_doubt.lo if winner.gain_doubt else None),
        "gain_hi": _end(winner.gain_doubt.hi if winner.gain_doubt else None),
        "gain_separable": winner.gain_separable,
        "equal_fusion_gain": None if winner.equal_fusion_gain is None else round(winner.equal_fusion_gain, 5),
        "tied": [config.config_id for config in winner.tied],
        "extrapolated": winner.extrapolated,
    }


def _end(value: float | None) -> float | None:
    return None if value is None else round(value, 5)
