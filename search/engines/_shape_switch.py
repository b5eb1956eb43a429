"""Switches a running server of ours: the blocking client in a thread, watched like a phase is."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar

from search.config import SpecConfig
from search.contracts import EffectiveSettings, LaunchPaths
from search.engines._shape_start import KEEPS, ShapeStart
from search.errors import Interrupted
from search.outcomes import Reason
from search.server.http import read_server_info
from search.server.shape_starts import decode_slots
from search.server.shapes import ShapeClient
from search.server.supervisor import Supervisor
from search.server.system import Os
from search.shape import Shape, Switched, SwitchFailed, SwitchRefused

_T = TypeVar("_T")


class Tell(Protocol):
    """The signature of `settings_in_use`, what is the launch's filled in."""

    def __call__(
        self, info: Mapping[str, Any], config: SpecConfig, *, paths: LaunchPaths, further: Mapping[str, str]
    ) -> EffectiveSettings:
        """See there."""
        ...


_POLL_S = 0.05
_LAST_WORDS_S = 2.0
"""How long the client of a server that ended may take to notice."""
_ASK_S = 60.0
"""For the report of a server that has just answered; the client itself gives up before."""
RESERVES_MORE = "reserves_more_than_its_own_start"
"""Detail of the effective settings: what a start that was made for a larger shape keeps of that."""
_OUT_OF_MEMORY = "out of memory"


class ShapeSwitch:
    """Talks to the plugin in one server, and comes back whatever the server does.

    Args:
        client: Of the server.
        server: Watched meanwhile.
        system: Clock.
        aborted: Set when the engine is aborted.
        limit_s: Longest switch, waiting for idleness included.
    """

    def __init__(
        self, client: ShapeClient, server: Supervisor, system: Os, *, aborted: threading.Event, limit_s: float
    ) -> None:
        self._client = client
        self._server = server
        self._os = system
        self._aborted = aborted
        self._limit_s = limit_s

    @property
    def server_lives(self) -> bool:
        """Whether the server has not ended."""
        return self._server.poll() is None

    def keeps_its_shape(self) -> str:
        """Why this server never switches; empty when it can.

        Raises:
            Interrupted: The engine was aborted.
        """
        try:
            if not self._watched(self._client.is_there, _ASK_S, "The question whether the plugin is there"):
                return "The plugin is not in this server; `SEARCH_SHAPES` in its log may say why."
            report = self._watched(self._client.report, _ASK_S, "The question what the plugin refuses")
        except SwitchFailed as failure:
            return failure.reason
        return report.refuses or report.broken

    def to(self, shape: Shape) -> Switched:
        """Let the server run a shape.

        Raises:
            SwitchRefused: Nothing has changed.
            SwitchFailed: See there; its cause is None where the server ended, which only its log explains.
            Interrupted: The engine was aborted; the server is in the middle of a switch and has to be stopped.
        """
        what = f"The switch to {shape}"
        # The client's own limit comes first: its words say at what it waited.
        try:
            return self._watched(lambda: self._client.switch(shape, self._limit_s), self._limit_s + _LAST_WORDS_S, what)
        except SwitchFailed as failure:
            if self._server.poll() is not None or failure.cause is not None:
                raise
            raise SwitchFailed(failure.reason, failure.usable, _cause_of(failure)) from failure

    def read_info(self) -> dict[str, Any]:
        """What the server says of itself.

        Raises:
            SwitchFailed: It says nothing.
            Interrupted: The engine was aborted.
        """
        try:
            return self._watched(lambda: read_server_info(self._server.ports.base_url), _ASK_S, "The read-back")
        except OSError as error:
            raise SwitchFailed(f"The server does not say what it runs: {error}") from error

    def _watched(self, work: Callable[[], _T], limit_s: float, what: str) -> _T:
        """The result of `work`, unless the engine is aborted, the server ends, or time is up."""
        task = _Task(work)
        task.start()
        end = self._os.monotonic() + limit_s
        while task.is_alive():
            if self._aborted.is_set():
                raise Interrupted(f"{what} was interrupted.")
            if (code := self._server.poll()) is not None:
                task.join(_LAST_WORDS_S)
                if task.is_alive() or task.error is None:
                    raise SwitchFailed(f"{what} met the server's end, exit code {code}.")
                break
            if self._os.monotonic() >= end:
                raise SwitchFailed(f"{what} took more than {limit_s:.0f} s.", cause=Reason.SERVER_HANG_LOAD)
            task.join(_POLL_S)
        if task.error is not None:
            raise task.error
        return task.outcome[0]


def _cause_of(failure: SwitchFailed) -> Reason:
    """What a living server's failure to switch is called."""
    if isinstance(failure.__cause__, TimeoutError):
        return Reason.SERVER_HANG_LOAD
    return Reason.OOM_GRAPH if _OUT_OF_MEMORY in failure.reason.lower() else Reason.TOOL_ERROR


@dataclass(frozen=True, slots=True)
class Switching:
    """What a session needs to switch.

    Attributes:
        switch: Of the server.
        start: How the server was started.
        launched: What it ran first.
        holds: What it was asked to hold beside that.
        place: Name of the launch whose server it is.
        tell: Reads `/server_info`, and keeps it.
        keep_command: Keeps a config's own command, with a remark how it was measured.
    """

    switch: ShapeSwitch
    start: ShapeStart
    launched: SpecConfig
    holds: tuple[SpecConfig, ...]
    place: str
    tell: Tell
    keep_command: Callable[[SpecConfig, LaunchPaths, str], None]

    def run(self, config: SpecConfig, paths: LaunchPaths) -> tuple[Switched, EffectiveSettings]:
        """Switch to one of its configs and read back what runs.

        Raises:
            SwitchRefused: Nothing has changed.
            SwitchFailed: See `ShapeSwitch.to`; or something else runs than was asked.
            Interrupted: The engine was aborted.
        """
        shape = Shape.of(config)
        assert shape is not None
        switched = self.switch.to(shape)
        paths.root.mkdir(parents=True, exist_ok=True)
        details = start_details(self.start, config, switched)
        effective = self.tell(self.switch.read_info(), config, paths=paths, further=details)
        if effective.config != config:
            raise SwitchFailed(f"{config} was asked, but the server says that it runs {effective.config}.")
        self.keep_command(config, paths, f"Measured in the start of {self.place}, by a switch.")
        return switched, effective


class Unshared(Exception):
    """A start that was to hold several configs, and cannot, nor runs the one that it was launched for.

    Attributes:
        for_good: Whether every other start of the deployment would show the same.
    """

    def __init__(self, why: str, *, for_good: bool = False) -> None:
        super().__init__(why)
        self.for_good = for_good


def first_switch(switch: ShapeSwitch, start: ShapeStart, config: SpecConfig) -> dict[str, str]:
    """Let a server that has just become ready run the config that it was launched for.

    Returns:
        Details for its effective settings. With `KEEPS` among them it runs the config and nothing else.

    Raises:
        Unshared: It keeps another shape.
        Interrupted: The engine was aborted.
    """
    if keeps := switch.keeps_its_shape():
        if start.config != config:
            raise Unshared(keeps, for_good=switch.server_lives)
        return {KEEPS: keeps}
    if start.config == config:
        return start_details(start, config)
    shape = Shape.of(config)
    assert shape is not None
    try:
        return start_details(start, config, switch.to(shape))
    except (SwitchRefused, SwitchFailed) as problem:
        raise Unshared(problem.reason) from problem


def start_details(start: ShapeStart, config: SpecConfig, switched: Switched | None = None) -> dict[str, str]:
    """What is kept of how a config came to run in a start that holds several, beside what the server reports."""
    details = {"started_as": start.config.config_id}
    if switched is None:
        return details
    details |= {"switch_s": f"{switched.seconds:.2f}", "switch_memory_gb": f"{switched.memory_gb:.2f}"}
    if switched.reserve_tokens is not None:
        details["reserve_tokens"] = str(switched.reserve_tokens)
        shape = Shape.of(config)
        own = 2 * decode_slots(shape, start.page_size) if shape else 0
        if switched.reserve_tokens > own:
            details[RESERVES_MORE] = (
                f"{switched.reserve_tokens} cache slots a request and decode step, {own} in a start of its own: near a "
                "full cache fewer requests run"
            )
    return details


class _Task(threading.Thread, Generic[_T]):
    """One call of the client; left behind when nobody waits for it, and over when its server is."""

    def __init__(self, work: Callable[[], _T]) -> None:
        super().__init__(name="shape-switch", daemon=True)
        self._work = work
        self.outcome: list[_T] = []
        self.error: Exception | None = None

    def run(self) -> None:
        """Call it."""
        try:
            self.outcome.append(self._work())
        except Exception as error:  # noqa: BLE001 - handed to whoever waits
            self.error = error
