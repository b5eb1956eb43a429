"""Somebody's table as a hand-made recording: what is understood, what is asked for, what is refused."""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from search.app.import_meta import About
from search.app.import_rows import read_number
from search.app.import_table import HowToRead, imported
from search.engines.recording import read_recording, write_recording
from search.errors import UsageError

SWEEP = """Prose above.

**Raw Throughput (tok/s)**
| Config | BS=1 | BS=64 |
| -- | --: | --: |
| Static 1_1_2 | 162 | 3,353 |
| **Static 2_1_3** | **188** | - |
| AutoSpec | 207 | 3728 |
"""
STORY = """concurrency | topk 1, steps 2, 3 tokens, v2 | topk 4, 16 tokens, v1 | no speculation
--- | --- | --- | ---
1 | 86.8 | 80.9 | **92.7**
30 | **759.3** | 313.3 | 689.4
"""
LONG = """bs,steps,topk,num_draft_tokens,latency,throughput,accept_length,tp
1,0,0,0,795.87,218.89,1.0,4
64,0,0,0,144.17,1237.84,1.0,4
1,3,3,4,1032.34,170.35,2.017,4
64,4,4,16,135.72,1307.95,2.553,4
"""


def made(text, *maps, worker="", source="a link", **how):
    return imported(text, HowToRead(maps=maps, worker=worker, **how), About(source=source), name="lab", where="text")


def rates(done):
    return {
        (row.config.config_id, row.concurrency): row.output_tps
        for row in done.recording.rows
        if row.output_tps is not None
    }


def test_table_by_load_when_caption_says_throughput_becomes_one_row_for_each_number():
    done = made(SWEEP, "AutoSpec=skip", worker="v2")
    assert rates(done) == {("v2-k1-s1-d2", 1): 162, ("v2-k1-s1-d2", 64): 3353, ("v2-k1-s2-d3", 1): 188}
    assert done.recording.meta["hand_made"] is True
    assert done.recording.meta["source"] == "a link"
    assert "cells without a number: 1" in done.remarks
    assert "rows that were left out: AutoSpec" in done.remarks
    assert any("no baseline" in remark for remark in done.remarks)


def test_table_by_config_reads_its_labels_and_asks_for_the_one_that_says_too_little():
    tree = "topk 4, 16 tokens, v1=v1-k4-s3-d16"
    done = made(STORY, tree, "cells=output_tps")
    assert rates(done)["v1-k4-s3-d16", 30] == 313.3
    assert rates(done)["off", 1] == 92.7
    assert done.recording.meta["baseline"] == "off"
    with pytest.raises(UsageError, match="--map cells="):
        made(STORY, tree)


def test_long_table_keeps_partial_loads_and_its_own_baseline():
    done = made(LONG, worker="v1")
    assert rates(done) == {
        ("off", 1): 218.89, ("off", 64): 1237.84, ("v1-k3-s3-d4", 1): 170.35, ("v1-k4-s4-d16", 64): 1307.95,
    }  # fmt: skip
    off, *_ = done.recording.rows
    assert off.accept_length is None
    assert done.remarks == ("columns that were left out: latency, tp",)


def test_rows_of_unlike_conditions_are_no_repeats_until_told():
    table = LONG + "64,4,4,16,135.72,1410,2.55,8\n"
    with pytest.raises(UsageError, match=r"lines 5 and 6 are both v1-k4-s4-d16 .* differ in 'tp'"):
        made(table, worker="v1")
    assert rates(made(table, worker="v1", where=("tp=8",))) == {("v1-k4-s4-d16", 64): 1410}
    repeats = made(table, "tp=skip", worker="v1").recording.repeats()
    assert [len(rows) for rows in repeats.values()] == [1, 1, 1, 2]


@pytest.mark.parametrize(
    "label",
    [
        "off",
        "Baseline",
        "no speculation",
        "w/o spec",
        "No EAGLE (baseline)",
        "without speculative decoding",
        "vanilla",
        "no MTP",
    ],
)
def test_no_speculation_by_the_names_it_goes_by(label):
    assert rates(made(f"config,c,output tps\n{label},1,9\n")) == {("off", 1): 9}


@pytest.mark.parametrize(
    ("header", "asked"), [("tps", "tps=output_tps"), ("tok/s", "tok/s=user_tps"), ("Speed (tok/s)", "output_tps")]
)
def test_unclear_rate_is_asked_for(header, asked):
    with pytest.raises(UsageError, match="may mean several things") as error:
        made(f"config,concurrency,{header}\noff,8,100\n")
    assert asked in str(error.value)


def test_mapped_rate_of_one_request_is_multiplied_by_the_load_and_said_so():
    done = made("config,concurrency,tps\noff,8,100\n", "tps=user_tps")
    assert rates(done) == {("off", 8): 800}
    assert done.recording.meta["derived"] == ["output_tps is the rate of one request times the concurrency."]


def test_unclear_rate_at_one_request_is_clear():
    assert rates(made("config,concurrency,tok/s\noff,1,92.7\n")) == {("off", 1): 92.7}


def test_bench_serving_lines_take_config_from_the_command_and_load_from_max_concurrency():
    line = {
        "backend": "sglang", "max_concurrency": 32, "concurrency": 31.4, "output_throughput": 1067.83,
        "mean_tpot_ms": 3.6, "mean_ttft_ms": 31.7, "accept_length": 3.46, "completed": 200, "duration": 40.2,
        "input_lens": [1, 2], "median_tpot_ms": 3.1,
    }  # fmt: skip
    done = made(json.dumps(line) + "\n", config="v2-k1-s3-d4")
    (row,) = done.recording.rows
    assert (row.concurrency, row.output_tps, row.tpot_ms, row.ttft_ms) == (32, 1067.83, 3.6, 31.7)
    assert (row.accept_length, row.requests, row.duration_s) == (3.46, 200, 40.2)
    with pytest.raises(UsageError, match="each row says which config"):
        made(json.dumps(line))


def test_seconds_become_milliseconds_where_the_unit_says_so():
    (row,) = made("config,c,TPOT (s)\noff,4,0.02\n").recording.rows
    assert row.tpot_ms == 20
    assert row.output_tps == 200


def test_acceptance_by_position_becomes_accept_lengths_of_chains():
    curve = "pos,acceptance\n1,80%\n2,60%\n3,0.5\n"
    with pytest.raises(UsageError, match="accept_given"):
        made(curve, worker="v2", at=1)
    of_all = made(curve, "acceptance=accept_at", worker="v2", at=1).recording.accept_lengths()
    assert {config.config_id: values for (config, _), values in of_all.items()} == {
        "v2-k1-s1-d2": (1.8,), "v2-k1-s2-d3": (2.4,), "v2-k1-s3-d4": (2.9,),
    }  # fmt: skip
    given_all = made(curve, "acceptance=accept_given", worker="v2", at=1)
    assert [row.accept_length for row in given_all.recording.rows] == [1.8, 2.28, 2.52]
    assert any("nothing of speed" in remark for remark in given_all.remarks)


def test_rising_shares_of_all_passes_are_refused_with_the_other_meaning():
    with pytest.raises(UsageError, match="accept_given"):
        made("pos,accept_at\n1,0.5\n2,0.7\n", worker="v2", at=1)


def test_curve_by_draft_length_is_a_chain_each():
    done = made("num_speculative_tokens,accept length\n1,1.78\n8,3.74\n", worker="v2", at=64)
    assert [(row.config.config_id, row.accept_length) for row in done.recording.rows] == [
        ("v2-k1-s1-d2", 1.78), ("v2-k1-s8-d9", 3.74),
    ]  # fmt: skip
    assert done.recording.space() == ()


def test_recording_that_was_imported_reads_back_equal(tmp_path):
    done = made(LONG, worker="v1")
    write_recording(tmp_path / "lab", done.recording)
    assert read_recording(tmp_path / "lab") == done.recording
    curve = made("k,accept length\n2,2.4\n", worker="v2", at=1)
    write_recording(tmp_path / "curve", curve.recording)
    assert read_recording(tmp_path / "curve") == curve.recording


@pytest.mark.parametrize(
    ("text", "maps", "how", "said"),
    [
        ("", (), {}, "one column"),
        ("a,b\n", (), {}, "at least one row"),
        ("a|b\n-|-\n1|2|3\n", (), {}, "at most the 2 cells"),
        ("a,a\n1,2\n", (), {}, "there twice"),
        ("a,b\n1\n", (), {}, "2 cells of its header"),
        ("{bad", (), {}, "not JSON lines"),
        ("[1, 2]", (), {}, "each record is an object"),
        ("[" * 100_000, (), {}, "JSON"),
        ("x\0y", (), {}, "NUL"),
        (SWEEP, (), {"worker": "v2"}, "'AutoSpec' names none"),
        (SWEEP, ("AutoSpec=skip",), {}, "names its worker"),
        (SWEEP + "\n" + STORY, (), {}, "there are 2"),
        (SWEEP, (), {"table": 3}, "1 to 1"),
        (LONG, ("nothing=output_tps",), {"worker": "v1"}, "names a column or a label"),
        (LONG, ("throughput=speed",), {"worker": "v1"}, "gives a column one of"),
        (LONG, (), {"worker": "v1", "where": ("no=1",)}, "COLUMN=VALUE"),
        (LONG, (), {"worker": "v1", "where": ("tp=9",)}, "gives none"),
        (LONG.replace("170.35", "fast"), (), {"worker": "v1"}, "text:4, column 'throughput'.*'fast'"),
        (LONG.replace("170.35", '"170,35"'), (), {"worker": "v1"}, "Write 86.8, not 86,8"),
        (LONG.replace("170.35", "0"), (), {"worker": "v1"}, "positive number"),
        (LONG.replace("170.35", "-4"), (), {"worker": "v1"}, "between 0 and"),
        (LONG.replace("2.017", "9"), (), {"worker": "v1"}, "accept length counts the bonus token"),
        (LONG.replace("1,3,3,4", "0,3,3,4"), (), {"worker": "v1"}, "concurrency from 1"),
        (LONG.replace("3,3,4", "3,1.5,4"), (), {"worker": "v1"}, "whole number"),
        (LONG.replace("3,3,4", "3,3,400"), (), {"worker": "v1"}, "num_draft_tokens <="),
        (LONG.replace("3,3,4", "3,3,99999999"), (), {"worker": "v1"}, "at most 4096"),
        ("config,output tps\noff,5\n", (), {}, "--at N"),
        ("config,c,tok/s/gpu\noff,4,5\n", (), {}, "number of GPUs"),
        ("config,c,output tps\nsomething,4,5\n", (), {}, "names none"),
        ("config,c,output tps\noff,4,5\n", (), {"source": " "}, "--source"),
        ("config,c,output tps\noff,4,5\n", (), {"source": "a\x1b[2J"}, "printable"),
        ("config,c,output tps\noff,4,5\n", (), {"config": "fast"}, "--config"),
        ("pos,accept_at\n1,0.5\n3,0.4\n", (), {"worker": "v2", "at": 1}, "without a gap"),
        ("pos,accept_at\n1,1.5\n", (), {"worker": "v2", "at": 1}, "between 0 and 1"),
        ("pos,accept_at\n1,0.5\n", (), {"worker": "v2"}, "--at N"),
    ],
)  # fmt: skip
def test_what_cannot_be_read_ends_in_one_error_with_its_way_out(text, maps, how, said):
    with pytest.raises(UsageError, match=said):
        made(text, *maps, **how)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1,234.5", 1234.5), ("86.8 tok/s", 86.8), ("142 ±4", 142), ("~3.2", 3.2), ("1.2k", 1200), ("75%", 0.75),
        ("201 (1.3x)", 201), ("**99**", 99), ("-", None), ("OOM", None), ("n/a", None), ("1e3", 1000), ("12 [10, 14]", 12),
    ],
)  # fmt: skip
def test_numbers_as_people_write_them(text, value):
    from search.app.import_text import plain

    assert read_number(plain(text), where="here") == value


WORDS = (
    "config",
    "bs",
    "BS=1",
    "tps",
    "throughput",
    "topk",
    "steps",
    "off",
    "v2-k1-s2-d3",
    "3_1_4",
    "1",
    "64",
    "0",
    "-1",
    "1e999",
)
SIGNS = (
    "nan",
    "--",
    ",",
    '"',
    "{",
    "}",
    "[",
    ":",
    "`",
    "**",
    "=",
    "%",
    ";",
    "|",
    "-|-",
    "\\|",
    "\n",
    "\n",
    "\t",
    "9" * 30,
)
ODD = ("\x1b[2J", "\u202e", "\U0001d7d9", "\u00bd", "\u0663")
PIECES = st.sampled_from((*WORDS, *SIGNS, *ODD))


@settings(max_examples=300, deadline=None)
@given(st.lists(PIECES, max_size=60).map("".join), st.sampled_from([(), ("cells=output_tps",), ("tps=output_tps",)]))
def test_any_text_is_a_recording_that_reads_back_or_one_error(tmp_path_factory, text, maps):
    try:
        done = made(text, *maps, worker="v2", at=1)
    except UsageError:
        return
    folder = tmp_path_factory.mktemp("any")
    write_recording(folder, done.recording)
    assert read_recording(folder) == done.recording
