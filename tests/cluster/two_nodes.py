"""A program for a process of its own: four slots on a Ray cluster of two nodes that exist on paper only.

Prints one line per fact; `test_cluster_nodes.py` reads them.
"""

import os
import sys
import threading
from pathlib import Path

from quick_ray import LEAN, SOON_DEAD

from search.cluster import RayExecutor
from search.config import SpecConfig
from search.contracts import EffectiveSettings, LaunchPaths, OneConfigSession, StopReport
from search.errors import HostUnfit, LaunchFailed, SearchError
from search.outcomes import Evidence, Reason

OFF, CHAIN = SpecConfig("off"), SpecConfig("v2", 1, 2, 3)


class Session(OneConfigSession):
    boot_s = 1.0

    def __init__(self, config):
        import ray

        node = ray.get_runtime_context().get_node_id()
        self.effective = EffectiveSettings(config, release=f"{os.getpid()}", details=(("node", node),))

    def close(self):
        return StopReport(clean=True, duration_s=0.1)


class Engine:
    def launch(self, config, *, slot, paths, holds=()):
        paths.server_log.write_bytes(b"a server of slot %d\n" % slot.index)
        paths.command.write_text("#!/bin/sh\n")
        if config == CHAIN:
            raise LaunchFailed(Reason.OOM_KV, Evidence("no room", log_path=str(paths.server_log)))
        return Session(config)


def paper_gpus(count):
    return tuple(f"GPU-{os.getpid()}-{index}" for index in range(count))


def main(folder):
    os.environ |= {"RAY_USAGE_STATS_ENABLED": "0", "RAY_DEDUP_LOGS_SKIP_REGEX": ".", **SOON_DEAD}
    import ray
    from ray.cluster_utils import Cluster

    cluster = Cluster()
    cluster.add_node(num_cpus=1, num_gpus=4, **LEAN)
    second = cluster.add_node(num_cpus=1, num_gpus=4, **LEAN)
    cluster.wait_for_nodes()
    options = {"gpus_per_slot": 2, "address": cluster.address, "find_uuids": paper_gpus}
    try:
        RayExecutor(Engine, slots=1, **{**options, "gpus_per_slot": 6})
    except HostUnfit as error:
        print("unfit:", error)
    with RayExecutor(Engine, slots=6, lease_s=60, **options) as executor:
        print("notices:", *executor.notices)
        print("slots:", len(executor.slots), len({uuid for slot in executor.slots for uuid in slot.gpu_uuids}))
        nodes = {}
        for slot in executor.slots:
            home = LaunchPaths(Path(folder) / f"{slot.index}")  # not made: the holder works elsewhere
            with executor.engine(slot).launch(OFF, slot=slot, paths=home) as session:
                nodes[slot.index] = dict(session.effective.details)["node"]
            print("home:", slot.index, home.server_log.read_text().strip(), os.access(home.command, os.X_OK))
        print("nodes:", len(set(nodes.values())))
        failed = LaunchPaths(Path(folder) / "failed")
        try:
            executor.engine(executor.slots[0]).launch(CHAIN, slot=executor.slots[0], paths=failed)
        except LaunchFailed as error:
            print(
                "failed:", error.reason, error.evidence.log_path == str(failed.server_log), failed.server_log.is_file()
            )
        lost = [index for index, node in nodes.items() if node == second.node_id]
        cluster.remove_node(second, allow_graceful=False)
        while any(node["Alive"] and node["NodeID"] == second.node_id for node in ray.nodes()):
            threading.Event().wait(0.2)
        causes = []

        def launch(slot, index):
            home = LaunchPaths(Path(folder) / f"after-{index}")
            try:
                executor.engine(slot).launch(OFF, slot=slot, paths=home).close()
                causes.append((index, "fine"))
            except SearchError as error:
                causes.append((index, str(error.reason)))

        threads = [threading.Thread(target=launch, args=(slot, slot.index)) for slot in executor.slots]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        print("after:", len(lost), all((cause != "fine") == (index in lost) for index, cause in causes))
        print("causes:", *sorted({cause for _, cause in causes}))
        slot = executor.slots[lost[0]]
        executor._start_s = 2  # the first actors had all the time they need; for these there is no room
        try:
            executor.engine(slot).launch(OFF, slot=slot, paths=failed)
        except LaunchFailed as error:
            print("again:", error)
        print("clean:", executor.slot_is_clean(slot))
    cluster.shutdown()


if __name__ == "__main__":
    main(sys.argv[1])
