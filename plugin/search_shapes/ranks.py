"""All ranks of a server hear one another before any of them acts."""

from __future__ import annotations

from typing import Any, Protocol


class Ranks(Protocol):
    """Everybody says a word and hears all words."""

    def hear(self, word: Any) -> list[Any]:
        """All ranks' words, in order of rank; returns on each once all have spoken."""
        ...


class Alone:
    """One rank."""

    def hear(self, word: Any) -> list[Any]:
        """See `Ranks`."""
        return [word]


class Group:
    """The tensor-parallel ranks, over the CPU group that SGLang's scheduler has for such words.

    One broadcast per rank, as `CustomAllreduce` does it: gloo's gathering of objects fails in inference mode
    (https://github.com/pytorch/pytorch/issues/126032).
    """

    def __init__(self, group: Any) -> None:
        import torch.distributed as dist

        self._dist = dist
        self._group = group
        self._ranks = sorted(dist.get_process_group_ranks(group))
        self._mine = self._ranks.index(dist.get_rank())

    def hear(self, word: Any) -> list[Any]:
        """See `Ranks`."""
        words: list[Any] = []
        for place, rank in enumerate(self._ranks):
            box = [word if place == self._mine else None]
            self._dist.broadcast_object_list(box, src=rank, group=self._group, device="cpu")
            words.append(box[0])
        return words


def of(scheduler: Any) -> Ranks:
    """The ranks of a scheduler."""
    group = getattr(scheduler, "tp_cpu_group", None)
    if group is None or group.size() == 1:
        return Alone()
    return Group(group)
