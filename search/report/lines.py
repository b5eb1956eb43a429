"""The lines that a run prints, for the terminal and for `run.log` alike."""

from __future__ import annotations

from collections import Counter
from math import isinf
from statistics import fmean

from search.analysis.findings import Judgement, PredictedValue
from search.metrics import gain_percent, mean_rate, number
from search.outcomes import Note
from search.report.text import KIND_LABELS, counted, duration, metric_number, one_line
from search.storage.records import LaunchRecord
from search.study.events import Launching, RunStart


def start_lines(start: RunStart) -> list[str]:
    """What is searched and what it may cost."""
    label = f" [{KIND_LABELS[start.kind]}]" if KIND_LABELS[start.kind] else ""
    left_out = f"{start.locked:,} locked and {start.dropped:,} dropped"
    lines = [f"study {start.study}{label}: {counted(start.valid, 'valid config')} ({left_out})"]
    left = max(start.budget_launches - start.already, 0)
    hours = "" if start.expected_hours is None else f", about {duration(start.expected_hours * 3600)}"
    or_hours = "" if start.budget_hours is None or isinf(start.budget_hours) else f" or {start.budget_hours:g} hours"
    already = f"; {counted(start.already, 'launch')} already made" if start.already else ""
    return [*lines, f"plan: {counted(left, 'launch')}{or_hours} at most{hours}{already}"]


def launching_line(launch: Launching) -> str:
    """`[ 3/40] known: v2-k1-s2-d3 starts`, with the reason it was chosen."""
    why = f" ({launch.why})" if launch.why else ""
    return f"{_place(launch.number, launch.of)} {launch.stage}: {launch.config.config_id} starts{why}"


def launched_line(launch: LaunchRecord, judgement: Judgement, *, of: int | None = None) -> str:
    """One result, or one failure with its reason and where to read on.

    Percentages are against the best baseline measured so far at the same load.
    """
    head = f"{_place(launch.number, of)} {launch.config.config_id}"
    if launch.asked != launch.config:
        head += f" (asked: {launch.asked.config_id})"
    if launch.reason is not None:
        line = launch.evidence.root_line if launch.evidence else ""
        log = launch.evidence.log_path if launch.evidence else ""
        parts = [head, f"{launch.outcome or ''} {launch.reason}".strip()]
        return "  ".join([*parts, *([one_line(line)] if line else []), *([f"see {log}"] if log else [])])
    if launch.evidence is not None:
        return "  ".join([head, f"{launch.outcome or ''}", one_line(launch.evidence.root_line), *launch.notes])
    loads = sorted({phase.concurrency for phase in launch.phases})
    rates = [_rate(launch, load, judgement) for load in loads]
    accepts = [_accept(launch, load) for load in loads]
    accepted = [f"accept {'/'.join(accept or '-' for accept in accepts)}"] if any(accepts) else []
    times = [f"boot {duration(launch.boot_s)}", f"total {duration(launch.duration_s)}"]
    notes = {*launch.notes, *(note for phase in launch.phases for note in phase.notes)}
    notes.discard(Note.SYNTHETIC)  # The first line of the run says it for all.
    outcome = [launch.outcome.value] if launch.outcome and launch.outcome != "MEASURED" else []
    return "  ".join([head, *outcome, *rates, *accepted, *times, *sorted(notes), *_surprises(launch, judgement)])


def brief_line(launch: LaunchRecord, judgement: Judgement, *, of: int | None = None) -> str:
    """One result in a line for a terminal of 100 columns; what does not fit is in `launched_line`, which the log has."""
    if launch.reason is not None or launch.evidence is not None or not launch.phases:
        return launched_line(launch, judgement, of=of)
    head = f"{_place(launch.number, of)} {launch.config.config_id}"
    if launch.asked != launch.config:
        head += f" (asked: {launch.asked.config_id})"
    repeats = Counter(phase.concurrency for phase in launch.phases)
    # Objectives are repeated, so they stand first among those that are shown.
    shown = sorted(sorted(repeats, key=lambda load: (-repeats[load], load))[:_BRIEF_LOADS])
    rates = [_rate(launch, load, judgement).replace(" tok/s", "").replace("(", "").replace(")", "") for load in shown]
    more = [f"+{len(repeats) - len(shown)} loads"] if len(repeats) > len(shown) else []
    lengths = [phase.accept_length for phase in launch.phases if phase.accept_length is not None]
    accept = [f"acc {fmean(lengths):.1f}"] if lengths else []
    notes = {*launch.notes, *(note for phase in launch.phases for note in phase.notes)} - {Note.SYNTHETIC}
    return "  ".join([head, *rates, *more, *accept, duration(launch.duration_s), *sorted(notes)])


_BRIEF_LOADS = 4


def _surprises(launch: LaunchRecord, judgement: Judgement) -> list[str]:
    """Numbers of this launch that lie outside the bands that were predicted."""
    wrong = [guess for guess in judgement.predictions.numbers if guess.launch == launch.number and not guess.held]
    return [
        f"the model was wrong here: c{guess.concurrency} expected {_of(guess, 1)} ({_of(guess, 0)} to {_of(guess, 2)})"
        for guess in wrong
    ]


def _of(predicted: PredictedValue, place: int) -> str:
    return metric_number(predicted.metric, predicted.expected[place])


def _place(number_: int, of: int | None) -> str:
    if of is None:
        return f"[{number_}]"
    return f"[{number_:>{len(str(of))}}/{of}]"


def _rate(launch: LaunchRecord, concurrency: int, judgement: Judgement) -> str:
    rate = mean_rate(launch.repeats(concurrency))
    text = f"c{concurrency} {number(rate)} tok/s"
    result = next((result for result in judgement.results if result.config == launch.config), None)
    gain = result.gains.get(concurrency) if result else None
    winner = next((winner for winner in judgement.winners if winner.concurrency == concurrency), None)
    if gain is None or winner is None or winner.baseline == launch.config:
        return text
    return f"{text} ({gain_percent(gain.value)})"


def _accept(launch: LaunchRecord, concurrency: int) -> str | None:
    lengths = [phase.accept_length for phase in launch.repeats(concurrency) if phase.accept_length is not None]
    return f"{fmean(lengths):.1f}" if lengths else None
