"""Keeps secrets out of everything that is saved: scripts, read-backs, evidence."""

from __future__ import annotations

import re
from typing import Any

MASK = "***"

_SECRET_WORDS = frozenset(
    {"apikey", "credential", "credentials", "passphrase", "passwd", "password", "pwd", "secret", "secrets"}
)
_SECRET_LAST_WORDS = frozenset({"auth", "authorization", "cookie", "key", "token"})
"""Secret only as the last word: `HF_TOKEN` is one, `speculative_token_map` is not."""

_SECRET_VALUES = re.compile(
    r"\b(?:hf_[A-Za-z0-9]{16,}|sk-[A-Za-z0-9_-]{16,}|ghp_[A-Za-z0-9]{16,}|AKIA[A-Z0-9]{16})\b"
    r"|(?<=://)[^\s/@:]+:[^\s/@]+(?=@)"
    r"|(?<=\bBearer )\S+"
)
_NAMED_VALUES = re.compile(
    r"(?P<name>[A-Za-z0-9_-]*?(?:api[_-]?key|passw(?:or)?d|secret)[A-Za-z0-9_-]*)"
    r"(?P<between>[\"']?\s*[=:]\s*[\"']?|\s+)"
    r"(?P<value>[^\s\"',)]+)",
    re.IGNORECASE,
)


def is_secret_name(name: str) -> bool:
    """Whether the value of a variable, flag or field of this name must not be saved."""
    words = re.split(r"[_\-.\s]+", re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name.lstrip("-")).lower())
    return not _SECRET_WORDS.isdisjoint(words) or words[-1] in _SECRET_LAST_WORDS


def mask_text(text: str) -> str:
    """Mask what looks like a secret inside free text, such as a log line or a command line."""

    def named(match: re.Match[str]) -> str:
        if match["value"] in {"None", "null", "***"} or (
            match["between"].isspace() and not match["name"].startswith("-")
        ):
            return match[0]
        return f"{match['name']}{match['between']}{MASK}"

    return _NAMED_VALUES.sub(named, _SECRET_VALUES.sub(MASK, text))


def mask_pair(name: str, value: str) -> str:
    """Return `value`, masked if its name or its look tells a secret."""
    return MASK if value and is_secret_name(name) else mask_text(value)


def mask_words(words: tuple[str, ...]) -> tuple[str, ...]:
    """Mask an argument list: values behind `--api-key` and the like, in both spellings."""
    masked: list[str] = []
    hide_next = False
    for word in words:
        flag, equals, _ = word.partition("=")
        secret = flag.startswith("--") and is_secret_name(flag)
        if hide_next and not word.startswith("--"):
            masked.append(MASK)
        elif secret and equals:
            masked.append(f"{flag}={MASK}")
        else:
            masked.append(mask_text(word))
        hide_next = secret and not equals
    return tuple(masked)


def mask_tree(value: Any, name: str = "") -> Any:
    """Mask a JSON value at any depth; numbers, booleans and null are left alone."""
    match value:
        case dict():
            return {key: mask_tree(inner, str(key)) for key, inner in value.items()}
        case list():
            return [mask_tree(inner, name) for inner in value]
        case str():
            return mask_pair(name, value)
        case _:
            return value
