"""The study file as data for a database or a recording: what it was, without its secrets."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from search.masking import MASK, Masker, hidden_in, is_secret_name, mask_variable, mask_words
from search.spec.served import EngineSpec
from search.spec.study import StudySpec


def masker_of(engine: EngineSpec, *, inherited: Mapping[str, str] | None = None) -> Masker:
    """Knows every secret that a study gives its servers.

    Args:
        engine: Its variables, prefix and arguments.
        inherited: The environment of this process; variables with secret names count.
    """
    named = {name: str(value) for name, value in engine.server_args.items() if is_secret_name(name)}
    known = Masker.of(env=engine.env, words=engine.prefix, inherited=inherited)
    return Masker((*known.secrets, *named.values()))


def stored_spec(spec: StudySpec) -> dict[str, object]:
    """The study file as JSON-able data; of variables that are not known to be harmless, the names alone."""
    second = masker_of(spec.escalated().engine).secrets if spec.escalation is not None else ()
    return without_secrets(spec.model_dump(mode="json"), Masker((*masker_of(spec.engine).secrets, *second)))


def without_secrets(data: Mapping[str, Any], masker: Masker) -> dict[str, object]:
    """The data of a study file, one of an earlier version too, as `stored_spec` writes it.

    Args:
        data: JSON-able.
        masker: Knows its secrets.
    """
    masked: dict[str, object] = masker.tree(dict(data))
    for name in ("engine", "serving"):
        if isinstance(part := data.get(name), Mapping):
            masked[name] = _engine(part, masker)
    second = data.get("escalation")
    if isinstance(second, Mapping) and isinstance(part := second.get("engine"), Mapping):
        # What it changes is as secret as what the study has itself.
        masked["escalation"] = {**masker.tree(dict(second)), "engine": _engine(part, masker)}
    return masked


def secrets_of(data: Mapping[str, Any]) -> tuple[str, ...]:
    """The secrets that the data of a study file holds in plain text, as versions before the masking stored it."""
    second = data.get("escalation")
    parts = [data.get("engine"), data.get("serving"), second.get("engine") if isinstance(second, Mapping) else None]
    found = [secret for part in parts if isinstance(part, Mapping) for secret in _secrets_of(part)]
    found += [secret for text in _texts(data) for secret in hidden_in(text)]
    return tuple(dict.fromkeys(found))


def _secrets_of(engine: Mapping[str, Any]) -> tuple[str, ...]:
    env, prefix, args = (engine.get(key) for key in ("env", "prefix", "server_args"))
    variables = {str(name): str(value) for name, value in env.items()} if isinstance(env, Mapping) else {}
    words = [str(word) for word in prefix] if isinstance(prefix, list) else []
    flags = [f"--{name}={value}" for name, value in args.items()] if isinstance(args, Mapping) else []
    return Masker.of(env=variables, words=[*words, *flags]).secrets


def _texts(value: object) -> Iterator[str]:
    match value:
        case str():
            yield value
        case Mapping():
            for inner in value.values():
                yield from _texts(inner)
        case list():
            for inner in value:
                yield from _texts(inner)


def _engine(engine: Mapping[str, Any], masker: Masker) -> dict[str, object]:
    """An engine's keys, as many as are there."""
    found: dict[str, object] = {**masker.tree(dict(engine))}
    if isinstance(env := engine.get("env"), Mapping):
        found["env"] = {name: mask_variable(str(name), str(value)) for name, value in env.items()}
    if isinstance(prefix := engine.get("prefix"), list | tuple):
        found["prefix"] = list(mask_words([str(word) for word in prefix]))
    if isinstance(args := engine.get("server_args"), Mapping):
        found["server_args"] = {
            name: MASK if is_secret_name(name) else masker.tree(value) for name, value in args.items()
        }
    return found
