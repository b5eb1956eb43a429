"""From a command line to the parts of a run: which engine it asks for, and how that one is assembled."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from search.app.assembly import Assembly, RawWords
from search.app.measured import assemble_measured
from search.app.options import RunOptions
from search.app.replayed import assemble_replayed
from search.app.simulated import assemble_simulated
from search.app.studies import study_files
from search.errors import UsageError
from search.spec.file import known_studies, packaged_spaces

EXECUTORS = ("ray", "inline")

ENGINES: Final[Mapping[str, Callable[[RunOptions, RawWords], Assembly]]] = {
    "simulated": assemble_simulated,
    "replay": assemble_replayed,
    "sglang": assemble_measured,
}
"""How a run is put together, by its engine: the one place where an engine is registered."""


def assemble(options: RunOptions, *, raw: tuple[str, ...] | None = None) -> Assembly:
    """Read and check everything before the first GPU minute.

    Args:
        options: The command line.
        raw: Words that a real server gets in place of a config's own, exactly.

    Raises:
        UsageError: The command line, study file or recording is wrong.
        HostUnfit: This machine cannot measure the study; the text ends with the `--simulate` command.
    """
    if options.executor is not None and options.executor not in EXECUTORS:
        raise UsageError(
            f"`--executor` is one of {', '.join(EXECUTORS)}, but got {options.executor!r}. Leave it out for the usual one."
        )
    if options.simulate and options.replay:
        raise UsageError("`--simulate` and `--replay` exclude one another. Leave one out.")
    if options.replay:
        return ENGINES["replay"](options, raw)
    if options.study is None:
        known = ", ".join(known_studies((options.here / "spaces", packaged_spaces())))
        listed = "\n".join(study_files(options.here))
        raise UsageError(
            f"`--study` names a study, or `--replay` a recording. Known studies: {known or 'none'}.\n{listed}\n"
            "`python -m search init --model PATH --draft PATH` writes one for your model."
        )
    return ENGINES["simulated" if options.simulate else "sglang"](options, raw)
