"""What a case can see of its study from outside, and the ten moments told from that."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import psutil
from sqlalchemy import Engine, create_engine, text
from sqlalchemy.exc import DBAPIError
from sqlalchemy.pool import NullPool

from search.server.command import LAUNCH_TAG

_PHASES_OF = text(
    "SELECT count(p.id) FROM search_launches l LEFT JOIN search_phases p ON p.launch_id = l.id "
    "WHERE l.number = :number AND l.outcome IS NULL GROUP BY l.id"
)
_DIST_INIT_OFFSET = 233  # SGLang's own, from the HTTP port
_PHASES = 2


@dataclass(frozen=True)
class Scene:
    """The folder, the process tree and the database of one study."""

    folder: Path
    driver: psutil.Process
    storage: str

    def log(self, launch: int) -> str:
        """What a launch's server printed; empty before it began."""
        logs = list(self._launch_folders(launch, "server.log"))
        return logs[0].read_text(errors="replace") if logs else ""

    def phases(self, launch: int) -> int | None:
        """Stored phases of a launch that has no outcome; None without such a row."""
        try:
            with _looking(self.storage).connect() as connection:
                rows = connection.execute(_PHASES_OF, {"number": launch}).fetchall()
        except DBAPIError:  # before the database and its tables are made
            return None
        return rows[0][0] if rows else None

    def in_flight(self) -> int:
        """Launches whose row is begun and not finished."""
        return sum(self.phases(launch) is not None for launch in (1, 2, 3))

    def ports(self, launch: int) -> tuple[int, ...]:
        """The ports a launch was given; none before it began."""
        for script in self._launch_folders(launch, "command.sh"):
            found = dict(re.findall(r"--(port|nccl-port)\s+(\d+)", script.read_text()))
            if len(found) == 2:
                http, nccl = int(found["port"]), int(found["nccl-port"])
                return http, nccl, http + _DIST_INIT_OFFSET
        return ()

    def requests(self, launch: int) -> int:
        """Connections that are open at a launch's server."""
        port, launcher = next(iter(self.ports(launch)), 0), self.process("launcher")
        if launcher is None:
            return 0
        try:
            sockets = launcher.net_connections(kind="tcp")
        except psutil.Error:
            return 0
        return sum(s.status == psutil.CONN_ESTABLISHED and s.laddr.port == port for s in sockets)

    def process(self, victim: str) -> psutil.Process | None:
        """The process that plays a part now, looked for among the driver's descendants only."""
        try:
            return _FIND[victim](self.driver)
        except psutil.Error:  # something ended while we looked
            return None

    def _launch_folders(self, launch: int, name: str) -> list[Path]:
        return list((self.folder / "reports" / "launches").glob(f"{launch:04d}-*/{name}"))


@lru_cache
def _looking(storage: str) -> Engine:
    """Reads a case's database, and makes nothing."""
    if "://" in storage:
        return create_engine(storage.replace("postgresql://", "postgresql+psycopg://"))
    url = f"sqlite:///file:{storage}?mode=ro&uri=true"
    return create_engine(url, poolclass=NullPool, connect_args={"timeout": 1})


def _below(process: psutil.Process | None) -> list[psutil.Process]:
    found = process.children(recursive=True) if process else []
    return [child for child in found if child.status() != psutil.STATUS_ZOMBIE]


def _raylet(driver: psutil.Process) -> psutil.Process | None:
    return next((p for p in driver.children() if p.name() == "raylet"), None)


def _actor(driver: psutil.Process) -> psutil.Process | None:
    return next((p for p in _below(_raylet(driver)) if "ray::GpuHolder" in " ".join(p.cmdline()[:1])), None)


def _guardian(driver: psutil.Process) -> psutil.Process | None:
    return next((p for p in _below(_actor(driver)) if any(w.endswith("guardian.py") for w in p.cmdline())), None)


def _launcher(driver: psutil.Process) -> psutil.Process | None:
    return next((p for p in _below(_guardian(driver)) if LAUNCH_TAG in p.environ()), None)


def _scheduler(driver: psutil.Process) -> psutil.Process | None:
    return min(_below(_launcher(driver)), key=lambda p: p.pid, default=None)  # forked first


_FIND: dict[str, Callable[[psutil.Process], psutil.Process | None]] = {
    "driver": lambda driver: driver,
    "raylet": _raylet,
    "actor": _actor,
    "guardian": _guardian,
    "launcher": _launcher,
    "scheduler": _scheduler,
}


@dataclass(frozen=True)
class Moment:
    """When to strike.

    Attributes:
        reached: Told from facts.
        launch: The one that runs then; 0 for none.
        hold: The gate at which the driver has to wait, where the moment is too short to be hit.
        slow: What the server does slowly, in a study whose configs share a start; empty for a study of separate ones.
        server: The launch that started the server, where that is an earlier one.
    """

    reached: Callable[[Scene], bool]
    launch: int = 1
    hold: str = ""
    slow: str = ""
    server: int = 0


def _held(scene: Scene) -> bool:
    return (scene.folder / "reached").exists() and scene.process("actor") is not None


def _logged(text: str) -> Callable[[Scene], bool]:
    return lambda scene: text in scene.log(1)


def _captured(begun: int, ended: int) -> Callable[[Scene], bool]:
    """In launch 3, which switches the server of launch 2: so many captures begun and ended, that of its start first."""

    def reached(scene: Scene) -> bool:
        log = scene.log(2)
        counts = log.count("Capture cuda graph begin"), log.count("Capture cuda graph end")
        return scene.phases(3) == 0 and counts == (begun, ended) and "SEARCH_SHAPES switched" not in log

    return reached


SWITCHES = {
    "building": Moment(_captured(2, 1), launch=3, slow="build", server=2),
    "switching": Moment(_captured(2, 2), launch=3, slow="apply", server=2),
}
"""In the middle of a switch of shapes: while the graphs of one are captured, and after that."""

MOMENTS = {
    "before": Moment(_held, launch=0, hold="before"),
    "loading": Moment(_logged("Load weight begin")),
    "ready": Moment(_logged("The server is fired up")),
    "first-phase": Moment(lambda scene: scene.phases(1) == 0 and "fired up" in scene.log(1) and scene.requests(1) == 1),
    "phase-stored": Moment(lambda scene: scene.phases(1) == 1),
    "loaded": Moment(lambda scene: scene.phases(1) == 1 and scene.requests(1) >= 4),
    "stopping": Moment(lambda scene: scene.phases(1) == _PHASES),
    "between": Moment(_held, launch=0, hold="between"),
    "second-loaded": Moment(lambda scene: scene.phases(2) == 1 and scene.requests(2) >= 4, launch=2),
    "end": Moment(_held, launch=0, hold="end"),
}
