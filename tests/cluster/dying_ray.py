"""A program for a process of its own: kills one of its local Ray's own processes, twice, under a phase.

Prints one line per fact; `test_cluster_nodes.py` reads them.
"""

import os
import sys
import tempfile
import threading
from pathlib import Path

import psutil
from quick_ray import SOON_DEAD, local_without_helpers

from search.cluster import RayExecutor, _cluster
from search.config import SpecConfig
from search.contracts import EffectiveSettings, LaunchPaths, OneConfigSession, Phase, StopReport
from search.errors import SearchError

OFF = SpecConfig("off")


class Session(OneConfigSession):
    boot_s = 3.0
    effective = EffectiveSettings(OFF)

    def measure(self, phase, repeat):
        threading.Event().wait(120)

    def close(self):
        return StopReport(clean=True, duration_s=0.1)


class Engine:
    def launch(self, config, *, slot, paths, holds=()):
        return Session()


def kill(name):
    for process in psutil.Process().children(recursive=True):
        if process.name().startswith(name):
            process.kill()


def main(name, folder):
    with RayExecutor(Engine) as executor:
        (slot,) = executor.slots
        paths = LaunchPaths(Path(folder))
        for turn in ("first", "second"):
            session = executor.engine(slot).launch(OFF, slot=slot, paths=paths)
            threading.Timer(1.0, kill, (name,)).start()
            try:
                session.measure(Phase(1, requests=1, output_tokens=16), 1)
            except SearchError as error:
                print(f"{turn}:", str(error).splitlines()[0])
            if turn == "first":
                with executor.engine(slot).launch(OFF, slot=slot, paths=paths) as between:
                    print("between:", between.boot_s)


if __name__ == "__main__":
    os.environ |= SOON_DEAD
    _cluster.SHUTDOWN_S = 3.0
    local_without_helpers()
    with tempfile.TemporaryDirectory() as folder:
        main(sys.argv[1], folder)
