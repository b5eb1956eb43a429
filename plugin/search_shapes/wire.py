"""The words that client and plugin exchange: numbers in `/set_internal_state`, a report in `/server_info`.

`SetInternalStateReq` carries numbers only, and answers yes or no; so the token travels as three numbers, each
exact in a float too, and the reasons stand in the report.
"""

from __future__ import annotations

import hmac
import itertools
import re
from collections.abc import Mapping
from dataclasses import dataclass

from search_shapes.shape import Shape

TOKEN_VARIABLE = "SPEC_SEARCH_SHAPES_TOKEN"  # noqa: S105 - the name of a variable
CAP_VARIABLE = "SPEC_SEARCH_SHAPES_CAP"
ROOM_VARIABLE = "SPEC_SEARCH_SHAPES_ROOM_GB"
REPORT = "search_shapes"
"""Key of the report inside each entry of `internal_states`."""

PROTOCOL = 1
SHAPE_KEYS = ("search_shapes_topk", "search_shapes_num_steps", "search_shapes_num_draft_tokens")
TOKEN_KEYS = ("search_shapes_token_a", "search_shapes_token_b", "search_shapes_token_c")
REQUEST_KEY = "search_shapes_request"
_CUTS = (0, 11, 22, 32)
"""Hex digits of the token: 44, 44 and 40 bits."""


@dataclass(frozen=True)
class Asked:
    """One command: which shape, told apart by a number that the report repeats."""

    shape: Shape
    request: int
    authentic: bool


def is_token(text: str) -> bool:
    """Whether a text is a launch token: 32 hex digits."""
    return re.fullmatch(r"[0-9a-f]{32}", text) is not None


def parts(token: str) -> tuple[int, ...]:
    """The three numbers that a token travels as."""
    return tuple(int(token[start:end], 16) for start, end in itertools.pairwise(_CUTS))


def command(shape: Shape, *, token: str, request: int) -> dict[str, int]:
    """The body's `server_args`."""
    return {
        **dict(zip(SHAPE_KEYS, shape, strict=True)),
        **dict(zip(TOKEN_KEYS, parts(token), strict=True)),
        REQUEST_KEY: request,
    }


def read(given: Mapping[str, float], *, token: str) -> Asked | None:
    """What a request asks of this plugin; None for one that is none of its business."""
    if SHAPE_KEYS[0] not in given:
        return None
    try:
        shape = Shape(*(int(given[key]) for key in SHAPE_KEYS))
        shown = tuple(int(given[key]) for key in TOKEN_KEYS)
        request = int(given.get(REQUEST_KEY, 0))
    except (KeyError, TypeError, ValueError):
        return Asked(Shape(1, 1, 2), 0, authentic=False)
    authentic = hmac.compare_digest(repr(shown), repr(parts(token)))
    return Asked(shape, request, authentic)
