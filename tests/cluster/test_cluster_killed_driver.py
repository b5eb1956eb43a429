"""A driver that is killed leaves nothing of its servers, not even what hid from them, and nobody has to clean up."""

import os
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from fake_servers import servers_of

HERE = Path(__file__).parent
GONE_S = 15
"""Some 3 s on a quiet machine: Ray ends the actor, and the guardian sees its pipe close."""

pytestmark = pytest.mark.slow


def started(program, *words, **more):
    return subprocess.Popen(
        [sys.executable, str(HERE / program), *map(str, words)],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env={**os.environ, "PYTHONPATH": os.pathsep.join((str(HERE), str(HERE.parent.parent)))},
        start_new_session=True,
        **more,
    )


@pytest.fixture(params=["local", "cluster"])
def address(request):
    """Of Ray's: none for one of the driver's own, or that of a cluster that outlives it."""
    if request.param == "local":
        yield ()
        return
    with started("two_node_cluster.py", stdin=subprocess.PIPE) as cluster:
        yield (cluster.stdout.readline().decode().strip(),)
        cluster.stdin.close()
        cluster.wait(60)


def test_guardian_outlives_the_actor_and_stops_what_forked_twice(tmp_path, address):
    with started("killed_driver.py", tmp_path, *address) as driver:
        assert driver.stdout.readline() == b"ready\n"
        servers = servers_of(tmp_path)
        pids = {process.pid for process in servers}
        hidden = [process for process in servers if process.ppid() not in pids]
        assert len(servers) >= 4 and len(hidden) == 2  # the launcher, and what left its tree
        driver.kill()
    end = time.monotonic() + GONE_S
    while left := servers_of(tmp_path):
        assert time.monotonic() < end, [(process, process.cmdline()) for process in left]
        threading.Event().wait(0.1)


def test_closed_terminal_leaves_ray_alive_and_its_workers_are_as_nice_as_the_driver():
    with started("hung_up.py") as driver:
        said, _ = driver.communicate(timeout=240)
    assert (said, driver.returncode) == (b"True True True\n", 130)
