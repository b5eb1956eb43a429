"""Sections of how drafts fare: accept length, cycle time and break-even; what was predicted; how long requests waited."""

from __future__ import annotations

from collections.abc import Iterator

from search.analysis.findings import PredictedValue
from search.metrics import gain_percent
from search.report.blocks import (
    Block,
    Cell,
    Column,
    Figure,
    Fold,
    Lines,
    Row,
    Tag,
    Text,
    config_cell,
    estimate_cell,
    number_cell,
    table,
)
from search.report.calibration import predictions_figure
from search.report.content import ReportContent
from search.report.drafting import Drafting, drafting
from search.report.text import counted, metric_bounds
from search.stats.estimates import Estimate

_CONFIGS = 60
"""Configs in the table of drafts, the best scores first: each has a row for every load."""


def drafts(content: ReportContent) -> Iterator[Block]:
    """Accept length, cycle and break-even accept length of every config at every load."""
    best = {result.config for result in content.judgement.results[:_CONFIGS]}
    best |= {result.config for result in content.judgement.front}
    drafts_of = [one for one in drafting(content) if one.config in best]
    if not drafts_of:
        return
    more = len(content.judgement.results) > _CONFIGS
    yield Text(
        "Accept length: output tokens per verify pass, of at most steps + 1. Cycle: from one verify pass to the next. "
        "Break-even: the accept length a draft must reach for this shape to be as fast as the best baseline at this load, "
        "were its cycle to take as long; a draft that reaches more pays."
        + (f" Of the front and the {_CONFIGS} best scores." if more else ""),
        aside=True,
    )
    columns = (
        Column("config"),
        Column("load", numeric=True, low_is_good=True),
        Column("accept length", numeric=True),
        Column("break-even", numeric=True, low_is_good=True),
        Column("of at most", numeric=True),
        Column("cycle, ms", numeric=True, low_is_good=True),
        Column("pays"),
    )
    yield table(columns, [_draft_row(one) for one in drafts_of], name="drafts", sorts=True)


def _draft_row(one: Drafting) -> Row:
    even = one.break_even
    tag = (Tag("beyond any draft", warns=True),) if one.out_of_reach else ()
    word = {"pays": "yes", "slower": "no", "expected": _expected(one), "open": "not shown", "": ""}[one.standing]
    return Row(
        (
            config_cell(one.config),
            Cell(f"C={one.concurrency}"),
            _length(one.accept),
            _length(even),
            number_cell(one.most, text=str(one.most)),
            number_cell(one.cycle_ms),
            Cell(word, tags=tag),
        ),
        marked=word == "yes",
    )


def _expected(one: Drafting) -> str:
    """What a cost model expects of a config that nobody measured."""
    if one.break_even is None:
        return ""
    return "yes, expected" if one.accept.value > one.break_even.value else "no, expected"


def _length(estimate: Estimate | None) -> Cell:
    if estimate is None:
        return Cell()
    ci = "" if estimate.lo is None or estimate.hi is None else f"[{estimate.lo:.2f}, {estimate.hi:.2f}]"
    return Cell(f"{estimate.value:.2f}", ci)


def predicted(content: ReportContent) -> Iterator[Block]:
    """What the search expected of its launches beside what they measured."""
    predictions = content.judgement.predictions
    if predictions.numbers:
        yield Figure(
            "predicted",
            "Each mark is one launch at one load: how far it measured from what the search expected of it before. "
            "Bars: where nine of ten should lie. A cross: the model was wrong here.",
            predictions_figure(content),
            low=True,
        )
    if predictions.sentences:
        yield Lines(predictions.sentences)
    if predictions.numbers:
        columns = (
            Column("launch", numeric=True, low_is_good=True),
            Column("config"),
            Column("load", numeric=True, low_is_good=True),
            Column("expected", numeric=True),
            Column("measured", numeric=True),
            Column("off by", numeric=True),
            Column(""),
        )
        rows = [_predicted_row(one) for one in predictions.numbers]
        yield Fold(counted(len(rows), "number"), (table(columns, rows, name="numbers", sorts=True),))


def _predicted_row(guess: PredictedValue) -> Row:
    (low, middle, high), metric = guess.expected, guess.metric
    off = "-" if guess.ratio is None else gain_percent(guess.ratio)
    return Row(
        (
            number_cell(guess.launch, text=str(guess.launch)),
            config_cell(guess.config),
            Cell(f"C={guess.concurrency}"),
            number_cell(
                middle, text=metric.words(middle), ci=metric_bounds(metric, Estimate(middle, low, high), band=True)
            ),
            number_cell(
                guess.measured.value, text=metric.words(guess.measured.value), ci=metric_bounds(metric, guess.measured)
            ),
            Cell("", "", off, "", "" if guess.ratio is None else "up" if guess.ratio > 1 else "down"),
            Cell() if guess.held else Cell(tags=(Tag("the model was wrong here", warns=True),)),
        )
    )


TIMES = {
    "ttft_ms": "first token, ms",
    "ttft_p50_ms": "first token median, ms",
    "ttft_p99_ms": "first token p99, ms",
    "itl_ms": "between records, ms",
    "itl_p99_ms": "between records p99, ms",
    "e2e_ms": "end to end, ms",
    "e2e_p99_ms": "end to end p99, ms",
    "goodput": "share within limits",
    "goodput_rps": "good requests/s",
}
"""Columns of the table of times, by the names of `PhaseResult`."""


def times(content: ReportContent) -> Iterator[Block]:
    """Times that requests waited, with their range over repeats."""
    # Of what may be chosen: the others' are in the database, and a page of them is read by nobody.
    chosen = {
        *(result.config for result in content.judgement.front),
        *(result.config for result in content.judgement.baselines),
        *(pick.result.config for pick in content.judgement.picks),
    }
    results = [result for result in content.judgement.results if result.config in chosen]
    names = [name for name in TIMES if any(name in at.tails for result in results for at in result.loads.values())]
    if not names:
        return
    yield Text(
        "Of the front, picks and baselines: means over repeats; in brackets the lowest and the highest repeat. One repeat "
        "has none.",
        aside=True,
    )
    columns = (
        Column("config"),
        Column("load", numeric=True, low_is_good=True),
        *(Column(TIMES[name], numeric=True, low_is_good=not name.startswith("goodput")) for name in names),
    )
    rows = [
        (
            config_cell(result.config),
            Cell(f"C={load}"),
            *(estimate_cell(at.tails.get(name)) for name in names),
        )
        for result in results
        for load, at in sorted(result.loads.items())
        if at.tails
    ]
    yield Fold("Time to first token, between tokens, end to end", (table(columns, rows, name="times", sorts=True),))
