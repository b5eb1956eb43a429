"""Limits of the client itself: they are told with their number, and never a config's fault."""

import asyncio
import errno
import resource

import pytest
from load_streams import DONE, record, until

from search.contracts import Phase
from search.errors import LoadFailed
from search.load.limits import Lateness, reserve_files
from search.load.phases import run_phase
from search.load.target import Prompt
from search.outcomes import Blame, Note, Reason

PROMPTS = [Prompt(f"p{i}", "chat", f"question {i}") for i in range(8)]


@pytest.fixture
def files(monkeypatch):
    """The limits of open files, on paper: `[soft, hard]`."""
    limits = [1024, 4096]
    monkeypatch.setattr(resource, "getrlimit", lambda _: tuple(limits))
    monkeypatch.setattr(resource, "setrlimit", lambda _, pair: limits.__setitem__(slice(None), list(pair)))
    return limits


def test_soft_limit_is_raised_to_what_the_streams_need_and_the_hard_one_kept(files):
    reserve_files(2000)
    assert files[1] == 4096
    assert 2000 < files[0] < 2000 + 1024


def test_limit_that_suffices_is_left_alone(files):
    reserve_files(100)
    assert files == [1024, 4096]


def test_unlimited_files_are_left_alone(files):
    files[:] = [resource.RLIM_INFINITY, resource.RLIM_INFINITY]
    reserve_files(10**6)
    assert files == [resource.RLIM_INFINITY, resource.RLIM_INFINITY]


def test_hard_limit_that_is_too_low_limits_the_client_and_tells_numbers_and_way_out(files):
    files[:] = [64, 150]
    with pytest.raises(LoadFailed) as caught:
        reserve_files(100)
    assert (caught.value.reason, caught.value.blame) == (Reason.CLIENT_LIMITED, Blame.TOOL)
    line = caught.value.evidence.root_line
    assert "may have 150" in line and "100 streams" in line and "ulimit -Hn" in line
    assert files == [64, 150]


async def test_phase_without_files_for_its_streams_asks_the_server_nothing(server, files):
    files[:] = [64, 150]
    phase = Phase(concurrency=100, requests=100, output_tokens=5)
    with pytest.raises(LoadFailed) as caught:
        await run_phase(server.target(), PROMPTS, phase, 1)
    assert caught.value.reason is Reason.CLIENT_LIMITED
    assert server.asked == []


@pytest.mark.parametrize("number", [errno.EMFILE, errno.ENFILE, errno.EADDRNOTAVAIL])
async def test_connection_that_the_kernel_refuses_to_the_client_does_not_blame_the_server(server, monkeypatch, number):
    async def refuse(*args, **more):
        raise OSError(number, "no")

    monkeypatch.setattr("aiohttp.connector.aiohappyeyeballs.start_connection", refuse)
    monkeypatch.setattr("search.load.client.Client.flush_cache", lambda self, phase: asyncio.sleep(0, True))
    with pytest.raises(LoadFailed) as caught:
        await run_phase(server.target(), PROMPTS, Phase(concurrency=1, requests=1, output_tokens=5), 1)
    assert caught.value.reason is Reason.CLIENT_LIMITED
    assert "open files" in caught.value.evidence.root_line


async def test_requests_that_wait_for_a_connection_void_the_phase(server, monkeypatch):
    """Fewer connections than streams: the second one's time to its first token is the client's."""
    monkeypatch.setattr("search.load.client.SPARE_CONNECTIONS", -1)

    async def script(stream):
        await until(lambda: server.open == 1)
        for n in range(1, stream.tokens):
            await stream.write(record(n))
            await asyncio.sleep(0.002)
        await stream.write(record(stream.tokens, finish="length") + DONE)

    server.script = script
    phase = Phase(concurrency=2, requests=4, output_tokens=5, staggered=False, spread=0.0)
    with pytest.raises(LoadFailed) as caught:
        await run_phase(server.target(), PROMPTS, phase, 1)
    assert caught.value.reason is Reason.CLIENT_LIMITED
    assert "waited for a connection of the client" in caught.value.evidence.root_line


class LateClock:
    """Moves by `step_s` with every reading, whatever the loop does."""

    def __init__(self, step_s):
        self.now, self.step_s = 0.0, step_s

    def __call__(self):
        self.now += self.step_s
        return self.now


@pytest.mark.parametrize(("step_s", "near"), [(0.05, False), (0.06, False), (0.08, True)])
async def test_loop_that_comes_back_late_is_near_its_limit(monkeypatch, step_s, near):
    monkeypatch.setattr("search.load.limits._LOOK_EVERY_S", 0.05)
    lateness, real = Lateness(), asyncio.sleep
    monkeypatch.setattr("search.load.limits.asyncio.sleep", lambda _: real(0))
    task = asyncio.create_task(lateness.watch(LateClock(step_s)))
    while lateness.looks < 40:
        await real(0)
    task.cancel()
    assert lateness.is_near_limit is near


def test_loop_that_was_hardly_looked_at_is_not_judged():
    assert not Lateness(looks=3, late=3).is_near_limit


async def test_late_client_marks_its_phase_once(server, monkeypatch):
    monkeypatch.setattr("search.load.phases.Lateness.is_near_limit", True)

    async def script(stream):
        for n in range(1, stream.tokens):
            await stream.write(record(n))
            await asyncio.sleep(0.002)
        await stream.write(record(stream.tokens, finish="length") + DONE)

    server.script = script
    result = await run_phase(server.target(), PROMPTS, Phase(concurrency=1, requests=1, output_tokens=5), 1)
    assert result.notes.count(Note.CLIENT_NEAR_LIMIT) == 1
