"""Keeps secrets out of everything that is saved or shown: one filter, at every sink.

What may be written is listed, not what may not: a variable is shown with its value only where its name is
known to be harmless. Free text, such as a log line, cannot be held to a list; there known values are
replaced wherever they stand (`Masker`), and what looks like a secret by its name, shape or place.
"""

from __future__ import annotations

import html
import json
import re
import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import count
from typing import Any
from urllib.parse import quote

MASK = "***"

_HARMLESS_PREFIXES = (
    "CUBLAS_", "CUDA_", "CUDNN_", "FLASHINFER_", "GLOO_", "MKL_", "NCCL_", "NUMEXPR_", "NVIDIA_", "NVSHMEM_", "OMP_",
    "OPENBLAS_", "PYTORCH_", "SGLANG_", "SGL_", "TORCH", "TRITON_", "TVM_", "UCX_", "VLLM_", "XLA_",
)  # fmt: skip
_HARMLESS_NAMES = frozenset(
    {
        "CC", "CXX", "HF_DATASETS_OFFLINE", "HF_HOME", "HF_HUB_CACHE", "HF_HUB_OFFLINE", "HOME", "LANG", "LC_ALL",
        "LD_LIBRARY_PATH", "LD_PRELOAD", "PATH", "PYTHONHASHSEED", "PYTHONPATH", "PYTHONUNBUFFERED", "SPT_NOENV", "TMPDIR",
        "TOKENIZERS_PARALLELISM", "TRANSFORMERS_OFFLINE", "TZ", "XDG_CACHE_HOME",
    }
)  # fmt: skip

_SECRET_WORDS = frozenset({"credential", "credentials", "pass", "passphrase", "pwd", "secret", "secrets"})
_SECRET_ENDINGS = ("apikey", "passwd", "password", "secret", "sshpass")
_SECRET_LAST_WORDS = frozenset({"auth", "authorization", "cookie", "key", "keys", "pat", "token", "webhook"})
"""Secret only as the last word: `HF_TOKEN` is one, `speculative_token_map` is not."""

_SECRET_VALUES = re.compile(
    r"\b(?:hf_[A-Za-z0-9]{16,}|sk-[A-Za-z0-9_-]{16,}|gh[opsu]_[A-Za-z0-9]{16,}|glpat-[A-Za-z0-9_-]{16,}|AKIA[A-Z0-9]{16}"
    r"|xox[abprs]-[A-Za-z0-9-]{10,}|eyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]+)"
    r"|(?<=\bBearer )\S+|(?<=\bBasic )[A-Za-z0-9+/=]{8,}"
)
_URL = re.compile(r"(?P<scheme>\b[A-Za-z][A-Za-z0-9+.-]{0,30}://)(?P<rest>[^\s\"'<>]+)")
_OPAQUE = re.compile(r"(?=[A-Za-z0-9_-]*\d)(?=[A-Za-z0-9_-]*[A-Za-z])[A-Za-z0-9_-]{16,}")
"""A path segment that no person chose: webhooks carry their secret there."""
_VALUE = r"(?P<value>\"[^\"\n]*\"|'[^'\n]*'|[^\s\"',;)}\]]+)"
_NAMED = re.compile(
    r"(?P<name>(?<![A-Za-z0-9_.-])-{0,2}[A-Za-z_][A-Za-z0-9_.-]*)(?P<between>[\"']?\s*[=:]\s*)" + _VALUE
)
_FLAGGED = re.compile(r"(?P<name>(?<!\S)--[A-Za-z][A-Za-z0-9_.-]*)(?P<between>\s+)(?!-)" + _VALUE)
_NO_SECRET = re.compile(r"None|null|true|false|True|False|Bearer|Basic|\d{1,6}|<[^>]*>|\*\*\*|")
_ASSIGNED = re.compile(r"(?P<before>(?:--?[A-Za-z-]+=)?)(?P<name>[A-Za-z_][A-Za-z0-9_]*)=(?P<value>.*)", re.DOTALL)
_PASSWORD_FLAG = {"sshpass": "-p", "curl": "-u"}
_ESCAPES = re.compile(
    r"\x1b\[[0-?]*[ -/]*[@-~]"  # CSI: colours, cursor
    r"|\x1b[\]PX^_].*?(?:\x07|\x1b\\|$)"  # OSC, DCS and their like: titles, links, clipboards
    r"|\x1b[ -/]*[0-~]?|\x9b[0-?]*[ -/]*[@-~]",
    re.DOTALL,
)
_PASSWORD_IN_URL = re.compile(r"://[^\s/@:]*:([^\s/@]+)@")
_DIRECTORIES = frozenset({"PWD", "OLDPWD"})
"""Of the shell: where a process runs, and no password."""
_LONGEST_READ = 2000
_SHORTEST = 4
"""Characters of a known secret that is replaced wherever it stands; a shorter one would mask words by chance."""


def is_secret_name(name: str) -> bool:
    """Whether the value of a variable, flag or field of this name must not be saved."""
    words = re.split(r"[_\-.\s]+", re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name.strip("-")).lower())
    while len(words) > 1 and words[-1].isdigit():
        words.pop()
    return (
        not _SECRET_WORDS.isdisjoint(words)
        or words[-1] in _SECRET_LAST_WORDS
        or any(word.endswith(_SECRET_ENDINGS) for word in words)
    )


def is_harmless(name: str, value: str = "") -> bool:
    """Whether an environment variable may be saved with its value: known by name, and nothing secret in its value."""
    known = name in _HARMLESS_NAMES or name.startswith(_HARMLESS_PREFIXES)
    return known and not is_secret_name(name) and mask_text(value) == value


def hidden_in(text: str) -> tuple[str, ...]:
    """What `mask_text` hides of a short text, in order; nothing of one that is longer than `_LONGEST_READ` characters."""
    if len(text) > _LONGEST_READ or (masked := mask_text(text)) == text:
        return ()
    around = re.fullmatch("(.*?)".join(map(re.escape, masked.split(MASK))), text, re.DOTALL)
    found = around.groups() if around else ()
    return tuple(secret for secret in found if not _NO_SECRET.fullmatch(secret))


def without_escapes(text: str) -> str:
    """Text without terminal escape sequences, each removed whole."""
    return _ESCAPES.sub("", text)


def mask_text(text: str) -> str:
    """Mask what looks like a secret inside free text, such as a log line or a command line."""
    text = _URL.sub(_url, _SECRET_VALUES.sub(MASK, text))
    return _FLAGGED.sub(_named, _NAMED.sub(_named, text))


def mask_variable(name: str, value: str) -> str:
    """The value of an environment variable if its name is harmless, `***` if not."""
    return value if is_harmless(name, value) else MASK


def mask_words(words: Sequence[str]) -> tuple[str, ...]:
    """Mask an argument list: assignments of variables that are not harmless, and values of secret flags."""
    return tuple(MASK.join(parts) for parts in _parted(words))


def script_words(words: Sequence[str]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """An argument list for a saved shell script that must not hold its secrets.

    Returns:
        The words, quoted, each secret replaced by a variable that is read when the script runs; and the names
        of these variables, in order, for the script to ask for.
    """
    values: dict[str, str] = {}
    quoted: list[str] = []
    for word, parts in zip(words, _parted(words), strict=True):
        if len(parts) == 1:
            quoted.append(shlex.quote(parts[0]))
            continue
        secret = _between(word, parts)
        wanted = _variable(word, parts[0], quoted[-1] if quoted else "")
        candidates = (wanted if place == 1 else f"{wanted}_{place}" for place in count(1))
        name = next(one for one in candidates if values.get(one, secret) == secret)
        values[name] = secret
        quoted.append(f'"${name}"'.join(shlex.quote(part) if part else "" for part in parts))
    return tuple(quoted), tuple(values)


class Masker:
    """Masks the values of known secrets wherever they stand, and whatever looks like one.

    Args:
        secrets: Known values; short ones are left to the look of their place.
    """

    def __init__(self, secrets: Iterable[str] = ()) -> None:
        known = {form for one in secrets if len(one) >= _SHORTEST for form in _forms(one)}
        self.secrets = tuple(sorted(known, key=len, reverse=True))

    @classmethod
    def of(
        cls, *, env: Mapping[str, str], words: Sequence[str] = (), inherited: Mapping[str, str] | None = None
    ) -> Masker:
        """Knows what one launch is given.

        Args:
            env: Variables that the study sets: all that are not harmless are secrets.
            words: Arguments put before or sent to the server.
            inherited: The process's own environment, where only secret names count.
        """
        values = [value for name, value in env.items() if not is_harmless(name, value)]
        values += [
            value for name, value in (inherited or {}).items() if is_secret_name(name) and name not in _DIRECTORIES
        ]
        values += _values(words)
        values += [match[1] for value in tuple(values) for match in _PASSWORD_IN_URL.finditer(value)]
        return cls(value for value in values if not _NO_SECRET.fullmatch(value))

    def text(self, text: str) -> str:
        """Free text with every secret masked."""
        for secret in self.secrets:
            text = text.replace(secret, MASK)
        return mask_text(text)

    def known(self, text: str) -> str:
        """Text with a syntax of its own, such as a script or a page: known secrets and those by shape masked.

        Not those by their place, as in `text`: `"$HF_TOKEN"` of a script names a secret and is none.
        """
        for secret in self.secrets:
            text = text.replace(secret, MASK)
        return _SECRET_VALUES.sub(MASK, text)

    def own_text(self, text: str) -> str:
        """Text of our own making for a terminal: known secrets masked, and what is one by its shape alone.

        Not by its place, as in `text`: our own sentences say `keys: …` of no secret. Escape sequences and control
        characters, which foreign names may bring along, go; line breaks and tabs stay.
        """
        for secret in self.secrets:
            text = text.replace(secret, MASK)
        text = _URL.sub(_url, _SECRET_VALUES.sub(MASK, without_escapes(text)))
        return "".join(char for char in text if char.isprintable() or char in "\n\t")

    def tree(self, value: Any, name: str = "") -> Any:
        """A JSON value masked at any depth, keys by their names; numbers, booleans and null are not touched."""
        match value:
            case dict():
                return {self.text(str(key)): self.tree(inner, str(key)) for key, inner in value.items()}
            case list() | tuple():
                return [self.tree(inner, name) for inner in value]
            case str():
                return MASK if value and is_secret_name(name) else self.text(value)
            case _:
                return value


def _forms(secret: str) -> tuple[str, ...]:
    """A secret as it may be written: plain, or escaped by Python, JSON, a shell, a URL or HTML."""
    quoted = (
        secret,
        repr(secret)[1:-1],
        json.dumps(secret)[1:-1],
        shlex.quote(secret),
        quote(secret),
        quote(secret, ""),
    )
    return (*quoted, html.escape(secret))


def _named(match: re.Match[str]) -> str:
    name, between, value = match["name"], match["between"], match["value"]
    if not is_secret_name(name) or _NO_SECRET.fullmatch(value.strip("\"'")):
        return match[0]
    quote = value[0] if value[0] in "\"'" else ""
    return f"{name}{between}{quote}{MASK}{quote}"


def _url(match: re.Match[str]) -> str:
    rest = match["rest"]
    authority, slash, path = rest.partition("/")
    if "@" in authority:
        authority = f"{MASK}@{authority.rpartition('@')[2]}"
    path, question, query = path.partition("?")
    path = "/".join(MASK if _OPAQUE.fullmatch(segment) else segment for segment in path.split("/"))
    query = "&".join(_pair(*pair.partition("=")) for pair in query.split("&"))
    return f"{match['scheme']}{authority}{slash}{path}{question}{query}"


def _pair(name: str, equals: str, value: str) -> str:
    return f"{name}{equals}{MASK if value and is_secret_name(name) else value}"


def _parted(words: Sequence[str]) -> Iterator[tuple[str, ...]]:
    """Each word as the parts around its secret: one part where there is none."""
    program, hide_next = "", False
    for word in words:
        flag, equals, _ = word.partition("=")
        assigned = _ASSIGNED.fullmatch(word)
        if hide_next and not word.startswith("--"):
            yield "", ""
        elif word.startswith("--") and equals and is_secret_name(flag):
            yield f"{flag}=", ""
        elif assigned is not None and assigned["value"] and not is_harmless(assigned["name"], assigned["value"]):
            yield f"{assigned['before']}{assigned['name']}=", ""
        elif (masked := mask_text(word)) != word:
            yield tuple(masked.split(MASK)) if masked.count(MASK) == 1 and MASK not in word else ("", "")
        else:
            yield (word,)
        program = word.rpartition("/")[2] if word.rpartition("/")[2] in _PASSWORD_FLAG else program
        hide_next = (word.startswith("--") and not equals and is_secret_name(flag)) or (
            word == _PASSWORD_FLAG.get(program)
        )


def _values(words: Sequence[str]) -> Iterator[str]:
    """The secrets inside an argument list."""
    for word, parts in zip(words, _parted(words), strict=True):
        if len(parts) == 2:
            yield _between(word, parts)


def _between(word: str, parts: Sequence[str]) -> str:
    return word[len(parts[0]) : len(word) - len(parts[1])]


def _variable(word: str, before: str, flag: str) -> str:
    """Name of the variable that a script reads a secret from."""
    named = re.search(r"([A-Za-z_][A-Za-z0-9_-]*)=$", before) or re.fullmatch(r"--([a-z][a-z0-9-]*)", flag)
    name = named[1] if named and not word.startswith(("http", "redis")) else "SECRET"
    return re.sub(r"[^A-Za-z0-9]", "_", name).upper()
