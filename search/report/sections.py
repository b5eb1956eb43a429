"""The sections of the page below its first screen, in order: the one place where sections are added.

A section is a function from the report's content to blocks (`search.report.blocks`); without a block it is left out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final

from search.report.blocks import Block
from search.report.content import ReportContent
from search.report.schedule import schedule
from search.report.section_drafts import drafts, predicted, times
from search.report.section_escalation import escalation
from search.report.section_launches import environment, space, starts
from search.report.section_results import configs, front, knobs, picks, questions, remarks, winners
from search.report.section_workloads import workloads


@dataclass(frozen=True, slots=True)
class Section:
    """One section.

    Attributes:
        name: Its anchor.
        title: Its heading.
        blocks: What stands in it.
    """

    name: str
    title: str
    blocks: Callable[[ReportContent], Iterator[Block]]


SECTIONS: Final = (
    Section("picks", "Picks", picks),
    Section("loads", "The answer at each load", winners),
    Section("schedule", "A schedule by load", schedule),
    Section("workloads", "Workloads", workloads),
    Section("escalation", "Escalation", escalation),
    Section("front", "Front", front),
    Section("knobs", "What each knob is worth", knobs),
    Section("questions", "Questions", questions),
    Section("drafts", "Accept length, cycle and break-even", drafts),
    Section("predictions", "Predicted and measured", predicted),
    Section("all", "All measured configs", configs),
    Section("remarks", "Remarks", remarks),
    Section("waits", "Times of requests", times),
    Section("launches", "Starts and failures", starts),
    Section("space", "The space, and what is locked", space),
    Section("environment", "Where the numbers come from", environment),
)
