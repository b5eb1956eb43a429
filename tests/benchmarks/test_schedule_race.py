"""The race of adaptive steps against one config goes its whole way on the fake server."""

import json

import pytest

from benchmarks.schedule_race import main
from search.errors import UsageError


@pytest.mark.slow
def test_race_on_the_fake_server_runs_the_steps_of_each_load(tmp_path, capsys):
    out = tmp_path / "race.json"
    assert main(["--fake", "--rounds", "1", "--slots", "1:3,4:1,8:1", "--json", str(out)]) == 0
    told = json.loads(out.read_text())
    assert (told["config_id"], told["steps_by_load"]) == ("v2-k1-s3-d4", {"1": 3, "4": 1, "8": 1})
    low, _, high = told["loads"]
    # Accept lengths are free of the machine's pace; while requests come and go, batches are smaller than the load.
    assert low["accept_length"]["schedule"] == pytest.approx(low["accept_length"]["single"], rel=0.05)
    assert high["accept_length"]["schedule"] < high["accept_length"]["single"] - 0.3
    assert "C=8    1 steps against 3:" in capsys.readouterr().out


def test_report_without_a_schedule_is_refused_with_its_own_reason(tmp_path):
    (tmp_path / "schedule.json").write_text(json.dumps({"adaptive": None, "adaptive_why_not": "it does not pay"}))
    words = ["--study", "h200-lab", "--report", str(tmp_path)]
    with pytest.raises(UsageError, match=r"has none: it does not pay. Name one with `--config` and `--slots`"):
        main(words)


def test_slots_that_are_none_are_refused():
    with pytest.raises(UsageError, match="`--slots` reads like `1:0,30:2,100:1`"):
        main(["--study", "h200-lab", "--config", "v2-k1-s2-d3", "--slots", "low:2"])
