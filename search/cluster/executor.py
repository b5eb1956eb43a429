"""Who holds the GPUs: the executor's contract, and the one that needs no cluster."""

from __future__ import annotations

from types import TracebackType
from typing import Protocol, Self

from search.contracts import Engine, SelfClosing, Slot


class Executor(Protocol):
    """Holds slots for a whole study and gives an engine for each. A context manager."""

    @property
    def slots(self) -> tuple[Slot, ...]:
        """The slots it holds; at least one."""
        ...

    def engine(self, slot: Slot) -> Engine:
        """The engine that launches on `slot`; its sessions live where the GPUs are.

        Its calls block; a `KeyboardInterrupt` in any of them leaves no server behind.
        """
        ...

    def close(self) -> None:
        """Stop what still runs, give the GPUs back. Safe to call twice."""
        ...

    def __enter__(self) -> Self: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...


class InlineExecutor(SelfClosing):
    """Runs an engine in this very process: simulation, replay, and `--executor inline`."""

    def __init__(self, engine: Engine, slots: tuple[Slot, ...] = (Slot(0),)) -> None:
        self._engine = engine
        self._slots = slots

    @property
    def slots(self) -> tuple[Slot, ...]:
        """See `Executor`."""
        return self._slots

    def engine(self, slot: Slot) -> Engine:
        """See `Executor`; every slot shares the one engine."""
        if slot not in self._slots:
            raise ValueError(f"`slot` must be one of {self._slots}, but got {slot}.")
        return self._engine

    def close(self) -> None:
        """See `Executor`; sessions close themselves."""
