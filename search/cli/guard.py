"""Turns errors into what a shell expects: a message, an exit code, no traceback."""

from __future__ import annotations

import errno
import functools
import logging
import os
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import ParamSpec

import typer

from search.errors import SearchError, UsageError
from search.masking import Masker
from search.study.signals import Interrupts
from search.study.streams import outlast

P = ParamSpec("P")


def command(function: Callable[P, None]) -> Callable[P, None]:
    """Wrap a command: its `SearchError`s go to stderr and become their own exit code.

    With `--debug`, the traceback is printed too. Any other exception is our own fault and keeps
    its traceback. Nothing of all this shows a secret of the environment.
    """

    @functools.wraps(function)
    def guarded(*args: P.args, **kwargs: P.kwargs) -> None:
        if logging.lastResort is not None:
            logging.lastResort.setFormatter(_Masked())
        try:
            _require_folder()
            function(*args, **kwargs)
        except SearchError as error:
            if kwargs.get("debug"):
                typer.echo(printable(traceback.format_exc()), err=True)
            typer.echo(printable(str(error)), err=True)
            raise typer.Exit(int(error.exit_code)) from error
        except OSError as error:
            if error is not getattr(sys.stdout, "lost", None) or error.errno == errno.EPIPE:
                raise
            typer.echo(
                f"Standard output cannot be written: {error.strerror}. Send it elsewhere, or make room there.", err=True
            )
            raise typer.Exit(1) from error

    return guarded


def _require_folder() -> None:
    """Refuse to work in a folder that is gone: relative names would lead nowhere.

    Raises:
        UsageError: It is.
    """
    try:
        Path.cwd()
    except OSError as error:
        raise UsageError(
            f"A command is run in a folder that exists, but the current one is gone ({error.strerror}). Change into another one."
        ) from error


def printable(text: str) -> str:
    """Text for a person, without secrets and without what steers a terminal."""
    return Masker.of(env={}, inherited=os.environ).own_text(text)


class _Masked(logging.Formatter):
    """Warnings and tracebacks for standard error, where no other handler takes them."""

    def format(self, record: logging.LogRecord) -> str:
        """See `logging.Formatter`."""
        return printable(super().format(record))


def interrupts(context: typer.Context) -> Interrupts:
    """The interrupts of the running command; for one that is called without a process of its own, nobody presses.

    Whoever asks for them measures for hours, and goes on when nobody can be shown anything any more.
    """
    outlast()
    return context.find_object(Interrupts) or Interrupts()


def say(line: str, *, err: bool = False) -> None:
    """Print one line at once: a pipe should see it when a person would."""
    stream = sys.stderr if err else sys.stdout
    stream.write(line + "\n")
    stream.flush()
