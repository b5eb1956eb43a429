"""What SGLang's wheels say of the internals in the plugin's table, read from their sources without importing them.

`python tests/shapes/sources.py FOLDER_OF_WHEELS` records it anew into `tests/data/shape_internals.json`.
"""

import ast
import json
import re
import sys
import zipfile
from functools import lru_cache
from pathlib import Path

RECORDED = Path(__file__).parent.parent / "data" / "shape_internals.json"
_WHEEL = re.compile(r"sglang-(?P<release>[\w.]+)-.*\.whl")


def wheels(folder):
    """Release -> wheel."""
    return {match["release"]: path for path in Path(folder).glob("*.whl") if (match := _WHEEL.fullmatch(path.name))}


def facts(wheel, entries):
    """Name -> parameters (name -> whether it can be left out), fields, or whether an attribute is ever set."""
    return {f"{entry['kind']} {entry['name']}": _fact(wheel, entry) for entry in entries}


def _fact(wheel, entry):
    tree, inner = _module(wheel, entry["name"])
    if tree is None:
        return None
    path = inner[:-1] if entry["kind"] == "attribute" else inner
    node = tree
    for part in path:
        node = next((child for child in node.body if getattr(child, "name", None) == part), None)
        if node is None:
            return None
    if entry["kind"] == "function":
        return _parameters(node.args)
    if entry["kind"] == "class":
        return sorted(_fields(node))
    return _sets(node, inner[-1])


def _module(wheel, dotted):
    parts = dotted.split(".")
    names = _names(wheel)
    for length in range(len(parts) - 1, 0, -1):
        stem = "/".join(parts[:length])
        for name in (f"{stem}.py", f"{stem}/__init__.py"):
            if name in names:
                return _parsed(wheel, name), parts[length:]
    return None, parts


@lru_cache(maxsize=8)
def _names(wheel):
    with zipfile.ZipFile(wheel) as archive:
        return frozenset(archive.namelist())


@lru_cache(maxsize=64)
def _parsed(wheel, name):
    with zipfile.ZipFile(wheel) as archive:
        return ast.parse(archive.read(name))


def _parameters(args):
    plain = [*args.posonlyargs, *args.args]
    first_default = len(plain) - len(args.defaults)
    found = {arg.arg: place >= first_default for place, arg in enumerate(plain)}
    found |= {arg.arg: default is not None for arg, default in zip(args.kwonlyargs, args.kw_defaults, strict=True)}
    return found | {arg.arg: True for arg in (args.vararg, args.kwarg) if arg is not None}


def _fields(node):
    for child in node.body:
        if isinstance(child, ast.AnnAssign) and isinstance(child.target, ast.Name):
            yield child.target.id
        elif isinstance(child, ast.Assign):
            yield from (target.id for target in child.targets if isinstance(target, ast.Name))


def _sets(node, attribute):
    return attribute in _fields(node) or any(
        isinstance(child, ast.Attribute)
        and isinstance(child.ctx, ast.Store)
        and isinstance(child.value, ast.Name)
        and child.value.id == "self"
        and child.attr == attribute
        for child in ast.walk(node)
    )


def main(folder):
    """Record all wheels of a folder that have a row in the table."""
    sys.path.append(str(Path(__file__).parents[2] / "plugin"))
    from search_shapes import internals

    found = {
        release: facts(path, internals.wanted(release))
        for release, path in sorted(wheels(folder).items())
        if internals.profile(release) is not None
    }
    lines = ",\n".join(
        f'"{release}": {{\n'
        + ",\n".join(f"  {json.dumps(name)}: {json.dumps(fact)}" for name, fact in names.items())
        + "\n}"
        for release, names in found.items()
    )
    RECORDED.write_text(f"{{\n{lines}\n}}\n")


if __name__ == "__main__":
    main(sys.argv[1])
