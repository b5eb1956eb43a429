"""What a server of ours says of itself: kept beside the launch, and read as the settings that run."""

from __future__ import annotations

import dataclasses
import json
import logging
from collections.abc import Mapping
from typing import Any, Final

from search.config import SpecConfig
from search.contracts import NOT_VERIFIED, EffectiveSettings, LaunchPaths
from search.dialects import Dialect
from search.engines._verified import untold
from search.masking import Masker
from search.server.command import ServerCommand
from search.server.shape_support import TOKEN_VARIABLE
from search.server.shapes import reported_shape, token_forms

_log = logging.getLogger(__name__)

_SHAPE_FIELDS: Final = ("speculative_eagle_topk", "speculative_num_steps", "speculative_num_draft_tokens")


def settings_in_use(
    info: Mapping[str, Any],
    config: SpecConfig,
    *,
    dialect: Dialect,
    paths: LaunchPaths,
    masker: Masker,
    further: Mapping[str, str] | None = None,
) -> EffectiveSettings:
    """The settings that run, by a server's own word, which is kept as `server_info.json`.

    A server that switches reports the arguments of its start; the plugin's report stands above them.

    Args:
        info: The body of `/server_info`.
        config: What was asked.
        dialect: Of the release.
        paths: Where it is kept.
        masker: Of the launch's secrets.
        further: Details that we know and it does not report.
    """
    paths.server_info.write_text(json.dumps(masker.tree(dict(info)), indent=1, sort_keys=True) + "\n")
    shape = reported_shape(info)
    runs = dict(info) if shape is None else {**info, **dict(zip(_SHAPE_FIELDS, shape.numbers, strict=True))}
    effective = dialect.effective(runs, config)
    details = {name: str(masker.tree(value, name)) for name, value in effective.details} | dict(further or {})
    if missing := untold(info, config):
        _log.warning("the server does not report %s: what runs is not verified", ", ".join(missing))
        details[NOT_VERIFIED] = ", ".join(missing)
    return dataclasses.replace(effective, details=tuple(sorted(details.items())))


def command_text(own: ServerCommand, remark: str = "") -> str:
    """The script that starts a config as a user would, alone; a remark says if it was measured otherwise."""
    first, _, rest = own.script().partition("\n")
    return f"{first}\n# {remark}\n{rest}" if remark else own.script()


def write_command(own: ServerCommand, paths: LaunchPaths, remark: str = "") -> None:
    """Keep `command_text` beside the launch."""
    paths.command.write_text(command_text(own, remark))
    paths.command.chmod(0o700)


def with_token(masker: Masker, environment: Mapping[str, str | None]) -> Masker:
    """A masker that knows the token of a launch in all its forms, if it has one."""
    token = environment.get(TOKEN_VARIABLE)
    return Masker((*masker.secrets, *token_forms(token))) if token else masker
