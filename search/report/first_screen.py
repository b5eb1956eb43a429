"""The first screen: the decision, its chart, the command to copy, how sure it is, and what may change it."""

from __future__ import annotations

from dataclasses import dataclass

from search.report import figures
from search.report.blocks import Figure
from search.report.content import ReportContent, ServingCommand
from search.report.decision import Decision, decide
from search.report.starts import starts_text
from search.report.text import gpus_text, loads_words


@dataclass(frozen=True, slots=True)
class ToRun:
    """A command to copy, and what it is for.

    Attributes:
        folded: It is shown when asked for.
        aside: What is to be known of it.
    """

    title: str
    command: ServingCommand
    folded: bool = False
    aside: str = ""


@dataclass(frozen=True, slots=True)
class FirstScreen:
    """What is read in ten seconds.

    Attributes:
        setting: What the study is about.
        figure: Gain by load; None before anything is compared.
        commands: For each choice of the decision, in its order; then for what is ahead.
    """

    decision: Decision
    setting: str
    figure: Figure | None
    commands: tuple[ToRun, ...]


def first_screen(content: ReportContent) -> FirstScreen:
    """The first screen of a report."""
    decision = decide(content)
    commands = []
    for choice in decision.choices:
        command = content.serving.get(choice.config.config_id)
        if command is not None:
            loads = "" if len(decision.choices) == 1 else f" at {loads_words(choice.loads)}"
            commands.append(ToRun(f"{choice.config}{loads}", command))
    if decision.ahead is not None and (command := content.serving.get(decision.ahead.config_id)) is not None:
        commands.append(ToRun(str(decision.ahead), command, True, "ahead, but no gain is shown"))
    return FirstScreen(decision, _setting(content), _figure(content), tuple(commands))


def _figure(content: ReportContent) -> Figure | None:
    gains = [result for result in content.judgement.results if result.config.speculates and result.gains]
    if not gains:
        return None
    hollow = any(result.extrapolated for result in gains)
    return Figure(
        "by-load",
        "Output tokens per second against the best baseline at each concurrency, which is the line at 0. Bands: 95% intervals "
        f"of what many further starts would come out at{', of hollow marks, which are extrapolated, 90% bands of the cost model' if hollow else ''}.",
        figures.by_load(content),
        low=True,
    )


def _setting(content: ReportContent) -> str:
    model, engine, hardware = content.spec.model, content.spec.engine, content.spec.hardware
    parts = (
        f"{model.target} with {model.draft} ({model.algorithm})"
        if model.draft
        else f"{model.target} ({model.algorithm})",
        gpus_text(hardware.gpus, hardware.kind),
        f"SGLang {engine.release}" if engine.release else "",
        starts_text(content.launches),
    )
    return " · ".join(part for part in parts if part)
