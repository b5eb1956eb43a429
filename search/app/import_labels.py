"""How people call a config in a table: its id, `no spec`, `static 3_1_4`, `topk 1, steps 2, 3 tokens, v2`."""

from __future__ import annotations

import re
from collections.abc import Mapping

from search.config import KnobValue, SpecConfig, SpecVersion
from search.errors import InvalidConfig, UsageError

_OFF = re.compile(
    r"off|none|no|base|base ?line.*|vanilla.*|target only|auto ?regressive|ar|"
    r"(sglang )?\(?(no|non|without|w/o)[- ]?(speculation|speculative|spec\w*|eagle\w*|mtp|draft\w*)( decoding| decode)?\b.*",
    re.IGNORECASE,
)
_TRIPLE = re.compile(r"(?<![\d.])(\d{1,3})[_\-/](\d{1,3})[_\-/](\d{1,4})(?![\d.])")
"""Steps, topk, draft tokens, as SGLang's documentation writes them."""
_WORKER = re.compile(r"(?<![a-z0-9])(?:spec[_ -]?)?(v[12])(?![a-z0-9.])", re.IGNORECASE)
_KNOBS: Mapping[str, re.Pattern[str]] = {
    "topk": re.compile(r"(?:eagle[_ -]?)?top[_ -]?k\D{0,3}(\d+)", re.IGNORECASE),
    "num_steps": re.compile(r"(?:num[_ -]?)?steps?\D{0,3}(\d+)", re.IGNORECASE),
    "num_draft_tokens": re.compile(
        r"(?:num[_ -]?)?draft(?:[_ -]?tokens?)?\W{0,3}(\d+)|(\d+)\s+(?:draft[_ -]?)?tokens?", re.IGNORECASE
    ),
}
_MOST = 4096


def label_config(label: str, *, worker: str) -> SpecConfig | None:
    """The config that a label names; None where it names none.

    Args:
        label: As it stands in the table.
        worker: `v1` or `v2`, for labels that do not say it; empty where nobody did.

    Raises:
        UsageError: It names a config that cannot be, or one whose worker nobody named.
    """
    try:
        return SpecConfig.from_id(label)
    except InvalidConfig:
        pass
    if _OFF.fullmatch(label.strip()):
        return SpecConfig(SpecVersion.OFF)
    said = _WORKER.search(label)
    rest = _WORKER.sub(" ", label)
    values: dict[str, int] = {}
    if (triple := _TRIPLE.search(rest)) is not None:
        values = dict(zip(("num_steps", "topk", "num_draft_tokens"), map(int, triple.groups()), strict=True))
    else:
        for name, pattern in _KNOBS.items():
            if (match := pattern.search(rest)) is not None:
                values[name] = int(next(group for group in match.groups() if group))
    if "topk" not in values or "num_steps" not in values:
        return None
    return shape_config(
        topk=values["topk"],
        num_steps=values["num_steps"],
        num_draft_tokens=values.get("num_draft_tokens"),
        worker=said[1].lower() if said else worker,
        what=repr(label),
    )


def shape_config(
    *,
    topk: int,
    num_steps: int,
    num_draft_tokens: int | None,
    worker: str,
    what: str,
    more: Mapping[str, KnobValue] | None = None,
) -> SpecConfig | None:
    """A config from its numbers; None where draft tokens are needed and missing.

    A chain has `num_steps + 1` tokens: SGLang makes it so, whatever is asked.

    Args:
        topk: Width; 0 with `num_steps` 0 for no speculation.
        num_steps: Depth.
        num_draft_tokens: Where the table says it.
        worker: `v1` or `v2`; empty where unknown.
        what: The row, for errors.
        more: Further knobs.

    Raises:
        UsageError: The tree cannot be, or nobody named the worker.
    """
    extra = dict(more or {})
    if num_steps == 0:
        return SpecConfig.from_params({"spec_version": "off", **extra})
    tokens = num_steps + 1 if topk == 1 else num_draft_tokens
    if tokens is None:
        return None
    if max(topk, num_steps, tokens) > _MOST:
        raise UsageError(
            f"{what}: a tree has at most {_MOST} tokens, but got {max(topk, num_steps, tokens)}. Correct the table."
        )
    if not worker:
        raise UsageError(
            f"{what}: a config names its worker, v1 or v2, but neither the table nor the command does. Say which one ran with "
            "`--spec-version v1` or `v2`, or `--map COLUMN=spec_version`."
        )
    try:
        return SpecConfig.from_params(
            {"spec_version": worker, "topk": topk, "num_steps": num_steps, "num_draft_tokens": tokens, **extra}
        )
    except InvalidConfig as error:
        raise UsageError(f"{what}: {error}") from error
