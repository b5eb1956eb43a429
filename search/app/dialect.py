"""Runs the recording scripts of the checkout on an installed release."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator, Sequence
from importlib import resources
from pathlib import Path
from typing import Final

from search.dialects import is_newer, known_releases
from search.errors import UsageError

_WHERE: Final = (
    "import importlib.metadata as m, json, pathlib; d = m.distribution('sglang'); "
    "print(json.dumps([d.version, str(pathlib.Path(d.locate_file('sglang')).parent)]))"
)


def record_release(source: Path, out: Path | None) -> Iterator[str]:
    """Record both sets of cases, and say each file and what is left to do.

    Args:
        source: A virtual environment, or the interpreter in it.
        out: Folder of the files; None for the checkout's own.

    Raises:
        UsageError: No checkout, no interpreter or no SGLang is there, or a recording failed.
    """
    scripts = _scripts()
    python = source if source.is_file() else source / "bin" / "python"
    if not python.is_file():
        raise UsageError(
            f"`--from` names a virtual environment or its interpreter, but there is no {python}. Correct it."
        )
    release, tree = _installed(python)
    folder = out or scripts
    (folder / "architectures").mkdir(parents=True, exist_ok=True)
    for words, path in (
        ((), folder / f"{release}.jsonl.gz"),
        (("--architectures",), folder / "architectures" / f"{release}.jsonl.gz"),
    ):
        record = [
            str(scripts / "record.py"),
            "--release",
            release,
            "--tree",
            tree,
            "--out",
            str(path.absolute()),
            *words,
        ]
        yield _run([str(python), *record]).splitlines()[-1]
    if release in known_releases():
        yield f"SGLang {release} has a dialect: `pytest tests/dialects` holds it to these verdicts"
    else:
        newer = "newer than any" if is_newer(release) else "not one"
        yield f"SGLang {release} is {newer} that was read: verdicts/README.md says how its dialect is added"


def _scripts() -> Path:
    folder = Path(str(resources.files("search"))).parent / "verdicts"
    if not (folder / "record.py").is_file():
        raise UsageError(
            f"The recording scripts lie in `verdicts/` of a checkout, but {folder} has none. Run it from one."
        )
    return folder


def _installed(python: Path) -> tuple[str, str]:
    """Release, and the folder that holds `sglang/`."""
    try:
        release, tree = json.loads(_run([str(python), "-c", _WHERE]).splitlines()[-1])
    except (ValueError, IndexError) as error:
        raise UsageError(f"{python} did not say which SGLang it has: {error}. Name another environment.") from error
    return str(release), str(tree)


def _run(words: Sequence[str]) -> str:
    try:
        done = subprocess.run(words, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=True)
    except subprocess.CalledProcessError as error:
        last = (error.stderr.strip().splitlines() or ["it said nothing"])[-1]
        raise UsageError(
            f"A release is recorded by its own interpreter, but {words[0]} failed: {last}. verdicts/README.md names what it "
            "needs beside SGLang."
        ) from error
    except OSError as error:
        raise UsageError(f"{words[0]} cannot be run: {error.strerror}. Name another environment.") from error
    return done.stdout
