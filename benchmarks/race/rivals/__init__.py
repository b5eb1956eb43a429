"""Whoever races, by name."""

from benchmarks.race.rivals.registry import RIVALS, Missing, Rival, make_entrant, parse_entry

__all__ = ["RIVALS", "Missing", "Rival", "make_entrant", "parse_entry"]
