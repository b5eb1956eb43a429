"""The drill's own option."""


def pytest_addoption(parser):
    parser.addoption("--drill-all", action="store_true", help="every case of the fault drill, not only the sample")
