"""Ctrl-C, SIGTERM and SIGHUP as a value that is looked at: no exception ever comes out of the blue.

The handler sets a flag and wakes the main thread, which does nothing but wait; the command runs in a thread of
its own and looks at the flag where it can stop in order. An exception that a handler raises can land anywhere: in
a weak reference's callback Python prints and drops it, in a lazy import it leaves half a module, in a transaction
it leaves the database locked by the process itself.

This module imports little, for it is imported first: before it, Python's own start-up ends as the system pleases.
"""

from __future__ import annotations

import os
import select
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

from search.errors import ExitCode, Interrupted, StorageFault
from search.study.streams import make_lasting

TYPE_CHECKING = False  # as `typing` has it, whose import alone takes as long as all others
if TYPE_CHECKING:
    from typing import NoReturn

STORING_S = 10.0
"""How long a database that does not answer is waited for after an interrupt, so that what was measured is stored."""
SPEAKING_S = 10.0
"""How long the last words may take once nothing is held any more; somebody's full pipe must not keep the process."""

_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
"""SIGHUP comes when the terminal goes, as with a lost connection; `nohup` has it ignored, and it stays so."""


class Interrupts:
    """Whether the user wants the program to stop. For all threads.

    While something is `held`, such as GPUs or a study's open rows, a press waits for its holder, who looks at
    `pressed`, stops in order and says how to resume. While nothing is held, the process ends at once.
    """

    def __init__(self) -> None:
        self._pressed = threading.Event()
        self._pressed_at = 0.0
        self._lock = threading.Lock()
        self._listeners: list[Callable[[], None]] = []
        self._holders = 0
        self._was_held = False

    @property
    def pressed(self) -> bool:
        """Whether Ctrl-C was pressed, or SIGTERM or SIGHUP came; never taken back."""
        return self._pressed.is_set()

    def check(self) -> None:
        """Go on only while nobody has pressed.

        Raises:
            Interrupted: Somebody has.
        """
        if self.pressed:
            raise Interrupted("Interrupted; nothing was running.")

    def press(self) -> None:
        """Note it and tell who listens; a second press changes nothing."""
        with self._lock:
            if self.pressed:
                return
            self._pressed_at = time.monotonic()
            self._pressed.set()
            listeners = list(self._listeners)
        for listener in listeners:
            listener()

    @contextmanager
    def telling(self, listener: Callable[[], None]) -> Iterator[None]:
        """Call `listener`, which must not block, on the first press, or now where that has been."""
        with self._lock:
            self._listeners.append(listener)
            late = self.pressed
        if late:
            listener()
        try:
            yield
        finally:
            with self._lock:
                self._listeners.remove(listener)

    @contextmanager
    def held(self) -> Iterator[None]:
        """Make a press wait for the end of the block, which must look at `pressed`.

        Raises:
            Interrupted: Somebody has pressed before: the block is not begun.
        """
        with self._lock:
            self.check()
            self._holders, self._was_held = self._holders + 1, True
        try:
            yield
        finally:
            with self._lock:
                self._holders -= 1

    def sleep(self, seconds: float) -> None:
        """Wait, as `Patience` does for a database; after a press not for long any more.

        Raises:
            StorageFault: `STORING_S` have passed since the press.
        """
        if not self._pressed.wait(seconds):
            return
        left = self._pressed_at + STORING_S - time.monotonic()
        if left <= 0:
            raise StorageFault(
                f"The database must answer within {STORING_S:g} s of an interrupt, but did not: what was not stored "
                "by then is lost. Find out what holds it, then run the same command again; it resumes from what is stored."
            )
        time.sleep(min(seconds, left))

    @property
    def is_held(self) -> bool:
        """Whether somebody holds something that must be put down first."""
        return self._holders > 0

    def leave_if_idle(self) -> None:
        """End the process at once, with exit code 130, unless something is held or was: then its holder has the word."""
        with self._lock:
            if self._was_held:
                return
            _end_helpers()
            _leave("Interrupted; nothing was running.\n")


def interruptible(work: Callable[[Interrupts], None]) -> NoReturn:
    """Run a command, and end the process with its exit code: 130 after a press, whatever the command made of it.

    The one place that handles SIGINT, SIGTERM and SIGHUP; a signal that is ignored (SIGINT in a background job) stays so.
    From the return of `work` on, with its last line printed, its exit code stands: later signals are ignored.

    Args:
        work: The command, run in a thread of its own; tells its exit code by `SystemExit`.
    """
    make_lasting()
    interrupts = Interrupts()
    woken, wake = os.pipe()
    os.set_blocking(wake, False)
    struck: list[int] = []
    ended: list[int] = []
    # The kernel may deliver a signal to any thread, and only the byte in the pipe surely wakes this one.
    signal.set_wakeup_fd(wake, warn_on_full_buffer=False)
    handled = [number for number in _SIGNALS if signal.getsignal(number) is not signal.SIG_IGN]
    for number in handled:
        signal.signal(number, lambda received, _: struck.append(received))

    def command() -> None:
        try:
            ended.append(_exit_code(work, interrupts))
        finally:
            os.write(wake, b"\0")

    threading.Thread(target=command, name="command", daemon=True).start()
    idle_since: float | None = None
    while not ended:
        if struck:
            interrupts.press()
            interrupts.leave_if_idle()
            now = time.monotonic()
            idle_since = None if interrupts.is_held else idle_since or now
            if idle_since is not None and now - idle_since > SPEAKING_S:
                _leave("")
        if select.select([woken], [], [], 0.5 if struck else None)[0]:
            os.read(woken, 4096)
    for number in handled:
        signal.signal(number, signal.SIG_IGN)
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError):  # nobody reads any more
            stream.flush()
    if struck:
        _leave("")
    sys.exit(ended[0])


def _exit_code(work: Callable[[Interrupts], None], interrupts: Interrupts) -> int:
    try:
        work(interrupts)
    except SystemExit as end:
        if isinstance(end.code, int) or end.code is None:
            return end.code or 0
        sys.stderr.write(f"{end.code}\n")
        return 1
    except Interrupted as end:
        sys.stderr.write(f"{end}\n")
        return int(end.exit_code)
    except BaseException:  # noqa: BLE001  told as Python tells it, and the process ends
        sys.excepthook(*sys.exc_info())
        return 1
    return 0


def _leave(word: str) -> NoReturn:
    """End now: an exit handler or another thread could only wait for something."""
    with suppress(OSError):
        os.write(2, word.encode())
    os._exit(int(ExitCode.INTERRUPTED))


def _end_helpers() -> None:
    """Kill what this process has started: while nothing was ever held, only programs that answer a question."""
    for task in os.listdir("/proc/self/task"):  # noqa: PTH208  pathlib takes as long to import as all of this
        with suppress(OSError), open(f"/proc/self/task/{task}/children", encoding="ascii") as children:  # noqa: PTH123
            for pid in map(int, children.read().split()):
                with suppress(OSError):
                    (os.killpg if os.getpgid(pid) == pid else os.kill)(pid, signal.SIGKILL)
