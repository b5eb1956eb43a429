"""The executor whose slots are held by Ray actors, and the driver's handles on what runs there."""

from __future__ import annotations

import logging
import os
import threading
from typing import Any

from search.cluster._holder import EngineFactory, GpuHolder, SessionFacts
from search.config import SpecConfig
from search.contracts import (
    EffectiveSettings,
    Engine,
    LaunchPaths,
    Phase,
    PhaseResult,
    SelfClosing,
    Session,
    Slot,
    StopReport,
)
from search.errors import HostUnfit, LaunchFailed, SearchError
from search.outcomes import Evidence, Reason

CHANGED_BY_RAY = ("OMP_NUM_THREADS", "PYTHONBREAKPOINT")
"""What Ray 2.60 sets for its workers: one OpenMP thread would slow a server's tokenizer and loader."""

OBJECT_STORE_BYTES = 100 * 2**20
"""Nothing large passes through Ray here; its default would claim a third of the host's memory."""


class RayExecutor(SelfClosing):
    """Holds `slots` slots of `gpus_per_slot` GPUs each in Ray actors.

    Args:
        factory: Builds the engine inside the actor; pickled, so no lambdas over open files.
        slots: How many actors.
        gpus_per_slot: 0 in simulation.
        address: Of a running cluster; None starts a local one on loopback, without dashboard.
        lease_s: An actor that has not heard of the driver for so long stops its server.

    Raises:
        HostUnfit: The cluster has fewer GPUs than asked; nothing is left waiting for them.
    """

    def __init__(
        self,
        factory: EngineFactory,
        *,
        slots: int = 1,
        gpus_per_slot: int = 0,
        address: str | None = None,
        lease_s: float = 30.0,
    ) -> None:
        self._factory = factory
        self._gpus = gpus_per_slot
        self._lease_s = lease_s
        self._actors: dict[int, Any] = {}
        self._closed = threading.Event()
        self._environment = {name: os.environ.get(name) for name in CHANGED_BY_RAY}
        self._ray = _connect(address, with_gpus=gpus_per_slot > 0)
        try:
            self._check_gpus(slots)
            self._slots = tuple(self._start(index) for index in range(slots))
        except BaseException:
            self._ray.shutdown()
            raise
        threading.Thread(target=self._beat, name="actor-lease", daemon=True).start()

    @property
    def slots(self) -> tuple[Slot, ...]:
        """See `Executor`."""
        return self._slots

    def engine(self, slot: Slot) -> Engine:
        """See `Executor`."""
        if slot not in self._slots:
            raise ValueError(f"`slot` must be one of {self._slots}, but got {slot}.")
        return _RayEngine(self, slot)

    def close(self) -> None:
        """See `Executor`."""
        if self._closed.is_set():
            return
        self._closed.set()
        for actor in self._actors.values():
            self._ray.kill(actor)
        self._ray.shutdown()

    def call(self, slot: Slot, method: str, *args: object) -> Any:
        """Call the holder of `slot` and wait; its own errors come back as they were raised.

        Raises:
            LaunchFailed: WORKER_LOST when the actor or its node died. The next launch on the
                slot gets a fresh actor.
        """
        exceptions = self._ray.exceptions
        if slot.index not in self._actors:
            self._start(slot.index)
        try:
            return self._ray.get(getattr(self._actors[slot.index], method).remote(*args))
        except exceptions.RayTaskError as error:
            if isinstance(error.cause, SearchError):
                raise error.cause from None
            raise
        except exceptions.RayActorError as error:
            self._actors.pop(slot.index, None)
            line = f"The Ray actor that held slot {slot.index} died: {str(error).splitlines()[0]}"
            raise LaunchFailed(Reason.WORKER_LOST, Evidence(line, phase=method)) from error

    def tell(self, slot: Slot, method: str) -> None:
        """Call the holder of `slot` without waiting; a dead one is not an error."""
        if actor := self._actors.get(slot.index):
            getattr(actor, method).remote()

    def _start(self, index: int) -> Slot:
        actor_class = self._ray.remote(
            num_cpus=0,
            num_gpus=self._gpus,
            max_restarts=0,
            # Control calls (abort, beat) must come through while a launch or a phase blocks.
            concurrency_groups={"control": 4},
        )(_with_control_group(self._ray))
        actor = actor_class.remote(
            self._factory, index=index, gpus=self._gpus, lease_s=self._lease_s, environment=self._environment
        )
        self._actors[index] = actor
        try:
            slot, _ = self._ray.get(actor.describe.remote())
        except self._ray.exceptions.RayTaskError as error:
            raise (error.cause if isinstance(error.cause, SearchError) else error) from None
        return slot  # type: ignore[no-any-return]

    def _check_gpus(self, slots: int) -> None:
        wanted = slots * self._gpus
        found = int(self._ray.cluster_resources().get("GPU", 0))
        if found < wanted:
            raise HostUnfit((f"GPUs in the Ray cluster: {wanted} are needed, {found} are there.",))

    def _beat(self) -> None:
        while not self._closed.wait(self._lease_s / 6):
            for actor in list(self._actors.values()):
                actor.beat.remote()


class _RayEngine:
    """An engine whose sessions live in the actor that holds the slot."""

    def __init__(self, executor: RayExecutor, slot: Slot) -> None:
        self._executor = executor
        self._slot = slot

    def launch(self, config: SpecConfig, *, slot: Slot, paths: LaunchPaths) -> Session:
        """See `Engine`."""
        if slot != self._slot:
            raise ValueError(f"This engine launches on {self._slot}, but got {slot}.")
        try:
            facts = self._executor.call(slot, "launch", config, paths)
        except SearchError:
            raise
        except BaseException:
            # Ctrl-C while the actor is starting a server: no session has come back to close.
            self._executor.tell(slot, "abort")
            self._executor.call(slot, "close")
            raise
        return _RaySession(self._executor, slot, facts)


class _RaySession(SelfClosing):
    """The driver's handle on a session in an actor."""

    def __init__(self, executor: RayExecutor, slot: Slot, facts: SessionFacts) -> None:
        self._executor = executor
        self._slot = slot
        self._facts = facts
        self._report: StopReport | None = None

    @property
    def effective(self) -> EffectiveSettings:
        """See `Session`."""
        return self._facts.effective

    @property
    def boot_s(self) -> float:
        """See `Session`."""
        return self._facts.boot_s

    def measure(self, phase: Phase, repeat: int) -> PhaseResult:
        """See `Session`."""
        try:
            return self._executor.call(self._slot, "measure", phase, repeat)  # type: ignore[no-any-return]
        except SearchError:
            raise
        except BaseException:
            self._executor.tell(self._slot, "abort")
            raise

    def close(self) -> StopReport:
        """See `Session`."""
        if self._report is None:
            self._report = self._executor.call(self._slot, "close")
        return self._report


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


def _connect(address: str | None, *, with_gpus: bool) -> Any:
    # All of these are read when Ray is first imported.
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    # An actor that asks for no GPU keeps the variable it inherited, as Ray will do by default.
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
    # A launch that Ctrl-C abandoned ends with an error that nobody waits for any more.
    os.environ.setdefault("RAY_IGNORE_UNHANDLED_ERRORS", "1")
    # The raylet's notices would land on stdout among results; what they tell (an actor died)
    # comes back as an exception, and their text stays in Ray's own logs.
    os.environ.setdefault("RAY_DEDUP_LOGS_SKIP_REGEX", ".")
    if address is None:
        # Ray resolves 127.0.0.1 to the host's address and listens on all interfaces, unless it
        # believes that it cannot form a cluster (ray 2.60 `_private/services.py`).
        os.environ.setdefault("RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER", "0")
    import ray

    options: dict[str, Any] = {"log_to_driver": False, "logging_level": logging.ERROR}
    if address is None:
        options |= {"include_dashboard": False, "object_store_memory": OBJECT_STORE_BYTES}
        if not with_gpus:
            options["num_gpus"] = 0  # else Ray looks for them itself
    ray.init(address=address or "local", namespace="search", **options)
    return ray
