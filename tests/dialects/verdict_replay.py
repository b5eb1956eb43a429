"""A recorded verdict as a config on a deployment, and what the dialect says of it beside the server's word."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, get_args

from search.config import SpecConfig, SpecVersion
from search.deployment import Algorithm, Deployment, Hardware
from search.dialects import for_release
from search.errors import UsageError
from search.preflight.checkpoint import Checkpoint
from search.preflight.checkpoint_facts import facts_of

FOLDER = Path(__file__).parent.parent.parent / "verdicts"
HARDWARE = {
    "sm90": Hardware("NVIDIA H200", 90, 140.0, "nvlink"),
    "sm100": Hardware("NVIDIA B200", 100, 179.0, "nvlink"),
    "sm120": Hardware("NVIDIA RTX PRO 6000 Blackwell Server Edition", 120, 95.0, "pcie"),
}
ARCHITECTURES = {
    "llama": "LlamaForCausalLM",
    "qwen3": "Qwen3ForCausalLM",
    "qwen3_moe": "Qwen3MoeForCausalLM",
    "gpt_oss": "GptOssForCausalLM",
    "glm4_moe": "Glm4MoeForCausalLM",
    "qwen3_next": "Qwen3NextForCausalLM",
    "deepseek_v3": "DeepseekV3ForCausalLM",
    "kimi_k25": "KimiK25ForConditionalGeneration",
}
SHAPES = {
    entry["name"]: entry["config"]
    for entry in map(json.loads, (FOLDER / "architectures.jsonl").read_text().splitlines())
}
ARCHITECTURES |= {name: config["architectures"][0] for name, config in SHAPES.items()}
BLOCKS = {"dflash_qwen3": 16, "dflash_small_block": 8}
TREE_FLAGS = ("speculative-num-steps", "speculative-eagle-topk", "speculative-num-draft-tokens")
FLAT = ("0.5.11", "0.5.12", "0.5.12.post1")
"""Releases with the flat adaptive-steps file."""
SNAPS = ("0.5.11",)
"""Releases whose worker, not its arguments, moves the start to the nearest candidate."""
ENVIRONMENT_CHOOSES = ("0.5.9", "0.5.10", "0.5.10.post1")
"""Releases whose worker the environment chooses."""
SYNCHRONOUS_NGRAM = ("0.5.13", "0.5.13.post1")
TWO_WORKERS = (*ENVIRONMENT_CHOOSES, *FLAT)


def unread(case: dict[str, Any]) -> bool:
    """Whether the configuration itself could not be read by the recording's transformers."""
    if "Class validation error" in case.get("refusal", ""):
        return True
    strange = case.get("error") in ("TypeError", "AttributeError", "KeyError") and case["refusal"]
    return bool(
        "hf_transformers" in case.get("where", "")
        or case.get("where") == "outside"
        or (strange and "NoneType" not in case["refusal"])
    )


KNOBS = {
    "attention-backend": "attention_backend",
    "speculative-draft-attention-backend": "draft_attention_backend",
    "speculative-attention-mode": "speculative_attention_mode",
    "page-size": "page_size",
}
LATER = {
    "wasted-depth": "The server runs it and wastes its last steps; fewer steps are the same tree.",
    "v2-topk1-only": "0.5.11 and 0.5.12 run the v1 worker instead, which is another config.",
    "draft-attention-backend": "Raised when the draft worker is built, after the weights are loaded.",
    "fa3-gpu": "Raised when the attention backend is built, after the weights are loaded.",
    "arf-sm120": "No use until 0.5.13; from 0.5.14 raised when the workspace is made, after the weights are loaded.",
    "arf-cutedsl-gpu": "Raised when the workspace is made, after the weights are loaded.",
    "torch-symm-mem-sm120": "A KeyError when the communicator is made.",
    "eagle3-target": "An AttributeError after the weights are loaded.",
    "eagle3-kimi-k25": "An AttributeError after the weights are loaded.",
    "dflash-target": "Raised after the weights are loaded.",
    "eagle-draft-missing": "The draft's weights are looked for in the target's and are not there.",
    "target-class": "Raised when the model's class is looked for, after the arguments.",
    "ngram-breadth": "Thrown when the draft worker is built.",
    "ngram-depth": "Thrown when the draft worker is built.",
    "ngram-window": "Thrown when the draft worker is built.",
    "mtp-depth": "The draft worker looks for layers that the checkpoint does not have.",
    "mtp-chain": "An assertion when the draft worker is built.",
    "architecture-backend": "Some releases look at the common backend alone, not at one named for both phases.",
    "tree-bound": "`torch.topk` fails in graph capture, or at the first decode.",
}
"""Rules by which we refuse what the arguments pass and the server dies of, or makes into another config, later."""


class NotSent(Exception):
    """We never send such words."""


@dataclass(frozen=True)
class Replayed:
    """The two words on one case."""

    case: dict[str, Any]
    rules: tuple[str, ...]
    words: str
    differences: tuple[str, ...] = ()

    @property
    def accepted(self) -> bool:
        return not self.rules and not self.words

    @property
    def disagrees(self) -> str:
        """Empty, or how the two differ."""
        said = self.case["verdict"] == "accepted"
        if said and not self.accepted:
            strange = [rule for rule in self.rules if rule not in LATER]
            return f"we refuse ({', '.join(strange) or self.words}), it accepts" if strange or self.words else ""
        if not said and self.accepted:
            return f"we accept, it refuses: {self.case['refusal']}"
        return "; ".join(self.differences) if said else ""


def cases(release: str, folder: str = "") -> list[dict[str, Any]]:
    """All recorded cases of a release, without the file's header."""
    with gzip.open(FOLDER / folder / f"{release}.jsonl.gz", "rt") as lines:
        return [json.loads(line) for line in lines][1:]


def recorded_releases(folder: str = "") -> list[str]:
    """Releases with a verdict file."""
    return sorted(path.name.removesuffix(".jsonl.gz") for path in (FOLDER / folder).glob("*.jsonl.gz"))


def flags_of(argv: list[str]) -> dict[str, Any]:
    """Flag to value: True for a bare one, a tuple for several words."""
    found: dict[str, list[str]] = {}
    for word in argv:
        if word.startswith("--"):
            found[word[2:]] = []
        else:
            found[list(found)[-1]].append(word)
    return {name: True if not words else words[0] if len(words) == 1 else tuple(words) for name, words in found.items()}


def replay(case: dict[str, Any], release: str) -> Replayed:
    """Ask the release's dialect about a case.

    Raises:
        NotSent: The case is none that we would ever launch.
    """
    try:
        config, deployment, asked_fusion = translate(case, release)
        dialect = for_release(release)
        dialect.server_args(deployment)
        if unknown := dialect.unknown_flags(deployment):
            return Replayed(case, (), " ".join(unknown))
        bound = dialect.on(deployment)
        canonical = bound.canonical(config)
        rules = tuple(rule.rule_id for rule in bound.violations(canonical))
        dialect.launch_args(canonical, deployment)
    except UsageError as error:
        return Replayed(case, (), str(error) or type(error).__name__)
    except TreeBound:
        return Replayed(case, ("tree-bound",), "")
    differences: tuple[str, ...] = ()
    if not rules and case["verdict"] == "accepted":
        differences = tuple(_differences(case, release, canonical, deployment, asked_fusion))
    return Replayed(case, rules, "", differences)


class TreeBound(Exception):
    """More draft tokens than the tree holds."""


def translate(case: dict[str, Any], release: str) -> tuple[SpecConfig, Deployment, bool]:
    """The case as a config, a deployment, and whether it says anything of fusion."""
    if case["model"] in SHAPES and unread(case):
        raise NotSent("a configuration that the recording's transformers does not read")
    if "CUBIN_POOL" in case.get("refusal", ""):
        raise NotSent("a refusal of kernels that are not on the recording's machine")
    flags, env = flags_of(case["argv"]), dict(case["env"])
    for name in ("model-path", "tp-size", "speculative-draft-model-path"):
        flags.pop(name, None)
    trusted = flags.pop("trust-remote-code", False)
    algorithm = flags.pop("speculative-algorithm", None)
    if algorithm == "NEXTN" and "Only EAGLE" in case.get("refusal", ""):
        raise NotSent("NEXTN, which is spelled EAGLE, where only that is taken")
    if algorithm is not None and algorithm not in get_args(Algorithm):
        raise NotSent(f"algorithm {algorithm}")
    version, extra = _worker(algorithm, flags, env, release)
    tree = _tree(algorithm, flags, case)
    fusion, asked_fusion = _fusion(flags)
    adaptive, file = flags.pop("speculative-adaptive", False), flags.pop("speculative-adaptive-config", None)
    if adaptive:
        extra["adaptive"] = _candidates(file, release)
    for flag, knob in KNOBS.items():
        if flag in flags:
            value = flags.pop(flag)
            extra[knob] = int(value) if value.isdecimal() else value
    limit = int(flags.pop("max-running-requests", 256))
    if not asked_fusion:
        fusion = "off"
    flags.setdefault("disable-radix-cache", False)
    deployment = Deployment(
        f"models/{case['model']}",
        f"models/{case['draft']}" if case["draft"] else "",
        algorithm or "NGRAM",
        case["tp"],
        HARDWARE[case["gpu"]],
        release,
        architecture=ARCHITECTURES[case["model"]],
        env={name: value for name, value in env.items() if name != "SGLANG_ENABLE_SPEC_V2"},
        server_args=flags,
        max_running_requests=limit,
        trust_remote_code=bool(trusted),
        target_facts=facts_of(Checkpoint(Path(), SHAPES[case["model"]])) if case["model"] in SHAPES else None,
    )
    if algorithm in ("EAGLE3", "STANDALONE") and not case["draft"]:
        raise NotSent("a draft algorithm without a draft")
    config = SpecConfig(version, *tree, fusion, tuple(extra.items()))
    return config, deployment, asked_fusion


def _candidates(file: str | None, release: str) -> str:
    """`auto` for the release's built-in table, or the candidates of a recorded file it can read."""
    flat = release in FLAT
    if file is None:
        return "auto"
    known = {("adaptive_flat.json", True): "1-3-7", ("adaptive_keyed.json", False): "1-3-7"}
    if (file, flat) not in known:
        raise NotSent("an adaptive file of another format, or none")
    return known[file, flat]


def _worker(
    algorithm: str | None, flags: dict[str, Any], env: dict[str, str], release: str
) -> tuple[SpecVersion, dict[str, Any]]:
    synchronous = flags.pop("disable-overlap-schedule", False)
    variable = env.get("SGLANG_ENABLE_SPEC_V2", "").lower()
    two_workers = for_release(release).supports_v1
    if algorithm is None:
        if synchronous and two_workers:
            raise NotSent("off without overlap before 0.5.13")
        return SpecVersion.OFF, {"overlap": "off"} if synchronous else {}
    if not two_workers:
        off = synchronous or (release in SYNCHRONOUS_NGRAM and variable in ("false", "0"))
        if algorithm in ("NGRAM", "DFLASH") and release in SYNCHRONOUS_NGRAM:
            return SpecVersion.V1, {}
        return SpecVersion.V2, {"overlap": "off"} if off else {}
    if release in ENVIRONMENT_CHOOSES:
        return (SpecVersion.V2 if variable in ("true", "1") else SpecVersion.V1), {}
    return (SpecVersion.V1 if synchronous or variable in ("false", "0") else SpecVersion.V2), {}


def _tree(algorithm: str | None, flags: dict[str, Any], case: dict[str, Any]) -> tuple[int | None, ...]:
    steps, topk, tokens = (flags.pop(name, None) for name in TREE_FLAGS)
    if algorithm is None:
        if any(value is not None for value in (steps, topk, tokens)):
            raise NotSent("tree numbers without an algorithm")
        return None, None, None
    if algorithm in ("NGRAM", "DFLASH"):
        if steps is not None or topk is not None:
            raise NotSent(f"{algorithm} with steps or topk, which it overrides")
        block = flags.pop("speculative-dflash-block-size", None)
        if block is not None and algorithm == "DFLASH":
            if tokens not in (None, block):
                raise NotSent("two block sizes")
            tokens = block
        if algorithm == "DFLASH":
            size = int(tokens) if tokens is not None else BLOCKS.get(case["draft"], 16)
            return 1, max(size - 1, 1), size
        return int(flags.pop("speculative-ngram-max-bfs-breadth", 10)), 18, int(tokens or 12)
    if None in (steps, topk, tokens):
        raise NotSent("part of the three numbers, or none")
    steps, topk, tokens = int(steps), int(topk), int(tokens)
    if min(steps, topk) < 1 or tokens < 2:
        raise NotSent("numbers below their least")
    if topk > 1 and tokens > 1 + topk + (steps - 1) * topk**2:
        raise TreeBound
    return topk, steps, tokens


def _fusion(flags: dict[str, Any]) -> tuple[str, bool]:
    off = flags.pop("enforce-disable-flashinfer-allreduce-fusion", False)
    plain = flags.pop("enable-flashinfer-allreduce-fusion", False)
    named = flags.pop("flashinfer-allreduce-fusion-backend", None)
    if off:
        return "off", True
    if named is not None:
        return named, True
    return ("auto", True) if plain else ("off", False)


def _differences(
    case: dict[str, Any], release: str, config: SpecConfig, deployment: Deployment, asked_fusion: bool
) -> Iterator[str]:
    """Where the resolved values are not those that the dialect predicts."""
    told = case["resolved"]
    ours = for_release(release).on(deployment).resolve(config)
    expected: dict[str, Any] = {
        "page_size": ours.page_size,
        "attention_backend": ours.backends.attention,
        "prefill_attention_backend": ours.backends.prefill,
        "decode_attention_backend": ours.backends.decode,
        "disable_overlap_schedule": not ours.overlap,
    }
    algorithm = deployment.algorithm
    if config.speculates:
        expected["speculative_algorithm"] = "EAGLE" if algorithm == "NEXTN" else algorithm
        expected["speculative_num_draft_tokens"] = config.num_draft_tokens
        if algorithm != "NGRAM":
            expected["speculative_num_steps"] = 1 if algorithm == "DFLASH" else config.num_steps
        expected["speculative_eagle_topk"] = config.topk
        if "pp_size" in told and told["pp_size"] > 1:
            del expected["disable_overlap_schedule"]
    if ours.adaptive != "off" and release in SNAPS:
        # The worker, not the arguments, moves the start to the nearest candidate.
        del expected["speculative_num_steps"], expected["speculative_num_draft_tokens"]
    if ours.backends.attention is None:
        for name in ("attention_backend", "page_size", "prefill_attention_backend", "decode_attention_backend"):
            expected.pop(name)
    for name, value in expected.items():
        if told.get(name) != value:
            yield f"{name}: {told.get(name)}, we say {value}"
    if (
        config.speculates
        and "speculative_adaptive" in told
        and told["speculative_adaptive"] != (ours.adaptive != "off")
    ):
        yield f"adaptive: {told['speculative_adaptive']}, we say {ours.adaptive}"
    worker = told.get("worker")
    if worker and release in TWO_WORKERS and algorithm in ("EAGLE", "EAGLE3", "NEXTN", "STANDALONE"):
        is_v2 = "V2" in worker
        if is_v2 != (ours.worker is SpecVersion.V2):
            yield f"worker: {worker}, we say {ours.worker}"
    drafts_on = told.get("speculative_draft_attention_backend")
    predicted = ours.draft_backends[0] if ours.draft_backends and algorithm == "DFLASH" else None
    if predicted and drafts_on and drafts_on != predicted:
        yield f"draft backend: {drafts_on}, we say {predicted}"
    yield from _fusion_difference(case, release, config, deployment, asked_fusion, ours.fusion)


def _fusion_difference(
    case: dict[str, Any], release: str, config: SpecConfig, deployment: Deployment, asked: bool, ours: str
) -> Iterator[str]:
    told = case["resolved"]
    runs = bool(told.get("enable_flashinfer_allreduce_fusion") or told.get("flashinfer_allreduce_fusion_backend"))
    idle = case["tp"] == 1 or told.get("enable_dp_attention") or told.get("attn_dp_size", 1) > 1
    if idle:
        return
    if not asked:
        words = for_release(release).launch_args(config, deployment).flags
        ours_runs = ours == "auto" or "--enforce-disable-flashinfer-allreduce-fusion" in words
    else:
        ours_runs = ours != "off"
    if runs != ours_runs:
        yield f"fusion: {'on' if runs else 'off'}, we say {ours}"
