"""The driver for a GPU host goes its whole way on the fake server."""

import json

import pytest

from benchmarks.shapes.on_gpu import main


def test_dry_run_tells_support_order_and_command_and_starts_nothing(capsys, tmp_path):
    out = tmp_path / "shapes.json"
    assert main(["--dry-run", "--out", str(out), "--prefill-graphs", "breakable"]) == 0
    told = capsys.readouterr().out
    assert "--speculative-eagle-topk 4" in told
    assert "--cuda-graph-backend-prefill breakable" in told
    assert "order: k4-s4-d16 k1-s1-d2" in told
    assert not out.exists()


@pytest.mark.slow
def test_run_on_the_fake_server_goes_there_and_back_and_compares(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    out = tmp_path / "shapes.json"
    words = ["--fake", "--quick", "--shapes", "k2-s2-d7 k1-s2-d3", "--apart", "k1-s2-d3", "--out", str(out)]
    assert main([*words, "--batches", "2"]) == 0
    told = json.loads(out.read_text())
    assert [row["shape"] for row in told["one_start"]] == ["k2-s2-d7", "k1-s2-d3", "k2-s2-d7"]
    assert [row["built"] for row in told["one_start"]] == [False, True, False]
    beside = told["comparison"]["k1-s2-d3"]
    assert beside["greedy_text_equal"]
    assert beside["accept_c1"][0] == [beside["accept_c1"][1]]
    assert len(told["apart"][0]["batch_tps"]) == 2
    ratio, low, high = beside["batch_tps_ratio"]
    assert low <= ratio <= high
    assert told["left"] == told["failures"] == []


def test_run_when_a_shape_cannot_be_built_tells_it_and_goes_on(tmp_path, monkeypatch):
    monkeypatch.setenv("FAKE_SGLANG", "shapes-fail-build")
    out = tmp_path / "shapes.json"
    words = ["--fake", "--quick", "--shapes", "k2-s2-d7 k1-s2-d3", "--apart", "", "--out", str(out)]
    assert main(words) == 1
    told = json.loads(out.read_text())
    assert [row["shape"] for row in told["one_start"]] == ["k2-s2-d7", "k2-s2-d7"]
    assert [failure["what"] for failure in told["failures"]] == ["switch to k1-s2-d3"]


def test_run_when_the_time_is_up_names_what_is_left(tmp_path):
    out = tmp_path / "shapes.json"
    words = ["--fake", "--quick", "--shapes", "k2-s2-d7", "--apart", "k2-s2-d7", "--limit-s", "1", "--out", str(out)]
    assert main(words) == 1
    assert json.loads(out.read_text())["left"] == ["one-start 0 k2-s2-d7", "apart k2-s2-d7"]


def test_a_shape_that_is_no_shape_is_told_so():
    with pytest.raises(SystemExit, match="k2-s2-d7"):
        main(["--dry-run", "--shapes", "2,2,7"])
