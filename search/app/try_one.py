"""One launch outside the search: asked against what really ran, measured and stored."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from search.analysis.analyse import judge
from search.analysis.findings import Judgement
from search.app.assemble import assemble
from search.app.assembly import Assembly
from search.app.options import RunOptions
from search.app.report_content import ContentBuilder
from search.app.run import patient_store, study_context
from search.app.stored import spec_of
from search.config import SpecConfig
from search.deployment import Deployment
from search.dialects import Dialect
from search.errors import BreakerOpen, Interrupted, SearchError, UnsupportedKnob, UsageError
from search.masking import mask_text, mask_words
from search.report.files import write_report
from search.space import parse_assignments
from search.spec.fingerprint import differences
from search.spec.stored import stored_spec
from search.storage.records import LaunchRecord, StudyRecord
from search.storage.store import Store
from search.storage.urls import storage_url
from search.study.launch import Launched, Launcher
from search.study.outputs import prepare
from search.study.signals import Interrupts
from search.study.workers import crew_for, run_alone

RAW_TREE_FLAGS = {
    "topk": "--speculative-eagle-topk",
    "num_steps": "--speculative-num-steps",
    "num_draft_tokens": "--speculative-num-draft-tokens",
}
"""Unchanged over all releases 0.5.9 to 0.5.23."""


@dataclass(frozen=True, slots=True)
class Tried:
    """One launch outside the search.

    Attributes:
        record: As it is stored; one that failed is an answer too.
        judgement: Of the study, this launch included.
        folder: Of the study's report.
        error: What the command must end with after it has shown the rest: the stop of the server could
            not be proven, or Ctrl-C.
    """

    record: LaunchRecord
    judgement: Judgement
    folder: Path
    error: SearchError | None


def try_config(
    options: RunOptions,
    text: str | None,
    raw: tuple[str, ...] | None,
    *,
    launching: Callable[[SpecConfig], None],
    remarked: Callable[[str], None],
    interrupts: Interrupts,
) -> Tried:
    """Launch one config, measure it, and store it as a launch of stage `try`.

    Args:
        options: The command line.
        text: The config as a person writes it, such as `topk=2 num_steps=2` or an id.
        raw: Words that the server gets instead of the config's own, exactly.
        launching: Called with the config before its server starts.
        remarked: Called with each line that the user should know before that.
        interrupts: A press stops the server, and what was measured is stored.

    Raises:
        UsageError: The config or the raw words are not understood, or a rule refuses the config.
        HostUnfit: See `assemble`.
    """
    parts = assemble(options, raw=raw)
    for line in parts.remarks:
        remarked(line)
    config = _asked(parts, text, raw)
    why = "tried by hand" if raw is None else f"raw: {mask_text(' '.join(mask_words(raw)))}"
    storage_url(options.storage)
    prepare(parts.folder)
    with interrupts.held(), parts.open_executor() as executor, patient_store(options.storage, interrupts) as store:
        study = opened(store, parts)
        launching(config)
        launcher = Launcher(study_context(parts), executor=executor, store=store, interrupts=interrupts)
        slot = executor.slots[0]
        record = launcher.plan(config, slot, stage="try", why=why)
        launched = run_alone(
            lambda clock: launcher.carry_out(record, slot, clock=clock),
            slot=slot,
            crew=crew_for(executor, parts.clock, interrupts),
            interrupts=interrupts,
        )
        launches = store.launches(parts.name)
        judgement = judge(parts.spec, launches)
        write_report(parts.folder, ContentBuilder(spec_of(study), study).content(launches, judgement))
    return Tried(launched.record, judgement, parts.folder, _error_of(launched))


def _error_of(launched: Launched) -> SearchError | None:
    number = launched.record.number
    if launched.leftovers:
        return BreakerOpen(f"Launch {number} left something behind: {'; '.join(launched.leftovers)}.")
    if launched.interrupted:
        return Interrupted(f"Interrupted: the server is stopped; launch {number} is stored as it is.")
    return None


def _asked(parts: Assembly, text: str | None, raw: tuple[str, ...] | None) -> SpecConfig:
    """The config that is meant; for raw words, the one they spell."""
    if raw is not None:
        if parts.kind != "measured" or parts.dialect is None:
            raise UsageError("`--raw` needs a real server: leave out `--simulate` and `--replay`.")
        if not raw:
            raise UsageError(
                "`--raw` is followed by the words for the server, but there are none. Add them, such as `--raw --disable-cuda-graph`."
            )
        return SpecConfig.from_id(text) if text else spelled_config(raw, parts.dialect, parts.spec.deployment)
    if not text:
        raise UsageError('`try` takes a config, such as "topk=2 num_steps=2" or v1-k2-s2-d7, or `--raw` and words.')
    return legal_config(parts, text)


def legal_config(parts: Assembly, text: str) -> SpecConfig:
    """The config that a person's words mean, if it can be launched here.

    Raises:
        UsageError: They are not understood, or a rule refuses the config.
    """
    config = parse_assignments(text, dialect=parts.dialect, algorithm=parts.spec.model.algorithm)
    explanation = parts.space.explain(config)
    if not explanation.legal or (parts.dialect is None and not explanation.launchable):
        way_out = " To send it all the same, spell it after `--raw`." if parts.kind == "measured" else ""
        raise UsageError(f"{config} cannot be launched here: {' '.join(explanation.lines)}{way_out}")
    return explanation.config


def spelled_config(words: Sequence[str], dialect: Dialect, deployment: Deployment) -> SpecConfig:
    """The config that raw words ask for, whatever the server makes of them.

    Raises:
        UsageError: Only a part of the tree is given; the config must be named then.
    """
    tree = {name: int(value) for name, flag in RAW_TREE_FLAGS.items() if (value := _value(words, flag)).isdecimal()}
    if not tree:
        return SpecConfig.from_id("off")
    if len(tree) < len(RAW_TREE_FLAGS):
        raise UsageError(
            f"Raw words give all of {', '.join(RAW_TREE_FLAGS.values())}, or the config is named before `--raw`, "
            f"but got {' '.join(words)}. Name the config, such as `v2-k1-s2-d3`."
        )
    options = [SpecConfig.from_params({"spec_version": version, **tree}) for version in ("v1", "v2")]
    return max(options, key=lambda config: _likeness(config, words, dialect, deployment))


def _value(words: Sequence[str], flag: str) -> str:
    for place, word in enumerate(words):
        if word == flag and place + 1 < len(words):
            return words[place + 1]
        if word.startswith(f"{flag}="):
            return word.partition("=")[2]
    return ""


def _likeness(config: SpecConfig, words: Sequence[str], dialect: Dialect, deployment: Deployment) -> int:
    """How many words of a config's own spelling are among `words`, less those that are not."""
    try:
        args = dialect.launch_args(config, deployment)
    except UnsupportedKnob:
        return -100
    spelled = {*args.flags, *(f"{name}={value}" for name, value in args.env.items() if value is not None)}
    return len(spelled & set(words)) - len(spelled - set(words))


def opened(store: Store, parts: Assembly) -> StudyRecord:
    """The stored study, made where there is none yet.

    Raises:
        UsageError: It was measured under other conditions.
    """
    known = store.study(parts.name)
    if known is not None and (lines := differences(known.fingerprint, parts.fingerprint)):
        raise UsageError(
            f"Study {parts.name!r} was measured under other conditions: {'; '.join(lines)}. "
            "Try it in another `--storage`, or put the old study file back."
        )
    if known is not None:
        return known
    study = StudyRecord(parts.name, parts.kind, stored_spec(parts.spec), dict(parts.fingerprint), parts.clock.now())
    store.save_study(study)
    return study
