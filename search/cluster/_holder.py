"""Runs inside a Ray actor: holds the GPUs of one slot and the one session on it."""

from __future__ import annotations

import os
import socket
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from search.cluster._files import Workplace
from search.config import SpecConfig
from search.contracts import EffectiveSettings, Engine, LaunchPaths, Phase, PhaseResult, Session, Slot, StopReport
from search.errors import HostUnfit, LaunchFailed
from search.host.nvml import gpu_memory_used
from search.outcomes import Evidence
from search.server.lease import LeaseTerms
from search.shape import Switched, SwitchFailed

EngineFactory = Callable[[], Engine]
FindUuids = Callable[[int], tuple[str, ...]]


@dataclass(frozen=True, slots=True)
class SessionFacts:
    """What the driver's handle of a session answers without asking the actor."""

    effective: EffectiveSettings
    boot_s: float
    holds: tuple[SpecConfig, ...] = ()


class GpuHolder:
    """Holds one slot for a whole study; every public method is called through Ray.

    The driver renews a lease with `beat`. A driver that is stopped (SIGSTOP, a suspended
    terminal) closes no connection, so silence longer than `lease_s` ends what runs here, and
    this process: a driver that wakes up finds its worker lost and goes on with a fresh one.

    Args:
        factory: Builds the engine.
        index: Of the slot.
        gpu_count: How many GPUs Ray lent to this actor.
        lease_s: See above.
        environment: Values to restore, because Ray changed them for its workers and servers
            would inherit them; None unsets.
        leave: Ends this process; replaced in tests.
        find_uuids: UUIDs of so many GPUs that Ray lent; replaced in tests, whose GPUs exist on paper only.
    """

    def __init__(
        self,
        factory: EngineFactory,
        *,
        index: int,
        gpu_count: int,
        lease_s: float,
        environment: Mapping[str, str | None] | None = None,
        leave: Callable[[], object] = lambda: os._exit(1),
        find_uuids: FindUuids | None = None,
    ) -> None:
        _restore(environment or {})
        self._leave = leave
        self._engine = factory()
        self._slot = Slot(index, gpu_uuids=(find_uuids or _own_gpu_uuids)(gpu_count), host=socket.gethostname())
        self._session: Session | None = None
        self._workplaces: dict[LaunchPaths, Workplace] = {}
        self._driver_host = ""
        self._lease_s = lease_s
        self._last_beat = time.monotonic()
        threading.Thread(target=self._watch_driver, name="driver-lease", daemon=True).start()

    def describe(self) -> tuple[Slot, int]:
        """The slot, GPUs by UUID, and this actor's process id."""
        return self._slot, os.getpid()

    def launch(
        self, config: SpecConfig, paths: LaunchPaths, driver_host: str, holds: tuple[SpecConfig, ...] = ()
    ) -> SessionFacts:
        """See `Engine.launch`; the session stays here.

        Args:
            config: What to launch.
            paths: The driver's, absolute; where they are not here, `collect` sends the files home.
            driver_host: Host name of the driver.
            holds: What the start is to be able to switch to.
        """
        self._driver_host = driver_host
        self._workplaces = {paths: Workplace(paths, driver_host)}
        try:
            self._session = self._engine.launch(
                config, slot=self._slot, paths=self._workplaces[paths].paths, holds=holds
            )
        except LaunchFailed as error:
            raise self._at_home(error) from error
        return _facts(self._session)

    def measure(self, phase: Phase, repeat: int) -> PhaseResult:
        """See `Session.measure`."""
        try:
            return self._open("measure").measure(phase, repeat)
        except LaunchFailed as error:
            raise self._at_home(error) from error

    def switch(self, config: SpecConfig, paths: LaunchPaths) -> tuple[Switched, SessionFacts]:
        """See `Session.switch`; and the facts that hold from then on.

        Args:
            config: What to switch to.
            paths: The driver's, absolute, as in `launch`.
        """
        session = self._open("switch")
        self._workplaces[paths] = Workplace(paths, self._driver_host)
        try:
            return session.switch(config, paths=self._workplaces[paths].paths), _facts(session)
        except SwitchFailed as error:
            evidence = error.evidence and self._evidence_at_home(error.evidence)
            raise SwitchFailed(error.reason, error.usable, error.cause, evidence) from error

    def close(self) -> StopReport:
        """See `Session.close`; without a session there is nothing to stop."""
        session, self._session = self._session, None
        return session.close() if session else StopReport(clean=True, duration_s=0.0)

    def collect(self, paths: LaunchPaths) -> dict[str, bytes]:
        """Files of a measurement that ended, by name; nothing where the driver's own folder was written to."""
        workplace = self._workplaces.pop(paths, None)
        return workplace.pack() if workplace else {}

    def is_clean(self) -> bool:
        """Whether no memory is in use on this slot's GPUs, beyond what a driver keeps for itself."""
        if self._session is not None:
            return False
        if not self._slot.gpu_uuids:
            return True
        used = gpu_memory_used(self._slot.gpu_uuids)
        return used is not None and max(used.values()) < LeaseTerms().foreign_bytes

    def abort(self) -> None:
        """Make a `launch` or `measure` that is running raise `Interrupted` soon."""
        # Simulated and replayed engines answer at once and have nothing to abort.
        abort = getattr(self._engine, "abort", None)
        if abort is not None:
            abort()

    def beat(self) -> None:
        """Records a heartbeat of the driver."""
        self._last_beat = time.monotonic()

    def _open(self, method: str) -> Session:
        if self._session is None:
            raise RuntimeError(f"`{method}` needs a session, but none is open on this slot. Call `launch` first.")
        return self._session

    def _at_home(self, error: LaunchFailed) -> LaunchFailed:
        """The failure with files where they will be read."""
        return type(error)(error.reason, self._evidence_at_home(error.evidence), error.spent_s, error.leftovers)

    def _evidence_at_home(self, evidence: Evidence) -> Evidence:
        for workplace in self._workplaces.values():
            evidence = workplace.as_at_home(evidence)
        return evidence

    def _watch_driver(self) -> None:
        while True:
            time.sleep(self._lease_s / 6)
            if time.monotonic() - self._last_beat > self._lease_s:
                self.abort()
                self.close()
                self._leave()
                return


def _facts(session: Session) -> SessionFacts:
    return SessionFacts(session.effective, session.boot_s, session.holds)


def _restore(environment: Mapping[str, str | None]) -> None:
    for name, value in environment.items():
        if value is None:
            os.environ.pop(name, None)
        else:
            os.environ[name] = value


def _own_gpu_uuids(count: int) -> tuple[str, ...]:
    """UUIDs of the GPUs Ray lent to this actor.

    Indices shift with `CUDA_VISIBLE_DEVICES` and between NVML and CUDA; UUIDs do not.

    Raises:
        HostUnfit: A lent GPU has no UUID here, or is a MIG slice.
    """
    if count == 0:
        return ()
    import pynvml
    import ray

    lent = [str(gpu) for gpu in ray.get_gpu_ids()]
    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError as error:
        raise HostUnfit(
            (f"GPUs {', '.join(lent)} of {socket.gethostname()}: NVIDIA's driver says: {error}.",)
        ) from error
    try:
        uuids = tuple(_uuid_of(pynvml, gpu) for gpu in lent)
        for uuid in uuids:
            _refuse_sliced(pynvml, uuid)
        return uuids
    finally:
        pynvml.nvmlShutdown()


def _uuid_of(pynvml: Any, gpu: str) -> str:
    if gpu.startswith("MIG-"):
        raise HostUnfit(
            (f"GPU {gpu} is a MIG slice; a slot needs whole GPUs. Leave it out of `CUDA_VISIBLE_DEVICES`.",)
        )
    if gpu.startswith("GPU-"):
        return gpu
    return str(pynvml.nvmlDeviceGetUUID(pynvml.nvmlDeviceGetHandleByIndex(int(gpu))))


def _refuse_sliced(pynvml: Any, uuid: str) -> None:
    """A GPU in MIG mode has a UUID too, but a server on it sees a slice or nothing."""
    try:
        mode, _ = pynvml.nvmlDeviceGetMigMode(pynvml.nvmlDeviceGetHandleByUUID(uuid))
    except pynvml.NVMLError:
        return  # GPUs that cannot be sliced do not answer
    if mode == pynvml.NVML_DEVICE_MIG_ENABLE:
        raise HostUnfit((f"GPU {uuid} is in MIG mode; a slot needs whole GPUs. Switch MIG off, or leave the GPU out.",))
