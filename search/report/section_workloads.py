"""The section of several workloads: each one's answer, and the worst case."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from search.analysis.findings import Gain
from search.report.blocks import Block, Cell, Column, Lines, Row, Text, config_cell, gain_cell, table
from search.report.content import ReportContent


def workloads(content: ReportContent) -> Iterator[Block]:
    """What each workload says at the objectives' loads, and what holds whatever comes."""
    answer = content.workloads
    if answer is None:
        return
    yield Text(
        "The same servers with other prompts, lengths or sampling, each judged by itself. `main` is what the study searched with; "
        "the others were measured beside it, so a config that is best for them alone may not have been launched.",
        aside=True,
    )
    rows = []
    for load in content.objective_loads:
        for verdict in answer.verdicts:
            winner = next((one for one in verdict.winners if one.concurrency == load), None)
            if winner is None:
                continue
            ahead = winner.ahead[0] if winner.ahead and not winner.claimed else None
            rows.append(
                Row(
                    (
                        Cell(f"C={load}", sort=str(load)),
                        Cell(verdict.name, more=() if verdict.sampling == "greedy" else (verdict.sampling,)),
                        config_cell(winner.config),
                        gain_cell(winner.gain) if winner.config.speculates else Cell("-"),
                        config_cell(winner.baseline),
                        Cell("shown" if winner.claimed else "no gain shown"),
                        Cell(f"{ahead.config}", code=True) if ahead else Cell("-"),
                        gain_cell(ahead.gain) if ahead else Cell("-"),
                    ),
                    marked=winner.claimed,
                )
            )
    yield table(
        (
            Column("load"),
            Column("workload"),
            Column("winner"),
            Column("gain", numeric=True),
            Column("best baseline"),
            Column("how sure"),
            Column("ahead, not shown"),
            Column("by", numeric=True),
        ),
        rows,
    )
    yield Lines((*answer.warnings, *answer.lines))


def workloads_json(content: ReportContent) -> dict[str, Any] | None:
    """The same for machines; None for a study of one workload."""
    answer = content.workloads
    if answer is None:
        return None
    return {
        "verdicts": [
            {
                "workload": verdict.name,
                "sampling": verdict.sampling,
                "winners": [
                    {
                        "concurrency": winner.concurrency,
                        "config_id": winner.config.config_id,
                        "baseline": winner.baseline.config_id,
                        "gain_claimed": winner.claimed,
                        **_gain(winner.gain),
                    }
                    for winner in verdict.winners
                ],
            }
            for verdict in answer.verdicts
        ],
        "worst_case": [
            {
                "concurrency": worst.concurrency,
                "config_id": worst.config.config_id if worst.config else None,
                "workload": worst.workload or None,
                "shown": worst.shown,
                "sentence": worst.sentence.replace("`", ""),
                "reversals": [
                    {
                        "config_id": one.config.config_id,
                        "better_with": one.better[0],
                        "better": _gain(one.better[1]),
                        "worse_with": one.worse[0],
                        "worse": _gain(one.worse[1]),
                    }
                    for one in worst.reversals
                ],
                **_gain(worst.gain),
            }
            for worst in answer.worst
        ],
    }


def _gain(gain: Gain | None) -> dict[str, float | None]:
    ends = (None, None, None) if gain is None else (gain.value, gain.lo, gain.hi)
    return {
        name: None if end is None else round(end, 5)
        for name, end in zip(("gain_ratio", "gain_ratio_lo", "gain_ratio_hi"), ends, strict=True)
    }
