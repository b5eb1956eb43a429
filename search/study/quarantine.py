"""Which slots may be used: a slot that leaks, loses its worker or fails twice alike rests for a while."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from search.contracts import Clock, Slot
from search.outcomes import Blame, Reason
from search.study.launch import Launched

REST_MINUTES = 10.0
"""How long a slot rests before it is looked at again."""


@dataclass(slots=True)
class _Ward:
    """What is known of one slot.

    Attributes:
        why: It rests; empty while it is fit.
        until: When it is looked at again, by the clock.
        on_trial: It has rested, and its next launch must be its baseline.
        fault: The last launch's, when the host was to blame.
    """

    why: str = ""
    until: float = 0.0
    on_trial: bool = False
    fault: Reason | None = None


class Quarantine:
    """Watches the slots of one run.

    A slot rests after an unclean stop, a lost worker, or the same host fault in two launches one
    after the other. After its rest it is fit again when `is_clean` says so and a fresh baseline
    gets measured on it; else it rests again. A study's only slot rests after an unclean stop
    only: other faults of a single host are the circuit breaker's business.

    Args:
        slots: Of the executor.
        clock: Time.
        is_clean: Whether nothing of an earlier launch is left on a slot.
        rest_minutes: See `REST_MINUTES`.
    """

    def __init__(
        self,
        slots: Sequence[Slot],
        clock: Clock,
        *,
        is_clean: Callable[[Slot], bool],
        rest_minutes: float = REST_MINUTES,
    ) -> None:
        self._slots = tuple(slots)
        self._clock = clock
        self._is_clean = is_clean
        self._rest_s = rest_minutes * 60
        self._wards = {slot.index: _Ward() for slot in slots}

    def usable(self) -> list[Slot]:
        """Slots that may be launched on, in order; looks again at those that have rested."""
        for slot in self._slots:
            ward = self._wards[slot.index]
            if ward.why and self._clock.monotonic() >= ward.until:
                if self._is_clean(slot):
                    ward.why, ward.on_trial = "", True
                else:
                    ward.until = self._clock.monotonic() + self._rest_s
        return [slot for slot in self._slots if not self._wards[slot.index].why]

    def is_on_trial(self, slot: Slot) -> bool:
        """Whether the slot has rested, and must measure its baseline before anything else."""
        return self._wards[slot.index].on_trial

    def reasons(self) -> list[str]:
        """One line for each slot that rests."""
        return [f"slot {index}: {ward.why}" for index, ward in self._wards.items() if ward.why]

    def saw(self, slot: Slot, launched: Launched) -> str | None:
        """Take note of a launch that ended on `slot`; why the slot rests from now on, or None."""
        ward, record = self._wards[slot.index], launched.record
        fault = record.reason if record.blame is Blame.HOST else None
        again, ward.fault = fault is not None and fault is ward.fault, fault
        if launched.leftovers:
            return self.rest(slot, f"launch {record.number} left something behind: {'; '.join(launched.leftovers)}")
        if len(self._slots) == 1:
            return None
        line = record.evidence.root_line if record.evidence else ""
        if fault is Reason.WORKER_LOST:
            return self.rest(slot, f"launch {record.number} lost its worker: {line}")
        if again:
            return self.rest(slot, f"launch {record.number} is the second one in a row with {fault}: {line}")
        if ward.on_trial and record.reason is not None:
            return self.rest(slot, f"its baseline, launch {record.number}, failed again with {record.reason}: {line}")
        ward.on_trial = False
        return None

    def rest(self, slot: Slot, why: str) -> str:
        """Use `slot` no more for a while."""
        ward = self._wards[slot.index]
        ward.why, ward.until = why, self._clock.monotonic() + self._rest_s
        ward.on_trial, ward.fault = False, None
        return why
