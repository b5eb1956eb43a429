"""Worlds of our own to race on: computed tables whose physics vary and are not those of the model."""

from benchmarks.race.worlds.making import HALVES, Half, make_world, write_world

__all__ = ["HALVES", "Half", "make_world", "write_world"]
