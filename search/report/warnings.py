"""What may change the decision: the warnings of the first screen."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from search.config import SpecConfig
from search.outcomes import Note
from search.report.content import ReportContent
from search.report.text import counted, loads_words, lossless_words

_FAILURES_TELL = 0.25
"""Share of launches without a measurement from which the first screen says so."""
_NOTES: Final[Mapping[Note, str]] = {
    Note.NO_DRAFT_GAIN: "accepted hardly any drafts, 1.05 tokens per verify pass at most",
    Note.CACHE_TAINTED: "was measured with prompts that the server had in its cache",
    Note.THROTTLED: "was measured while power or heat lowered the GPUs' clocks",
    Note.ADMISSION_LIMITED: "had requests waiting in the server's queue, so a number at a load is that of fewer at once",
    Note.NOT_VERIFIED: "was not told of by its server: what was asked stands in for what ran",
}
"""Notes of what is to be run that change a decision, in words that go on from its name."""


@dataclass(frozen=True, slots=True)
class Choice:
    """A config to run, and the loads it was chosen for, ascending."""

    config: SpecConfig
    loads: tuple[int, ...]


def warnings(content: ReportContent, choices: Sequence[Choice]) -> Iterator[str]:
    """What may change the decision, a sentence each; backticks mark ids.

    Args:
        content: The study.
        choices: What the decision is to run.
    """
    judgement = content.judgement
    yield from judgement.cautions
    if content.workloads is not None:
        yield from content.workloads.warnings
    by_config = {result.config: result for result in judgement.results}
    for choice in choices:
        result = by_config.get(choice.config)
        if result is None:
            continue
        lossless = lossless_words(result.lossless)
        if lossless and lossless != "lossless":
            yield f"`{choice.config}` is {lossless}: its answers are not shown to be the baseline's."
        if far := [load for load in choice.loads if load in result.loads and result.loads[load].extrapolated]:
            yield f"`{choice.config}` at {loads_words(far)} is extrapolated: the cost model was not fitted to it."
        for note in result.notes:
            if note in _NOTES:
                yield f"`{choice.config}` {_NOTES[note]} ({note})."
    if judgement.barred:
        listed = ", ".join(f"`{config}`" for config in judgement.barred)
        yield f"Garbage in the answers bars {listed}, however fast."
    ended = [launch for launch in content.launches if launch.outcome is not None]
    failed = len(judgement.failures)
    if judgement.results and failed and failed >= _FAILURES_TELL * len(ended):
        yield f"{failed} of {counted(len(ended), 'launch')} gave no measurement; see the failures."
