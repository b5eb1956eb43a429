"""Studies on disk: one line each, so that a run that is cut short loses none, and a later one goes on."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from functools import lru_cache
from pathlib import Path

from benchmarks.coverage.whole.claims import Claims
from benchmarks.coverage.whole.worlds import STUDY, Row, World
from search.errors import UsageError

Studies = Mapping[Row, Mapping[int, Claims]]
"""By row and number."""
_CODE = ("search", "benchmarks/coverage/whole")


@lru_cache(maxsize=1)
def version() -> str:
    """Of everything that a study's outcome depends on here: hash of the code and of the study file."""
    top = STUDY.parents[1]
    digest = hashlib.sha256()
    for path in [STUDY, *(path for folder in _CODE for path in sorted((top / folder).rglob("*.py")))]:
        digest.update(path.relative_to(top).as_posix().encode() + b"\0" + path.read_bytes() + b"\0")
    return digest.hexdigest()[:12]


def line_of(row: Row, number: int, study: Claims) -> str:
    """One study as it is written."""
    key = {"kind": row.kind, **asdict(row.world), "number": number, "version": version()}
    return json.dumps(key | asdict(study)) + "\n"


def read(paths: Iterable[Path], *, only_this_version: bool = False) -> Studies:
    """All studies of these files; a line that was cut off while it was written is left out.

    Raises:
        UsageError: Studies of another version of the code are among them, and must not be.
    """
    found: dict[Row, dict[int, Claims]] = {}
    for path in paths:
        for text in path.read_text(encoding="utf-8").splitlines():
            try:
                cells = json.loads(text)
            except ValueError:
                continue
            wrote, number = cells.pop("version"), cells.pop("number")
            if only_this_version and wrote != version():
                raise UsageError(
                    f"Studies of one file must come from one version of the code, but `{path}` holds some of {wrote}, and "
                    f"this is {version()}. Name another file."
                )
            row = Row(cells.pop("kind"), World(*(cells.pop(name) for name in ("between", "within", "gain"))))
            study = Claims(**cells | {"false_gains": tuple(cells["false_gains"])})
            found.setdefault(row, {})[number] = study
    return found


def write_results(path: Path, rows: Sequence[Mapping[str, object]]) -> None:
    """Put rows of whole studies into the file of all results, in place of those that it has."""
    others = json.loads(path.read_text(encoding="utf-8")) if path.exists() else []
    kept = [row for row in others if row["group"] != "whole"]
    path.write_text(json.dumps([*kept, *rows], indent=1) + "\n", encoding="utf-8")
