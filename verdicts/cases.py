"""Argument sets in the terms of knobs: `chosen` cross each rule on both sides, `generated` go anywhere."""

from __future__ import annotations

import json
import random
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

SEED: Final = 5
COUNT: Final = 160

ADAPTIVE_FILES: Final[Mapping[str, Any]] = {
    "adaptive_flat.json": {"candidate_steps": [1, 3, 7], "ema_alpha": 0.2, "update_interval": 5},
    "adaptive_keyed.json": {
        "update_interval": 5,
        "1": {"candidate_steps": [1, 3, 7]},
        "8": {"candidate_steps": [1, 3]},
    },
}
"""The two formats of `--speculative-adaptive-config`: flat until 0.5.12, by batch size from 0.5.13."""


@dataclass(frozen=True)
class Case:
    """One launch to ask a release about.

    Attributes:
        family: The group of rules it crosses; `generated` for the others.
        gpu: A key of `machine.GPUS`.
        tp: Tensor parallel size.
        model: A key of `models.TARGETS`.
        draft: A key of `models.DRAFTS`, or None where no draft path is sent.
        knobs: What `spelling.spell` turns into words; an absent knob is not sent.
        number: Tells generated cases apart.
    """

    family: str
    gpu: str
    tp: int
    model: str
    draft: str | None = None
    knobs: Mapping[str, Any] = field(default_factory=dict)
    number: int | None = None

    @property
    def chosen(self) -> bool:
        """Whether a person chose it."""
        return self.number is None

    @property
    def case_id(self) -> str:
        """Unique, and the same in every release."""
        if self.number is not None:
            return f"{self.family}-{self.number:03d}"
        words = [f"{name}={_word(value)}" for name, value in self.knobs.items()]
        return "/".join([self.family, f"{self.model}+{self.draft or 'none'}", f"{self.gpu}x{self.tp}", *words])

    @property
    def gpus(self) -> int:
        """GPUs of the server: data parallel copies have their own, data parallel attention does not."""
        copies = 1 if self.knobs.get("dp_attention") else self.knobs.get("dp_size", 1)
        return int(self.tp * self.knobs.get("pp_size", 1) * copies)

    def as_dict(self) -> dict[str, Any]:
        """The part of a verdict that is the same in every release."""
        return {
            "id": self.case_id,
            "origin": "chosen" if self.chosen else "generated",
            "family": self.family,
            "gpu": self.gpu,
            "tp": self.tp,
            "gpus": self.gpus,
            "model": self.model,
            "draft": self.draft,
            "knobs": dict(self.knobs),
        }


def _word(value: Any) -> str:
    return "_".join(map(str, value)) if isinstance(value, (list, tuple)) else str(value)


def chosen() -> list[Case]:
    """The chosen cases, each once."""
    import chosen as families

    return list({case.case_id: case for case in families.all_cases()}.values())


def write_files(folder: Path) -> None:
    """Write the files that arguments of cases name."""
    for name, content in ADAPTIVE_FILES.items():
        (folder / name).write_text(json.dumps(content))


BACKENDS: Final = (
    ("fa3", "flashinfer", "triton"),
    ("fa3", "flashinfer", "triton", "trtllm_mha", "fa4", "flashmla", "trtllm_mla", "cutlass_mla"),
)
"""Attention backends of generated cases: three of four come from the first, common ones."""

DRAFT_OF: Final[Mapping[str, tuple[str, ...]]] = {
    "EAGLE3": ("eagle3_llama", "eagle3_llama", "eagle3_mla"),
    "EAGLE": ("eagle_llama",),
    "STANDALONE": ("small_llama",),
    "DFLASH": ("dflash_qwen3", "dflash_small_block"),
}
MODELS: Final = ("llama", "qwen3", "qwen3_moe", "gpt_oss", "glm4_moe", "qwen3_next", "deepseek_v3", "kimi_k25")
WITH_OWN_MTP: Final = ("glm4_moe", "qwen3_next", "deepseek_v3")


def generated(seed: int, count: int) -> list[Case]:
    """Cases drawn from all knobs, one generator for all releases."""
    draw = random.Random(seed)
    return [_draw(draw, number) for number in range(count)]


def _draw(draw: random.Random, number: int) -> Case:
    def sometimes(chance: float) -> bool:
        return draw.random() < chance

    model, gpu, tp = draw.choice(MODELS), draw.choice(("sm90", "sm100", "sm120")), draw.choice((1, 2, 8, 8))
    algorithm = draw.choice(("EAGLE3", "EAGLE3", "EAGLE3", "EAGLE", "NEXTN", "STANDALONE", "NGRAM", "DFLASH", None))
    knobs: dict[str, Any] = {}
    draft = None
    if algorithm:
        knobs["algorithm"] = algorithm
        own = algorithm in ("EAGLE", "NEXTN") and model in WITH_OWN_MTP and sometimes(0.6)
        draft = None if own else draw.choice(DRAFT_OF.get(algorithm, (None,)))
        knobs |= _draw_trio(draw, algorithm)
        if sometimes(0.35):
            knobs["spec_version"] = draw.choice(("v1", "v2", "v2", "v2-sync"))
        elif sometimes(0.35):
            knobs["spec_v2_env"] = draw.choice(("True", "False"))
        if sometimes(0.12) and "spec_version" not in knobs:
            knobs["disable_overlap_schedule"] = True
        if sometimes(0.2):
            knobs["draft_attention_backend"] = draw.choice(BACKENDS[sometimes(0.25)])
        if sometimes(0.2):
            knobs["speculative_attention_mode"] = draw.choice(("prefill", "decode"))
        if sometimes(0.06):
            knobs["adaptive"] = True
        if sometimes(0.05):
            knobs["rejection_sampling"] = True
        if algorithm == "DFLASH" and sometimes(0.3):
            knobs["dflash_block_size"] = draw.choice((8, 16))
        if algorithm == "NGRAM" and sometimes(0.3):
            knobs["ngram_max_bfs_breadth"] = draw.choice((1, 4, 10))
    if sometimes(0.45):
        knobs["attention_backend"] = draw.choice(BACKENDS[sometimes(0.25)])
    elif sometimes(0.2):
        knobs["prefill_attention_backend"] = draw.choice(BACKENDS[sometimes(0.25)])
        knobs["decode_attention_backend"] = draw.choice(BACKENDS[sometimes(0.25)])
    if sometimes(0.3):
        knobs["page_size"] = draw.choice((1, 1, 16, 32, 64, 128))
    if sometimes(0.3):
        knobs["allreduce_fusion"] = draw.choice(("on", "auto", "off", "off", "trtllm", "mnnvl"))
    if sometimes(0.25):
        knobs["allreduce_transport"] = draw.choice(
            ("nccl", "nccl", "torch-symm-mem", "nccl-symm-mem", "mscclpp", "nvls", "pcie-ipc")
        )
    if sometimes(0.5):
        knobs["max_running_requests"] = draw.choice((1, 8, 48, 64, 256))
    if sometimes(0.3):
        knobs["mem_fraction_static"] = draw.choice((0.7, 0.8, 0.88))
    if tp > 1 and sometimes(0.1):
        knobs |= {"dp_size": draw.choice((2, tp)), "dp_attention": True}
    elif sometimes(0.05):
        knobs["dp_size"] = 2
    for name, chance in (
        ("mixed_chunk", 0.06),
        ("deterministic", 0.05),
        ("disable_radix_cache", 0.15 if model == "qwen3_next" else 0.05),
        ("disable_cuda_graph", 0.05),
        ("lora", 0.03),
    ):
        if sometimes(chance):
            knobs[name] = True
    if sometimes(0.1):
        knobs["chunked_prefill_size"] = draw.choice((2048, 8192, 1000))
    if sometimes(0.1):
        knobs["cuda_graph_max_bs"] = draw.choice((8, 32, 160))
    return Case("generated", gpu, tp, model, draft, knobs, number)


def _draw_trio(draw: random.Random, algorithm: str) -> dict[str, int]:
    """All three numbers, none, or a part of them."""
    kind = draw.random()
    if kind < 0.25:
        return {}
    topk = draw.choice((1, 1, 1, 2, 4, 8))
    steps = draw.choice((1, 2, 3, 5, 7))
    room = 1 + topk + (steps - 1) * topk**2
    tokens = steps + 1 if topk == 1 else draw.randint(2, min(64, room))
    if algorithm in ("NGRAM", "DFLASH") and kind < 0.7:
        return {"num_draft_tokens": draw.choice((4, 8, 12, 16))}
    numbers = {"num_steps": steps, "topk": topk, "num_draft_tokens": tokens}
    if kind < 0.35:
        del numbers[draw.choice(sorted(numbers))]
    elif kind < 0.42:
        numbers["num_draft_tokens"] = draw.choice((2, 5, 80))
    return numbers
