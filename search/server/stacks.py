"""Where a server that stands still is standing: one stack dump per process, by py-spy where it is installed."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from search.masking import mask_text
from search.server.guardian import Process

MISSING = "no stack dump: py-spy is not installed"

EACH_S = 10.0
"""A dump takes well under a second; a process in an uninterruptible wait answers never."""

_MOST = 8
"""Ranks of a hang stand in the same place, or all but one do; more than a node has are not dumped."""

_SCHEDULERS = "sglang::schedul"
"""What the kernel keeps (15 letters) of the name that SGLang gives its schedulers."""


def find_py_spy(python: str | None = None) -> str | None:
    """The py-spy beside our own interpreter, beside the server's, or on the path."""
    beside = [Path(interpreter).parent / "py-spy" for interpreter in (sys.executable, python) if interpreter]
    return next((str(path) for path in beside if path.is_file()), None) or shutil.which("py-spy")


def dump_stacks(processes: Sequence[Process], path: Path, *, py_spy: str | None, timeout_s: float = EACH_S) -> str:
    """Append a dump of a server's schedulers to `path`, or of all its processes where none is named so.

    Args:
        processes: Of one launch, alive.
        path: Made if it is not there; untouched if nothing could be dumped.
        py_spy: The program; None if there is none.
        timeout_s: For each process.

    Returns:
        What to say beside the evidence: how many were dumped, or why none was.
    """
    if py_spy is None:
        return MISSING
    chosen = [process for process in processes if process.name.startswith(_SCHEDULERS)] or list(processes)
    if not chosen:
        return "no stack dump: no process of the server was left"
    texts, error = [], ""
    for process in chosen[:_MOST]:
        text, why = _dump(py_spy, process.pid, timeout_s)
        error = error or why
        if text:
            texts.append(text)
    if not texts:
        return f"no stack dump: {error}"
    with path.open("a", encoding="utf-8") as file:
        file.writelines(f"{text.rstrip()}\n\n" for text in texts)
    return f"stacks of {len(texts)} of {len(processes)} processes in {path.name}"


def _dump(py_spy: str, pid: int, timeout_s: float) -> tuple[str, str]:
    """The dump, and why there is none. Reading another process needs the right to trace it."""
    try:
        done = subprocess.run(
            [py_spy, "dump", "--pid", str(pid)],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=timeout_s,
            text=True,
            errors="replace",
            start_new_session=True,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return "", f"py-spy did not answer within {timeout_s:g} s for pid {pid}"
    except OSError as error:
        return "", f"py-spy could not be started: {error}"
    if done.returncode != 0:
        lines = [line for line in done.stderr.splitlines() if line.strip()] or [f"exit code {done.returncode}"]
        return "", f"py-spy refused pid {pid}: {lines[0].strip()}"
    return mask_text(done.stdout), ""  # it begins with the command line
