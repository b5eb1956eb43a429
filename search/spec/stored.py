"""The study file as data for a database or a recording: what it was, without its secrets."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from search.masking import MASK, Masker, is_secret_name, mask_variable, mask_words
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
    data = spec.model_dump(mode="json")
    engine: dict[str, Any] = data["engine"]
    masked: dict[str, object] = masker_of(spec.engine).tree(data)
    serving: dict[str, Any] = data["serving"]
    masked["serving"] = {
        **masker_of(spec.engine).tree(serving),
        "env": {name: mask_variable(name, value) for name, value in serving["env"].items()},
        "server_args": {
            name: MASK if is_secret_name(name) else masker_of(spec.engine).tree(value)
            for name, value in serving["server_args"].items()
        },
    }
    masked["engine"] = _engine(engine, masker_of(spec.engine))
    if spec.escalation is not None:
        # What it changes is as secret as what the study has itself.
        second = masker_of(spec.escalated().engine)
        told: dict[str, Any] = data["escalation"]
        masked["escalation"] = {**second.tree(told), "engine": _engine(told["engine"], second)}
    return masked


def _engine(engine: Mapping[str, Any], masker: Masker) -> dict[str, object]:
    """An engine's keys, as many as are there."""
    found: dict[str, object] = {**masker.tree(dict(engine))}
    if "env" in engine:
        found["env"] = {name: mask_variable(name, value) for name, value in engine["env"].items()}
    if "prefix" in engine:
        found["prefix"] = list(mask_words(engine["prefix"]))
    if "server_args" in engine:
        found["server_args"] = {
            name: MASK if is_secret_name(name) else masker.tree(value) for name, value in engine["server_args"].items()
        }
    return found
