"""Sections of what was found: the answer at each load, picks, the front, every config, knobs, questions."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from search.analysis.findings import ConfigResult, Gain, LoadWinner
from search.config import SpecConfig
from search.metrics import Direction, Objective, own_axes
from search.outcomes import Note
from search.report import figures
from search.report.blocks import (
    Block,
    Cell,
    Column,
    Command,
    Figure,
    Fold,
    Heading,
    Lines,
    Row,
    Tag,
    Text,
    config_cell,
    estimate_cell,
    gain_cell,
    number_cell,
    table,
)
from search.report.content import ReportContent
from search.report.knobs import KNOB_KEY
from search.report.scripts import script_names
from search.report.text import (
    GAIN_KEY,
    axis_words,
    counted,
    lossless_words,
    metric_bounds,
    metric_number,
    role_words,
    score_bounds,
    score_words,
)

_TIES_SHOWN = 3
_EXTRAPOLATED = Tag("extrapolated", warns=True)


def picks(content: ReportContent) -> Iterator[Block]:
    """Configs worth a launch, with both forms of their command."""
    judgement = content.judgement
    if not judgement.picks:
        return
    scripts = script_names(content)
    loads = content.columns
    rows = [
        (
            config_cell(pick.result.config, *_tags(pick.result, extrapolated=pick.extrapolated), strong=True),
            Cell(", ".join(map(role_words, pick.roles))),
            *(_rate_cell(content, pick.result, load) for load in loads),
            number_cell(len(pick.result.launches), text=str(len(pick.result.launches))),
            Cell("yes" if pick.result.confirmed else "no"),
        )
        for pick in judgement.picks
    ]
    columns = (
        Column("config"),
        Column("chosen for", wide=True),
        *(Column(f"C={load} tok/s", numeric=True) for load in loads),
        Column("starts", numeric=True),
        Column("confirmed"),
    )
    yield table(columns, rows)
    for pick in judgement.picks:
        config_id = pick.result.config.config_id
        if config_id not in scripts:
            continue
        forms = (
            [Command(content.serving[config_id].text, scripts[config_id].serving)]
            if config_id in content.serving
            else []
        )
        yield Fold(
            f"Commands of {config_id}",
            (*forms, Command(content.commands[config_id], f"{scripts[config_id].measuring} (as it was measured)")),
        )


def winners(content: ReportContent) -> Iterator[Block]:
    """The answer at each load."""
    judgement = content.judgement
    if not judgement.winners:
        return
    rows: list[Row] = []
    for winner in judgement.winners:
        rows.append(Row(_winner_cells(winner), marked=winner.claimed))
        rows += [
            Row(_beyond_cells(beyond))
            for beyond in judgement.beyond
            if beyond.concurrency == winner.concurrency and beyond.config != winner.config
        ]
    columns = (
        Column("load"),
        Column("winner"),
        Column("tok/s", numeric=True),
        Column("gain", numeric=True),
        Column("best baseline"),
        Column("its tok/s", numeric=True),
        Column("gain at equal fusion", numeric=True),
        Column("how sure"),
        Column("ties with", wide=True),
    )
    yield Text(
        "The simplest config that cannot be distinguished from the best, where that is shown to beat the best baseline; else that "
        f"baseline. {GAIN_KEY}",
        aside=True,
    )
    yield table(columns, rows)


def _winner_cells(winner: LoadWinner) -> tuple[Cell, ...]:
    is_baseline = winner.config == winner.baseline
    ties = [config for config in winner.tied if config != winner.config]
    more = f" and {len(ties) - _TIES_SHOWN} more" if len(ties) > _TIES_SHOWN else ""
    band = winner.gain.band or winner.only_expected
    return (
        Cell(f"C={winner.concurrency}"),
        config_cell(winner.config, *((_EXTRAPOLATED,) if winner.extrapolated else ()), strong=True),
        estimate_cell(winner.rate, band=band),
        Cell() if is_baseline else gain_cell(winner.gain),
        Cell("itself") if is_baseline else config_cell(winner.baseline),
        Cell() if is_baseline else estimate_cell(winner.baseline_rate, band=winner.only_expected),
        gain_cell(winner.equal_fusion_gain),
        Cell(_standing_of_winner(winner)),
        Cell(", ".join(map(str, ties[:_TIES_SHOWN])) + more),
    )


def _standing_of_winner(winner: LoadWinner) -> str:
    if winner.only_expected:
        return "expected, not measured"
    if winner.claimed and winner.config.speculates:
        return "shown"
    if not winner.compared:
        return "only baselines measured"
    return "all else is slower" if winner.slower else "no gain shown"


def _beyond_cells(winner: LoadWinner) -> tuple[Cell, ...]:
    """A row under the load's winner: what only extrapolation says."""
    cells = list(_winner_cells(winner))
    cells[0], cells[7], cells[8] = Cell(), Cell("worth a launch, not a fact"), Cell()
    return tuple(cells)


def front(content: ReportContent) -> Iterator[Block]:
    """One objective against the other, and the configs that no other beats at both."""
    judgement = content.judgement
    if not judgement.results:
        return
    hollow = (
        " Hollow: extrapolated."
        if any(result.extrapolated_at(content.objective_loads) for result in judgement.results)
        else ""
    )
    yield Figure(
        "pareto",
        f"Each mark is one config. {_ways(content)} Dotted: the best baseline. Joined: the front, which nothing beats "
        f"at both as far as measured; whether that is shown stands under the answer at each load.{hollow}",
        figures.pareto(content),
    )
    yield table(*_config_table(content, judgement.front, brief=True))


def configs(content: ReportContent) -> Iterator[Block]:
    """Every measured config, and why it is chosen or not."""
    results = content.judgement.results
    if not results:
        return
    yield Text(
        "Marked: on the front. Percent: against the best baseline at the same load. Score: geometric mean of both "
        "speed-ups. Accept: output tokens per verify pass; 1 means that drafts never help. Standing: the one selection "
        f"that winners, picks and verdicts are made of. {GAIN_KEY}",
        aside=True,
    )
    columns, rows = _config_table(content, results)
    yield table(columns, rows, name="configs", sorts=True)


def _config_table(
    content: ReportContent, results: Sequence[ConfigResult], *, brief: bool = False
) -> tuple[list[Column], list[Row]]:
    axes, loads = _value_columns(content), content.columns
    columns = [Column("config")]
    columns += [Column(axis_words(axis), numeric=True, low_is_good=_low(axis)) for axis in axes]
    columns += [Column(f"C={load} tok/s", numeric=True) for load in loads]
    if not brief:
        columns += [Column(f"accept C={load}", numeric=True) for load in content.objective_loads]
    columns += [Column("score", numeric=True)]
    columns += [] if brief else [Column("starts", numeric=True)]
    columns.append(Column("standing", wide=True))
    on_front = {result.config for result in content.judgement.front}
    rows = []
    for result in results:
        cells = [config_cell(result.config)]
        for axis in axes:
            value, here = result.values[content.axes.index(axis)], result.loads[axis.concurrency]
            cells.append(
                number_cell(
                    value.value,
                    text=metric_number(axis.metric, value.value),
                    ci=metric_bounds(axis.metric, value, band=here.band),
                )
            )
        cells += [_rate_cell(content, result, load) for load in loads]
        for load in () if brief else content.objective_loads:
            at = result.loads.get(load)
            cells.append(
                estimate_cell(at.accept) if at and at.accept else number_cell(at.accept_length if at else None)
            )
        cells.append(
            number_cell(
                None if math.isnan(result.score) else result.score,
                text=score_words(result.score),
                ci=score_bounds(result.score_ci, band=content.is_band(result)),
            )
        )
        if not brief:
            cells.append(number_cell(len(result.launches), text=str(len(result.launches))))
        cells.append(
            Cell(
                "; ".join(_standing(content, result)),
                tags=_tags(result, extrapolated=result.extrapolated_at(content.spec.loads)),
            )
        )
        rows.append(Row(tuple(cells), marked=not brief and result.config in on_front))
    return columns, rows


def _rate_cell(content: ReportContent, result: ConfigResult, load: int) -> Cell:
    at = result.loads.get(load)
    if at is None:
        return Cell()
    gain = content.gain(result, load) if content.is_compared(result.config, load) else None
    return estimate_cell(at.rate, band=at.band, gain=gain)


def _standing(content: ReportContent, result: ConfigResult) -> Iterator[str]:
    """Why a config is chosen or not, from the winners alone."""
    loads_of: dict[str, list[int]] = {}
    for winner in content.judgement.winners:
        if winner.concurrency not in result.loads:
            continue
        if winner.config == result.config:
            word = "best baseline" if winner.config == winner.baseline else "wins"
            word = "expected best" if winner.only_expected else word
        elif winner.baseline == result.config:
            word = "best baseline"
        elif any(one.config == result.config for one in winner.ahead):
            word = "ahead, not shown"
        elif result.config in winner.tied:
            word = "ties"
        else:
            continue
        loads_of.setdefault(word, []).append(winner.concurrency)
    yield from (f"{word} at {', '.join(map(str, loads))}" for word, loads in loads_of.items())
    if bars := [note.value for note in result.notes if note.bars_recommendation and note is not Note.SYNTHETIC]:
        yield f"not recommended: {', '.join(bars)}"
    others = [note.value for note in result.notes if not note.bars_recommendation]
    yield from others


def _tags(result: ConfigResult, *, extrapolated: bool) -> tuple[Tag, ...]:
    tags = [_EXTRAPOLATED] if extrapolated else []
    if lossless := lossless_words(result.lossless):
        tags.append(Tag(lossless, warns=lossless != "lossless"))
    return tuple(tags)


def _value_columns(content: ReportContent) -> list[Objective]:
    """Objectives with a column of their own: all but a throughput, which stands among the loads."""
    return [axis for axis in content.axes if axis.metric.name != "output_tps" or axis.concurrency == 1]


def _low(axis: Objective) -> bool:
    return axis.direction is Direction.MINIMIZE


def _ways(content: ReportContent) -> str:
    first, second = content.axes
    if not own_axes(content.axes):
        return (
            f"To the right: faster for one request (C={first.concurrency}). Up: more for all (C={second.concurrency})."
        )
    return f"To the right: better {first.title}. Up: better {second.title}."


def knobs(content: ReportContent) -> Iterator[Block]:
    """What each knob is worth."""
    worths = content.judgement.knobs
    if not worths:
        return
    yield Text(KNOB_KEY, aside=True)
    columns = (
        Column("knob"),
        Column("load"),
        Column("best value"),
        Column("against"),
        Column("best of each", numeric=True),
        Column("told apart"),
        Column("that knob alone", numeric=True),
        Column("configs", wide=True),
        Column("differ also in", wide=True),
    )
    rows = [
        (
            Cell(worth.knob, code=True),
            Cell(f"C={worth.concurrency}"),
            Cell(str(worth.value)),
            Cell(str(worth.other)),
            gain_cell(worth.gain),
            Cell({None: "scatter assumed", True: "yes", False: "no"}[worth.gain.separable]),
            _alone(worth.alone, worth.pairs),
            Cell(f"{_marked(worth.best, worth.picked_afresh)}, {_marked(worth.other_best, worth.picked_afresh)}"),
            Cell(", ".join(worth.differ_too)),
        )
        for worth in worths
    ]
    yield Fold(counted(len(rows), "comparison"), (table(columns, rows, name="knobs", sorts=True),))


def _marked(config: SpecConfig, afresh: bool) -> str:
    return f"{config}{'+' if afresh else ''}"


def _alone(gain: Gain | None, pairs: int) -> Cell:
    if gain is None:
        return Cell()
    cell = gain_cell(gain)
    return Cell("", "", cell.gain, cell.gain_ci, cell.tone, cell.sort, more=(counted(pairs, "pair"),))


def questions(content: ReportContent) -> Iterator[Block]:
    """Verdicts on the study's questions, the numbers on a click."""
    for answer in content.judgement.verdicts:
        yield Heading(answer.name, (Tag(answer.verdict, warns=answer.verdict in ("not measured", "assumed scatter")),))
        # Sentences of a long answer each on a line of its own: a wall of brackets is read by nobody.
        parts = list(_over_loads(_sentences(answer.text)))
        yield Lines(tuple(parts)) if len(parts) > 1 else Text(answer.text)


def _sentences(text: str) -> list[str]:
    """Its parts between semicolons; a command stays with what it is for."""
    parts: list[str] = []
    for part in text.split("; "):
        if parts and part.startswith("`"):
            parts[-1] += f"; {part}"
        elif part not in parts:
            parts.append(part)
    return parts


def _over_loads(parts: Sequence[str]) -> Iterator[str]:
    """Sentences that differ in the load alone as one."""
    loads: dict[str, list[str]] = {}
    for part in parts:
        said, _, load = part.rstrip(".").partition(" was measured at C=")
        if said.startswith("no config") and load.isdigit():
            loads.setdefault(said, []).append(load)
    for part in parts:
        said = part.partition(" was measured at C=")[0]
        if said not in loads:
            yield part
        elif at := loads[said]:
            yield f"{said} was measured at C={', '.join(sorted(at, key=int))}"
            loads[said] = []


def remarks(content: ReportContent) -> Iterator[Block]:
    """What to know of single configs: outputs, accept lengths, repeats that stand apart, host drift."""
    if content.judgement.remarks:
        yield Lines(content.judgement.remarks)
