"""What each release can load, read from its source without importing it: `python classes.py --trees FOLDER`.

FOLDER holds one unpacked wheel per release, as `<release>/sglang/`. Writes `search/dialects/classes.tsv`: every
registered model class, the draft classes with the algorithm that each belongs to, and for each target with MTP
layers of its own the class that reads them.
"""

from __future__ import annotations

import argparse
import ast
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

import spelling

OUT: Final = Path(__file__).parent.parent / "search" / "dialects" / "classes.tsv"
HEAD: Final = """\
# Model classes of SGLang, 0.5.9 to 0.5.23 (`verdicts/classes.py`): name, what it is, first and last release that has it so.
# `target`; `draft:ALGORITHM` for a class that only drafts; `mtp:CLASS` for a target whose own layers CLASS reads;
# `hook:ALGORITHM` for a class that hands the algorithm the hidden states its draft reads.
"""
MODELS: Final = Path("sglang/srt/models")
CONFIG: Final = Path("sglang/srt/configs/model_config.py")

HOOKS: Final = {"set_eagle3_layers_to_capture": "EAGLE3", "set_dflash_layers_to_capture": "DFLASH"}
"""Method of a target's class -> the algorithm that calls it."""

_BY_MODULE: Final = (
    ("dspark", "DSPARK"),
    ("dflash", "DFLASH"),
    ("lilicorr", "DFLASH"),
    ("eagle3", "EAGLE3"),
    ("gemma4_mtp", "FROZEN_KV_MTP"),
    ("eagle", "EAGLE"),
    ("nextn", "EAGLE"),
    ("mtp", "EAGLE"),
)
"""Part of a module's name, or of a class's, and the algorithm whose worker builds it; the first that fits."""

Row = tuple[str, str]
"""A class and what it is."""


def main() -> None:
    """Read all releases that lie in the folder and write the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--trees", type=Path, required=True)
    parser.add_argument("--out", type=Path, default=OUT)
    asked = parser.parse_args()
    found = {release: set(rows_of(asked.trees / release)) for release in spelling.RELEASES}
    asked.out.write_text(HEAD + "".join(f"{line}\n" for line in spans(found)), encoding="utf-8")


def rows_of(tree: Path) -> Iterator[Row]:
    """What one release can load."""
    own = dict(own_drafts(tree / CONFIG))
    targets = set()
    for path in sorted((tree / MODELS).rglob("*.py")):
        for name in entry_classes(path):
            kind = kind_of(path.stem, name, own)
            yield name, kind
            targets |= {name} if kind == "target" else set()
    for target, draft in own.items():
        yield target, f"mtp:{draft}"
    yield from ((name, kind) for name, kind in hooks_of(tree / MODELS) if name in targets)


def kind_of(module: str, name: str, own: Mapping[str, str]) -> str:
    """`target`, or `draft:` with its algorithm."""
    if name in own.values():
        return "draft:EAGLE"
    for part, algorithm in _BY_MODULE:
        if part in name.lower() or part in module:
            return f"draft:{algorithm}"
    return "target"


def entry_classes(path: Path) -> Iterator[str]:
    """Names in `EntryClass`, which is what the registry reads."""
    tree = ast.parse(path.read_bytes())
    for node in tree.body:
        targets = node.targets if isinstance(node, ast.Assign) else []
        if any(isinstance(target, ast.Name) and target.id == "EntryClass" for target in targets):
            assert isinstance(node, ast.Assign)
            yield from (part.id for part in ast.walk(node.value) if isinstance(part, ast.Name))


def hooks_of(folder: Path) -> Iterator[Row]:
    """Registered classes that have a hook, own or inherited; a base is looked for by its name."""
    classes: dict[str, ast.ClassDef] = {}
    entries: set[str] = set()
    for path in sorted(folder.rglob("*.py")):
        entries |= set(entry_classes(path))
        classes |= {node.name: node for node in ast.parse(path.read_bytes()).body if isinstance(node, ast.ClassDef)}

    def has(name: str, method: str) -> bool:
        node = classes.get(name)
        if node is None:
            return False
        own = any(isinstance(part, ast.FunctionDef) and part.name == method for part in node.body)
        return own or any(has(base, method) for base in map(_name, node.bases) if base != name)

    for name in sorted(entries):
        for method, algorithm in HOOKS.items():
            if has(name, method):
                yield name, f"hook:{algorithm}"


def _name(node: ast.expr) -> str:
    return ast.unparse(node).rpartition(".")[2]


def own_drafts(path: Path) -> Iterator[tuple[str, str]]:
    """Target and the class that reads its MTP layers, as `_config_draft_model` renames one to the other."""
    tree = ast.parse(path.read_bytes())
    constants = {
        target.id: node.value
        for node in tree.body
        if isinstance(node, ast.Assign)
        for target in node.targets
        if isinstance(target, ast.Name)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.If) and "is_draft_model" in ast.unparse(node.test):
            drafts = [name for child in node.body for name in _renamed(child)]
            if drafts:
                yield from ((target, drafts[-1]) for target in _strings(node.test, constants))


def _renamed(node: ast.AST) -> Iterator[str]:
    for part in ast.walk(node):
        if isinstance(part, ast.Assign) and "architectures" in ast.unparse(part.targets[0]):
            yield from _strings(part.value, {})


def _strings(node: ast.AST, constants: Mapping[str, ast.AST]) -> Iterator[str]:
    for part in ast.walk(node):
        if isinstance(part, ast.Constant) and isinstance(part.value, str):
            yield part.value
        elif isinstance(part, ast.Name) and part.id in constants:
            yield from _strings(constants[part.id], {})


def spans(found: Mapping[str, set[Row]]) -> Iterator[str]:
    """One line for each run of releases in a row that have a class so."""
    releases = list(found)
    for name, kind in sorted(set().union(*found.values())):
        has = [release for release in releases if (name, kind) in found[release]]
        start = 0
        for place, release in enumerate(has):
            follows = place + 1 < len(has) and releases.index(has[place + 1]) == releases.index(release) + 1
            if not follows:
                yield "\t".join((name, kind, has[start], release))
                start = place + 1


if __name__ == "__main__":
    main()
