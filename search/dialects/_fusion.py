"""All-reduce fusion: when a release turns it on unasked, and what a named backend amounts to."""

from __future__ import annotations

from typing import Final

from search.deployment import Deployment
from search.dialects._setting import Arguments, dp_attention, number
from search.dialects._traits import Traits
from search.errors import UnsupportedKnob

FUSION_MAJORS: Final = (9, 10)
"""Compute capabilities whose fused path is ever taken (0.5.9 `srt/layers/communicator.py:91`)."""

VALUES: Final = ("off", "auto", "trtllm", "mnnvl", "cutedsl")
"""Of all releases; one that a release lacks is locked, not unknown."""

_AUTO_CHOOSES: Final = {9: "trtllm", 10: "mnnvl"}
"""What `auto` takes within one node (0.5.14 `srt/layers/flashinfer_comm_fusion.py:45`)."""


def comes_by_itself(deployment: Deployment, args: Arguments, traits: Traits) -> bool:
    """Whether the release turns fusion on unasked (0.5.9 `srt/server_args.py:1680`, 0.5.11 `:2330`)."""
    kind, major = deployment.hardware.kind, deployment.hardware.sm // 10
    one_node = number(args, "nnodes", 1) == 1
    if traits.fusion_off_when_deterministic and "enable-deterministic-inference" in args:
        return False
    fused = traits.fusion_architectures | (traits.fusion_architectures_on_sm100 if major == 10 else frozenset())
    return (
        deployment.architecture in fused
        and major in FUSION_MAJORS
        and (deployment.tp > 1 or not traits.fusion_needs_tp)
        and not (traits.fusion_spares_h20 and "H20" in kind and "H200" not in kind)
        and not dp_attention(args)
        and (one_node or (traits.fusion_across_nodes_on_sm100 and major == 10))
        and args.get("moe-a2a-backend") in (None, "none")
    )


def resolve_fusion(fusion: str, deployment: Deployment, args: Arguments, traits: Traits) -> str:
    """What runs. With one GPU there is nothing to reduce; under dp attention the path is never taken
    (0.5.9 `srt/layers/communicator.py:99`, 0.5.11 `:165`).

    Args:
        fusion: As asked.
        deployment: GPUs, tp and target.
        args: Further server arguments.
        traits: Of the release.

    Raises:
        UnsupportedKnob: No release has such a value.
    """
    if fusion not in VALUES:
        raise UnsupportedKnob(f"`allreduce_fusion` is one of {', '.join(VALUES)}, but got {fusion!r}.")
    if deployment.tp == 1 or dp_attention(args):
        return "off"
    if traits.fusion_off_when_deterministic and "enable-deterministic-inference" in args:
        return "off"
    if fusion == "off" and not traits.fusion_can_be_forced_off and comes_by_itself(deployment, args, traits):
        return "auto"
    if fusion in traits.fusion_backends and fusion == _AUTO_CHOOSES.get(deployment.hardware.sm // 10):
        return "auto" if number(args, "nnodes", 1) == 1 else fusion
    return fusion


def fusion_flags(fusion: str, deployment: Deployment, args: Arguments, traits: Traits) -> tuple[str, ...]:
    """The words for a canonical value.

    Args:
        fusion: Canonical, from `resolve_fusion`.
        deployment: GPUs, tp and target.
        args: Further server arguments.
        traits: Of the release.

    Raises:
        UnsupportedKnob: The release has no flag for it.
    """
    if fusion == "off":
        # An unknown target may be one of those, and the flag does no harm on others.
        unknown = not deployment.architecture and deployment.hardware.sm // 10 in FUSION_MAJORS
        unasked = unknown or comes_by_itself(deployment, args, traits)
        if traits.fusion_can_be_forced_off and deployment.tp > 1 and unasked:
            return ("--enforce-disable-flashinfer-allreduce-fusion",)
        return ()
    if fusion in traits.fusion_backends:
        return ("--flashinfer-allreduce-fusion-backend", fusion)
    if fusion == "auto":
        return ("--enable-flashinfer-allreduce-fusion",)
    known = " or ".join(f"`{value}`" for value in ("off", *(traits.fusion_backends or ("auto",))))
    raise UnsupportedKnob(f"`allreduce_fusion` is {known} in this release, but got {fusion!r}.")
