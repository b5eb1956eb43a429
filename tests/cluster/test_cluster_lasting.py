"""A process that dies with the thread that started it lives on where that thread lasts."""

import ctypes
import signal
import subprocess
import sys
import threading

import pytest

from search.cluster._lasting import in_lasting_thread

PR_SET_PDEATHSIG = 1


def fated():
    """A process that asks to die with its parent, as Ray's own do."""
    libc = ctypes.CDLL(None)
    return subprocess.Popen(
        [sys.executable, "-c", "import time; print('up', flush=True); time.sleep(60)"],
        stdout=subprocess.PIPE,
        preexec_fn=lambda: libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL),
    )


def started_by_a_thread_that_ends(start):
    held = []
    thread = threading.Thread(target=lambda: held.append(start()))
    thread.start()
    thread.join()
    return held[0]


@pytest.mark.skipif(sys.platform != "linux", reason="a rule of Linux")
@pytest.mark.parametrize(
    ("start", "lives"), [(fated, False), (lambda: in_lasting_thread(fated), True)], ids=["plain", "lasting"]
)
def test_process_lives_on_only_where_the_thread_that_started_it_lasts(start, lives):
    with started_by_a_thread_that_ends(start) as process:
        try:
            if lives:
                assert process.stdout.readline() == b"up\n"
                with pytest.raises(subprocess.TimeoutExpired):
                    process.wait(0.5)
            else:
                assert process.wait(10) == -signal.SIGKILL
        finally:
            process.kill()


def test_what_the_work_raises_is_raised_where_it_was_asked_for():
    with pytest.raises(ZeroDivisionError):
        in_lasting_thread(lambda: 1 / 0)
    assert in_lasting_thread(lambda: 7) == 7
