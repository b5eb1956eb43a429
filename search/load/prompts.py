"""Prompt sets: the shipped one or the user's own, split into search and held-out prompts."""

from __future__ import annotations

import hashlib
import json
import logging
import stat
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any

from search.errors import UsageError
from search.load.guards import prompt_warnings
from search.load.target import Prompt

_log = logging.getLogger(__name__)

HOLD_OUT_EVERY = 4
MAX_BYTES = 2**30
"""Of a prompt file; the whole of ShareGPT has two thirds of it."""

PLACEHOLDER = "{prompt}"

_SHIPPED = "prompts.jsonl"
_HUMAN = ("human", "user")


@dataclass(frozen=True, slots=True)
class PromptSet:
    """The prompts of a study, in the order in which every config gets them.

    Attributes:
        search: For everything but confirmation.
        held_out: For confirmation: every fourth prompt of each kind. Equal to `search` only when
            there is a single prompt.
        sha256: Over ids, kinds and texts as sent, template applied; part of the study's fingerprint.
        skipped: Conversations of the file without a human turn, and prompts that stand in it twice.
    """

    search: tuple[Prompt, ...]
    held_out: tuple[Prompt, ...]
    sha256: str
    skipped: int = 0

    def chosen(self, *, held_out: bool) -> tuple[Prompt, ...]:
        """The prompts for a phase; a phase that needs more than there are cycles them."""
        return self.held_out if held_out else self.search


def load_prompts(
    path: Path | None = None, *, template: str | None = None, kinds: Collection[str] | None = None
) -> PromptSet:
    """Read prompts, apply the template, and split them; equal input gives an equal set.

    What a person should know of them (random tokens, say) is logged as a warning.

    Args:
        path: JSON lines (`{"prompt": …}` or `{"text": …}`, with `id` and `kind` if wanted), or
            ShareGPT conversations as a JSON array or as lines (the first human turn is used).
            None for the set shipped with this project.
        template: Text around each prompt, such as the model's chat template; `{prompt}` stands
            for the prompt.
        kinds: Keep only these; None for all.

    Raises:
        UsageError: The file cannot be read or used, with file and line; or the template or kinds
            do not fit.
    """
    if template is not None and PLACEHOLDER not in template:
        raise UsageError(f"A prompt template must contain `{PLACEHOLDER}`, but got `{template[:80]}`. Add it.")
    source = str(path) if path else _SHIPPED
    prompts: list[Prompt] = []
    seen: dict[str, tuple[int, str]] = {}
    skipped = 0
    for line, entry in _entries(_read(path), source):
        prompt = _prompt(entry, f"{source}:{line}")
        if prompt is None:
            skipped += 1
            continue
        first, text = seen.setdefault(prompt.prompt_id, (line, prompt.text))
        if first != line:
            if text != prompt.text:
                raise UsageError(
                    f"{source}:{line}: the id of a prompt must be its own, but `{prompt.prompt_id}` stands in line "
                    f"{first} for another text. Give it another `id`."
                )
            skipped += 1
            continue
        prompts.append(prompt)
    if kinds is not None:
        known = sorted({prompt.kind for prompt in prompts})
        if unknown := sorted(set(kinds) - set(known)):
            raise UsageError(f"{source}: prompt kinds must be among {known}, but got {unknown}. Correct the kinds.")
        prompts = [prompt for prompt in prompts if prompt.kind in kinds]
    if not prompts:
        raise UsageError(f"{source}: a prompt file must hold at least one prompt, but got none. Add prompts.")
    for warning in prompt_warnings(prompts):
        _log.warning("%s: %s", source, warning)
    if template is not None:
        prompts = [Prompt(p.prompt_id, p.kind, template.replace(PLACEHOLDER, p.text)) for p in prompts]
    search, held_out = _split(prompts)
    return PromptSet(search, held_out, prompts_sha256(prompts), skipped)


def _read(path: Path | None) -> str:
    if path is None:
        return files("search.load").joinpath("data", _SHIPPED).read_text(encoding="utf-8")
    try:
        found = path.stat()
        # A device such as /dev/zero never ends, and a pipe nobody writes to never begins.
        if not stat.S_ISREG(found.st_mode) or found.st_size > MAX_BYTES:
            raise UsageError(
                f"{path}: a prompt file must be a regular file of at most {MAX_BYTES >> 20} MiB, but it is "
                f"{f'{found.st_size >> 20} MiB long' if stat.S_ISREG(found.st_mode) else 'none'}. Name such a file."
            )
        return path.read_text(encoding="utf-8")
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
            except ValueError as error:
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
        except ValueError as error:
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


def _prompt(entry: object, place: str) -> Prompt | None:
    """The prompt of one entry; None for a conversation without a human turn."""
    if not isinstance(entry, dict):
        raise UsageError(f"{place}: an entry must be a JSON object, but got `{str(entry)[:60]}`. Correct it.")
    if "conversations" in entry:
        text = _first_human(entry["conversations"], place)
        if text is None:
            return None
    else:
        text = entry.get("prompt", entry.get("text"))
    if not isinstance(text, str) or not text.strip():
        raise UsageError(
            f"{place}: an entry must have a non-empty text under `prompt`, `text` or `conversations`, "
            f"but has {sorted(map(str, entry))}. Add it."
        )
    kind = entry.get("kind", "chat")
    # Derived from the text, so that it survives lines that are added or sorted.
    prompt_id = entry.get("id", hashlib.sha256(text.encode()).hexdigest()[:12])
    for name, value in (("kind", kind), ("id", prompt_id)):
        if not isinstance(value, str | int):
            raise UsageError(f"{place}: `{name}` must be a text, but got `{str(value)[:60]}`. Correct it.")
    return Prompt(str(prompt_id), str(kind), text)


def _first_human(turns: object, place: str) -> str | None:
    if not isinstance(turns, list):
        raise UsageError(f"{place}: `conversations` must be a list, but got `{str(turns)[:60]}`. Correct it.")
    for turn in turns:
        message: dict[str, Any] = turn if isinstance(turn, dict) else {}
        text = message.get("value", message.get("content"))
        if message.get("from", message.get("role")) in _HUMAN and isinstance(text, str) and text.strip():
            return text
    return None


def _split(prompts: Sequence[Prompt]) -> tuple[tuple[Prompt, ...], tuple[Prompt, ...]]:
    """Every fourth prompt of each kind is held out, at least one of all if there are two."""
    seen: dict[str, int] = {}
    search: list[Prompt] = []
    held_out: list[Prompt] = []
    for prompt in prompts:
        seen[prompt.kind] = seen.get(prompt.kind, 0) + 1
        (search if seen[prompt.kind] % HOLD_OUT_EVERY else held_out).append(prompt)
    if not held_out:
        held_out = [search.pop()] if len(search) > 1 else list(search)
    return tuple(search), tuple(held_out)


def prompts_sha256(prompts: Iterable[Prompt]) -> str:
    """Over ids, kinds and texts as sent, in order."""
    digest = hashlib.sha256()
    for prompt in prompts:
        digest.update(json.dumps([prompt.prompt_id, prompt.kind, prompt.text]).encode() + b"\n")
    return digest.hexdigest()
