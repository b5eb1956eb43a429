"""A study's second phase: whether it is due, its run, and what it was worth, all from what is stored."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from search.analysis.analyse import judge
from search.analysis.escalation import EscalationAnswer, condition, worth_of
from search.analysis.findings import Judgement
from search.analysis.results import config_results
from search.analysis.winners import all_synthetic, is_shown_lossless
from search.app.assemble import assemble
from search.app.assembly import Assembly
from search.app.compare import on_one_host, side_of_study
from search.app.options import RunOptions
from search.app.stored import spec_of
from search.errors import HostUnfit
from search.spec.escalation import SUFFIX
from search.spec.fingerprint import study_name
from search.spec.study import StudySpec
from search.storage.records import LaunchRecord, StudyRecord
from search.storage.store import Store


def escalation_answer(
    spec: StudySpec, study: StudyRecord, launches: Sequence[LaunchRecord], judgement: Judgement, store: Store
) -> EscalationAnswer | None:
    """How things stand with the second phase of a study; None without one, and for a replay.

    Args:
        spec: The study file.
        study: As stored.
        launches: Of the first phase.
        judgement: On them.
        store: Holds the second phase, if it was begun.
    """
    if spec.escalation is None or study.kind == "replay":
        return None
    due, why = condition(spec.escalation, judgement.verdicts)
    name = study_name(f"{spec.study}{SUFFIX}", study.kind)
    release = spec.escalated().engine.release
    second = store.study(name)
    theirs = () if second is None else store.launches(name)
    if second is None or not theirs:
        return EscalationAnswer("due" if due else "not due", name, release, why)
    theirs_spec = spec_of(second)
    sides = on_one_host((side_of_study(study, launches), side_of_study(second, theirs)))
    worth = worth_of((judgement, sides[0]), (judge(theirs_spec, theirs), sides[1]))
    results = config_results(theirs_spec, theirs)
    computed = study.kind != "measured" or all_synthetic(results)
    unchecked = () if computed else tuple(one.config for one in results if not is_shown_lossless(one))
    # Begun is begun: more starts of the first phase may end its question otherwise.
    return EscalationAnswer("begun", name, release, why, worth, len(theirs), unchecked, computed)


def second_phase(options: RunOptions) -> RunOptions:
    """The command line of the second phase: its budget is its file's."""
    return replace(options, study=f"{options.study}{SUFFIX}", launches=None, hours=None)


def foreseen(options: RunOptions, parts: Assembly) -> Iterator[str]:
    """What this host lacks for the second phase, before the first begins: there is a night to mend it."""
    if parts.spec.escalation is None or parts.kind != "measured":
        return
    try:
        assemble(second_phase(options))
    except HostUnfit as unfit:
        for line in str(unfit).splitlines():
            yield f"the second phase could not run here yet: {line}"
