"""A pasted launch command, as people have it: from a guide, a shell history or a systemd unit."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from typing import Final

from search.deployment import ArgValue
from search.dialects import Dialect, flag_names
from search.errors import UsageError

_VARIABLE: Final = re.compile(r"[A-Za-z_]\w*=.*", re.DOTALL)
_NEXT_LINE: Final = re.compile(r"\\[ \t]*\n")
_REFERENCE: Final = re.compile(r"\$(?:\{(?P<braced>\w+)(?::?-(?P<default>[^}]*))?\}|(?P<plain>[A-Za-z_]\w*))")
_BLANK: Final = re.compile(_REFERENCE.pattern + r"|\{\{\s*\w+\s*\}\}")
_WITHOUT_MEANING: Final = ("host", "port", "log-level", "api-key", "served-model-name")
"""Flags that a search sets itself, or that change no number."""
_TREE: Final = {
    "speculative-eagle-topk": "topk",
    "speculative-num-steps": "num_steps",
    "speculative-num-draft-tokens": "num_draft_tokens",
    "speculative-dflash-block-size": "num_draft_tokens",
    "speculative-ngram-max-bfs-breadth": "topk",
    "speculative-ngram-max-trie-depth": "num_steps",
    "speculative-ngram-branch-length": "num_steps",
}


@dataclass(frozen=True, slots=True)
class LaunchCommand:
    """What a command says.

    Attributes:
        model: Of the target.
        draft: Of the draft; empty without one.
        algorithm: As written, in capitals; empty without speculation.
        tp: Tensor parallel size.
        trust_remote_code: Whether it is given.
        max_running_requests: None where it is not.
        numbers: Of the tree's three those that are given.
        synchronous: Whether the overlap schedule is disabled.
        fusion: `off`, `auto` or a backend of all-reduce fusion; empty where nothing says.
        env: Variables set in front of it.
        server_args: All other flags.
        dropped: Flags that a search sets itself.
        python: The interpreter, where one is named by its path.
    """

    model: str
    draft: str = ""
    algorithm: str = ""
    tp: int = 1
    trust_remote_code: bool = False
    max_running_requests: int | None = None
    numbers: Mapping[str, int] = field(default_factory=dict)
    synchronous: bool = False
    fusion: str = ""
    env: Mapping[str, str] = field(default_factory=dict)
    server_args: Mapping[str, ArgValue] = field(default_factory=dict)
    dropped: tuple[str, ...] = ()
    python: str = ""


def read_command(text: str, dialect: Dialect) -> LaunchCommand:
    """Read a command of `python -m sglang.launch_server` or `sglang serve`.

    Variables may stand in front of it, exported, as `-e NAME=VALUE` of a container or as `Environment=` of a systemd
    unit; its own line there begins with `ExecStart=`.

    Args:
        text: As pasted; lines may be continued.
        dialect: Of the release, whose flags may be abbreviated as its parser allows.

    Raises:
        UsageError: No SGLang command is in it, or a flag is unknown, ambiguous or lacks its value.
    """
    words = _words(text)
    start, python = _entry(words)
    env = dict(word.partition("=")[::2] for word in words[:start] if _VARIABLE.fullmatch(word))
    given = dict(_flags([_filled(word, env) for word in words[start:]], dialect))
    _complete(given)
    return _read(given, {name: value for name, value in env.items() if name != "PYTHONPATH"}, python)


def _filled(word: str, env: Mapping[str, str]) -> str:
    """A word with the variables that the command itself sets; others stay as they are, `${NAME:-VALUE}` apart."""

    def value(match: re.Match[str]) -> str:
        return env.get(
            match["braced"] or match["plain"], match["default"] if match["default"] is not None else match[0]
        )

    return _REFERENCE.sub(value, word)


def _complete(given: Mapping[str, ArgValue]) -> None:
    """Refuse a template: nothing says what stands there.

    Raises:
        UsageError: A flag that matters holds a variable that the command does not set, or a blank to be filled in.
    """
    for name, value in given.items():
        words = value if isinstance(value, tuple) else (value,)
        found = next((match[0] for word in words if (match := _BLANK.search(str(word)))), None)
        if found is not None and name not in _WITHOUT_MEANING:
            raise UsageError(
                f"A launch command says all that it launches, but `--{name}` holds `{found}`, which nothing in it sets. Write "
                "its value there, or set it in front of the command."
            )


def _words(text: str) -> list[str]:
    lines = []
    for line in _NEXT_LINE.sub(" ", text.replace("\r", "")).splitlines():
        bare = line.strip().removeprefix("$ ")
        for key in ("ExecStart=", "Environment=", "export "):
            bare = bare.removeprefix(key)
        if bare and not bare.startswith(("#", "[", ";")):
            lines.append(bare)
    try:
        return [word for line in lines for word in shlex.split(line, comments=True)]
    except ValueError as error:
        raise UsageError(
            f"A launch command is read as a shell reads it, but this one is not whole: {error}."
        ) from error


def _entry(words: Sequence[str]) -> tuple[int, str]:
    """Where the flags begin, and the interpreter's path."""
    for at, word in enumerate(words):
        if word in ("sglang.launch_server", "sglang.srt.entrypoints.http_server") and words[at - 1 : at] == ["-m"]:
            python = words[at - 2] if at >= 2 else ""
            return at + 1, python if "/" in python else ""
        if word == "serve" and at and words[at - 1].rpartition("/")[2] == "sglang":
            return at + 1, ""
        if word.endswith("launch_server.py"):
            return at + 1, ""
    raise UsageError(
        "A launch command holds `python -m sglang.launch_server` or `sglang serve`, but neither is in it. Paste the whole "
        "command, from its variables to its last flag."
    )


def _flags(words: Sequence[str], dialect: Dialect) -> Iterator[tuple[str, ArgValue]]:
    known = flag_names(dialect)
    at = 0
    while at < len(words):
        word = words[at]
        at += 1
        if _ends(word):
            return
        if not word.startswith("--"):
            if at == 1:  # `sglang serve MODEL`
                yield "model-path", word
                continue
            raise UsageError(f"A flag begins with `--`, but got {word!r} where one should stand. Correct the command.")
        name, equals, value = word[2:].partition("=")
        name = _whole_name(name.replace("_", "-"), known, dialect.releases[-1])
        if known[name]:  # a switch
            yield name, True
            continue
        values = [value] if equals else []
        while not equals and at < len(words) and not words[at].startswith("--") and not _ends(words[at]):
            values.append(words[at])
            at += 1
        if not values:
            raise UsageError(f"`--{name}` takes a value, but none stands behind it. Correct the command.")
        yield name, _typed(values[0]) if len(values) == 1 else tuple(map(_typed, values))


def _ends(word: str) -> bool:
    """Whether the shell's own words begin: a redirection, or another command."""
    return word in ("&", "&&", ";", "|", "||") or word.startswith((">", "2>", "&>", "<"))


def _whole_name(name: str, known: Mapping[str, bool], release: str) -> str:
    """A flag as its parser takes it: whole, or the one flag that begins so."""
    if name in known:
        return name
    longer = [flag for flag in known if flag.startswith(name)]
    if len(longer) == 1:
        return longer[0]
    near = get_close_matches(name, known, n=1, cutoff=0.6)
    hint = f" Did you mean `--{near[0]}`?" if near else ""
    meant = (
        f"it could be {', '.join(f'--{flag}' for flag in longer)}."
        if longer
        else f"SGLang {release} has no such flag.{hint}"
    )
    raise UsageError(
        f"A flag is one of the release's own, but got `--{name}`: {meant} Correct it, or name another release."
    )


def _typed(word: str) -> str | int | float:
    for kind in (int, float):
        try:
            return kind(word)
        except ValueError:
            continue
    return word


def _read(given: Mapping[str, ArgValue], env: Mapping[str, str], python: str) -> LaunchCommand:
    rest = dict(given)

    def take(*names: str) -> ArgValue | None:
        return next((value for value in [rest.pop(name, None) for name in names] if value is not None), None)

    model = take("model-path", "model")
    if model is None:
        raise UsageError("A launch command names its model with `--model-path`, but this one does not. Paste it whole.")
    numbers = _tree({flag: value for flag in _TREE if (value := take(flag)) is not None})
    limit = take("max-running-requests")
    synchronous = bool(take("disable-overlap-schedule"))
    off = take("enforce-disable-flashinfer-allreduce-fusion")
    named, plain = take("flashinfer-allreduce-fusion-backend"), take("enable-flashinfer-allreduce-fusion")
    return LaunchCommand(
        model=str(model),
        draft=str(take("speculative-draft-model-path", "speculative-draft-model") or ""),
        algorithm=str(take("speculative-algorithm") or "").upper(),
        tp=_whole("tp-size", take("tp-size", "tp", "tensor-parallel-size") or 1),
        trust_remote_code=bool(take("trust-remote-code")),
        max_running_requests=None if limit is None else _whole("max-running-requests", limit),
        numbers=numbers,
        synchronous=synchronous,
        fusion="off" if off else str(named) if named else "auto" if plain else "",
        env=env,
        dropped=tuple(name for name in _WITHOUT_MEANING if rest.pop(name, None) is not None),
        server_args=rest,
        python=python,
    )


def _tree(given: Mapping[str, ArgValue]) -> dict[str, int]:
    """The tree's numbers under the names of the knobs.

    Raises:
        UsageError: One is no whole number, or two flags of one number differ.
    """
    numbers: dict[str, int] = {}
    for flag, value in given.items():
        number = _whole(flag, value)
        if numbers.setdefault(_TREE[flag], number) != number:
            raise UsageError(
                f"Flags of one number agree, but `--{flag}` is {number} and another one is {numbers[_TREE[flag]]}. Remove one."
            )
    return numbers


def _whole(flag: str, value: ArgValue) -> int:
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    raise UsageError(f"`--{flag}` takes a whole number, but got {value!r}. Correct the command.")
