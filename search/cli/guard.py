"""Turns errors and signals into what a shell expects: a message, an exit code, no traceback."""

from __future__ import annotations

import functools
import signal
import sys
import threading
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import ParamSpec

import typer

from search.errors import ExitCode, SearchError

P = ParamSpec("P")


def command(function: Callable[P, None]) -> Callable[P, None]:
    """Wrap a command: its `SearchError`s go to stderr and become their own exit code.

    With `--debug`, the traceback is printed too. Any other exception is our own fault and keeps
    its traceback.
    """

    @functools.wraps(function)
    def guarded(*args: P.args, **kwargs: P.kwargs) -> None:
        try:
            with sigterm_as_interrupt():
                function(*args, **kwargs)
        except SearchError as error:
            if kwargs.get("debug"):
                traceback.print_exc()
            typer.echo(str(error), err=True)
            raise typer.Exit(int(error.exit_code)) from error
        except KeyboardInterrupt as error:
            typer.echo("Interrupted; nothing was running.", err=True)
            raise typer.Exit(int(ExitCode.INTERRUPTED)) from error

    return guarded


@contextmanager
def sigterm_as_interrupt() -> Iterator[None]:
    """Treat SIGTERM, which schedulers and `docker stop` send, as Ctrl-C; the handler is put back."""
    if threading.current_thread() is not threading.main_thread():
        yield  # Python runs signal handlers in the main thread only.
        return

    # Not through SIGINT: a shell ignores that one for background jobs, and those must end too.
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before if before is not None else signal.SIG_DFL)


def say(line: str, *, err: bool = False) -> None:
    """Print one line at once: a pipe should see it when a person would."""
    stream = sys.stderr if err else sys.stdout
    stream.write(line + "\n")
    stream.flush()
