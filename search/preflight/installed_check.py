"""The plan of a study, held to what the installed SGLang itself makes of it.

Our dialects are read from stock releases. What is installed may be newer, or patched; its own parser
and resolution are asked before the first GPU minute, and have the last word.
"""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from search.config import TREE_KNOBS, SpecConfig
from search.deployment import Deployment
from search.dialects import Dialect, Resolved
from search.errors import UsageError
from search.preflight.installed_process import ArgumentRequest, ServerWord, ServerWords, ask_installed
from search.preflight.installed_report import ArgumentDifference, ArgumentReport, DifferenceKind
from search.server.command import LAUNCH_TAG, server_command
from search.server.ports import PortBlock

Ask = Callable[[Sequence[ArgumentRequest]], ServerWords]

RUNNING_LIMIT = "max_running_requests"


def check_arguments(
    configs: Sequence[SpecConfig],
    deployment: Deployment,
    dialect: Dialect,
    *,
    gpu_uuids: tuple[str, ...] = (),
    env: Mapping[str, str] | None = None,
    ask: Ask | None = None,
    timeout_s: float | None = None,
) -> ArgumentReport:
    """Pass the words of every config through the installed release, and compare with the dialect.

    Args:
        configs: Canonical ones, that the dialect accepts.
        deployment: What every launch shares; its interpreter is asked.
        dialect: Spells the words, and says what to expect.
        gpu_uuids: GPUs that a launch would see; empty leaves visibility as inherited.
        env: The environment that a launch would inherit; None for our own.
        ask: In place of the helper process.
        timeout_s: Of the helper process, see `ask_installed`.
    """
    inherited = {**(os.environ if env is None else env), **deployment.env}
    with tempfile.TemporaryDirectory(prefix="search-arguments-") as folder:
        requests = [
            _request(config, deployment, dialect, gpu_uuids, Path(folder) / str(place))
            for place, config in enumerate(configs)
        ]
        if ask is None:
            answers = ask_installed(requests, python=deployment.python, env=inherited, timeout_s=timeout_s)
        else:
            answers = ask(requests)
    found: list[ArgumentDifference] = []
    for config, word in zip(configs, answers.words, strict=False):
        found += compare_word(config, word, deployment, dialect)
    return ArgumentReport(
        asked=len(configs),
        answered=len(answers.words),
        differences=tuple(found),
        trouble=answers.trouble,
        unusable=answers.unusable,
        resolved={
            config.config_id: word.resolved
            for config, word in zip(configs, answers.words, strict=False)
            if word.resolved
        },
        import_s=answers.import_s,
        each_s=answers.each_s,
    )


def compare_word(
    config: SpecConfig, word: ServerWord, deployment: Deployment, dialect: Dialect
) -> Iterator[ArgumentDifference]:
    """Where the installed release and the dialect differ on one config.

    Args:
        config: As the study asks for it.
        word: What the installed release made of it.
        deployment: GPUs, tp and models.
        dialect: Of the study's release.
    """
    lifting = _lifting_patches(config, deployment, dialect)
    if word.refusal:
        yield ArgumentDifference(config, DifferenceKind.REFUSED, "accepted", word.refusal, lifting)
        return
    bound = dialect.on(deployment)
    expected = bound.resolve(config)
    ran = dialect.effective(word.resolved, config).config
    if expected.adaptive != "off" and ran.speculates and config.speculates:
        # With adaptive steps the worker, not the arguments, moves the start to a candidate.
        ran = replace(ran, **{name: getattr(config, name) for name in TREE_KNOBS})
    # Canonical, so that a value we left to the server counts as the same one said aloud; but
    # not where tree numbers differ, which our own rewrite of chains would hide.
    if all(getattr(ran, name) == getattr(config, name) for name in TREE_KNOBS):
        with contextlib.suppress(UsageError):  # what has no spelling here is another config in any case
            ran = bound.canonical(ran)
    if ran != config:
        yield ArgumentDifference(config, DifferenceKind.RUNS_ANOTHER, str(config), str(ran), lifting)
        return
    for name, ours, theirs in _values(word.resolved, expected, deployment):
        # The study sets the limit itself: no patch of a rule has a reason to change it.
        patches = () if name == RUNNING_LIMIT else lifting
        yield ArgumentDifference(config, DifferenceKind.VALUE, f"{name} {ours}", f"{name} {theirs}", patches)


def _values(
    reported: Mapping[str, Any], expected: Resolved, deployment: Deployment
) -> Iterator[tuple[str, object, object]]:
    """Resolved values that a measurement depends on and that the config id does not show."""
    ours: dict[str, object] = {RUNNING_LIMIT: deployment.max_running_requests}
    if expected.backends.attention is not None:  # only the server knows the default on some targets
        ours |= {
            "page_size": expected.page_size,
            "attention_backend": expected.backends.attention,
            "prefill_attention_backend": expected.backends.prefill,
            "decode_attention_backend": expected.backends.decode,
        }
    for name, value in ours.items():
        # Another release may have dropped the field: no word is no difference.
        if reported and (name in reported or value is None) and reported.get(name) != value:
            yield name, value, reported.get(name)


def _lifting_patches(config: SpecConfig, deployment: Deployment, dialect: Dialect) -> tuple[str, ...]:
    if not deployment.patches:
        return ()
    broken = {rule.rule_id for rule in dialect.violations(config, replace(deployment, patches=()))}
    return tuple(patch.name for patch in deployment.patches if broken & set(patch.lifts))


def _request(
    config: SpecConfig, deployment: Deployment, dialect: Dialect, gpu_uuids: tuple[str, ...], folder: Path
) -> ArgumentRequest:
    # Ports and tag are any: nothing is launched.
    command = server_command(
        config,
        deployment,
        dialect,
        ports=PortBlock(http=30_000, nccl=30_001),
        tag="argument-check",
        gpu_uuids=gpu_uuids,
        folder=folder,
    )
    command.write_files()
    words = command.argv[command.argv.index("sglang.launch_server", len(deployment.prefix)) + 1 :]
    # Without the tag: whoever cleans up after a crash would take the helper for a server that we left.
    return ArgumentRequest(words, {name: value for name, value in command.env.items() if name != LAUNCH_TAG})
