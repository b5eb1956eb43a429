"""The run command that asks for the same again."""

from __future__ import annotations

import shlex

from search.app.options import DEFAULT_REPORTS, DEFAULT_STORAGE, RunOptions
from search.storage.urls import storage_to_type


def command_line(options: RunOptions, *, simulate: bool | None = None) -> str:
    """The run command that asks for the same again, with `--simulate` forced on where `simulate` is True.

    Limits of the study's life are repeated: without them the study file's would apply. A password in `--storage` is
    not: libpq reads it from PGPASSWORD or its password file.
    """
    words = ["python", "-m", "search.run"]
    for flag, value in (
        ("--study", options.study),
        ("--replay", options.replay),
        ("--storage", storage_to_type(options.storage) if options.storage != DEFAULT_STORAGE else None),
        ("--reports", options.reports if options.reports != DEFAULT_REPORTS else None),
        ("--launches", options.launches),
        ("--hours", options.hours),
        ("--seed", options.seed),
        ("--sampler", options.sampler),
        ("--executor", options.executor),
        ("--ray-address", options.ray_address),
        ("--model", options.model),
        ("--draft", options.draft),
    ):
        if value is not None:
            words += [flag, f"{value:g}" if isinstance(value, float) else str(value)]
    if options.simulate if simulate is None else simulate:
        words.append("--simulate")
    return shlex.join(words)
