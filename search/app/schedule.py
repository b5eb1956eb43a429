"""A schedule by load as SGLang's adaptive steps would run it, where the release can and it pays."""

from __future__ import annotations

from search.analysis.schedule import Schedule, steps_by_load
from search.config import SpecConfig
from search.dialects import Dialect
from search.errors import SearchError
from search.report.content import AdaptiveSteps
from search.spec.study import StudySpec


def adaptive_steps(schedule: Schedule, spec: StudySpec, dialect: Dialect) -> AdaptiveSteps:
    """The file and the flags that name it, or why there is none."""
    steps, why_not = steps_by_load(schedule)
    if steps and not schedule.pays:
        why_not = "a schedule is not shown to beat the best single config"
    if why_not:
        return AdaptiveSteps(why_not=why_not)
    start = next(one.config for one in schedule.stretches if one.config.speculates)
    try:
        name, text = dialect.schedule_file(steps)
        asked = SpecConfig.from_params({**start.params, "adaptive": "-".join(map(str, sorted(set(steps.values()))))})
        runs = dict(dialect.canonical(asked, spec.deployment).extra).get("adaptive", "off") != "off"
    except SearchError as error:
        return AdaptiveSteps(why_not=str(error).rstrip("."))
    if not runs:
        return AdaptiveSteps(why_not=f"SGLang {spec.engine.release} would switch adaptive steps off on this deployment")
    flags = ("--speculative-adaptive", "--speculative-adaptive-config", name)
    return AdaptiveSteps(name, text, steps, start, flags)
