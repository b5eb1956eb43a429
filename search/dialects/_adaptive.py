"""Adaptive steps: the knob's value, and the file each release reads it from.

The value is the candidate steps, such as `1-3-7`, or `auto` for the release's own table. Steps adapt within them while
the server runs.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Final

from search.config import KnobValue, SpecConfig, SpecVersion
from search.dialects._setting import Arguments, dp_attention
from search.dialects._traits import Traits
from search.errors import UnsupportedKnob

FILE_NAME: Final = "adaptive-steps.json"
OFF: Final = "off"
AUTO: Final = "auto"
"""The release's own candidates, from 0.5.13 by batch size: no file is given."""

_DEFAULTS: Final = {
    "ema_alpha": 0.2,
    "update_interval": 5,
    "warmup_batches": 10,
    "down_hysteresis": -0.25,
    "up_hysteresis": 0.0,
}
"""Those of every release that has the feature (0.5.11 `srt/speculative/adaptive_spec_params.py`), written out."""


def candidates(value: KnobValue, traits: Traits) -> tuple[int, ...]:
    """The candidate steps, ascending.

    Raises:
        UnsupportedKnob: Not steps joined by dashes, too few of them, a 0 where the release drafts
            always, or a release without the feature.
    """
    if traits.adaptive is None:
        raise UnsupportedKnob(
            f"SGLang {traits.release} has no adaptive steps; they begin at 0.5.11. Leave `adaptive` out."
        )
    if value == AUTO:
        return traits.adaptive_table
    if not re.fullmatch(r"\d+(?:-\d+)*", str(value)):
        raise UnsupportedKnob(f"`adaptive` is `off`, `auto` or candidate steps such as `1-3-7`, but got {value!r}.")
    steps = tuple(sorted({int(step) for step in str(value).split("-")}))
    least = 2 if traits.adaptive == "flat" else 1
    if len(steps) < least:
        raise UnsupportedKnob(
            f"`adaptive` names at least {least} different steps in SGLang {traits.release}, but got {value!r}."
        )
    if 0 in steps and not traits.adaptive_zero_steps:
        raise UnsupportedKnob(
            f"`adaptive` may hold 0 (no drafting) from SGLang 0.5.14, but the study is for {traits.release} and asks "
            f"for {value!r}."
        )
    return steps


def resolve_adaptive(
    value: KnobValue, config: SpecConfig, args: Arguments, traits: Traits, *, algorithm: str, worker: SpecVersion
) -> str:
    """Canonical candidate steps, or `off` where the server would disable them with a warning.

    See `adaptive_unsupported_reason` (0.5.11 `srt/speculative/adaptive_spec_params.py:18`).

    Args:
        value: As asked: `off`, `on`, or candidate steps.
        config: The config it belongs to.
        args: Further server arguments.
        traits: Of the release.
        algorithm: That drafts.
        worker: The worker version that runs.
    """
    if value in (OFF, False):
        return OFF
    steps = candidates(value, traits)
    if not config.speculates or algorithm not in ("EAGLE", "EAGLE3") or config.topk != 1 or dp_attention(args):
        return OFF
    if any(flag in args for flag in ("enable-multi-layer-eagle", "enable-two-batch-overlap", "enable-pdmux")):
        return OFF
    if worker is SpecVersion.V2 and not traits.adaptive_on_v2:
        return OFF
    if value == AUTO and traits.adaptive == "by-batch-size":
        return AUTO
    if traits.adaptive_adds_start and config.num_steps is not None:
        steps = tuple(sorted({*steps, config.num_steps}))
    return "-".join(map(str, steps))


def snapped_steps(adaptive: str, config: SpecConfig, traits: Traits) -> int | None:
    """Where 0.5.11 starts: the candidate nearest to `num_steps`, the larger of two.

    0.5.12 adds the start to the candidates (`srt/speculative/adaptive_spec_params.py:95`), later ones refuse a start
    outside of them.
    """
    if adaptive == OFF or traits.adaptive != "flat" or traits.adaptive_adds_start or config.num_steps is None:
        return config.num_steps
    asked = config.num_steps
    return min(candidates(adaptive, traits), key=lambda step: (abs(step - asked), -step))


def file_text(adaptive: str, traits: Traits) -> str:
    """The adaptive-steps file in the release's own format: flat until 0.5.12, by batch size from 0.5.13."""
    steps = list(candidates(adaptive, traits))
    content = {**_DEFAULTS, **({"candidate_steps": steps} if traits.adaptive == "flat" else {})}
    if traits.adaptive == "by-batch-size":
        content["1"] = {"candidate_steps": steps}  # the slot of batch size 1 and all above it
    return json.dumps(content, separators=(",", ":")) + "\n"


def schedule_text(steps: Mapping[int, int], traits: Traits) -> str:
    """The file of a schedule by load: one slot for each load, with the one step count that runs there.

    The server takes the slot of the largest batch size that is at most its own, padded to the next captured graph
    (`srt/speculative/adaptive_step_router.py`, 2026); a slot for every measured load also serves a release that takes
    the nearest.

    Args:
        steps: Of each load, ascending; 0 for no drafting.
        traits: Of the release.

    Raises:
        UnsupportedKnob: The release has no file by batch size, or always drafts.
    """
    if traits.adaptive is None:
        raise UnsupportedKnob(f"SGLang {traits.release} has no adaptive steps; they begin at 0.5.11")
    if traits.adaptive == "flat":
        raise UnsupportedKnob(
            f"adaptive steps of SGLang {traits.release} go by accept length alone; by batch size they go from 0.5.13"
        )
    if 0 in steps.values() and not traits.adaptive_zero_steps:
        raise UnsupportedKnob(
            f"adaptive steps of SGLang {traits.release} always draft; a load without drafting can be had from 0.5.14"
        )
    slots = {str(load): {"candidate_steps": [count]} for load, count in sorted(steps.items())}
    return json.dumps({**_DEFAULTS, **slots}, indent=1) + "\n"
