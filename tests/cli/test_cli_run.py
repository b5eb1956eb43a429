"""The main job from argument list to exit code, on the cost model."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

import search as search_package
from search.cli.app import app, run_app
from search.cli.display import LiveDisplay, PlainDisplay, QuietDisplay, display_for

SIMULATED = ("--study", "kimi-k25", "--simulate")
# The children import the package under test, installed or not.
ENVIRON = {**os.environ, "PYTHONPATH": str(Path(search_package.__file__).parents[1])}
FOLDER = Path("reports/kimi-k25.simulated")


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def run(*words):
    return CliRunner().invoke(run_app, [str(word) for word in words])


def search(*words):
    return CliRunner().invoke(app, [str(word) for word in words])


def files(folder):
    return {
        path.relative_to(folder).as_posix(): path.read_text()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and path.name != "run.log"
    }


def test_simulated_run_ends_with_the_front_and_the_paths():
    done = run(*SIMULATED, "--launches", 4)
    assert done.exit_code == 0, done.output
    lines = done.stdout.splitlines()
    assert lines[0] == "search: study kimi-k25"
    assert lines[1].startswith("study kimi-k25.simulated [SIMULATED]: ")
    assert sum(line.startswith("[") for line in lines) == 4
    assert any(line.startswith("front ") and "C=100 tok/s" in line for line in lines)
    files = next(line for line in lines if line.startswith("report "))
    assert files.startswith(f"report {FOLDER}/index.html, beside it front.csv")
    assert lines.index(files) < next(at for at, line in enumerate(lines) if line.startswith("Leave speculation off"))
    assert all((FOLDER / name).is_file() for name in ("index.html", "front.csv", "front.json", "summary.md", "run.log"))
    assert done.stderr == ""


def test_same_command_again_resumes_and_launches_nothing_over_its_budget():
    run(*SIMULATED, "--launches", 3)
    done = run(*SIMULATED, "--launches", 4)
    assert "3 launches already made" in done.stdout
    assert [line[:5] for line in done.stdout.splitlines() if line.startswith("[")] == ["[4/4]"]
    assert len((FOLDER / "trials.csv").read_text().splitlines()) == 5


def test_report_from_the_database_alone_equals_the_live_one():
    run(*SIMULATED, "--launches", 4)
    live = files(FOLDER)
    for path in live:
        (FOLDER / path).unlink()
    done = search("report", "--study", "kimi-k25")
    assert done.exit_code == 0, done.output
    assert files(FOLDER) == live


def test_json_is_the_only_thing_on_stdout():
    done = run(*SIMULATED, "--launches", 3, "--json")
    result = json.loads(done.stdout)
    assert result["ending"] == "the launch budget is spent"
    assert result["kind"] == "simulated"
    assert result["front"][0]["config_id"] in {"off", "off+arf=auto", "v2-k1-s2-d3"}
    events = [json.loads(line) for line in done.stderr.splitlines()]
    kinds = [event["event"] for event in events]
    assert kinds[:2] == ["asked", "started"] and kinds[-1] == "ended"
    assert kinds.count("launching") == kinds.count("launched") == kinds.count("ready") == 3
    assert any(event["event"] == "phase ends" and event["output_tps"] > 0 for event in events)


def test_quiet_prints_only_the_end():
    done = run(*SIMULATED, "--launches", 2, "-q")
    assert "[1/2]" not in done.stdout
    assert "SIMULATED: " in done.stdout and done.stdout.rstrip().endswith("on the GPUs measures it.")
    assert done.stderr == ""


def test_model_of_the_command_line_reaches_report_and_script():
    run(*SIMULATED, "--launches", 2, "--model", "/models/<i>me</i>/Kimi-K2.5")
    assert "&lt;i&gt;me&lt;/i&gt;" in (FOLDER / "index.html").read_text()
    assert "<i>me" not in (FOLDER / "index.html").read_text()
    assert "'/models/<i>me</i>/Kimi-K2.5'" in (FOLDER / "launch/off.sh").read_text()
    assert "'/models/<i>me</i>/Kimi-K2.5'" in (FOLDER / "launch/off.measuring.sh").read_text()


def test_simulation_of_a_model_that_nothing_was_fitted_to_is_a_rehearsal_without_a_verdict():
    """Else a Qwen3 and a DeepSeek would have equal numbers and equal advice."""
    done = run(*SIMULATED, "--launches", 8, "--model", "Qwen/Qwen3-8B")
    assert done.exit_code == 0, done.output
    assert "REHEARSAL: Invented numbers" in done.stdout and "calibrated" not in done.stdout
    assert done.stdout.splitlines()[-2:] == [
        "No verdict: this was a rehearsal with invented numbers, which are the same for every model and GPU.",
        "python -m search.run --study kimi-k25 on the GPUs measures it.",
    ]
    told = json.loads((FOLDER / "front.json").read_text())
    assert told["label"] == "REHEARSAL" and told["decision"]["verdict"] == "rehearsal"
    assert not any(told[name] for name in ("headlines", "winners", "picks", "questions", "knobs"))
    assert not list((FOLDER / "launch").glob("*.sh"))
    assert "No verdict" in (FOLDER / "run.log").read_text().splitlines()[-2]


def test_without_the_gpus_says_what_is_missing_and_makes_nothing(here):
    done = run("--study", "kimi-k25", "--launches", 5)
    assert done.exit_code == 3
    missing = done.stderr.splitlines()
    assert any(line.startswith("GPUs: the study needs 8x") for line in missing)
    assert missing[-1].endswith(": python -m search.run --study kimi-k25 --launches 5 --simulate")
    assert list(here.iterdir()) == []


def test_unknown_study_lists_the_known_ones(here):
    done = run("--study", "kimi-k26", "--simulate")
    assert done.exit_code == 2
    assert "Did you mean kimi-k25?" in done.stderr
    assert "Known studies: h200-lab, " in done.stderr
    assert "kimi-k25, kimi-k25-switching" in done.stderr
    assert list(here.iterdir()) == []


def test_study_that_this_folder_adds_is_found_before_the_packaged_ones(here):
    (here / "spaces").mkdir()
    (here / "spaces" / "mine.yaml").write_text("study: mine\nmodle: {}\n")
    done = run("--study", "mine", "--simulate")
    assert done.exit_code == 2
    assert "mine.yaml:2: `modle`" in done.stderr


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ((), "Known studies: h200-lab, "),
        ((*SIMULATED, "--launches", "0"), "--launches"),
        ((*SIMULATED, "--bogus"), "--bogus"),
        ((*SIMULATED, "--executor", "slurm"), "`--executor` is one of ray, inline, but got 'slurm'"),
        ((*SIMULATED, "--replay", "x"), "`--simulate` and `--replay` exclude one another"),
        ((*SIMULATED, "--sampler", "magic"), "magic"),
        (("--replay", "nowhere"), "nowhere"),
    ],
)
def test_wrong_usage_exits_with_2_and_says_why(words, said):
    done = run(*words)
    assert done.exit_code == 2
    assert said in done.stderr
    assert "Traceback" not in done.stderr


def test_debug_shows_the_traceback():
    done = run("--study", "nope", "--simulate", "--debug")
    assert done.exit_code == 2
    assert "Traceback" in done.stderr


def test_report_of_a_storage_that_is_not_there_makes_none(here):
    done = search("report", "--study", "kimi-k25")
    assert done.exit_code == 2
    assert "There is no database trials.db" in done.stderr
    assert list(here.iterdir()) == []


def test_help_lists_exactly_the_commands_that_exist():
    listed = [line.split()[0] for line in search("--help").stdout.split("Commands:")[1].splitlines() if line.strip()]
    assert set(listed) == {
        *("run", "plan", "whatif", "try", "ab", "doctor", "links", "init", "report", "dashboard", "record"),
        *("compare", "import", "clean", "dialect"),
    }


def spawn(*words, program=("-m", "search.run")):
    return subprocess.Popen(
        [sys.executable, *program, *words],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=ENVIRON,
    )


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_interrupt_says_what_is_saved_and_how_to_resume(number):
    with spawn(*SIMULATED, "--seed", "1") as process:
        for line in process.stdout:
            if line.startswith("[ 1/40]"):
                break
        process.send_signal(number)
        out, err = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "Resume with: python -m search.run --study kimi-k25 --seed 1 --simulate" in err
    assert "Traceback" not in err
    assert "ended: interrupted" in out
    again = run(*SIMULATED, "--seed", "1", "--launches", "2")
    assert again.exit_code == 0, again.output


@pytest.mark.slow
def test_sigterm_is_an_interrupt_on_ray_too_which_has_a_handler_of_its_own():
    with spawn(*SIMULATED, "--executor", "ray") as process:
        for line in process.stdout:
            if line.startswith("[ 1/40]"):
                break
        process.send_signal(signal.SIGTERM)
        out, err = process.communicate(timeout=60)
    assert process.returncode == 130, err
    assert "ended: interrupted" in out
    assert "Resume with:" in err and "SIGTERM received" not in err


def test_background_job_that_ignores_ctrl_c_still_ends_on_sigterm():
    """A shell starts `command &` in a script with SIGINT ignored."""
    ignoring = (
        "import signal; signal.signal(signal.SIGINT, signal.SIG_IGN); from search.cli.app import run_main; run_main()"
    )
    with spawn(*SIMULATED, program=("-c", ignoring)) as process:
        for line in process.stdout:
            if line.startswith("[ 1/40]"):
                break
        process.send_signal(signal.SIGINT)
        assert process.stdout.readline()
        process.send_signal(signal.SIGTERM)
        out, _ = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "ended: interrupted" in out


def test_reader_that_leaves_early_gets_no_traceback():
    with spawn(*SIMULATED, "--launches", "3") as process:
        process.stdout.readline()
        process.stdout.close()
        err = process.stderr.read()
        process.wait(timeout=60)
    assert err == ""


def test_nothing_heavy_is_imported_before_the_first_line():
    code = "import sys, search.cli.app; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=ENVIRON)
    heavy = {"optuna", "pandas", "plotly", "ray", "numpy", "scipy", "sqlalchemy", "pydantic", "aiohttp", "rich"}
    assert not heavy & set(done.stdout.split())


@pytest.mark.parametrize("program", ["search", "search.run"])
def test_version_is_said_without_a_study(program):
    done = (search if program == "search" else run)("--version")
    assert (done.exit_code, done.stdout) == (0, f"search {search_package.__version__}\n")


def test_no_study_named_lists_those_there_are(here):
    (here / "spaces").mkdir()
    (here / "spaces" / "mine.yaml").write_text("study: mine\ntitle: My own model\n")
    told = run().stderr
    lines = [" ".join(line.split()) for line in told.splitlines()]
    assert "kimi-k25 Kimi-K2.5 with EAGLE-3 on 8x RTX PRO 6000 Blackwell (packaged)" in lines
    assert "mine My own model (in ./spaces)" in lines
    assert "python -m search init" in told
    run(*SIMULATED, "--launches", "1", "-q")
    for command in ("report", "record"):
        done = search(command, *(("--to", "x") if command == "record" else ()))
        assert done.exit_code == 2 and "  kimi-k25.simulated  1 launch" in done.stderr


def test_lines_of_a_run_fit_100_columns_and_are_wrapped_at_words():
    done = run(*SIMULATED, "--launches", 6)
    assert all(len(line) <= 100 for line in done.stdout.splitlines()), done.stdout
    results = [line for line in done.stdout.splitlines() if line.startswith("[")]
    assert len(results) == 6 and all("  c1 " in line for line in results)


class Terminal:
    """A stream that claims to be a terminal."""

    def __init__(self, *, tty):
        self._tty = tty

    def isatty(self):
        return self._tty


@pytest.mark.parametrize(
    ("tty", "quiet", "environ", "display"),
    [
        (True, False, {}, LiveDisplay),
        (True, False, {"NO_COLOR": "1"}, LiveDisplay),
        (True, False, {"TERM": "dumb"}, PlainDisplay),
        (False, False, {}, PlainDisplay),
        (True, True, {}, QuietDisplay),
    ],
)
def test_display_is_live_only_on_a_capable_terminal(tty, quiet, environ, display):
    assert type(display_for(Terminal(tty=tty), quiet=quiet, environ=environ)) is display


@pytest.mark.slow
def test_live_display_keeps_every_result_line_and_shows_what_runs():
    read, write = os.openpty()
    code = "from search.cli.app import run_main; run_main()"
    environ = {**ENVIRON, "TERM": "xterm", "COLUMNS": "300"}
    environ.pop("NO_COLOR", None)
    with subprocess.Popen(
        [sys.executable, "-c", code, *SIMULATED, "--launches", "2"], stdout=write, stderr=subprocess.STDOUT, env=environ
    ) as process:
        os.close(write)
        shown = b""
        while chunk := _read(read):
            shown += chunk
        process.wait(timeout=60)
    os.close(read)
    text = shown.decode()
    assert "[1/2] off  c1 " in text
    assert "[2/2] off+arf=auto  c1 " in text
    assert "/2 launches" in text
    assert "report reports/kimi-k25.simulated/index.html" in text.replace("\x1b[1m", "").replace("\x1b[0m", "")
    assert text.rstrip().endswith("on the GPUs measures it.")


def _read(terminal):
    try:
        return os.read(terminal, 65536)
    except OSError:  # Linux says EIO when the last writer is gone.
        return b""


def test_host_without_the_gpus_is_offered_a_rehearsal_or_the_calibrated_model_by_its_name(here):
    made = search("init", "--model", "Qwen/Qwen3-8B", "--draft", "Tengyunw/qwen3_8b_eagle3", "--gpus", "64x H100")
    assert made.exit_code == 0, made.output
    mine, shipped = run("--study", "qwen3-8b"), run("--study", "kimi-k25")
    assert mine.exit_code == shipped.exit_code == 3
    assert "as a rehearsal with invented numbers: python -m search.run --study qwen3-8b --simulate" in mine.stderr
    assert "on the calibrated cost model: python -m search.run --study kimi-k25 --simulate" in shipped.stderr
