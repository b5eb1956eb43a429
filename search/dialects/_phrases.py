"""Log lines that show a cause on some releases only.

What every release says is in `search.server.phrases`; these are tried before it.
"""

from __future__ import annotations

from typing import Final

from search.dialects._base import Phrase
from search.outcomes import Reason

SCHEDULER_KILLED: Final = Phrase(r"scheduler died during initialization \(exit code: -9\)", Reason.HOST_OOM)
"""0.5.11 `srt/entrypoints/engine.py:1220`. An echo after any other root; on its own, somebody killed the process."""
