"""Work whose child processes must outlive the thread that asks for it."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import TypeVar

Made = TypeVar("Made")


def in_lasting_thread(work: Callable[[], Made]) -> Made:
    """What `work` returns or raises, done in a thread that stays until the process ends.

    A process that asked to die with its parent is killed when the *thread* that started it ends (prctl(2),
    PR_SET_PDEATHSIG). Ray's own processes ask for that (ray 2.60, `_private/utils.py`), and a launch has a thread of
    its own: a Ray that one launch started again would be dead in the next.
    """
    outcome: Future[Made] = Future()

    def stay() -> None:
        try:
            outcome.set_result(work())
        except BaseException as error:  # noqa: BLE001  raised again where it was asked for
            outcome.set_exception(error)
        threading.Event().wait()

    threading.Thread(target=stay, name="parent-of-ray", daemon=True).start()
    return outcome.result()
