"""A fake SGLang server: `python -m search.testing.fake_server`, with the real one's flags and routes.

Like the real one it is several processes (launcher, one scheduler per tensor-parallel rank,
detokenizer) that log in the real one's words, and it resolves arguments as its release does. The
first scheduler makes all tokens: stopped, it leaves silence behind an HTTP server that still
answers; killed, it ends the server.

Environment:
    FAKE_SGLANG: Misbehaviours, separated by commas:
        `die-at-arguments`, `exit-early` (no word, code 3), `exit-0`, `exit-1`, `exit-2`, `exit-kill`
        (the same with code 0, 1, 2, -9, while loading), `die-loading`, `oom-weights`, `oom-kv`,
        `oom-graph`, `die-graph-capture` (a missing module), `never-ready`, `busy-never-ready`
        (spins), `hang-in-rendezvous`, `ready-but-silent`, `health-lies` (the same, and `/health` says
        200 from the first moment on), `old-server` (reports of itself what another launch would),
        `die-at-first-request`, `die-under-load`,
        `hang-under-load` (both from a batch of 8 on), `die-of-two-first-requests` (a request that
        comes beside the server's own first one kills it, as the v1 STANDALONE worker of 0.5.11 does), `ignore-sigterm`, `slow-drain`,
        `double-fork-grandchild` (in the launcher's group, ignores SIGTERM), `runaway-grandchild` (the
        same in a session of its own), and noise while loading: `log-flood` (16 MiB of healthy
        lines), `huge-line` (4 MiB), `partial-utf8`. Those of the shape plugin (`_shapes.py`): `shapes-busy`,
        `shapes-refuse`, `shapes-die`, `shapes-hang`, `shapes-lie`, `shapes-slow-build`, `shapes-slow-apply`, `shapes-fail-build`,
        `shapes-fail-undo`, `shapes-no-room`, `shapes-not-there`.
    FAKE_SGLANG_SPEED: Decode steps are so many times faster (default 1: some 3 ms a step).
    FAKE_SGLANG_BOOT_S: Seconds of a boot (default 0), spread over its log lines.
    FAKE_SGLANG_WARMUP_S: Seconds of the server's own first request (default 0.05), `/health` being 503.
    FAKE_SGLANG_OUTPUTS: Set, answers bring token ids: of a greedy request the same for every config, else by chance.
    FAKE_SGLANG_DRAIN_S: Seconds that SIGTERM waits before the tree is killed (default 0.05; the
        real one polls every 5 s).
"""

from __future__ import annotations

import argparse
import ctypes
import os
import signal
import socket
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from search.testing import _arguments, _noise, _scheduler
from search.testing._batcher import Costs

ENDS = {"exit-0": 0, "exit-1": 1, "exit-2": 2, "exit-kill": -signal.SIGKILL}
"""Misbehaviour -> how the launcher ends while loading, without a word."""

MISBEHAVIOURS = frozenset(
    {
        *_scheduler.DEATHS,
        *_noise.NOISES,
        *ENDS,
        *("die-at-arguments", "exit-early", "never-ready", "busy-never-ready", "hang-in-rendezvous"),
        *("health-lies", "old-server"),
        *(
            "shapes-busy",
            "shapes-refuse",
            "shapes-die",
            "shapes-hang",
            "shapes-lie",
            "shapes-slow-build",
            "shapes-slow-apply",
        ),
        *("shapes-fail-build", "shapes-fail-undo", "shapes-no-room", "shapes-not-there"),
        *("ready-but-silent", "die-at-first-request", "die-of-two-first-requests", "die-under-load", "hang-under-load"),
        *("ignore-sigterm", "slow-drain", "double-fork-grandchild", "runaway-grandchild"),
    }
)

_PR_SET_PDEATHSIG = 1

WATCH_S = 0.1
"""Between two looks at the children; the real one looks once a second."""

_WAITING = (
    '  File "/site/sglang/srt/entrypoints/engine.py", line 1220, in _wait_for_scheduler_ready\n    raise RuntimeError('
)


@dataclass(slots=True)
class Launcher:
    """The first process: owns the children, the HTTP port and the manner of dying."""

    args: argparse.Namespace
    release: str
    misbehaviours: frozenset[str]
    children: dict[int, str] = field(default_factory=dict)
    ready: int = -1
    link: socket.socket = field(init=False)

    def start_children(self) -> None:
        """Fork before any thread or event loop exists."""
        signal.signal(signal.SIGQUIT, self.child_failed)
        self.ready, ready = os.pipe()
        self.link, link = socket.socketpair()
        costs = Costs.of(self.args, speed=float(os.environ.get("FAKE_SGLANG_SPEED", "1")))
        boot_s = float(os.environ.get("FAKE_SGLANG_BOOT_S", "0"))
        for rank in range(self.args.tp_size):
            if rank == 0:
                self._fork(
                    "scheduler_0",
                    lambda: _scheduler.scheduler(
                        misbehaviours=self.misbehaviours,
                        boot_s=boot_s,
                        ready=ready,
                        link=link,
                        costs=costs,
                        limit=self.args.max_running_requests,
                    ),
                )
                # No other child may hold these ends: their closing shows that this one is gone.
                os.close(ready)
                link.close()
            else:
                self._fork(f"scheduler_{rank}", _scheduler.detokenizer)
        self._fork("detokenizer", _scheduler.detokenizer)
        if "double-fork-grandchild" in self.misbehaviours:
            _scheduler.grandchild()
        if "runaway-grandchild" in self.misbehaviours:
            _scheduler.grandchild(new_session=True)

    def wait_booted(self) -> None:
        """Return when the scheduler is ready; its own word of its death arrives as SIGQUIT meanwhile."""
        if os.read(self.ready, 16):
            return
        if (died := self._dead_child(block=True)) is not None and died[2] < 0:
            self._say_died_loading(died[2])
            self.end_with(1)
        time.sleep(3600)  # SIGQUIT is on its way

    async def watch_children(self) -> None:
        """End as the real one does when a child is killed without a word of its own."""
        import asyncio

        while True:
            if (died := self._dead_child()) is not None:
                break
            await asyncio.sleep(WATCH_S)
        name, pid, code = died
        _scheduler.say(
            f"Subprocess {name} (pid={pid}) crashed with exit code {code}. Triggering SIGQUIT for cleanup..."
        )
        os.kill(os.getpid(), signal.SIGQUIT)

    def _dead_child(self, *, block: bool = False) -> tuple[str, int, int] | None:
        """Name, pid and exit code of a child that died; None while all live."""
        try:
            pid, status = os.waitpid(next(iter(self.children)) if block else -1, 0 if block else os.WNOHANG)
        except ChildProcessError:
            return None
        return (self.children.pop(pid, "process"), pid, os.waitstatus_to_exitcode(status)) if pid else None

    def _say_died_loading(self, code: int) -> None:
        if self.release.startswith("0.5.9"):
            _scheduler.say("Rank 0 scheduler is dead. Please check if there are relevant logs.")
            error = "EOFError"
        else:
            error = (
                f"RuntimeError: Rank 0 scheduler died during initialization (exit code: {code}). If exit code is -9 "
                "(SIGKILL), a common cause is the OS OOM killer. Run `dmesg -T | grep -i oom` to check."
            )
        os.write(2, f"Traceback (most recent call last):\n{_WAITING}\n{error}\n".encode())

    def end_with(self, code: int) -> None:
        """End at once, children first."""
        for pid in self.children:
            os.kill(pid, signal.SIGKILL)
        if code < 0:
            os.kill(os.getpid(), -code)
        os._exit(code)

    def end(self) -> None:
        """Kill the tree, this process included: a clean stop ends with -9."""
        self.end_with(-signal.SIGKILL)

    def _fork(self, name: str, work: Callable[[], None]) -> None:
        parent = os.getpid()
        pid = os.fork()
        if pid:
            self.children[pid] = name
            return
        signal.signal(signal.SIGQUIT, signal.SIG_DFL)
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
        if os.getppid() == parent:
            try:
                work()
            except SystemExit:
                os._exit(1)
        os._exit(0)

    def child_failed(self, *_: object) -> None:
        """React to SIGQUIT from a scheduler."""
        _scheduler.say("Received sigquit from a child process. It usually means the child failed.")
        self.end()


async def serve(launcher: Launcher) -> None:
    """Serve HTTP until killed."""
    import asyncio

    from aiohttp import web

    from search.testing._http import Api
    from search.testing._link import Request, Requests
    from search.testing._shapes import FakeShapes

    bad = launcher.misbehaviours

    def arrived() -> bool:
        if "die-at-first-request" in bad or ("die-of-two-first-requests" in bad and not warmed_up.is_set()):
            requests.fail_scheduler()
        return bad.isdisjoint({"die-at-first-request", "ready-but-silent", "health-lies"})

    warmed_up = asyncio.Event()
    if "health-lies" in bad:
        warmed_up.set()
    args = launcher.args
    requests = Requests(launcher.link)
    await requests.open()
    reported = argparse.Namespace(**vars(args))
    if "old-server" in bad:
        reported.nccl_port = (args.nccl_port or args.port) + 1
    shapes = FakeShapes(args, requests, bad, launcher.release)
    api = Api(
        reported,
        requests,
        release=launcher.release,
        arrived=arrived,
        warmed_up=warmed_up,
        shapes=shapes,
        reports_ids=bool(os.environ.get("FAKE_SGLANG_OUTPUTS")),
    )
    runner = web.AppRunner(api.app(), access_log=None)
    await runner.setup()
    await web.TCPSite(runner, args.host, args.port, reuse_address=True).start()

    async def drain() -> None:
        pause_s = 3600.0 if "slow-drain" in bad else float(os.environ.get("FAKE_SGLANG_DRAIN_S", "0.05"))
        await asyncio.sleep(pause_s)
        launcher.end()

    drains: list[asyncio.Task[None]] = []
    loop = asyncio.get_running_loop()
    loop.add_signal_handler(signal.SIGQUIT, launcher.child_failed)
    if "ignore-sigterm" in bad:
        loop.add_signal_handler(signal.SIGTERM, lambda: None)
    else:
        loop.add_signal_handler(signal.SIGTERM, lambda: drains.append(loop.create_task(drain())))
    os.write(2, f"INFO:     Uvicorn running on http://{args.host}:{args.port} (Press CTRL+C to quit)\n".encode())

    async def warm_up() -> None:
        await asyncio.sleep(float(os.environ.get("FAKE_SGLANG_WARMUP_S", "0.05")))
        requests.submit(first := Request(wanted=1))
        while not first.done:
            await first.updates.get()
        _scheduler.say("The server is fired up and ready to roll!")
        warmed_up.set()

    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(warm_up())
        tasks.create_task(requests.run())
        tasks.create_task(launcher.watch_children())


def main(argv: list[str] | None = None, *, release: str = "0.5.11") -> int:
    """Run the server; returns only when it does not start."""
    import asyncio

    args = _arguments.parser(release).parse_args(argv)
    misbehaviours = frozenset(name for name in os.environ.get("FAKE_SGLANG", "").split(",") if name)
    if unknown := misbehaviours - MISBEHAVIOURS:
        raise SystemExit(f"`FAKE_SGLANG` knows {sorted(MISBEHAVIOURS)}, but got {sorted(unknown)}.")
    if "exit-early" in misbehaviours:
        return 3
    if "die-at-arguments" in misbehaviours:
        args.speculative_eagle_topk, args.speculative_num_draft_tokens = 4, 8
        args.speculative_algorithm, args.speculative_num_steps = "EAGLE3", None
    _arguments.resolve(args, release, os.environ, _scheduler.say)
    _scheduler.say(f"server_args=ServerArgs({', '.join(f'{name}={value!r}' for name, value in vars(args).items())})")
    launcher = Launcher(args, release, misbehaviours)
    launcher.start_children()
    for name in misbehaviours & ENDS.keys():
        launcher.end_with(ENDS[name])
    launcher.wait_booted()
    asyncio.run(serve(launcher))
    return 0


if __name__ == "__main__":
    sys.exit(main())
