"""Studies whose file chooses its objectives: checked, searched, reported, resumed and recorded as the usual ones are."""

import csv
import json
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest
from typer.testing import CliRunner

from search.analysis.analyse import judge
from search.cli.app import app
from search.config import SpecConfig
from search.contracts import PhaseResult
from search.errors import UsageError
from search.outcomes import Outcome
from search.spec.file import parse_study
from search.spec.fingerprint import fingerprint
from search.storage.records import LaunchRecord

CHOSEN = "objectives: [{metric: ttft_p99_ms, at: 1}, {metric: goodput, at: 30}]"
LIMITS = "measure: {limits: {ttft_ms: 700, tpot_ms: 40}}\n"


@pytest.fixture
def chosen(study_text):
    text = study_text.replace("objectives: {latency: 1, throughput: 100}", CHOSEN).replace(
        "watch: [30]", "watch: [100]"
    )
    assert CHOSEN in text
    return text.replace("sampler: random", "sampler: frontier") + LIMITS


def test_usual_objectives_stay_what_they_were(study_text):
    spec = parse_study(study_text, name="lab.yaml")
    assert spec.objective_names == ("c1_tpot_ms", "c100_output_tps") and spec.directions == ("minimize", "maximize")
    assert spec.model_dump(mode="json")["objectives"] == {"latency": 1, "throughput": 100}
    told = fingerprint(spec, kind="measured")
    assert (told["objectives.latency"], told["objectives.throughput"]) == ("1", "100")


def test_chosen_objectives_are_named_and_change_what_is_comparable(chosen):
    spec = parse_study(chosen, name="lab.yaml")
    assert spec.objective_names == ("c1_ttft_p99_ms", "c30_goodput") and spec.directions == ("minimize", "maximize")
    assert spec.loads == (1, 30, 100) and spec.objective_loads == (1, 30)
    assert type(spec).model_validate(spec.model_dump(mode="json")).axes == spec.axes
    told = fingerprint(spec, kind="measured")
    assert told["objectives"] == "c1_ttft_p99_ms, c30_goodput" and told["measure.limits.ttft_ms"] == "700.0"


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ("[{metric: ttft_p9_ms, at: 1}, {metric: goodput, at: 30}]", "should be 'tpot_ms', 'output_tps', .* but found 'ttft_p9_ms' .str.. Did you mean 'ttft_p99_ms'"),
        ("[{metric: goodput, at: 30}]", "`objectives.1`: is required"),
        ("[{metric: goodput, at: 0}, {metric: tpot_ms, at: 1}]", "`objectives.0.at`: should be at least 1"),
        ("[{metrik: goodput, at: 3}, {metric: tpot_ms, at: 1}]", "`objectives.0.metrik`: is not a key of a study file; did you mean `metric`"),
        ("{latency: 1, troughput: 9}", "`objectives.troughput`: is not a key of a study file; did you mean `throughput`"),
        ("[{metric: goodput, at: 30}, {metric: goodput, at: 30}]", "must name two different ones, but got c30_goodput twice"),
    ],
)  # fmt: skip
def test_wrong_objectives_are_refused_with_the_way_out(chosen, wrong, said):
    with pytest.raises(UsageError, match=said):
        parse_study(chosen.replace(CHOSEN, f"objectives: {wrong}"), name="lab.yaml")


def test_goodput_without_limits_is_refused_with_the_way_out(chosen):
    with pytest.raises(UsageError, match=r"`measure.limits` has none; set `ttft_ms`, `tpot_ms` or both there"):
        parse_study(chosen.replace(LIMITS, ""), name="lab.yaml")


@pytest.fixture
def simulate(chosen, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("spaces").mkdir()
    # Of the model and GPUs that the simulator was fitted to: a rehearsal on invented numbers names no winners.
    fitted = chosen.replace("/models/target", "/models/Kimi-K2.5").replace("kind: H200", "kind: RTX PRO 6000")
    fitted += "simulation: {physics: kimi-k25-story}\n"
    Path("spaces/lab.yaml").write_text(fitted)

    def run(*options):
        done = CliRunner().invoke(app, ["run", "--study", "spaces/lab.yaml", "--simulate", *options])
        assert done.exit_code == 0, done.output
        return done.output

    return run


def rows(name):
    with Path("reports/lab.simulated", name).open() as file:
        return list(csv.DictReader(file))


def test_whole_simulated_study_of_goodput_against_first_tokens(simulate):
    simulate("--launches", "4")
    output = simulate("--launches", "9")  # resumed
    trials, front = rows("trials.csv"), rows("front.csv")
    assert [row["launch"] for row in trials] == [str(number) for number in range(1, len(trials) + 1)] and len(
        trials
    ) > 4
    for row in trials:
        assert float(row["c1_ttft_p99_ms"]) > 0
        assert row["c30_goodput"] == "" or 0 <= float(row["c30_goodput"]) <= 1
    assert any(row["expected_c30_goodput"] for row in trials if row["stage"] == "search")
    points = [(float(row["c1_ttft_p99_ms"]), float(row["c30_goodput"])) for row in front]
    assert points and not any(a != b and a[0] <= b[0] and a[1] >= b[1] for a in points for b in points)
    told = json.loads(Path("reports/lab.simulated/front.json").read_text())
    assert told["objectives"] == {"c1_ttft_p99_ms": "minimize", "c30_goodput": "maximize"}
    assert {one["objective"] for one in told["objective_winners"]} == {"c1_ttft_p99_ms", "c30_goodput"}
    assert "Time to first token, 99th percentile at C=1: " in output
    page = Path("reports/lab.simulated/index.html").read_text()
    assert "Share of requests within the limits at C=30" in page


def test_recording_of_chosen_objectives_replays_to_the_same_front(simulate):
    simulate("--launches", "5")
    runner = CliRunner()
    made = runner.invoke(app, ["record", "--study", "lab.simulated", "--to", "recordings/lab"])
    assert made.exit_code == 0, made.output
    header = Path("recordings/lab/measurements.csv").read_text().splitlines()[0]
    assert "ttft_p99_ms" in header and "goodput" in header
    played = runner.invoke(app, ["run", "--replay", "recordings/lab", "-q"])
    assert played.exit_code == 0, played.output
    fronts = [
        json.loads(Path(f"reports/{name}/front.json").read_text())["front"] for name in ("lab.simulated", "lab.replay")
    ]
    shown = [[(row["config_id"], row["c1_ttft_p99_ms"], row["c30_goodput"]) for row in front] for front in fronts]
    assert shown[0] == shown[1]


@pytest.mark.parametrize(("shares", "mean"), [((0.0, 0.0), 0.0), ((0.0, 0.5), 0.25), ((0.5, 0.5), 0.5)])
def test_share_of_zero_counts_as_zero_in_the_mean_that_people_are_told(chosen, shares, mean):
    spec = parse_study(chosen, name="x")
    config, at = SpecConfig("off"), datetime(2026, 1, 1, tzinfo=UTC)
    usual = PhaseResult(
        concurrency=1, repeat=1, requests=16, output_tokens=4096, duration_s=10.0, output_tps=100.0,
        whole_run_tps=100.0, tpot_ms=10.0, ttft_ms=50.0, ttft_p99_ms=60.0,
    )  # fmt: skip
    phases = [usual]
    phases += [replace(usual, concurrency=30, repeat=n, goodput=share) for n, share in enumerate(shares, 1)]
    launch = LaunchRecord(1, "baseline", config, config, at, outcome=Outcome.MEASURED, phases=tuple(phases))
    (result,) = judge(spec, [launch]).results
    told = result.values[1]
    assert told.value == pytest.approx(mean) and told.lo <= told.value <= told.hi <= 1.0
    assert (told.lo == 0.0) is (0.0 in shares)
