"""What really runs, from the body of `/server_info` (0.5.9 `srt/entrypoints/http_server.py:593`, 0.5.11 `:631`).

The body holds the resolved server arguments flat at its top (all releases 0.5.9 to 0.5.23),
`internal_states` with one entry per data-parallel rank, and `version`. It comes from outside: anything may be missing or of a wrong type.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import Any, Final

from search.config import TREE_KNOBS, KnobValue, SpecConfig, SpecVersion, check_tree
from search.contracts import EffectiveSettings
from search.dialects._adaptive import OFF
from search.dialects._knobs import PCIE_IPC, TRANSPORT_FLAGS
from search.dialects._traits import Traits
from search.errors import InvalidConfig

TREE_FIELDS: Final[Mapping[str, str]] = {
    "topk": "speculative_eagle_topk",
    "num_steps": "speculative_num_steps",
    "num_draft_tokens": "speculative_num_draft_tokens",
}

DETAILS: Final = (
    "attention_backend",
    "chunked_prefill_size",
    "context_length",
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
    "enable_mixed_chunk",
    "enable_symm_mem",
    "enable_torch_symm_mem",
    "flashinfer_allreduce_fusion_backend",
    "kv_cache_dtype",
    "max_running_requests",
    "max_total_num_tokens",
    "mem_fraction_static",
    "page_size",
    "prefill_attention_backend",
    "quantization",
    "sampling_backend",
    "speculative_adaptive",
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


def _version(info: Mapping[str, Any], asked: SpecConfig, traits: Traits) -> SpecVersion:
    """Worker version.

    While there are two, `create_worker` looks at the overlap alone (`srt/speculative/spec_info.py` of
    0.5.9 to 0.5.12); an algorithm with one worker has that one.
    """
    if "speculative_algorithm" not in info:
        return asked.spec_version
    algorithm = info["speculative_algorithm"]
    if algorithm is None:
        return SpecVersion.OFF
    if not isinstance(algorithm, str):
        return asked.spec_version
    if algorithm not in traits.v1_algorithms:
        return SpecVersion.V2
    if algorithm not in traits.v2_algorithms:
        return SpecVersion.V1
    match _flag(info, "disable_overlap_schedule"):
        case True:
            return SpecVersion.V1
        case False:
            return SpecVersion.V2
        case None:
            return asked.spec_version


def _idle_fusion(info: Mapping[str, Any]) -> bool:
    """Set but without effect: 0.5.9 turns it on for one GPU too."""
    ranks = _whole(info.get("attn_dp_size")) or 1
    return _whole(info.get("tp_size")) == 1 or _flag(info, "enable_dp_attention") is True or ranks > 1


def _fusion(info: Mapping[str, Any], asked: SpecConfig, traits: Traits) -> str:
    if traits.fusion_backends and "flashinfer_allreduce_fusion_backend" in info:
        backend = info["flashinfer_allreduce_fusion_backend"]
        if backend is not None and not isinstance(backend, str):
            return asked.allreduce_fusion
        return backend if backend and not _idle_fusion(info) else "off"
    fused = _flag(info, "enable_flashinfer_allreduce_fusion")
    if fused is None or traits.fusion_backends:  # the old field is always False once backends have names
        return asked.allreduce_fusion
    return "auto" if fused and not _idle_fusion(info) else "off"


def _transport(info: Mapping[str, Any], asked: KnobValue) -> str | None:
    if asked == PCIE_IPC:
        return PCIE_IPC  # by a variable, which no field reports
    flagged = {name: _flag(info, flag.replace("-", "_")) for name, flag in TRANSPORT_FLAGS.items()}
    if flagged.get(str(asked)) in (True, None):
        return str(asked)
    return next((name for name, on in flagged.items() if on), None)


def _extra(info: Mapping[str, Any], asked: SpecConfig, flags: Mapping[str, str]) -> dict[str, KnobValue]:
    """Knobs that were asked for, with the values that run; a release's defaults are not knobs."""
    extra: dict[str, KnobValue] = {}
    for name, value in asked.extra:
        if name == "allreduce_transport":
            transport = _transport(info, value)
            if transport is not None:
                extra[name] = transport
            continue
        if name == "overlap":
            if _flag(info, "disable_overlap_schedule") is None:
                extra[name] = value
            continue
        if name == "adaptive":
            if value != OFF and _flag(info, "speculative_adaptive") is not False:
                extra[name] = value  # the file's candidates are not reported
            continue
        found: object = info.get(flags.get(name, name).replace("-", "_"))
        if isinstance(value, bool):
            if not isinstance(found, bool) or found:
                extra[name] = value
        elif isinstance(found, str) and isinstance(value, str) and _says_something(found):
            extra[name] = found
        elif isinstance(found, float) and isinstance(value, str):
            extra[name] = value if _alike(value, found) else repr(found)
        else:
            number = _whole(found)
            extra[name] = value if number is None or isinstance(value, str) else number
    return extra


def _synchronous(
    info: Mapping[str, Any], version: SpecVersion, asked: SpecConfig, traits: Traits
) -> dict[str, KnobValue]:
    """The knob `overlap`, where a worker runs with and without it; without speculation only if it was asked for."""
    if not traits.synchronous_v2 or _flag(info, "disable_overlap_schedule") is not True:
        return {}
    asked_off = version is SpecVersion.OFF and dict(asked.extra).get("overlap") == "off"
    return {"overlap": "off"} if version is SpecVersion.V2 or asked_off else {}


def _alike(value: str, found: float) -> bool:
    """Whether a share such as `0.85` is what runs; the server may print it with fewer digits."""
    try:
        return math.isclose(float(value), found, rel_tol=1e-6)
    except ValueError:
        return True  # no number was asked: the field says nothing of it


def _says_something(text: str) -> bool:
    """Whether text from outside can stand in a config id."""
    return bool(re.fullmatch(r"[\w.:,-]{1,100}", text, re.ASCII))


def _running_limit(info: Mapping[str, Any]) -> int | None:
    """Requests admitted per data-parallel rank: the smallest that a rank reports."""
    states = info.get("internal_states")
    limits = [
        limit
        for state in (states if isinstance(states, list) else [])
        if isinstance(state, Mapping)
        and (limit := _whole(state.get("effective_max_running_requests_per_dp"))) is not None
    ]
    if limits:
        return min(limits)
    limit = _whole(info.get("max_running_requests"))
    ranks = _whole(info.get("dp_size")) or 1
    return limit // max(ranks, 1) if limit is not None else None


def effective(
    server_info: Mapping[str, Any], asked: SpecConfig, flags: Mapping[str, str], traits: Traits
) -> EffectiveSettings:
    """Read back the config that runs.

    Args:
        server_info: Decoded body; anything, even no mapping at all.
        asked: Fills in what the server does not report.
        flags: Optional knob -> flag, whose name with underscores is the field.
        traits: Of the release.
    """
    info = server_info if isinstance(server_info, Mapping) else {}
    release = info.get("version")
    return EffectiveSettings(
        config=_config(info, asked, flags, traits),
        release=release if isinstance(release, str) else "",
        max_running_requests=_running_limit(info),
        details=tuple(
            (name, str(info[name])) for name in DETAILS if isinstance(info.get(name), str | int | float | bool)
        ),
    )


def _tree(info: Mapping[str, Any], asked: SpecConfig) -> dict[str, int | None]:
    """The tree's numbers as this project counts them, see `draft_tokens_of_a_chain`."""
    algorithm = info.get("speculative_algorithm")
    if algorithm == "NGRAM":  # its steps are a quotient of the others, its depth has another name in each range
        fields = {"topk": "speculative_ngram_max_bfs_breadth", "num_draft_tokens": TREE_FIELDS["num_draft_tokens"]}
    elif algorithm == "DFLASH":
        fields = {"num_draft_tokens": TREE_FIELDS["num_draft_tokens"]}
    else:
        fields = dict(TREE_FIELDS)
    tree: dict[str, int | None] = {name: getattr(asked, name) for name in TREE_KNOBS}
    tree |= {name: value for name, field in fields.items() if (value := _whole(info.get(field))) is not None}
    if algorithm == "DFLASH" and (tokens := tree["num_draft_tokens"]) is not None:
        tree |= {"topk": 1, "num_steps": tokens - 1}
    return tree


def _config(info: Mapping[str, Any], asked: SpecConfig, flags: Mapping[str, str], traits: Traits) -> SpecConfig:
    version = _version(info, asked, traits)
    tree = _tree(info, asked) if version is not SpecVersion.OFF else {}
    try:
        config = SpecConfig(
            version,
            **tree,
            allreduce_fusion=_fusion(info, asked, traits),
            extra=tuple((_extra(info, asked, flags) | _synchronous(info, version, asked, traits)).items()),
        )
        check_tree(config, str(info.get("speculative_algorithm") or ""))
    except InvalidConfig:
        return asked  # no server can run such a tree: the body is not to be believed
    return config
