"""The command: entries, tables, what it prints and writes, and that processes change nothing."""

import json

import pytest
from race_tables import small_table

from benchmarks.race.__main__ import main
from benchmarks.race.rivals import RIVALS, Missing, make_entrant, parse_entry
from benchmarks.race.rivals.tuning import tuned_list
from benchmarks.race.sources import folders, simulated_table
from benchmarks.race.worlds import make_world, write_world


@pytest.fixture
def world_folder(tmp_path):
    for seed in (0, 2):
        world = make_world(seed)
        write_world(tmp_path / "mine" / world.name, world)
    return tmp_path / "mine"


def test_race_prints_tables_and_writes_json_and_a_page(world_folder, tmp_path, capsys):
    entries = ["oracle", "random", "descent", "finite-gp:feasibility=no"]
    arguments = ["--worlds", str(world_folder), "--seeds", "2", "--budget", "8", "--samplers", *entries]
    assert main([*arguments, "--json", str(tmp_path / "a.json"), "--plot", str(tmp_path / "a.html")]) == 0
    printed = capsys.readouterr().out
    assert "mine: 2 tables, up to 2 seeds, 8 launches" in printed
    for entry in (*entries, "own-0000", "own-0002"):
        assert entry in printed
    found = json.loads((tmp_path / "a.json").read_text())
    assert [summary["entry"] for summary in found["summaries"]] == entries
    # The oracle draws nothing, so it races once on each table.
    assert [summary["races"] for summary in found["summaries"]] == [2, 4, 4, 4]
    assert len(found["scores"]) == 14
    assert "mean share of the hypervolume" in (tmp_path / "a.html").read_text()


@pytest.mark.slow
def test_two_processes_give_the_figures_of_one(tmp_path, capsys):
    write_world(tmp_path / "small", small_table())
    arguments = ["--worlds", str(tmp_path / "small"), "--seeds", "3", "--samplers", "finite-gp", "tpe"]
    texts = []
    for jobs in ("1", "2"):
        assert main([*arguments, "--jobs", jobs, "--json", str(tmp_path / f"{jobs}.json")]) == 0
        found = json.loads((tmp_path / f"{jobs}.json").read_text())
        assert found.pop("seconds")
        texts.append(json.dumps(found))
    assert texts[0] == texts[1]
    capsys.readouterr()


def test_worlds_of_a_half_can_be_written_for_other_tools(tmp_path, capsys):
    assert main(["--half", "heldout", "--count", "2", "--write-worlds", str(tmp_path / "out")]) == 0
    assert [source.where for source in folders(tmp_path / "out")] == [
        str(tmp_path / "out" / "own-0001"),
        str(tmp_path / "out" / "own-0003"),
    ]
    assert capsys.readouterr().out == ""


def test_fresh_worlds_begin_where_the_looked_at_ones_end(tmp_path):
    arguments = ["--half", "heldout", "--count", "1", "--skip", "500", "--write-worlds", str(tmp_path / "out")]
    assert main(arguments) == 0
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["own-1001"]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--samplers", "nobody"], "`--samplers` takes oracle, frontier"),
        (["--samplers", "oracle:depth=2"], "`oracle` takes no options, but got 'depth'"),
        (["--samplers", "finite-gp:gating"], "is written `name=value`, but got 'gating'"),
        (["--write-worlds", "out"], "`--half building`, `--half heldout` or both; name one"),
        (["--seeds", "0"], "`--seeds >= 1` must hold, but got 0"),
        (["--skip", "-1"], "`--skip >= 0` must hold, but got -1"),
        (["--worlds", "/nowhere"], "there is none in /nowhere"),
    ],
)
def test_what_is_not_understood_is_said_and_nothing_is_raced(arguments, said, capsys):
    assert main(arguments) == 2
    heard = capsys.readouterr()
    assert said in heard.err
    assert heard.out == ""


def test_options_of_an_entry_are_read_as_what_they_look_like():
    rival, options = parse_entry("frontier:physics=no,depth=3,weight=0.5,kernel=tree")
    assert rival is RIVALS["frontier"]
    assert options == {"physics": False, "depth": 3, "weight": 0.5, "kernel": "tree"}


@pytest.mark.parametrize("name", [name for name, rival in RIVALS.items() if rival.missing()])
def test_entrant_that_cannot_race_here_says_what_it_needs(name, tmp_path, capsys):
    reason = RIVALS[name].missing()
    with pytest.raises(Missing, match=f"`{name}` cannot race"):
        make_entrant(name, small_table(), seed=0)
    assert main(["--samplers", name]) == 2
    heard = capsys.readouterr().err
    assert f"{name} does not race: {reason}." in heard
    assert "none is left" in heard


def test_tuned_list_takes_first_what_helps_most_worlds():
    values = {
        "off": (10.0, 100.0),
        "v2-k1-s1-d2": (9.0, 110.0),
        "v2-k1-s2-d3": (2.0, 400.0),
        "v1-k1-s1-d2": (9.5, 105.0),
    }
    tables = [small_table({name: [pair] * 3 for name, pair in values.items()}, failed=(), known=())] * 2
    assert tuned_list(tables, length=2)[0] == "v2-k1-s2-d3"


def test_simulated_study_is_a_table_whose_truth_has_no_noise():
    table = simulated_table("kimi-k25", group="simulator")
    assert table.baseline.config_id == "off"
    # The story's own numbers, which the cost model is within 5% of.
    latency, throughput = table.truth[table.baseline]
    assert 1000 / latency == pytest.approx(92.7, rel=0.05)
    assert throughput == pytest.approx(773.1, rel=0.05)
    assert len(table.space.configs) > 100
