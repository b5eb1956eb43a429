"""Rules of how GPUs reach one another: all-reduce and its fusion."""

from __future__ import annotations

from collections.abc import Iterator

from search.dialects._fusion import FUSION_MAJORS
from search.dialects._knobs import study_transport
from search.dialects._rule import Draft
from search.dialects._traits import Traits


def rules(traits: Traits) -> Iterator[Draft]:
    """Fusion, then transports."""
    quiet = "FlashInfer all-reduce fusion is accepted on this GPU but its path is never taken: it needs SM90 or SM100."
    loud = (
        "FlashInfer allreduce fusion requires SM90 or SM10X NVIDIA GPUs. (Raised after the weights are loaded, when the "
        "workspace is made.)"
    )
    yield Draft(
        "arf-sm120",
        loud if traits.fusion_backends else quiet,
        lambda s: s.resolved.fusion != "off" and s.major not in FUSION_MAJORS,
        "a patch that enables it on this GPU, or a GPU of SM90 or SM100",
    )
    if traits.fusion_backends:
        named = f"The backend of all-reduce fusion is one of {', '.join(traits.fusion_backends)} in this release."
        since = "SGLang 0.5.21"
    else:
        named = "This release has no flag that names the backend of all-reduce fusion: `allreduce_fusion` is `off` or `auto`."
        since = "SGLang 0.5.14 (--flashinfer-allreduce-fusion-backend)"
    yield Draft(
        "arf-named-backend",
        named,
        lambda s: s.resolved.fusion not in ("off", "auto", *s.traits.fusion_backends),
        since,
    )
    if "cutedsl" in traits.fusion_backends:
        yield Draft(
            "arf-cutedsl-gpu",
            "FlashInfer allreduce fusion cutedsl backend requires a Blackwell system.",
            lambda s: s.resolved.fusion == "cutedsl" and s.major == 9,
            "a GPU of SM100",
            source_of="arf-sm120",
        )
    yield Draft(
        "torch-symm-mem-sm120",
        "Torch symmetric memory has no table for this GPU's compute capability: the server dies at start with a "
        "`KeyError` of its major number.",
        lambda s: (
            "torch-symm-mem" in (s.resolved.transport, study_transport(s.args)) and s.deployment.tp > 1 and s.major > 10
        ),
        "a patch that adds this GPU to TORCH_SYMM_MEM_ALL_REDUCE_MAX_SIZES, or a GPU of SM90 or SM100",
    )
