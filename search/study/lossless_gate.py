"""The losslessness gate of a study's launches: whose answers each is compared with, and what that says."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TypeAlias

import numpy as np

from search.config import SpecConfig
from search.contracts import LaunchPaths, PhaseResult
from search.errors import LoadFailed
from search.outcomes import Evidence, Outcome, Reason
from search.stats.losslessness import Answers, OutputCheck, answers_of, check_outputs, read_answers, worst
from search.storage.records import LaunchRecord

_SEED = 20240502
"""Of the permutation tests: equal answers give equal verdicts."""

Texts: TypeAlias = Mapping[int, Sequence[Answers]]
"""Answers by concurrency, one per repeat."""


class LosslessGate:
    """Compares answers with those of the study's baseline, in memory or from its launch folder.

    The baseline with the config's own other knobs is preferred: another all-reduce rounds
    otherwise, and that is no fault of speculation. Without it, the first baseline measured.
    For several threads.

    Args:
        reports: The study's report folder, in which launch folders lie.
        concurrencies: Of the objectives, whose answers are compared.
    """

    def __init__(self, reports: Path, concurrencies: Sequence[int]) -> None:
        self._reports = reports
        self._concurrencies = tuple(concurrencies)
        self._baselines: dict[SpecConfig, Texts] = {}
        self._lock = threading.Lock()

    def remember(self, launches: Sequence[LaunchRecord]) -> None:
        """Take the answers of earlier baselines from their folders; for a run that resumes."""
        for launch in launches:
            if launch.outcome is Outcome.MEASURED and launch.stage != "try" and not launch.config.speculates:
                paths = LaunchPaths(self._reports / launch.folder)
                self._keep(launch.config, {load: read_answers(paths.outputs(load)) for load in self._concurrencies})

    def judge(self, config: SpecConfig, phases: Sequence[PhaseResult]) -> tuple[OutputCheck, ...]:
        """One check per objective concurrency; none for a baseline, whose answers are kept instead.

        None either where no server reported any tokens: in a recorded table or a simulation.
        """
        answers = {
            load: [answers_of(phase) for phase in phases if phase.concurrency == load] for load in self._concurrencies
        }
        if not config.speculates:
            self._keep(config, answers)
            return ()
        if not any(phase.outputs for phase in phases):
            return ()
        baseline = self._baseline_of(config)
        return tuple(
            check_outputs(
                load,
                answers[load],
                baseline.get(load, ()),
                [one for other in self._concurrencies if other != load for one in baseline.get(other, ())],
                rng=np.random.default_rng((_SEED, load)),
            )
            for load in self._concurrencies
            if any(phase.concurrency == load for phase in phases)
        )

    def _keep(self, config: SpecConfig, answers: Texts) -> None:
        if any(any(repeats) for repeats in answers.values()):
            with self._lock:
                self._baselines.setdefault(config, answers)

    def _baseline_of(self, config: SpecConfig) -> Texts:
        with self._lock:
            known = dict(self._baselines)
        alike = (
            answers
            for baseline, answers in known.items()
            if (baseline.allreduce_fusion, baseline.extra) == (config.allreduce_fusion, config.extra)
        )
        return next(alike, next(iter(known.values()), {}))


def refuse_garbage(checks: Sequence[OutputCheck]) -> None:
    """Bar a config whose answers are no answers.

    Raises:
        LoadFailed: BAD_OUTPUT.
    """
    decisive = worst(checks)
    if decisive is not None and decisive.verdict == "garbage":
        raise LoadFailed(Reason.BAD_OUTPUT, Evidence(decisive.why, f"c={decisive.concurrency}"))
