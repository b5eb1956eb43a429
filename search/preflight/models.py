"""Checks of the target and its draft: weights, architecture, vocabulary, quantisation, context."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from search.config import flag_name
from search.deployment import CheckpointFacts
from search.dialects import Dialect, draft_algorithm, is_registered, loads, releases_with
from search.preflight.checkpoint import TOKENIZERS, Checkpoint
from search.preflight.checkpoint_facts import facts_of
from search.preflight.findings import Finding, error, fine, warning
from search.preflight.requirements import is_local
from search.spec.study import StudySpec

_GB = 1e9
_GIB = 2**30


NOT_DRIVEN = ("DSPARK", "FROZEN_KV_MTP", "UNO")
"""Algorithms of SGLang that this project does not search."""


def algorithm_of(draft: Checkpoint) -> str:
    """The algorithm that a draft was made for, by its architecture; empty when its configuration names none.

    SGLang's own class of that name says it. A class that no release has is recognised by the parts that SGLang's draft
    classes are named of: `…Eagle3`, `Eagle3…`, `…Eagle`, `…NextN`, `…MTP`, `DFlash…` and `DSpark…`.
    """
    if known := draft_algorithm(draft.architecture):
        return known
    name = draft.architecture.casefold()
    if is_registered(draft.architecture):
        return "STANDALONE"
    if "dspark" in name:
        return "DSPARK"
    if "dflash" in name:
        return "DFLASH"
    if "eagle3" in name or ("draft_vocab_size" in draft.config and "eagle" in name):
        return "EAGLE3"
    if "eagle" in name or "nextn" in name or name.endswith("mtp"):
        return "EAGLE"
    return "STANDALONE" if name else ""


def only_drafts(checkpoint: Checkpoint) -> bool:
    """Whether a checkpoint is a draft head, which cannot be served by itself."""
    return algorithm_of(checkpoint) not in ("", "STANDALONE")


def check_weights(key: str, model: str, found: Checkpoint | None) -> Finding:
    """Whether a model is on this disk, whole."""
    check = f"{key} weights"
    option = "--model" if key == "target" else "--draft"
    if found is None:
        if is_local(model):
            return error(check, f"{model} is not there", f"correct `model.{key}`, or pass `{option} PATH`")
        way = f"download it beforehand (`hf download {model}`), or pass `{option} PATH`; runs use no network"
        return error(check, f"{model} is not in the hub's cache of this machine", way)
    if found.faults:
        return error(check, f"{found.folder}: {'; '.join(found.faults)}", "copy or download the folder again")
    if key == "target" and not found.tokenizer:
        says = f"{found.folder} has none of {', '.join(TOKENIZERS)}"
        return error("tokenizer", says, "copy the tokenizer's files beside the weights")
    return fine(check, f"{found.weight_files} files, {found.weight_bytes / _GB:.1f} GB, whole")


def check_target(spec: StudySpec, target: Checkpoint, dialect: Dialect) -> Iterator[Finding]:
    """Architecture, sizes against the GPUs, and whether the weights fit."""
    yield from check_loading(spec, target)
    if only_drafts(target):
        return
    named, found = spec.model.architecture, target.architecture
    algorithm, release = spec.model.algorithm, spec.engine.release
    if named and found and named != found:
        says = f"the study says {named}, but config.json says {found}"
        yield error("architecture", says, f"write `model.architecture: {found}`: rules and defaults depend on it")
    elif not named and found:
        says = f"the study names none, config.json says {found}"
        way = f"write `model.architecture: {found}`: without it, rules and defaults of the target are not known"
        yield warning("architecture", says, way)
    elif found and not dialect.takes(algorithm, found):
        lifted = spec.deployment.lifted_rules
        says = f"stock SGLang {release} does not take {algorithm} on {found}"
        if lifted & {"eagle3-target", "eagle3-kimi-k25", "dflash-target"}:
            yield fine("architecture", f"{says}; a patch of the study does")
        else:
            yield error("architecture", says, "choose another release or algorithm, or name the patch that adds it")
    elif found and (loads(found, release.partition("+")[0]) or not is_registered(found)):
        yield fine("architecture", f"{found}, which takes {algorithm} on {release}")
    each = target.weight_bytes / spec.model.tp / _GIB
    room = spec.hardware.memory_gib
    if target.weight_bytes and each > 0.95 * room:
        says = f"{each:.0f} GiB of weights on each GPU of {room:g} GiB"
        yield error("memory", says, "raise `model.tp`, or choose a smaller or quantised target")
    elif target.weight_bytes:
        yield fine("memory", f"{each:.0f} GiB of weights on each GPU of {room:g} GiB")


def check_loading(spec: StudySpec, target: Checkpoint) -> Iterator[Finding]:
    """Whether the release can load the target on the study's GPUs at all."""
    if only_drafts(target):
        says = f"{target.architecture} only drafts, for {algorithm_of(target)}; it cannot be served by itself"
        yield error(
            "architecture", says, "name the model that it was made for as `model.target`, and it as `model.draft`"
        )
        return
    yield from _class(spec, target.architecture)
    if "auto_map" in target.config and not spec.model.trust_remote_code:
        says = "config.json names code of the model's own (`auto_map`), which this study does not trust"
        way = "read it and set `model.trust_remote_code: true`, or be sure that the installed transformers knows its model type"
        yield warning("own code", says, way)
    yield from check_sizes(spec, facts_of(target))


def check_simulation(spec: StudySpec, named: Sequence[str]) -> Iterator[Finding]:
    """Variables under which the server invents how many drafts are accepted, or which experts are asked.

    Args:
        spec: The study.
        named: Those that its servers would get, `search.dialects.simulating`; inherited ones too.
    """
    if named:
        says = f"{', '.join(named)} simulates acceptance: all numbers are SYNTHETIC and say nothing of the draft"
        inherited = [name for name in named if name not in spec.engine.env]
        way = f"unset {', '.join(inherited)} in this shell" if inherited else "remove it from `engine.env`"
        yield warning("acceptance", says, f"{way} to measure")


def _class(spec: StudySpec, architecture: str) -> Iterator[Finding]:
    """Whether the release has the class; one that no release has is not known to fail."""
    release = spec.engine.release.partition("+")[0]
    if not architecture or loads(architecture, release):
        return
    if is_registered(architecture):
        says = f"SGLang {release} has no class {architecture}; it is in {releases_with(architecture)}"
        yield error("model class", says, "choose a release that has it")
    else:
        says = f"{architecture} is unknown: no release that was read has such a class"
        yield warning(
            "model class", says, "expect SGLang to refuse it, or to try transformers' own code without speculation"
        )


def check_sizes(spec: StudySpec, facts: CheckpointFacts) -> Iterator[Finding]:
    """What tensor parallelism divides: heads, experts, FP8 blocks; and sizes that are zero."""
    tp, args = spec.model.tp, {name.replace("_", "-"): value for name, value in spec.engine.server_args.items()}
    if facts.zeros:
        says = f"config.json sets {', '.join(facts.zeros)} to 0"
        yield error("sizes", says, "copy config.json from the checkpoint again")
    ranks = _whole(args, "dp-size", "attn-dp-size") if args.get("enable-dp-attention") or "attn-dp-size" in args else 1
    share = max(tp // ranks, 1)
    if facts.heads and facts.heads % share:
        says = f"{facts.heads} attention heads are not a multiple of {share} GPUs that share a layer's attention"
        yield error("sizes", says, f"choose a `model.tp` that divides {facts.heads}")
    ep = _whole(args, "ep-size", "expert-parallel-size", "ep")
    if facts.experts and ep > 1 and facts.experts % ep:
        says = f"{facts.experts} experts are not a multiple of `ep-size: {ep}`"
        yield error("sizes", says, f"choose an `ep-size` that divides {facts.experts}")
    if facts.fp8_block is None:
        return
    rows = facts.fp8_block[0]
    if not facts.experts and facts.ffn_width and (facts.ffn_width // tp) % rows:
        says = f"FP8 blocks of {rows} rows do not divide a layer's width: {facts.ffn_width} over {tp} GPUs is {facts.ffn_width / tp:g}"
        smaller = next(size for size in range(tp, 0, -1) if tp % size == 0 and (facts.ffn_width // size) % rows == 0)
        yield error("FP8 blocks", says, f"choose `model.tp: {smaller}`")
    expert_share = max(tp // ep, 1) if args.get("moe-a2a-backend") in (None, "none") else 1
    if facts.experts and facts.expert_width and (facts.expert_width // expert_share) % rows:
        says = (
            f"FP8 blocks of {rows} rows do not divide an expert's width: {facts.expert_width} over {expert_share} GPUs "
            f"is {facts.expert_width / expert_share:g}"
        )
        smaller = next(size for size in range(tp, 0, -1) if tp % size == 0 and (facts.expert_width // size) % rows == 0)
        whole = facts.experts % tp == 0  # each GPU then holds whole experts
        way = f"set `ep-size: {tp}` under `engine.server_args`, or " if whole else ""
        yield error("FP8 blocks", says, f"{way}choose `model.tp: {smaller}`")


def _whole(args: Mapping[str, object], *names: str) -> int:
    return max((value for name in names if isinstance(value := args.get(name), int)), default=1)


def check_draft(spec: StudySpec, target: Checkpoint | None, draft: Checkpoint) -> Iterator[Finding]:
    """Architecture against algorithm, and vocabulary, width and quantisation against the target."""
    asked = "EAGLE" if spec.model.algorithm == "NEXTN" else spec.model.algorithm
    meant = algorithm_of(draft)
    release = spec.engine.release.partition("+")[0]
    if meant in NOT_DRIVEN:
        says = f"{draft.architecture} is made for {meant}, which is not driven here"
        yield error("draft", says, "name a draft of EAGLE, EAGLE3, STANDALONE or DFLASH")
    elif meant and draft.architecture and not is_registered(draft.architecture):
        says = f"{draft.architecture} is unknown: no SGLang release that was read has such a class"
        yield error("draft", says, "name a draft whose class SGLang has, or the patch that adds it")
    elif meant and not loads(draft.architecture, release):
        says = f"SGLang {release} has no class {draft.architecture}; it is in {releases_with(draft.architecture)}"
        yield error("draft", says, "choose a release that has it")
    elif meant and meant != asked:
        says = f"{draft.architecture} is made for {meant}, but the study says {spec.model.algorithm}"
        yield error("draft", says, f"write `model.algorithm: {meant}`, or name another draft")
    elif meant:
        yield fine("draft", f"{draft.architecture} for {spec.model.algorithm}")
    else:
        says = "its config.json names no architecture"
        yield warning("draft", says, "make sure that it is made for the algorithm of the study")
    if target is not None:
        yield from _vocabulary(asked, target, draft)
        yield from _width(asked, target, draft)
    yield _quantisation(spec, target, draft)


def _vocabulary(algorithm: str, target: Checkpoint, draft: Checkpoint) -> Iterator[Finding]:
    theirs, ours = target.number("vocab_size"), draft.number("vocab_size")
    if theirs is None or ours is None:
        return
    reduced = draft.number("draft_vocab_size")
    if ours == theirs:
        note = f", of which the draft proposes {reduced}" if reduced and reduced < ours else ""
        yield fine("draft vocabulary", f"{ours} tokens, as the target's{note}")
    elif ours > theirs:
        says = f"{ours} tokens, but the target knows {theirs}: a draft may propose what the target cannot read"
        yield error("draft vocabulary", says, "name a draft of the same family")
    elif algorithm == "STANDALONE":
        says = f"{ours} tokens, the target has {theirs}"
        yield warning("draft vocabulary", says, "make sure that both share one tokenizer; padding alone is harmless")
    else:
        says = f"{ours} tokens, but the target has {theirs}, whose embeddings the draft uses"
        yield error("draft vocabulary", says, "name a draft that was trained for this target")


def _width(algorithm: str, target: Checkpoint, draft: Checkpoint) -> Iterator[Finding]:
    """EAGLE drafts read the target's hidden states."""
    wide = draft.number("target_hidden_size") or draft.number("hidden_size")
    theirs = target.number("hidden_size")
    if algorithm in ("EAGLE", "EAGLE3") and wide and theirs and wide != theirs:
        says = f"it reads hidden states of width {wide}, but the target's are {theirs} wide"
        yield error("draft width", says, "name a draft that was trained for this target")


def _quantisation(spec: StudySpec, target: Checkpoint | None, draft: Checkpoint) -> Finding:
    args = {flag_name(name): value for name, value in spec.engine.server_args.items()}
    forced, own = args.get("quantization"), args.get("speculative-draft-model-quantization")
    if forced and not own and not draft.quantisation:
        says = f"`quantization: {forced}` of the study applies to the draft too, whose weights are plain"
        way = "set `speculative-draft-model-quantization: unquant` under `engine.server_args`"
        return warning("quantisation", says, way)
    stated = target.quantisation if target is not None else ""
    return fine("quantisation", f"target {stated or forced or 'plain'}, draft {draft.quantisation or own or 'plain'}")


def check_context(
    spec: StudySpec, target: Checkpoint | None, *, longest_prompt: int, draft: Checkpoint | None = None
) -> Iterator[Finding]:
    """Context length against the longest prompt and the longest answer.

    Args:
        spec: The study.
        target: The target's folder.
        longest_prompt: Characters of the longest prompt as sent; three of them are taken for a token,
            which is more than natural text has.
        draft: The draft's folder.
    """
    args = {flag_name(name): value for name, value in spec.engine.server_args.items()}
    limit = args.get("context-length") or (target.number("max_position_embeddings") if target else None)
    answer = round(spec.measure.output_tokens * (1 + spec.measure.output_spread))
    prompt = -(-longest_prompt // 3)
    said = f"prompts of about {prompt} tokens and answers of up to {answer}"
    if not isinstance(limit, int):
        yield warning("context", f"{said}, in a context of unknown length", "name the weights, or set `context-length`")
        return
    if answer >= limit:
        yield error("context", f"{said}, in a context of {limit}", "lower `measure.output_tokens`")
    elif prompt + answer > limit:
        yield warning("context", f"{said}, in a context of {limit}", "shorten the prompts, or raise `context-length`")
    else:
        yield fine("context", f"{said}, in a context of {limit}")
    reach = draft.number("max_position_embeddings") if draft else None
    if reach is not None and prompt + answer > reach:
        says = f"{said}, but the draft was made for {reach} tokens"
        yield warning("draft context", says, "expect fewer accepted drafts past it, and see that the server starts")
