"""How a server is started that is to run several shapes, one after the other."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from search.config import SpecConfig
from search.deployment import Deployment
from search.dialects import Dialect
from search.server.shape_starts import smallest_start
from search.server.shape_support import CAP_VARIABLE, new_token, shapes_environment, shapes_support
from search.shape import Shape, SwitchRefused

KEEPS = "keeps_its_shape"
"""Detail of the effective settings: why a start that was to hold several configs holds one."""


@dataclass(frozen=True, slots=True)
class ShapeStart:
    """A start that can switch.

    Attributes:
        config: What the server is started with; its shape holds all that are to run, and may be none of theirs.
        token: Of the launch, for the plugin.
        environment: Variables that the launch has beyond those of a start of its own; the token is among them.
        page_size: Of the cache, in all of its shapes.
    """

    config: SpecConfig
    page_size: int
    token: str
    environment: Mapping[str, str]


def shape_start(
    config: SpecConfig, others: Sequence[SpecConfig], deployment: Deployment, dialect: Dialect
) -> ShapeStart:
    """The smallest start that holds a config and some others.

    Args:
        config: What runs first.
        others: What the start is to switch to.
        deployment: What every launch shares.
        dialect: Of its release.

    Raises:
        SwitchRefused: No start holds them all; says why.
    """
    support = shapes_support(deployment.release, deployment, config)
    if not support.ok:
        raise SwitchRefused(support.reason)
    shapes = []
    for one in (config, *others):
        shape = Shape.of(one)
        if shape is None or _in_shape(config, shape) != one:
            raise SwitchRefused(f"One start holds configs that differ in their shape alone, but {one} is not {config}.")
        shapes.append(shape)
    bound = dialect.on(deployment)
    resolved = bound.resolve(config)
    started = _in_shape(config, smallest_start(shapes, resolved.page_size))
    for one in (*others, started):
        if bound.resolve(one) != resolved:
            raise SwitchRefused(
                f"One start holds configs whose other settings agree, but a start of {one} resolves others than one of {config}."
            )
    token = new_token()
    environment = shapes_environment(token, os.environ, deployment)
    if CAP_VARIABLE not in {**os.environ, **deployment.env}:
        # Memory decides what is kept, not a number: a shape that is dropped is built anew when it is met again.
        environment[CAP_VARIABLE] = str(len({*shapes, Shape.of(started)}))
    return ShapeStart(started, resolved.page_size, token, environment)


def _in_shape(config: SpecConfig, shape: Shape) -> SpecConfig:
    return replace(config, topk=shape.topk, num_steps=shape.num_steps, num_draft_tokens=shape.num_draft_tokens)
