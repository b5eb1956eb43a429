"""A command on a local Ray whose terminal closes: says whether Ray lives, still starts a worker, and as nice as itself."""

import os
import signal
import time

from search.cluster._cluster import connect, disconnect, is_up
from search.study.signals import Interrupts, interruptible


def _worker() -> tuple[int, int]:
    return os.getpid(), os.nice(0)


def work(interrupts: Interrupts) -> None:
    """Start Ray, wait for SIGHUP, and look whether Ray is there to be stopped in order."""
    with interrupts.held():
        ray = connect(None, with_gpus=False)
        os.killpg(0, signal.SIGHUP)
        while not interrupts.pressed:
            time.sleep(0.1)
        pid, niceness = ray.get(ray.remote(num_cpus=0)(_worker).remote(), timeout=60)
        print(is_up(ray, local=True), pid != os.getpid(), niceness == os.nice(0), flush=True)
        disconnect(ray, local=True)


if __name__ == "__main__":
    interruptible(work)
