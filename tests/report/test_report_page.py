"""The page is one file, says what it is, and trusts no text."""

import json
import re
from dataclasses import replace

import pytest

from search.analysis.findings import FailedLaunch, Gain, PredictedValue, PredictedValues, QuestionVerdict
from search.config import SpecConfig
from search.metrics import METRICS
from search.outcomes import Evidence, Outcome, Reason
from search.report.decision import decide
from search.report.page import page
from search.stats.estimates import Estimate

EVIL = '<script>alert("x")</script>'


def own_part(text: str) -> str:
    """The page without the plotting library, which is not ours to check."""
    return "".join(part for part in re.split(r"(?=<script)|(?<=</script>)", text) if len(part) < 1_000_000)


def figure(text: str, name: str) -> dict:
    return json.loads(
        re.search(rf'<script type="application/json" id="{name}-figure">(.*?)</script>', text, re.DOTALL)[1]
    )


@pytest.fixture
def text(content):
    return page(content)


def test_page_loads_nothing_from_elsewhere(text):
    loads = re.findall(r"""<(?:script|link|img|iframe|source)\b[^>]*\b(?:src|href)\s*=\s*["']?([^"'\s>]+)""", text)
    assert loads == ["data:,"]
    assert not re.search(r"@import|url\(\s*[\"']?http", own_part(text))


def test_page_forbids_the_network_before_anything_else(text):
    policy = re.search(r'<meta http-equiv="Content-Security-Policy" content="([^"]+)">', text)
    assert policy[1].startswith("default-src 'none';")
    assert "connect-src" not in policy[1]
    assert policy.start() < text.index("<script") and policy.start() < text.index("<style")


def test_page_of_a_simulation_is_labelled_in_banner_title_and_plots(text):
    assert '<div class="label" role="note"><p><strong>SIMULATED</strong>' in text
    assert "<title>SIMULATED: Kimi-K2.5 on eight RTX PRO 6000</title>" in text
    assert text.count('<span class="tag warn">SIMULATED</span>') == 2


def test_page_of_a_measured_study_has_no_label(content):
    measured = replace(content, study=replace(content.study, name="kimi-k25", kind="measured"))
    text = own_part(page(measured))
    assert 'class="label" role' not in text
    assert "SIMULATED" not in text
    assert "<h1>Kimi-K2.5 on eight RTX PRO 6000</h1>" in text


def test_first_screen_says_what_to_do_and_has_its_command_chart_and_basis(text):
    screen = text[text.index('<div class="screen">') : text.index("<nav")]
    assert "Turn speculation on above 1 concurrent request: <code>v2-k1-s2-d3</code>, 0.2% more tokens" in screen
    assert screen.index("Turn speculation on") < screen.index("serve # v2-k1-s2-d3") < screen.index("4 starts in")
    assert 'id="by-load"' in screen


def test_first_screen_says_how_much_of_a_simulation_rests_on_data(content):
    assert "3 configs computed of 4 that can be launched, 3 of them within what the cost model was fitted to." in page(
        content
    )
    assert "3 configs computed of 4 that can be launched, 2 of them within" in extrapolated_results(content)
    measured = replace(content, study=replace(content.study, name="kimi-k25", kind="measured"))
    assert "3 configs measured of 4 that can be launched." in page(measured)


def extrapolated_results(content):
    """The last result lies beyond a simulator's data at an objective."""
    *kept, last = content.judgement.results
    last = replace(last, loads=last.loads | {100: replace(last.loads[100], extrapolated=True)})
    return page(replace(content, judgement=replace(content.judgement, results=(*kept, last))))


def test_table_of_loads_has_the_winner_with_its_interval(text):
    row = next(row for row in text.split("<tr") if ">C=30</td>" in row and "<code" in row)
    assert '<code class="strong">v2-k1-s2-d3</code>' in row
    assert "759 <small>[752, 767]</small>" in row


def test_winner_that_only_extrapolation_makes_stands_below_and_says_so(content):
    better = replace(content.judgement.winners[1], config=SpecConfig.from_id("v1-k1-s1-d2"), extrapolated=True)
    text = own_part(page(replace(content, judgement=replace(content.judgement, beyond=(better,)))))
    text = text[text.index('<section id="loads">') :]
    row = text[text.index('<code class="strong">v1-k1-s1-d2</code>') :].split("</tr>")[0]
    assert "worth a launch, not a fact" in row and "extrapolated</span>" in row
    assert text.index(">C=30<") < text.index("v1-k1-s1-d2") < text.index(">C=100<")


def test_page_of_three_hundred_launches_and_configs_is_small_enough_to_send(content):
    """A plotting library of four megabytes, or a cell of a hundred bytes, would show here."""
    result, launch = content.judgement.results[1], content.launches[1]
    configs = [
        SpecConfig.from_id(f"v2-k2-s{2 + place // 60}-d{4 + place % 60 % 4}+page={1 + place}") for place in range(300)
    ]
    gains = {load: Gain(gain.value, gain.value - 0.0123, gain.value + 0.0123) for load, gain in result.gains.items()}
    results = tuple(replace(result, config=config, gains=gains) for config in configs)
    launches = tuple(
        replace(launch, number=number, config=config, asked=config) for number, config in enumerate(configs, 1)
    )
    numbers = tuple(
        PredictedValue(number, config, load, METRICS["output_tps"], (80.0, 85.0, 90.0), Estimate(86.8, 85.0, 88.0))
        for number, config in enumerate(configs, 1)
        for load in (1, 100)
    )
    judgement = replace(content.judgement, results=(*content.judgement.results, *results), front=results[:9])
    judgement = replace(judgement, predictions=PredictedValues(numbers))
    assert len(page(replace(content, judgement=judgement, launches=launches)).encode()) < 1_500_000


def test_page_escapes_whatever_users_and_logs_wrote(content):
    evil = SpecConfig.from_id("v2-k1-s2-d3+attn=<script>alert(1)")
    judgement = content.judgement
    results = tuple(replace(result, config=evil) for result in judgement.results)
    hostile = replace(
        content,
        spec=content.spec.model_copy(
            update={"title": EVIL, "model": content.spec.model.model_copy(update={"target": EVIL})}
        ),
        study=replace(content.study, fingerprint={EVIL: EVIL}),
        judgement=replace(
            judgement,
            results=results,
            front=results[:1],
            winners=tuple(replace(winner, config=evil, tied=(evil,)) for winner in judgement.winners),
            picks=tuple(replace(pick, result=results[0]) for pick in judgement.picks),
            failures=tuple(replace(failure, root_line=EVIL, log_path=EVIL) for failure in judgement.failures),
            verdicts=(QuestionVerdict(EVIL, EVIL, EVIL),),
            headlines=(EVIL,),
        ),
        commands={evil.config_id: EVIL},
        provenance=(EVIL,),
        details=(EVIL,),
    )
    text = page(hostile)
    assert "<script>alert" not in text
    assert "&lt;script&gt;alert" in text
    assert len(re.findall(r"<script\b", text)) == len(re.findall(r"<script\b", page(content)))


def test_pareto_marks_every_config_and_joins_the_front(text):
    traces = {trace["name"]: trace for trace in figure(text, "pareto")["data"]}
    assert set(traces) == {"front", "baseline (off)", "v1 tree", "v2 chain"}
    assert traces["front"]["x"] == [92.7, 86.8]
    assert traces["baseline (off)"]["marker"]["symbol"] == ["diamond"]
    assert traces["v2 chain"]["text"] == ["v2-k1-s2-d3"]
    assert "C=30: 759 [752, 767] tok/s (+10.1%), accept 1.90" in traces["v2 chain"]["customdata"][0]
    assert traces["v1 tree"]["text"] == [""]


def extrapolated_at(content, load):
    """The chain's value at a load is beyond a simulator's data, and it is picked there."""
    chain = content.judgement.results[1]
    chain = replace(chain, loads=chain.loads | {load: replace(chain.loads[load], extrapolated=True)})
    judgement = replace(
        content.judgement,
        results=(content.judgement.results[0], chain),
        picks=(replace(content.judgement.picks[1], result=chain, extrapolated=True),),
    )
    return page(replace(content, judgement=judgement))


def test_figure_by_load_is_hollow_only_where_it_is_extrapolated(content):
    traces = figure(extrapolated_at(content, 30), "by-load")["data"]
    (line,) = [trace for trace in traces if trace["name"] == "v2-k1-s2-d3" and "markers" in trace.get("mode", "")]
    shown = dict(zip(line["x"], line["marker"]["symbol"], strict=True))
    assert [load for load, symbol in shown.items() if symbol.endswith("-open")] == [30]
    assert len(shown) == 4


def test_front_is_not_hollow_for_a_load_that_is_no_objective(content):
    traces = {trace["name"]: trace for trace in figure(extrapolated_at(content, 30), "pareto")["data"]}
    assert traces["v2 chain"]["marker"]["symbol"] == ["circle"]


def test_extrapolated_results_are_hollow_and_say_so(content):
    text = extrapolated_at(content, 100)
    traces = {trace["name"]: trace for trace in figure(text, "pareto")["data"]}
    assert traces["v2 chain"]["marker"]["symbol"] == ["circle-open"]
    assert "Hollow: extrapolated." in text
    assert text.count('<span class="tag warn">extrapolated</span>') >= 2  # its pick and its row


def test_pareto_draws_uncertainty_only_where_it_is_known(content):
    def certain(estimate):
        return replace(estimate, lo=None, hi=None)

    results = tuple(
        replace(result, loads={load: replace(at, rate=certain(at.rate)) for load, at in result.loads.items()})
        for result in content.judgement.results
    )
    bare = replace(content, judgement=replace(content.judgement, results=results, front=results[:2]))
    traces = {trace["name"]: trace for trace in figure(page(bare), "pareto")["data"]}
    assert traces["v2 chain"]["error_x"]["array"] == [None]


def test_by_load_shows_percent_against_the_best_baseline(text):
    traces = {trace["name"]: trace for trace in figure(text, "by-load")["data"]}
    assert traces["v2-k1-s2-d3"]["x"] == [1, 30, 100, 250]
    assert [round(gain, 1) for gain in traces["v2-k1-s2-d3"]["y"]] == [-6.4, 10.1, 0.2, 5.1]
    assert "off" not in traces  # the baselines are the line at 0


def test_by_load_shades_the_interval_of_each_line(content):
    chain = content.judgement.results[1]
    gains = {load: Gain(gain.value, gain.value - 0.02, gain.value + 0.02) for load, gain in chain.gains.items()}
    results = (content.judgement.results[0], replace(chain, gains=gains))
    drawn = figure(page(replace(content, judgement=replace(content.judgement, results=results))), "by-load")["data"]
    band = next(trace for trace in drawn if trace["name"] == "v2-k1-s2-d3 interval")
    assert band["x"] == [1, 30, 100, 250, 250, 100, 30, 1] and band["fill"] == "toself"
    assert max(band["y"]) == pytest.approx(100 * (759.3 / 689.4 - 1) + 2)


def test_axis_shows_the_gains_however_wide_an_interval_is(content):
    chain = content.judgement.results[1]
    gains = {load: Gain(gain.value, 0.1, 9.0, assumed=True) for load, gain in chain.gains.items()}
    results = (content.judgement.results[0], replace(chain, gains=gains))
    drawn = figure(page(replace(content, judgement=replace(content.judgement, results=results))), "by-load")
    low, high = drawn["layout"]["yaxis"]["range"]
    assert -20 < low < -6.4 and 10.1 < high < 20


def test_page_tells_failures_space_and_provenance(text):
    assert "CUDA out of memory in graph capture" in text
    assert "launches/0004-v1-k2-s2-d7/server.log" in text
    assert "v2 takes topk 1 only." in text
    assert "fitted: twelve numbers of one host" in text
    assert "Assumed: topk 4 ran with 3 steps" in text


def test_page_before_the_first_measurement_says_so(content):
    judgement = replace(
        content.judgement,
        baselines=(),
        results=(),
        front=(),
        winners=(),
        picks=(),
        failures=(),
        verdicts=(),
        headlines=(),
    )
    text = own_part(page(replace(content, judgement=judgement, launches=())))
    assert "No verdict: nothing has been launched yet." in text
    assert "data-figure" not in text


def test_page_of_failures_alone_says_first_how_they_ended(content):
    bare = replace(content.judgement, baselines=(), results=(), front=(), winners=(), picks=(), headlines=())
    failed = content.launches[3]
    text = own_part(page(replace(content, judgement=bare, launches=(failed, replace(failed, number=5)))))
    screen = text[text.index('<div class="screen') : text.index("<nav")]
    assert "No verdict: nothing was measured. 2 launches ended: OOM_GRAPH 2 times." in screen
    assert "CUDA out of memory in graph capture (log: launches/0004-v1-k2-s2-d7/server.log)" in screen


def test_rehearsal_is_labelled_and_decides_nothing(content):
    text = own_part(page(replace(content, is_rehearsal=True)))
    assert "<strong>REHEARSAL</strong>" in text and "Invented numbers" in text
    assert "No verdict: this was a rehearsal with invented numbers" in text


@pytest.fixture
def predicted(content):
    chain = SpecConfig.from_id("v2-k1-s2-d3")
    numbers = (
        PredictedValue(2, chain, 1, METRICS["output_tps"], (80.0, 85.0, 90.0), Estimate(86.8, 85.0, 88.0)),
        PredictedValue(2, chain, 100, METRICS["output_tps"], (800.0, 850.0, 900.0), Estimate(775.0, 770.0, 780.0)),
    )
    told = PredictedValues(numbers, ("Of 2 numbers <b>1</b> lies within.",))
    return replace(content, judgement=replace(content.judgement, predictions=told))


def test_page_of_a_search_that_expects_nothing_has_no_predictions(text):
    assert "Predicted and measured" not in text


def test_predictions_are_drawn_with_their_bands_and_crosses_where_they_were_wrong(predicted):
    drawn = figure(page(predicted), "predicted")["data"]
    bands, marks = drawn[::2], drawn[1::2]
    assert [mark["name"] for mark in marks] == ["C=1", "C=100"]
    assert [mark["marker"]["symbol"] for mark in marks] == [["circle"], ["x"]]
    assert marks[0]["y"] == pytest.approx([100 * (86.8 / 85 - 1)], abs=1e-3)
    assert bands[1]["error_y"]["array"] == pytest.approx([100 * (900 / 850 - 1)])
    assert bands[1]["error_y"]["arrayminus"] == pytest.approx([100 * (1 - 800 / 850)])


def test_predictions_that_were_wrong_are_marked_in_the_table_and_words_are_escaped(predicted):
    text = own_part(page(predicted))
    assert "Of 2 numbers &lt;b&gt;1&lt;/b&gt; lies within." in text
    rows = [row for row in text.split("<tr>") if ">C=100</td>" in row and "{800 to 900}" in row]
    assert len(rows) == 1 and "the model was wrong here" in rows[0] and "-8.8%" in rows[0]
    assert text.count("the model was wrong here</span>") == 1


def test_search_whose_every_launch_failed_still_says_what_was_expected(content):
    told = PredictedValues(sentences=("Of 1 config it expected 0.9 to give a measurement; 0 did.",))
    text = page(replace(content, judgement=replace(content.judgement, predictions=told)))
    assert "<h2>Predicted and measured</h2>" in text and "0 did." in text


def test_labels_of_neighbours_on_the_front_do_not_cover_one_another(content):
    """The label below the upper mark hangs where that above the lower one would stand, so that goes below too."""
    off = content.judgement.results[0]

    def at(config_id, low, high):
        loads = {1: replace(off.loads[1], rate=Estimate(low)), 100: replace(off.loads[100], rate=Estimate(high))}
        return replace(off, config=SpecConfig.from_id(config_id), loads=loads)

    front = (at("v2-k1-s1-d2+arf=auto", 80.0, 900.0), at("v2-k1-s1-d2", 80.1, 899.0), at("v1-k1-s2-d3", 80.5, 870.0))
    judgement = replace(content.judgement, front=front, results=(*front, at("off", 90.0, 500.0)))
    drawn = figure(page(replace(content, judgement=judgement)), "pareto")
    sides = {
        text: side
        for trace in drawn["data"]
        for text, side in zip(trace.get("text") or (), trace.get("textposition") or (), strict=False)
        if text
    }
    assert sides == {
        "v2-k1-s1-d2+arf=auto": "top center",
        "v2-k1-s1-d2": "bottom center",
        "v1-k1-s2-d3": "bottom center",
    }


def test_count_of_gpus_and_time_are_told_once_or_not_at_all(content):
    spec = content.spec.model_copy(
        update={"hardware": content.spec.hardware.model_copy(update={"gpus": 8, "kind": "8x H200"})}
    )
    timeless = tuple(replace(launch, duration_s=None) for launch in content.launches)
    text = page(replace(content, spec=spec, launches=timeless))
    assert "8x H200" in text and "8 x 8x" not in text
    assert "in 0s" not in text


def test_question_without_measurements_names_each_lack_once(content):
    lacks = "; ".join(f"no config with topk {topk} was measured at C={load}" for load in (100, 1) for topk in (1, 2))
    asked = QuestionVerdict("width", "not measured", f"{lacks}.")
    text = page(replace(content, judgement=replace(content.judgement, verdicts=(asked,))))
    assert text.count("no config with topk 2 was measured at C=1, 100") == 1
    assert "was measured at C=1<" not in text


def test_headline_of_failures_is_cut_and_their_table_is_not(content):
    line = "torch.OutOfMemoryError: CUDA out of memory. " + "Tried to allocate 1.20 GiB. " * 12 + "The end"
    died = tuple(
        replace(launch, outcome=Outcome.FAILED, reason=Reason.OOM_GRAPH, evidence=Evidence(line), phases=())
        for launch in content.launches
    )
    lost = FailedLaunch(1, died[0].config, "FAILED", "OOM_GRAPH", "config", line, "")
    empty = replace(content.judgement, results=(), winners=(), picks=(), front=(), failures=(lost,), verdicts=())
    sentence = decide(replace(content, launches=died, judgement=empty)).sentence
    assert "CUDA out of memory" in sentence and sentence.endswith(" …") and len(sentence) < 300
    assert "The end" in page(replace(content, launches=died, judgement=empty))
