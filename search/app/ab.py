"""Two shapes in turn inside one server: the sharpest comparison that one start gives."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from search.app.assemble import assemble
from search.app.assembly import Assembly
from search.app.options import RunOptions
from search.app.run import patient_store, study_context
from search.app.try_one import legal_config, opened
from search.config import SpecConfig
from search.contracts import Clock
from search.errors import BreakerOpen, Interrupted, LaunchFailed, UsageError
from search.metrics import Objective
from search.outcomes import Evidence, Outcome, Reason
from search.stats.rounds import Alternated, alternated, order_of
from search.storage.records import LaunchRecord, Stage
from search.storage.urls import storage_url
from search.study.launch import Launched, Launcher
from search.study.outputs import prepare
from search.study.sharing import Sharing
from search.study.signals import Interrupts
from search.study.starts import MOST_PLACES, Starts
from search.study.workers import crew_for, run_alone

MOST_ROUNDS = MOST_PLACES // 2
STAGES: tuple[Stage, ...] = ("try",)


@dataclass(frozen=True, slots=True)
class Contrast:
    """One objective.

    Attributes:
        objective: Of the study.
        a: Its value of each round, in the objective's unit.
        b: Likewise.
        comparison: `b / a`.
    """

    objective: Objective
    a: tuple[float, ...]
    b: tuple[float, ...]
    comparison: Alternated


@dataclass(frozen=True, slots=True)
class Alternation:
    """All that the rounds gave.

    Attributes:
        a: The first of the first round.
        b: The other.
        records: As stored, in their order.
        contrasts: By objective.
    """

    a: SpecConfig
    b: SpecConfig
    records: tuple[LaunchRecord, ...]
    contrasts: tuple[Contrast, ...]


def alternate(
    options: RunOptions,
    texts: tuple[str, str],
    *,
    rounds: int,
    heard: Callable[[LaunchRecord], None],
    interrupts: Interrupts,
) -> Alternation:
    """Measure two configs in turn in one start, and store each measurement as a launch of stage `try`.

    Args:
        options: The command line.
        texts: The configs as a person writes them.
        rounds: Of both, an even number.
        heard: Called with each measurement as it ends.
        interrupts: A press stops the server; what was measured is stored.

    Raises:
        UsageError: The two are one, a rule refuses one, or no start can hold both.
        LaunchFailed: A measurement failed; those before it are stored.
        Interrupted: Ctrl-C.
    """
    order = order_of(rounds)
    if rounds > MOST_ROUNDS:
        raise UsageError(f"One start holds at most {MOST_ROUNDS} rounds, but got {rounds}. Ask for fewer.")
    parts = assemble(options)
    a, b = _both(parts, texts)
    storage_url(options.storage)
    prepare(parts.folder)
    records: list[LaunchRecord] = []
    with interrupts.held(), parts.open_executor() as executor, patient_store(options.storage, interrupts) as store:
        opened(store, parts)
        starts = Starts(Sharing(((a, b),)), stages=STAGES)
        launcher = Launcher(study_context(parts), executor=executor, store=store, interrupts=interrupts, starts=starts)
        slot = executor.slots[0]
        crew = crew_for(executor, parts.clock, interrupts)
        try:
            for place, letter in enumerate(order):
                config, other = (a, b) if letter == "a" else (b, a)
                why = f"a/b: {a} and {b} in turn, round {place // 2 + 1} of {rounds}"
                record = launcher.plan(config, slot, stage="try", why=why, holds=(other,))

                def work(clock: Clock, record: LaunchRecord = record) -> Launched:
                    return launcher.carry_out(record, slot, clock=clock)

                launched = run_alone(work, slot=slot, crew=crew, interrupts=interrupts)
                _refuse(launched, records)
                records.append(launched.record)
                heard(launched.record)
        finally:
            leftovers = launcher.close_starts()
        if leftovers:
            raise BreakerOpen(f"The server left something behind: {'; '.join(leftovers)}.")
    return Alternation(a, b, tuple(records), tuple(_contrasts(parts, (a, b), records)))


def _both(parts: Assembly, texts: tuple[str, str]) -> tuple[SpecConfig, SpecConfig]:
    if parts.kind == "replay":
        raise UsageError("`ab` needs a server that can be switched: leave out `--replay`.")
    a, b = (legal_config(parts, text) for text in texts)
    if a == b:
        raise UsageError(f"`ab` takes two configs, but both are {a}.")
    if b not in parts.sharing.beside(a):
        why = parts.sharing.words or "they resolve to different settings beyond their shape"
        raise UsageError(f"`ab` needs two configs that one start can hold, but {a} and {b} are not: {why}.")
    return a, b


def _refuse(launched: Launched, before: Sequence[LaunchRecord]) -> None:
    """End where a measurement is none, or is not in the start of those before it.

    Raises:
        LaunchFailed: It failed.
        UsageError: The server keeps its shape.
        Interrupted: Ctrl-C.
    """
    record = launched.record
    if launched.interrupted:
        raise Interrupted(f"Interrupted: the server is stopped; {len(before)} measurements are stored.")
    if record.outcome is not Outcome.MEASURED:
        raise LaunchFailed(record.reason or Reason.TOOL_ERROR, record.evidence or Evidence(f"{record.outcome}"))
    if before and record.start_number != before[0].start_number:
        details = dict(before[0].effective.details) if before[0].effective is not None else {}
        why = details.get("keeps_its_shape", "it refused the switch")
        raise UsageError(f"The server does not switch from {before[-1].asked} to {record.asked}: {why}.")


def _contrasts(
    parts: Assembly, configs: tuple[SpecConfig, SpecConfig], records: Sequence[LaunchRecord]
) -> list[Contrast]:
    found = []
    for axis in parts.spec.axes:
        sides = [[_value(axis, record) for record in records if record.asked == config] for config in configs]
        a, b = (tuple(value for value in side if value is not None) for side in sides)
        if len(a) == len(b) == len(records) // 2 and min(*a, *b) > 0:
            found.append(Contrast(axis, a, b, alternated(a, b)))
    return found


def _value(axis: Objective, record: LaunchRecord) -> float | None:
    """Of one measurement: the mean over its repeats."""
    return axis.mean(record.phases)


def as_result(found: Alternation) -> Mapping[str, object]:
    """For machines."""
    return {
        "a": found.a.config_id,
        "b": found.b.config_id,
        "start": found.records[0].start_number,
        "launches": [record.number for record in found.records],
        "objectives": {
            one.objective.name: {
                "a": list(one.a),
                "b": list(one.b),
                "b_over_a": one.comparison.ratio,
                "lo": one.comparison.lo,
                "hi": one.comparison.hi,
                "smallest": one.comparison.smallest,
            }
            for one in found.contrasts
        },
    }
