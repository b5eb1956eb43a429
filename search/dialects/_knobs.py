"""Optional knobs: their values, their flags, and the values that change nothing."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from search.config import KnobValue
from search.deployment import Deployment
from search.dialects._setting import argument
from search.errors import UnsupportedKnob

TRANSPORT_FLAGS: Final[Mapping[str, str]] = {
    "nccl": "disable-custom-all-reduce",
    "nccl-symm-mem": "enable-symm-mem",
    "torch-symm-mem": "enable-torch-symm-mem",
    "mscclpp": "enable-mscclpp",
    "nvls": "enable-nccl-nvls",
}
"""`allreduce_transport` -> flag (0.5.9 `srt/server_args.py:4515-4558`, 0.5.11 `:6037-6080`); `auto` sends none."""

SPECULATION_ONLY: Final = frozenset({"draft_attention_backend", "speculative_attention_mode"})
"""Knobs that do not exist without speculation."""

SYMM_MEM_WORLDS: Final = (2, 4, 6, 8)
"""World sizes torch symmetric memory has sizes for; elsewhere it warns and stays off (0.5.9
`srt/distributed/device_communicators/torch_symm_mem.py:83`)."""


def study_transport(deployment: Deployment) -> str | None:
    """The transport the study's own flags turn on for every launch, if any."""
    return next((name for name, flag in TRANSPORT_FLAGS.items() if argument(deployment, flag) is not None), None)


def canonical_transport(value: KnobValue, deployment: Deployment) -> str:
    """Collapse a transport without effect to `auto`.

    Raises:
        UnsupportedKnob: Not a transport, or the study's flags turn on one for every launch.
    """
    if value != "auto" and value not in TRANSPORT_FLAGS:
        raise UnsupportedKnob(
            f"`allreduce_transport` is one of {', '.join(('auto', *TRANSPORT_FLAGS))}, but got {value!r}."
        )
    if (fixed := study_transport(deployment)) is not None:
        raise UnsupportedKnob(
            f"`allreduce_transport` is a knob of this study, but its `server_args` turn on "
            f"`{TRANSPORT_FLAGS[fixed]}` for every launch. Remove one of the two."
        )
    major = deployment.hardware.sm // 10
    without_effect = (
        deployment.tp == 1
        # Custom all-reduce is off by itself on more than two GPUs without NVLink.
        or (value == "nccl" and deployment.hardware.links == "pcie" and deployment.tp > 2)
        or (value == "torch-symm-mem" and (major < 9 or (major < 11 and deployment.tp not in SYMM_MEM_WORLDS)))
    )
    return "auto" if without_effect else str(value)


def check_choice(name: str, value: KnobValue, choices: tuple[str, ...]) -> None:
    """Refuse a value the release has no spelling for.

    Raises:
        UnsupportedKnob: Naming the values it has.
    """
    if value not in choices:
        raise UnsupportedKnob(f"`{name}` is one of {', '.join(choices)}, but got {value!r}.")


def check_page_size(value: KnobValue) -> int:
    """A page size as a whole number.

    Raises:
        UnsupportedKnob: Not a positive whole number.
    """
    text = str(value)
    if isinstance(value, bool) or not text.isdecimal() or int(text) < 1:
        raise UnsupportedKnob(f"`page_size` is a whole number from 1, but got {value!r}.")
    return int(text)
