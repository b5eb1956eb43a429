"""A study file out of a launch command: what it runs, what its unset numbers become, and what else could be launched."""

from __future__ import annotations

import json
import os
import re
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, cast, get_args

import yaml

from search.app.init_guess import Gpus, chains_only, gpus_found, gpus_given, steps_of
from search.app.launch_command import LaunchCommand, read_command
from search.config import SpecConfig, SpecVersion
from search.deployment import Algorithm, CheckpointFacts, Deployment
from search.dialects import Dialect, for_release, known_releases
from search.errors import UsageError
from search.host.environment import model_folder
from search.host.hardware import installed_release, probe_hardware
from search.preflight.checkpoint import read_configuration
from search.preflight.checkpoint_facts import facts_of
from search.spec.file import parse_study

_VARIABLE = "SGLANG_ENABLE_SPEC_V2"
_TRUE = ("1", "true", "yes", "on")


@dataclass(frozen=True, slots=True)
class CommandStudy:
    """A study that reproduces a launch command.

    Attributes:
        text: Of the file.
        config: What the command runs, canonical.
        launches: How many configs the study opens.
        remarks: What was resolved, left out or set otherwise, one sentence each.
    """

    text: str
    config: SpecConfig
    launches: int
    remarks: tuple[str, ...]


def study_of_command(command: str, *, name: str, gpus: str | None, release: str, path: Path) -> CommandStudy:
    """Everything the file will say.

    Args:
        command: As pasted.
        name: Of the study.
        gpus: Such as `8x H200`; None for those of this machine.
        release: SGLang's; empty for the installed one, else the newest known.
        path: Of the file, which mistakes are reported under.

    Raises:
        UsageError: The command is not understood, the release would refuse it, or GPUs or release are not known.
    """
    chosen = release or installed_release("") or known_releases()[-1]
    dialect = for_release(chosen)
    said = read_command(command, dialect)
    room = gpus_given(gpus) if gpus else gpus_found(probe_hardware())
    deployment = _deployment(said, chosen, room)
    config, remarks = _config(said, deployment, dialect)
    bound = dialect.on(deployment)
    config = bound.canonical(config)
    refused = bound.violations(config)
    if dialect.fusion_idles and [rule.rule_id for rule in refused] == ["arf-sm120"]:
        config = bound.canonical(replace(config, allreduce_fusion="off"))
        remarks = (*remarks, "all-reduce fusion is accepted on this GPU, and its path is never taken: the same as off")
        refused = bound.violations(config)
    if refused:
        raise UsageError(f"SGLang {chosen} would refuse this command: {refused[0].text} [{refused[0].source}]")
    text = _text(name, said, deployment, dialect, room, config, (*remarks, *_set_otherwise(said)))
    try:
        spec = parse_study(text, name=str(path))
    except UsageError as error:  # its lines are those of a file that nobody has seen
        raise UsageError(re.sub(r"(?m)^.*?:\d+: ", "", str(error))) from error
    launches = len(spec.space_of(dialect).configs)
    return CommandStudy(text, config, launches, (*remarks, *_set_otherwise(said)))


def _deployment(said: LaunchCommand, release: str, room: Gpus) -> Deployment:
    algorithm = said.algorithm or "NGRAM"
    if algorithm not in get_args(Algorithm):
        raise UsageError(
            f"The algorithm of a command is one of {', '.join(get_args(Algorithm))}, but it says {said.algorithm}, which is "
            "not driven. Leave it out to search over the others."
        )
    target = _facts(said.model)
    return Deployment(
        said.model,
        said.draft,
        cast("Algorithm", algorithm),
        said.tp,
        room.hardware,
        release,
        architecture=target.architecture if target else "",
        env={name: value for name, value in said.env.items() if name != _VARIABLE},
        server_args={
            name: value for name, value in said.server_args.items() if not name.startswith("speculative-adaptive")
        },
        trust_remote_code=said.trust_remote_code,
        target_facts=target,
        draft_facts=_facts(said.draft) if said.draft else None,
    )


def _facts(model: str) -> CheckpointFacts | None:
    folder = model_folder(model, os.environ)
    found = read_configuration(folder) if folder is not None else None
    return facts_of(found) if found is not None and found.config else None


def _config(said: LaunchCommand, deployment: Deployment, dialect: Dialect) -> tuple[SpecConfig, tuple[str, ...]]:
    """The config of the command, and how what it leaves open was filled in."""
    fusion, remarks = said.fusion, []
    if not fusion:
        fusion = "auto" if dialect.fuses_unasked(deployment) else "off"
        if fusion == "auto":
            remarks.append("all-reduce fusion comes by itself here")
    if not deployment.architecture:
        remarks.append(
            f"no config.json of {said.model} is on this disk: what its architecture forces or lacks is not known"
        )
    extra: tuple[tuple[str, Any], ...] = ()
    if not said.algorithm:
        return SpecConfig(SpecVersion.OFF, allreduce_fusion=fusion), tuple(remarks)
    topk, steps, tokens = _numbers(said, deployment, dialect)
    if not said.numbers:
        remarks.append(f"no numbers are given: this release takes topk {topk}, steps {steps}, {tokens} draft tokens")
    elif {"topk": topk, "num_steps": steps, "num_draft_tokens": tokens}.items() - said.numbers.items():
        remarks.append(f"filled in or rewritten as the release does: topk {topk}, steps {steps}, {tokens} draft tokens")
    version = _version(said, dialect, topk)
    if said.synchronous and not dialect.supports_v1:
        extra = (("overlap", "off"),)
    if (adaptive := _adaptive(said, deployment)) != "off":
        extra = (*extra, ("adaptive", adaptive))
        if steps == 0:
            steps = next(step for step in _candidates(adaptive, dialect) if step)
            tokens = steps + 1
            remarks.append(f"it starts without drafting (0 steps), the study at {steps}; both adapt within {adaptive}")
    return SpecConfig(version, topk, steps, tokens, fusion, extra), tuple(remarks)


def _adaptive(said: LaunchCommand, deployment: Deployment) -> str:
    """The knob's value: `off`, `auto` for the release's own table, or the candidates of the file that is named.

    Raises:
        UsageError: The file is not here, or names no candidates.
    """
    if "speculative-adaptive" not in said.server_args:
        return "off"
    named = said.server_args.get("speculative-adaptive-config")
    if named is None:
        return "auto"
    try:
        data = json.loads(Path(str(named)).expanduser().read_text(encoding="utf-8"))
        slots = [data, *(slot for slot in data.values() if isinstance(slot, dict))]
        steps = {int(step) for slot in slots for step in slot.get("candidate_steps", ())}
    except (OSError, ValueError, AttributeError, TypeError) as error:
        raise UsageError(
            f"`--speculative-adaptive-config` names a file with candidate steps that can be read here, but {named} cannot: "
            f"{error}. Copy it, or leave the flag out for the table of SGLang {deployment.release}."
        ) from error
    if not steps:
        raise UsageError(f"{named} must name `candidate_steps`, but has none. Correct it.")
    return "-".join(map(str, sorted(steps)))


def _candidates(adaptive: str, dialect: Dialect) -> tuple[int, ...]:
    return dialect.adaptive_steps if adaptive == "auto" else tuple(map(int, adaptive.split("-")))


def _numbers(said: LaunchCommand, deployment: Deployment, dialect: Dialect) -> tuple[int, int, int]:
    """Topk, steps and tokens after the release's own defaults and rewrites.

    Raises:
        UsageError: A part is missing that no release fills in.
    """
    given = said.numbers
    topk, steps, tokens = dialect.default_tree(deployment)
    if deployment.algorithm == "NGRAM":
        return given.get("topk", topk), given.get("num_steps", steps), given.get("num_draft_tokens", tokens)
    if deployment.algorithm == "DFLASH":
        block = given.get("num_draft_tokens", tokens)
        return 1, max(block - 1, 1), block
    # Its table chooses from 0.5.14 on, where it may hold 0 (0.5.16 `srt/arg_groups/speculative_hook.py:746`).
    if (adaptive := _adaptive(said, deployment)) != "off" and 0 in dialect.adaptive_steps:
        candidates = _candidates(adaptive, dialect)
        start = given.get("num_steps", candidates[len(candidates) // 2])
        if given.get("topk", 1) == 1:
            return 1, start, start + 1
    if not given:
        return topk, steps, tokens
    if given.get("num_steps") == 0:
        raise UsageError(
            "`--speculative-num-steps 0` drafts nothing: it is for `--speculative-adaptive` to start from, which this command "
            "lacks. Add it, or leave speculation out."
        )
    missing = [name for name in ("num_steps", "topk") if name not in given]
    if missing or (given["topk"] > 1 and "num_draft_tokens" not in given):
        lacking = ", ".join(missing) or "num_draft_tokens"
        raise UsageError(
            f"`--speculative-num-steps`, `--speculative-eagle-topk` and `--speculative-num-draft-tokens` are given together "
            f"or not at all, but this command lacks {lacking}: SGLang dies of it. Give all three."
        )
    if given["topk"] == 1:
        return 1, given["num_steps"], given["num_steps"] + 1
    return given["topk"], given["num_steps"], given["num_draft_tokens"]


def _version(said: LaunchCommand, dialect: Dialect, topk: int) -> SpecVersion:
    """The worker that the command's flags and variables choose; see the table of versions in `search.dialects`."""
    if not dialect.supports_v1:
        return SpecVersion.V2
    asked = said.env.get(_VARIABLE, "").lower()
    if dialect.v1_by_default:
        return SpecVersion.V2 if asked in _TRUE else SpecVersion.V1
    explicit_tree = topk > 1 and "topk" in said.numbers
    off = said.synchronous or explicit_tree or (asked != "" and asked not in _TRUE)
    return SpecVersion.V1 if off else SpecVersion.V2


def _set_otherwise(said: LaunchCommand) -> tuple[str, ...]:
    remarks = []
    if said.dropped:
        remarks.append(
            f"left out, because a search sets them itself or they change no number: {', '.join(said.dropped)}"
        )
    if "disable-radix-cache" not in said.server_args:
        remarks.append("the radix cache is off in a search, because hits would flatter repeats")
    if said.max_running_requests == 1:
        remarks.append("`max_running_requests` is 2 and not 1: a search measures two loads")
    if said.max_running_requests is None and said.algorithm:
        remarks.append("`max_running_requests` is unset: SGLang would admit only 48 requests once it speculates")
    return tuple(remarks)


def _text(
    name: str,
    said: LaunchCommand,
    deployment: Deployment,
    dialect: Dialect,
    room: Gpus,
    config: SpecConfig,
    remarks: tuple[str, ...],
) -> str:
    limit = max(said.max_running_requests or 256, 2)  # two loads are measured
    hardware = deployment.hardware
    model: dict[str, Any] = {"target": said.model, "algorithm": deployment.algorithm, "tp": said.tp}
    model |= {"draft": said.draft} if said.draft and deployment.algorithm != "NGRAM" else {}
    model |= {"architecture": deployment.architecture} if deployment.architecture else {}
    model |= {"trust_remote_code": True} if said.trust_remote_code else {}
    engine: dict[str, Any] = {"release": deployment.release, "max_running_requests": limit}
    engine |= {"python": said.python} if said.python else {}
    engine |= {"env": dict(deployment.env)} if deployment.env else {}
    plain = {flag: list(value) if isinstance(value, tuple) else value for flag, value in deployment.server_args.items()}
    engine |= {"server_args": plain} if plain else {}
    study = {
        "study": name,
        "model": model,
        "hardware": {
            "gpus": max(room.count - room.count % said.tp, said.tp),
            "kind": hardware.kind,
            "sm": hardware.sm,
            "memory_gib": hardware.memory_gib,
            "links": hardware.links,
        },
        "engine": engine,
        "space": _space(deployment, dialect, config),
        "objectives": {"latency": 1, "throughput": min(100, limit)},
        "known": ["off", *([config.config_id] if config.config_id != "off" else [])],
        "measure": {"output_tokens": 256},
        "budget": {"launches": 40, "hours": 12},
    }
    head = ["# Written by `python -m search init --command`: the command is the config", f"#   {config.config_id}"]
    head += [f"# {remark}" for remark in remarks]
    dumped: str = yaml.safe_dump(study, sort_keys=False, allow_unicode=True, width=10_000)
    return "\n".join([*head, "", dumped])


def _space(deployment: Deployment, dialect: Dialect, config: SpecConfig) -> dict[str, Any]:
    """What else could be launched: the command's own numbers among the usual ones."""
    own = {"topk": config.topk, "num_steps": config.num_steps, "num_draft_tokens": config.num_draft_tokens}
    topk: tuple[int, ...] = (1, 2, 4)
    steps: tuple[int, ...] = steps_of(deployment)
    tokens: tuple[int, ...] = (2, 3, 4, 6, 8, 12, 16, 32)
    if deployment.algorithm == "NGRAM":
        topk, steps, tokens = (1, 4, 10), (18,), (4, 8, 12, 16)
    elif deployment.algorithm == "DFLASH":
        block = deployment.draft_facts.block_size if deployment.draft_facts else 0
        topk, steps, tokens = (1,), (1,), (block,) if block else (4, 8, 12, 16)
        own["num_steps"] = 1
    elif chains_only(deployment, dialect):
        topk = (1,)
    versions = ["v1", "v2"] if dialect.supports_v1 and deployment.algorithm not in ("NGRAM", "DFLASH") else ["v2"]
    opened = {
        name: sorted({*usual, *([mine] if mine is not None else [])})
        for (name, mine), usual in zip(own.items(), (topk, steps, tokens), strict=True)
    }
    fused = {"allreduce_fusion": list(dict.fromkeys(["off", config.allreduce_fusion]))}
    adaptive = dict(config.extra).get("adaptive")
    knobs = {"knobs": {"adaptive": ["off", adaptive]}} if adaptive is not None else {}
    return {"spec_version": versions, **opened, **(fused if config.allreduce_fusion != "off" else {}), **knobs}
