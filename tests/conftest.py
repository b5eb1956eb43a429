"""What every test may rely on, and in which order tests run."""

import itertools
import os
import signal
import sqlite3
import sys
from collections import defaultdict
from pathlib import Path

import pytest
from hypothesis import settings
from sqlalchemy import Engine, event

# Containers often forbid it, and then each of our processes compiles all of our modules again, and each process of
# pytest-xdist rewrites the asserts of all tests: half of what collecting them takes.
sys.dont_write_bytecode = False
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)

# Before numpy is loaded. Two test processes on two cores with two BLAS threads each wait for one
# another at every small product of the belief: twelve times slower.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

# A shell starts background jobs with SIGINT ignored, and children would inherit that.
signal.signal(signal.SIGINT, signal.default_int_handler)

# No test asserts times: an example that takes 0.2 s on a busy machine is no failure.
settings.register_profile("untimed", deadline=None)
settings.load_profile("untimed")


@event.listens_for(Engine, "connect")
def no_test_loses_its_power(connection, record):
    """Nothing waits for the disk: a database that nobody needs after a power cut has its commits in no time."""
    if isinstance(connection, sqlite3.Connection):
        connection.execute("PRAGMA synchronous=OFF")


SLOW_S = 5.0
"""A test that takes longer on a quiet machine bears the marker `slow`."""

LONG_MODULE_S = 60.0
"""Slow tests of one module that together take longer do not wait for one another."""


OURS = str(Path(__file__).parent.parent / "search")


@pytest.fixture
def calls_of():
    """Counts what our code costs where times would tell of the machine.

    Of a piece of work: the functions of ours that are called and those that they call; one turn of a generator
    counts as a call.
    """

    def count(work):
        calls = 0

        def seen(frame, event, argument):
            nonlocal calls
            calls += event in ("call", "c_call") and frame.f_code.co_filename.startswith(OURS)

        before = sys.getprofile()
        sys.setprofile(seen)
        try:
            work()
        finally:
            sys.setprofile(before)
        return calls

    return count


def pytest_configure(config):
    config.pluginmanager.register(UnmarkedSlow())


class UnmarkedSlow:
    """Tells of tests that took long without saying so; they pass all the same."""

    def __init__(self):
        self.lines = []

    def pytest_runtest_logreport(self, report):
        if report.when == "call" and report.duration > SLOW_S and "slow" not in report.keywords:
            self.lines.append(f"{report.duration:.0f} s without the marker `slow`: {report.nodeid}")

    def pytest_terminal_summary(self, terminalreporter):
        for line in self.lines:
            terminalreporter.line(line, yellow=True)


def pytest_collection_modifyitems(config, items):
    """Give each process of pytest-xdist its share of the slow tests first, then whole modules of the others.

    Slow tests wait most of the time, so several at once cost little, and one that began last
    would be waited for alone. The tests of a module stay together, and share its fixtures; those of
    a module that is long by its slow tests alone are dealt out one by one.
    `--dist worksteal` cuts the list into as many equal parts as there are processes.
    """
    workers = int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1"))
    slow = _dealt(list(filter(_is_slow, items)), workers)
    quick = iter([item for item in items if not _is_slow(item)])
    ordered = []
    for worker in range(workers):
        share = slow[worker]
        part = (len(items) - len(ordered)) // (workers - worker)
        ordered += [*share, *itertools.islice(quick, max(0, part - len(share)))]
    items[:] = [*ordered, *quick]


def _dealt(slow, workers):
    """The slow tests of each process: the longest module first, always to the one that has the least to do."""
    modules = defaultdict(list)
    for item in slow:
        modules[item.path].append(item)
    groups = []
    for module in modules.values():
        groups += [module] if sum(map(_about_s, module)) <= LONG_MODULE_S else [[item] for item in module]
    shares = [[] for _ in range(workers)]
    for group in sorted(groups, key=lambda group: sum(map(_about_s, group)), reverse=True):
        min(shares, key=lambda share: sum(map(_about_s, share))).extend(group)
    return shares


def _is_slow(item):
    return item.get_closest_marker("slow") is not None


def _about_s(item):
    return item.get_closest_marker("slow").kwargs.get("about_s", SLOW_S)
