"""The driver's handles on an engine and a session that live in a Ray actor."""

from __future__ import annotations

import logging
import socket
from typing import TYPE_CHECKING

from search.cluster._files import unpack
from search.cluster._holder import SessionFacts
from search.config import SpecConfig
from search.contracts import EffectiveSettings, LaunchPaths, Phase, PhaseResult, SelfClosing, Session, Slot, StopReport
from search.errors import LaunchFailed, SearchError
from search.outcomes import Reason

if TYPE_CHECKING:
    from search.cluster._ray import RayExecutor

_WORKER_GONE = (Reason.WORKER_LOST, Reason.RAY_INFRA)
_log = logging.getLogger(__name__)


class RayEngine:
    """An engine whose sessions live in the actor that holds the slot.

    Args:
        executor: Reaches the actor.
        index: Of the slot.
    """

    def __init__(self, executor: RayExecutor, index: int) -> None:
        self._executor = executor
        self._index = index

    def launch(self, config: SpecConfig, *, slot: Slot, paths: LaunchPaths) -> Session:
        """See `Engine`."""
        if slot.index != self._index:
            raise ValueError(f"This engine launches on slot {self._index}, but got {slot}.")
        # The actor has a working folder of its own.
        home = LaunchPaths(paths.root.resolve())
        try:
            facts = self._executor.call(self._index, "launch", config, home, socket.gethostname())
        except SearchError:
            bring_home(self._executor, self._index, home)
            raise
        except BaseException:
            # Ctrl-C while the actor is starting a server: no session has come back to close.
            self._executor.tell(self._index, "abort")
            self._executor.call(self._index, "close")
            bring_home(self._executor, self._index, home)
            raise
        return RaySession(self._executor, self._index, facts, home)


class RaySession(SelfClosing):
    """The driver's handle on a session in an actor."""

    def __init__(self, executor: RayExecutor, index: int, facts: SessionFacts, home: LaunchPaths) -> None:
        self._executor = executor
        self._index = index
        self._facts = facts
        self._home = home
        self._report: StopReport | None = None
        self._lost: LaunchFailed | None = None

    @property
    def effective(self) -> EffectiveSettings:
        """See `Session`."""
        return self._facts.effective

    @property
    def boot_s(self) -> float:
        """See `Session`."""
        return self._facts.boot_s

    def measure(self, phase: Phase, repeat: int) -> PhaseResult:
        """See `Session`."""
        try:
            return self._executor.call(self._index, "measure", phase, repeat)  # type: ignore[no-any-return]
        except LaunchFailed as error:
            self._lost = error if error.reason in _WORKER_GONE else None
            raise
        except SearchError:
            raise
        except BaseException:
            self._executor.tell(self._index, "abort")
            raise

    def close(self) -> StopReport:
        """See `Session`.

        Raises:
            LaunchFailed: The worker is gone, and a fresh one could prove nothing: the guardian stops
                the server, and whoever lends the GPUs next waits for that.
        """
        if self._lost is not None:
            raise self._lost
        if self._report is None:
            self._report = self._executor.call(self._index, "close")
            bring_home(self._executor, self._index, self._home)
        return self._report


def bring_home(executor: RayExecutor, index: int, home: LaunchPaths) -> None:
    """Fetch the files of a launch that ended, if they are elsewhere; without them it is still a result."""
    if not executor.holds(index):
        return  # its worker died, and a fresh one knows nothing of them
    try:
        unpack(executor.call(index, "collect"), home)
    except (SearchError, OSError) as error:
        _log.warning("files of a launch on slot %d stayed on its host: %s", index, error)
