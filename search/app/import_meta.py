"""What is said of a table that somebody brings, and what its recording keeps of it."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from search.app.import_text import TextTable
from search.engines.recording import Recording, Row
from search.errors import UsageError

_LONGEST = 1_000
_LONGEST_NAME = 200


@dataclass(frozen=True, slots=True)
class About:
    """What the command says of a table: everything but its numbers.

    Attributes:
        source: Where it comes from, such as a link; required, because a number without one is hearsay.
        model: Target, as anybody would know it.
        draft: Likewise.
        algorithm: Such as EAGLE3.
        gpus: Such as `8x NVIDIA H200`.
        release: Of SGLang.
        date: Of the numbers.
        note: What one must know before believing them.
        not_known: What the source does not say, and what was assumed in its place.
    """

    source: str
    model: str = ""
    draft: str = ""
    algorithm: str = ""
    gpus: str = ""
    release: str = ""
    date: str = ""
    note: str = ""
    not_known: tuple[str, ...] = ()


def check_about(about: About, name: str) -> None:
    """Refuse a table without a source, and words that are no line of text.

    Raises:
        UsageError: Something of it is missing, too long or not printable.
    """
    if not name or len(name) > _LONGEST_NAME:
        raise UsageError(
            f"`--to` ends in the name of the recording, of at most {_LONGEST_NAME} letters, but got {name[:60]!r}."
        )
    if not about.source.strip():
        raise UsageError("`--source` says where the numbers come from, such as a link, but it is missing. Give it.")
    texts = (
        name,
        about.source,
        about.model,
        about.draft,
        about.algorithm,
        about.gpus,
        about.release,
        about.date,
        about.note,
        *about.not_known,
    )
    for text in texts:
        if len(text) > _LONGEST or not text.isprintable():
            raise UsageError(
                f"What is said of a table is one printable line of at most {_LONGEST} letters, but got {text[:60]!r}. Shorten it."
            )


def meta_of(
    about: About,
    name: str,
    rows: Sequence[Row],
    table: TextTable,
    fields: Mapping[str, str],
    derived: Mapping[str, None],
    before: Recording | None,
) -> dict[str, Any]:
    """`meta.json` of a hand-made recording: what is said of it, where it comes from, and how it was read.

    Args:
        about: Of the table.
        name: Of the recording.
        rows: All of it.
        table: The text it comes from.
        fields: Field to column.
        derived: What was computed.
        before: The recording that it extends.
    """
    text = "\n".join("\t".join(cells) for cells in (table.header, *table.rows))
    this = {"source": about.source, "columns": dict(fields), "sha256": hashlib.sha256(text.encode()).hexdigest()}
    old = dict(before.meta) if before is not None else {}
    facts = {
        key: getattr(about, key)
        for key in ("model", "draft", "algorithm", "gpus", "date", "note")
        if getattr(about, key)
    }
    release = {"versions": {"sglang": about.release}} if about.release else {}
    loads = sorted({row.concurrency for row in rows if row.concurrency is not None})
    has_baseline = any(not row.config.speculates for row in rows)
    meta = {
        "name": name,
        "hand_made": True,
        **{key: value for key, value in old.items() if key not in ("name", "hand_made", "concurrencies", "baseline")},
        **facts,
        **release,
        "source": old.get("source") or about.source,
        "imported": [*old.get("imported", ()), this],
        "concurrencies": loads,
        **(
            {"baseline": next(row.config.config_id for row in rows if not row.config.speculates)}
            if has_baseline
            else {}
        ),
    }
    if about.not_known:
        meta["not_known"] = [*old.get("not_known", ()), *about.not_known]
    if derived:
        meta["derived"] = list(dict.fromkeys([*old.get("derived", ()), *derived]))
    return meta
