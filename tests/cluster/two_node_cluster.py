"""A Ray cluster of two nodes with four GPUs each, on paper: prints its address, and ends with its input."""

import os
import sys

from quick_ray import LEAN


def main():
    os.environ |= {"RAY_USAGE_STATS_ENABLED": "0"}
    from ray.cluster_utils import Cluster

    cluster = Cluster()
    for _ in range(2):
        cluster.add_node(num_cpus=4, num_gpus=4, **LEAN)
    cluster.wait_for_nodes()
    print(cluster.address, flush=True)
    sys.stdin.read()
    cluster.shutdown()


if __name__ == "__main__":
    main()
