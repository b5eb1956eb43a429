"""Cases of many architectures: what a target forces, which backends it takes, and what speculates on it."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import product
from typing import Any, Final

import cases
from cases import Case
from models import SHAPES

SEED: Final = 11
COUNT: Final = 120
FIRST: Final = 40
"""Targets that there were when the cases of `SEED` were drawn; other seeds draw from all."""

CHAIN: Final[dict[str, Any]] = {"num_steps": 2, "topk": 1, "num_draft_tokens": 3}
TREE: Final[dict[str, Any]] = {"num_steps": 3, "topk": 4, "num_draft_tokens": 16}
BACKENDS: Final = ("fa3", "flashinfer", "triton", "trtllm_mha")
DRAFTED: Final[dict[str, str]] = {
    "EAGLE3": "eagle3_llama",
    "EAGLE": "eagle_llama",
    "STANDALONE": "small_llama",
    "DFLASH": "dflash_qwen3",
}
"""Algorithm -> a draft; the arguments never compare its sizes with the target's."""


def all_cases() -> Iterator[Case]:
    """Every target on every GPU, with every algorithm, and with every common backend."""
    for name, gpu in product(SHAPES, ("sm90", "sm100", "sm120")):
        yield from _defaults(name, gpu)
        yield from _backends(name, gpu)


def _case(family: str, name: str, gpu: str, draft: str | None = None, **knobs: Any) -> Case:
    trust = {"flags": ["--trust-remote-code"]} if "auto_map" in SHAPES[name]["config"] else {}
    return Case(family, gpu, SHAPES[name]["tp"], name, draft, {**knobs, "disable_radix_cache": True, **trust})


def _defaults(name: str, gpu: str) -> Iterator[Case]:
    """Nothing but what must be said: backend, page size, worker and fusion are the release's own choice."""
    family = "architecture-defaults"
    yield _case(family, name, gpu)
    for numbers in ({}, CHAIN, TREE):
        yield _case(family, name, gpu, DRAFTED["EAGLE3"], algorithm="EAGLE3", **numbers)
    yield _case(family, name, gpu, None, algorithm="EAGLE", **CHAIN)
    yield _case(family, name, gpu, None, algorithm="NGRAM")
    if gpu == "sm90":
        yield _case(family, name, gpu, DRAFTED["STANDALONE"], algorithm="STANDALONE", **CHAIN)
        yield _case(family, name, gpu, DRAFTED["DFLASH"], algorithm="DFLASH")
        yield _case(family, name, gpu, DRAFTED["EAGLE3"], algorithm="EAGLE3", page_size=16, **CHAIN)


def _backends(name: str, gpu: str) -> Iterator[Case]:
    """A backend that somebody names."""
    family = "architecture-backends"
    for backend in BACKENDS:
        yield _case(family, name, gpu, DRAFTED["EAGLE3"], algorithm="EAGLE3", attention_backend=backend, **CHAIN)


def generated(seed: int, count: int) -> list[Case]:
    """Cases drawn from all knobs, on targets drawn from all architectures."""
    draw = random.Random(f"architectures {seed}")
    names = sorted(list(SHAPES)[:FIRST] if seed == SEED else SHAPES)
    return [_drawn(draw, case, names) for case in cases.generated(seed, count)]


def _drawn(draw: random.Random, case: Case, names: Sequence[str]) -> Case:
    name = draw.choice(names)
    knobs = dict(case.knobs)
    if "auto_map" in SHAPES[name]["config"]:
        knobs["flags"] = ["--trust-remote-code"]
    own = knobs.get("algorithm") in ("EAGLE", "NEXTN") and draw.random() < 0.5
    return replace(case, model=name, draft=None if own else case.draft, knobs=knobs)
