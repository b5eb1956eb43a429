"""Turns errors into what a shell expects: a message, an exit code, no traceback."""

from __future__ import annotations

import functools
import sys
import traceback
from collections.abc import Callable
from typing import ParamSpec

import typer

from search.errors import SearchError
from search.study.signals import Interrupts

P = ParamSpec("P")


def command(function: Callable[P, None]) -> Callable[P, None]:
    """Wrap a command: its `SearchError`s go to stderr and become their own exit code.

    With `--debug`, the traceback is printed too. Any other exception is our own fault and keeps
    its traceback.
    """

    @functools.wraps(function)
    def guarded(*args: P.args, **kwargs: P.kwargs) -> None:
        try:
            function(*args, **kwargs)
        except SearchError as error:
            if kwargs.get("debug"):
                traceback.print_exc()
            typer.echo(str(error), err=True)
            raise typer.Exit(int(error.exit_code)) from error

    return guarded


def interrupts(context: typer.Context) -> Interrupts:
    """The interrupts of the running command; for one that is called without a process of its own, nobody presses."""
    return context.find_object(Interrupts) or Interrupts()


def say(line: str, *, err: bool = False) -> None:
    """Print one line at once: a pipe should see it when a person would."""
    stream = sys.stderr if err else sys.stdout
    stream.write(line + "\n")
    stream.flush()
