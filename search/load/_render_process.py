"""Renders chats by a model's own template, in a process of its own: a template is a program of whoever made the model.

Reads one JSON object from stdin and writes one to stdout. Imports nothing of this project: it is run as a file.
"""

from __future__ import annotations

import json
import resource
import sys
from datetime import datetime
from typing import Any

import jinja2
from jinja2 import nodes
from jinja2.ext import Extension
from jinja2.parser import Parser
from jinja2.sandbox import ImmutableSandboxedEnvironment


class Generation(Extension):
    """`{% generation %}` marks the assistant's words for training; for a prompt it is its content."""

    tags = {"generation"}  # noqa: RUF012

    def parse(self, parser: Parser) -> list[nodes.Node]:
        """The block's own content."""
        next(parser.stream)
        return parser.parse_statements(("name:endgeneration",), drop_needle=True)


def _tojson(
    value: Any, ensure_ascii: bool = False, indent: int | None = None, separators: Any = None, sort_keys: bool = False
) -> str:
    # Jinja's own escapes HTML, which a prompt is not.
    return json.dumps(value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)


def _refuse(message: object) -> None:
    raise jinja2.TemplateError(str(message)[:500])


def render(asked: dict[str, Any]) -> list[str]:
    """The prompt of each chat, as text that ends where the answer begins."""
    today = datetime.fromisoformat(asked["today"])
    environment = ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=["jinja2.ext.loopcontrols", Generation]
    )
    environment.filters["tojson"] = _tojson
    environment.globals["raise_exception"] = _refuse
    environment.globals["strftime_now"] = today.strftime
    template = environment.from_string(asked["template"])
    texts = []
    for chat in asked["chats"]:
        parts: list[str] = []
        length = 0
        given = {**asked["special"], **asked["switches"], "messages": chat["messages"], "tools": chat["tools"] or None}
        for part in template.generate(**given, add_generation_prompt=True):
            length += len(part)
            if length > asked["most"]:
                _refuse(f"the prompt is longer than {asked['most']} characters")
            parts.append(part)
        texts.append("".join(parts))
    return texts


def main() -> None:
    """One request, one answer."""
    asked = json.load(sys.stdin)
    for what, most in ((resource.RLIMIT_CPU, asked["cpu_s"]), (resource.RLIMIT_AS, asked["memory"])):
        try:
            resource.setrlimit(what, (most, most))
        except (ValueError, OSError):  # not on this system, or lower already
            continue
    try:
        answer: dict[str, Any] = {"texts": render(asked)}
    except (jinja2.TemplateError, ArithmeticError, LookupError, TypeError, ValueError, AttributeError) as error:
        answer = {"error": f"{type(error).__name__}: {error}"[:500]}
    except (MemoryError, RecursionError) as error:
        answer = {"error": f"it needs more than it may have ({type(error).__name__})"}
    json.dump(answer, sys.stdout)


if __name__ == "__main__":
    main()
