"""`search compare`: studies of a storage and recordings as tables that can stand beside one another."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

from search.analysis.arenas import prompt_set_of
from search.analysis.compared import Compared, compared
from search.analysis.results import measured_launches
from search.analysis.side import Side, higher_is_better
from search.app.stored import require_database, spec_of, stored_study
from search.config import SpecConfig
from search.contracts import PhaseResult
from search.engines.recording import META, Recording, read_recording, result_of
from search.errors import UsageError
from search.metrics import pace_ms
from search.stats.phase_readings import reading_of
from search.stats.readings import Reading
from search.storage.records import LaunchRecord, StudyRecord
from search.storage.store import Store

_PROMPTS = "measure.prompts.sha256"
_APART = 1_000_000
"""Numbers of starts in one table; those of the next begin above."""
_MOST = 20
_UNHEARD = ("objectives", "measure.watch_repeats")
"""Conditions that change no number."""


def compare_tables(names: Sequence[str], storage: str, *, same_host: bool) -> Compared:
    """Compare what the names mean: a folder of a recording, else a study of the storage.

    Args:
        names: Two or more, in order.
        storage: Where studies are.
        same_host: One machine ran all of them, which no table says.

    Raises:
        UsageError: There are too few, one is not there, or nothing of two can be compared.
    """
    if not 2 <= len(names) <= _MOST:
        raise UsageError(
            f"`compare` takes 2 to {_MOST} studies or recordings, but got {len(names)}. Name them in order, the oldest first."
        )
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise UsageError(f"`compare` takes each study or recording once, but got {twice[0]!r} twice. Leave one out.")
    with ExitStack() as stack:
        store: Store | None = None
        sides = []
        for place, name in enumerate(names):
            if (Path(name) / META).is_file():
                side = side_of_recording(read_recording(Path(name)))
            else:
                if store is None:
                    _require(name, storage)
                    store = stack.enter_context(Store(storage, read_only=True))
                found = stored_study(store, name)
                side = side_of_study(found, store.launches(found.name))
            sides.append(_placed(side, place, same_host=same_host))
    comparison = compared(_unlike_names(sides, names))
    if not any(pair.changes for pair in comparison.steps):
        loads = "; ".join(f"{side.name}: {', '.join(map(str, side.loads)) or 'none'}" for side in comparison.sides)
        raise UsageError(
            f"A comparison needs a config that two tables measured at one load, but there is none. Their loads: {loads}."
        )
    return comparison


def side_of_recording(recording: Recording) -> Side:
    """A recording as a table; what its meta says of how it was measured are its conditions."""
    found: dict[int, dict[SpecConfig, list[Reading]]] = {}
    for (config, load), rows in recording.repeats().items():
        for place, row in enumerate(rows, 1):
            phase = result_of(row, repeat=row.repeat or place, requests=0, computed=recording.computed)
            _add(found, config, load, phase, start=row.launch, slot="0", prompt_set="search", fresh=False)
    meta = recording.meta
    conditions = dict(meta["conditions"]) if isinstance(meta.get("conditions"), dict) else {}
    versions = meta.get("versions")
    release = str(versions.get("sglang", "")) if isinstance(versions, dict) else ""
    names = {"model.target": "model", "model.draft": "draft", "model.algorithm": "algorithm", "gpus": "gpus"}
    conditions |= {name: str(meta[key]) for name, key in names.items() if meta.get(key)}
    if release:
        conditions["engine.release"] = release
    named = meta.get("objectives")
    return Side(
        recording.name,
        release,
        {str(name): str(value) for name, value in conditions.items()},
        _frozen(found),
        tuple(
            load
            for load in sorted(found)
            if isinstance(named, dict) and any(str(one).startswith(f"c{load}_") for one in named)
        ),
        hand_made=recording.computed,
        failed={config: failure.reason.value for config, failure in recording.failures().items()},
    )


def side_of_study(study: StudyRecord, launches: Sequence[LaunchRecord]) -> Side:
    """A stored study as a table; the fingerprint is its conditions."""
    found: dict[int, dict[SpecConfig, list[Reading]]] = {}
    for launch in measured_launches(launches):
        for phase in launch.phases:
            _add(
                found, launch.config, phase.concurrency, phase, start=launch.number, slot=str(launch.slot),
                prompt_set=prompt_set_of(launch, phase), fresh=launch.stage == "confirm",
            )  # fmt: skip
    release = next((one.effective.release for one in launches if one.effective and one.effective.release), "")
    spec = spec_of(study)
    return Side(
        study.name,
        release or spec.engine.release,
        dict(study.fingerprint) | {"gpus": f"{spec.hardware.gpus}x {spec.hardware.kind}"},
        _frozen(found),
        spec.objective_loads,
        hand_made=study.kind != "measured",
        failed={one.asked: one.reason.value for one in reversed(launches) if one.reason is not None},
    )


def on_one_host(sides: Sequence[Side]) -> tuple[Side, ...]:
    """Studies that one machine ran, so that their speeds compare as starts of one study do, as far as prompts are the same."""
    if not any(_PROMPTS in side.conditions for side in sides):  # computed for the same ones, then
        sides = [replace(side, conditions={**side.conditions, _PROMPTS: "computed"}) for side in sides]
    return tuple(_placed(side, place, same_host=True) for place, side in enumerate(sides))


def unlike(before: Side, after: Side) -> list[str]:
    """Conditions that differ, `name: before -> after` each; what one side does not say is no difference."""
    known = sorted(before.conditions.keys() & after.conditions.keys())
    return [
        f"{name}: {before.conditions[name]} -> {after.conditions[name]}"
        for name in known
        if before.conditions[name] != after.conditions[name] and not name.startswith(_UNHEARD)
    ]


def _add(
    found: dict[int, dict[SpecConfig, list[Reading]]],
    config: SpecConfig,
    load: int,
    phase: PhaseResult,
    *,
    start: int,
    slot: str,
    prompt_set: str,
    fresh: bool,
) -> None:
    of = (lambda one: one.output_tps) if higher_is_better(load) else pace_ms
    reading = reading_of(phase, of, start=start, slot=slot, prompt_set=prompt_set, fresh=fresh)
    if reading is not None:
        found.setdefault(load, {}).setdefault(config, []).append(reading)


def _frozen(
    found: Mapping[int, Mapping[SpecConfig, Iterable[Reading]]],
) -> dict[int, dict[SpecConfig, tuple[Reading, ...]]]:
    return {load: {config: tuple(values) for config, values in mine.items()} for load, mine in sorted(found.items())}


def _placed(side: Side, place: int, *, same_host: bool) -> Side:
    """With starts of its own, and slots and prompts that only those share who ran on one host with one set of prompts."""
    prompts = side.conditions.get(_PROMPTS) or f"of table {place}"
    host = "one host" if same_host else f"host {place}"

    def moved(one: Reading) -> Reading:
        return replace(
            one, start=one.start + place * _APART, slot=f"{host}:{one.slot}", prompt_set=f"{prompts}:{one.prompt_set}"
        )

    return replace(
        side,
        readings={
            load: {config: tuple(map(moved, values)) for config, values in mine.items()}
            for load, mine in side.readings.items()
        },
    )


def _unlike_names(sides: Sequence[Side], asked: Sequence[str]) -> list[Side]:
    """Recordings of one name go by their folders."""
    names = [side.name for side in sides]
    return [
        replace(side, name=asked[place] if names.count(side.name) > 1 else side.name)
        for place, side in enumerate(sides)
    ]


def _require(name: str, storage: str) -> None:
    try:
        require_database(storage)
    except UsageError as error:
        raise UsageError(f"{name!r} is no folder of a recording, and as the name of a study: {error}") from error
