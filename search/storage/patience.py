"""Waits for a database that is away for a moment; in one place, for our tables and Optuna's.

Waited for: an SQLite file that another process holds, a PostgreSQL server that restarts or cannot
be reached, a lost deadlock. Not waited for: a full disk, a wrong password, a damaged file.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from typing import TypeVar

from sqlalchemy.engine import URL
from sqlalchemy.exc import DatabaseError, IntegrityError, InterfaceError

from search.storage.faults import storage_fault
from search.storage.file import DatabaseFile
from search.storage.urls import PATIENCE_S, shown

_T = TypeVar("_T")
_log = logging.getLogger(__name__)

_FIRST_PAUSE_S = 0.1
_LONGEST_PAUSE_S = 5.0
_RACES = 20
"""How often another driver may take the same key first before something else must be wrong."""

_PASSING_STATES = ("08", "40", "57P01", "57P02", "57P03", "53300", "55P03", "57014")
"""PostgreSQL's: connection, rollback by deadlock, shutdown and start-up, too many connections, a lock or a
statement that took too long."""

_LASTING = ("authentication", "does not exist", "no pg_hba.conf entry", "could not translate host name")
"""Signs of a connection that will not come about by waiting; such errors carry no state."""


class Patience:
    """Repeats transactions while the database is away.

    Args:
        url: Of the database, for the words.
        limit_s: How long one transaction is repeated before it becomes a `StorageFault`.
        sleep: Passes seconds.
        monotonic: Seconds.
        tell: Gets one line for each wait that begins.
    """

    def __init__(
        self,
        url: URL,
        *,
        limit_s: float = PATIENCE_S,
        sleep: Callable[[float], None] = time.sleep,
        monotonic: Callable[[], float] = time.monotonic,
        tell: Callable[[str], None] = _log.warning,
    ) -> None:
        self._url = url
        self._limit_s = limit_s
        self._sleep = sleep
        self._monotonic = monotonic
        self._tell = tell
        self._file = DatabaseFile(url)

    def run(self, work: Callable[[int], _T]) -> _T:
        """The result of `work`, which is one whole transaction and gets the attempt's number, from 0.

        A commit may have worked although its answer was lost: from attempt 1 on, `work` must look
        first whether it is done already.

        Raises:
            StorageFault: The database cannot be used, or its file is not the one that it was; nothing of the last
                attempt is in it, unless its commit's answer was lost.
        """
        began: float | None = None
        pause, races, attempt = _FIRST_PAUSE_S, 0, 0
        while True:
            self._file.check()
            try:
                return work(attempt)
            except (DatabaseError, InterfaceError) as error:
                attempt += 1
                if isinstance(error, IntegrityError) and races < _RACES:
                    races += 1
                    continue
                now = self._monotonic()
                if not is_passing(error) or (began is not None and now - began >= self._limit_s):
                    raise storage_fault(self._url, error) from error
                if began is None:
                    began = now
                    self._tell(
                        f"The database {shown(self._url)} does not answer ({_first_line(error)}); "
                        f"waiting for it, up to {self._limit_s:g} s."
                    )
                self._sleep(pause)
                pause = min(2 * pause, _LONGEST_PAUSE_S)


def is_passing(error: DatabaseError | InterfaceError) -> bool:
    """Whether the same transaction may work a moment later."""
    said = str(error.orig or error).lower()
    if "database is locked" in said or "database table is locked" in said:
        return True
    state = getattr(error.orig, "sqlstate", None)
    if state is not None:
        return str(state).startswith(_PASSING_STATES)
    lost = error.connection_invalidated or "connection" in said
    return lost and not any(sign in said for sign in _LASTING)


def _first_line(error: DatabaseError | InterfaceError) -> str:
    return (str(error.orig or error).strip().splitlines() or ["no words"])[0]
