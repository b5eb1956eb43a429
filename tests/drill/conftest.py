"""The drill's own option, and Ray without what a sample need not pay for."""

import os


def pytest_configure(config):
    if not config.getoption("--drill-all", default=False):
        os.environ["SEARCH_DRILL_LEAN"] = "1"


def pytest_addoption(parser):
    parser.addoption("--drill-all", action="store_true", help="every case of the fault drill, not only the sample")
