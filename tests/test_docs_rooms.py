"""The map of the package says what is there."""

import ast
import re
from pathlib import Path

import pytest
from test_rooms import ORDER

ROOT = Path(__file__).parent.parent
TEXT = (ROOT / "docs" / "rooms.md").read_text()
PLACES = sorted(set(re.findall(r"`((?:search|plugin|tests)/[\w/.]*(?::\w+)?)`", TEXT)))


def module_of(room):
    alone = ROOT / "search" / f"{room}.py"
    return alone if alone.exists() else ROOT / "search" / room / "__init__.py"


def test_every_room_stands_in_the_table_in_order_with_the_words_of_its_docstring():
    said = re.findall(r"^\| `(\w+)` \| (.*) \|$", TEXT, re.MULTILINE)
    docstrings = [ast.get_docstring(ast.parse(module_of(room).read_text())) for room in ORDER]
    assert said == [
        (room, " ".join(text.split("\n\n")[0].split()).rstrip("."))
        for room, text in zip(ORDER, docstrings, strict=True)
    ]


@pytest.mark.parametrize("place", PLACES)
def test_every_place_that_the_map_names_is_there(place):
    path, _, name = place.partition(":")
    assert (ROOT / path).exists()
    if name:
        assert re.search(rf"^(?:class |def )?{name}\b", (ROOT / path).read_text(), re.MULTILINE)
