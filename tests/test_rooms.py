"""Imports point down the rooms."""

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent / "search"
BOTTOM = {"errors", "outcomes", "config", "deployment", "contracts"}
ROOMS = [
    "dialects",
    "space",
    "physics",
    "load",
    "server",
    "engines",
    "storage",
    "cluster",
    "model",
    "samplers",
    "study",
    "report",
    "cli",
]
BELOW = {room: BOTTOM | set(ROOMS[:place]) | {room} for place, room in enumerate(ROOMS)}


def imported_rooms(path: Path) -> set[str]:
    """Rooms that a module imports, at any depth of nesting; top-level `search` itself is free."""
    rooms = set()
    for node in ast.walk(ast.parse(path.read_text())):
        match node:
            case ast.ImportFrom(module=str(module)) if module.startswith("search."):
                rooms.add(module.split(".")[1])
            case ast.Import(names=names):
                rooms |= {name.name.split(".")[1] for name in names if name.name.startswith("search.")}
    return rooms


@pytest.mark.parametrize("room", ROOMS)
def test_room_imports_only_what_lies_below(room):
    for path in (ROOT / room).rglob("*.py"):
        extra = imported_rooms(path) - BELOW[room]
        assert not extra, f"{path.relative_to(ROOT)} must not import {sorted(extra)}."


@pytest.mark.parametrize("module", sorted(BOTTOM))
def test_bottom_module_imports_only_bottom_modules(module):
    assert imported_rooms(ROOT / f"{module}.py") <= BOTTOM
