"""Every flag of each release's own parser, and its default.

`flags.tsv` is what `ServerArgs.add_cli_args` of each wheel adds to a parser (`verdicts/flags.py`).
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from functools import cache
from importlib import resources
from typing import Final

from search.dialects._base import Dialect
from search.dialects._order import at_least
from search.errors import UsageError


@dataclass(frozen=True, slots=True)
class Flag:
    """One flag of one release.

    Attributes:
        bare: Whether it is a switch, without a value.
        default: What an absent flag means; None where the server decides.
        choices: The only words it takes; empty for any.
        number: `int` or `float` where its word is a number; empty for any word.
    """

    bare: bool
    default: str | int | float | bool | None
    choices: tuple[str, ...] = ()
    number: str = ""

    def is_default(self, value: object) -> bool:
        """Whether saying `value` is saying nothing."""
        return self.default is not None and _comparable(value) == _comparable(self.default)


@cache
def flags_of(release: str) -> Mapping[str, Flag]:
    """All flags a release's parser knows, without their dashes."""
    text = resources.files("search.dialects").joinpath("flags.tsv").read_text(encoding="utf-8")
    found: dict[str, Flag] = {}
    for line in text.splitlines():
        if line.startswith("#"):
            continue
        name, words, first, last, default, takes = line.split("\t")
        if at_least(release, first) and at_least(last, release):
            found_choices = json.loads(takes)
            choices = tuple(found_choices) if isinstance(found_choices, list) else ()
            found[name] = Flag(
                words == "0", json.loads(default), choices, found_choices if isinstance(found_choices, str) else ""
            )
    return found


def flag_names(dialect: Dialect) -> dict[str, bool]:
    """All flags of a dialect's newest release without their dashes, and whether each is a switch."""
    return {name: flag.bare for name, flag in flags_of(dialect.releases[-1]).items()}


def nearest_flag(name: str, release: str) -> str:
    """A hint: the flag that was probably meant."""
    near = get_close_matches(name, flags_of(release), n=1, cutoff=0.6)
    return f" Did you mean `{near[0]}`?" if near else ""


RANGES: Final[Mapping[str, tuple[float, float]]] = {
    **dict.fromkeys(("mem-fraction-static", "hicache-host-memory-fraction"), (0.0, 1.0)),
    **dict.fromkeys(("speculative-accept-threshold-single", "speculative-accept-threshold-acc"), (-1e-9, 1 + 1e-9)),
    **dict.fromkeys(
        (
            *("max-running-requests", "page-size", "context-length", "max-total-tokens", "max-prefill-tokens"),
            *("cuda-graph-max-bs", "cuda-graph-bs", "cuda-graph-max-bs-decode", "cuda-graph-bs-decode"),
            *("stream-interval", "num-continuous-decode-steps", "schedule-conservativeness", "swa-full-tokens-ratio"),
            *("tensor-parallel-size", "tp-size", "pp-size", "pipeline-parallel-size", "dp-size", "data-parallel-size"),
            *(
                "ep-size",
                "expert-parallel-size",
                "ep",
                "attn-dp-size",
                "max-queued-requests",
                "mamba-full-memory-ratio",
            ),
        ),
        (0.0, math.inf),
    ),
}
"""Flags whose number lies between two others, both excluded; no release's parser looks at them."""


def wrong_value(name: str, value: object, release: str, *, patched: bool) -> str:
    """Why a release's parser does not take a flag's value, as a phrase behind "but"; empty where it does.

    Args:
        name: Without dashes.
        value: As in a study file: True for a bare flag, False for none, a tuple for several words.
        release: SGLang's.
        patched: Whether the SGLang that is launched is patched: it may take more words.
    """
    flag = flags_of(release).get(name)
    if flag is None:
        return ""
    if isinstance(value, bool) or flag.bare:
        if value is True and not flag.bare:
            return "it takes a value. Write one"
        return "" if isinstance(value, bool) else "it is a switch. Write true or false"
    for word in value if isinstance(value, tuple) else (value,):
        if flag.choices and str(word) not in flag.choices and not patched:
            return f"SGLang {release} takes one of {', '.join(flag.choices)}. Choose one of them"
        if flag.number and not _is_number(word, flag.number):
            return f"it takes {'a whole number' if flag.number == 'int' else 'a number'}. Correct it"
        low, high = RANGES.get(name, (-math.inf, math.inf))
        if flag.number and not low < float(str(word)) < high:
            bound = f"a number above {low:g}" if high == math.inf else f"a number between {max(low, 0):g} and {high:g}"
            return f"it takes {bound}. Correct it"
    return ""


def check_values(args: Mapping[str, object], release: str, *, patched: bool) -> None:
    """Hold a study's own flags to what the release's parser takes.

    Args:
        args: Flag without dashes to value.
        release: SGLang's.
        patched: Whether the SGLang that is launched is patched: it may take more words.

    Raises:
        UsageError: A word that is none of the choices, not a number where one is taken, or out of its range.
    """
    for name, value in args.items():
        if wrong := wrong_value(name, value, release, patched=patched):
            raise UsageError(f"`server_args` holds `{name}: {_shown(value)}`, but {wrong}.")


def _shown(value: object) -> str:
    return " ".join(map(str, value)) if isinstance(value, tuple) else str(value)


def _is_number(word: object, kind: str) -> bool:
    try:
        return math.isfinite(float(str(word))) and (kind == "float" or int(str(word)) == float(str(word)))
    except (ValueError, OverflowError):
        return False


def _comparable(value: object) -> str:
    """Numbers alike however they are written: 1, 1.0 and "1.0"."""
    try:
        return repr(float(str(value)))
    except ValueError:
        return str(value)
