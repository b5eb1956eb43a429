"""Processes that share the cores of a host."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

_THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")


@contextmanager
def one_thread_each() -> Iterator[None]:
    """For the processes that are started inside: linear algebra reads these variables when it is loaded.

    Their matrices are tiny, so threads would only fight over the cores that the processes share. A variable that the
    user has set stays.
    """
    before = {name: os.environ.get(name) for name in _THREADS}
    os.environ.update({name: value or "1" for name, value in before.items()})
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
