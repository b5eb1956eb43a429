"""`search dashboard`: optuna-dashboard on a view of the same storage."""

from __future__ import annotations

import socket
import time
from typing import Annotated

import typer

from search.app.options import DEFAULT_REPORTS, DEFAULT_STORAGE
from search.cli.guard import command, say
from search.cli.options import DebugOption, ReportsOption, StorageOption
from search.errors import UsageError


@command
def dashboard(
    storage: StorageOption = DEFAULT_STORAGE,
    reports: ReportsOption = DEFAULT_REPORTS,
    host: Annotated[str, typer.Option("--host", help="Address to bind to.")] = "127.0.0.1",
    port: Annotated[int, typer.Option("--port", min=1, max=65535, help="Port to bind to.")] = 8080,
    debug: DebugOption = False,  # noqa: ARG001
) -> None:
    """Show the studies of a storage in a browser, until Ctrl-C; while a study runs, too. Nothing is written."""
    from search.app.dashboard_server import Renewed, serve
    from search.app.stored import require_database
    from search.storage.urls import shown, storage_url

    require_database(storage)
    require_free(host, port)
    say(f"http://{host}:{port}/ shows {shown(storage_url(storage))}; Ctrl-C ends it", err=True)
    serve(Renewed(storage, reports, time.monotonic), host=host, port=port)


def require_free(host: str, port: int) -> None:
    """Go on only where a server can listen.

    Raises:
        UsageError: Not there.
    """
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        with socket.socket(family, kind, protocol) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind(address)
    except OSError as error:
        raise UsageError(
            f"`--host` and `--port` name an address of this host that is free, but {host}:{port} is not: "
            f"{error.strerror or error}. Choose another `--port`, or end what listens there."
        ) from error
