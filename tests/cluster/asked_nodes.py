"""A program for a process of its own: asks the two nodes of a cluster on paper, and prints what they say."""

import os
import sys
import time

from quick_ray import LEAN

from search.cluster import ask_nodes
from search.errors import HostUnfit

NODES = {}


def where():
    import ray

    return ray.get_runtime_context().get_node_id(), os.environ.get("CUDA_VISIBLE_DEVICES")


def breaks():
    raise OSError("no such disk")


def sleeps():
    time.sleep(60)


def main():
    os.environ |= {"RAY_USAGE_STATS_ENABLED": "0"}
    from ray.cluster_utils import Cluster

    cluster = Cluster()
    for gpus in (4, 4, 0):
        cluster.add_node(num_cpus=1, num_gpus=gpus, **LEAN)
    cluster.wait_for_nodes()
    answers = ask_nodes(cluster.address, where, gpus_per_slot=2)
    print("asked:", len(answers), len({node for node, _ in answers.values()}), {gpus for _, gpus in answers.values()})
    for question, limit in ((breaks, 60), (sleeps, 5)):
        try:
            ask_nodes(cluster.address, question, gpus_per_slot=2, timeout_s=limit)
        except HostUnfit as error:
            print(f"{question.__name__}:", len(error.missing), error.missing[0].partition(" ")[2].partition(" ")[2])
    cluster.shutdown()


if __name__ == "__main__":
    sys.exit(main())
