"""What distinguishes one SGLang release from the next, as far as speculation looks at it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

Fa4Page = Literal["prefill", "prefill-sm100", "chain-sm100"]
"""When fa4 sets the page size to 128 on a target with ordinary attention: as prefill backend on any
GPU, as prefill backend on SM100, or as any backend on SM100 unless a tree is drafted."""

AdaptiveFormat = Literal["flat", "by-batch-size"]


@dataclass(frozen=True, slots=True)
class Traits:
    """One release's capabilities. Shared code asks these, never for a version.

    Attributes:
        release: The release itself.
        algorithms: Those this project can drive on it.
        v1_algorithms: Those that can run the v1 worker.
        v2_algorithms: Those that can run the overlapped v2 worker.
        tree_on_v2: Whether the v2 worker drafts trees.
        tree_falls_back_to_v1: Whether a tree asked of v2 silently runs on v1 rather than being refused.
        synchronous_v2: Whether the v2 worker runs without the overlap scheduler too.
        always_v2: Targets whose EAGLE runs v2 whatever is asked.
        attention_backends: Values of `--attention-backend`.
        draft_backends: Those that a draft worker exists for.
        deterministic_backends: Those that deterministic inference takes.
        deterministic_first: Whether it picks its backend before the ordinary default.
        paged_tree_backends: Those that take a tree with a page size above 1.
        fa4_page: When fa4 forces the page size.
        trtllm_mha_pages: Page sizes that trtllm_mha leaves alone.
        trtllm_mha_prefill_majors: Compute capabilities (major) where it may do prefill.
        trtllm_mha_decode_majors: The same for decode.
        trtllm_mha_by_pair: Whether the topk rule looks at what prefill and decode really use,
            rather than at all three flags.
        trtllm_mha_as_draft_pages: Whether it forces the page size as the draft's backend too.
        fusion_architectures: Targets with all-reduce fusion unasked, on SM90 and SM100.
        fusion_architectures_on_sm100: The same, on SM100 alone.
        fusion_backends: Names the fusion backend takes; empty where there is only a plain flag.
        fusion_can_be_forced_off: Whether a flag turns off what comes unasked.
        fusion_needs_tp: Whether it comes unasked only for several GPUs.
        fusion_spares_h20: Whether it does not come unasked on H20.
        fusion_across_nodes_on_sm100: Whether it comes unasked for several nodes, on SM100.
        fusion_off_when_deterministic: Whether deterministic inference turns it off.
        torch_symm_mem_dies: Whether an unknown GPU is a `KeyError` rather than a warning.
        tokenspeed_is_cutedsl: Whether tokenspeed_mla is rewritten to cutedsl_mla.
        mscclpp_worlds: World sizes of mscclpp.
        pcie_ipc: Whether there is a PCIe-IPC all-reduce.
        forced_chain_is_topk_1: Whether the default backend takes DFLASH for topk 1.
        dflash_rewrites_draft_backend: Whether an unsupported draft backend of DFLASH is replaced.
        dflash_falls_back_to_fa4: Whether it is fa4 on SM100 in place of trtllm_mha.
        hybrid_radix_stops_overlap: Whether the radix cache of a hybrid target turns the overlap off.
        hybrid_pages: Whether Kimi-Linear with a radix cache takes a page size above 1.
        more_hybrids: Targets that it treats as hybrid ones beyond those of every release.
        sink_backends: Backends that a target with attention sinks takes.
        dflash_dp_attention: Whether DFLASH runs under dp attention, given `--enable-dp-lm-head`.
        checks_every_draft_window: Whether an empty draft window is refused for all, not for DFLASH alone.
        mixed_chunk_algorithms: Those that leave `--enable-mixed-chunk` on.
        lora_algorithms: Those that run with LoRA.
        pipeline_algorithms: Those that run with pipeline parallelism, given SGLANG_ENABLE_PP_SPEC.
        adaptive: Format of the adaptive-steps file; None without the feature.
        adaptive_table: All candidate steps of its built-in table, which stands where no file is given.
        adaptive_on_v2: Whether adaptive steps run on the v2 worker.
        adaptive_zero_steps: Whether a candidate of 0 (no drafting) is allowed.
        adaptive_adds_start: Whether a start outside the candidates becomes one of them.
        ngram_depth_flag: Flag for the depth of the NGRAM trie.
        fused_shards_divide: Whether fused projections may be cut into fewer shards than they were written for.
        gone_flags: Flags the parser lacks -> what to write instead.
    """

    release: str
    algorithms: frozenset[str]
    v1_algorithms: frozenset[str]
    v2_algorithms: frozenset[str]
    attention_backends: tuple[str, ...]
    draft_backends: tuple[str, ...]
    fusion_architectures: frozenset[str]
    fa4_page: Fa4Page
    tree_on_v2: bool = False
    tree_falls_back_to_v1: bool = False
    synchronous_v2: bool = False
    always_v2: frozenset[str] = frozenset()
    deterministic_backends: tuple[str, ...] = ("flashinfer", "fa3", "triton")
    deterministic_first: bool = False
    paged_tree_backends: tuple[str, ...] = ("flashinfer", "fa3")
    trtllm_mha_pages: tuple[int, ...] = (16, 32, 64)
    trtllm_mha_prefill_majors: tuple[int, ...] = (10,)
    trtllm_mha_decode_majors: tuple[int, ...] = (9, 10, 12)
    trtllm_mha_by_pair: bool = False
    trtllm_mha_as_draft_pages: bool = False
    fusion_architectures_on_sm100: frozenset[str] = frozenset()
    fusion_backends: tuple[str, ...] = ()
    fusion_can_be_forced_off: bool = True
    fusion_needs_tp: bool = True
    fusion_spares_h20: bool = False
    fusion_across_nodes_on_sm100: bool = False
    fusion_off_when_deterministic: bool = False
    torch_symm_mem_dies: bool = True
    tokenspeed_is_cutedsl: bool = False
    mscclpp_worlds: tuple[int, ...] = (8, 16)
    pcie_ipc: bool = False
    forced_chain_is_topk_1: bool = False
    dflash_rewrites_draft_backend: bool = False
    dflash_falls_back_to_fa4: bool = False
    hybrid_radix_stops_overlap: bool = False
    hybrid_pages: bool = True
    more_hybrids: frozenset[str] = frozenset()
    sink_backends: tuple[str, ...] = ("triton", "trtllm_mha", "fa3", "fa4", "ascend")
    dflash_dp_attention: bool = False
    checks_every_draft_window: bool = False
    mixed_chunk_algorithms: frozenset[str] = frozenset()
    lora_algorithms: frozenset[str] = frozenset({"NGRAM"})
    pipeline_algorithms: frozenset[str] = frozenset()
    adaptive: AdaptiveFormat | None = None
    adaptive_table: tuple[int, ...] = (1, 3, 7)
    adaptive_on_v2: bool = True
    adaptive_zero_steps: bool = False
    adaptive_adds_start: bool = False
    ngram_depth_flag: str = "speculative-ngram-max-trie-depth"
    fused_shards_divide: bool = False
    gone_flags: Mapping[str, str] = field(default_factory=dict)
