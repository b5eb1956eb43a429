"""Every node that could hold a slot is asked, and silence is told."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent


@pytest.mark.slow
def test_each_node_with_room_for_a_slot_answers_once_and_failures_name_their_node():
    done = subprocess.run(
        [sys.executable, str(HERE / "asked_nodes.py")],
        capture_output=True,
        text=True,
        timeout=180,
        check=False,
        env={**os.environ, "PYTHONPATH": os.pathsep.join((str(HERE), str(HERE.parent.parent)))},
    )
    assert done.returncode == 0, done.stderr
    told = dict(line.split(": ", 1) for line in done.stdout.splitlines() if ": " in line)
    assert told["asked"] == "2 2 {None}"
    assert told["breaks"] == "2 could not be asked: no such disk"
    assert told["sleeps"] == "2 gave no answer within 5 s. `ray status` shows whether it is alive."
