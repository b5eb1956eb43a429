"""The answer to `whatif` as text: its three lines, then the evidence: legal, cost, expectation, test, decision."""

from __future__ import annotations

import shutil
import sys
import textwrap
from collections.abc import Iterator, Sequence

from search.cli.console import console_for
from search.cli.guard import say
from search.dialects import known_releases
from search.report.text import duration
from search.whatif.answer import AtLoad, Expectation, Legality, Unlocking, Variant, WhatIf
from search.whatif.brief import answer_lines, release_ranges
from search.whatif.verdict import share, tps

_NARROWEST, _WIDEST = 60, 120
_COST_MODEL = (
    "cost model: what `--simulate` and its report show, with the 90% band of the fit alone. expected: a search's own belief "
    "by the same numbers, which does not take the fit's form for granted, and how one launch scatters; so its bands are wider."
)
_SEPARATIONS = 2
"""Shown on the page; all are in `--json`."""


def print_answer(answer: WhatIf, *, brief: bool = False) -> None:
    """Print for the terminal at hand; headings stand out where it can show that.

    Args:
        answer: What to print.
        brief: Its three lines alone.
    """
    lines = render(answer, width=shutil.get_terminal_size((100, 24)).columns, brief=brief)
    if not sys.stdout.isatty():
        for line in lines:
            say(line)
        return
    console = console_for(sys.stdout)
    for line in lines:
        style = "bold" if line and not line.startswith(" ") else ""
        console.print(line, style=style, soft_wrap=True)


def render(answer: WhatIf, *, width: int, brief: bool = False) -> list[str]:
    """The page, no line longer than `width` but for words that cannot be broken; the answer first.

    Args:
        answer: What to write down.
        width: Of the terminal.
        brief: The three lines of the answer alone.
    """
    page = _Page(answer, min(max(width - 1, _NARROWEST), _WIDEST))
    return list(page.answer()) if brief else [*page.answer(), "", *page.lines()]


class _Page:
    def __init__(self, answer: WhatIf, width: int) -> None:
        self._answer, self._width = answer, width
        self._gpus = answer.variants[0].cost.gpus

    def answer(self) -> Iterator[str]:
        """Legal where; what to expect; worth a launch or a patch, and why."""
        for head, text in zip(("Legal:  ", "Expect: ", "Do:     "), answer_lines(self._answer), strict=True):
            yield from textwrap.wrap(
                text, self._width, initial_indent=head, subsequent_indent=" " * len(head), break_long_words=False,
                break_on_hyphens=False,
            )  # fmt: skip

    def lines(self) -> Iterator[str]:
        answer = self._answer
        yield f"What if {answer.asked}?  Study {answer.study}, SGLang {answer.release}"
        yield ""
        yield "Legal?"
        last_shared: list[str] = []
        for variant in answer.variants:
            yield f"  {variant.config_id}: {_state(variant.legality, answer.release)}"
            yield from self._legal(variant.legality)
            # What both workers share is shown once, with the first.
            shared = self._shape(variant.legality)
            if shared != last_shared:
                yield from shared
            last_shared = shared
            if variant.legality.legal and variant.legality.command:
                yield "    command:"
                yield from self._command(variant.legality.command)
        if answer.taken:
            yield from self._text(f"Not said: {' '.join(answer.taken)}", 2)
        yield ""
        yield "Cost of a launch"
        for variant in answer.variants:
            yield from self._cost(variant)
        for line in dict.fromkeys(variant.cost.memory for variant in answer.variants):
            yield from self._text(f"memory: {line}", 2)
        yield ""
        yield "Expectation, output tokens per second with 90% bands"
        for variant in answer.variants:
            yield from self._expectation(variant)
        if answer.calibrated:
            yield from self._text(_COST_MODEL, 2)
        yield from self._rests_on()
        yield ""
        yield "Test"
        yield from self._test()
        yield ""
        yield "Decision"
        for variant in answer.variants:
            yield from self._text(variant.verdict, 2, mark="- ")
        yield from self._text(answer.decision, 2, mark="=> ")

    def _text(self, text: str, indent: int, *, mark: str = "") -> list[str]:
        first = " " * indent + mark
        return textwrap.wrap(
            text,
            self._width,
            initial_indent=first,
            subsequent_indent=" " * len(first),
            break_long_words=False,
            break_on_hyphens=False,
        )

    def _legal(self, legality: Legality) -> Iterator[str]:
        if legality.rewritten_from:
            yield from self._text(f"SGLang makes it of {legality.rewritten_from}; both are one launch.", 4)
        for refusal in legality.refusals:
            yield from self._text(refusal.words, 4)
            yield from self._text(f"rule {refusal.rule_id}, {refusal.source}", 4)
            yield from self._text(f"unlocked by {refusal.unlock}" if refusal.unlock else "nothing lifts it", 4)
        if any("patch" in refusal.unlock for refusal in legality.refusals):
            rules = ", ".join(refusal.rule_id for refusal in legality.refusals)
            yield from self._text(f"a patch is named so: `engine.patches: [{{name: ..., lifts: [{rules}]}}]`", 4)
        if legality.releases and len(legality.releases) < len(known_releases()):
            yield from self._text(f"releases that run it for this study: {release_ranges(legality.releases)}", 4)
        for line in legality.outside:
            yield from self._text(f"outside the study's choices: {line}", 4)

    def _shape(self, legality: Legality) -> list[str]:
        lines = []
        if legality.tree:
            lines += self._text(f"tree: {legality.tree}", 4)
        if legality.shares:
            beside = ", ".join(
                f"{_times(item.ratio)} the {item.tokens} of {item.config_id}" for item in legality.shares
            )
            passes = "verify pass and all-reduce" if self._gpus > 1 else "verify pass"
            lines += self._text(f"{legality.verify_tokens} draft tokens per request in each {passes}: {beside}", 4)
        if legality.through:
            lines += self._text(f"needs the study's patches {', '.join(legality.through)}", 4)
        return lines

    def _command(self, words: Sequence[str]) -> Iterator[str]:
        """Filled lines that a shell takes as one; a flag stays with its value."""
        groups: list[str] = []
        for word in words:
            if groups and groups[-1].startswith("--") and " " not in groups[-1] and not word.startswith("--"):
                groups[-1] += f" {word}"
            else:
                groups.append(word)
        line = " " * 6 + groups[0]
        for group in groups[1:]:
            if len(line) + len(group) + 3 > self._width:
                yield line + " \\"
                line = " " * 8 + group
            else:
                line += f" {group}"
        yield line

    def _cost(self, variant: Variant) -> Iterator[str]:
        cost = variant.cost
        gpus = "1 GPU" if cost.gpus == 1 else f"{cost.gpus} GPUs"
        yield from self._text(
            f"{variant.config_id}: {duration(cost.boot_s + cost.phases_s)} of {gpus} ({duration(cost.gpu_hours * 3600)} of GPU time): start "
            f"and stop {duration(cost.boot_s)} ({cost.source}), phases {duration(cost.phases_s)} at the expected rates",
            2,
        )

    def _expectation(self, variant: Variant) -> Iterator[str]:
        expectation = variant.expectation
        yield from _table(
            variant.config_id,
            expectation,
            modelled=self._answer.basis == "prior",
            calibrated=self._answer.calibrated,
        )
        loads = ", ".join(f"C={load}" for load in self._answer.objectives)
        if self._answer.basis != "prior":
            yield from self._text(
                f"front ({loads}): enters with {share(expectation.enters_front)}, expected growth "
                f"{share(expectation.gain)} (noise alone shows {share(self._answer.noise_gain)}); "
                f"starts with {share(expectation.starts)}",
                4,
            )
        if expectation.nearest and self._answer.basis != "prior":
            yield from self._text(f"nearest measured: {', '.join(expectation.nearest)}", 4)
        if any(load.measured for load in expectation.loads):
            yield "    * measured; the band is that of another launch"
        for gap in expectation.gaps:
            yield from self._text(f"not measured: {gap}", 4)
        if variant.unlocking:
            for line in _unlocking(variant.config_id, variant.unlocking):
                yield from self._text(line, 4)

    def _rests_on(self) -> Iterator[str]:
        yield "  Based on"
        for line in self._answer.rests_on:
            yield from self._text(line, 4, mark="- ")
        if not self._answer.separations:
            return
        yield "  Not distinguishable by these numbers"
        for item in self._answer.separations[:_SEPARATIONS]:
            yield from self._text(
                f"{item.words} (expected growth of the front by it: {share(item.gain)})", 4, mark="- "
            )

    def _test(self) -> Iterator[str]:
        test = self._answer.test
        for line in test.commands:
            yield f"  {line}"
        if not test.commands:
            measured = any(variant.worth == "measured" for variant in self._answer.variants)
            yield "  none: it is measured" if measured else "  none: nothing of this can be launched as it stands"
        for question in test.questions:
            yield from self._text(f"The study asks it, so a search launches it in any case: {question}", 2)
        if test.suggested:
            yield from self._text(f"As a question of the study: `questions: {{my-question: {test.suggested}}}`", 2)
        if self._answer.separations:
            item = self._answer.separations[0]
            yield from self._text(f"Separates most of what is confounded: {item.launch}", 2)
        if test.next_launch:
            gain = "" if self._answer.basis == "prior" else f" (expected growth of the front {share(test.next_gain)})"
            yield from self._text(f"Promises most per GPU hour by the same belief: {test.next_launch}{gain}", 2)


def _table(config_id: str, expectation: Expectation, *, modelled: bool, calibrated: bool) -> Iterator[str]:
    best = "modelled baseline" if modelled else "best measured"
    rows: list[tuple[str, ...]] = [("", "expected", "90% band", best, "beats it", "cost model")]
    rows += map(_row, expectation.loads)
    if not calibrated:  # what was fitted to nothing here says nothing here
        rows = [row[:-1] for row in rows]
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    yield f"  {config_id}"
    for row in rows:
        cells = [
            row[0].ljust(widths[0]),
            row[1].rjust(widths[1]),
            row[2].ljust(widths[2]),
            row[3].ljust(widths[3]),
            row[4].rjust(widths[4]),
            *(cell.rjust(width) for cell, width in zip(row[5:], widths[5:], strict=True)),
        ]
        yield ("    " + "  ".join(cells)).rstrip()


def _row(load: AtLoad) -> tuple[str, ...]:
    best = "-" if load.best_tps is None else f"{tps(load.best_tps)} {load.best}"
    return (
        f"C={load.concurrency}",
        tps(load.expected) + ("*" if load.measured else ""),
        f"{tps(load.low)} to {tps(load.high)}",
        best,
        "-" if load.beats is None else share(load.beats),
        tps(load.model_tps)
        + ("" if load.model_band is None else f" ({tps(load.model_band[0])}-{tps(load.model_band[1])})"),
    )


def _state(legality: Legality, release: str) -> str:
    if legality.legal:
        return f"legal on {release}"
    return f"locked, {release} refuses it" if legality.locked else f"impossible, {release} refuses it"


def _unlocking(config_id: str, unlocking: Unlocking) -> Iterator[str]:
    for item in unlocking.thresholds:
        goal = f"the {tps(item.best_tps)} of {item.best} at C={item.concurrency}"
        if item.twin_tps is None:
            yield f"unlocking: no believable rate of {unlocking.twin} gives {config_id} even odds against {goal}"
        else:
            yield (
                f"unlocking: from {tps(item.twin_tps)} tok/s of {unlocking.twin} on (chance {share(item.chance)}), "
                f"{config_id} has even odds against {goal}"
            )


def _times(ratio: float) -> str:
    return f"{ratio:.0%} of" if ratio < 1.0 else f"{ratio:.2g} times"
