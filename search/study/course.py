"""One launch, filled in as it goes, and the row that it becomes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from search.analysis.results import ordered
from search.contracts import Clock, EffectiveSettings, PhaseResult
from search.errors import LaunchFailed
from search.load.metrics import DRAFTS_HELP_ABOVE
from search.outcomes import Evidence, Note, Outcome
from search.stats.acceptance import accept_drift
from search.stats.losslessness import OutputCheck
from search.stats.repeats import repeat_notes
from search.storage.records import LaunchRecord


@dataclass(slots=True)
class Course:
    """One launch, filled in as it goes.

    Attributes:
        clock: Of its slot.
        boot_s: None before the server was ready.
        effective: What really runs; None before it was asked.
        phases: Measured so far, in that order.
        leftovers: What its stop left behind.
        gated: Not everything was measured, on purpose.
        interrupted: Ctrl-C was pressed.
        hopeless: Why the drafts never help, by the probe.
        skipped: Why the second objective was not measured.
        switch_s: What the switch to its config took; None where there was none.
        refused: The start it was to share would not have it, so it has one of its own.
        lossless: How its answers compare with the baseline's.
    """

    clock: Clock
    boot_s: float | None = None
    effective: EffectiveSettings | None = None
    phases: list[PhaseResult] = field(default_factory=list)
    leftovers: tuple[str, ...] = ()
    gated: bool = False
    interrupted: bool = False
    hopeless: Evidence | None = None
    skipped: Evidence | None = None
    switch_s: float | None = None
    refused: bool = False
    lossless: tuple[OutputCheck, ...] = ()

    @property
    def spare_s(self) -> float:
        """What a further phase is held against: its server's start, or this measurement so far where it needed none."""
        if self.boot_s is not None:
            return self.boot_s
        measured = sum(result.warmup_s + (result.duration_s or 0.0) for result in self.phases)
        return (self.switch_s or 0.0) + measured

    def closed(
        self,
        record: LaunchRecord,
        failure: LaunchFailed | None,
        *,
        notes: tuple[Note, ...],
        duration_s: float,
        first: int,
    ) -> LaunchRecord:
        """The row of a launch that is over.

        Args:
            record: As planned.
            failure: What ended it early, if anything did.
            notes: Known before it began.
            duration_s: From its start to the proof of its stop.
            first: Concurrency of the first objective.
        """
        ran = self.effective.config if self.effective else record.asked
        found = {*notes, *(note for phase in self.phases for note in phase.notes), *self._notes(first)}
        if ran.config_id != record.asked.config_id:
            found.add(Note.EFFECTIVE_DIFFERS)
        if failure:
            # Two attempts that fail do not differ.
            found.discard(Note.UNSTABLE)
        outcome = failure.reason.outcome if failure else Outcome.GATED if self.gated else Outcome.MEASURED
        return replace(
            record,
            config=ran,
            outcome=outcome,
            reason=failure.reason if failure else None,
            evidence=failure.evidence if failure else self.hopeless or self.skipped,
            notes=ordered(found),
            boot_s=self.boot_s,
            switch_s=self.switch_s,
            duration_s=duration_s,
            effective=self.effective,
            # Answers are many, and their verdict is known by now.
            phases=tuple(replace(phase, outputs=()) for phase in self.phases),
            lossless=self.lossless,
        )

    def _notes(self, first: int) -> Iterator[Note]:
        """What only several phases of a launch show."""
        for concurrency in {result.concurrency for result in self.phases}:
            yield from repeat_notes([result for result in self.phases if result.concurrency == concurrency])
        low = [result for result in self.phases if result.concurrency == first]
        if any(accept_drift(alone, loaded) for alone in low[:1] for loaded in self.phases if loaded not in low):
            yield Note.ACCEPT_DRIFT
        if self.hopeless or any(
            result.accept_length is not None and result.accept_length <= DRAFTS_HELP_ABOVE for result in low
        ):
            yield Note.NO_DRAFT_GAIN
