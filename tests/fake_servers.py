"""Processes of fake servers, for tests that ask whether any are left."""

import contextlib

import psutil

from search.server.command import LAUNCH_TAG


def servers_of(folder):
    """Those of the fake server that is installed under `folder`; other tests run beside this one."""
    found = []
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            environ = process.environ()
            if LAUNCH_TAG in environ and str(folder) in environ.get("PYTHONPATH", ""):
                found.append(process)
    return found
