"""A commented study file out of guesses."""

from __future__ import annotations

import math
import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import yaml

from search.app.init_guess import Gpus, Guess
from search.config import SpecConfig, SpecVersion


@dataclass(frozen=True, slots=True)
class Draft:
    """Everything that a first study file says.

    Attributes:
        weight_gb: Of the target; 0 where not known.
        asked_as: What `--study` takes to find the file.
        needs_code: The target's configuration is code in its repository.
        fusion: Whether all-reduce fusion may have an effect here.
        topk: Widths to open.
        steps: Depths to open.
        block: Tokens that a DFLASH draft was trained to propose at once, root included; 0 where unknown.
        known: Configs to launch first, baseline not among them.
        chat: The target's tokenizer has a chat template.
    """

    name: str
    asked_as: str
    model: str
    draft: str
    algorithm: Guess
    architecture: Guess
    tp: Guess
    gpus: Gpus
    release: Guess
    python: str
    backend: Guess
    versions: Sequence[SpecVersion]
    fusion: bool
    known: Sequence[SpecConfig]
    topk: Sequence[int] = (1, 2, 4)
    steps: Sequence[int] = (1, 2, 3, 4, 5)
    block: int = 0
    weight_gb: float = 0.0
    needs_code: bool = False
    chat: bool = False


def render(draft: Draft) -> str:
    """The text of the file; `load_study` reads it."""
    return "\n".join(_lines(draft)) + "\n"


def _lines(draft: Draft) -> Iterator[str]:
    hardware, asked = draft.gpus.hardware, shlex.quote(draft.asked_as)
    yield "# Written by `python -m search init`. Lines marked GUESS are worth a look before the first GPU minute."
    yield "#"
    yield f"#   python -m search doctor --study {asked}          is everything there?"
    yield f"#   python -m search plan   --study {asked}          what would be launched, and for how long"
    yield f"#   python -m search.run    --study {asked} --simulate"
    yield f"#   python -m search.run    --study {asked}"
    yield ""
    yield f"study: {_word(draft.name)}"
    yield ""
    yield "model:"
    yield f"  target: {_word(draft.model)}"
    if draft.draft:
        yield f"  draft: {_word(draft.draft)}"
    yield _guessed("  algorithm", draft.algorithm)
    if draft.architecture.value:
        yield _guessed("  architecture", draft.architecture)
    else:
        yield "  # architecture: LlamaForCausalLM   # `architectures` in the target's config.json; rules depend on it"
    yield _guessed("  tp", draft.tp, plain=True)
    if draft.needs_code:
        yield "  # The target brings code of its own (`auto_map`), which SGLang runs only if you trust it:"
        yield "  # trust_remote_code: true"
    yield ""
    yield "hardware:" + (f"{'':<27}  # GUESS: {draft.gpus.why}" if draft.gpus.why else "")
    yield f"  gpus: {draft.gpus.count}"
    yield f"  kind: {_word(hardware.kind)}"
    yield f"  sm: {hardware.sm}"
    yield f"  memory_gib: {hardware.memory_gib:g}"
    yield f"  links: {hardware.links}"
    yield ""
    yield "engine:"
    yield _guessed("  release", draft.release)
    if draft.python:
        yield f"  python: {_word(draft.python)}"
    if draft.backend.value:
        yield "  server_args:"
        yield _guessed("    attention-backend", draft.backend)
        yield "    # pinned, because the release's default may change with topk"
    yield "  max_running_requests: 256            # unset, SGLang admits only 48 once it speculates"
    ceiling = max(20, math.ceil(0.27 * draft.weight_gb))
    yield _guessed("  boot_ceiling_minutes", Guess(str(ceiling), "for weights from a cold disk"), plain=True)
    yield ""
    yield from _space(draft)
    yield ""
    yield "objectives: {latency: 1, throughput: 100}"
    yield "watch: [10, 30]"
    yield ""
    yield "known:                                 # launched before the sampler is asked"
    yield '  - "off"'
    yield from (f"  - {_word(config.config_id)}" for config in draft.known)
    yield ""
    yield "measure:"
    yield "  output_tokens: 256"
    if draft.chat:
        yield "  prompts: {template: chat}            # as people send them: the target's own chat template"
        yield "  #   file: prompts.jsonl              # yours; without it the packaged set (chat, code, maths, long)"
    else:
        yield "  # No chat template was found beside the target: drafts see text that they were not made for until one is named."
        yield "  # prompts: {template: chat, tokenizer: FOLDER, file: prompts.jsonl}"
    yield "  # sampling: {temperature: 0.6, top_p: 0.95, thinking: true}   # as you serve; without it greedy"
    yield ""
    yield "budget: {launches: 40, hours: 12}"


def _space(draft: Draft) -> Iterator[str]:
    names = ", ".join(version.value for version in draft.versions)
    yield "space:"
    yield f"  spec_version: [{names}]"
    if draft.gpus.hardware.links == "pcie" and draft.tp.value != "1":
        yield "  # How NCCL crosses PCIe can be worth more than any draft; four times the space:"
        yield "  # env: {NCCL_P2P_LEVEL: [unset, SYS], NCCL_MIN_NCHANNELS: [unset, 8]}"
    match draft.algorithm.value:
        case "NGRAM":
            yield "  topk: [1, 4, 10]                     # breadth of the matches; 10 is SGLang's own"
            yield "  num_steps: [18]                      # their longest; 18 is SGLang's own"
            yield "  num_draft_tokens: [4, 8, 12, 16]"
        case "DFLASH":
            yield "  topk: [1]"
            yield "  num_steps: [1]                       # a block is drafted in one pass"
            if draft.block:
                yield f"  num_draft_tokens: [{draft.block}]                # the block that the draft was trained for"
            else:
                yield "  num_draft_tokens: [4, 8, 12, 16]     # the block with its root"
        case _:
            steps = ", ".join(map(str, draft.steps))
            yield f"  topk: [{', '.join(map(str, draft.topk))}]"
            yield f"  num_steps: [{steps}]"
            if max(draft.topk) == 1:
                tokens = ", ".join(str(depth + 1) for depth in draft.steps)
                yield "  # The target forces chains: each has one token more than steps."
                yield f"  num_draft_tokens: [{tokens}]"
                if draft.fusion:
                    yield '  allreduce_fusion: ["off", auto]'
                return
            yield "  # Up to the tree bound 1 + topk + (steps - 1) * topk**2; `tree` is that bound itself."
            yield "  num_draft_tokens: [2, 3, 4, 6, 8, 12, 16, 32, tree]"
    if draft.fusion:
        yield '  allreduce_fusion: ["off", auto]'


def _guessed(key: str, guess: Guess, *, plain: bool = False) -> str:
    """A line with its value; with its reason where it is a guess."""
    said = f"{key}: {guess.value if plain else _word(guess.value)}"
    return f"{said:<37}  # GUESS: {guess.why}" if guess.why else said


def _word(text: str) -> str:
    """A string as YAML reads it back, quoted where it must be."""
    dumped: str = yaml.safe_dump(text, default_flow_style=True, allow_unicode=True, width=10_000)
    return dumped.removesuffix("...\n").strip()
