"""Serves optuna-dashboard over a view of a storage, and makes the view anew while studies run."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from pathlib import Path
from socketserver import ThreadingMixIn
from typing import Any, TypeAlias
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer, make_server

from search.app.dashboard_view import View
from search.storage.store import Store

Application: TypeAlias = Callable[[dict[str, Any], Callable[..., Any]], Iterable[bytes]]

RENEW_S = 10.0
"""The view is at most so old; it is made only for somebody who looks."""


class Renewed:
    """An application over the newest view: a request after `RENEW_S` has the storage looked at again.

    Args:
        storage: Looked into, never written.
        reports: Where the reports are.
        now: Seconds, monotonic.
    """

    def __init__(self, storage: str, reports: Path, now: Callable[[], float]) -> None:
        self._storage, self._reports, self._now = storage, reports, now
        self._lock = threading.Lock()
        self._made_at = 0.0
        self._seen: object = None
        self._application: Application = self._look()

    def __call__(self, environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        """Answer a request."""
        with self._lock:
            if self._now() - self._made_at >= RENEW_S:
                self._application = self._look()
        return self._application(environ, start_response)

    def _look(self) -> Application:
        """The application for what is stored now; the same as before where nothing has changed."""
        import optuna_dashboard

        with Store(self._storage, read_only=True) as store:
            seen = [
                (
                    study.name,
                    [(launch.number, launch.outcome, len(launch.phases)) for launch in store.launches(study.name)],
                )
                for study in store.studies()
            ]
            if seen != self._seen:
                view = View(store, self._reports)
                self._made: Application = optuna_dashboard.wsgi(view.storage, view.files)
                self._seen = seen
        self._made_at = self._now()
        return self._made


class _Quiet(WSGIRequestHandler):
    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        """Say nothing of each request."""


class _Threads(ThreadingMixIn, WSGIServer):
    daemon_threads = True


def serve(application: Application, *, host: str, port: int) -> None:
    """Answer until the process is interrupted."""
    with make_server(host, port, application, server_class=_Threads, handler_class=_Quiet) as server:
        server.serve_forever()
