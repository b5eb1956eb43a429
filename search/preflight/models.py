"""Checks of the target and its draft: weights, architecture, vocabulary, quantisation, context."""

from __future__ import annotations

from collections.abc import Iterator

from search.config import flag_name
from search.dialects import Dialect
from search.preflight.checkpoint import Checkpoint
from search.preflight.findings import Finding, error, fine, warning
from search.preflight.requirements import is_local
from search.spec.study import StudySpec

_GB = 1e9
_GIB = 2**30


def algorithm_of(draft: Checkpoint) -> str:
    """The algorithm that a draft was made for, by its architecture; empty when its configuration names none.

    SGLang's own draft classes (`srt/models/` of 0.5.9 to 0.5.23) are named `…Eagle3`, `Eagle3…`, `…Eagle`,
    `…NextN`, `…MTP` and `DFlash…`; a model that stands on its own has an ordinary name.
    """
    name = draft.architecture.casefold()
    if "dflash" in name:
        return "DFLASH"
    if "eagle3" in name or ("draft_vocab_size" in draft.config and "eagle" in name):
        return "EAGLE3"
    if "eagle" in name or "nextn" in name or name.endswith("mtp"):
        return "EAGLE"
    return "STANDALONE" if name else ""


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
    return fine(check, f"{found.weight_files} files, {found.weight_bytes / _GB:.1f} GB, whole")


def check_target(spec: StudySpec, target: Checkpoint, dialect: Dialect) -> Iterator[Finding]:
    """Architecture, and whether the weights fit."""
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
    elif found:
        yield fine("architecture", f"{found}, which takes {algorithm} on {release}")
    each = target.weight_bytes / spec.model.tp / _GIB
    room = spec.hardware.memory_gib
    if target.weight_bytes and each > 0.95 * room:
        says = f"{each:.0f} GiB of weights on each GPU of {room:g} GiB"
        yield error("memory", says, "raise `model.tp`, or choose a smaller or quantised target")
    elif target.weight_bytes:
        yield fine("memory", f"{each:.0f} GiB of weights on each GPU of {room:g} GiB")


def check_draft(spec: StudySpec, target: Checkpoint | None, draft: Checkpoint) -> Iterator[Finding]:
    """Architecture against algorithm, and vocabulary, width and quantisation against the target."""
    asked = "EAGLE" if spec.model.algorithm == "NEXTN" else spec.model.algorithm
    meant = algorithm_of(draft)
    if meant and meant != asked:
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
    told = target.quantisation if target is not None else ""
    return fine("quantisation", f"target {told or forced or 'plain'}, draft {draft.quantisation or own or 'plain'}")


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
