"""The dashboard as the product starts it, in a real browser: what is seen after a simulated study, and while one runs."""

import json
import re
import shutil
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from contextlib import contextmanager
from dataclasses import replace
from functools import partial

import pytest
from browsers import CHROMIUM, WITHOUT, seen, words_of
from typer.testing import CliRunner

from search.app.dashboard_server import RENEW_S
from search.cli.app import app
from search.config import SpecConfig
from search.outcomes import Evidence, Outcome, Reason
from search.storage.records import LaunchRecord
from search.storage.store import Store

pytestmark = [
    pytest.mark.skipif(CHROMIUM is None, reason=WITHOUT),
    pytest.mark.slow,
    pytest.mark.timeout(300),
]


def simulate(folder, launches):
    words = ["run", "--study", "kimi-k25", "--simulate", "--launches", str(launches), "-q"]
    done = CliRunner().invoke(app, [*words, "--storage", str(folder / "trials.db"), "--reports", str(folder / "out")])
    assert done.exit_code == 0, done.output


def begun_record(number, *, config, at):
    folder = f"launches/{number:04}-{config.config_id}"
    return LaunchRecord(number, "search", config, config, at, folder=folder)


@pytest.fixture(scope="module")
def studied(tmp_path_factory):
    """The folder of a study of twelve launches."""
    folder = tmp_path_factory.mktemp("studied")
    simulate(folder, 12)
    return folder


@pytest.fixture(scope="module")
def address(studied):
    """Of `search dashboard` over that study, to be looked at only."""
    with dashboard(studied) as address:
        yield address


@pytest.fixture
def own_address(studied, tmp_path):
    """Of one over a copy in the test's own folder."""
    shutil.copytree(studied, tmp_path, dirs_exist_ok=True)
    with dashboard(tmp_path) as address:
        yield address


@contextmanager
def dashboard(folder):
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    words = ["dashboard", "--storage", str(folder / "trials.db"), "--reports", str(folder / "out")]
    process = subprocess.Popen([sys.executable, "-m", "search", *words, "--port", str(port)])
    try:
        for _ in range(300):
            assert process.poll() is None
            try:
                urllib.request.urlopen(f"http://127.0.0.1:{port}/", timeout=10).close()
                break
            except (urllib.error.URLError, ConnectionError):
                time.sleep(0.1)
        yield f"http://127.0.0.1:{port}"
    finally:
        process.terminate()
        process.wait(30)


def test_study_is_seen_with_its_decision_its_notes_and_its_trials(address, tmp_path):
    note, faults = seen(f"{address}/dashboard/studies/0/note", tmp_path / "profile")
    assert "peculation" in words_of(note) and "by the cost model" in words_of(note)
    assert faults == []

    trials, faults = seen(f"{address}/dashboard/studies/0/trials", tmp_path / "profile")
    text = words_of(trials)
    assert "|12 Trials|" in text and "|Why: what speculation is compared with|" in text
    assert "sglang.launch_server" in text and "|phase|C|repeat|tok/s|accept|" in text
    assert [int(number) for number in re.findall(r"\|Trial (\d+)\|", text)] == list(range(12))
    assert faults == []


def test_knobs_are_numbers_to_the_dashboard_and_the_report_is_at_hand(address):
    with urllib.request.urlopen(f"{address}/api/studies/0?after=0", timeout=30) as answer:
        told = json.load(answer)
    kinds = {one["name"]: one["distribution"]["type"] for one in told["union_search_space"]}
    assert kinds["topk"] == kinds["num_steps"] == kinds["num_draft_tokens"] == "IntDistribution"
    page = next(one for one in told["artifacts"] if one["filename"] == "index.html")
    with urllib.request.urlopen(f"{address}/artifacts/0/{page['artifact_id']}", timeout=30) as answer:
        assert answer.read(15) == b"<!doctype html>"


def test_launch_that_runs_and_one_that_failed_are_seen_and_are_no_points(own_address, tmp_path):
    with Store(str(tmp_path / "trials.db")) as store:
        before = store.launches("kimi-k25.simulated")
        for place, config_id in enumerate(("v1-k2-s2-d7", "v2-k4-s3-d16")):
            config = SpecConfig.from_id(config_id)
            begun = store.begin_launch(
                "kimi-k25.simulated",
                partial(begun_record, config=config, at=before[-1].started_at),
            )
            if place == 0:
                evidence = Evidence("torch.OutOfMemoryError: CUDA out of memory")
                died = replace(begun, outcome=Outcome.FAILED, reason=Reason.OOM_GRAPH, evidence=evidence)
                store.finish_launch("kimi-k25.simulated", died)
    time.sleep(RENEW_S)  # the dashboard looks again no sooner

    trials, _ = seen(f"{own_address}/dashboard/studies/0/trials", tmp_path / "profile")
    text = words_of(trials)
    assert "|14 Trials|" in text
    assert "|Trial 12|Fail|" in text and "|Trial 13|Running|" in text

    front, faults = seen(f"{own_address}/dashboard/studies/0", tmp_path / "profile")
    drawn = front[front.index("Pareto Front") : front.index("History", front.index("Pareto Front"))]
    assert drawn.count('class="point"') == 12
    assert "Infeasible" not in words_of(front) and faults == []
