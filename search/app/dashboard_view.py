"""The studies of a storage as optuna-dashboard shows them best: a view in memory, made from our own tables.

Optuna's own tables are left as samplers need them. There a config that failed has finite values and a constraint, which
optuna-dashboard 0.21 does not read (Optuna 5 stores `constraints:launch`, the dashboard looks for `constraints`), so it
would be drawn as a measured point; and confirmations, ladder and closing baselines are no trials. In the view every
launch is one: what failed has no values, numbers are numbers, and each has its note, its phases and its files.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from datetime import timedelta
from hashlib import sha256
from pathlib import Path
from typing import Any, BinaryIO

import optuna
from optuna.distributions import BaseDistribution, CategoricalDistribution, IntDistribution
from optuna.storages import BaseStorage, InMemoryStorage
from optuna.trial import FrozenTrial, TrialState, create_trial

from search.analysis.analyse import judge
from search.app.report_content import ContentBuilder
from search.app.stored import spec_of
from search.contracts import LaunchPaths
from search.errors import UsageError
from search.metrics import mean_rate, number
from search.outcomes import Outcome
from search.report.content import ReportContent
from search.report.decision import decide
from search.report.text import duration, one_line
from search.storage.optuna_side import quiet_optuna
from search.storage.records import LaunchRecord, StudyRecord
from search.storage.store import Store

_STATES: Mapping[Outcome | None, TrialState] = {
    Outcome.MEASURED: TrialState.COMPLETE,
    Outcome.GATED: TrialState.PRUNED,
    None: TrialState.RUNNING,
}
"""Everything else is FAIL."""


class View:
    """Studies for people, and the files beside them.

    Args:
        store: Ours, read only.
        reports: Where the reports of its studies are.
    """

    def __init__(self, store: Store, reports: Path) -> None:
        self.files = Files(reports)
        self.storage: BaseStorage = InMemoryStorage()
        with quiet_optuna():
            for record in store.studies():
                self._add(record, store.launches(record.name))

    def _add(self, record: StudyRecord, launches: tuple[LaunchRecord, ...]) -> None:
        from optuna_dashboard import save_note

        try:
            spec = spec_of(record)
        except UsageError:
            return  # of another version; it has its own tables still
        content = ContentBuilder(spec, record).content(launches, judge(spec, launches))
        study = optuna.create_study(
            study_name=record.name, storage=self.storage, directions=[axis.direction.value for axis in content.axes]
        )
        study.set_metric_names(list(spec.objective_names))
        study.set_user_attr("kind", content.label or "MEASURED")
        folder = self.files.reports / record.name
        for system_attr in self.files.add(folder, (folder / "index.html", "text/html")):
            self.storage.set_study_system_attr(study._study_id, *system_attr)
        save_note(study, "\n\n".join(decide(content).lines) or "nothing yet")
        kinds = distributions_of(launches)
        for launch in launches:
            study.add_trial(trial_of(content, launch, kinds, self.files))
            trial_id = self.storage.get_all_trials(study._study_id, deepcopy=False)[-1]._trial_id
            if launch.outcome is not None:
                save_note(optuna.trial.Trial(study, trial_id), note_of(content, launch))


class Files:
    """The files of reports as an artifact store that only reads: ids stand for paths that were added.

    Args:
        reports: Nothing outside of it is read, through links neither.
    """

    def __init__(self, reports: Path) -> None:
        self.reports = reports
        self._paths: dict[str, Path] = {}

    def add(self, folder: Path, *files: tuple[Path, str]) -> Iterator[tuple[str, str]]:
        """The system attribute of each file that is there, with its mime type.

        Args:
            folder: Of the study.
            files: Paths in it, each with its mime type.
        """
        for path, mime in files:
            if not path.is_file() or not path.resolve().is_relative_to(self.reports.resolve()):
                continue
            key = sha256(str(path).encode()).hexdigest()[:32]
            self._paths[key] = path
            name = str(path.relative_to(folder)).replace("/", " ")
            artifact = {"artifact_id": key, "filename": name, "mimetype": mime, "encoding": None}
            yield f"artifacts:{key}", json.dumps(artifact)

    def open_reader(self, artifact_id: str) -> BinaryIO:
        """See `optuna.artifacts.ArtifactStore`."""
        if artifact_id not in self._paths:
            raise optuna.artifacts.exceptions.ArtifactNotFound(artifact_id)
        return self._paths[artifact_id].open("rb")

    def write(self, artifact_id: str, content_body: BinaryIO) -> None:  # noqa: ARG002
        """See `optuna.artifacts.ArtifactStore`.

        Raises:
            UsageError: Always.
        """
        raise UsageError("The dashboard shows a study and takes no files. Put them beside the report.")

    def remove(self, artifact_id: str) -> None:  # noqa: ARG002
        """See `write`.

        Raises:
            UsageError: Always.
        """
        raise UsageError("The dashboard shows a study and removes no files. Remove them in its folder.")


def distributions_of(launches: Sequence[LaunchRecord]) -> dict[str, BaseDistribution]:
    """A distribution for each knob over all values that were launched; whole numbers sort as numbers."""
    seen: dict[str, list[Any]] = {}
    for launch in launches:
        for name, value in launch.config.params.items():
            seen.setdefault(name, []).append(value)
    return {
        name: IntDistribution(min(values), max(values))
        if all(isinstance(value, int) and not isinstance(value, bool) for value in values)
        else CategoricalDistribution(tuple(dict.fromkeys(map(str, values))))
        for name, values in seen.items()
    }


def trial_of(
    content: ReportContent, launch: LaunchRecord, kinds: Mapping[str, BaseDistribution], files: Files
) -> FrozenTrial:
    """A launch as a trial: values of what was measured alone.

    Args:
        content: Of its study.
        launch: Any.
        kinds: See `distributions_of`.
        files: Takes its log.
    """
    state = _STATES.get(launch.outcome, TrialState.FAIL)
    values = [axis.mean(launch.phases) for axis in content.axes]
    if state is TrialState.COMPLETE and None in values:
        state = TrialState.FAIL
    params = {
        name: value if isinstance(kinds[name], IntDistribution) else str(value)
        for name, value in launch.config.params.items()
    }
    folder = files.reports / content.study.name
    log = LaunchPaths(folder / launch.folder).server_log
    attributes: dict[str, Any] = {
        "config_id": launch.config.config_id,
        "launch": launch.number,
        "stage": launch.stage,
        "outcome": launch.outcome.value if launch.outcome else "RUNNING",
        "feasible": state is TrialState.COMPLETE,
        **({"reason": launch.reason.value} if launch.reason else {}),
    }
    for load in sorted({phase.concurrency for phase in launch.phases}):
        repeats = launch.repeats(load)
        attributes[f"c{load}_output_tps"] = round(mean_rate(repeats), 3)
        accepts = [phase.accept_length for phase in repeats if phase.accept_length is not None]
        if accepts:
            attributes[f"accept_c{load}"] = round(sum(accepts) / len(accepts), 3)
    for name, seconds in (("boot_s", launch.boot_s), ("duration_s", launch.duration_s)):
        if seconds is not None:
            attributes[name] = round(seconds, 1)
    trial = create_trial(
        state=state,
        values=[float(value or 0.0) for value in values] if state is TrialState.COMPLETE else None,
        params=params,
        distributions={name: kinds[name] for name in params},
        user_attrs=attributes,
        system_attrs={
            **({"constraints": [0.0]} if state is TrialState.COMPLETE else {}),
            **dict(files.add(folder, (log, "text/plain"))),
        },
        intermediate_values={place: mean_rate((phase,)) for place, phase in enumerate(launch.phases, 1)},
    )
    trial.datetime_start = launch.started_at.replace(tzinfo=None)
    if launch.outcome is not None:
        trial.datetime_complete = trial.datetime_start + timedelta(seconds=launch.duration_s or 0.0)
    return trial


def note_of(content: ReportContent, launch: LaunchRecord) -> str:
    """What a person wants to know of one launch, as Markdown."""
    config_id = launch.config.config_id
    parts = [f"**{config_id}**, launch {launch.number}, {launch.stage}: {launch.outcome or 'running'}"]
    if launch.why:
        parts.append(f"Why: {one_line(launch.why)}")
    if launch.reason is not None:
        parts.append(f"Reason: {launch.reason} ({launch.reason.blame} is to blame)")
    if launch.evidence is not None:
        parts.append(f"First root line:\n\n```\n{one_line(launch.evidence.root_line)}\n```")
        if launch.evidence.log_path:
            parts.append(f"Log: {one_line(launch.evidence.log_path)}")
    if launch.phases:
        rows = [
            f"| {place} | {phase.concurrency} | {phase.repeat}{', kept back' if phase.held_out else ''} | {number(mean_rate((phase,)))} | {number(phase.accept_length)} |"
            for place, phase in enumerate(launch.phases, 1)
        ]
        parts.append("\n".join(("| phase | C | repeat | tok/s | accept |", "|---|---|---|---|---|", *rows)))
    gains = next((one.gains for one in content.judgement.results if one.config == launch.config), {})
    loads_of: dict[str, list[str]] = {}
    for result in content.judgement.results:
        for load in gains if result.config == launch.config else ():
            loads_of.setdefault(content.against(result, load), []).append(str(load))
    if loads_of:
        wins = (f"{word} at C={', '.join(loads)}" for word, loads in loads_of.items())
        parts.append(f"Judged over all starts: {'; '.join(wins)}")
    if (serving := content.serving.get(config_id)) is not None:
        parts.append(f"To serve:\n\n```\n{serving.text.strip()}\n```")
    elif (command := content.commands.get(config_id)) is not None:
        parts.append(f"Command:\n\n```\n{command.strip()}\n```")
    parts.append(f"Boot {duration(launch.boot_s)}, total {duration(launch.duration_s)}; files in {launch.folder}")
    return "\n\n".join(parts)
