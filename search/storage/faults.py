"""Database errors in words: what happened to which database, and the way out."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from sqlalchemy.engine import URL
from sqlalchemy.exc import DatabaseError, InterfaceError

from search.errors import StorageFault
from search.masking import Masker, mask_text
from search.storage.urls import CONNECT_TIMEOUT_S, LOCK_TIMEOUT_S, PATIENCE_S, STATEMENT_TIMEOUT_S, shown

_WAYS_OUT = (
    (
        "database is locked",
        f"another process has held it for over {PATIENCE_S} s; end that process, or give this study another "
        "`--storage`",
    ),
    ("disk is full", "make room on its disk and run the same command again; what is stored stays"),
    ("no space left", "make room on its server's disk and run the same command again; what is stored stays"),
    ("readonly", "make the file and its folder writable, or choose another `--storage`"),
    ("unable to open", "check that its folder exists and is writable"),
    ("not a database", "the file is something else; choose another `--storage`"),
    ("malformed", "the file is damaged; restore a copy, or choose another `--storage`"),
    (
        "statement timeout",
        f"its server took over {STATEMENT_TIMEOUT_S} s for one statement, again and again; look at its load and its locks "
        "(`pg_stat_activity`), then run the same command again",
    ),
    (
        "lock timeout",
        f"another session has held rows or tables for over {LOCK_TIMEOUT_S} s; end it (`pg_stat_activity`, "
        "`pg_terminate_backend`), then run the same command again",
    ),
    (
        "timeout expired",
        f"its server did not answer within {CONNECT_TIMEOUT_S} s; check host, port and firewall of the URL",
    ),
    ("disk i/o error", "check its disk; a network file system cannot hold an SQLite file in WAL mode"),
    ("connection", "check that the database server runs and is reachable, then run the same command again"),
)


@contextmanager
def told_as_storage_fault(url: URL) -> Iterator[None]:
    """Turn a driver's error into a `StorageFault` with the way out; the cause is kept."""
    try:
        yield
    except (DatabaseError, InterfaceError) as error:
        raise storage_fault(url, error) from error


@contextmanager
def told_as_damaged(url: URL) -> Iterator[None]:
    """Turn what a cell that this program did not write does to its readers into a `StorageFault`; the cause is kept."""
    try:
        yield
    except (ValueError, TypeError, AttributeError, LookupError, ArithmeticError, RecursionError) as error:
        said = " ".join(mask_text(f"{type(error).__name__}: {error}").split())[:300]
        raise StorageFault(
            f"The database {shown(url)} holds a row that this program did not write, or that was damaged since ({said}). "
            "What to do: restore a copy, or choose another `--storage`."
        ) from error


def storage_fault(url: URL, error: DatabaseError | InterfaceError) -> StorageFault:
    """The words for one driver error."""
    password = str(url.password) if url.password else ""
    said = Masker((password,)).text(" ".join(str(error.orig or error).split()))
    way = next((way for sign, way in _WAYS_OUT if sign in said.lower()), "check it, then run the same command again")
    return StorageFault(f"The database {shown(url)} cannot be used: {said}. What to do: {way}.")
