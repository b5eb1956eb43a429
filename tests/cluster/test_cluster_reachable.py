"""A dead cluster address or a temporary folder that Ray cannot use is told within seconds, before Ray is asked."""

import socket
import subprocess
import sys
import threading
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from search.cluster._cluster import connect
from search.cluster._reachable import check_address, check_temporary_folder
from search.errors import ExitCode, HostUnfit

SETTINGS = bytes((0, 0, 0, 4, 0, 0, 0, 0, 0))


@contextmanager
def listening(answer: bytes | None):
    """An address that takes a connection and answers so; None for silence."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        held = []

        def serve():
            link, _ = server.accept()
            held.append(link)
            if answer is not None:
                link.recv(64)
                with suppress(OSError):  # who asks may be gone once it has read enough
                    link.sendall(answer)
                    link.shutdown(socket.SHUT_WR)

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield f"127.0.0.1:{server.getsockname()[1]}"
        thread.join(5)
        for link in held:
            link.close()


def refused(address: str) -> str:
    with pytest.raises(HostUnfit) as caught:
        check_address(address, timeout_s=0.3)
    assert caught.value.exit_code == ExitCode.HOST_UNFIT
    return str(caught.value)


def test_address_that_speaks_grpc_is_taken():
    with listening(SETTINGS) as address:
        check_address(address, timeout_s=5)


@pytest.mark.parametrize("prefix", ["", "ray://"])
def test_address_where_nobody_listens_is_refused_with_the_way_out(prefix):
    with socket.create_server(("127.0.0.1", 0)) as gone:
        address = f"{prefix}127.0.0.1:{gone.getsockname()[1]}"
    assert "Connection refused" in (told := refused(address))
    assert address in told and "leave `--ray-address` out" in told


def test_address_that_stays_silent_is_refused():
    with listening(None) as address:
        assert "no answer within 0.3 s" in refused(address)


@pytest.mark.parametrize("answer", [b"HTTP/1.1 400 Bad Request\r\n\r\n", b"", b"\x00\x00"])
def test_address_of_another_service_is_refused(answer):
    with listening(answer) as address:
        assert "it is not Ray" in refused(address)


@pytest.mark.parametrize("address", ["", "head", "head:", ":6379", "head:port", "head:0", "head:70000"])
def test_address_that_is_none_is_refused_by_its_form(address):
    assert "must be HOST:PORT" in refused(address)


def test_executor_of_a_dead_address_ends_within_seconds():
    with socket.create_server(("127.0.0.1", 0)) as gone:
        port = gone.getsockname()[1]
    program = f"from search.cluster import RayExecutor; RayExecutor(dict, address='127.0.0.1:{port}')"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=False)
    assert f"HostUnfit: The Ray cluster at 127.0.0.1:{port} cannot be reached" in done.stderr


def test_temporary_folder_with_room_is_taken(tmp_path):
    check_temporary_folder(Path("/tmp"), free_bytes=0)


def test_temporary_folder_that_ray_would_make_is_taken():
    check_temporary_folder(Path("/tmp/to-be-made"), free_bytes=0)


def test_long_temporary_folder_is_refused_with_both_lengths():
    with pytest.raises(HostUnfit, match=r"107 bytes, but below /tmp/x+ they have 1[0-9]{2}\. .*RAY_TMPDIR"):
        check_temporary_folder(Path("/tmp") / ("x" * 60))


def test_full_temporary_folder_is_refused_with_what_is_free():
    with pytest.raises(HostUnfit, match=r"MiB must be free, but /tmp has \d+"):
        check_temporary_folder(Path("/tmp"), free_bytes=2**80)


def test_temporary_folder_that_is_a_file_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr("search.cluster._reachable.LONGEST_SOCKET", 4096)
    (tmp_path / "file").touch()
    with pytest.raises(HostUnfit, match="must be a folder that can be written to"):
        check_temporary_folder(tmp_path / "file")


def test_local_ray_is_not_started_in_a_folder_it_cannot_use(monkeypatch):
    monkeypatch.setenv("RAY_TMPDIR", "/tmp/" + "x" * 90)
    with pytest.raises(HostUnfit, match="RAY_TMPDIR"):
        connect(None, with_gpus=False)
