"""`search dashboard`: optuna-dashboard on the same storage."""

from __future__ import annotations

import socket
from typing import Annotated

import typer

from search.app.options import DEFAULT_STORAGE
from search.cli.guard import command, say
from search.cli.options import DebugOption, StorageOption
from search.errors import UsageError


@command
def dashboard(
    storage: StorageOption = DEFAULT_STORAGE,
    host: Annotated[str, typer.Option("--host", help="Address to bind to.")] = "127.0.0.1",
    port: Annotated[int, typer.Option("--port", min=1, max=65535, help="Port to bind to.")] = 8080,
    debug: DebugOption = False,  # noqa: ARG001
) -> None:
    """Show the studies of a storage in a browser, until Ctrl-C."""
    from search.app.stored import require_database
    from search.storage.optuna_side import optuna_storage
    from search.storage.urls import shown, storage_url

    require_database(storage)
    require_free(host, port)
    import optuna_dashboard

    say(f"http://{host}:{port}/ shows {shown(storage_url(storage))}; Ctrl-C ends it", err=True)
    optuna_dashboard.run_server(optuna_storage(storage), host=host, port=port)


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
