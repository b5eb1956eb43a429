"""The driver's side of a session that lives in a Ray actor."""

from __future__ import annotations

import logging
import socket
from typing import Any, Protocol

from search.cluster._files import unpack
from search.cluster._holder import SessionFacts
from search.config import SpecConfig
from search.contracts import (
    EffectiveSettings,
    LaunchPaths,
    Phase,
    PhaseResult,
    SelfClosing,
    Session,
    Slot,
    StopReport,
)
from search.errors import LaunchFailed, SearchError
from search.shape import Switched, SwitchFailed

_log = logging.getLogger(__name__)


class Actors(Protocol):
    """Reaches the actors that hold the slots."""

    def call(self, index: int, method: str, *args: object) -> Any:
        """Call a method of a slot's actor, and wait."""

    def tell(self, index: int, method: str) -> None:
        """Call a method of a slot's actor without waiting; a dead one is not an error."""

    def holds(self, index: int) -> bool:
        """Whether the slot has an actor that is not known to be dead."""


class RayEngine:
    """An engine whose sessions live in the actor that holds the slot.

    Args:
        actors: Reach the one of the slot.
        index: Of the slot.
    """

    def __init__(self, actors: Actors, index: int) -> None:
        self._actors = actors
        self._index = index

    def launch(
        self, config: SpecConfig, *, slot: Slot, paths: LaunchPaths, holds: tuple[SpecConfig, ...] = ()
    ) -> Session:
        """See `Engine`."""
        if slot.index != self._index:
            raise ValueError(f"This engine launches on slot {self._index}, but got {slot}.")
        # The actor has a working folder of its own.
        home = LaunchPaths(paths.root.resolve())
        try:
            facts = self._actors.call(self._index, "launch", config, home, socket.gethostname(), holds)
        except SearchError:
            bring_home(self._actors, self._index, home)
            raise
        except BaseException:
            # Ctrl-C while the actor is starting a server: no session has come back to close.
            self._actors.tell(self._index, "abort")
            self._actors.call(self._index, "close")
            bring_home(self._actors, self._index, home)
            raise
        return RaySession(self._actors, self._index, facts, home)


class RaySession(SelfClosing):
    """The driver's handle on a session in an actor."""

    def __init__(self, actors: Actors, index: int, facts: SessionFacts, home: LaunchPaths) -> None:
        self._actors = actors
        self._index = index
        self._facts = facts
        self._homes = [home]
        self._report: StopReport | None = None
        self._lost: LaunchFailed | None = None

    @property
    def effective(self) -> EffectiveSettings:
        """See `Session`."""
        return self._facts.effective

    @property
    def holds(self) -> tuple[SpecConfig, ...]:
        """See `Session`."""
        return self._facts.holds

    @property
    def boot_s(self) -> float:
        """See `Session`."""
        return self._facts.boot_s

    def measure(self, phase: Phase, repeat: int) -> PhaseResult:
        """See `Session`."""
        try:
            return self._actors.call(self._index, "measure", phase, repeat)  # type: ignore[no-any-return]
        except LaunchFailed as error:
            # Not inferred from the reason: a living actor says WORKER_LOST of its server's guardian, and has to stop the rest.
            self._lost = None if self._actors.holds(self._index) else error
            raise
        except SearchError:
            raise
        except BaseException:
            self._actors.tell(self._index, "abort")
            raise

    def switch(self, config: SpecConfig, *, paths: LaunchPaths) -> Switched:
        """See `Session`."""
        home = LaunchPaths(paths.root.resolve())
        home.root.mkdir(parents=True, exist_ok=True)  # an actor that finds it here writes into it
        try:
            switched, facts = self._actors.call(self._index, "switch", config, home)
        except LaunchFailed as error:
            self._lost = None if self._actors.holds(self._index) else error
            raise SwitchFailed(error.evidence.root_line, False, error.reason, error.evidence) from error
        except SearchError:
            self._homes.append(home)
            raise
        except BaseException:
            self._actors.tell(self._index, "abort")
            raise
        self._facts = facts
        if len(self._homes) > 1:  # the first is the start's own, whose log goes on
            bring_home(self._actors, self._index, self._homes.pop())
        self._homes.append(home)
        return switched  # type: ignore[no-any-return]

    def close(self) -> StopReport:
        """See `Session`.

        Raises:
            LaunchFailed: The actor that held the session is gone, and a fresh one could prove nothing: the
                guardian stops the server, and whoever lends the GPUs next waits for that.
        """
        if self._lost is not None:
            raise self._lost
        if self._report is None:
            self._report = self._actors.call(self._index, "close")
            for home in self._homes:
                bring_home(self._actors, self._index, home)
        return self._report


def bring_home(actors: Actors, index: int, home: LaunchPaths) -> None:
    """Fetch the files of a launch that ended, if they are elsewhere; without them it is still a result."""
    if not actors.holds(index):
        return  # its worker died, and a fresh one knows nothing of them
    try:
        unpack(actors.call(index, "collect", home), home)
    except (SearchError, OSError) as error:
        _log.warning("files of a launch on slot %d stayed on its host: %s", index, error)
