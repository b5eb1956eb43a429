"""Built states of one server, least recently used first, and which of them may go when room is needed."""

from __future__ import annotations

from collections import OrderedDict
from typing import Any

from search_shapes.shape import Shape


class States:
    """States by shape. The start's own is never dropped: it was made before the cache took the memory."""

    def __init__(self, cap: int) -> None:
        self.cap = max(cap, 2)
        self._kept: OrderedDict[Shape, Any] = OrderedDict()
        self._start: Shape | None = None

    def __contains__(self, shape: Shape) -> bool:
        return shape in self._kept

    def shapes(self) -> list[Shape]:
        """Those kept, least recently used first."""
        return list(self._kept)

    def begin(self, shape: Shape, state: Any) -> None:
        """Keep the state that the start made; does nothing the second time."""
        if self._start is None:
            self._start = shape
            self._kept[shape] = state

    def use(self, shape: Shape) -> Any:
        """The state of a shape, now the most recently used."""
        self._kept.move_to_end(shape)
        return self._kept[shape]

    def keep(self, shape: Shape, state: Any) -> None:
        """Keep a new one."""
        self._kept[shape] = state

    def next_to_go(self, *, now: Shape) -> Shape | None:
        """The one to drop first; None when only the start's and the running one are left."""
        return next((shape for shape in self._kept if shape not in (self._start, now)), None)

    def drop(self, shape: Shape) -> None:
        """Forget one; its memory is free once nothing else holds it."""
        self._kept.pop(shape, None)
