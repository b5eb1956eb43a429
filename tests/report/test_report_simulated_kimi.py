"""The shipped study on its cost model: its first screen sentence by sentence against launches, and against `whatif`."""

import json
import re
from statistics import fmean

import pytest
from typer.testing import CliRunner

from search.analysis.analyse import judge
from search.app.report_content import ContentBuilder
from search.app.stored import spec_of
from search.cli.app import app
from search.config import SpecConfig
from search.outcomes import Outcome
from search.report.decision import decide
from search.storage.store import Store

pytestmark = pytest.mark.timeout(600)

CONFIG = r"`(?P<config>[\w.+=-]+)`"


@pytest.fixture(scope="module")
def simulated(tmp_path_factory):
    """The content of a finished simulated kimi-k25, its only database gone by then."""
    folder = tmp_path_factory.mktemp("kimi")
    database = folder / "trials.db"
    words = ["run", "--study", "kimi-k25", "--simulate", "-q", "--storage", f"sqlite:///{database}"]
    done = CliRunner().invoke(app, [*words, "--reports", str(folder / "reports")])
    assert done.exit_code == 0, done.output
    with Store(str(database), read_only=True) as store:
        record = store.study("kimi-k25.simulated")
        launches = store.launches(record.name)
    spec = spec_of(record)
    return ContentBuilder(spec, record).content(launches, judge(spec, launches))


@pytest.fixture
def whatif(tmp_path, monkeypatch):
    """Config id -> load -> what `whatif` says of it without any launch."""
    monkeypatch.chdir(tmp_path)

    def of(config_id):
        done = CliRunner().invoke(app, ["whatif", "--study", "kimi-k25", "--json", config_id])
        assert done.exit_code == 0, done.output
        (variant,) = json.loads(done.stdout)["variants"]
        return {load["concurrency"]: load for load in variant["expectation"]["loads"]}

    return of


def measured(content, config, load):
    """Rates of every repeat of a config at a load, straight from its launches."""
    return [
        phase.output_tps
        for launch in content.launches
        if launch.outcome is Outcome.MEASURED and launch.config == config and launch.stage != "try"
        for phase in launch.repeats(load)
    ]


def at(text):
    """`1, 100 and 250` as numbers."""
    return [int(number) for number in re.findall(r"\d+", text)]


def test_sentence_of_the_decision_names_each_load_once_with_what_was_computed_there(simulated):
    sentence = decide(simulated).sentence
    on = re.search(
        rf"^Turn speculation on at (?P<load>\d+) concurrent requests: {CONFIG}, (?P<gain>\d+)% more", sentence
    )
    off = re.search(r"leave it off at ([\d, and]+), where everything the cost model was fitted to is slower", sentence)
    still = re.search(r"; at ([\d, and]+) no gain is shown\.$", sentence)
    loads = [int(on["load"]), *at(off[1]), *at(still[1])]
    assert sorted(loads) == list(simulated.spec.loads) and len(re.findall(r"\b\d+\b", sentence.replace("`", ""))) >= 4
    config = SpecConfig.from_id(on["config"])
    ratio = fmean(measured(simulated, config, int(on["load"]))) / fmean(
        measured(simulated, SpecConfig.from_id("off"), int(on["load"]))
    )
    assert 100 * (ratio - 1) == pytest.approx(float(on["gain"]), abs=2.5)
    fitted = [one for one in simulated.judgement.results if not one.extrapolated_at(simulated.spec.objective_loads)]
    assert {one.config.config_id for one in fitted} <= {"off", "v2-k1-s2-d3", "v1-k4-s3-d16"}
    for load in at(off[1]):
        assert all(one.gains[load].hi < 1 for one in fitted if one.config.speculates)


def test_lines_below_it_count_what_was_launched(simulated):
    decision = decide(simulated)
    counts, chosen = decision.basis[:2]
    starts, configs, fitted = re.fullmatch(
        r"(\d+) starts in \w+ by the cost model; (\d+) configs computed of 172 that can be launched, (\d+) of them "
        r"within what the cost model was fitted to\.",
        counts,
    ).groups()
    assert int(starts) == len(simulated.launches)
    assert int(configs) == len({launch.config for launch in simulated.launches})
    assert int(fitted) == 3
    told = re.fullmatch(
        rf"{CONFIG}: \+(?P<gain>[\d.]+)% \[\+(?P<lo>[\d.]+)%, \+(?P<hi>[\d.]+)%\] at (?P<load>\d+); (?P<starts>\d+) starts, "
        r"confirmed on prompts kept back for it\.",
        chosen,
    )
    config = SpecConfig.from_id(told["config"])
    assert int(told["starts"]) == sum(launch.config == config for launch in simulated.launches)
    confirmed = [one for one in simulated.launches if one.config == config and one.stage == "confirm"]
    assert all(one.repeats(int(told["load"])) for one in confirmed) and len(confirmed) == 2
    assert float(told["lo"]) < float(told["gain"]) < float(told["hi"])


def test_what_to_do_next_names_the_choice_and_what_the_model_expects_most_of(simulated):
    decision = decide(simulated)
    told = re.fullmatch(
        rf"Check it with one real launch: `python -m search try --study kimi-k25 (?P<first>\S+)`\. Then {CONFIG}: the cost "
        r"model was not fitted to it, and expects \+(?P<gain>[\d.]+)% \(90% band \+[\d.]+% to \+[\d.]+%\) over "
        r"`(?P<base>\S+)` at (?P<load>\d+)\.",
        decision.next,
    )
    assert told["first"] == decision.choices[0].config.config_id
    then = SpecConfig.from_id(told["config"])
    gains = {
        result.config: result.gains[int(told["load"])].value
        for result in simulated.judgement.results
        if result.config.speculates and int(told["load"]) in result.gains
    }
    assert gains[then] == max(gains.values()) == pytest.approx(1 + float(told["gain"]) / 100, abs=0.0006)
    assert then.allreduce_fusion == "off"  # equals are told of the simpler config


@pytest.mark.slow(8)
def test_extrapolated_numbers_are_those_that_whatif_prints_as_the_cost_models(simulated, whatif):
    compared = 0
    for result in simulated.judgement.results:
        expected = whatif(result.config.config_id)
        for load in simulated.spec.loads:
            told = result.loads.get(load)
            if told is None or not told.band:
                continue
            assert told.rate.value == pytest.approx(expected[load]["model_tps"], rel=1e-6), (result.config, load)
            assert [told.rate.lo, told.rate.hi] == pytest.approx(expected[load]["model_band"], rel=1e-6)
            compared += 1
    assert compared >= 12


def test_gain_of_the_choice_holds_what_whatif_expects_of_it(simulated, whatif):
    (choice,) = decide(simulated).choices
    speculating, off = whatif(choice.config.config_id), whatif("off")
    for load in choice.loads:
        gain = next(w.gain for w in simulated.judgement.winners if w.concurrency == load)
        assert gain.lo < speculating[load]["model_tps"] / off[load]["model_tps"] < gain.hi
