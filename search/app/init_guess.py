"""What `init` works out by itself, each guess with the reason that stands beside it in the study file."""

from __future__ import annotations

import math
import re
import warnings
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal, cast

from search.config import SpecConfig, SpecVersion, tree_bound
from search.deployment import Algorithm, CheckpointFacts, Deployment, Hardware
from search.dialects import (
    BUILT_IN_MTP,
    ONE_LAYER_A_STEP,
    Dialect,
    NewerRelease,
    for_release,
    is_registered,
    known_releases,
    own_draft_class,
)
from search.errors import UsageError
from search.host.hardware import HostHardware
from search.preflight.checkpoint import Checkpoint
from search.preflight.checkpoint_facts import facts_of
from search.preflight.models import NOT_DRIVEN, algorithm_of

Links = Literal["pcie", "nvlink"]
_GIB = 2**30

GPU_KINDS: Mapping[str, tuple[int, float, Links]] = {
    "B300": (103, 268, "nvlink"),
    "B200": (100, 179, "nvlink"),
    "H200": (90, 140, "nvlink"),
    "H100": (90, 79, "nvlink"),
    "H20": (90, 95, "nvlink"),
    "A100-SXM4-80GB": (80, 79, "nvlink"),
    "RTX PRO 6000": (120, 95, "pcie"),
    "RTX 5090": (120, 31, "pcie"),
    "L40S": (89, 44, "pcie"),
    "RTX 4090": (89, 23, "pcie"),
}
"""Kind to compute capability times ten, GiB as the driver reports them, and the links of the usual build."""

_KV_SHARE = 0.75
"""Share of GPU memory that weights may take: the rest is the KV pool, graphs and activations."""
_COUNTED = re.compile(r"\s*(?P<count>\d{1,4})\s*[xX×*]\s*(?P<kind>.+?)\s*")  # noqa: RUF001 - people type the sign


@dataclass(frozen=True, slots=True)
class Guess:
    """A value, and why; an empty reason for what is known."""

    value: str
    why: str = ""


@dataclass(frozen=True, slots=True)
class Gpus:
    """The GPUs of the study."""

    count: int
    hardware: Hardware
    why: str = ""


def gpus_given(text: str) -> Gpus:
    """Read `8x RTX PRO 6000`.

    Raises:
        UsageError: It reads otherwise, or the kind is none whose memory is known.
    """
    match = _COUNTED.fullmatch(text)
    if match is None or not int(match["count"]):
        raise UsageError(f'`--gpus` reads like "8x RTX PRO 6000", but got {text!r}.')
    asked = match["kind"]
    plain = asked.casefold().removeprefix("nvidia ")
    for kind, (sm, memory, links) in GPU_KINDS.items():
        if plain.startswith(kind.casefold()):
            found = Hardware(asked, sm, memory, links)
            return Gpus(int(match["count"]), found, "capability, memory and links are those of the usual build")
    known = ", ".join(GPU_KINDS)
    raise UsageError(
        f"`--gpus` names {asked!r}, whose capability and memory are not known here. Known kinds: {known}. Leave "
        "`--gpus` out on the host that has them: they are then looked at."
    )


def gpus_found(host: HostHardware) -> Gpus:
    """The GPUs of this host; of several kinds, those of the first.

    Raises:
        UsageError: There are none.
    """
    if not host.gpus:
        raise UsageError('This machine has no NVIDIA GPU to look at. Say which ones with `--gpus "8x RTX PRO 6000"`.')
    first = host.gpus[0]
    alike = [gpu for gpu in host.gpus if gpu.name == first.name]
    links = host.between(tuple(gpu.uuid for gpu in alike))
    linked: Links = "nvlink" if links and all(link.nvlink for link in links) else "pcie"
    memory = math.floor(min(gpu.memory_total for gpu in alike) / _GIB)
    return Gpus(len(alike), Hardware(first.name, first.sm, memory, linked))


def guess_algorithm(draft: str, found: Checkpoint | None, target: Checkpoint | None, release: str) -> Guess:
    """From the draft's configuration, else its name; without a draft from the target's own layers.

    Args:
        draft: Path or hub name; empty where the target drafts by itself.
        found: The draft's checkpoint; None where it is not on this disk.
        target: The target's checkpoint; likewise.
        release: Of SGLang.

    Raises:
        UsageError: The draft belongs to an algorithm that is not driven, or no release has its class.
    """
    if not draft:
        return _without_draft(target, release)
    if found is not None and (meant := algorithm_of(found)):
        if meant in NOT_DRIVEN:
            raise UsageError(
                f"A draft belongs to EAGLE, EAGLE3, STANDALONE or DFLASH, but {found.architecture} is made for {meant}: "
                f"{meant} is not driven. Name another draft, or none."
            )
        if meant != "STANDALONE" and not is_registered(found.architecture):
            raise UsageError(
                f"The class of a draft is one that SGLang has, but no release from {known_releases()[0]} to "
                f"{known_releases()[-1]} has {found.architecture}. Name another draft, or none."
            )
        return Guess(meant, f"the draft's architecture is {found.architecture}")
    unread = (
        "its config.json was not there to look at" if found is None else "its config.json names no architecture known"
    )
    name = draft.casefold()
    for part, algorithm in (("dflash", "DFLASH"), ("eagle3", "EAGLE3"), ("eagle-3", "EAGLE3"), ("eagle", "EAGLE")):
        if part in name:
            return Guess(algorithm, f"`{part}` stands in the draft's name; {unread}")
    for part in ("nextn", "mtp"):
        if part in name:
            return Guess("EAGLE", f"`{part}` stands in the draft's name; {unread}")
    return Guess("STANDALONE", f"nothing in the draft's name says otherwise; {unread}")


def _without_draft(target: Checkpoint | None, release: str) -> Guess:
    architecture = target.architecture if target is not None else ""
    layers = facts_of(target).mtp_layers if target is not None else None
    own = own_draft_class(architecture, release)
    if own and layers:
        return Guess(
            "EAGLE",
            f"the checkpoint has {layers} MTP layer{'s' if layers > 1 else ''} of its own, and no draft is named",
        )
    if layers is None and own and architecture in BUILT_IN_MTP:
        return Guess("EAGLE", f"{architecture} drafts with layers of its own, and no draft is named")
    if layers:
        return Guess("NGRAM", f"no draft is named, and SGLang {release} does not read the MTP layers of {architecture}")
    return Guess("NGRAM", "no draft is named, so the text itself has to do")


def guess_tp(gpus: Gpus, target: Checkpoint | None, draft: Checkpoint | None) -> Guess:
    """The fewest GPUs whose memory takes the weights and leaves room for a KV pool."""
    divisors = [size for size in (1, 2, 4, 8, 16) if gpus.count % size == 0]
    facts = facts_of(target) if target is not None else None
    divided = [size for size in divisors if facts is None or _divides(facts, size)] or divisors[:1]
    if target is None or not target.weight_bytes:
        return Guess(str(divided[-1]), "the weights were not there to look at; as many GPUs as possible")
    fitting = divided
    weights = (target.weight_bytes + (draft.weight_bytes if draft else 0)) / _GIB
    memory = gpus.hardware.memory_gib
    for size in fitting:
        if weights <= _KV_SHARE * memory * size:
            return Guess(str(size), f"{weights:.0f} GiB of weights, {memory:g} GiB on each GPU")
    return Guess(str(fitting[-1]), f"{weights:.0f} GiB of weights leave little of {memory:g} GiB on each GPU")


def _divides(facts: CheckpointFacts, tp: int) -> bool:
    """Whether heads, fused projections and the FP8 blocks of experts, or of dense layers, come out even on so many GPUs."""
    if (facts.heads and facts.heads % tp) or facts.fused_shards not in (0, tp):
        return False
    width = facts.expert_width if facts.experts else facts.ffn_width
    return facts.fp8_block is None or not width or (width // tp) % facts.fp8_block[0] == 0


def guess_release(installed: str | None, algorithm: str, architecture: str) -> tuple[Dialect, Guess]:
    """The installed release, else the newest known one.

    Raises:
        UnknownRelease: The installed one is older than any that is known.
    """
    release = Guess(installed) if installed else Guess(known_releases()[-1], "none is installed; the newest known one")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NewerRelease)  # `plan` and `doctor` say it again
        dialect = for_release(release.value)
    if not dialect.takes(algorithm, architecture):
        why = f"{release.why or 'it is installed'}; stock, it does not take {algorithm} on {architecture}"
        release = replace(release, why=why)
    return dialect, release


def guess_backend(deployment: Deployment, dialect: Dialect, chain: SpecConfig, tree: SpecConfig) -> Guess:
    """The release's own choice for a tree, which chains then share; empty where only the server knows.

    Args:
        deployment: As guessed so far.
        dialect: Of the release.
        chain: A chain that the study will ask for.
        tree: A tree, likewise.
    """
    own = dialect.on(deployment).resolve(tree).backends.attention
    for name, why in ((own, "the release's own choice for trees here"), *_FALLBACKS):
        if name is None:
            continue
        pinned = replace(deployment, server_args={**deployment.server_args, "attention-backend": name})
        bound = dialect.on(pinned)
        if not any(bound.violations(bound.canonical(config)) for config in (chain, tree)):
            return Guess(name, why)
    return Guess("", "")


def chains_only(deployment: Deployment, dialect: Dialect) -> bool:
    """Whether the target forces what no tree runs on: a page size, or one MTP layer for each step."""
    if deployment.algorithm in ("NGRAM", "DFLASH"):
        return False
    return dialect.forces_chains(deployment)


def steps_of(deployment: Deployment) -> tuple[int, ...]:
    """Depths worth opening: as many as there are MTP layers, where each step needs one of its own."""
    facts = deployment.target_facts
    if facts is not None and facts.mtp_layers and not deployment.draft and deployment.architecture in ONE_LAYER_A_STEP:
        return tuple(range(1, min(facts.mtp_layers, 5) + 1))
    return (1, 2, 3, 4, 5)


_FALLBACKS = (
    ("triton", "runs trees on every GPU"),
    ("flashinfer", "runs trees where triton does not"),
)


def deployment_of(
    *,
    model: str,
    draft: str,
    algorithm: str,
    architecture: str,
    tp: int,
    gpus: Gpus,
    release: str,
    target_facts: CheckpointFacts | None = None,
    draft_facts: CheckpointFacts | None = None,
) -> Deployment:
    """The guesses as what a dialect looks at.

    Args:
        model: Path or hub name of the target.
        draft: Of the draft; empty without one.
        algorithm: That drafts.
        architecture: Of the target, as its `config.json` names it.
        tp: GPUs per server.
        gpus: Their kind and count.
        release: Of SGLang.
        target_facts: Read from the target's checkpoint; None where it is not on this disk.
        draft_facts: Of the draft's, likewise.
    """
    return Deployment(
        model,
        draft,
        cast("Algorithm", algorithm),
        tp,
        gpus.hardware,
        release,
        architecture=architecture,
        target_facts=target_facts,
        draft_facts=draft_facts,
    )


def trees_of(algorithm: str, version: SpecVersion) -> tuple[SpecConfig, SpecConfig]:
    """A chain and a tree that the algorithm can draft; equal where it has no trees."""
    if algorithm == "NGRAM":
        return SpecConfig(version, 1, 18, 8), SpecConfig(version, 10, 18, 12)
    if algorithm == "DFLASH":
        block = SpecConfig(version, 1, 7, 8)
        return block, block
    return SpecConfig(version, 1, 2, 3), SpecConfig(version, 2, 2, tree_bound(topk=2, num_steps=2))


def versions(dialect: Dialect, algorithm: str) -> tuple[SpecVersion, ...]:
    """Worker versions worth opening."""
    if dialect.supports_v1 and algorithm not in ("NGRAM", "DFLASH"):
        return SpecVersion.V1, SpecVersion.V2
    return (SpecVersion.V2,)


def legal(
    configs: Iterator[SpecConfig] | tuple[SpecConfig, ...], deployment: Deployment, dialect: Dialect
) -> list[SpecConfig]:
    """Those that would be launched, canonical, each once."""
    bound = dialect.on(deployment)
    canonical = dict.fromkeys(bound.canonical(config) for config in configs)
    return [config for config in canonical if not bound.violations(config)]


def study_name(model: str) -> str:
    """A name for the study out of a path or hub id."""
    slug = re.sub(r"[^a-z0-9._-]+", "-", Path(model.rstrip("/")).name.casefold()).strip("-._")
    return slug[:48].strip("-._") or "study"
