"""Settings of Ray's own for the clusters of these tests: lean nodes, whose death is found out soon."""

from contextlib import contextmanager

from search.cluster import _cluster

SOON_DEAD = {
    "RAY_health_check_initial_delay_ms": "1000",
    "RAY_health_check_period_ms": "600",
    "RAY_health_check_timeout_ms": "2000",
}
"""A fifth of Ray 2.60's waits. A node counts as dead after five failed looks: a killed one after 3 s instead of 15,
one that is only busy has 2 s for each answer."""

LEAN = {"object_store_memory": 80 * 2**20, "include_dashboard": False, "include_log_monitor": False, "no_monitor": True}
"""Of a node on paper: nobody reads its logs or scales it, and each of Ray's helpers takes a second of processor time."""


def local_without_helpers():
    """Have our product start Ray without autoscaler, log monitor and API server: nobody asks them, and a start costs 2 s."""
    signals_kept = _cluster._signals_kept

    @contextmanager
    def kept():  # entered between Ray's import and its start
        from ray._private.node import Node

        for name in ("start_monitor", "start_log_monitor", "start_api_server"):
            setattr(Node, name, lambda self, **_: None)
        with signals_kept():
            yield

    _cluster._signals_kept = kept
