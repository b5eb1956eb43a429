"""What a decision rests on: how sure it is, and on how many starts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from search.analysis.findings import ConfigResult
from search.metrics import gain_percent
from search.report.content import ReportContent
from search.report.starts import starts_text, starts_words
from search.report.text import counted, gain_bounds, gpus_text, loads_words
from search.report.warnings import Choice


def basis(content: ReportContent, choices: Sequence[Choice]) -> Iterator[str]:
    """How sure it is, and on what; objectives that are no rate first, for the sentence speaks of rates."""
    spec, launches = content.spec, content.launches
    for winner in content.judgement.objective_winners:
        metric = winner.objective.metric
        base = f", where `{winner.baseline}` has {metric.words(winner.baseline_value.value)}"
        gain = "" if winner.config == winner.baseline else base
        if winner.gain is not None:
            gain = f", {gain_percent(winner.gain.value)}{gain_bounds(winner.gain)} better than `{winner.baseline}`"
        yield f"{winner.objective.title[:1].upper()}{winner.objective.title[1:]}: `{winner.config}`, {metric.words(winner.value.value)}{gain}."
    gpus = gpus_text(spec.hardware.gpus, spec.hardware.kind)
    where = {"measured": f"on {gpus}", "replay": "of a recording", "simulated": "by the cost model"}[content.study.kind]
    results = content.judgement.results
    how = "computed" if content.study.kind == "simulated" else "measured"
    text = f"{starts_text(launches)} {where}; {counted(len(results), 'config')} {how}"
    if content.space is not None:
        text += f" of {len(content.space.launchable)} that can be launched"
    if how == "computed":
        fitted = sum(not result.extrapolated_at(spec.objective_loads) for result in results)
        text += f", {fitted} of them within what the cost model was fitted to"
    yield f"{text}."
    by_config = {result.config: result for result in content.judgement.results}
    for choice in choices:
        if (result := by_config.get(choice.config)) is not None:
            yield f"`{choice.config}`: {_gains(result, choice)}{_starts(content, result, choice.loads)}."
    if choices:
        yield (
            "Intervals (95%) are for what many further starts would come out at in the mean; what is called a gain stands "
            "after all the comparisons that were made."
        )


def _gains(result: ConfigResult, choice: Choice) -> str:
    """Each gain it was chosen for, with its interval."""
    if not result.config.speculates:
        return ""
    parts = [
        f"{gain_percent(gain.value)}{gain_bounds(gain)} at {load}"
        for load in choice.loads
        if (gain := result.gains.get(load)) is not None
    ]
    return f"{', '.join(parts)}; " if parts else ""


def _starts(content: ReportContent, result: ConfigResult, loads: Sequence[int]) -> str:
    """How often it was started, and whether the loads it was chosen for were measured again after the choice."""
    text = starts_words([launch for launch in content.launches if launch.number in result.launches])
    if not result.config.speculates:
        return text
    if not result.confirmed:
        return f"{text}, not confirmed by starts made after the choice"
    if not result.confirmed_loads or set(loads) <= set(result.confirmed_loads):
        return f"{text}, confirmed on prompts kept back for it"
    confirmed = [load for load in loads if load in result.confirmed_loads]
    if not confirmed:
        return f"{text}, not confirmed at {loads_words(loads)}"
    return f"{text}, confirmed on prompts kept back for it at {loads_words(confirmed)} alone"
