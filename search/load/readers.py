"""Prompt files as chats: JSON lines, ShareGPT conversations, OpenAI batches. All of it is untrusted input."""

from __future__ import annotations

import hashlib
import json
import logging
import stat
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any, Final

from search.errors import UsageError

_log = logging.getLogger(__name__)

MAX_BYTES = 2**30
"""Of a prompt file; the whole of ShareGPT has two thirds of it."""
MAX_ENTRIES = 200_000
"""Of a prompt file; ShareGPT has 95,000 conversations, an OpenAI batch at most 50,000 requests."""
MAX_CHARACTERS = 4 * 2**20
"""Of one prompt: about a million tokens."""
MAX_MESSAGES = 1000
"""Of one chat."""

SHIPPED = "prompts.jsonl"
_HUMAN: Final = ("human", "user")
_ROLES: Final = ("system", "developer", "user", "assistant", "tool", "function")


@dataclass(frozen=True, slots=True)
class Chat:
    """What one request sends, before any template.

    Attributes:
        prompt_id: Its own in the file.
        kind: Such as chat or code.
        messages: As the OpenAI API has them; the last one is to be answered.
        tools: Functions that the model may call, as the API has them.
    """

    prompt_id: str
    kind: str
    messages: tuple[Mapping[str, Any], ...]
    tools: tuple[Mapping[str, Any], ...] = ()

    @property
    def plain(self) -> str | None:
        """The text, where one message of the user is all there is; None where only a chat template can tell the rest."""
        if len(self.messages) == 1 and self.messages[0]["role"] == "user" and not self.tools:
            return str(self.messages[0]["content"])
        return None

    @property
    def content(self) -> object:
        """Equal for chats that send the same."""
        return [list(self.messages), list(self.tools)]


def read_chats(path: Path | None) -> tuple[list[Chat], int]:
    """The chats of a file in its order, and how many of its entries hold none: no human turn, no text, or twice the same.

    Read are JSON lines or one JSON array, of entries that have one of
    - `prompt` or `text`: a text;
    - `conversations`: ShareGPT's turns, of which the first human one is sent;
    - `messages`: a chat, sent up to its last message that is not the assistant's;
    - `body`: an OpenAI batch request, with `messages` or `prompt`; its model, lengths and sampling are not followed, for
      the study has its own.

    Args:
        path: None for the set shipped with this project.

    Raises:
        UsageError: The file cannot be read or used, with file and line.
    """
    source = str(path) if path else SHIPPED
    chats: list[Chat] = []
    seen: dict[str, tuple[int, object]] = {}
    skipped = entries = 0
    for entries, (line, entry) in enumerate(_entries(_read(path), source), start=1):
        if entries > MAX_ENTRIES:
            raise UsageError(
                f"{source}: a prompt file has at most {MAX_ENTRIES:,} entries, but line {line} begins another one. Take a part of it."
            )
        chat = _chat(entry, f"{source}:{line}")
        if chat is None:
            skipped += 1
            continue
        if chat.prompt_id in seen:
            first, content = seen[chat.prompt_id]
            if content != chat.content:
                raise UsageError(
                    f"{source}:{line}: the id of a prompt must be its own, but `{chat.prompt_id}` stands in line "
                    f"{first} for another text. Give it another `id`."
                )
            skipped += 1
            continue
        seen[chat.prompt_id] = line, chat.content
        chats.append(chat)
    if skipped:
        _log.info("%s: %d of %d entries are left out: no text of a user, or there twice", source, skipped, entries)
    return chats, skipped


def _read(path: Path | None) -> str:
    if path is None:
        return files("search.load").joinpath("data", SHIPPED).read_text(encoding="utf-8")
    try:
        found = path.stat()
        # A device such as /dev/zero never ends, and a pipe nobody writes to never begins.
        if not stat.S_ISREG(found.st_mode) or found.st_size > MAX_BYTES:
            raise UsageError(
                f"{path}: a prompt file must be a regular file of at most {MAX_BYTES >> 20} MiB, but it is "
                f"{f'{found.st_size >> 20} MiB long' if stat.S_ISREG(found.st_mode) else 'none'}. Name such a file."
            )
        return path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        raise UsageError(f"{path}: a prompt file must be UTF-8, but {error}. Convert it.") from error
    except OSError as error:
        raise UsageError(f"{path}: the prompt file cannot be read: {error.strerror}. Correct the path.") from error


def _entries(text: str, source: str) -> Iterator[tuple[int, object]]:
    """Line numbers and JSON values of a JSON array or of JSON lines."""
    if text.lstrip().startswith("["):
        yield from _array(text, source)
        return
    # Not `splitlines`: a JSON string may hold U+2028 and its relatives unescaped.
    for line, row in enumerate(text.split("\n"), start=1):
        if row.strip():
            try:
                yield line, json.loads(row)
            except (ValueError, RecursionError) as error:
                raise UsageError(
                    f"{source}:{line}: every line must be a JSON object, but {error}. Correct it."
                ) from error


def _array(text: str, source: str) -> Iterator[tuple[int, object]]:
    """Values of a JSON array one by one, because each needs its line for messages."""
    decoder = json.JSONDecoder()
    at, line = _skip(text, text.index("[") + 1, ", \t\r\n"), 1
    counted = 0
    while at < len(text) and text[at] != "]":
        line += text.count("\n", counted, at)
        counted = at
        try:
            value, at = decoder.raw_decode(text, at)
        except (ValueError, RecursionError) as error:
            raise UsageError(f"{source}:{line}: the array must be JSON, but {error}. Correct it.") from error
        yield line, value
        at = _skip(text, at, ", \t\r\n")
    if at >= len(text):
        raise UsageError(
            f"{source}: the array must end with `]`, but the file ends before. Copy the file again: it seems to be cut off."
        )


def _skip(text: str, at: int, characters: str) -> int:
    while at < len(text) and text[at] in characters:
        at += 1
    return at


def _chat(entry: object, place: str) -> Chat | None:
    """The chat of one entry; None where it holds no text of a user."""
    if not isinstance(entry, dict):
        raise UsageError(f"{place}: an entry must be a JSON object, but got `{str(entry)[:60]}`. Correct it.")
    body = entry.get("body", entry)
    if not isinstance(body, dict):
        raise UsageError(f"{place}: `body` must be a JSON object, but got `{str(body)[:60]}`. Correct it.")
    name = entry.get("id", entry.get("custom_id"))
    kind = entry.get("kind", "chat")
    tools: tuple[Mapping[str, Any], ...] = ()
    if "messages" in body:
        messages = _messages(body["messages"], place)
        tools = _tools(body.get("tools"), place)
        if not messages:
            return None
        key = json.dumps([messages, tools], sort_keys=True)
    else:
        if "conversations" in body:
            text = _first_human(body["conversations"], place)
            if text is None:
                return None
        else:
            text = body.get("prompt", body.get("text"))
        if not isinstance(text, str) or not text.strip():
            raise UsageError(
                f"{place}: an entry must have a non-empty text under `prompt` or `text`, or turns under `conversations` or "
                f"`messages`, but has {sorted(map(str, body))[:20]}. Add it."
            )
        messages, key = ({"role": "user", "content": text},), text
    _check_text(json.dumps([messages, tools], ensure_ascii=False), place)
    # Derived from the text, so that it survives lines that are added or sorted.
    prompt_id = hashlib.sha256(key.encode()).hexdigest()[:12] if name is None else name
    for word, value in (("kind", kind), ("id", prompt_id)):
        if not isinstance(value, str | int):
            raise UsageError(f"{place}: `{word}` must be a text, but got `{str(value)[:60]}`. Correct it.")
        _check_text(str(value), place)
    return Chat(str(prompt_id), str(kind), messages, tools)


def _check_text(text: str, place: str) -> None:
    if len(text) > MAX_CHARACTERS:
        raise UsageError(
            f"{place}: a prompt has at most {MAX_CHARACTERS:,} characters, but got {len(text):,}. Shorten it or leave it out."
        )
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise UsageError(
            f"{place}: a prompt must be text that UTF-8 can write, but it holds half of a surrogate pair. Correct it."
        ) from error


def _first_human(turns: object, place: str) -> str | None:
    if not isinstance(turns, list):
        raise UsageError(f"{place}: `conversations` must be a list, but got `{str(turns)[:60]}`. Correct it.")
    for turn in turns:
        message: dict[str, Any] = turn if isinstance(turn, dict) else {}
        text = message.get("value", message.get("content"))
        if message.get("from", message.get("role")) in _HUMAN and isinstance(text, str) and text.strip():
            return text
    return None


def _messages(messages: object, place: str) -> tuple[Mapping[str, Any], ...]:
    """Up to the last message that is to be answered; none where it holds no text of a user, or an image, say."""
    if not isinstance(messages, list) or len(messages) > MAX_MESSAGES:
        got = f"{len(messages):,} of them" if isinstance(messages, list) else f"`{str(messages)[:60]}`"
        raise UsageError(f"{place}: `messages` must be a list of at most {MAX_MESSAGES}, but got {got}. Correct it.")
    found: list[Mapping[str, Any]] = []
    for message in messages:
        if not isinstance(message, dict) or message.get("role") not in _ROLES:
            raise UsageError(
                f"{place}: a message must be an object with a `role` of {', '.join(_ROLES)}, but got `{str(message)[:60]}`. Correct it."
            )
        content = message.get("content")
        if isinstance(content, list):
            if any(not isinstance(part, dict) or not isinstance(part.get("text"), str) for part in content):
                return ()
            content = "".join(part["text"] for part in content)
        elif content is not None and not isinstance(content, str):
            raise UsageError(f"{place}: `content` must be a text, but got `{str(content)[:60]}`. Correct it.")
        found.append({**message, "content": content})
    while found and found[-1]["role"] == "assistant":
        found.pop()
    asked = any(one["role"] == "user" and (one["content"] or "").strip() for one in found)
    return tuple(found) if asked else ()


def _tools(tools: object, place: str) -> tuple[Mapping[str, Any], ...]:
    if tools is None:
        return ()
    if not isinstance(tools, list) or any(not isinstance(tool, dict) for tool in tools):
        raise UsageError(f"{place}: `tools` must be a list of objects, but got `{str(tools)[:60]}`. Correct it.")
    return tuple(tools)
