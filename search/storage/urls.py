"""What `--storage` may be: a path, an SQLite URL, or a PostgreSQL URL."""

from __future__ import annotations

import os
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import ArgumentError

from search.errors import UsageError
from search.masking import MASK, is_secret_name, mask_text

BUSY_TIMEOUT_S = 5
"""How long one SQLite statement waits for another process's write, silently."""

CONNECT_TIMEOUT_S = 10
STATEMENT_TIMEOUT_S = 60
LOCK_TIMEOUT_S = 30
"""Of one attempt on a PostgreSQL server; a transaction is repeated until `PATIENCE_S`."""

PATIENCE_S = 90
"""How long one transaction is repeated while the database is locked or away, after saying so once."""


def storage_url(storage: str | Path) -> URL:
    """The SQLAlchemy URL of a storage given as a path or as a URL.

    `postgresql://` means `postgresql+psycopg://`, the driver of the `postgres` extra.

    Raises:
        UsageError: The URL is not understood, it is no plain file, its folder does not exist, or its driver is missing.
    """
    text = str(storage)
    if "://" not in text:
        return _checked_file(URL.create("sqlite", database=text))
    try:
        url = make_url(text)
    except ArgumentError as error:
        raise UsageError(
            f"`--storage` takes a path, `sqlite:///FILE` or `postgresql://…`, but got {mask_text(text)!r}."
        ) from error
    if url.get_backend_name() == "sqlite":
        return _checked_file(url)
    if url.get_backend_name() != "postgresql":
        raise UsageError(
            f"`--storage` takes a path, `sqlite:///FILE` or `postgresql://…`, but got a URL for {url.drivername}. Use one of these two databases."
        )
    url = url.set(drivername="postgresql+psycopg")
    if find_spec("psycopg") is None:
        raise UsageError("PostgreSQL needs the driver psycopg. Install it with: pip install 'search[postgres]'.")
    return url


def _checked_file(url: URL) -> URL:
    if not url.database or url.database == ":memory:":
        raise UsageError(
            "A study needs a database file, because two libraries open it; `:memory:` cannot be shared. Give a path, such as `--storage trials.db`."
        )
    path = Path(os.path.realpath(url.database))  # unlike `resolve`, it ends at a loop of links
    folder = path.parent
    if path.is_symlink() or (path.exists() and not path.is_file()):
        raise UsageError(
            f"`--storage` names a file, but {url.database} is a folder, a device, a pipe or a loop of links. Choose another name."
        )
    if not folder.is_dir():
        raise UsageError(
            f"`--storage` must be in a folder that exists, but there is no folder {folder}. Make it first."
        )
    return url


def engine_options(url: URL) -> dict[str, Any]:
    """Keyword arguments for `sqlalchemy.create_engine` that both libraries use on `url`.

    Every wait on a PostgreSQL server has a limit: for a connection, for a statement, for a lock, and
    for a network that has gone silent.
    """
    if is_sqlite(url):
        return {"connect_args": {"timeout": BUSY_TIMEOUT_S}}
    given = url.query.get("options", ())
    words = [given] if isinstance(given, str) else list(given)
    limits = {"statement_timeout": STATEMENT_TIMEOUT_S, "lock_timeout": LOCK_TIMEOUT_S}
    # The user's own words last: of two settings of one name, the later one holds.
    words = [*(f"-c {name}={1000 * seconds}" for name, seconds in limits.items()), *words]
    ours = {
        "connect_timeout": CONNECT_TIMEOUT_S,
        "keepalives_idle": 10,
        "keepalives_interval": 5,
        "keepalives_count": 4,
        "tcp_user_timeout": 1000 * STATEMENT_TIMEOUT_S,
    }
    arguments = {name: value for name, value in ours.items() if name not in url.query}
    return {"pool_pre_ping": True, "connect_args": {**arguments, "options": " ".join(words)}}


def is_sqlite(url: URL) -> bool:
    """Whether the database is a file."""
    return url.get_backend_name() == "sqlite"


def shown(url: URL) -> str:
    """The URL for people: a plain path for SQLite, passwords masked otherwise."""
    if is_sqlite(url):
        return str(url.database)
    return _public(url).render_as_string(hide_password=True)


def storage_to_type(storage: str) -> str:
    """A storage as it may stand in a command that is shown or kept: without its password.

    libpq then reads the password from PGPASSWORD or its password file.
    """
    if "://" not in storage:
        return storage
    try:
        url = make_url(storage)
    except ArgumentError:
        return mask_text(storage)
    return _public(url._replace(password=None)).render_as_string()


def _public(url: URL) -> URL:
    """The URL without the secrets of its query."""
    return url.set(query={name: MASK if is_secret_name(name) else value for name, value in url.query.items()})
