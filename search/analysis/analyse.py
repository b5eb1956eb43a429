"""What a study's launches say; a pure function of the study file and the launches."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from search.analysis.calibration import predictions
from search.analysis.drift import drift_sentences, host_drifts, order_effects, slot_sentences, steady_sentences
from search.analysis.findings import FailedLaunch, Judgement
from search.analysis.gains import by_score, with_gains
from search.analysis.headlines import headlines
from search.analysis.knobs import contenders, knob_table
from search.analysis.later import Later
from search.analysis.memo import Memo
from search.analysis.precision import assumed_sentences, scatter_sentences
from search.analysis.questions import verdicts
from search.analysis.remarks import order_notes, remarks
from search.analysis.results import barred_configs, config_results, ordered, pareto_front
from search.analysis.traffic import traffic_sentences
from search.analysis.winners import arenas_of, beyond_winners, load_winners, objective_winners, picks
from search.outcomes import Outcome
from search.spec.study import StudySpec
from search.storage.records import LaunchRecord


def judge(spec: StudySpec, launches: Sequence[LaunchRecord], memo: Memo | None = None) -> Judgement:
    """Judge finished launches; unfinished ones are left out. Equal launches give equal judgements, with a memo or without."""
    memo = Memo() if memo is None else memo
    order = order_effects(launches)
    pooled = config_results(spec, launches, memo)
    arenas = arenas_of(spec, launches, pooled, memo)
    results = by_score(
        replace(result_with_gains, notes=ordered((*result_with_gains.notes, *order_notes(result_with_gains, order))))
        for result_with_gains in (with_gains(spec, result, arenas) for result in pooled)
    )
    drifts = host_drifts(launches, arenas)
    winners = load_winners(arenas, results)
    beyond = beyond_winners(arenas, winners)
    at_objectives = objective_winners(spec.axes, arenas, results)
    answers = tuple(verdicts(spec, arenas, launches, [result.config for result in results if result.lossy]))
    cautions = (
        *assumed_sentences(spec, arenas),
        *drift_sentences(drifts),
        *slot_sentences(launches, arenas),
    )
    of_traffic = tuple(traffic_sentences(spec, arenas))
    return Judgement(
        baselines=tuple(result for result in results if not result.config.speculates),
        results=tuple(results),
        front=tuple(pareto_front(spec.axes, results)),
        winners=tuple(winners),
        beyond=tuple(beyond),
        picks=tuple(picks(spec, results, winners, at_objectives)),
        failures=tuple(_failures(launches)),
        verdicts=answers,
        headlines=(*headlines(results, winners, beyond, at_objectives), *of_traffic, *cautions),
        traffic=of_traffic,
        cautions=cautions,
        remarks=(
            *remarks(results, launches, order),
            *scatter_sentences(arenas),
            *steady_sentences(drifts),
        ),
        barred=tuple(barred_configs(launches)),
        predictions=predictions(spec, launches),
        objective_winners=tuple(at_objectives),
        knobs=Later(lambda: knob_table(spec, arenas)),
        contenders=Later(lambda: contenders(spec, arenas, answers)),
    )


def _failures(launches: Sequence[LaunchRecord]) -> Iterator[FailedLaunch]:
    for launch in launches:
        if launch.reason is None or launch.outcome in (None, Outcome.MEASURED, Outcome.GATED):
            continue
        yield FailedLaunch(
            launch=launch.number,
            config=launch.asked,
            outcome=launch.outcome.value,
            reason=launch.reason.value,
            blame=launch.reason.blame.value,
            root_line=launch.evidence.root_line if launch.evidence else "",
            log_path=launch.evidence.log_path if launch.evidence else "",
        )
