"""All that a report is made of; every file of it is a pure function of this."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import cached_property

from search.analysis.escalation import EscalationAnswer
from search.analysis.findings import ConfigResult, Gain, Judgement, LoadWinner
from search.analysis.schedule import Schedule
from search.analysis.workloads import WorkloadsAnswer
from search.config import CORE_KNOBS, KnobValue, SpecConfig
from search.dialects import simulating
from search.metrics import Objectives, gain_percent
from search.report.text import KIND_LABELS, KIND_SENTENCES, REHEARSAL, REHEARSAL_SENTENCE, gain_bounds
from search.space import SpaceSummary
from search.spec.study import StudySpec
from search.stats.estimates import Estimate
from search.storage.records import LaunchRecord, StudyRecord


@dataclass(frozen=True, slots=True)
class ServingCommand:
    """A command to serve a config with, as shell text; secrets masked, without a shebang.

    Attributes:
        text: The command.
        changes: Each setting in which it differs from what was measured, a line each.
    """

    text: str
    changes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class AdaptiveSteps:
    """SGLang's adaptive steps for a schedule by load.

    Attributes:
        name: Of the file; empty where there is none.
        text: Its content.
        steps: Draft steps at each measured load; 0 for no drafting.
        start: The config whose command gets the flags.
        flags: That name the file.
        why_not: Why there is none.
    """

    name: str = ""
    text: str = ""
    steps: Mapping[int, int] = field(default_factory=dict)
    start: SpecConfig | None = None
    flags: tuple[str, ...] = ()
    why_not: str = ""


@dataclass(frozen=True)
class ReportContent:
    """One study, ready to be written down.

    Nothing in it depends on the time of writing, so a report rebuilt from the database equals
    the one written live.

    Attributes:
        commands: Config id -> the server command as shell text, quoted, secrets masked, without a
            shebang; none for a replayed table.
        provenance: What the numbers rest on (fitted, prior, extrapolated, recorded), one line each.
        details: The same in full, such as each parameter of the cost model with its reason.
        space: What is in the space and what is not; None for a recording, whose space is its rows.
        serving: Config id -> the command to serve it with, see `ServingCommand`.
        is_rehearsal: A simulation by a cost model that was fitted to no numbers of this deployment: they are invented,
            and nothing may be concluded from them.
        workloads: What further workloads say; None for a study of one.
        escalation: How things stand with the second phase; None for a study without one.
        schedule: What to run at which load; None for a rehearsal.
        adaptive: The same as SGLang would run it by itself; None where no release is known.
    """

    spec: StudySpec
    study: StudyRecord
    launches: tuple[LaunchRecord, ...]
    judgement: Judgement
    commands: Mapping[str, str] = field(default_factory=dict)
    provenance: tuple[str, ...] = ()
    details: tuple[str, ...] = ()
    space: SpaceSummary | None = None
    serving: Mapping[str, ServingCommand] = field(default_factory=dict)
    is_rehearsal: bool = False
    workloads: WorkloadsAnswer | None = None
    escalation: EscalationAnswer | None = None
    schedule: Schedule | None = None
    adaptive: AdaptiveSteps | None = None

    @property
    def title(self) -> str:
        """The study file's own title, or the study's name."""
        return self.spec.title or self.study.name

    @property
    def label(self) -> str:
        """`REHEARSAL`, `SIMULATED`, `REPLAY`, `SYNTHETIC` where servers simulate acceptance, or empty for a measured study."""
        if self.is_rehearsal:
            return REHEARSAL
        return KIND_LABELS[self.study.kind] or ("SYNTHETIC" if simulating(self.spec.engine.env) else "")

    @property
    def label_sentence(self) -> str:
        """What the label means."""
        if self.is_rehearsal:
            return REHEARSAL_SENTENCE
        synthetic = "The servers simulated acceptance (`engine.env`): no number here says anything of the draft."
        return synthetic if self.label == "SYNTHETIC" else KIND_SENTENCES[self.study.kind]

    @property
    def axes(self) -> Objectives:
        """The two objectives."""
        return self.spec.axes

    @property
    def objective_loads(self) -> tuple[int, ...]:
        """Concurrencies of the objectives, in their order."""
        return self.spec.objective_loads

    @property
    def loads(self) -> tuple[int, ...]:
        """Every concurrency that is to be measured or was, ascending."""
        seen = {load for result in self.judgement.results for load in result.loads}
        return tuple(sorted(seen | set(self.spec.loads)))

    @property
    def columns(self) -> tuple[int, ...]:
        """The concurrencies worth a column in a table of configs: the study's, and others that half of them have.

        A ladder measures a few configs at many loads; those stand in the winners' table and the figure.
        """
        results = self.judgement.results
        often = {load for load in self.loads if 2 * sum(load in r.loads for r in results) >= max(1, len(results))}
        return tuple(load for load in self.loads if load in often or load in self.spec.loads)

    @property
    def knobs(self) -> tuple[str, ...]:
        """Columns for knobs: the core ones, then those the study opens or any config carries."""
        carried = {name for launch in self.launches for name, _ in launch.config.extra}
        return (*CORE_KNOBS, *sorted(carried | set(self.spec.space.knobs)))

    @property
    def last_change(self) -> datetime:
        """When the last launch ended (the study's creation without one)."""
        ends = [launch.started_at + timedelta(seconds=launch.duration_s or 0) for launch in self.launches]
        return max(ends, default=self.study.created_at)

    def winner(self, concurrency: int) -> LoadWinner | None:
        """The answer at one load, None when nothing was measured there."""
        return next((winner for winner in self.judgement.winners if winner.concurrency == concurrency), None)

    def gain(self, result: ConfigResult, concurrency: int) -> Gain | None:
        """Over the best baseline of a load; None when either was not measured."""
        return result.gains.get(concurrency)

    def is_band(self, result: ConfigResult) -> bool:
        """Whether a config's score rests on what a simulator expects, with its band."""
        return any(result.loads[load].band for load in self.objective_loads if load in result.loads)

    def is_compared(self, config: SpecConfig, concurrency: int) -> bool:
        """Whether a gain says something: the best baseline's over itself does not."""
        winner = self.winner(concurrency)
        return winner is not None and winner.baseline != config

    def against(self, result: ConfigResult, concurrency: int) -> str:
        """The gain in words, such as `+10.1% against off`, or `best baseline`; empty when not known."""
        winner, gain = self.winner(concurrency), self.gain(result, concurrency)
        if winner is None or gain is None:
            return ""
        if result.config == winner.baseline:
            return "best baseline"
        return f"{gain_percent(gain.value)}{gain_bounds(gain)} against {winner.baseline.config_id}"

    def score(self, config: SpecConfig) -> float | None:
        """The score of a config, None when it was not measured at both objectives."""
        return self._scores.get(config)

    def score_ci(self, config: SpecConfig) -> Estimate | None:
        """The score with its interval, see `score`."""
        return self._score_cis.get(config)

    @cached_property
    def _score_cis(self) -> dict[SpecConfig, Estimate | None]:
        return {result.config: result.score_ci for result in self.judgement.results}

    @cached_property
    def _scores(self) -> dict[SpecConfig, float]:
        """Every row of `trials.csv` asks: a search through all results would cost their square."""
        return {result.config: result.score for result in self.judgement.results}


def knob_values(config: SpecConfig, names: tuple[str, ...]) -> dict[str, KnobValue | None]:
    """The values of `names`, None where a config does not have the knob."""
    return {name: config.params.get(name) for name in names}
