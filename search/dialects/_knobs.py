"""Optional knobs: their values, their flags, and the values that change nothing."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from search.config import KnobValue, flag_name
from search.deployment import Deployment
from search.dialects._flags import flags_of, nearest_flag, wrong_value
from search.dialects._setting import Arguments
from search.dialects._traits import Traits
from search.errors import UnsupportedKnob

TRANSPORT_FLAGS: Final[Mapping[str, str]] = {
    "nccl": "disable-custom-all-reduce",
    "nccl-symm-mem": "enable-symm-mem",
    "torch-symm-mem": "enable-torch-symm-mem",
    "mscclpp": "enable-mscclpp",
    "nvls": "enable-nccl-nvls",
}
"""`allreduce_transport` -> flag (0.5.9 `srt/server_args.py:4515-4558`, 0.5.11 `:6037-6080`); `auto` sends none."""

PCIE_IPC: Final = "pcie-ipc"
PCIE_IPC_VARIABLE: Final = "SGLANG_ENABLE_PCIE_IPC_ALLREDUCE"
"""FlashInfer's all-reduce for GPUs without NVLink (0.5.23 `srt/environ.py:1539`); it has no flag."""

CUSTOM_ALLREDUCE_WORLDS: Final = (2, 4, 6, 8)
"""World sizes of custom all-reduce (0.5.9 `srt/distributed/device_communicators/custom_all_reduce.py`)."""

SYMM_MEM_WORLDS: Final = (2, 4, 6, 8)
"""World sizes torch symmetric memory has sizes for; elsewhere it warns and stays off (0.5.9
`srt/distributed/device_communicators/torch_symm_mem.py:83`)."""

PCIE_IPC_WORLDS: Final = (2, 4, 8)
"""0.5.23 `srt/distributed/device_communicators/pcie_ipc_ar.py`."""

PLAIN_FLAGS: Final[Mapping[str, str]] = {
    "attention_backend": "attention-backend",
    "draft_attention_backend": "speculative-draft-attention-backend",
    "page_size": "page-size",
    "speculative_attention_mode": "speculative-attention-mode",
}
"""Optional knob -> flag that takes its value; spelled alike in all releases."""

OWNED_FLAGS: Final[Mapping[str, str]] = {
    **dict.fromkeys(("model", "model-path"), "the study's `model`"),
    **dict.fromkeys(("tp", "tp-size", "tensor-parallel-size"), "the study's `tp`"),
    "max-running-requests": "the study's `max_running_requests`",
    "trust-remote-code": "the study's `trust_remote_code`",
    "speculative-algorithm": "the study's `algorithm`",
    **dict.fromkeys(("speculative-draft-model", "speculative-draft-model-path"), "the study's `draft`"),
    **dict.fromkeys(("speculative-num-steps", "speculative-ngram-max-trie-depth"), "the knob `num_steps`"),
    "speculative-ngram-branch-length": "the knob `num_steps`",
    **dict.fromkeys(("speculative-eagle-topk", "speculative-ngram-max-bfs-breadth"), "the knob `topk`"),
    **dict.fromkeys(("speculative-num-draft-tokens", "speculative-dflash-block-size"), "the knob `num_draft_tokens`"),
    "disable-overlap-schedule": "the knob `spec_version` or `overlap`",
    **dict.fromkeys(("speculative-adaptive", "speculative-adaptive-config"), "the knob `adaptive`"),
    **dict.fromkeys(
        (
            "enable-flashinfer-allreduce-fusion",
            "enforce-disable-flashinfer-allreduce-fusion",
            "flashinfer-allreduce-fusion-backend",
        ),
        "the knob `allreduce_fusion`",
    ),
}
"""Flags a study may not set on its own, and what sets them."""

LIMIT_FLAG: Final = "max-running-requests"
"""A field of the study that may be searched all the same: each launch then sends its own value behind it."""


def transports(traits: Traits) -> tuple[str, ...]:
    """Values of `allreduce_transport` on one release, the default first."""
    return ("auto", *TRANSPORT_FLAGS, *((PCIE_IPC,) if traits.pcie_ipc else ()))


def study_transport(args: Arguments) -> str | None:
    """The transport the study's own flags turn on for every launch, if any."""
    return next((name for name, flag in TRANSPORT_FLAGS.items() if flag in args), None)


def resolve_transport(value: KnobValue, deployment: Deployment, args: Arguments, traits: Traits) -> str:
    """Collapse a transport without effect to `auto`.

    Args:
        value: As asked.
        deployment: GPUs, tp and target.
        args: Further server arguments.
        traits: Of the release.

    Raises:
        UnsupportedKnob: Not a transport of this release, or the study's flags turn on one for every launch.
    """
    check_choice("allreduce_transport", value, transports(traits), release=traits.release)
    if (fixed := study_transport(args)) is not None:
        raise UnsupportedKnob(
            f"`allreduce_transport` is a knob of this study, but its `server_args` turn on "
            f"`{TRANSPORT_FLAGS[fixed]}` for every launch. Remove one of the two."
        )
    return "auto" if _without_effect(str(value), deployment, args, traits) else str(value)


def _without_effect(transport: str, deployment: Deployment, args: Arguments, traits: Traits) -> bool:
    major, tp, pcie = deployment.hardware.sm // 10, deployment.tp, deployment.hardware.links == "pcie"
    if tp == 1:
        return True
    deterministic = "enable-deterministic-inference" in args
    match transport:
        case "nccl":
            # Off by itself on more than two GPUs without NVLink, for odd world sizes and under determinism.
            return (pcie and tp > 2) or tp not in CUSTOM_ALLREDUCE_WORLDS or deterministic
        case "torch-symm-mem":
            dies = traits.torch_symm_mem_dies and major > 10
            return not dies and (major not in (9, 10) or tp not in SYMM_MEM_WORLDS)
        case "nvls":
            return pcie  # it lives in the NVSwitch
        case "mscclpp":
            return tp not in traits.mscclpp_worlds
        case "pcie-ipc":
            return not pcie or tp not in PCIE_IPC_WORLDS or deterministic
        case _:
            return False


def resolve_overlap(value: KnobValue, traits: Traits) -> bool:
    """The knob `overlap` as a switch.

    Raises:
        UnsupportedKnob: Not `on` or `off`, or the release's v2 worker cannot do without it.
    """
    check_choice("overlap", value, ("on", "off"), release=traits.release)
    if value == "off" and not traits.synchronous_v2:
        raise UnsupportedKnob(
            f"`overlap` is `on` in SGLang {traits.release}, but got 'off': its v2 worker has no synchronous form, which "
            "begins at 0.5.13. `spec_version: v1` is the worker that runs without overlap."
        )
    return value == "on"


def check_choice(name: str, value: KnobValue, choices: tuple[str, ...], *, release: str) -> None:
    """Refuse a value the release has no spelling for.

    Args:
        name: Of the knob.
        value: As asked.
        choices: That the release has.
        release: Of SGLang, for the message.

    Raises:
        UnsupportedKnob: Naming the values it has.
    """
    if value not in choices:
        raise UnsupportedKnob(f"`{name}` is one of {', '.join(choices)} in SGLang {release}, but got {value!r}.")


def check_page_size(value: KnobValue) -> int:
    """A page size as a whole number.

    Raises:
        UnsupportedKnob: Not a positive whole number.
    """
    text = str(value)
    if isinstance(value, bool) or not text.isdecimal() or int(text) < 1:
        raise UnsupportedKnob(f"`page_size` is a whole number from 1, but got {value!r}.")
    return int(text)


def check_flag(name: str, value: KnobValue, args: Arguments, traits: Traits, *, patched: bool) -> str:
    """The server flag that a user-defined knob stands for, without its dashes.

    Args:
        name: With dashes or underscores.
        value: Its value in a config.
        args: The study's flags.
        traits: Of the release.
        patched: Whether the SGLang that is launched is patched: it may have flags of its own.

    Raises:
        UnsupportedKnob: A field or knob of the study sets this flag, the study sets it for every
            launch, the release does not have it, or takes no such value.
    """
    flag = flag_name(name)
    knob = next((knob for knob, plain in PLAIN_FLAGS.items() if plain == flag), None)
    knob = knob or ("allreduce_transport" if flag in TRANSPORT_FLAGS.values() else None)
    owner = f"the knob `{knob}`" if knob else OWNED_FLAGS.get(flag) if flag != LIMIT_FLAG else None
    if owner is not None:
        raise UnsupportedKnob(f"`{flag}` is not opened as a plain flag, because {owner} sets it. Open that instead.")
    if flag in args:
        raise UnsupportedKnob(
            f"`{flag}` is a knob of this study, but its `server_args` set it to {args[flag]!r} for every launch. "
            "Remove one of the two."
        )
    if flag in traits.gone_flags:
        raise UnsupportedKnob(f"SGLang {traits.release} has no flag `{flag}`. Write {traits.gone_flags[flag]}.")
    if flag not in flags_of(traits.release) and not patched:
        known = ", ".join(sorted({*PLAIN_FLAGS, "allreduce_transport", "overlap", "adaptive"}))
        raise UnsupportedKnob(
            f"SGLang {traits.release} has no knob or flag `{name}`.{nearest_flag(flag, traits.release)} Its knobs are {known}; "
            "any other flag of its own parser may be opened too."
        )
    if wrong := wrong_value(flag, value, traits.release, patched=patched):
        raise UnsupportedKnob(f"`{flag}` is a knob with the value {value!r}, but {wrong}.")
    return flag
