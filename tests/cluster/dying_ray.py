"""A program for a process of its own: kills one of its local Ray's own processes, twice, under a phase.

Each launch has a thread of its own, as in a study: what Ray starts anew in one must live on in the next. Prints one line per fact; `test_cluster_nodes.py` reads them.
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


def in_a_thread_of_its_own(work):
    thread = threading.Thread(target=work)
    thread.start()
    thread.join()


def main(name, folder):
    with RayExecutor(Engine) as executor:
        (slot,) = executor.slots
        paths = LaunchPaths(Path(folder))

        def struck(turn):
            session = executor.engine(slot).launch(OFF, slot=slot, paths=paths)
            threading.Timer(1.0, kill, (name,)).start()
            try:
                session.measure(Phase(1, requests=1, output_tokens=16), 1)
            except SearchError as error:
                print(f"{turn}:", str(error).splitlines()[0])

        def between():
            with executor.engine(slot).launch(OFF, slot=slot, paths=paths) as session:
                print("between:", session.boot_s)

        in_a_thread_of_its_own(lambda: struck("first"))
        in_a_thread_of_its_own(between)
        in_a_thread_of_its_own(lambda: struck("second"))


if __name__ == "__main__":
    os.environ |= SOON_DEAD
    _cluster.SHUTDOWN_S = 3.0
    local_without_helpers()
    with tempfile.TemporaryDirectory() as folder:
        main(sys.argv[1], folder)
