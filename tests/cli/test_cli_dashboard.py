"""What optuna-dashboard is shown: every launch, what was measured alone as a point, with its note and its files."""

import json
import threading
import urllib.request
from pathlib import Path

import pytest
from optuna.trial import TrialState
from typer.testing import CliRunner

from search.app.dashboard_server import Renewed
from search.app.dashboard_view import Files, View, distributions_of, trial_of
from search.cli.app import app
from search.config import SpecConfig
from search.outcomes import Evidence, Outcome, Reason
from search.storage.records import LaunchRecord
from search.storage.store import Store


@pytest.fixture(scope="module")
def here(tmp_path_factory):
    folder = tmp_path_factory.mktemp("dashboard")
    words = ["run", "--study", "kimi-k25", "--simulate", "--launches", "16", "-q"]
    storage = ["--storage", str(folder / "trials.db"), "--reports", str(folder / "reports")]
    done = CliRunner().invoke(app, [*words, *storage])
    assert done.exit_code == 0, done.output
    return folder


@pytest.fixture
def view(here):
    with Store(str(here / "trials.db"), read_only=True) as store:
        yield View(store, here / "reports"), store.launches("kimi-k25.simulated")


@pytest.mark.slow
def test_every_launch_is_a_trial_confirmations_too_and_numbers_are_numbers(view):
    shown, launches = view
    trials = shown.storage.get_all_trials(0)
    assert len(trials) == len(launches) == 16
    assert {trial.user_attrs["stage"] for trial in trials} >= {"baseline", "known", "confirm"}
    chain = next(trial for trial in trials if trial.user_attrs["config_id"] == "v2-k1-s2-d3")
    assert (chain.params["topk"], chain.params["num_steps"]) == (1, 2)
    assert isinstance(chain.user_attrs["c100_output_tps"], float)
    assert chain.intermediate_values and chain.system_attrs["constraints"] == [0.0]


@pytest.mark.slow
def test_study_and_trials_have_notes_with_decision_command_and_phases(view):
    shown, _ = view
    notes = {key: value for key, value in shown.storage.get_study_system_attrs(0).items() if "note" in key}
    text = "\n".join(str(value) for value in notes.values())
    assert "peculation" in text and "sglang.launch_server" in text and "| phase | C | repeat |" in text
    page = next(json.loads(v) for k, v in shown.storage.get_study_system_attrs(0).items() if k.startswith("artifacts:"))
    assert page["filename"] == "index.html"
    with shown.files.open_reader(page["artifact_id"]) as stream:
        assert stream.read(15) == b"<!doctype html>"


def test_launch_that_failed_is_no_point_and_has_no_values(here):
    with Store(str(here / "trials.db"), read_only=True) as store:
        from search.analysis.analyse import judge
        from search.app.report_content import ContentBuilder
        from search.app.stored import spec_of

        record = store.study("kimi-k25.simulated")
        launches = store.launches(record.name)
    content = ContentBuilder(spec_of(record), record).content(launches, judge(spec_of(record), launches))
    config = SpecConfig.from_id("v1-k2-s2-d7")
    failed = LaunchRecord(
        99, "search", config, config, launches[0].started_at, outcome=Outcome.FAILED, reason=Reason.OOM_GRAPH,
        evidence=Evidence("out of memory"), folder="launches/0099-v1-k2-s2-d7",
    )  # fmt: skip
    trial = trial_of(content, failed, distributions_of((*launches, failed)), Files(Path("reports")))
    assert (trial.state, trial.values) == (TrialState.FAIL, None)
    assert trial.user_attrs["reason"] == "OOM_GRAPH" and trial.user_attrs["feasible"] is False


def test_files_outside_of_the_reports_are_never_read(tmp_path):
    (tmp_path / "reports" / "lab").mkdir(parents=True)
    (tmp_path / "secret").write_text("mine")
    (tmp_path / "reports" / "lab" / "index.html").symlink_to(tmp_path / "secret")
    files = Files(tmp_path / "reports")
    assert not list(files.add(tmp_path / "reports/lab", (tmp_path / "reports/lab/index.html", "text/html")))


@pytest.mark.slow
def test_dashboard_answers_and_shows_what_was_launched_since(here):
    from wsgiref.simple_server import WSGIRequestHandler, make_server

    class Quiet(WSGIRequestHandler):
        def log_message(self, *args):
            pass

    clock = [0.0]
    application = Renewed(str(here / "trials.db"), here / "reports", lambda: clock[0])
    with make_server("127.0.0.1", 0, application, handler_class=Quiet) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()

        def told():
            with urllib.request.urlopen(f"http://127.0.0.1:{server.server_port}/api/studies/0?after=0") as answer:
                return json.load(answer)["trials"]

        before = told()
        assert len(before) >= 16 and all(trial["note"]["body"] for trial in before)
        words = ["run", "--study", "kimi-k25", "--simulate", "--launches", str(len(before) + 1), "-q"]
        done = CliRunner().invoke(
            app, [*words, "--storage", str(here / "trials.db"), "--reports", str(here / "reports")]
        )
        assert done.exit_code == 0, done.output
        clock[0] = 11.0
        assert len(told()) > len(before)
        server.shutdown()
