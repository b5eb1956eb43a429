"""Creates a study, or continues one: refuses to mix unlike measurements, closes what a dead run left open."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace

import optuna
from optuna.storages import BaseStorage
from optuna.study import Study, StudyDirection

from search.config import CORE_KNOBS, SpecConfig
from search.contracts import Clock
from search.errors import UsageError
from search.outcomes import Evidence, Outcome, Reason
from search.samplers.finite import FiniteSpaceSampler
from search.spec.fingerprint import differences, renewed
from search.spec.stored import stored_spec
from search.spec.study import StudySpec
from search.storage.heartbeat import owners_alive
from search.storage.optuna_side import quiet_optuna
from search.storage.owner import OWNER
from search.storage.records import LaunchRecord, StudyRecord
from search.storage.store import Store
from search.study.context import StudyContext
from search.study.trials import Trials

SPACE = "space"
"""User attribute of an Optuna study: the ids of all valid configs it was made for."""


def open_study(context: StudyContext, *, store: Store, storage: BaseStorage, sampler: FiniteSpaceSampler) -> Study:
    """Create the study, or load it after checking that it is the same one.

    Args:
        context: The study.
        store: Our tables.
        storage: Optuna's.
        sampler: Becomes the study's.

    Raises:
        UsageError: It was measured under other conditions or over another space; each difference
            is listed, with the ways out. Nothing is changed then.
    """
    spec, name, kind, fingerprint = context.spec, context.name, context.kind, context.fingerprint
    known = store.study(name)
    facts = renewed(known.fingerprint, fingerprint) if known else dict(fingerprint)
    record = StudyRecord(name, kind, stored_spec(spec), facts, context.clock.now())
    if known is not None and known.kind != kind:
        raise UsageError(
            f"Study {name!r} is stored as {known.kind}, and a {kind} run cannot continue it. {_ways_out()}"
        )
    ids = sorted(config.config_id for config in context.space.configs)
    with quiet_optuna():
        existing = {summary.study_name for summary in optuna.get_all_study_summaries(storage, include_best_trial=False)}
        if name not in existing:
            study = optuna.create_study(
                study_name=name,
                storage=storage,
                directions=[StudyDirection[word.upper()] for word in spec.directions],
                sampler=sampler,
                # Another driver may make it at this moment.
                load_if_exists=True,
            )
        else:
            study = optuna.load_study(study_name=name, storage=storage, sampler=sampler)
            _check_directions(study, spec)
            if _holds_measurements(study, store.launches(name)):
                _check_conditions(name, known, fingerprint)
                _check_space(name, study.user_attrs.get(SPACE, ids), ids)
        if study.user_attrs.get(SPACE) != ids:
            study.set_user_attr(SPACE, ids)
        study.set_metric_names(list(spec.objective_names))
    store.save_study(record)
    return study


def accept_changes(name: str, fingerprint: Mapping[str, str], *, store: Store, clock: Clock) -> tuple[str, ...]:
    """Let a study go on under changed conditions, and mark it: its launches are no longer all alike.

    Args:
        name: Of the stored study.
        fingerprint: Of today's conditions.
        store: Holds the study.
        clock: Dates the note.

    Returns:
        The differences, as the note on the study has them; empty when there is nothing to accept.
    """
    known = store.study(name)
    lines = differences(known.fingerprint, fingerprint) if known else []
    if known is None or not lines:
        return ()
    following = max((launch.number for launch in store.launches(name)), default=0) + 1
    # First the note: cut between the two writes, the change is accepted once more, never unmarked.
    store.add_note(name, clock.now(), f"fingerprint changed at launch {following}: {'; '.join(lines)}")
    store.save_study(replace(known, fingerprint=renewed(known.fingerprint, fingerprint)))
    return tuple(lines)


def settle(
    trials: Trials,
    *,
    name: str,
    store: Store,
    is_live: Callable[[str], bool] | None = None,
    wait: Callable[[float], object] | None = None,
    notice: Callable[[str], None] | None = None,
) -> tuple[LaunchRecord, ...]:
    """Close trials and launches that no live process runs.

    A trial whose last launch is finished ends as that launch did; any other ends as FAIL, and its
    config may be asked again. Phases of a cut launch stay readable.

    Args:
        trials: Of the study.
        name: The study's.
        store: Its launches, and the drivers' signs of life.
        is_live: Of an owner; without it as `owners_alive` says.
        wait: Passes seconds while a driver whose clock may differ is watched, see `owners_alive`.
        notice: Gets one line before a watch.

    Returns:
        All launches of the study, as they are now.
    """
    # Each list before the one that it is judged by: who starts in between is not taken for dead.
    running = trials.running()
    owners = store.owners(name)
    launches = store.launches(name)
    is_live = is_live or owners_alive(store, wait=wait, notice=notice)
    live = {trial.number for trial in running if is_live(str(trial.user_attrs.get(OWNER, "")))}
    cut = {number for number, owner in owners.items() if not is_live(owner)}
    launches = tuple(
        _closed(launch, name, store) if launch.number in cut and launch.trial not in live else launch
        for launch in launches
    )
    for frozen in running:
        if frozen.number in live:
            continue
        last = next((launch for launch in reversed(launches) if launch.trial == frozen.number), None)
        trial = trials.reopen(frozen)
        if last is not None and last.outcome is not None:
            trials.end(trial, last, launches)
        else:
            trials.abandon(trial, reason=Reason.STOPPED.value)
    return launches


def _closed(launch: LaunchRecord, name: str, store: Store) -> LaunchRecord:
    closed = replace(
        launch,
        outcome=Outcome.INTERRUPTED,
        reason=Reason.STOPPED,
        evidence=Evidence("its driver ended without finishing it"),
    )
    store.finish_launch(name, closed)
    return closed


def _holds_measurements(study: Study, launches: Iterable[LaunchRecord]) -> bool:
    """Whether anything was learned that a change of conditions would make incomparable."""
    complete = optuna.trial.TrialState.COMPLETE
    return any(launch.phases for launch in launches) or bool(study.get_trials(deepcopy=False, states=(complete,)))


def _check_directions(study: Study, spec: StudySpec) -> None:
    # Optuna itself ignores changed directions when it loads a study.
    stored = tuple(direction.name.lower() for direction in study.directions)
    if stored != spec.directions:
        raise UsageError(
            f"Study {study.study_name!r} was made with directions {', '.join(stored)}, but this program needs "
            f"{', '.join(spec.directions)}. {_ways_out()}"
        )


def _check_conditions(name: str, known: StudyRecord | None, now: Mapping[str, str]) -> None:
    if known is None:
        raise UsageError(
            f"Study {name!r} holds trials of Optuna, but nothing says how they were measured. {_ways_out()}"
        )
    if lines := differences(known.fingerprint, now):
        raise UsageError(
            f"Study {name!r} was measured under other conditions, and new launches could not be compared with it:\n"
            + "".join(f"  {line}\n" for line in lines)
            + _ways_out()
            + " Or accept them with `--accept-changes`: the study goes on, and its report says from which launch on."
        )


def _check_space(name: str, stored: Sequence[str], now: Sequence[str]) -> None:
    if list(stored) == list(now):
        return
    before, after = (_values([SpecConfig.from_id(config_id) for config_id in ids]) for ids in (stored, now))
    lines = differences(before, after)
    for word, ids in (("gone", set(stored) - set(now)), ("new", set(now) - set(stored))):
        if ids:
            shown = ", ".join(sorted(ids)[:5])
            lines.append(f"{word}: {shown}{f' and {len(ids) - 5} more' if len(ids) > 5 else ''}")
    raise UsageError(
        f"Study {name!r} was made for another space ({len(stored)} valid configs, now {len(now)}), and Optuna cannot "
        "change the choices of a study:\n" + "".join(f"  {line}\n" for line in lines) + _ways_out()
    )


def _values(configs: Sequence[SpecConfig]) -> dict[str, str]:
    """The values of each knob, such as `topk` to `1, 2, 4`."""
    found: dict[str, set[str | int | bool]] = {}
    for config in configs:
        for knob, value in config.params.items():
            found.setdefault(knob, set()).add(value)
    order = [knob for knob in CORE_KNOBS if knob in found] + sorted(found.keys() - set(CORE_KNOBS))
    return {
        knob: ", ".join(map(str, sorted(found[knob], key=lambda value: (isinstance(value, str), value))))
        for knob in order
    }


def _ways_out() -> str:
    return (
        "Ways out: put the old study file back; or start anew with another `--storage` or another name under `study:`. "
        "An old study can be kept as a recording with `python -m search record`."
    )
