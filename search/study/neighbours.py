"""Leaves out configs that must fail as an earlier launch did, and says which launch taught it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from search.config import SpecConfig
from search.storage.records import LaunchRecord
from search.study.lessons import Lesson, spared

_NAMED = 6
"""Configs of a lesson that are named; the others are counted."""


class Neighbours:
    """The configs of one run that are not launched because their neighbours failed.

    Args:
        configs: Of the space, without those of which a recording says that they ran.
        spare: Makes the sampler leave out some configs, and no others any more.
        notice: Gets one line for each lesson that leaves out more than before.
    """

    def __init__(
        self,
        configs: Sequence[SpecConfig],
        *,
        spare: Callable[[Iterable[SpecConfig]], None],
        notice: Callable[[str], None],
    ) -> None:
        self._configs = tuple(configs)
        self._spare = spare
        self._notice = notice
        self._spared: dict[SpecConfig, Lesson] = {}
        self._ended: tuple[int, ...] = ()

    def learn(self, launches: Sequence[LaunchRecord]) -> None:
        """Look at the launches that ended, where there are new ones; a start that contradicts a lesson ends it."""
        ended = tuple(launch.number for launch in launches if launch.outcome is not None)
        if ended == self._ended:
            return
        self._ended = ended
        before = self._spared
        self._spared = spared(self._configs, launches)
        if before.keys() == self._spared.keys():
            return
        self._spare(self._spared)
        fresh: dict[str, list[SpecConfig]] = {}
        for config, lesson in self._spared.items():
            if config not in before:
                fresh.setdefault(lesson.words, []).append(config)
        for words, configs in fresh.items():
            more = f" and {len(configs) - _NAMED} more" if len(configs) > _NAMED else ""
            self._notice(f"not launched: {', '.join(map(str, configs[:_NAMED]))}{more}; {words}")
        again = [config for config in before if config not in self._spared]
        if again and all(launch.asked not in again for launch in launches[-1:]):
            self._notice(f"may be launched again, since a neighbour started: {', '.join(map(str, again[:_NAMED]))}")

    def spares(self, config: SpecConfig) -> bool:
        """Whether a config is left out."""
        return config in self._spared
