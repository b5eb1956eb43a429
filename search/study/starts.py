"""Servers that are kept running between measurements, one a slot, and who may be measured in them."""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Final

from search.config import SpecConfig
from search.contracts import Session
from search.storage.records import LaunchRecord, Stage
from search.study.sharing import Sharing

SHARING_STAGES: Final[frozenset[Stage]] = frozenset({"known", "search"})
"""What is compared in the end has a start of its own, as it would run in production."""

MOST_PLACES: Final = 24
"""Measurements of one start: what a start drew for good is in all of them."""

ANCHORED_AT: Final = frozenset({4, 10, 16, 22})
"""Places at which the first config of a start is measured again: so the start shows what a place does. Every sixth
measurement (a switch and the phases of the objectives, minutes against the quarter of an hour of a start); a start
with fewer than four measurements has no need of it."""

_FAILED_SHARED_STARTS: Final = 2
"""So many starts that were to hold several configs and never became ready end the sharing: it costs more than it spares."""


@dataclass(frozen=True, slots=True)
class OpenStart:
    """A server between two measurements.

    Attributes:
        session: Of the server.
        number: Of the record whose launch started it.
        places: Measurements so far, those that failed included.
        launched: The config it was launched for.
    """

    session: Session
    number: int
    places: int
    launched: SpecConfig

    def holds(self, config: SpecConfig) -> bool:
        """Whether it can be switched to a config."""
        return self.places < MOST_PLACES and config in (self.launched, *self.session.holds)


class Starts:
    """The open starts of one run, by slot. Slots may use it from several threads, each for itself.

    Args:
        sharing: Which configs may share a start.
        notice: Gets one line when sharing ends.
        stages: Whose measurements may share a start.
    """

    def __init__(
        self,
        sharing: Sharing,
        notice: Callable[[str], None] = lambda _: None,
        *,
        stages: Collection[Stage] = SHARING_STAGES,
    ) -> None:
        self._sharing = sharing
        self._stages = stages
        self._notice = notice
        self._lock = threading.Lock()
        self._open: dict[int, OpenStart] = {}
        self._failed = 0
        self._ended = ""

    @property
    def shares(self) -> bool:
        """Whether any start is shared still."""
        return bool(self._sharing.groups) and not self._ended

    def beside(self, config: SpecConfig, stage: Stage) -> tuple[SpecConfig, ...]:
        """What else a start for a config is to be able to hold; empty where it is to be the config's own."""
        return self._sharing.beside(config) if self.shares and stage in self._stages else ()

    def serving(self, slot: int, config: SpecConfig, stage: Stage) -> OpenStart | None:
        """The open start of a slot, if a config may be measured in it next."""
        with self._lock:
            found = self._open.get(slot)
        if found is None or not self.beside(config, stage) or not found.holds(config):
            return None
        return found

    def held(self, slot: int) -> tuple[SpecConfig, ...]:
        """Configs that the open start of a slot can be switched to; empty without one."""
        with self._lock:
            found = self._open.get(slot)
        if found is None or not self.shares or found.places >= MOST_PLACES:
            return ()
        return (found.launched, *found.session.holds)

    def anchor(self, slot: int) -> SpecConfig | None:
        """The first config of the open start of a slot, where it is due to be measured again; None where it is not."""
        with self._lock:
            found = self._open.get(slot)
        return found.launched if found is not None and self.shares and found.places in ANCHORED_AT else None

    def keep(self, slot: int, start: OpenStart) -> None:
        """Leave a start open for the next measurement on its slot."""
        with self._lock:
            self._open[slot] = start

    def take(self, slot: int) -> OpenStart | None:
        """The open start of a slot, which is then the caller's: to switch, to keep again, or to close."""
        with self._lock:
            return self._open.pop(slot, None)

    def slots(self) -> tuple[int, ...]:
        """Those with an open start."""
        with self._lock:
            return tuple(self._open)

    def saw(self, record: LaunchRecord) -> None:
        """Take note of how a launch that was to hold several configs ended."""
        if record.start is None or record.place or record.reason is None or record.boot_s is not None:
            return
        self._failed += 1
        if self._failed >= _FAILED_SHARED_STARTS:
            self.end(f"{self._failed} starts that were to hold several configs never became ready")

    def end(self, why: str) -> None:
        """Give every config a start of its own from now on."""
        if self.shares:
            self._ended = why
            self._notice(f"from now on every config has a start of its own: {why}")
