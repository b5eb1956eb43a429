"""One launch outside the search: asked against what really ran, measured and stored."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import TextIO

from search.cli.assemble import Assembly, assemble
from search.cli.contents import ContentBuilder
from search.cli.guard import say
from search.cli.options import RunOptions
from search.config import SpecConfig
from search.deployment import Deployment
from search.dialects import Dialect
from search.errors import BreakerOpen, Interrupted, UnsupportedKnob, UsageError
from search.report import write_report
from search.report.lines import launched_line
from search.report.words import one_line
from search.server import mask_text
from search.space import parse_assignments
from search.storage import LaunchRecord, Store, StudyRecord, storage_url
from search.study.fingerprint import differences
from search.study.judge import judge
from search.study.launching import Launcher
from search.study.resume import stored_spec

RAW_TREE_FLAGS = {
    "topk": "--speculative-eagle-topk",
    "num_steps": "--speculative-num-steps",
    "num_draft_tokens": "--speculative-num-draft-tokens",
}
"""Unchanged over all releases 0.5.9 to 0.5.23."""


def try_config(
    options: RunOptions, text: str | None, raw: tuple[str, ...] | None, *, out: TextIO, as_json: bool, quiet: bool
) -> None:
    """Launch one config, print what ran and what it gave, store it as a launch of stage `try`.

    A launch that fails is an answer too: its reason is printed and the command succeeds.

    Raises:
        UsageError: The config or the raw words are not understood, or a rule refuses the config.
        HostUnfit: See `assemble`.
        BreakerOpen: The server's stop could not be proven.
        Interrupted: Ctrl-C; the server is stopped.
    """
    parts = assemble(options, raw=raw)
    config = _asked(parts, text, raw)
    why = "tried by hand" if raw is None else f"raw: {mask_text(' '.join(raw))}"
    storage_url(options.storage)
    with parts.open_executor() as executor, Store(options.storage) as store:
        study = _opened(store, parts)
        if not quiet:
            out.write(f"launching {config}\n")
            out.flush()
        launcher = Launcher(
            parts.spec, study=parts.name, executor=executor, store=store, clock=parts.clock, reports=parts.folder
        )
        launched = launcher.run(config, stage="try", why=why)
        launches = store.launches(parts.name)
        judgement = judge(parts.spec, launches)
        write_report(parts.folder, ContentBuilder(parts.spec, study).content(launches, judgement))
    record = launched.record
    if as_json:
        say(json.dumps(_result(record), indent=1, allow_nan=False))
    else:
        for line in (
            *_effective_lines(record),
            launched_line(record, judgement),
            f"stored in {parts.folder / record.folder}",
        ):
            say(line)
    if launched.leftovers:
        raise BreakerOpen(f"Launch {record.number} left something behind: {'; '.join(launched.leftovers)}.")
    if launched.interrupted:
        raise Interrupted(f"Interrupted: the server is stopped; launch {record.number} is stored as it is.")


def _asked(parts: Assembly, text: str | None, raw: tuple[str, ...] | None) -> SpecConfig:
    """The config that is meant; for raw words, the one they spell."""
    if raw is not None:
        if parts.kind != "measured" or parts.dialect is None:
            raise UsageError("`--raw` needs a real server: leave out `--simulate` and `--replay`.")
        if not raw:
            raise UsageError("`--raw` is followed by the words for the server, such as `--raw --disable-cuda-graph`.")
        return SpecConfig.from_id(text) if text else spelled_config(raw, parts.dialect, parts.spec.deployment)
    if not text:
        raise UsageError('`try` takes a config, such as "topk=2 num_steps=2" or v1-k2-s2-d7, or `--raw` and words.')
    config = parse_assignments(text, dialect=parts.dialect)
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
            f"but got {' '.join(words)}."
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


def _opened(store: Store, parts: Assembly) -> StudyRecord:
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


def _effective_lines(record: LaunchRecord) -> Iterator[str]:
    yield f"asked for  {record.asked}"
    if record.effective is None:
        yield "really ran nothing: the server never became ready"
        return
    differs = "" if record.config == record.asked else "   <- differs from what was asked"
    yield f"really ran {record.config}{differs}"
    if record.effective.release:
        yield f"release    {record.effective.release}"
    if record.effective.max_running_requests is not None:
        yield f"running    at most {record.effective.max_running_requests} requests"
    for name, value in record.effective.details:
        yield f"{name}  {one_line(value)}"


def _result(record: LaunchRecord) -> dict[str, object]:
    return {
        "launch": record.number,
        "asked": record.asked.config_id,
        "effective": record.config.config_id if record.effective else None,
        "outcome": record.outcome.value if record.outcome else None,
        "reason": record.reason.value if record.reason else None,
        "root_line": record.evidence.root_line if record.evidence else None,
        "notes": [note.value for note in record.notes],
        "boot_s": record.boot_s,
        "duration_s": record.duration_s,
        "phases": [
            {
                "concurrency": phase.concurrency,
                "repeat": phase.repeat,
                "output_tps": phase.output_tps,
                "tpot_ms": phase.tpot_ms,
                "ttft_ms": phase.ttft_ms,
                "accept_length": phase.accept_length,
            }
            for phase in record.phases
        ],
    }
