"""What every launch of a study shares: model, draft, GPUs, SGLang release, patches, server flags."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

ArgValue: TypeAlias = str | int | float | bool | tuple[str | int | float, ...]
Algorithm: TypeAlias = Literal["EAGLE3", "EAGLE", "NEXTN", "STANDALONE", "NGRAM", "DFLASH"]
"""NEXTN is another name of EAGLE. DFLASH begins at 0.5.11."""


@dataclass(frozen=True, slots=True)
class Hardware:
    """The GPUs of one slot.

    Attributes:
        kind: The vendor's name, such as `NVIDIA H200`.
        sm: Compute capability times ten: 90 for Hopper, 120 for RTX PRO 6000 Blackwell.
        memory_gib: Of one GPU.
        links: How the GPUs reach one another.
    """

    kind: str
    sm: int
    memory_gib: float
    links: Literal["pcie", "nvlink"]


@dataclass(frozen=True, slots=True)
class Patch:
    """A named change to the installed SGLang, and the ids of the rules it lifts."""

    name: str
    lifts: tuple[str, ...]
    note: str = ""


@dataclass(frozen=True, slots=True)
class CheckpointFacts:
    """What a checkpoint is, read from its `config.json`, weight index and tokenizer; never from a name.

    Attributes:
        architecture: `architectures[0]`; empty where the file names none.
        mtp_layers: Layers of its own that draft (multi-token prediction); None where unknown.
        mla: Whether attention keeps latent vectors (MLA).
        sparse: Whether an indexer picks the tokens that are attended to (DSA).
        hybrid: Whether some layers keep a recurrent state (mamba, linear attention, convolutions).
        hidden: Width; 0 where unknown, like all sizes here.
        heads: Attention heads.
        kv_heads: Key-value heads.
        vocabulary: Tokens.
        draft_vocabulary: Tokens that a draft proposes, where it has fewer.
        experts: Routed experts.
        expert_width: Intermediate size of one expert.
        ffn_width: Intermediate size of a dense layer.
        fp8_block: Rows and columns that share one FP8 scale.
        block_size: Tokens that a DFLASH draft proposes in one pass, root included.
        fused_shards: Shards of attention that its fused projections were written for.
        zeros: Sizes that the file sets to zero where none can be.
        tokenizer: Whether a tokenizer lies beside it.
    """

    architecture: str = ""
    mtp_layers: int | None = None
    mla: bool = False
    sparse: bool = False
    hybrid: bool = False
    hidden: int = 0
    heads: int = 0
    kv_heads: int = 0
    vocabulary: int = 0
    draft_vocabulary: int = 0
    experts: int = 0
    expert_width: int = 0
    ffn_width: int = 0
    fp8_block: tuple[int, int] | None = None
    block_size: int = 0
    fused_shards: int = 0
    zeros: tuple[str, ...] = ()
    tokenizer: bool = False


@dataclass(frozen=True, slots=True)
class Deployment:
    """What every launch of a study shares.

    Attributes:
        model: Hub id or local path of the target.
        draft: Hub id or local path of the draft model; empty for NGRAM, and for EAGLE on a target
            that drafts with its own layers.
        architecture: The target's `architectures[0]`, or empty when not known.
        tp: Tensor parallel size, and the number of GPUs of a slot.
        release: The SGLang release, such as `0.5.9`.
        python: The interpreter SGLang lives in; empty for our own.
        prefix: Arguments put before the interpreter, such as `("numactl", "-N0")`.
        env: Environment of the server beyond what is inherited.
        searched_env: Variables that the study opens as knobs: each launch sets them, or unsets an inherited one.
        server_args: Flag name without dashes to value; `True` for a bare flag, a tuple for
            several words.
        max_running_requests: Always sent: unset, SGLang admits only 48 requests once it
            speculates (all releases 0.5.9 to 0.5.23).
        boot_ceiling_s: Longest allowed time from start to the first own token.
        stall_s: Longest allowed time without any sign of progress while starting.
        target_facts: Of the target's checkpoint; None where it was not there to look at.
        draft_facts: Of the draft's.
    """

    model: str
    draft: str
    algorithm: Algorithm
    tp: int
    hardware: Hardware
    release: str
    architecture: str = ""
    patches: tuple[Patch, ...] = ()
    python: str = ""
    prefix: tuple[str, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict)
    searched_env: tuple[str, ...] = ()
    server_args: Mapping[str, ArgValue] = field(default_factory=dict)
    trust_remote_code: bool = False
    max_running_requests: int = 256
    boot_ceiling_s: float = 3600.0
    stall_s: float = 600.0
    target_facts: CheckpointFacts | None = None
    draft_facts: CheckpointFacts | None = None

    @property
    def lifted_rules(self) -> frozenset[str]:
        """Ids of all rules that a named patch lifts."""
        return frozenset(rule for patch in self.patches for rule in patch.lifts)
