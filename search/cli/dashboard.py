"""`search dashboard`: optuna-dashboard on the same storage."""

from __future__ import annotations

from typing import Annotated

import typer

from search.app.options import DEFAULT_STORAGE
from search.cli.guard import command, say
from search.cli.options import DebugOption, StorageOption


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
    import optuna_dashboard

    say(f"http://{host}:{port}/ shows {shown(storage_url(storage))}; Ctrl-C ends it", err=True)
    optuna_dashboard.run_server(optuna_storage(storage), host=host, port=port)
