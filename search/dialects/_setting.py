"""What a config and its deployment resolve to, as far as the server's rules look at it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from search.config import KnobValue, SpecConfig, SpecVersion, flag_name
from search.deployment import ArgValue, Deployment
from search.dialects._targets import HYBRID_ARCHITECTURES
from search.dialects._traits import Traits

Arguments = Mapping[str, ArgValue]
"""A study's own server flags, named with dashes and without those set to False."""


def arguments(deployment: Deployment) -> dict[str, ArgValue]:
    """The study's flags under one spelling; it may write them with dashes or underscores.

    The radix cache is off unless the study says otherwise: hits would flatter repeats.
    """
    said = {flag_name(name): value for name, value in deployment.server_args.items()}
    return {name: value for name, value in ({"disable-radix-cache": True} | said).items() if value is not False}


def text(args: Arguments, name: str) -> str | None:
    """A flag's value as text; None when absent."""
    value = args.get(name)
    return None if value is None else str(value)


def number(args: Arguments, name: str, default: int) -> int:
    """A flag's value as a whole number; `default` when absent or not a number."""
    value = args.get(name)
    try:
        return default if value is None or isinstance(value, tuple) else int(value)
    except (ValueError, OverflowError):
        return default


def dp_attention(args: Arguments) -> bool:
    """Whether attention is data-parallel: the flag alone does nothing at dp 1 (0.5.9 `srt/server_args.py:2110`)."""
    if number(args, "attn-dp-size", 1) > 1:  # the spelling of 0.5.23
        return True
    if "enable-dp-attention" not in args:
        return False
    return max(number(args, name, 1) for name in ("dp-size", "data-parallel-size")) > 1


def pipelined(args: Arguments) -> bool:
    """Whether layers are spread over stages."""
    return max(number(args, name, 1) for name in ("pp-size", "pipeline-parallel-size")) > 1


def hybrid_radix(architecture: str, args: Arguments, traits: Traits) -> bool:
    """Whether a hybrid target runs with a radix cache that keeps no second buffer."""
    buffered = args.get("mamba-scheduler-strategy") == "extra_buffer"
    hybrid = architecture in HYBRID_ARCHITECTURES | traits.more_hybrids
    return hybrid and "disable-radix-cache" not in args and not buffered


def draft_tokens_of_a_chain(algorithm: str, config: SpecConfig) -> SpecConfig:
    """The tree numbers after the server's rewrites.

    EAGLE and its kin set `num_draft_tokens` to `num_steps + 1` at topk 1 (0.5.9 `srt/server_args.py:2443`).
    DFLASH drafts its block in one pass and forces topk and steps to 1; its depth here is what one pass
    drafts, so `num_steps` is the block without its root. NGRAM rewrites nothing.
    """
    tokens, steps = config.num_draft_tokens, config.num_steps
    if not config.speculates or tokens is None or steps is None or algorithm == "NGRAM":
        return config
    topk = config.topk
    if algorithm == "DFLASH":
        topk, steps = 1, tokens - 1
    elif topk == 1:
        tokens = steps + 1
    if (topk, steps, tokens) == (config.topk, config.num_steps, config.num_draft_tokens):
        return config
    return SpecConfig(config.spec_version, topk, steps, tokens, config.allreduce_fusion, config.extra)


@dataclass(frozen=True, slots=True)
class Backends:
    """Attention backends after the server's own choices; None where only the server knows.

    Attributes:
        attention: The common backend, which most rules look at.
        prefill: Backend of prefill alone, if set apart.
        decode: Backend of decode alone, if set apart.
    """

    attention: str | None
    prefill: str | None
    decode: str | None

    def any_is(self, *names: str) -> bool:
        """Whether any of the three is one of `names`."""
        return self.attention in names or self.prefill in names or self.decode in names

    @property
    def pair(self) -> tuple[str | None, str | None]:
        """What prefill and decode really run on."""
        return self.prefill or self.attention, self.decode or self.attention

    @property
    def split(self) -> bool:
        """Whether prefill and decode run on different backends."""
        return self.pair[0] != self.pair[1]


@dataclass(frozen=True, slots=True)
class Resolved:
    """The values a server ends up with, the tree's numbers apart; equal ones are the same launch.

    Attributes:
        worker: Which worker runs.
        overlap: Whether the overlap scheduler is on.
        backends: Of attention.
        page_size: After the backends had their say.
        draft_backends: Of the draft, for prefill and decode; None without speculation.
        attention_mode: Which of a split pair verifies; None without effect.
        fusion: `off`, `auto`, or a backend that `auto` would not choose here.
        transport: Of all-reduce; `auto` also where the asked one has no effect.
        adaptive: Candidate steps, or `off`.
        flags: The config's own server flags that change something.
        variables: The same of environment variables.
    """

    worker: SpecVersion
    overlap: bool
    backends: Backends
    page_size: int
    draft_backends: tuple[str | None, str | None] | None
    attention_mode: str | None
    fusion: str
    transport: str
    adaptive: str
    flags: tuple[tuple[str, KnobValue], ...] = ()
    variables: tuple[tuple[str, KnobValue], ...] = ()


@dataclass(frozen=True, slots=True)
class Setting:
    """One config on one deployment, resolved; what a rule is asked about.

    Attributes:
        config: The canonical config.
        args: The study's flags and the config's own.
        algorithm: As the server names it: NEXTN is EAGLE.
        major: Compute capability, major number: 9 for Hopper, 12 for RTX PRO 6000 Blackwell.
    """

    config: SpecConfig
    deployment: Deployment
    args: Arguments
    traits: Traits
    algorithm: str
    resolved: Resolved

    @property
    def major(self) -> int:
        """Compute capability, major number."""
        return self.deployment.hardware.sm // 10

    @property
    def speculates(self) -> bool:
        """Whether drafts are proposed at all."""
        return self.config.speculates

    @property
    def is_tree(self) -> bool:
        """Whether the draft is wider than a chain."""
        return (self.config.topk or 0) > 1

    @property
    def drafts_like_eagle(self) -> bool:
        """Whether an EAGLE-like worker drafts: EAGLE, EAGLE3 or a standalone model."""
        return self.speculates and self.algorithm in ("EAGLE", "EAGLE3", "STANDALONE")

    @property
    def dp_attention(self) -> bool:
        """Whether attention is data-parallel."""
        return dp_attention(self.args)
