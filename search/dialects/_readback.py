"""What really runs, from the body of `/server_info` (0.5.9 `srt/entrypoints/http_server.py:593`, 0.5.11 `:631`).

The body holds the resolved server arguments flat at its top, `internal_states` with one entry per
data-parallel rank, and `version`. It comes from outside: anything may be missing or of a wrong type.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from search.config import TREE_KNOBS, KnobValue, SpecConfig, SpecVersion
from search.contracts import EffectiveSettings
from search.dialects._knobs import TRANSPORT_FLAGS
from search.errors import InvalidConfig

TREE_FIELDS: Final[Mapping[str, str]] = {
    "topk": "speculative_eagle_topk",
    "num_steps": "speculative_num_steps",
    "num_draft_tokens": "speculative_num_draft_tokens",
}

DETAILS: Final = (
    "attention_backend",
    "chunked_prefill_size",
    "cuda_graph_max_bs",
    "decode_attention_backend",
    "disable_cuda_graph",
    "disable_custom_all_reduce",
    "disable_overlap_schedule",
    "disable_radix_cache",
    "dp_size",
    "dtype",
    "enable_dp_attention",
    "enable_flashinfer_allreduce_fusion",
    "enable_symm_mem",
    "enable_torch_symm_mem",
    "kv_cache_dtype",
    "max_running_requests",
    "max_total_num_tokens",
    "mem_fraction_static",
    "page_size",
    "prefill_attention_backend",
    "quantization",
    "sampling_backend",
    "speculative_algorithm",
    "speculative_attention_mode",
    "speculative_draft_attention_backend",
    "tp_size",
)
"""Fields kept beside the config; none of them holds a secret."""


def _whole(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _flag(info: Mapping[str, Any], name: str) -> bool | None:
    value = info.get(name)
    return value if isinstance(value, bool) else None


def _version(info: Mapping[str, Any], asked: SpecConfig) -> SpecVersion:
    """Worker version: `create_worker` of both releases looks at the overlap alone (`srt/speculative/spec_info.py`)."""
    if "speculative_algorithm" not in info:
        return asked.spec_version
    algorithm = info["speculative_algorithm"]
    if algorithm is None:
        return SpecVersion.OFF
    if not isinstance(algorithm, str):
        return asked.spec_version
    match _flag(info, "disable_overlap_schedule"):
        case True:
            return SpecVersion.V1
        case False:
            return SpecVersion.V2
        case None:
            return asked.spec_version


def _fusion(info: Mapping[str, Any], asked: SpecConfig) -> str:
    told = _flag(info, "enable_flashinfer_allreduce_fusion")
    if told is None:
        return asked.allreduce_fusion
    # Set but without effect: 0.5.9 turns it on for one GPU too.
    idle = _whole(info.get("tp_size")) == 1 or _flag(info, "enable_dp_attention") is True
    return "auto" if told and not idle else "off"


def _transport(info: Mapping[str, Any], asked: KnobValue) -> str | None:
    told = {name: _flag(info, flag.replace("-", "_")) for name, flag in TRANSPORT_FLAGS.items()}
    if told.get(str(asked)) in (True, None):
        return str(asked)
    return next((name for name, on in told.items() if on), None)


def _extra(info: Mapping[str, Any], asked: SpecConfig, flags: Mapping[str, str]) -> dict[str, KnobValue]:
    """Knobs that were asked for, with the values that run; a release's defaults are not knobs."""
    extra: dict[str, KnobValue] = {}
    for name, value in asked.extra:
        if name == "allreduce_transport":
            transport = _transport(info, value)
            if transport is not None:
                extra[name] = transport
            continue
        told: object = info.get(flags.get(name, name).replace("-", "_"))
        if isinstance(told, str) and isinstance(value, str) and told:
            extra[name] = told
        else:
            number = _whole(told)
            extra[name] = value if number is None or isinstance(value, str) else number
    return extra


def _running_limit(info: Mapping[str, Any]) -> int | None:
    """Requests admitted per data-parallel rank: the smallest that a rank reports."""
    states = info.get("internal_states")
    told = [
        limit
        for state in (states if isinstance(states, list) else [])
        if isinstance(state, Mapping)
        and (limit := _whole(state.get("effective_max_running_requests_per_dp"))) is not None
    ]
    if told:
        return min(told)
    limit = _whole(info.get("max_running_requests"))
    ranks = _whole(info.get("dp_size")) or 1
    return limit // max(ranks, 1) if limit is not None else None


def effective(server_info: Mapping[str, Any], asked: SpecConfig, flags: Mapping[str, str]) -> EffectiveSettings:
    """Read back the config that runs.

    Args:
        server_info: Decoded body; anything, even no mapping at all.
        asked: Fills in what the server does not tell.
        flags: Optional knob -> flag, whose name with underscores is the field.
    """
    info = server_info if isinstance(server_info, Mapping) else {}
    release = info.get("version")
    return EffectiveSettings(
        config=_config(info, asked, flags),
        release=release if isinstance(release, str) else "",
        max_running_requests=_running_limit(info),
        details=tuple(
            (name, str(info[name])) for name in DETAILS if isinstance(info.get(name), str | int | float | bool)
        ),
    )


def _config(info: Mapping[str, Any], asked: SpecConfig, flags: Mapping[str, str]) -> SpecConfig:
    version = _version(info, asked)
    tree: dict[str, int | None] = {}
    if version is not SpecVersion.OFF:
        for name in TREE_KNOBS:
            told = _whole(info.get(TREE_FIELDS[name]))
            tree[name] = getattr(asked, name) if told is None else told
    try:
        return SpecConfig(
            version, **tree, allreduce_fusion=_fusion(info, asked), extra=tuple(_extra(info, asked, flags).items())
        )
    except InvalidConfig:
        return asked  # no server can run such a tree: the body is not to be believed
