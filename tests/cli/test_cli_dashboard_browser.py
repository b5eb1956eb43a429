"""The dashboard as the product starts it, in a real browser: what is seen after a simulated study, and while one runs."""

import re
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request

import pytest
from tests.browsers import CHROMIUM, WITHOUT, seen, words_of
from typer.testing import CliRunner

from search.cli.app import app
from search.config import SpecConfig
from search.outcomes import Evidence, Outcome, Reason
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


@pytest.fixture
def address(tmp_path):
    """Of `search dashboard` over a study of twelve launches."""
    simulate(tmp_path, 12)
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    words = ["dashboard", "--storage", str(tmp_path / "trials.db"), "--reports", str(tmp_path / "out")]
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


def test_page_of_the_report_is_at_hand_as_a_file(address):
    with urllib.request.urlopen(f"{address}/api/studies/0?after=0", timeout=30) as answer:
        import json

        told = json.load(answer)
    page = next(one for one in told["artifacts"] if one["filename"] == "index.html")
    with urllib.request.urlopen(f"{address}/artifacts/0/{page['artifact_id']}", timeout=30) as answer:
        assert answer.read(15) == b"<!doctype html>"


def test_failed_launch_stands_among_the_trials_and_is_no_point(address, tmp_path):
    bad = SpecConfig.from_id("v1-k2-s2-d7")
    with Store(str(tmp_path / "trials.db")) as store:
        number = 0
