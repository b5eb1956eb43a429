"""Every variable of SGLang's own that each release reads: `python variables.py --trees FOLDER`.

FOLDER holds one unpacked wheel per release, as `<release>/sglang/`. The sources are read as text, nothing is imported.
Writes `search/dialects/variables.tsv`.
"""

from __future__ import annotations

import argparse
import ast
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import spelling

TABLE: Final = Path(__file__).parent.parent / "search" / "dialects" / "variables.tsv"
HEAD: Final = """\
# Every variable of SGLang's own that a release reads (`verdicts/variables.py`): name, first and last release that has it so,
# what it takes ("bool", "int", "float", or null for any word), and its default, both as JSON (null: none, or not a constant).
# A new row where one of them changes.
"""
_PREFIXES: Final = ("SGLANG_", "SGL_")
_KINDS: Final = {"EnvBool": "bool", "EnvInt": "int", "EnvFloat": "float"}
_READERS: Final = {"get_bool_env_var": "bool", "get_int_env_var": "int", "getenv": None, "get": None}

Variable = tuple[str, str, str]
"""Name, what it takes and default, both as JSON."""


def main() -> None:
    """Read all releases and write the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--trees", type=Path, required=True)
    parser.add_argument("--out", type=Path, default=TABLE)
    asked = parser.parse_args()
    found = {}
    for release in spelling.RELEASES:
        found[release] = variables_of(asked.trees / release / "sglang")
        sys.stderr.write(f"{release}: {len(found[release])} variables\n")
    asked.out.write_text(HEAD + "".join(f"{line}\n" for line in _spans(found)), encoding="utf-8")


def variables_of(package: Path) -> set[Variable]:
    """The variables that the sources of one release read; one with a descriptor is as the descriptor says."""
    declared = dict(_declared(ast.parse((package / "srt" / "environ.py").read_text(encoding="utf-8"))))
    read: dict[str, tuple[str | None, Any]] = {}
    for path in sorted((package / "srt").rglob("*.py")):
        text = path.read_text(encoding="utf-8", errors="replace")
        if any(f'"{prefix}' in text for prefix in _PREFIXES):
            for name, told in _read(ast.parse(text)):
                if name not in read or read[name] == (None, None):
                    read[name] = told
    return {(name, json.dumps(kind), json.dumps(default)) for name, (kind, default) in {**read, **declared}.items()}


def _declared(tree: ast.Module) -> Iterator[tuple[str, tuple[str | None, Any]]]:
    """`NAME = EnvBool(False)` in the body of a class."""
    for node in ast.walk(tree):
        if not isinstance(node, ast.ClassDef):
            continue
        for item in node.body:
            match item:
                case ast.Assign(targets=[ast.Name(id=name)], value=ast.Call(func=ast.Name(id=made), args=args)):
                    if name.startswith(_PREFIXES) and made.startswith("Env"):
                        kind = next((kind for start, kind in _KINDS.items() if made.startswith(start)), None)
                        yield name, (kind, _constant(args[0]) if args else None)


def _read(tree: ast.Module) -> Iterator[tuple[str, tuple[str | None, Any]]]:
    """Calls that read a variable by its name, such as `os.getenv("SGLANG_X", "0")`."""
    for node in ast.walk(tree):
        match node:
            case ast.Call(func=ast.Name(id=reader) | ast.Attribute(attr=reader), args=[ast.Constant(str(name)), *rest]):
                if reader in _READERS and name.startswith(_PREFIXES):
                    kind = _READERS[reader]
                    default = _constant(rest[0]) if rest else None
                    yield name, (kind, _truth(default) if kind == "bool" else default)


def _constant(node: ast.expr) -> Any:
    try:
        value = ast.literal_eval(node)
    except ValueError:
        return None
    return value if isinstance(value, (str, int, float, bool)) else None


def _truth(value: Any) -> bool:
    return str(value).lower() in ("true", "1")


def _spans(found: dict[str, set[Variable]]) -> Iterator[str]:
    """One line for each run of releases in a row that read a variable so."""
    releases = list(found)
    for variable in sorted(set().union(*found.values())):
        has = [place for place, release in enumerate(releases) if variable in found[release]]
        for start in (place for place in has if place - 1 not in has):
            end = start
            while end + 1 in has:
                end += 1
            name, kind, default = variable
            yield "\t".join((name, releases[start], releases[end], kind, default))


if __name__ == "__main__":
    main()
