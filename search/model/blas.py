"""One thread for linear algebra while a belief is worked out."""

from __future__ import annotations

from contextlib import AbstractContextManager
from functools import cache
from typing import Any

from threadpoolctl import ThreadpoolController


def one_blas_thread() -> AbstractContextManager[Any]:
    """Limits the linear algebra libraries of this process to one thread inside the block.

    The belief's matrices are of some hundred rows. On more than one thread those gain little on an idle
    host, and on a busy one the threads wait for each other: six times the processor time was seen.
    """
    limit: AbstractContextManager[Any] = _libraries().limit(limits=1, user_api="blas")
    return limit


@cache
def _libraries() -> ThreadpoolController:
    """Looked for once, at the first use: by then the belief has loaded them."""
    return ThreadpoolController()
