"""Recordings: strict reading, exact writing."""

import json

import pytest

from search.config import SpecConfig
from search.engines.recording import COLUMNS, RecordedFailure, Recording, Row, read_recording, write_recording
from search.errors import UsageError
from search.outcomes import Note, Outcome, Reason

HEADER = ",".join(COLUMNS)
OFF = "off,off,,,,off,1,MEASURED,,,1,1,16,110.363,9.0222,31.18,,,275.6,42.1"
CHAIN = "v2-k1-s2-d3,v2,1,2,3,off,2,MEASURED,,ACCEPT_DRIFT,1,1,16,86.8,11.52,40.0,1.8,21/14/69,300.0,50.0"
FAILED = "v1-k2-s2-d7,v1,2,2,7,off,3,FAILED,OOM_GRAPH,,,,,,,,,,400.5,"


@pytest.fixture
def table(tmp_path):
    """Write a recording of these lines, return its folder."""

    def write(*lines, header=HEADER, meta=None):
        (tmp_path / "meta.json").write_text(json.dumps({"name": "mine"} | (meta or {})))
        (tmp_path / "measurements.csv").write_text("\n".join([header, *lines]) + "\n")
        return tmp_path

    return write


def test_rows_are_read_with_their_types(table):
    recording = read_recording(table(OFF, CHAIN, FAILED))
    assert recording.rows[1] == Row(
        config=SpecConfig.from_id("v2-k1-s2-d3"),
        launch=2,
        outcome=Outcome.MEASURED,
        notes=(Note.ACCEPT_DRIFT,),
        concurrency=1,
        repeat=1,
        requests=16,
        output_tps=86.8,
        tpot_ms=11.52,
        ttft_ms=40.0,
        accept_length=1.8,
        accept_histogram=(21, 14, 69),
        boot_s=300.0,
        duration_s=50.0,
    )
    assert [config.config_id for config in recording.space()] == ["off", "v2-k1-s2-d3", "v1-k2-s2-d7"]
    assert recording.failures() == {SpecConfig.from_id("v1-k2-s2-d7"): RecordedFailure(Reason.OOM_GRAPH, 400.5)}


def test_written_recording_reads_back_equal(table, tmp_path):
    knobs = HEADER + ",page_size,zz_flag"
    lines = [OFF + ",,", CHAIN.replace("d3,v2", "d3+page=64+zz_flag=True,v2") + ",64,True", FAILED + ",,"]
    recording = read_recording(table(*lines, header=knobs, meta={"note": "é", "known": ["v2-k1-s2-d3"]}))
    assert recording.rows[1].config.extra == (("page_size", 64), ("zz_flag", True))
    write_recording(tmp_path / "copy", recording)
    assert read_recording(tmp_path / "copy") == recording
    assert (tmp_path / "copy" / "measurements.csv").read_bytes() == (tmp_path / "measurements.csv").read_bytes()


def test_recording_of_shared_starts_has_columns_for_them_and_reads_back_equal(table, tmp_path):
    lines = [OFF + ",,,", CHAIN + ",2,0,", CHAIN.replace("off,2,M", "off,3,M") + ",2,1,8.25"]
    recording = read_recording(table(*lines, header=HEADER + ",start,place,switch_s"))
    assert [(row.start_number, row.place, row.switch_s) for row in recording.rows] == [
        (1, 0, None),
        (2, 0, None),
        (2, 1, 8.25),
    ]
    write_recording(tmp_path / "copy", recording)
    assert read_recording(tmp_path / "copy") == recording
    assert (tmp_path / "copy" / "measurements.csv").read_bytes() == (tmp_path / "measurements.csv").read_bytes()


@pytest.mark.parametrize("cells", [",1,", "3,0,", ",,8.0", "x,0,", "1,-1,"])
def test_start_that_cannot_be_is_refused(table, cells):
    with pytest.raises(UsageError, match=r"measurements.csv:2: .*(`start`|`place`)"):
        read_recording(table(f"{CHAIN},{cells}", header=HEADER + ",start,place,switch_s"))


def test_columns_may_come_in_another_order_and_with_carriage_returns(table):
    folder = table()
    names = [*COLUMNS[1:], COLUMNS[0]]
    cells = dict(zip(COLUMNS, OFF.split(","), strict=True))
    (folder / "measurements.csv").write_bytes(
        (",".join(names) + "\r\n" + ",".join(cells[name] for name in names) + "\r\n").encode()
    )
    assert read_recording(folder).rows[0].output_tps == 110.363


def test_config_that_failed_once_and_measured_later_is_no_failure(table):
    lost = "off,off,,,,off,1,LOST,PORT_BUSY,,,,,,,,,,3.0,"
    assert read_recording(table(lost, OFF.replace("off,1,M", "off,2,M"))).failures() == {}


def test_phase_that_broke_is_a_failure_of_that_phase_alone(table):
    broken = "off,off,,,,off,1,FAILED,SERVER_CRASH_LOAD,,100,1,,,,,,,275.6,"
    recording = read_recording(table(OFF, broken))
    assert recording.failures() == {}
    assert recording.phase_failures() == {
        (SpecConfig.from_id("off"), 100): RecordedFailure(Reason.SERVER_CRASH_LOAD, 275.6)
    }


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        (OFF.replace("110.363", "fast"), "`output_tps` is a positive number from 1e-9 to 1e12, but got 'fast'"),
        (OFF.replace("110.363", "1e-320"), "`output_tps` is a positive number"),
        (OFF.replace("110.363", "1e300"), "`output_tps` is a positive number"),
        (OFF.replace("110.363", "-1"), "`output_tps` is a positive number"),
        (OFF.replace("110.363", "nan"), "`output_tps` is a positive number"),
        (OFF.replace("110.363", ""), "output_tps, but the cells are empty"),
        (OFF.replace("MEASURED", "DONE"), "`outcome` is one of MEASURED"),
        (OFF.replace("MEASURED,,", "MEASURED,BAD,"), "`reason` is one of the closed list"),
        (OFF.replace("MEASURED,,", "MEASURED,UNKNOWN,"), "this one has both"),
        (OFF.replace("MEASURED,,", "MEASURED,,FINE"), "`notes` is notes of the closed list"),
        (OFF.replace("off,1,M", "off,0,M"), "`launch` is a whole number from 1"),
        (OFF.replace("off,off,,", "off,off,1,"), "`off` has no tree knobs"),
        (OFF.replace("off,off", "v2-k1-s2-d3,off"), "`config_id` is the id of the row's knobs, off"),
        (OFF + ",", "a row has 20 cells"),
        (CHAIN.replace("21/14/69", "21/x"), "`accept_histogram` is counts"),
        (CHAIN.replace("1.8,", "3.2,"), "num_steps \\+ 1 = 3` must hold, but got 3.2"),
        (CHAIN.replace("v2,1,2,3", "v2,1,,3"), "missing: `num_steps`"),
        (FAILED.replace("OOM_GRAPH", ""), "says why in `reason`"),
        (FAILED.replace(",,,400.5", ",,,soon"), "`boot_s` is seconds from 0"),
        ('off,"off', "not a CSV table"),
        ("", "this line is empty"),
    ],
)
def test_wrong_row_is_refused_with_file_and_line(table, line, expected):
    with pytest.raises(UsageError, match=rf"measurements\.csv:3: .*{expected}"):
        read_recording(table(OFF.replace("16,", "17,").replace("off,1,M", "off,9,M"), line))


def test_more_tokens_than_an_eagle_tree_holds_are_read_of_ngram_alone(table):
    wide = CHAIN.replace("v2-k1-s2-d3,v2,1,2,3", "v2-k4-s2-d64,v2,4,2,64")
    with pytest.raises(UsageError, match=r"measurements.csv:3: `num_draft_tokens <= .* = 21` must hold"):
        read_recording(table(OFF, wide))
    found = read_recording(table(OFF, wide, meta={"name": "t", "algorithm": "NGRAM"}))
    assert found.rows[-1].config.num_draft_tokens == 64


def test_same_row_twice_is_refused_with_both_lines(table):
    with pytest.raises(UsageError, match=r"measurements\.csv:3: .*but line 2 has the same"):
        read_recording(table(OFF, OFF))


@pytest.mark.parametrize(
    ("header", "expected"),
    [
        (HEADER.replace(",boot_s", ""), "missing: boot_s"),
        (HEADER + ",launch", "launch is there twice"),
        (HEADER + ",Page Size", "got 'Page Size'"),
        ("", "missing: config_id"),
    ],
)
def test_wrong_header_is_refused_on_line_one(table, header, expected):
    with pytest.raises(UsageError, match=rf"measurements\.csv:1: .*{expected}"):
        read_recording(table(OFF, header=header))


@pytest.mark.parametrize(
    ("meta", "expected"),
    [
        ({"name": ""}, "with a `name`"),
        ({"synthetic": "yes"}, "`synthetic` is true or false"),
        ({"known": "off"}, "`known` is a list"),
        ({"baseline": "of"}, "'of'"),
    ],
)
def test_wrong_meta_is_refused(table, meta, expected):
    with pytest.raises(UsageError, match=rf"meta\.json.*{expected}"):
        read_recording(table(OFF, meta=meta))


def test_table_without_rows_and_folder_without_files_are_refused(table, tmp_path):
    with pytest.raises(UsageError, match="at least one row"):
        read_recording(table())
    with pytest.raises(UsageError, match=r"there is no .*meta\.json"):
        read_recording(tmp_path / "nowhere")


def test_recording_without_baseline_compares_with_off(table):
    recording = read_recording(table(OFF, meta={"known": ["v2-k1-s2-d3"]}))
    assert recording.baseline == SpecConfig.from_id("off")
    assert recording.known == (SpecConfig.from_id("v2-k1-s2-d3"),)
    assert recording.computed is False
    assert Recording({"name": "x", "hand_made": True}, recording.rows).computed is True
