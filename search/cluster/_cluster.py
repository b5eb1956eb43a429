"""Ray itself: connected to quietly, asked for room, distinguished from what runs on it."""

from __future__ import annotations

import logging
import os
import signal
import threading
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from search.cluster._reachable import check_address, check_temporary_folder
from search.errors import HostUnfit

CHANGED_BY_RAY = ("OMP_NUM_THREADS", "PYTHONBREAKPOINT")
"""What Ray 2.60 sets for its workers: one OpenMP thread would slow a server's tokenizer and loader."""

GUARDIANS_LIVE = {"RAY_kill_child_processes_on_worker_exit": "0"}
"""For workers: when a driver dies, Ray 2.60 ends its actors and kills their children, which are our guardians, before
they can stop what their servers left: a process that forked twice was then nobody's."""

OBJECT_STORE_BYTES = 100 * 2**20
"""Nothing large passes through Ray here; its default would claim a third of the host's memory."""

SHUTDOWN_S = 10.0
"""Ray's own shutdown takes one or two seconds, and for ever when its raylet is stopped (seen with Ray 2.60)."""

_log = logging.getLogger(__name__)
_VITAL = frozenset({"gcs_server", "raylet"})


def connect(address: str | None, *, with_gpus: bool) -> Any:
    """Ray, initialised: a running cluster, or a local one on loopback without dashboard.

    Raises:
        HostUnfit: The cluster cannot be reached, or a local one has no room or did not start.
    """
    if address is None:
        check_temporary_folder()
    else:
        check_address(address)
    # All of these are read when Ray is first imported.
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    # An actor that asks for no GPU keeps the variable it inherited, as Ray will do by default.
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
    # A launch that Ctrl-C abandoned ends with an error that nobody waits for any more.
    os.environ.setdefault("RAY_IGNORE_UNHANDLED_ERRORS", "1")
    # The raylet's notices would land on stdout among results; what they report (an actor died)
    # comes back as an exception, and their text stays in Ray's own logs.
    os.environ.setdefault("RAY_DEDUP_LOGS_SKIP_REGEX", ".")
    os.environ.update(GUARDIANS_LIVE)
    # Ray's own handler of fatal signals counts SIGTERM among them and ends the process with a stack trace.
    os.environ.setdefault("RAY_DISABLE_FAILURE_SIGNAL_HANDLER", "1")
    if address is None:
        # Ray gives its workers a niceness of 15 (ray 2.60, `worker_niceness` in `ray_config_def.h`); an actor's servers
        # inherit it, and on a busy host they were measured starving.
        os.environ.setdefault("RAY_worker_niceness", "0")
        # Ray resolves 127.0.0.1 to the host's address and listens on all interfaces, unless it
        # believes that it cannot form a cluster (ray 2.60 `_private/services.py`).
        os.environ.setdefault("RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER", "0")
    import ray

    options: dict[str, Any] = {"log_to_driver": False, "logging_level": logging.ERROR}
    if address is None:
        options |= {"include_dashboard": False, "object_store_memory": OBJECT_STORE_BYTES}
        if not with_gpus:
            options["num_gpus"] = 0  # else Ray looks for them itself
    with _signals_kept(), _hangups_blocked():
        try:
            ray.init(address=address or "local", namespace="search", **options)
        except (OSError, RuntimeError, ValueError, ray.exceptions.RayError) as error:
            raise HostUnfit((_not_started(address, error),)) from error
    return ray


def _not_started(address: str | None, error: Exception) -> str:
    said = " ".join(str(error).split()) or type(error).__name__
    if address is None:
        return (
            f"A local Ray did not start: {said[:400]}. Its logs are below `RAY_TMPDIR`, else /tmp, in "
            "ray/session_latest/logs; `--executor inline` does without Ray."
        )
    return (
        f"The Ray cluster at {address} did not take this program in: {said[:400]}. A node of it must run on this host."
    )


@contextmanager
def _signals_kept() -> Iterator[None]:
    """Undo that `ray.init` makes SIGTERM end the process at once (ray 2.60 `_private/worker.py`, main thread only)."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            if handler is not None:
                signal.signal(number, handler)


@contextmanager
def _hangups_blocked() -> Iterator[None]:
    """Keep the SIGHUP of a closed terminal from what is started meanwhile: Ray's processes are in this one's group.

    They inherit the mask, as they do for SIGINT, which Ray blocks itself. Without them nothing could be stopped in order.
    """
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGHUP})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def is_up(ray: Any, *, local: bool) -> bool:
    """Whether Ray itself is alive: its two processes here, or the node of a cluster that this driver is connected to.

    A dead raylet shows some 15 s after its death, as the death of every actor (seen with Ray 2.60).

    Args:
        ray: The module.
        local: Ray was started by this process.
    """
    try:
        if local:
            started = ray._private.worker._global_node
            return started is not None and not {kind for kind, _ in started.dead_processes()} & _VITAL
        own = ray.get_runtime_context().get_node_id()
        return any(node["NodeID"] == own and node["Alive"] for node in ray.nodes())
    except Exception:  # noqa: BLE001 - whatever a dead Ray answers with, it is not up
        return False


def disconnect(ray: Any, *, local: bool) -> None:
    """Leave Ray; a local one is gone afterwards, also when a stopped process of it never answers."""
    started = ray._private.worker._global_node if local else None
    daemons = [info.process for kind in started.all_processes.values() for info in kind] if started else []
    leaving = threading.Thread(target=ray.shutdown, name="ray-shutdown", daemon=True)
    leaving.start()
    leaving.join(SHUTDOWN_S)
    if leaving.is_alive():
        _log.warning("Ray did not shut down within %g s; its processes here are killed", SHUTDOWN_S)
        for daemon in daemons:
            daemon.kill()
        leaving.join(SHUTDOWN_S)


def places(ray: Any, gpus_per_slot: int) -> int:
    """How many slots the living nodes have room for: a server stays within one node."""
    return sum(int(count) // gpus_per_slot for count in gpus_by_node(ray).values())


def gpus_by_node(ray: Any) -> Mapping[str, float]:
    """GPUs of each living node, by its id."""
    return {
        str(node["NodeID"]): float(node["Resources"].get("GPU", 0)) for node in ray.nodes() if node.get("Alive", False)
    }


def slots_that_fit(ray: Any, *, slots: int, gpus_per_slot: int) -> int:
    """As many of `slots` as the cluster has GPUs for.

    Raises:
        HostUnfit: Not even one fits; nothing is left waiting for GPUs that will never come.
    """
    if gpus_per_slot == 0:
        return slots
    fit = places(ray, gpus_per_slot)
    if fit == 0:
        counts = [int(count) for count in gpus_by_node(ray).values()]
        raise HostUnfit((_too_few(gpus_per_slot, counts),))
    return min(slots, fit)


def _too_few(wanted: int, counts: Iterable[int]) -> str:
    found, largest = sum(counts := list(counts)), max(counts, default=0)
    if found < wanted:
        return f"GPUs in the Ray cluster: {wanted} are needed, {found} are there."
    return f"GPUs in the Ray cluster: {wanted} on one node are needed, but the largest node has {largest}."
