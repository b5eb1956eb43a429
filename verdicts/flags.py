"""Every flag of each release's own parser: `python flags.py --trees FOLDER`; run as `record.py` is.

FOLDER holds one unpacked wheel per release, as `<release>/sglang/`. Writes `search/dialects/flags.tsv`.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import machine
import spelling

TABLE: Final = Path(__file__).parent.parent / "search" / "dialects" / "flags.tsv"
HEAD: Final = """\
# Every flag of SGLang's own parser (`ServerArgs.add_cli_args`), 0.5.9 to 0.5.23: name, words it takes (0: a switch),
# first and last release that has it so, default as JSON (null: none), and what it takes: a list of choices, "int",
# "float", or null for any word. A new row where the default or the choices change.
"""

Flag = tuple[str, str, str, str]
"""Name, words, default and what it takes, both as JSON."""


def main() -> None:
    """Read all releases and write the table, or with `--tree` say the flags of one."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--trees", type=Path)
    parser.add_argument("--out", type=Path, default=TABLE)
    parser.add_argument("--tree", type=Path, help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.tree:
        out, sys.stdout = sys.stdout, sys.stderr  # whatever the imports print must not mix with the answer
        out.write(json.dumps(sorted(flags_of(asked.tree.resolve()))))
        return
    found = {}
    for release in spelling.RELEASES:
        words = [sys.executable, __file__, "--tree", str(asked.trees / release)]
        done = subprocess.run(words, stdout=subprocess.PIPE, text=True, check=True)
        found[release] = {tuple(flag) for flag in json.loads(done.stdout)}
        sys.stderr.write(f"{release}: {len(found[release])} flags\n")
    asked.out.write_text(HEAD + "".join(f"{line}\n" for line in spans(found)), encoding="utf-8")


def flags_of(tree: Path) -> set[Flag]:
    """The flags of the release in `tree`."""
    with tempfile.TemporaryDirectory() as scratch:
        machine.pretend(machine.GPUS["sm90"], cuda="13.0", folder=Path(scratch))
        machine.install_stand_ins()
        sys.path.insert(0, str(tree))
        from sglang.srt import server_args

        parser = argparse.ArgumentParser()
        server_args.ServerArgs.add_cli_args(parser)
        return {
            (word.removeprefix("--"), "0" if action.nargs == 0 else "1", _default(action.default), _takes(action))
            for word, action in parser._option_string_actions.items()
            if word.startswith("--") and word != "--help"
        }


def _default(value: Any) -> str:
    return json.dumps(value if value is None or isinstance(value, (str, int, float, bool)) else str(value))


def _takes(action: argparse.Action) -> str:
    if action.choices is not None:
        return json.dumps([str(choice) for choice in action.choices])
    return json.dumps({int: "int", float: "float"}.get(action.type)) if action.nargs != 0 else "null"  # type: ignore[arg-type]


def spans(found: Mapping[str, set[Flag]]) -> Iterator[str]:
    """One line for each run of releases in a row that have a flag so."""
    releases = list(found)
    for flag in sorted(set().union(*found.values())):
        has = [place for place, release in enumerate(releases) if flag in found[release]]
        starts = [place for place in has if place - 1 not in has]
        for start in starts:
            end = start
            while end + 1 in has:
                end += 1
            name, words, default, takes = flag
            yield "\t".join((name, words, releases[start], releases[end], default, takes))


if __name__ == "__main__":
    main()
