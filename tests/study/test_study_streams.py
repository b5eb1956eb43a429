"""What a command does when what it prints cannot be written: a study goes on, everything else says so."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

BEGIN = "import sys, time\nfrom search.study.signals import interruptible\nfrom search.study.streams import outlast\n"


def run(work, **how):
    """A process whose command is `work`, and its output on standard error."""
    lines = "".join(f"    {line}\n" for line in work.split("\n"))
    code = f"{BEGIN}def work(interrupts):\n{lines}interruptible(work)\n"
    return subprocess.Popen([sys.executable, "-c", code], stderr=subprocess.PIPE, text=True, **how)


def test_study_goes_on_when_its_reader_leaves(tmp_path):
    done = tmp_path / "done"
    work = (
        f"outlast()\nfor n in range(200): print('x' * 1000, n, flush=True)\nopen({str(done)!r}, 'w').write('all of it')"
    )
    read, write = os.pipe()
    process = run(work, stdout=write)
    os.close(write)
    os.close(read)
    _, told = process.communicate(timeout=60)

    assert (process.returncode, done.read_text()) == (0, "all of it")
    assert told == "Standard output can no longer be written (Broken pipe). The work goes on; its report tells all.\n"


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full here")
def test_study_goes_on_when_the_disk_of_its_output_is_full(tmp_path):
    done = tmp_path / "done"
    with Path("/dev/full").open("w") as full:
        process = run(f"outlast()\nprint('x', flush=True)\nopen({str(done)!r}, 'w').write('all')", stdout=full)
        _, told = process.communicate(timeout=60)

    assert (process.returncode, done.read_text()) == (0, "all") and "No space left on device" in told


def test_nothing_that_is_printed_lands_in_a_file_when_standard_output_was_closed(tmp_path):
    file = tmp_path / "trials.db"
    work = f"held = open({str(file)!r}, 'w')\nprint('a word')\nsys.stderr.write('another')\nheld.write('a row')\nheld.close()"
    process = run(work, close_fds=True, preexec_fn=lambda: (os.close(1), os.close(2)))
    process.communicate(timeout=60)

    assert (process.returncode, file.read_text()) == (0, "a row")


def test_words_that_the_encoding_lacks_are_escaped():
    plain = {**os.environ, "LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0", "PYTHONIOENCODING": "ascii"}
    process = run(r"print('5 \xb5s \u2026', flush=True)", stdout=subprocess.PIPE, env=plain)
    out, told = process.communicate(timeout=60)

    assert (process.returncode, out, told) == (0, "5 \\xb5s \\u2026\n", "")


@pytest.mark.slow
@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full here")
def test_command_that_only_prints_says_that_it_could_not(tmp_path):
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            [sys.executable, "-m", "search", "plan", "--study", "kimi-k25"], stdout=full, stderr=subprocess.PIPE, text=True, timeout=120,
        )  # fmt: skip

    assert done.returncode == 1
    assert done.stderr.splitlines()[-1].startswith("Standard output cannot be written: No space left on device.")
    assert "Traceback" not in done.stderr
