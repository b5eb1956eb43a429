"""A workload as an engine takes it: prompts, and how their answers are sampled."""

from __future__ import annotations

from dataclasses import dataclass

from search.load.sampling import GREEDY, Sampling
from search.load.target import Prompt

OWN = ""
"""Name of the workload that a study searches with: that of `measure.prompts`."""


@dataclass(frozen=True, slots=True)
class Workload:
    """Prompts in the order in which every config gets them.

    Attributes:
        search: For everything but confirmation.
        held_out: For confirmation.
        sampling: How tokens are picked.
    """

    search: tuple[Prompt, ...]
    held_out: tuple[Prompt, ...] = ()
    sampling: Sampling = GREEDY

    def chosen(self, *, held_out: bool) -> tuple[Prompt, ...]:
        """The prompts for a phase; a phase that needs more than there are cycles them."""
        return self.held_out if held_out else self.search
