"""What a config and its deployment resolve to, as far as the server's rules look at it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from search.config import KnobValue, SpecConfig
from search.deployment import ArgValue, Deployment

TRTLLM_MLA_ARCHITECTURES: Final = frozenset(
    {
        "DeepseekV3ForCausalLM",
        "KimiK25ForConditionalGeneration",
        "MistralLarge3ForCausalLM",
        "PixtralForConditionalGeneration",
    }
)
"""Targets that get trtllm_mla on SM100 (sglang 0.5.9 `srt/server_args.py:1197` and `:1283`, 0.5.11 `:1673` and `:1774`)."""

MLA_ARCHITECTURES: Final = TRTLLM_MLA_ARCHITECTURES | {"DeepseekV2ForCausalLM", "LongcatFlashForCausalLM"}
"""Targets with MLA attention and no backend of their own (0.5.9 and 0.5.11 `srt/configs/model_config.py:418`)."""


def argument(deployment: Deployment, name: str) -> ArgValue | None:
    """Value of a study's own server flag, written with dashes or underscores; None when absent or False."""
    args = deployment.server_args
    value = args.get(name)
    if value is None:
        value = args.get(name.replace("-", "_"))
    return None if value is False else value


def _text(deployment: Deployment, name: str) -> str | None:
    value = argument(deployment, name)
    return None if value is None else str(value)


def number(deployment: Deployment, name: str, default: int) -> int:
    """A study's own server flag as a whole number; `default` when absent or not a number."""
    value = argument(deployment, name)
    try:
        return default if value is None or isinstance(value, tuple) else int(value)
    except (ValueError, OverflowError):
        return default


def dp_attention(deployment: Deployment) -> bool:
    """Whether attention is data-parallel: the flag alone does nothing at dp 1 (0.5.9 `srt/server_args.py:2110`)."""
    if argument(deployment, "enable-dp-attention") is None:
        return False
    return max(number(deployment, name, 1) for name in ("dp-size", "data-parallel-size")) > 1


@dataclass(frozen=True, slots=True)
class Backends:
    """Attention backends after the server's own choices; None where only the server can tell.

    Attributes:
        attention: The common backend, which most rules look at.
        prefill: Backend of prefill alone, if set apart.
        decode: Backend of decode alone, if set apart.
    """

    attention: str | None
    prefill: str | None
    decode: str | None

    def any_is(self, name: str) -> bool:
        """Whether any of the three is `name`."""
        return name in (self.attention, self.prefill, self.decode)

    @property
    def split(self) -> bool:
        """Whether prefill and decode run on different backends."""
        return (self.prefill or self.attention) != (self.decode or self.attention)


def default_backend(deployment: Deployment) -> str | None:
    """The backend of a target with MLA attention when nothing is set; None where it depends on more than we know.

    From sglang 0.5.9 `srt/server_args.py:1283` and `:1820`; 0.5.11 `:1774` and `:2515`.
    """
    if deployment.architecture not in MLA_ARCHITECTURES:
        return None
    match deployment.hardware.sm // 10:
        case 9:
            return "fa3"
        case 10:
            return "trtllm_mla" if deployment.architecture in TRTLLM_MLA_ARCHITECTURES else "flashinfer"
        case _:
            return "triton"


def resolve_backends(deployment: Deployment, asked: KnobValue | None) -> Backends:
    """Backends under the study's flags, with `asked` in place of its `attention-backend`."""
    prefill = _text(deployment, "prefill-attention-backend")
    decode = _text(deployment, "decode-attention-backend")
    attention = str(asked) if asked is not None else _text(deployment, "attention-backend")
    if prefill is not None and prefill == decode:
        attention = prefill
    if attention is None and deployment.architecture:
        attention = default_backend(deployment)
        # The model's own choice stands back when prefill or decode is set apart.
        if attention == "trtllm_mla" and (prefill or decode):
            attention = "flashinfer"
    return Backends(attention, prefill, decode)


def resolve_page_size(backends: Backends, asked: int, *, fa4_forces_page: bool) -> int:
    """Page size after backends had their say (0.5.9 `srt/server_args.py:1853-1923`, 0.5.11 `:2576-2672`)."""
    page = asked
    if "flashmla" in (backends.attention, backends.decode):
        page = 64
    if "cutlass_mla" in (backends.attention, backends.decode):
        page = 128
    if "trtllm_mla" in (backends.attention, backends.decode) and page not in (32, 64):
        page = 64
    if backends.any_is("trtllm_mha") and page not in (16, 32, 64):
        page = 64
    if backends.prefill == "fa4" and fa4_forces_page:
        page = 128
    return page


@dataclass(frozen=True, slots=True)
class Setting:
    """One config on one deployment, resolved; what a rule is asked about.

    Attributes:
        config: The canonical config.
        major: Compute capability, major number: 9 for Hopper, 12 for RTX PRO 6000 Blackwell.
        page_size: After the backends had their say.
        dp_attention: Whether attention is data-parallel.
        transport: Where all-reduce runs, by knob or by the study's own flags.
    """

    config: SpecConfig
    deployment: Deployment
    major: int
    backends: Backends
    page_size: int
    dp_attention: bool
    transport: str

    @property
    def speculates(self) -> bool:
        """Whether drafts are proposed at all."""
        return self.config.speculates

    @property
    def is_tree(self) -> bool:
        """Whether the draft is wider than a chain."""
        return (self.config.topk or 0) > 1
