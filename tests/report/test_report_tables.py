"""Columns and cells of front.csv and trials.csv."""

import math
import sys
from dataclasses import replace

import pytest

from search.config import SpecConfig
from search.report.files import write_tables
from search.report.frames import front_columns, front_csv, front_frame, trial_columns, trials_csv, trials_frame
from search.report.payload import payload
from search.storage.records import Expected

FRONT = (
    "rank,config_id,spec_version,topk,num_steps,num_draft_tokens,allreduce_fusion,c1_tpot_ms,c1_tpot_ms_lo,"
    "c1_tpot_ms_hi,c1_output_tps,c100_output_tps,c100_output_tps_lo,c100_output_tps_hi,accept_c1,accept_c100,score,"
    "launches,confirmed,notes,launch_command,"
    "c1_output_tps_lo,c1_output_tps_hi,accept_c1_lo,accept_c1_hi,accept_c100_lo,accept_c100_hi,score_lo,score_hi,lossless"
)
TRIALS = (
    "launch,stage,config_id,spec_version,topk,num_steps,num_draft_tokens,allreduce_fusion,outcome,reason,blame,notes,"
    "c1_tpot_ms,c100_output_tps,accept_c1,accept_c100,score,boot_s,duration_s,why,"
    "c1_tpot_ms_lo,c1_tpot_ms_hi,c100_output_tps_lo,c100_output_tps_hi,accept_c1_lo,accept_c1_hi,"
    "accept_c100_lo,accept_c100_hi,score_lo,score_hi,lossless,"
    "expected_c1_tpot_ms,expected_c1_tpot_ms_lo,expected_c1_tpot_ms_hi,"
    "expected_c100_output_tps,expected_c100_output_tps_lo,expected_c100_output_tps_hi,"
    "expected_feasible,expected_front,expected_gain"
)


def test_front_columns_are_those_of_the_format(content):
    assert ",".join(front_columns(content)) == FRONT


def test_trial_columns_are_those_of_the_format(content):
    assert ",".join(trial_columns(content)) == TRIALS


def test_front_rows_rank_by_score_and_leave_missing_values_empty(content):
    lines = front_frame(content).to_csv(index=False).splitlines()
    assert lines[0] == FRONT
    assert lines[1].startswith("1,off,off,,,,off,10.7875,10.6796,10.8954,92.7,773.1,765.369,780.831,,,1.0,1,False,,")
    assert lines[2].startswith("2,v2-k1-s2-d3,v2,1,2,3,off,11.5207,")


def test_front_row_holds_the_command_on_one_line(content):
    assert front_frame(content)["launch_command"][1] == "env serve # v2-k1-s2-d3"
    measured = front_frame(replace(content, serving={}))
    assert measured["launch_command"][1] == "env HF_HUB_OFFLINE=1 python --model-path 'a b' # v2-k1-s2-d3"


def test_front_row_of_a_replay_has_an_empty_command(content):
    assert front_frame(replace(content, commands={}, serving={}))["launch_command"][0] == ""


def test_trial_rows_follow_launch_order_and_keep_failures(content):
    shuffled = replace(content, launches=content.launches[::-1])
    lines = trials_frame(shuffled).to_csv(index=False).splitlines()
    assert [line.split(",")[0] for line in lines[1:]] == ["1", "2", "3", "4"]
    assert (
        lines[4]
        == "4,search,v1-k2-s2-d7,v1,2,2,7,off,FAILED,OOM_GRAPH,config,,,,,,,,840.0,proposed by tpe,,,,,,,,,,," + "," * 9
    )


def test_trial_row_has_what_was_expected_of_the_launch(content):
    expected = Expected((11.0, 11.5, 12.25), (700.0, 780.5, 860.0), feasible=0.9512, enters_front=0.4, gain=0.01234)
    launches = (content.launches[0], replace(content.launches[1], expected=expected))
    frame = trials_frame(replace(content, launches=launches))
    assert list(frame.iloc[1])[-9:] == [11.5, 11.0, 12.25, 780.5, 700.0, 860.0, 0.951, 0.4, 0.01234]
    assert frame.to_csv(index=False).splitlines()[1].endswith("," * 9)


def test_trial_row_of_a_running_launch_says_so(content):
    running = replace(content.launches[0], outcome=None, phases=(), duration_s=None)
    frame = trials_frame(replace(content, launches=(running,)))
    assert frame["outcome"][0] == "RUNNING"
    assert frame["score"][0] is None


def test_knob_that_a_config_carries_gets_a_column_after_the_core_knobs(content):
    config = SpecConfig.from_id("v2-k1-s2-d3+page=64")
    launches = (replace(content.launches[1], config=config, asked=config),)
    columns = trial_columns(replace(content, launches=launches))
    assert columns[columns.index("allreduce_fusion") + 1] == "page_size"


@pytest.fixture
def without_baseline(content):
    judgement = content.judgement
    scored = tuple(replace(result, score=math.nan) for result in judgement.front)
    return replace(content, judgement=replace(judgement, front=scored, results=scored, baselines=(), winners=()))


def test_score_without_a_baseline_is_empty_and_null(without_baseline):
    assert front_frame(without_baseline)["score"].tolist() == [None, None]
    assert payload(without_baseline)["front"][0]["score"] is None


def test_payload_names_objectives_winners_and_picks(content):
    result = payload(content)
    assert result["label"] == "SIMULATED"
    assert result["objectives"] == {"c1_tpot_ms": "minimize", "c100_output_tps": "maximize"}
    assert [(w["concurrency"], w["config_id"], w["gain_ratio"]) for w in result["winners"]] == [
        (1, "off", 1.0),
        (30, "v2-k1-s2-d3", 1.10139),
        (100, "v2-k1-s2-d3", 1.00246),
        (250, "v2-k1-s2-d3", 1.05055),
    ]
    assert result["picks"][0]["script"] == "launch/off.sh"


def test_text_of_the_files_is_that_of_the_frames(content):
    launches = (*content.launches, replace(content.launches[0], why='a "quoted", word\nand a line', boot_s=None))
    told = replace(content, launches=launches)
    assert front_csv(told) == front_frame(told).to_csv(index=False)
    assert trials_csv(told) == trials_frame(told).to_csv(index=False)


def test_report_is_written_without_pandas(content, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "pandas", None)
    write_tables(tmp_path, content)
    assert (tmp_path / "trials.csv").read_text().count("\n") == len(content.launches) + 1
