"""The section of a second phase in another engine: whether it began, and what it was worth."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from search.analysis.findings import Gain
from search.report.blocks import Block, Cell, Column, Lines, Row, Text, config_cell, gain_cell, table
from search.report.content import ReportContent


def escalation(content: ReportContent) -> Iterator[Block]:
    """Its condition, and by load what it would run there against what is run here."""
    answer = content.escalation
    if answer is None:
        return
    if answer.worth:
        yield Text(
            "Winners of the second phase against those of the first: same host and prompts, another engine. What that engine "
            "brings to the baseline by itself stands beside it.",
            aside=True,
        )
        yield table(
            (
                Column("load"),
                Column(f"SGLang {answer.release}"),
                Column(f"SGLang {content.spec.engine.release}"),
                Column("gain", numeric=True),
                Column("how sure"),
                Column("engine alone", numeric=True),
            ),
            [
                Row(
                    (
                        Cell(f"C={one.concurrency}", sort=str(one.concurrency)),
                        config_cell(one.after),
                        config_cell(one.before),
                        Cell("-") if one.gain is None else gain_cell(one.gain),
                        Cell("shown" if one.shown else "not shown"),
                        Cell("-") if one.engine_alone is None else gain_cell(one.engine_alone[1]),
                    ),
                    marked=one.shown,
                )
                for one in answer.worth
            ],
        )
    yield Lines(answer.lines)


def escalation_json(content: ReportContent) -> dict[str, Any] | None:
    """The same for machines; None for a study without one."""
    answer = content.escalation
    if answer is None:
        return None
    return {
        "state": answer.state,
        "study": answer.study,
        "release": answer.release,
        "why": answer.why,
        "starts": answer.starts,
        "unchecked": [config.config_id for config in answer.unchecked],
        "worth": [
            {
                "concurrency": one.concurrency,
                "config_id": one.after.config_id,
                "against_config_id": one.before.config_id,
                "shown": one.shown,
                "gain": _gain(one.gain),
                "engine_alone": _gain(one.engine_alone[1] if one.engine_alone else None),
            }
            for one in answer.worth
        ],
    }


def _gain(gain: Gain | None) -> list[float | None] | None:
    """Ratio and the ends of its interval."""
    if gain is None:
        return None
    return [None if end is None else round(end, 5) for end in (gain.value, gain.lo, gain.hi)]
