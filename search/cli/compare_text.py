"""A comparison of tables for people and for machines."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from search.analysis.compared import Arrival, Change, Compared, Decision, Pair
from search.analysis.side import Side
from search.app.compare import unlike
from search.metrics import gain_percent
from search.stats.comparison import Comparison

_HASH = re.compile(r"\b([0-9a-f]{8})[0-9a-f]{56}\b")
_MOST_CONDITIONS = 12


def compared_lines(compared: Compared, *, same_host: bool) -> Iterator[str]:
    """The whole comparison, a line at a time."""
    for place, side in enumerate(compared.sides):
        yield f"{chr(ord('A') + place)}  {_about(side)}"
    yield ""
    yield from _caveats(compared, same_host=same_host)
    pairs = compared.steps if len(compared.sides) == 2 else (*compared.steps, compared.whole)
    for pair in pairs:
        yield ""
        yield from _pair(pair)
    if compared.arrivals:
        yield ""
        yield "where changes came in"
        yield from (f"  {_arrival(one)}" for one in compared.arrivals)
    elif len(compared.sides) > 2:
        yield ""
        yield "where changes came in: nowhere; no step shows one, nor do all of them together"


def _about(side: Side) -> str:
    parts = [side.name, f"SGLang {side.release}" if side.release else "", side.conditions.get("gpus", "")]
    known = ", ".join(part for part in parts if part)
    return f"{known}{' [not measured by this tool]' if side.hand_made else ''}"


def _caveats(compared: Compared, *, same_host: bool) -> Iterator[str]:
    for pair in compared.steps:
        differing = unlike(pair.before, pair.after)
        if differing:
            more = f" and {len(differing) - _MOST_CONDITIONS} more" if len(differing) > _MOST_CONDITIONS else ""
            shown = _HASH.sub(r"\1…", "; ".join(differing[:_MOST_CONDITIONS]))
            yield f"differs between {pair.before.name} and {pair.after.name}: {shown}{more}"
    if same_host:
        yield "One host ran all of them, as `--same-host` says."
    else:
        yield (
            "Hosts are taken for different ones (`--same-host` if they are one): a speed then carries no claim, and a gain over the own "
            "baseline is compared in its place. What another host does to that gain is in no interval here; two hosts on one release show it."
        )


def _pair(pair: Pair) -> Iterator[str]:
    yield f"{pair.after.name} against {pair.before.name}"
    rows = [_row(change) for change in pair.changes]
    header = ("config", "load", "compared", "before", "after", "change, 95% CI", "verdict")
    widths = [max(len(row[place]) for row in (header, *rows)) for place in range(len(header))]
    for row in (header, *rows):
        yield "  " + "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
    for words, only in (
        (f"only in {pair.before.name}", pair.only_before),
        (f"only in {pair.after.name}", pair.only_after),
    ):
        if only:
            yield f"  {words}: " + ", ".join(
                f"{name} ({why} in the other)" if why else name for name, why in only.items()
            )
    for load, (before, after) in pair.decisions.items():
        changes = before.config != after.config
        words = f"{_decision(before)} -> {_decision(after)}" if changes else f"stays {_decision(after)}"
        yield f"  decision at C={load}{' CHANGES' if changes else ''}: {words}"


def _row(change: Change) -> tuple[str, ...]:
    what = "gain over own baseline" if change.kind == "gain" else "speed"
    before, after = ("" if one is None else gain_percent(one.ratio) for one in (change.before, change.after))
    return (
        change.config.config_id,
        f"C={change.concurrency}",
        what,
        before,
        after,
        _interval(change.change),
        change.word,
    )


def _interval(comparison: Comparison) -> str:
    assumed = "; assumed scatter" if comparison.assumed else ""
    return f"{gain_percent(comparison.ratio)} [{gain_percent(comparison.lo)}, {gain_percent(comparison.hi)}{assumed}]"


def _decision(decision: Decision) -> str:
    if decision.gain is not None:
        return f"{decision.config} ({_interval(decision.gain)})"
    if decision.ahead is not None:
        return f"{decision.config} (ahead but not shown: {decision.ahead[0]} {gain_percent(decision.ahead[1])})"
    return f"{decision.config} (as measured)" if decision.basis == "as measured" else decision.config


def _arrival(one: Arrival) -> str:
    what = f"{one.config} at C={one.concurrency} {'gains' if one.kind == 'gain' else 'is'}"
    word = {"better": "more" if one.kind == "gain" else "faster", "worse": "less" if one.kind == "gain" else "slower"}[
        one.word
    ]
    place = f"from {one.step} on" if one.step else "over all of them; no single step shows it"
    return f"{what} {word} {place} (last against first {_interval(one.whole)})"


def compared_json(compared: Compared) -> dict[str, Any]:
    """The same as data."""
    return {
        "tables": [
            {"name": side.name, "release": side.release, "hand_made": side.hand_made, "loads": list(side.loads)}
            for side in compared.sides
        ],
        "steps": [_pair_json(pair) for pair in compared.steps],
        "whole": _pair_json(compared.whole),
        "arrivals": [
            {
                "config": one.config.config_id,
                "concurrency": one.concurrency,
                "of": one.kind,
                "step": one.step,
                "word": one.word,
            }
            for one in compared.arrivals
        ],
    }


def _pair_json(pair: Pair) -> dict[str, Any]:
    return {
        "before": pair.before.name,
        "after": pair.after.name,
        "differs": unlike(pair.before, pair.after),
        "changes": [
            {
                "config": one.config.config_id,
                "concurrency": one.concurrency,
                "of": one.kind,
                "before": one.before.ratio if one.before else None,
                "after": one.after.ratio if one.after else None,
                "ratio": one.change.ratio,
                "lo": one.change.lo,
                "hi": one.change.hi,
                "assumed": one.change.assumed,
                "verdict": one.word,
            }
            for one in pair.changes
        ],
        "only_before": dict(pair.only_before),
        "only_after": dict(pair.only_after),
        "decisions": {
            str(load): {
                "before": _decided(both[0]),
                "after": _decided(both[1]),
                "changes": both[0].config != both[1].config,
            }
            for load, both in pair.decisions.items()
        },
    }


def _decided(decision: Decision) -> dict[str, Any]:
    return {
        "config": decision.config,
        "basis": decision.basis,
        "gain": decision.gain.ratio if decision.gain else None,
        "ahead": decision.ahead[0] if decision.ahead else None,
    }
