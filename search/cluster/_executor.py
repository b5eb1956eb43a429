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

    @property
    def notices(self) -> tuple[str, ...]:
        """What people should know of how the slots came about, one line each."""
        ...

    def engine(self, slot: Slot) -> Engine:
        """The engine that launches on `slot`; its sessions live where the GPUs are.

        Its calls block; a `KeyboardInterrupt` in any of them leaves no server behind.
        """
        ...

    def abort(self, slot: Slot) -> None:
        """Make a launch or a phase that runs on `slot` raise `Interrupted` soon, and later ones at once.

        For other threads than the one that waits for it.
        """
        ...

    def slot_is_clean(self, slot: Slot) -> bool:
        """Whether nothing holds the slot's GPUs, so that a server may be started there."""
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
    def notices(self) -> tuple[str, ...]:
        """See `Executor`; the caller chose the slots."""
        return ()

    @property
    def slots(self) -> tuple[Slot, ...]:
        """See `Executor`."""
        return self._slots

    def engine(self, slot: Slot) -> Engine:
        """See `Executor`; every slot shares the one engine."""
        if slot not in self._slots:
            raise ValueError(f"`slot` must be one of {self._slots}, but got {slot}.")
        return self._engine

    def abort(self, slot: Slot) -> None:
        """See `Executor`; reaches every slot, because they share the engine."""
        # Simulated and replayed engines answer at once and have nothing to abort.
        abort = getattr(self.engine(slot), "abort", None)
        if abort is not None:
            abort()

    def slot_is_clean(self, slot: Slot) -> bool:
        """See `Executor`; the launch itself looks before it takes the GPUs."""
        return slot in self._slots

    def close(self) -> None:
        """See `Executor`; sessions close themselves, an engine gives its GPUs back."""
        close = getattr(self._engine, "close", None)
        if close is not None:
            close()
