"""A draft's acceptance by position, as accept lengths of chains: a profile of its own, or a published curve."""

from __future__ import annotations

from itertools import accumulate, pairwise
from operator import mul

from search.app.import_columns import Columns
from search.app.import_labels import shape_config
from search.app.import_rows import Read, Reading, Said, read_number
from search.app.import_text import TextTable
from search.errors import UsageError

_ROUNDING = 0.011
"""Shares with two digits may rise by as much where they do not."""


def read_curve(table: TextTable, columns: Columns, said: Said) -> Read:
    """One reading for each depth: a chain of so many steps has this accept length.

    A chain of n steps yields 1 + the sum over its positions of the share of passes that accept them, because a shorter
    chain sees the same drafts. `accept_given` is the share among passes that accepted all before, so it is multiplied up.

    Raises:
        UsageError: Positions are not 1, 2, 3, … (or from 0), or the shares cannot be such.
    """
    given = "accept_given" in columns.fields
    name = "accept_given" if given else "accept_at"
    if name not in columns.fields:
        raise UsageError(
            f"{table.where}: a table by position has a column of acceptance. Name it with `--map COLUMN=accept_at` (share of all verify "
            "passes that accept the draft there) or `--map COLUMN=accept_given` (of those that accepted all before)."
        )
    if said.at is None:
        raise UsageError(f"{table.where}: a curve says nothing of the load it was measured at. Say it with `--at N`.")
    shares: list[float] = []
    first: int | None = None
    for line, row in zip(table.lines, table.rows, strict=True):
        cells = dict(zip(table.header, row, strict=True))
        where = f"{table.where}:{line}"
        place = read_number(cells[columns.fields["position"]], where=where)
        share = read_number(cells[columns.fields[name]], where=where)
        if share is None:
            break
        first = int(place) if first is None and place in (0.0, 1.0) else first
        if first is None or place != first + len(shares):
            raise UsageError(
                f"{where}: positions count up from 0 or 1 without a gap, but got {cells[columns.fields['position']]!r}. Sort them."
            )
        if share > 1.0:
            raise UsageError(f"{where}: a share lies between 0 and 1, but got {share:g}. Write 0.75, or 75%.")
        shares.append(share)
    reached = list(accumulate(shares, mul)) if given else shares
    for before, after in pairwise(reached):
        if after > before + _ROUNDING:
            raise UsageError(
                f"{table.where}: of all verify passes, none accepts a draft whose predecessors it rejects, so shares fall, but {after:g} follows "
                f"{before:g}. If they are of passes that accepted all before, say `--map '{columns.fields[name]}=accept_given'`."
            )
    readings = []
    for steps, length in enumerate(accumulate(reached), 1):
        config = shape_config(topk=1, num_steps=steps, num_draft_tokens=None, worker=said.worker, what=table.where)
        assert config is not None, "a chain needs no tokens"
        text = f"accept_length of a chain is 1 plus the sum of the shares of its positions ({'multiplied up' if given else 'as given'})."
        readings.append(
            Reading(config, said.at, table.lines[steps - 1], {"accept_length": round(1.0 + length, 4)}, derived=(text,))
        )
    return Read(tuple(readings))
