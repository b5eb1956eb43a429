"""What stands around the measurements in a report, made from the study file and the database alone."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

from search.analysis.findings import Judgement
from search.analysis.schedule import schedule_of
from search.analysis.workloads import workloads_answer
from search.app.escalation import escalation_answer
from search.app.schedule import adaptive_steps
from search.app.serving import serving_command
from search.config import SpecConfig
from search.dialects import Dialect, for_release
from search.errors import SearchError, UnknownRelease
from search.physics.files import load_physics
from search.report.content import ReportContent, ServingCommand
from search.server.command import server_command
from search.server.ports import PortBlock
from search.space import SpaceSummary
from search.spec.calibrated import is_calibrated
from search.spec.study import StudySpec
from search.storage.records import LaunchRecord, StudyRecord
from search.storage.store import Store

SERVED_AT = 30000
"""Port of the saved launch scripts: SGLang's own default."""


class ContentBuilder:
    """Builds the report of one study; the same live and rebuilt.

    Args:
        spec: The study file.
        study: As stored.
        store: Where its second phase is stored, if it has one.
    """

    def __init__(self, spec: StudySpec, study: StudyRecord, store: Store | None = None) -> None:
        self._store = store
        self._spec = spec
        self._study = study
        self._dialect = _dialect(spec)
        self._is_rehearsal = study.kind == "simulated" and not is_calibrated(spec)
        self._provenance, details = _provenance(spec, study)
        self._details = (*study.notes, *details)
        self._space: SpaceSummary | None = None
        if self._dialect is not None and study.kind != "replay":
            self._space = SpaceSummary.of(spec.space_of(self._dialect))

    def content(self, launches: tuple[LaunchRecord, ...], judgement: Judgement) -> ReportContent:
        """The report over `launches`."""
        escalation = None
        if self._store is not None and not self._is_rehearsal:
            escalation = escalation_answer(self._spec, self._study, launches, judgement, self._store)
        judgement = rehearsed(judgement) if self._is_rehearsal else judgement
        wanted = {result.config for result in judgement.front} | {pick.result.config for pick in judgement.picks}
        schedule = None if self._is_rehearsal else schedule_of(judgement.winners, judgement.results)
        wanted |= {config for winner in judgement.winners for config in (winner.config, winner.baseline)}
        wanted |= {one.config for winner in judgement.winners for one in winner.ahead[:1]}
        return ReportContent(
            spec=self._spec,
            study=self._study,
            launches=launches,
            judgement=judgement,
            commands=dict(self._commands(wanted)),
            provenance=self._provenance,
            details=self._details,
            space=self._space,
            serving={} if self._is_rehearsal else dict(self._serving(wanted)),
            is_rehearsal=self._is_rehearsal,
            workloads=None if self._is_rehearsal else workloads_answer(self._spec, launches),
            escalation=escalation,
            schedule=schedule,
            adaptive=None
            if schedule is None or self._dialect is None
            else adaptive_steps(schedule, self._spec, self._dialect),
        )

    def _commands(self, configs: Iterable[SpecConfig]) -> Iterator[tuple[str, str]]:
        if self._dialect is not None:
            for config in sorted(configs, key=str):
                yield config.config_id, server_script(config, self._spec, self._dialect)

    def _serving(self, configs: Iterable[SpecConfig]) -> Iterator[tuple[str, ServingCommand]]:
        """None where the stored `serving:` is wrong for the release: a run refuses it, and a report is made all the same."""
        if self._dialect is None:
            return
        try:
            for config in sorted(configs, key=str):
                yield (
                    config.config_id,
                    serving_command(config, self._spec, self._dialect, here=self._study.kind == "measured"),
                )
        except SearchError:
            return


def rehearsed(judgement: Judgement) -> Judgement:
    """What may be said of invented numbers: that they are there. No winner, pick, verdict or advice."""
    return replace(
        judgement,
        winners=(),
        beyond=(),
        picks=(),
        verdicts=(),
        headlines=(),
        traffic=(),
        cautions=(),
        remarks=(),
        objective_winners=(),
        knobs=(),
    )


def server_script(config: SpecConfig, spec: StudySpec, dialect: Dialect) -> str:
    """The server command of a config as shell text without its shebang, secrets masked."""
    command = server_command(
        config, spec.deployment, dialect, ports=PortBlock(http=SERVED_AT, nccl=SERVED_AT + 1), tag=""
    )
    return command.script().split("\n", 1)[1]


def _dialect(spec: StudySpec) -> Dialect | None:
    """None for a recording that does not name its release: nothing can say how to launch it."""
    try:
        return for_release(spec.engine.release)
    except UnknownRelease:
        return None


def _provenance(spec: StudySpec, study: StudyRecord) -> tuple[tuple[str, ...], tuple[str, ...]]:
    if study.kind == "simulated":
        from search.physics.provenance import fit_lines, parameter_lines, summary

        physics = load_physics(spec.simulation.physics)
        return tuple(summary(physics)), (*parameter_lines(physics), *fit_lines(physics))
    return tuple(_conditions(study)), ()


def _conditions(study: StudyRecord) -> Iterator[str]:
    for name, value in study.fingerprint.items():
        if name.startswith("recording"):
            yield f"{name.replace('_', ' ')}: {value}"
