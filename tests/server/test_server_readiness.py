"""Ready means an own token; everything else ends the wait for the right reason."""

import socket
import threading
from pathlib import Path

import pytest
from server_helpers import PORTS, FakeOs

from search.errors import Interrupted
from search.server.command import ServerCommand
from search.server.http import FirstToken, read_server_info
from search.server.readiness import BootLimits, NotReady, StallWatch, Unready, wait_ready
from search.server.supervisor import Progress, Supervisor

LIMITS = BootLimits(stall_s=10.0, ceiling_s=60.0)
REFUSED = FirstToken(0, "ConnectionRefusedError")


def wait(fake: FakeOs, *, ask=lambda: REFUSED, limits=LIMITS, **more) -> None:
    server = Supervisor(fake, tag="t", ports=PORTS, log_path=Path("log"), gpu_uuids=("GPU-1",))
    server.start(ServerCommand(("python",)))
    try:
        wait_ready(server, fake, limits=limits, ask=ask, **more)
    finally:
        fake.waited_s = fake.now
        server.kill()


def test_own_token_makes_a_server_ready():
    wait(FakeOs(), ask=lambda: FirstToken(4))


def test_answers_without_a_token_are_not_enough():
    answers = iter([REFUSED, FirstToken(0, "HTTP 503"), FirstToken(1)])
    wait(FakeOs(), ask=lambda: next(answers))
    assert list(answers) == []


def test_exit_is_noticed_within_two_seconds():
    fake = FakeOs()

    def die(now: float) -> None:
        if now >= 15 and fake.link.waiting == []:
            fake.link.waiting = [{"event": "exited", "code": 1}]

    fake.script = die
    with pytest.raises(NotReady) as caught:
        wait(fake, limits=BootLimits(stall_s=1000, ceiling_s=600))
    assert caught.value.kind is Unready.EXITED
    assert 15 <= fake.waited_s < 17


def test_silence_ends_at_the_stall_limit_not_at_the_ceiling():
    fake = FakeOs()
    fake.listening = False
    with pytest.raises(NotReady) as caught:
        wait(fake)
    assert caught.value.kind is Unready.STALLED
    assert 10 <= fake.waited_s < 12


def test_listening_server_that_generates_nothing_is_told_apart():
    over = threading.Event()

    def unanswered() -> FirstToken:
        over.wait(30)
        return REFUSED

    with pytest.raises(NotReady) as caught:
        wait(FakeOs(), ask=unanswered)
    over.set()
    assert caught.value.kind is Unready.SILENT


@pytest.mark.parametrize("sign", ["log_bytes", "cpu_s", "gpu"])
def test_progress_of_one_kind_keeps_a_server_waiting_past_the_stall_limit(sign):
    fake = FakeOs()

    def move(now: float) -> None:
        if sign == "gpu":
            fake.gpu = {"GPU-1": int(now) * 100 * 2**20}
        else:
            setattr(fake, sign, int(now * 100))

    fake.script = move
    with pytest.raises(NotReady) as caught:
        wait(fake, limits=BootLimits(stall_s=10.0, ceiling_s=25.0))
    assert caught.value.kind is Unready.CEILING
    assert 25 <= fake.waited_s < 26


def test_spinning_alone_stretches_the_stall_limit_threefold_at_most():
    fake = FakeOs()

    def spin(now: float) -> None:
        fake.cpu_s = 8 * now

    fake.script = spin
    with pytest.raises(NotReady) as caught:
        wait(fake)
    assert caught.value.kind in (Unready.STALLED, Unready.SILENT)
    assert 30 <= fake.waited_s < 32


def test_housekeeping_is_no_progress():
    watch = StallWatch(0.0, Progress(100, 1.0, 0), stall_s=5.0)
    ticks = [watch.stalled(float(t), Progress(100, 1.0 + 0.04 * t, 1000 * t)) for t in range(1, 6)]
    assert ticks == [False, False, False, False, True]


def test_ended_children_count_as_something_happening():
    watch = StallWatch(0.0, Progress(100, 50.0, 0), stall_s=5.0)
    assert not watch.stalled(4.0, Progress(100, 20.0, 0))
    assert not watch.stalled(8.0, Progress(100, 20.0, 0))
    assert watch.stalled(9.0, Progress(100, 20.0, 0))


def test_foreign_process_on_the_port_is_refused():
    fake = FakeOs()
    fake.listening = False
    with pytest.raises(NotReady) as caught:
        wait(fake, ask=lambda: FirstToken(4))
    assert caught.value.kind is Unready.STALE
    assert "port 21000" in caught.value.detail


def test_server_in_a_container_may_be_vouched_for():
    fake = FakeOs()
    fake.listening = False
    wait(fake, ask=lambda: FirstToken(4), vouch=lambda: True)


def test_abort_ends_the_wait():
    fake = FakeOs()
    with pytest.raises(Interrupted):
        wait(fake, aborted=lambda: fake.now > 3)
    assert fake.waited_s < 4


def test_silent_server_is_asked_what_it_runs_once():
    with socket.create_server(("127.0.0.1", 0)) as silent:
        silent.settimeout(5)
        with pytest.raises(OSError, match=r"^/server_info: TimeoutError: timed out$"):
            read_server_info(f"http://127.0.0.1:{silent.getsockname()[1]}", timeout_s=0.2)
        silent.accept()[0].close()
        silent.settimeout(0.05)
        with pytest.raises(TimeoutError):
            silent.accept()
