"""Which configs of a study may be measured in one start, one after the other."""

from __future__ import annotations

from dataclasses import dataclass

from search.config import SpecConfig


@dataclass(frozen=True, slots=True)
class Sharing:
    """Groups of configs that one start can hold.

    Made before a study begins, from its release, its flags and what each config resolves to; a running server may
    still refuse (its session's `holds` is empty then), and a study that finds that shared starts measure otherwise
    than starts of their own (START_DIFFERS) goes on without.

    Attributes:
        groups: In the order of the space; each config in one group at most, `off` in none. A group has two or more.
        words: For people: why configs share no start, or that sharing is not proven for this release; empty where
            there is nothing to say.
    """

    groups: tuple[tuple[SpecConfig, ...], ...] = ()
    words: str = ""

    def beside(self, config: SpecConfig) -> tuple[SpecConfig, ...]:
        """The other configs that a start of `config` can hold; empty where it always has a start of its own."""
        for group in self.groups:
            if config in group:
                return tuple(other for other in group if other != config)
        return ()


NO_SHARING = Sharing()
