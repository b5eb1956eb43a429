"""Two users of one GPU: the second waits, then is told who the first is."""

import json
import os
import signal
import stat
import subprocess
import sys

import pytest
from server_helpers import FakeOs

from search.errors import Interrupted, LaunchFailed
from search.host.nvml import GpuUser
from search.outcomes import Blame, Reason
from search.server.lease import LeaseTerms, free_stale_locks, lease_gpus, lock_folder, wait_for_free_memory
from search.server.system import RealOs

TERMS = LeaseTerms(foreign_bytes=2**30, free_s=60.0, lock_s=2.0)
GIB = 2**30
HOLD = """
import sys, time
from pathlib import Path
from search.server.lease import LeaseTerms, lease_gpus
from search.server.system import RealOs
lease = lease_gpus(("GPU-a",), RealOs(), facts={"launch": "kimi/launches/0003-off"}, terms=LeaseTerms(), folder=Path(sys.argv[1]))
print("held", flush=True)
time.sleep(60)
"""


def lease(folder, *uuids, system=None, **facts):
    return lease_gpus(uuids, system or FakeOs(), facts=facts, terms=TERMS, folder=folder)


def test_second_lease_of_a_gpu_is_refused_and_names_the_first(tmp_path):
    held = lease(tmp_path / "locks", "GPU-a", launch="kimi/launches/0003-off", tag="0003-off-aa")
    fake = FakeOs()
    with pytest.raises(LaunchFailed) as caught:
        lease(tmp_path / "locks", "GPU-b", "GPU-a", system=fake)
    assert (caught.value.reason, caught.value.blame) == (Reason.HOST_BUSY, Blame.HOST)
    assert caught.value.evidence.root_line == (
        f"GPU GPU-a is in use by pid {os.getpid()}, launch kimi/launches/0003-off, tag 0003-off-aa"
    )
    assert fake.now == pytest.approx(2.0, abs=0.15)
    held.release()


def test_refused_lease_keeps_none_of_its_gpus(tmp_path):
    held = lease(tmp_path, "GPU-b")
    with pytest.raises(LaunchFailed):
        lease(tmp_path, "GPU-a", "GPU-b")
    lease(tmp_path, "GPU-a").release()
    held.release()


def test_released_gpu_can_be_leased_again_and_leaves_no_file(tmp_path):
    first = lease(tmp_path, "GPU-a")
    first.release()
    first.release()
    assert list(tmp_path.iterdir()) == []
    lease(tmp_path, "GPU-a").release()


def test_note_replaces_what_the_lock_file_says(tmp_path):
    held = lease(tmp_path, "GPU-a", launch="a much longer text than the next")
    held.note({"launch": "b"})
    assert json.loads((tmp_path / "GPU-a.lock").read_text()) == {"pid": os.getpid(), "launch": "b"}
    held.release()


def test_killed_holder_frees_its_gpus(tmp_path):
    holder = subprocess.Popen([sys.executable, "-c", HOLD, str(tmp_path)], stdout=subprocess.PIPE, env=os.environ)
    try:
        assert holder.stdout.readline() == b"held\n"
        with pytest.raises(LaunchFailed, match=f"pid {holder.pid}, launch kimi"):
            lease(tmp_path, "GPU-a")
        assert free_stale_locks(tmp_path) == ()
    finally:
        holder.send_signal(signal.SIGKILL)
        holder.wait()
        holder.stdout.close()
    lease(tmp_path, "GPU-a", system=RealOs()).release()


def test_lock_file_that_lost_its_holder_is_removed_as_stale(tmp_path):
    (tmp_path / "GPU-a.lock").write_text('{"pid": 1}')
    held = lease(tmp_path, "GPU-b")
    assert free_stale_locks(tmp_path) == (tmp_path / "GPU-a.lock",)
    held.release()


@pytest.mark.parametrize("text", ["", "{", "[]", '{"pid": 1', "\x00\xff"])
def test_lock_file_without_sense_still_names_somebody(tmp_path, text):
    held = lease(tmp_path, "GPU-a")
    (tmp_path / "GPU-a.lock").write_text(text)
    with pytest.raises(LaunchFailed, match="in use by another search on this host"):
        lease(tmp_path, "GPU-a")
    held.release()


def test_every_user_may_take_a_lock_that_another_left(tmp_path):
    held = lease(tmp_path / "locks", "GPU-a")
    assert stat.filemode((tmp_path / "locks").stat().st_mode) == "drwxrwxrwt"
    assert stat.filemode((tmp_path / "locks" / "GPU-a.lock").stat().st_mode) == "-rw-rw-rw-"
    held.release()


def test_link_in_place_of_a_lock_file_is_not_followed(tmp_path):
    (tmp_path / "victim").write_text("precious")
    (tmp_path / "GPU-a.lock").symlink_to(tmp_path / "victim")
    with pytest.raises(LaunchFailed, match="another folder: SPEC_SEARCH_LOCKS"):
        lease(tmp_path, "GPU-a")
    assert (tmp_path / "victim").read_text() == "precious"


def test_folder_is_the_same_for_all_users_unless_told(monkeypatch):
    monkeypatch.setenv("XDG_RUNTIME_DIR", "/run/user/1000")
    monkeypatch.setenv("TMPDIR", "/scratch/job-7")
    monkeypatch.delenv("SPEC_SEARCH_LOCKS", raising=False)
    assert str(lock_folder()) == "/tmp/search-gpu-locks"
    monkeypatch.setenv("SPEC_SEARCH_LOCKS", "/host/locks")
    assert str(lock_folder()) == "/host/locks"


def test_idle_gpu_is_not_waited_for():
    fake = FakeOs()
    fake.gpu = {"GPU-a": 700 * 2**20}
    wait_for_free_memory(("GPU-a",), fake, terms=TERMS)
    assert fake.now == 0.0


def test_memory_of_a_server_that_is_still_dying_is_waited_for():
    fake = FakeOs()
    fake.gpu = {"GPU-a": 90 * GIB}
    fake.script = lambda now: fake.gpu.update({"GPU-a": 0}) if now > 31 else None
    wait_for_free_memory(("GPU-a",), fake, terms=TERMS)
    assert fake.now == pytest.approx(31.0, abs=0.2)


def test_memory_of_somebody_else_is_refused_with_his_name():
    fake = FakeOs()
    fake.gpu = {"GPU-a": 0, "GPU-b": 90 * GIB}
    fake.users = (GpuUser(os.getpid(), "GPU-b", 90 * GIB),)
    with pytest.raises(LaunchFailed) as caught:
        wait_for_free_memory(("GPU-a", "GPU-b"), fake, terms=TERMS)
    line = caught.value.evidence.root_line
    assert caught.value.reason is Reason.HOST_BUSY
    assert line.startswith(f"92160 MiB on GPU-b in use for 60 s: pid {os.getpid()} (92160 MiB) ")
    assert fake.now == pytest.approx(60.0, abs=0.2)


def test_memory_that_nobody_is_named_for_says_what_may_be():
    fake = FakeOs()
    fake.gpu = {"GPU-a": 90 * GIB}
    with pytest.raises(LaunchFailed, match="by processes that NVML does not name here"):
        wait_for_free_memory(("GPU-a",), fake, terms=TERMS)


def test_memory_that_cannot_be_read_is_not_waited_for():
    fake = FakeOs()
    fake.gpu = None
    wait_for_free_memory(("GPU-a",), fake, terms=TERMS)
    assert fake.now == 0.0


def test_interrupt_ends_the_wait():
    fake = FakeOs()
    fake.gpu = {"GPU-a": 90 * GIB}
    with pytest.raises(Interrupted):
        wait_for_free_memory(("GPU-a",), fake, terms=TERMS, aborted=lambda: fake.now > 3)
    assert fake.now < 4
