"""The benchmark of public numbers: what is left out has no part in what is expected of it."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks.public_numbers import ROOT, lines, main, predicted, splits
from search.config import SpecConfig
from search.engines.recording import Recording, read_recording

STORY = read_recording(ROOT / "kimi-k25-story")
TREE = "v1-k4-s3-d16"


def test_every_number_of_every_speculating_config_is_predicted_once():
    numbers = list(predicted(STORY))
    assert sorted((one.config, one.load) for one in numbers) == sorted(
        (row.config.config_id, row.concurrency) for row in STORY.rows if row.config.speculates
    )
    assert all(0 < one.low < one.expected < one.high for one in numbers)


def test_what_is_left_out_does_not_move_its_own_prediction():
    spoilt = tuple(
        replace(row, output_tps=row.output_tps / 7, tpot_ms=None) if row.config.config_id == TREE else row
        for row in STORY.rows
    )
    before, after = (
        [one.expected for one in predicted(recording) if one.config == TREE]
        for recording in (STORY, Recording(STORY.meta, spoilt))
    )
    assert before == after


def test_half_is_left_out_together_and_each_once():
    configs = [SpecConfig.from_id(name) for name in ("v1-k1-s1-d2", "v1-k1-s2-d3", "v1-k1-s3-d4", "v1-k1-s4-d5")]
    parts = list(splits(configs, 0.5, seed=1))
    assert [len(part) for part in parts] == [2, 2]
    assert set.union(*map(set, parts)) == set(configs)


def test_table_of_two_configs_predicts_nothing():
    few = tuple(row for row in STORY.rows if row.config.config_id != TREE)
    assert list(predicted(Recording(STORY.meta, few))) == []


def test_summary_counts_what_lies_in_its_band():
    numbers = list(predicted(STORY))
    text = list(lines(numbers))
    assert text[1].split()[:3] == ["kimi-k25-story", "8", f"{sum(one.held for one in numbers) / 8:.0%}"]
    assert text[2].startswith("all ")


@pytest.mark.slow
def test_public_tables_are_held_as_often_as_bands_of_90_percent_promise(tmp_path, capsys):
    assert main(["--json", str(tmp_path / "told.json")]) == 0
    told = json.loads((tmp_path / "told.json").read_text())
    assert len(told) >= 90
    # Were each held with 90%, 82 of 100 or fewer would come once in 100.
    assert sum(one["held"] for one in told) >= 0.83 * len(told)
    assert "worst misses" in capsys.readouterr().out


def test_nothing_to_predict_is_said_so(capsys):
    assert main([str(ROOT / "public" / "inferencex-minimax-m3-thinking-on")]) == 2
    assert "three configs or more" in capsys.readouterr().out
    assert main([str(Path("nowhere"))]) == 2
