"""What is in use on the GPUs of one launch, against what was before it, and who else came."""

from __future__ import annotations

from search.host.nvml import GpuUser
from search.server.strangers import MUCH_MEMORY, names_are_ours, strangers_on_gpus
from search.server.system import Os

GPU_TOLERANCE = 64 * 2**20
"""Bytes above the baseline that still count as "back": the driver's own bookkeeping moves a little."""


class GpuAccount:
    """The memory of a launch's GPUs from before its start to after its stop.

    Args:
        system: Asks NVML.
        uuids: The GPUs; without any there is nothing to report.
        tag: Of the launch.
    """

    def __init__(self, system: Os, uuids: tuple[str, ...], tag: str) -> None:
        self.uuids = uuids
        self._os = system
        self._tag = tag
        self._before: dict[str, int] | None = None
        self._users_before: frozenset[int] = frozenset()

    def begin(self) -> None:
        """Remember what is in use now, and by whom."""
        self._before = self.used()
        self._users_before = frozenset(user.pid for user in self._users())

    @property
    def is_known(self) -> bool:
        """Whether NVML could be asked before the launch."""
        return self._before is not None

    def used(self) -> dict[str, int] | None:
        """Bytes in use per GPU; None when it cannot be known."""
        used = self._os.gpu_memory(self.uuids) if self.uuids else None
        return None if used is None else dict(used)

    def excess(self) -> list[str]:
        """One line for each GPU with more in use than before the launch."""
        before, now = self._before or {}, self.used()
        if now is None:
            return ["GPU memory can no longer be read through NVML"]
        return [
            f"{uuid} holds {(used - before[uuid]) / 2**20:.0f} MiB more than before the launch"
            for uuid, used in now.items()
            if used > before[uuid] + GPU_TOLERANCE
        ]

    def others(self) -> str:
        """Who else came to the GPUs, once no process of the launch is left there; empty if that explains nothing."""
        if any(self._os.tag_of(user.pid) in (self._tag, None) for user in self._users()):
            return ""
        return strangers_on_gpus(self._os, self.uuids, self._tag, known=self._users_before)

    def newcomers(self) -> str:
        """Who took much of the memory since the start and is not of the launch, for people; empty if nobody."""
        if not self.uuids or not names_are_ours():
            return ""
        return strangers_on_gpus(self._os, self.uuids, self._tag, known=self._users_before, least=MUCH_MEMORY)

    def _users(self) -> tuple[GpuUser, ...]:
        return (self._os.gpu_users(self.uuids) or ()) if self.uuids else ()
