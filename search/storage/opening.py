"""Opens a database: to write, with all tables made, or to read, with nothing changed."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote

from sqlalchemy import Column, Table, create_engine, event, func, inspect, select
from sqlalchemy.engine import URL, Engine
from sqlalchemy.exc import DatabaseError, OperationalError

from search.errors import StorageFault, UsageError
from search.storage.file import file_lock
from search.storage.tables import SCHEMA_VERSION, Base, MetaRow
from search.storage.urls import BUSY_TIMEOUT_S, engine_options, is_sqlite, shown

_OURS = "search_meta"
_OPTUNAS = frozenset({"studies", "trials", "version_info"})
_MAKING_TRIES = 3
_MAKING_KEY = 7_305_808
"""Of PostgreSQL's advisory lock: any number, the same in every driver."""


def engine_to_write(url: URL) -> Engine:
    """An engine whose connections may write. Nothing is opened yet."""
    engine = create_engine(url, **engine_options(url))
    if is_sqlite(url):
        event.listen(engine, "connect", _prepare_sqlite)
    return engine


def engine_to_read(url: URL) -> Engine:
    """An engine whose connections cannot write.

    A file that is kept as WAL, in a folder that cannot be written, opens only as one that nobody
    changes; without a `-wal` beside it, nobody does.

    Raises:
        UsageError: There is no such file; opening it to write would make an empty one.
    """
    if not is_sqlite(url):
        options = engine_options(url)
        options["execution_options"] = {"postgresql_readonly": True}
        return create_engine(url, **options)
    path = Path(url.database or "").absolute()
    if not path.is_file():
        raise UsageError(
            f"There is no database {url.database}. Name one with `--storage`, or make one with `python -m search run`."
        )
    engine = _read_only(url, path, "mode=ro")
    try:
        with engine.connect() as connection:
            connection.exec_driver_sql("SELECT count(*) FROM sqlite_master").scalar()
    except DatabaseError as error:
        signs = ("unable to open", "readonly")
        cannot_share = isinstance(error, OperationalError) and any(sign in str(error.orig) for sign in signs)
        if not cannot_share or path.with_name(path.name + "-wal").exists():
            return engine  # its first use raises the fault
        engine.dispose()
        return _read_only(url, path, "mode=ro&immutable=1")
    return engine


def make_tables(engine: Engine) -> None:
    """Make what is missing: tables, and columns of tables from before; does nothing the second time.

    Raises:
        StorageFault: The database is another program's.
    """
    refuse_foreign(engine)
    Base.metadata.create_all(engine)
    there = columns_there(engine)
    for table in Base.metadata.sorted_tables:
        for column in table.columns:
            if column.name not in there[table.name]:
                _add_column(engine, table, column)


def refuse_foreign(engine: Engine) -> None:
    """Refuse a database that another program keeps its own tables in.

    Optuna's alone are welcome: its studies have names, and ours stand beside them.

    Raises:
        StorageFault: It has tables, and neither ours nor Optuna's.
    """
    names = set(inspect(engine).get_table_names())
    if not names or _OURS in names or names >= _OPTUNAS:
        return
    some = ", ".join(sorted(names)[:3])
    raise StorageFault(
        f"A study's database is new or has been made by this program, but {shown(engine.url)} holds the tables of another "
        f"one ({some}{', …' if len(names) > 3 else ''}). Nothing was written into it. Choose another `--storage`."
    )


def columns_there(engine: Engine) -> dict[str, frozenset[str]]:
    """The columns that the database has of each of our tables; none of a table that it lacks."""
    inspector = inspect(engine)
    names = set(inspector.get_table_names())
    return {
        table.name: frozenset(column["name"] for column in inspector.get_columns(table.name))
        if table.name in names
        else frozenset()
        for table in Base.metadata.sorted_tables
    }


@contextmanager
def making(url: URL, engine: Engine) -> Iterator[None]:
    """Keep other drivers from making tables meanwhile, ours or Optuna's.

    Raises:
        StorageFault: One of them takes too long.
    """
    if is_sqlite(url):
        path = Path(url.database or "").absolute()
        with file_lock(path.with_name(f".{path.name}.making")):
            yield
        return
    with engine.connect() as connection, connection.begin():
        connection.execute(select(func.pg_advisory_xact_lock(_MAKING_KEY)))
        yield


def check_version(stored: str | None, url: URL) -> None:
    """Refuse tables of another version, and a database without ours.

    Raises:
        StorageFault: See above.
    """
    if stored is None:
        raise StorageFault(f"The database {shown(url)} holds no study of this program. Choose another `--storage`.")
    if stored != str(SCHEMA_VERSION):
        raise StorageFault(
            f"The tables in {shown(url)} have version {stored}, but this program writes version "
            f"{SCHEMA_VERSION}. Choose another `--storage`, or run the version of this program that made it."
        )


def version_row() -> MetaRow:
    """What a database of this version says of itself."""
    return MetaRow(key="schema_version", value=str(SCHEMA_VERSION))


def _add_column(engine: Engine, table: Table, column: Column[Any]) -> None:
    """Add a column from after the table was made; its rows have NULL there, which reads as the default."""
    name, kind = column.name, column.type.compile(engine.dialect)
    for tries_left in reversed(range(_MAKING_TRIES)):
        try:
            with engine.begin() as connection:
                connection.exec_driver_sql(f'ALTER TABLE {table.name} ADD COLUMN "{name}" {kind}')
        except DatabaseError:
            # A driver of before takes no lock for making.
            if name in columns_there(engine)[table.name]:
                return
            if not tries_left:
                raise
        else:
            return


def _read_only(url: URL, path: Path, how: str) -> Engine:
    name = f"file:{quote(str(path))}?{how}&uri=true"
    return create_engine(f"sqlite:///{name}", **engine_options(url))


def _prepare_sqlite(connection: Any, _record: object) -> None:
    cursor = connection.cursor()
    # First, for the next line may have to wait already.
    cursor.execute(f"PRAGMA busy_timeout={BUSY_TIMEOUT_S * 1000}")
    # WAL: a reader, such as a dashboard, never blocks the driver's writes.
    cursor.execute("PRAGMA journal_mode=WAL")
    cursor.execute("PRAGMA foreign_keys=ON")
    cursor.close()
