"""What can be known within seconds before Ray is asked: whether a cluster answers, whether a local one has room."""

from __future__ import annotations

import os
import shutil
import socket
import time
from pathlib import Path

from search.errors import HostUnfit

ANSWER_S = 5.0
"""Ray 2.60 itself tries a dead address for over ten minutes."""

FREE_BYTES = 256 * 2**20
"""Of Ray's temporary folder: logs of a night, and Ray refuses to work on a disk that is nearly full."""

LONGEST_SOCKET = 107
"""Bytes that the path of a Unix socket may have (`sun_path` in Linux' `include/uapi/linux/un.h`, less its end)."""

_SOCKET = "ray/session_2026-12-31_23-59-59_999999_4194304/sockets/plasma_store"
"""The longest name below that folder that Ray 2.60 makes, with the largest pid."""

_PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes((0, 0, 0, 4, 0, 0, 0, 0, 0))
_SETTINGS = 4
_FRAME_HEAD = 9


def check_address(address: str, *, timeout_s: float = ANSWER_S) -> None:
    """Return when something at a cluster's address speaks gRPC's protocol, as Ray's head does.

    `auto` is Ray's to find. The check is the first exchange of HTTP/2 (RFC 9113, section 3.4): whoever
    speaks it answers with a SETTINGS frame.

    Raises:
        HostUnfit: Nobody answers there within `timeout_s`, or something else does.
    """
    if address == "auto":
        return
    host, _, port = address.removeprefix("ray://").rpartition(":")
    if not host or not port.isdecimal() or not 0 < int(port) < 2**16:
        raise HostUnfit(
            (
                f"`--ray-address` must be HOST:PORT of a Ray cluster's head, or `auto`, but got {address!r}. Write it like `10.0.0.1:6379`.",
            )
        )
    end = time.monotonic() + timeout_s
    try:
        with socket.create_connection((host.strip("[]"), int(port)), timeout=timeout_s) as link:
            link.sendall(_PREFACE)
            head = b""
            while len(head) < _FRAME_HEAD:
                link.settimeout(max(0.01, end - time.monotonic()))
                piece = link.recv(_FRAME_HEAD - len(head))
                if not piece:
                    break
                head += piece
    except OSError as error:
        said = f"no answer within {timeout_s:g} s" if isinstance(error, TimeoutError) else str(error)
        raise HostUnfit((_unreachable(address, said),)) from error
    if len(head) < _FRAME_HEAD or head[3] != _SETTINGS:
        raise HostUnfit((_unreachable(address, "something answers there, but it is not Ray"),))


def check_temporary_folder(folder: Path | None = None, *, free_bytes: int = FREE_BYTES) -> None:
    """Return when a local Ray can work in its temporary folder.

    Args:
        folder: None for the one that Ray 2.60 will take: `RAY_TMPDIR`, else `TMPDIR`, else `/tmp`.
        free_bytes: See `FREE_BYTES`.

    Raises:
        HostUnfit: Its name is too long for a socket, it cannot be written to, or it is full.
    """
    folder = folder or Path(os.environ.get("RAY_TMPDIR") or os.environ.get("TMPDIR") or "/tmp")  # noqa: S108
    way_out = "Name another one in `RAY_TMPDIR`."
    longest = len(os.fsencode(folder / _SOCKET))
    if longest > LONGEST_SOCKET:
        raise HostUnfit(
            (
                f"Ray's temporary folder: its sockets may have names of {LONGEST_SOCKET} bytes, but below {folder} they "
                f"have {longest}. {way_out}",
            )
        )
    parent = next(path for path in (folder, *folder.parents) if path.exists())
    if not parent.is_dir() or not os.access(parent, os.W_OK | os.X_OK):
        raise HostUnfit((f"Ray's temporary folder: {folder} must be a folder that can be written to. {way_out}",))
    free = shutil.disk_usage(parent).free
    if free < free_bytes:
        raise HostUnfit(
            (
                f"Ray's temporary folder: {free_bytes // 2**20} MiB must be free, but {folder} has {free // 2**20}. "
                f"Free some, or name another one in `RAY_TMPDIR`.",
            )
        )


def _unreachable(address: str, said: str) -> str:
    return (
        f"The Ray cluster at {address} cannot be reached: {said}. Look with `ray status` on its head, or leave "
        "`--ray-address` out for a local Ray."
    )
