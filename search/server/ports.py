"""A block of fresh TCP ports for one launch."""

from __future__ import annotations

import random
import socket
from dataclasses import dataclass

from search.errors import HostUnfit

LOOPBACK = "127.0.0.1"

_LOWEST, _HIGHEST = 20_000, 32_000
"""Below Linux's ephemeral range (32768 and up), where a client's socket could take a port first."""

_DIST_INIT_OFFSET = 233
"""SGLang's own distance from the HTTP port to the rendezvous of data-parallel attention
(`ZMQ_TCP_PORT_DELTA` in `srt/server_args.py`)."""


@dataclass(frozen=True, slots=True)
class PortBlock:
    """The ports of one server.

    Attributes:
        http: `--port`.
        nccl: `--nccl-port`, where the ranks of one server meet. Drawn on its own, so that together
            with `http` it distinguishes one launch from another.
    """

    http: int
    nccl: int

    @property
    def dist_init(self) -> int:
        """Where SGLang meets under data-parallel attention; derived from `http`, not passed."""
        return self.http + _DIST_INIT_OFFSET

    @property
    def all(self) -> tuple[int, int, int]:
        """Every port that has to be free before a launch and again after its stop."""
        return (self.http, self.nccl, self.dist_init)

    @property
    def base_url(self) -> str:
        """Where clients reach the server."""
        return f"http://{LOOPBACK}:{self.http}"


def port_is_free(port: int, *, ignore_old_connections: bool = False) -> bool:
    """Whether nobody holds `port` on loopback, shown by binding it.

    Args:
        port: The port.
        ignore_old_connections: Pass over closed connections that the kernel remembers for a
            minute (TIME_WAIT), as a server does when it starts again on its port.
    """
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        if ignore_old_connections:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((LOOPBACK, port))
        except OSError:
            return False
        return True


def fresh_ports(rng: random.Random | None = None, *, attempts: int = 100) -> PortBlock:
    """Draw a block whose ports can all be bound on loopback now.

    Raises:
        HostUnfit: No free block was found.
    """
    rng = rng or random.Random()
    for _ in range(attempts):
        block = PortBlock(http=rng.randrange(_LOWEST, _HIGHEST), nccl=rng.randrange(_LOWEST, _HIGHEST))
        if len(set(block.all)) == len(block.all) and all(port_is_free(port) for port in block.all):
            return block
    raise HostUnfit(
        (f"Free ports on {LOOPBACK}: none of {attempts} blocks between {_LOWEST} and {_HIGHEST} could be bound.",)
    )
