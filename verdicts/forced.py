"""What an architecture forces, out of the recorded verdicts: `python forced.py`.

Reads `architectures/<release>.jsonl.gz` and writes `search/dialects/forced.tsv`: the attention backend that each
release chooses where nothing is named, the page size it sets whatever is asked, and what it refuses on that target
though it takes it on an ordinary one.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import models
import record
import spelling

TABLE: Final = Path(__file__).parent.parent / "search" / "dialects" / "forced.tsv"
RECORDED: Final = Path(__file__).parent / "architectures"
HEAD: Final = """\
# What a target's architecture forces (`verdicts/forced.py`): architecture, kind, compute capabilities (major), first and last
# release, value, words. `backend`: off,unset,chain,tree as topk is not sent, 1, or more, `a+b` where
# decode has its own, `a*` where it is named for both phases. `page`: whatever is asked. `own-page`: with that backend, where nothing asks.
# `refuses-backend`, `refuses-algorithm`: value, and the server's words with their place.
"""
ORDINARY: Final = "qwen2"
"""Ordinary attention, and nothing forced."""
MAJORS: Final = {"sm90": "9", "sm100": "10", "sm120": "12"}
SITUATIONS: Final = (("off", None, None), ("unset", "EAGLE3", None), ("chain", "EAGLE3", 1), ("tree", "EAGLE3", 4))
UNTOLD: Final = "?"

Row = tuple[str, str, str, str, str]
"""Architecture, kind, major, value, words."""


def main() -> None:
    """Read all recorded releases and write the table."""
    found = {release: set(_rows(record.read(path)[1])) for release in spelling.RELEASES if (path := _recorded(release))}
    lines = sorted(_spans(found))
    TABLE.write_text(HEAD + "".join(f"{line}\n" for line in lines), encoding="utf-8")


def _recorded(release: str) -> Path | None:
    """Its own recording, or its `.post1`'s, which differs from it by nothing that arguments look at."""
    paths = (RECORDED / f"{name}.jsonl.gz" for name in (release, f"{release}.post1"))
    return next((path for path in paths if path.exists()), None)


def _rows(cases: list[dict[str, Any]]) -> Iterator[Row]:
    by_shape: dict[tuple[str, str], dict[tuple[Any, ...], dict[str, Any]]] = defaultdict(dict)
    for case in cases:
        if case["origin"] == "chosen" and "page_size" not in case["knobs"] and not _unread(case):
            by_shape[case["model"], case["gpu"]][_key(case)] = case
    told: dict[str, set[str]] = {}
    for (name, gpu), here in by_shape.items():
        architecture = models.SHAPES[name]["config"]["architectures"][0]
        if models.SHAPES[name]["config"].get("index_topk") is not None and architecture == "DeepseekV3ForCausalLM":
            continue
        for kind, value, words in _of(here, by_shape[ORDINARY, gpu]):
            if kind != "backend" or told.setdefault(f"{architecture} {gpu}", {value}) == {value}:
                yield architecture, kind, MAJORS[gpu], value, words


def _unread(case: Mapping[str, Any]) -> bool:
    """Whether the configuration itself could not be read, which tells nothing of the arguments."""
    if "Class validation error" in case.get("refusal", ""):
        return True
    strange = case.get("error") in ("TypeError", "AttributeError", "KeyError") and case["refusal"]
    return bool(
        "hf_transformers" in case.get("where", "")
        or case.get("where") == "outside"
        or (strange and "NoneType" not in case["refusal"])
    )


def _key(case: Mapping[str, Any]) -> tuple[Any, ...]:
    knobs = case["knobs"]
    return knobs.get("attention_backend"), knobs.get("algorithm"), knobs.get("topk")


def _of(here: Mapping[tuple[Any, ...], Any], ordinary: Mapping[tuple[Any, ...], Any]) -> Iterator[tuple[str, str, str]]:
    chosen = [_backend(here.get((None, algorithm, topk))) for _, algorithm, topk in SITUATIONS]
    if chosen[0] != UNTOLD:
        yield "backend", ",".join(chosen), ""
    pages = {
        case["resolved"]["page_size"]
        for key, case in here.items()
        if key[0] in ("triton", "fa3", "flashinfer") and case["verdict"] == "accepted"
    }
    if not pages:  # it takes none of these backends, so that its own tells
        own = (here.get((None, None, None)), here.get((None, "EAGLE", 1)))
        pages = {case["resolved"]["page_size"] for case in own if case is not None and case["verdict"] == "accepted"}
    if len(pages) == 1 and pages != {1}:
        yield "page", str(*pages), ""
    else:
        yield from _own_pages(here, ordinary)
    for key, case in here.items():
        usual = ordinary.get(key)
        if case["verdict"] == "accepted" or usual is None or usual["verdict"] != "accepted" or _of_the_page(case):
            continue
        words = f"{case['refusal'].partition(' but got')[0] or case['error']} ({case['where']})".replace("\t", " ")
        off = here.get((None, None, None), {}).get("verdict") == "accepted"
        if key[0] is not None:
            if here.get((None, key[1], key[2]), {}).get("verdict") == "accepted":
                yield "refuses-backend", key[0], words
        elif key[1] is not None and key[2] != 4 and off:
            yield "refuses-algorithm", key[1], words


def _own_pages(here: Mapping[Any, Any], ordinary: Mapping[Any, Any]) -> Iterator[tuple[str, str, str]]:
    """The page size of a backend where nothing asks, as far as an ordinary target has another with it."""
    usual, own = _pages(ordinary), _pages(here)
    for backend, pages in own.items():
        if len(pages) == 1 and pages != {1} and usual.get(backend) != pages:
            yield "own-page", f"{backend}={next(iter(pages))}", ""


def _pages(cases: Mapping[Any, Any]) -> Mapping[str, set[int]]:
    found: dict[str, set[int]] = defaultdict(set)
    for case in cases.values():
        if case["verdict"] == "accepted" and (backend := case["resolved"].get("attention_backend")):
            found[backend].add(case["resolved"]["page_size"])
    return found


def _of_the_page(case: Mapping[str, Any]) -> bool:
    """Whether it is only the page size or the width of the tree that is refused, which other rules say."""
    return any(word in case["refusal"] for word in ("page_size", "topk"))


def _backend(case: Mapping[str, Any] | None) -> str:
    if case is None or case["verdict"] != "accepted":
        return UNTOLD
    told = case["resolved"]
    attention, decode = told.get("attention_backend") or UNTOLD, told.get("decode_attention_backend")
    if attention == decode == told.get("prefill_attention_backend"):
        return f"{attention}*"
    return (
        f"{attention}+{decode}" if decode is not None and told.get("prefill_attention_backend") is None else attention
    )


def _spans(found: Mapping[str, set[Row]]) -> Iterator[str]:
    """One line for each run of releases; the last recorded one speaks for what is newer."""
    recorded, known = list(found), list(spelling.RELEASES)
    merged: dict[tuple[str, ...], list[str]] = defaultdict(list)
    for architecture, kind, major, value, words in set().union(*found.values()):
        has = [at for at, release in enumerate(recorded) if (architecture, kind, major, value, words) in found[release]]
        for start in (at for at in has if at - 1 not in has):
            end = start
            while end + 1 in has:
                end += 1
            last = known[known.index(recorded[end + 1]) - 1] if end + 1 < len(recorded) else known[-1]
            merged[architecture, kind, recorded[start], last, value, words].append(major)
    for (architecture, kind, first, last, value, words), majors in merged.items():
        yield "\t".join((architecture, kind, " ".join(sorted(majors)), first, last, value, words))


if __name__ == "__main__":
    main()
