"""The rooms in order: imports point down, and a name has one home."""

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent / "search"
GROUND = ["masking", "outcomes", "errors", "config", "deployment", "shape", "contracts", "metrics"]
ROOMS = [
    "host",
    "physics",
    "dialects",
    "stats",
    "space",
    "load",
    "server",
    "engines",
    "storage",
    "cluster",
    "spec",
    "model",
    "samplers",
    "analysis",
    "preflight",
    "study",
    "whatif",
    "report",
    "app",
    "cli",
]
"""From the ground up; what stands later may import what stands earlier. `testing` may see all."""
ORDER = [*GROUND, *ROOMS]


def imports_of(path: Path) -> set[tuple[str, str]]:
    """(Module, name) of what a module takes from `search`, at any depth of nesting."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        match node:
            case ast.ImportFrom(module=str(module), names=names) if module.startswith("search."):
                found |= {(module, name.name) for name in names}
            case ast.Import(names=names):
                found |= {(name.name, "") for name in names if name.name.startswith("search.")}
    return found


def room_of(path: Path) -> str:
    return path.relative_to(ROOT).parts[0].removesuffix(".py")


MODULES = [path for path in sorted(ROOT.rglob("*.py")) if room_of(path) in ORDER]


def test_every_folder_is_a_room_of_the_order():
    folders = {path.parent.name for path in ROOT.glob("*/__init__.py")}
    assert folders == {*ROOMS, "testing"}


@pytest.mark.parametrize("room", ORDER)
def test_room_imports_only_what_stands_before_it(room):
    below = set(ORDER[: ORDER.index(room) + 1])
    for path in (path for path in MODULES if room_of(path) == room):
        extra = {module.split(".")[1] for module, _ in imports_of(path)} - below
        assert not extra, f"{path.relative_to(ROOT)} must not import {sorted(extra)}."


def test_private_module_is_imported_inside_its_room_only():
    for path in MODULES:
        for module, name in imports_of(path):
            room, *rest = module.split(".")[1:]
            private = [part for part in (*rest, name) if part.startswith("_") and not part.startswith("__")]
            assert not private or room == room_of(path), (
                f"{path.relative_to(ROOT)} must not import {private} of {room}."
            )


def test_face_of_a_room_hands_on_names_of_private_modules_only():
    """Else a name would have two homes: the face and its own public module."""
    for path in ROOT.glob("*/__init__.py"):
        for module, name in imports_of(path):
            assert module.split(".")[-1].startswith("_"), f"{path.parent.name} hands on {name}, which {module} has."


def circle(graph: dict[str, set[str]]) -> list[str]:
    """Nodes that lie on a circle or between two: what is left when all ends are cut off, again and again."""
    while ends := [node for node, used in graph.items() if not used]:
        graph = {node: used - set(ends) for node, used in graph.items() if node not in ends}
    return sorted(graph)


def test_no_modules_import_one_another_in_a_circle():
    names = {".".join(("search", *path.relative_to(ROOT).with_suffix("").parts)): path for path in MODULES}
    graph = {
        name: {home for module, part in imports_of(path) for home in (f"{module}.{part}", module) if home in names}
        - {name}
        for name, path in names.items()
    }
    assert not circle(graph)
