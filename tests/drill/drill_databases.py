"""A database for each case: a file of its own, or one on a PostgreSQL server that all cases share."""

from __future__ import annotations

import atexit
import sys
from functools import cache
from pathlib import Path
from threading import Lock

from sqlalchemy import create_engine

sys.path.append(str(Path(__file__).parent.parent))  # of the tests, where this is no test of pytest's

from postgres_server import PostgresServer, binaries

from search.storage.urls import storage_url

__all__ = ["POSTGRES", "SQLITE", "binaries", "database_of"]

SQLITE, POSTGRES = "sqlite", "postgres"

_LOCK = Lock()


def database_of(folder: Path, kind: str) -> str:
    """The storage of the case in `folder`: a path or a URL; nothing is in it."""
    if kind == SQLITE:
        return str(folder / "trials.db")
    with _LOCK:
        base = _server().url
    name = folder.name.replace("-", "_").lower()
    engine = create_engine(storage_url(base), isolation_level="AUTOCOMMIT")
    with engine.connect() as connection:
        connection.exec_driver_sql(f'create database "{name}"')
    engine.dispose()
    return f"{base.rpartition('/')[0]}/{name}"


@cache
def _server() -> PostgresServer:
    server = PostgresServer()
    server.start()
    atexit.register(server.close)
    return server
