"""Where commands print: colours on a terminal, the same words without them everywhere else."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from typing import TYPE_CHECKING, TextIO

if TYPE_CHECKING:
    from rich.console import Console

PLAIN_WIDTH = 100
"""Columns where there is no terminal to ask."""


def console_for(stream: TextIO, *, environ: Mapping[str, str] = os.environ) -> Console:
    """A console over a stream: as wide as the terminal, colours as the terminal and `NO_COLOR` allow.

    Markup, emoji and guessed highlights are off: what is printed was written by others.
    """
    from rich.console import Console

    return Console(
        file=stream,
        width=columns_of(stream),
        markup=False,
        emoji=False,
        highlight=False,
        soft_wrap=False,
        no_color="NO_COLOR" in environ or None,
    )


def columns_of(stream: TextIO) -> int:
    """Columns of the terminal behind a stream, at least 40; 100 for a file or a pipe."""
    if not stream.isatty():
        return PLAIN_WIDTH
    return max(40, shutil.get_terminal_size((PLAIN_WIDTH, 24)).columns)
