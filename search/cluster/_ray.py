"""The executor whose slots are held by Ray actors."""

from __future__ import annotations

import contextlib
import logging
import math
import os
import signal
import socket
import threading
import time
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

from search.cluster._cluster import CHANGED_BY_RAY, GUARDIANS_LIVE, connect, disconnect, is_up, slots_that_fit
from search.cluster._holder import EngineFactory, FindUuids, GpuHolder
from search.cluster._lasting import in_lasting_thread
from search.cluster._ray_session import RayEngine
from search.cluster._replaceable import Replaceable
from search.contracts import (
    Engine,
    SelfClosing,
    Slot,
)
from search.errors import BreakerOpen, HostUnfit, Interrupted, LaunchFailed, SearchError
from search.outcomes import Evidence, Reason
from search.server.guardian import process_table
from search.server.reaper import reap_orphans

START_S = 60.0
"""How long an actor may take to start on a cluster: a node's first one imports this package from cold files."""
LOCAL_START_S = 300.0
"""The same on a local Ray: nobody else holds anything of it, so only a busy host can keep an actor waiting."""

EXIT_S = 5.0
"""How long a killed actor may take to be gone."""

QUIET_S = 1.0
"""For how long nothing of a dead actor's servers may have shown up before the sweep ends."""

POLL_S = 2.0
"""How often a call looks whether Ray is alive: without its GCS, Ray ends this very process after 60 s."""

MAX_REVIVALS = 1
"""A local Ray that dies a second time has a reason that starting it again does not take away."""

ANSWER_S = {"is_clean": 60.0, "close": 300.0, "collect": 300.0}
"""How long an actor may take over what has no limit of its own there: a stop has at most two minutes, NVML none at
all. A launch and a phase end by their own limits."""

_log = logging.getLogger(__name__)


class _Overdue(Exception):
    """An actor is alive and does not answer; the text says what was waited for."""


class _Pulse(NamedTuple):
    """The latest heartbeat sent to an actor: when, and the reference that its answer fulfils."""

    actor: Any
    answer: Any
    sent: float


class RayExecutor(SelfClosing):
    """Holds up to `slots` slots of `gpus_per_slot` GPUs each in Ray actors, over all nodes.

    One actor's GPUs are one demand, which Ray always meets on a single node. A slot whose actor
    or node died gets a fresh actor, on any living node with room, with its next launch. A local
    Ray that died itself is started once more.

    Args:
        factory: Builds the engine inside the actor; pickled, so no lambdas over open files.
        slots: How many actors at most; fewer where the cluster has fewer GPUs, see `notices`.
        gpus_per_slot: 0 in simulation.
        address: Of a running cluster; None starts a local one on loopback, without dashboard.
        lease_s: An actor that has not heard of the driver for so long stops its server.
        start_s: See `START_S` and `LOCAL_START_S`, which None means.
        find_uuids: See `GpuHolder`.

    Attributes:
        notices: What people should know of how the slots were placed, one line each.

    Raises:
        HostUnfit: The cluster has no room for one slot, now or at all; nothing is left waiting.
    """

    def __init__(
        self,
        factory: EngineFactory,
        *,
        slots: int = 1,
        gpus_per_slot: int = 0,
        address: str | None = None,
        lease_s: float = 20.0,
        start_s: float | None = None,
        find_uuids: FindUuids | None = None,
    ) -> None:
        self._factory = factory
        self._gpus = gpus_per_slot
        self._address = address
        self._lease_s = lease_s
        self._start_s = start_s or (LOCAL_START_S if address is None else START_S)
        self._find_uuids = find_uuids
        self._actors: dict[int, Any] = {}
        self._processes: dict[int, tuple[str, int]] = {}
        self._aborted: set[int] = set()
        self._closed = threading.Event()
        self._actors_lock = Replaceable()
        self._environment = {name: os.environ.get(name) for name in CHANGED_BY_RAY}
        self._ray = connect(address, with_gpus=gpus_per_slot > 0)
        self.notices: tuple[str, ...] = ()
        try:
            self._slots = self._place(slots)
        except BaseException:
            disconnect(self._ray, local=address is None)
            raise
        threading.Thread(target=self._beat, name="actor-lease", daemon=True).start()

    @property
    def slots(self) -> tuple[Slot, ...]:
        """See `Executor`. A slot keeps its index; its host and GPUs are those of its latest actor."""
        return self._slots

    def engine(self, slot: Slot) -> Engine:
        """See `Executor`."""
        if not 0 <= slot.index < len(self._slots):
            raise ValueError(f"`slot` must be one of {self._slots}, but got {slot}.")
        return RayEngine(self, slot.index)

    def abort(self, slot: Slot) -> None:
        """See `Executor`."""
        self._aborted.add(slot.index)
        self.tell(slot.index, "abort")

    def slot_is_clean(self, slot: Slot) -> bool:
        """See `Executor`; starts a fresh actor where the last one died, if a node has room for it."""
        try:
            return bool(self.call(slot.index, "is_clean"))
        except LaunchFailed:
            return False

    def close(self) -> None:
        """See `Executor`."""
        if self._closed.is_set():
            return
        self._closed.set()
        for actor in list(self._actors.values()):
            self._ray.kill(actor)
        disconnect(self._ray, local=self._address is None)

    def call(self, index: int, method: str, *args: object) -> Any:
        """Call the holder of a slot and wait; its own errors come back as they were raised.

        Raises:
            LaunchFailed: WORKER_LOST when the actor or its node died, it did not answer within
                `ANSWER_S`, or no node has room for a fresh one; RAY_INFRA when Ray itself died, and was started again.
            BreakerOpen: Ray died again, or is not ours to start.
        """
        lives = self._actors_lock.lives
        try:
            with self._actors_lock.entered():
                if index not in self._actors:
                    self._restart(index)
                return self._awaited(getattr(self._actors[index], method).remote(*args), method)
        except _Overdue as overdue:
            self._end(index, self._actors.pop(index))
            self._sweep_after(index)
            line = f"The Ray actor that held slot {index} was killed: {overdue}"
            raise LaunchFailed(Reason.WORKER_LOST, Evidence(line, phase=method)) from overdue
        except self._ray.exceptions.RayTaskError as error:
            raise self._failure(index, method, error) from None
        except (self._ray.exceptions.RayError, ConnectionError) as error:
            self._actors.pop(index, None)
            if not is_up(self._ray, local=self._address is None):
                self._actors_lock.once(lives, partial(self._revive, error))
                line = f"Ray itself failed and was started again: {_first_line(error)}"
                raise LaunchFailed(Reason.RAY_INFRA, Evidence(line, phase=method)) from error
            self._sweep_after(index)
            line = f"The Ray actor that held slot {index} died: {_first_line(error)}"
            raise LaunchFailed(Reason.WORKER_LOST, Evidence(line, phase=method)) from error

    def holds(self, index: int) -> bool:
        """Whether the slot has an actor that is not known to be dead."""
        return index in self._actors

    def tell(self, index: int, method: str) -> None:
        """Call the holder of a slot without waiting; a dead one is not an error."""
        with self._actors_lock.entered():
            if actor := self._actors.get(index):
                getattr(actor, method).remote()

    def _awaited(self, reference: Any, method: str) -> Any:
        began, limit_s = time.monotonic(), ANSWER_S.get(method, math.inf)
        while not self._ray.wait([reference], timeout=POLL_S)[0]:
            if not is_up(self._ray, local=self._address is None):
                raise ConnectionError("one of its own processes died.")
            if time.monotonic() - began > limit_s:
                raise _Overdue(f"waited {limit_s:g} s for its answer to `{method}`")
        return self._ray.get(reference)

    def _failure(self, index: int, method: str, error: Any) -> BaseException:
        """What the holder raised, in the driver's eyes."""
        if isinstance(error.cause, Interrupted) and index not in self._aborted:
            # Its lease ran out while this process was stopped or cut off; it leaves in a moment.
            self._actors.pop(index, None)
            line = f"The Ray actor that held slot {index} had not heard of this program for {self._lease_s:g} s."
            return LaunchFailed(Reason.WORKER_LOST, Evidence(line, phase=method))
        return error.cause if isinstance(error.cause, SearchError) else error

    def _place(self, wanted: int) -> tuple[Slot, ...]:
        fit = slots_that_fit(self._ray, slots=wanted, gpus_per_slot=self._gpus)
        actors = [self._new_actor(index) for index in range(fit)]
        asked = {actor.describe.remote(): actor for actor in actors}
        ready, late = self._ray.wait(list(asked), num_returns=fit, timeout=self._start_s)
        for reference in late:
            self._ray.kill(asked[reference])
        placed = [reference for reference in asked if reference in ready]
        if not placed:
            raise HostUnfit((self._no_room(),))
        slots = []
        # Indices without gaps: whoever was late is not waited for again.
        for index, reference in enumerate(placed):
            self._actors[index] = asked[reference]
            slot, pid = self._described(reference)
            self._processes[index] = (slot.host, pid)
            slots.append(replace(slot, index=index))
        if len(slots) < wanted:
            self.notices = (
                f"{len(slots)} of the study's {wanted} slots are used: the Ray cluster has no more room for "
                f"{self._gpus} GPUs on one node.",
            )
        return tuple(slots)

    def _described(self, reference: Any) -> tuple[Slot, int]:
        try:
            return self._ray.get(reference)  # type: ignore[no-any-return]
        except self._ray.exceptions.RayTaskError as error:
            raise (error.cause if isinstance(error.cause, SearchError) else error) from None

    def _restart(self, index: int) -> None:
        """A fresh actor for a slot whose last one died.

        Raises:
            LaunchFailed: WORKER_LOST when none came up in time.
        """
        actor = self._new_actor(index)
        try:
            slot, pid = self._ray.get(actor.describe.remote(), timeout=self._start_s)
        except self._ray.exceptions.GetTimeoutError:
            self._ray.kill(actor)
            raise LaunchFailed(Reason.WORKER_LOST, Evidence(self._no_room(), phase="placement")) from None
        except self._ray.exceptions.RayTaskError as error:
            if not isinstance(error.cause, HostUnfit):
                raise
            # The node that had room is no good; the study goes on with the other slots.
            raise LaunchFailed(Reason.WORKER_LOST, Evidence(str(error.cause), phase="placement")) from None
        self._actors[index] = actor
        self._processes[index] = (slot.host, pid)
        self._slots = (*self._slots[:index], replace(slot, index=index), *self._slots[index + 1 :])

    def _new_actor(self, index: int) -> Any:
        actor_class = self._ray.remote(
            num_cpus=0,
            num_gpus=self._gpus,
            max_restarts=0,
            # Control calls (abort, heartbeat) must come through while a launch or a phase blocks.
            concurrency_groups={"control": 4},
        )(_with_control_group(self._ray))
        if self._address is not None:  # the workers of a cluster do not inherit from us
            actor_class = actor_class.options(runtime_env={"env_vars": GUARDIANS_LIVE})
        return actor_class.remote(
            self._factory,
            index=index,
            gpu_count=self._gpus,
            lease_s=self._lease_s,
            environment=self._environment,
            find_uuids=self._find_uuids,
        )

    def _no_room(self) -> str:
        if self._address is None:
            return (
                f"Ray on this host: no worker of it started within {self._start_s:g} s, as happens where other programs leave it "
                "no processor or memory (`uptime`, `free`). Run the same command again when they are done, or with `--executor inline`."
            )
        return (
            f"GPUs in the Ray cluster: no {self._gpus} of one node came free within {self._start_s:g} s. "
            "`ray status` shows who holds them."
        )

    def _revive(self, error: Exception) -> None:
        """Start a local Ray once more; nobody is in it.

        Raises:
            BreakerOpen: See `call`.
        """
        if self._address is not None or self._actors_lock.lives >= MAX_REVIVALS or self._closed.is_set():
            whose = "The Ray cluster" if self._address else "Ray"
            raise BreakerOpen(
                f"{whose} failed: {_first_line(error)} Look at its logs (/tmp/ray/session_latest/logs on its host), "
                "then run the same command again; what was measured is kept."
            ) from error
        self._actors.clear()
        disconnect(self._ray, local=True)
        self._ray = in_lasting_thread(partial(connect, None, with_gpus=self._gpus > 0))

    def _sweep_after(self, index: int) -> None:
        """Stop what a dead actor of this host left: its guardian does, unless that was stopped too.

        Ray reports a death it ordered before the process is gone, and until then its server
        counts as guarded.
        """
        host, pid = self._processes[index]
        if host != socket.gethostname():
            return
        end = time.monotonic() + EXIT_S
        while (process := process_table({pid}).get(pid)) and process.alive and time.monotonic() < end:
            time.sleep(0.05)
        quiet_since, end = time.monotonic(), time.monotonic() + EXIT_S
        while (now := time.monotonic()) < min(end, quiet_since + QUIET_S):
            # A process that was forking while its parent was killed shows up a moment later, under another pid.
            if reap_orphans(grace_s=0.0)[0]:
                quiet_since = now
            time.sleep(0.05)

    def _beat(self) -> None:
        pulses: dict[int, _Pulse] = {}
        while not self._closed.wait(self._lease_s / 6):
            with self._actors_lock.entered():
                for index, actor in list(self._actors.items()):
                    try:
                        pulses[index] = self._beaten(index, actor, pulses.get(index))
                    except Exception as error:  # noqa: BLE001
                        _log.debug("no heartbeat to an actor: %s", error)  # whoever calls it next meets the cause

    def _beaten(self, index: int, actor: Any, last: _Pulse | None) -> _Pulse:
        """Send a heartbeat once the last one was answered; end an actor that has been silent for a lease.

        A stopped process (SIGSTOP, a frozen container) closes no connection, so Ray waits for it
        without end. Its guardian gives its server up after the same time.
        """
        now = time.monotonic()
        if last is None or last.actor is not actor or self._ray.wait([last.answer], timeout=0)[0]:
            return _Pulse(actor, actor.beat.remote(), now)
        if now - last.sent > self._lease_s:
            _log.warning("the actor that holds slot %d has been silent for %g s and is killed", index, self._lease_s)
            self._end(index, actor)
        return last

    def _end(self, index: int, actor: Any) -> None:
        """Kill an actor that does not answer: Ray's own kill asks the process."""
        host, pid = self._processes[index]
        if host == socket.gethostname():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self._ray.kill(actor)


def _with_control_group(ray: Any) -> type[GpuHolder]:
    """`GpuHolder` with its control calls in a concurrency group of their own."""

    class Holder(GpuHolder):
        @ray.method(concurrency_group="control")  # type: ignore[untyped-decorator]
        def abort(self) -> None:
            super().abort()

        @ray.method(concurrency_group="control")  # type: ignore[untyped-decorator]
        def beat(self) -> None:
            super().beat()

    Holder.__name__ = Holder.__qualname__ = "GpuHolder"
    return Holder


def _first_line(error: BaseException) -> str:
    """The cause among the lines of Ray's longer texts, without the advice that follows it."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    cause = next((line for line in lines if "because" in line), lines[0] if lines else type(error).__name__)
    return cause.partition(" Worker exit type:")[0]
