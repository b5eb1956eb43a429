"""Masks what versions before the masking left in a database: the cells that people's words and a server's come into.

Numbers, configs, names and keys are not touched, whatever they look like.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

from sqlalchemy import JSON, Connection, MetaData, Table, Text, cast, inspect, select, update
from sqlalchemy.engine import Engine

from search.storage.faults import told_as_storage_fault
from search.storage.opening import engine_to_read, engine_to_write, refuse_foreign
from search.storage.tables import Base
from search.storage.urls import is_sqlite, storage_url

Masking: TypeAlias = Callable[[str, str, Any], Any]
"""The masked value of a cell, given its table and column, or for Optuna's attributes their key, and what it holds."""

_OURS = {
    "search_studies": ("spec", "fingerprint"),
    "search_launches": ("evidence", "why", "effective"),
    "search_notes": ("text",),
}
_OPTUNAS = ("study_user_attributes", "study_system_attributes", "trial_user_attributes", "trial_system_attributes")


@dataclass(frozen=True, slots=True)
class Scrubbed:
    """Rows of one column that hold secrets, or held them.

    Attributes:
        place: `search_launches.evidence`.
        rows: How many.
    """

    place: str
    rows: int


def stored_specs(storage: str) -> tuple[Mapping[str, Any], ...]:
    """The study files of a database as they are stored, whatever version wrote them.

    Raises:
        UsageError: There is no such database.
        StorageFault: It cannot be read.
    """
    url = storage_url(storage)
    engine = engine_to_read(url)
    try:
        with told_as_storage_fault(url), engine.connect() as connection:
            cells = (value for _, _, value in _cells(connection, "search_studies", ("spec",)))
            return tuple(value for value in cells if isinstance(value, Mapping))
    finally:
        engine.dispose()


def scrub_database(storage: str, mask: Masking, *, write: bool) -> tuple[Scrubbed, ...]:
    """Mask the secrets of a database, in one transaction.

    An SQLite file keeps nothing of what was there before: freed pages are overwritten and the file is made anew. A
    PostgreSQL server keeps old rows until `VACUUM FULL`.

    Args:
        storage: A path or URL; must be there.
        mask: What becomes of a cell.
        write: Change it; else it is only looked at.

    Raises:
        UsageError: There is no such database.
        StorageFault: It cannot be used, or it is another program's.
    """
    url = storage_url(storage)
    engine_to_read(url).dispose()  # says so where there is none, instead of making one
    engine = engine_to_write(url) if write else engine_to_read(url)
    try:
        with told_as_storage_fault(url):
            refuse_foreign(engine)
            with engine.begin() as connection:
                if write and is_sqlite(url):
                    connection.exec_driver_sql("PRAGMA secure_delete=ON")
                found = tuple(_scrubbed(connection, mask, write=write))
            if write and is_sqlite(url):
                _made_anew(engine)  # also where nothing was found: an earlier run may have come only this far
            return found
    finally:
        engine.dispose()


def _scrubbed(connection: Connection, mask: Masking, *, write: bool) -> Iterator[Scrubbed]:
    counts: dict[str, int] = {}
    for table_name, columns in (*_OURS.items(), *((name, ("value_json",)) for name in _OPTUNAS)):
        for row, column, value in list(_cells(connection, table_name, columns)):
            name = column.name if table_name in _OURS else row.pop("key", "")
            masked = mask(table_name, name, value)
            if masked == value:
                continue
            place = f"{table_name}.{column.name}"
            counts[place] = counts.get(place, 0) + 1
            if write:
                cell = masked if table_name in _OURS else json.dumps(masked)
                table = column.table
                where = [table.c[key] == part for key, part in row.items()]
                connection.execute(update(table).where(*where).values({column: cell}))
    yield from (Scrubbed(place, rows) for place, rows in counts.items())


def _cells(
    connection: Connection, table_name: str, columns: Iterable[str]
) -> Iterator[tuple[dict[str, Any], Any, Any]]:
    """(key of the row, column, value) of the cells that can be read; none of a table that is not there."""
    inspector = inspect(connection)
    if table_name not in inspector.get_table_names():
        return
    there = {column["name"] for column in inspector.get_columns(table_name)}
    table = Base.metadata.tables.get(table_name)
    if table is None:
        table = Table(table_name, MetaData(), autoload_with=connection)
    keys = list(table.primary_key)
    named = [table.c.key] if table_name in _OPTUNAS else []
    for name in columns:
        if name not in there:
            continue
        column = table.c[name]
        # As text: one damaged cell must not hide the others.
        for cells in connection.execute(select(*keys, *named, cast(column, Text))).all():
            row = dict(zip([key.name for key in (*keys, *named)], cells, strict=False))
            value: Any = cells[-1]
            if value is None:
                continue
            if isinstance(column.type, JSON) or table_name in _OPTUNAS:
                try:
                    value = json.loads(value)
                except (ValueError, TypeError, RecursionError):
                    continue
            if value is not None:
                yield row, column, value


def _made_anew(engine: Engine) -> None:
    with engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
        connection.exec_driver_sql("VACUUM")
        connection.exec_driver_sql("PRAGMA wal_checkpoint(TRUNCATE)")
