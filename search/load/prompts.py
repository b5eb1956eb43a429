"""Prompt sets: the shipped one or the user's own, split into search and held-out prompts."""

from __future__ import annotations

import hashlib
import json
import logging
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from search.errors import UsageError
from search.load.chat_template import ChatTemplate
from search.load.guards import prompt_warnings
from search.load.readers import SHIPPED, Chat, read_chats
from search.load.target import Prompt

_log = logging.getLogger(__name__)

HOLD_OUT_EVERY = 4

PLACEHOLDER = "{prompt}"


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


def load_prompts(
    path: Path | None = None,
    *,
    template: str | None = None,
    kinds: Collection[str] | None = None,
    chat: ChatTemplate | None = None,
    thinking: bool | None = None,
) -> PromptSet:
    """Read prompts, apply the template, and split them; equal input gives an equal set.

    What a person should know of them (random tokens, say) is logged as a warning.

    Args:
        path: See `read_chats` for its forms. None for the set shipped with this project.
        template: Text around each prompt; `{prompt}` stands for the prompt.
        kinds: Keep only these; None for all.
        chat: The model's own chat template, in place of `template`.
        thinking: Told to the chat template; None leaves the model's own habit.

    Raises:
        UsageError: The file cannot be read or used, with file and line; or the template or kinds
            do not fit.
    """
    if template is not None and PLACEHOLDER not in template:
        raise UsageError(f"A prompt template must contain `{PLACEHOLDER}`, but got `{template[:80]}`. Add it.")
    source = str(path) if path else SHIPPED
    chats, skipped = read_chats(path)
    if kinds is not None:
        known = sorted({one.kind for one in chats})
        if unknown := sorted(set(kinds) - set(known)):
            raise UsageError(f"{source}: prompt kinds must be among {known}, but got {unknown}. Correct the kinds.")
        chats = [one for one in chats if one.kind in kinds]
    if not chats:
        raise UsageError(f"{source}: a prompt file must hold at least one prompt, but got none. Add prompts.")
    texts = [_plain(one, source) for one in chats] if chat is None else chat.render(chats, thinking=thinking)
    prompts = [Prompt(one.prompt_id, one.kind, text) for one, text in zip(chats, texts, strict=True)]
    for warning in prompt_warnings(prompts):
        _log.warning("%s: %s", source, warning)
    if template is not None and chat is None:
        prompts = [Prompt(p.prompt_id, p.kind, template.replace(PLACEHOLDER, p.text)) for p in prompts]
    search, held_out = _split(prompts)
    return PromptSet(search, held_out, prompts_sha256(prompts), skipped)


def _plain(chat: Chat, source: str) -> str:
    if chat.plain is None:
        raise UsageError(
            f"{source}: a chat of several messages, or with tools, needs the target's own template, but prompt "
            f"`{chat.prompt_id[:60]}` is one and the template is a text. Write `template: chat`."
        )
    return chat.plain


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
