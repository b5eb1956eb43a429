"""What the comparison with an installed SGLang found, and how it is reported."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from search.config import SpecConfig

_NAMED = 3
"""Configs named in a line before the rest is counted."""
_LINES = 12
"""Differences listed before the rest is counted."""


class DifferenceKind(StrEnum):
    """How the installed release and our dialect differ on a config."""

    REFUSED = "refused"
    RUNS_ANOTHER = "runs-another"
    VALUE = "value"


@dataclass(frozen=True, slots=True)
class ArgumentDifference:
    """One difference.

    Attributes:
        expected: What our dialect says.
        said: What the installed release says.
        patches: Patches of the study that lift a rule which the config breaks in the stock release.
    """

    config: SpecConfig
    kind: DifferenceKind
    expected: str
    said: str
    patches: tuple[str, ...] = ()

    @property
    def matters(self) -> bool:
        """Whether the study would not measure what it says.

        A patch accounts for other values: nobody knows them better than the patched tree. It cannot
        account for a config that the tree refuses, or runs as another one: then it is not installed.
        """
        return self.kind is not DifferenceKind.VALUE or not self.patches


@dataclass(frozen=True, slots=True)
class ArgumentReport:
    """What the check found.

    Attributes:
        asked: Configs of the plan.
        answered: Configs the installed release had a word on.
        trouble: Why it had none on the others, in a sentence.
        unusable: SGLang cannot be imported: a launch would end the same way.
        resolved: Config id to the values that the release resolved.
        import_s: Seconds that the helper process took to start.
        each_s: Mean seconds for a config.
    """

    asked: int
    answered: int
    differences: tuple[ArgumentDifference, ...] = ()
    trouble: str = ""
    unusable: bool = False
    resolved: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    import_s: float = 0.0
    each_s: float = 0.0

    @property
    def stops(self) -> tuple[str, ...]:
        """One line for each thing that a study must not start with; configs that differ alike share one."""
        fatal = (self.trouble,) if self.unusable else ()
        return (*fatal, *_lines(each for each in self.differences if each.matters))

    @property
    def remarks(self) -> tuple[str, ...]:
        """What a person should know and no study needs to stop for."""
        unchecked: tuple[str, ...] = ()
        if self.trouble and not self.unusable:
            rest = "none" if not self.answered else f"{self.answered} of {self.asked}"
            unchecked = (f"The plan could not be held to the installed SGLang ({rest} checked): {self.trouble}",)
        return (*unchecked, *_lines(each for each in self.differences if not each.matters))


def _lines(differences: Iterable[ArgumentDifference]) -> tuple[str, ...]:
    alike: dict[tuple[DifferenceKind, str, str, tuple[str, ...]], list[SpecConfig]] = {}
    for each in differences:
        alike.setdefault((each.kind, each.expected, each.said, each.patches), []).append(each.config)
    lines = [_line(*key, configs) for key, configs in alike.items()]
    more = len(lines) - _LINES
    return (*lines[:_LINES], *([f"… and {more} more differences of this sort."] if more > 0 else []))


def _line(
    kind: DifferenceKind, expected: str, said: str, patches: tuple[str, ...], configs: Sequence[SpecConfig]
) -> str:
    more = len(configs) - _NAMED
    named = ", ".join(map(str, configs[:_NAMED])) + (f" and {more} more" if more > 0 else "")
    patched = " and ".join(f"`{name}`" for name in patches)
    if kind is DifferenceKind.VALUE:
        why = (
            f" Patch {patched} accounts for it." if patches else " Set it in `engine.server_args`, so that it is known."
        )
        return f"{named}: expected {expected}, but the installed SGLang resolves {said}.{why}"
    does = f"refuses it: {said}" if kind is DifferenceKind.REFUSED else f"would run it as {said}"
    if patches:
        return (
            f"{named}: legal by patch {patched} of the study, but the installed SGLang {does}. Install the patch in "
            "the tree that `engine.python` runs, or take it from `engine.patches`."
        )
    if kind is DifferenceKind.REFUSED:
        return (
            f"{named}: expected to start, but the installed SGLang {does}. Correct what it names, or take the config "
            "from the study."
        )
    return f"{named}: expected to run as asked, but the installed SGLang {does}. Take it from the study."
