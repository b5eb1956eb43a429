"""plan, try, record and replay, each from argument list to exit code."""

import csv
import json
import re
from pathlib import Path

import pytest
from typer.testing import CliRunner

from search.app.recordings import spec_of_recording
from search.app.try_one import spelled_config
from search.cli.app import app, run_app
from search.config import SpecConfig
from search.dialects import for_release
from search.engines.recording import read_recording
from search.spec.file import find_study, load_study

HEADER = (
    "config_id,spec_version,topk,num_steps,num_draft_tokens,allreduce_fusion,launch,outcome,reason,notes,concurrency,"
    "repeat,requests,output_tps,tpot_ms,ttft_ms,accept_length,accept_histogram,boot_s,duration_s\n"
)
ROWS = (
    "off,off,,,,off,1,MEASURED,,,1,1,16,90,11.1,40,,,700,50\n"
    "off,off,,,,off,1,MEASURED,,,100,1,400,770,128,640,,,700,150\n"
    "v2-k1-s2-d3,v2,1,2,3,off,2,MEASURED,,,1,1,16,100,10,40,1.9,,700,50\n"
    "v2-k1-s2-d3,v2,1,2,3,off,2,MEASURED,,,100,1,400,760,130,640,1.9,,700,150\n"
    "v1-k4-s3-d16,v1,4,3,16,off,3,FAILED,OOM_GRAPH,,,,,,,,,,300,\n"
)


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def table(here):
    folder = here / "recordings" / "lab"
    folder.mkdir(parents=True)
    (folder / "measurements.csv").write_text(HEADER + ROWS)
    meta = {"name": "lab", "synthetic": True, "model": "m", "versions": {"sglang": "0.5.9"}, "known": ["v2-k1-s2-d3"]}
    (folder / "meta.json").write_text(json.dumps(meta))
    return folder


def search(*words):
    return CliRunner().invoke(app, [str(word) for word in words])


def run(*words):
    return CliRunner().invoke(run_app, [str(word) for word in words])


def test_plan_shows_counts_order_and_hours():
    done = search("plan", "--study", "kimi-k25")
    assert done.exit_code == 0, done.output
    assert "v2-topk1-only" in done.stdout
    assert "     1  off  " in done.stdout
    assert done.stdout.startswith("study kimi-k25: 16 of 40 launches fit into 6.5 hours, about ")
    assert "\n  search     1 of 25  as the sampler proposes" in done.stdout
    assert "need at least" not in done.stdout
    assert "launchable:" not in done.stdout


def test_plan_says_what_short_hours_leave_out_known_configs_last():
    done = search("plan", "--study", "kimi-k25", "--hours", "3")
    assert done.stdout.startswith("study kimi-k25: 8 of 40 launches fit into 3 hours, about 2h")
    left_out = [line.strip() for line in done.stdout.splitlines() if line.startswith("  left out: ")]
    assert left_out[0] == "left out: 7 of 8 confirmations" and "launches that the sampler could propose" in left_out[1]
    shorter = search("plan", "--study", "kimi-k25", "--hours", "1", "--json").stdout
    told = json.loads(shorter)
    assert told["budget_hours"] == 1.0 and told["launches_within_hours"] == 3
    assert [line.split(" (")[0] for line in told["left_out"][:3]] == ["v1-k1-s2-d3", "v1-k2-s2-d7", "v1-k4-s3-d16"]


def test_hours_that_a_plan_names_as_enough_leave_nothing_out():
    short = search("plan", "--study", "kimi-k25").stdout
    enough = re.search(r"with `--hours (\d+)` nothing is left out", short)[1]
    assert json.loads(search("plan", "--study", "kimi-k25", "--hours", enough, "--json").stdout)["left_out"] == []


def test_plan_of_a_study_whose_starts_hold_several_configs_has_room_for_more_of_them():
    apart, shared = (
        json.loads(search("plan", "--study", name, "--json", "--hours", "6").stdout)
        for name in ("kimi-k25", "kimi-k25-switching")
    )
    assert shared["launches_within_hours"] > apart["launches_within_hours"]
    assert [one["expected_s"] < 900 for one in shared["first"]] == [False, False, False, True, True]


def test_plan_lists_every_config_when_asked():
    lines = search("plan", "--study", "kimi-k25", "--list").stdout.splitlines()
    assert "  v1-k2-s2-d7" in lines


def test_plan_as_json_agrees_with_its_own_counts():
    plan = json.loads(search("plan", "--study", "kimi-k25", "--json", "--launches", 5).stdout)
    space = plan["space"]
    taken = len(space["launchable"]) + len(space["locked"]) + sum(reason["count"] for reason in space["dropped"])
    assert taken == space["raw"]
    assert plan["launches"] == 5
    assert [launch["stage"] for launch in plan["first"]] == ["baseline", "baseline", "known", "known", "known"]


def test_plan_makes_no_file(here):
    search("plan", "--study", "kimi-k25")
    assert list(here.iterdir()) == []


def test_try_measures_one_config_and_stores_it_outside_the_search():
    done = search("try", "--study", "kimi-k25", "--simulate", "topk=2 num_steps=2")
    assert done.exit_code == 0, done.output
    lines = done.stdout.splitlines()
    assert "asked for  v1-k2-s2-d7" in lines
    assert "really ran v1-k2-s2-d7" in lines
    assert "stored in reports/kimi-k25.simulated/launches/0001-v1-k2-s2-d7" in lines
    trials = Path("reports/kimi-k25.simulated/trials.csv").read_text().splitlines()
    assert trials[1].startswith("1,try,v1-k2-s2-d7,v1,2,2,7,off,MEASURED,")


def test_try_counts_in_the_budget_and_does_not_stop_a_run():
    search("try", "--study", "kimi-k25", "--simulate", "off")
    done = run("--study", "kimi-k25", "--simulate", "--launches", 3)
    assert done.exit_code == 0, done.output
    assert "1 launch already made" in done.stdout


def test_try_as_json_holds_asked_and_effective():
    done = search("try", "--study", "kimi-k25", "--simulate", "--json", "v2-k1-s2-d3")
    result = json.loads(done.stdout)
    assert (result["asked"], result["effective"], result["outcome"]) == ("v2-k1-s2-d3", "v2-k1-s2-d3", "MEASURED")
    assert [phase["concurrency"] for phase in result["phases"]] == [1, 100, 1, 100, 30]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("v2-k2-s2-d7",), "v2-topk1-only"),
        (("topk=x num_steps=2",), "topk"),
        ((), "`try` takes a config"),
        (("--raw", "--study", "x"), "`--raw` needs a real server"),
    ],
)
def test_try_refuses_in_words_and_makes_nothing(here, words, said):
    done = search("try", "--study", "kimi-k25", "--simulate", *words)
    assert done.exit_code == 2
    assert said in done.stderr
    assert list(here.iterdir()) == []


@pytest.fixture
def lab(here):
    return load_study(find_study("h200-lab", here=here))


def test_raw_words_that_spell_a_config_are_recognised(lab):
    dialect = for_release(lab.engine.release)
    for config_id in ("off", "v2-k1-s2-d3", "v1-k2-s2-d7"):
        args = dialect.launch_args(SpecConfig.from_id(config_id), lab.deployment)
        words = [*(f"{name}={value}" for name, value in args.env.items() if value is not None), *args.flags]
        assert spelled_config(words, dialect, lab.deployment).config_id == config_id


def test_replay_rebuilds_the_front_of_a_table(table):
    done = run("--replay", table)
    assert done.exit_code == 0, done.output
    assert "study lab.replay [REPLAY]: 3 valid configs" in done.stdout
    front = json.loads(Path("reports/lab.replay/front.json").read_text())
    assert [row["config_id"] for row in front["front"]] == ["v2-k1-s2-d3", "off"]
    assert front["failures"][0]["reason"] == "OOM_GRAPH"
    assert "recording.synthetic: yes" in front["provenance"]
    page = Path("reports/lab.replay/index.html").read_text()
    assert "<strong>REPLAY</strong>" in page


def test_replayed_report_is_rebuilt_without_the_recording(table):
    run("--replay", table)
    before = Path("reports/lab.replay/index.html").read_text()
    (table / "meta.json").unlink()
    assert search("report", "--study", "lab").exit_code == 0
    assert Path("reports/lab.replay/index.html").read_text() == before


def test_replay_names_its_own_study_and_models(table):
    done = run("--replay", table, "--study", "kimi-k25")
    assert done.exit_code == 2
    assert "leave out `--study`" in done.stderr


def test_replay_of_a_table_that_changed_is_not_mixed_with_the_old_one(table):
    run("--replay", table)
    (table / "measurements.csv").write_text(HEADER + ROWS.replace("760,130", "790,120"))
    done = run("--replay", table)
    assert done.exit_code == 2
    assert "recording.sha256" in done.stderr


def test_study_of_a_table_takes_objectives_known_and_repeats_from_it(table):
    spec = spec_of_recording(read_recording(table))
    assert spec.objective_names == ("c1_tpot_ms", "c100_output_tps")
    assert (spec.known, spec.watch, spec.measure.repeats) == (("v2-k1-s2-d3",), (), 1)


def test_recorded_study_replays_to_the_same_front():
    run("--study", "kimi-k25", "--simulate", "--launches", 6)
    done = search("record", "--study", "kimi-k25", "--to", "recordings/kimi")
    assert done.exit_code == 0, done.output
    assert run("--replay", "recordings/kimi").exit_code == 0
    # The live report shows the fit's values of what was extrapolated, so the drawn ones of each launch are compared.
    live, replayed = (
        list(csv.DictReader(Path(f"reports/{name}/trials.csv").read_text().splitlines()))
        for name in ("kimi-k25.simulated", "kimi.replay")
    )
    drawn = {row["config_id"]: row for row in live if row["stage"] != "confirm"}
    again = {row["config_id"]: row for row in replayed if row["stage"] != "confirm"}
    assert again.keys() == drawn.keys()
    for name, row in again.items():
        for column in ("c1_tpot_ms", "c100_output_tps"):
            assert float(row[column]) == pytest.approx(float(drawn[name][column]), rel=1e-3)


def test_record_keeps_what_is_there(table):
    run("--replay", table)
    done = search("record", "--study", "lab", "--to", table)
    assert done.exit_code == 2
    assert "holds one" in done.stderr


def test_record_of_a_replay_is_refused(table):
    run("--replay", table)
    done = search("record", "--study", "lab", "--to", "recordings/again")
    assert done.exit_code == 2
    assert "is itself a replay" in done.stderr


def test_dashboard_of_a_storage_that_is_not_there_says_so():
    done = search("dashboard")
    assert done.exit_code == 2
    assert "There is no database" in done.stderr
