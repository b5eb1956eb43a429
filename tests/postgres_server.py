"""A PostgreSQL server of the tests' own, on loopback, where PostgreSQL is installed."""

import os
import shutil
import socket
import subprocess
import tempfile
from pathlib import Path

WHERE = "/usr/lib/postgresql"


def binaries() -> Path | None:
    """The newest version's programs; None where there are none."""
    found = sorted(Path(WHERE).glob("*/bin/initdb"), key=lambda path: float(path.parent.parent.name))
    return found[-1].parent if found else None


class PostgresServer:
    """Started and stopped as often as a test needs; `close` removes it.

    Its folder is not pytest's own, which no other user may enter, and the server refuses to run as root.
    """

    def __init__(self) -> None:
        self._folder = Path(tempfile.mkdtemp(prefix="search-postgres-"))
        self._bin = binaries()
        assert self._bin is not None
        self._data = self._folder / "data"
        self._log = self._folder / "log"
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = probe.getsockname()[1]
        self._user = "postgres" if os.geteuid() == 0 else None
        if self._user:
            shutil.chown(self._folder, self._user)
        self._run("initdb", "-D", str(self._data), "-A", "trust", "-U", "postgres", "--no-sync")
        self.url = f"postgresql://postgres@127.0.0.1:{self.port}/postgres"

    def start(self) -> None:
        """Return when it takes connections."""
        options = f"-p {self.port} -c listen_addresses=127.0.0.1 -c unix_socket_directories='' -c fsync=off"
        self._run("pg_ctl", "-D", str(self._data), "-l", str(self._log), "-o", options, "-w", "start")

    def stop(self) -> None:
        """Cut every connection."""
        self._run("pg_ctl", "-D", str(self._data), "-m", "immediate", "-w", "stop")

    def close(self) -> None:
        """Stop it and remove its folder."""
        self.stop()
        shutil.rmtree(self._folder)

    def _run(self, program: str, *words: str) -> None:
        subprocess.run(
            [str(self._bin / program), *words], check=True, stdout=subprocess.DEVNULL, user=self._user, cwd="/"
        )
