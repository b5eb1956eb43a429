"""The chat template of a model's own tokenizer, rendered here.

A server renders it too, on its OpenAI routes; but those tell no verify passes per request, and what they send to the
model nobody could hash. So prompts are rendered once, before the first launch, and sent as text: equal for every config,
and part of the study's fingerprint. What a template asks of its surroundings is fixed: the date is always `TODAY`.
"""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import as_file, files
from pathlib import Path
from typing import Any, Final

from search.errors import UsageError
from search.load.readers import MAX_CHARACTERS, Chat

TODAY: Final = "2024-07-26"
"""The date that templates are told: the one that Llama's own template names where it cannot ask."""
THINKING: Final = ("enable_thinking", "thinking")
"""What templates call the switch: Qwen and GLM the first, DeepSeek and Kimi the second."""

_MAX_TEMPLATE = 2**20
_MAX_CONFIG = 64 * 2**20
"""Bytes; a `tokenizer.json` of a quarter million tokens has some 20 MB."""
_CPU_S, _WALL_S, _MEMORY = 60, 120.0, 4 * 2**30


@dataclass(frozen=True, slots=True)
class ChatTemplate:
    """A template, and what it needs to know of its tokenizer.

    Attributes:
        text: The template itself, Jinja.
        special: Special tokens by the names that templates have for them, such as `bos_token`.
        adds_bos: Whether the tokenizer puts its first token before any text by itself; a prompt that brings it too would
            begin with two.
        source: The file that it stands in, for messages.
    """

    text: str
    special: Mapping[str, str]
    adds_bos: bool
    source: str

    @property
    def sha256(self) -> str:
        """Of the template and what it knows."""
        known = json.dumps([self.text, sorted(self.special.items()), self.adds_bos, TODAY])
        return hashlib.sha256(known.encode(errors="replace")).hexdigest()

    def render(self, chats: Sequence[Chat], *, thinking: bool | None = None) -> list[str]:
        """The text of each chat, up to where the answer begins.

        Args:
            chats: In their order.
            thinking: Told to the template; None leaves the model's own habit.

        Raises:
            UsageError: The template fails or refuses, takes too long, or has no switch for `thinking`.
        """
        texts = self._rendered(chats, thinking)
        if thinking is not None and chats and texts[:1] == self._rendered(chats[:1], not thinking):
            raise UsageError(
                f"`sampling.thinking` must be a switch that the chat template has, but {self.source} makes the same prompt "
                "with it on and off. Take `thinking` out, or name a model whose template has it."
            )
        if self.adds_bos and (bos := self.special.get("bos_token")):
            texts = [text.removeprefix(bos) for text in texts]
        return texts

    def _rendered(self, chats: Sequence[Chat], thinking: bool | None) -> list[str]:
        asked = {
            "template": self.text,
            "special": dict(self.special),
            "switches": {} if thinking is None else dict.fromkeys(THINKING, thinking),
            "chats": [{"messages": list(chat.messages), "tools": list(chat.tools)} for chat in chats],
            "today": TODAY,
            "most": MAX_CHARACTERS,
            "cpu_s": _CPU_S,
            "memory": _MEMORY,
        }
        with as_file(files("search.load").joinpath("_render_process.py")) as program:
            try:
                done = subprocess.run(
                    [sys.executable, "-I", str(program)],
                    input=json.dumps(asked),
                    capture_output=True,
                    text=True,
                    timeout=_WALL_S,
                    check=True,
                )
                answer: dict[str, Any] = json.loads(done.stdout)
            except (subprocess.SubprocessError, ValueError) as error:
                said = (getattr(error, "stderr", None) or "").strip().splitlines()
                raise UsageError(
                    f"{self.source}: the chat template must render {len(chats)} prompts within {_CPU_S} s of processor time and "
                    f"{_MEMORY >> 30} GiB, but it did not: {said[-1][:200] if said else type(error).__name__}. Write a "
                    "`template:` of your own."
                ) from error
        if "error" in answer:
            raise UsageError(
                f"{self.source}: the chat template must render every prompt, but it ends with {answer['error']}. Leave the "
                "prompt out that it refuses, or write a `template:` of your own."
            )
        return [str(text) for text in answer["texts"]]


def read_chat_template(folder: Path) -> ChatTemplate:
    """The template of the tokenizer in `folder`: `chat_template.jinja` before `tokenizer_config.json`.

    Raises:
        UsageError: There is none, or its files are no JSON.
    """
    config = _json(folder / "tokenizer_config.json")
    text, source = _template(folder, config)
    if text is None:
        raise UsageError(
            f"`template: chat` is the one of the target's tokenizer, but {folder} has none in chat_template.jinja or "
            "tokenizer_config.json. Write the text around `{prompt}` as `template:`, or name the folder of a tokenizer that "
            "has one as `tokenizer:`."
        )
    if len(text) > _MAX_TEMPLATE:
        raise UsageError(
            f"{source}: a chat template has at most {_MAX_TEMPLATE:,} characters, but it has {len(text):,}."
        )
    special = {**_special(_json(folder / "special_tokens_map.json")), **_special(config)}
    return ChatTemplate(text, special, _adds_bos(folder, config, special.get("bos_token")), str(source))


def _template(folder: Path, config: Mapping[str, Any]) -> tuple[str | None, Path]:
    own = folder / "chat_template.jinja"
    if own.is_file():
        return _text(own, _MAX_TEMPLATE), own
    source = folder / "tokenizer_config.json"
    found = config.get("chat_template")
    if found is None and (other := folder / "chat_template.json").is_file():
        found, source = _json(other).get("chat_template"), other
    if isinstance(found, list):
        named = {one.get("name"): one.get("template") for one in found if isinstance(one, dict)}
        found = named.get("default")
    return (found if isinstance(found, str) else None), source


def _special(config: Mapping[str, Any]) -> dict[str, str]:
    """Tokens by name; some files wrap them with how they are stripped."""
    found = {}
    for name, value in config.items():
        token = value.get("content") if isinstance(value, dict) else value
        if name.endswith("_token") and isinstance(token, str):
            found[name] = token
    return found


def _adds_bos(folder: Path, config: Mapping[str, Any], bos: str | None) -> bool:
    if isinstance(said := config.get("add_bos_token"), bool):
        return said
    processor = _json(folder / "tokenizer.json").get("post_processor")
    return bos is not None and bos in _first_tokens(processor)


def _first_tokens(processor: object) -> set[str]:
    """What a `tokenizer.json` puts before every text."""
    if not isinstance(processor, dict):
        return set()
    found: set[str] = set()
    for inner in processor.get("processors") or ():
        found |= _first_tokens(inner)
    single = processor.get("single")
    first = single[0] if isinstance(single, list) and single else None
    token = first.get("SpecialToken") if isinstance(first, dict) else None
    if isinstance(token, dict) and isinstance(token.get("id"), str):
        found.add(token["id"])
    return found


def _json(path: Path) -> dict[str, Any]:
    if not path.is_file():
        return {}
    try:
        value = json.loads(_text(path, _MAX_CONFIG))
    except (ValueError, RecursionError) as error:
        raise UsageError(f"{path}: a tokenizer's file must be JSON, but {error}. Copy it again.") from error
    return value if isinstance(value, dict) else {}


def _text(path: Path, most: int) -> str:
    try:
        if path.stat().st_size > most:
            raise UsageError(f"{path}: such a file has at most {most:,} bytes, but it has {path.stat().st_size:,}.")
        return path.read_text(encoding="utf-8")
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror}. Correct the folder.") from error
