"""A public function of four or more arguments says what each of them is, or which contract does."""

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent / "search"
TO_DO: tuple[str, ...] = ()
"""Where some still do not; a room leaves the list when it is done."""


def describes(text: str) -> bool:
    """Whether arguments are described, or the contract is named that a method fulfils."""
    return "Args:" in text or text.startswith("See `")


def undescribed(path: Path) -> list[str]:
    """Names of public functions and methods of four or more arguments without an `Args:` section."""
    found = []
    for scope in ast.walk(ast.parse(path.read_text())):
        public = isinstance(scope, ast.Module) or (isinstance(scope, ast.ClassDef) and not scope.name.startswith("_"))
        for item in scope.body if public else []:
            if not isinstance(item, ast.FunctionDef | ast.AsyncFunctionDef) or item.name.startswith("_"):
                continue
            typer_command = any(ast.unparse(mark) == "command" for mark in item.decorator_list)  # options have help
            taken = [*item.args.posonlyargs, *item.args.args, *item.args.kwonlyargs]
            count = sum(one.arg not in ("self", "cls") for one in taken)
            if count >= 4 and not typer_command and not describes(ast.get_docstring(item) or ""):
                found.append(item.name)
    return found


DONE = [path for path in sorted(ROOT.rglob("*.py")) if not str(path.relative_to(ROOT)).startswith(TO_DO)]


@pytest.mark.parametrize("path", DONE, ids=[str(path.relative_to(ROOT)) for path in DONE])
def test_public_function_of_four_arguments_describes_them(path):
    assert not undescribed(path)


def test_room_that_is_done_leaves_the_list():
    left = {str(path.relative_to(ROOT)) for path in ROOT.rglob("*.py") if undescribed(path)}
    assert {place for place in TO_DO if not any(name.startswith(place) for name in left)} == set()
