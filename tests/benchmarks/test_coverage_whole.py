"""Whole studies with known truth: that they are whole, and what one of each says."""

from benchmarks.coverage.whole import World, lines_of, main, replayed, simulated


def test_simulated_study_is_a_whole_default_one():
    told = simulated(World(0.02, 0.01), 0)
    assert told.baseline_starts >= 3 and told.freedom >= 7 and told.picks >= 2
    assert 15 <= told.launches <= 24 and told.hours < 7.5
    assert not told.any_gain and not told.verdict


def test_replayed_study_starts_its_baseline_and_picks_again_from_the_table():
    told = replayed(World(0.02, 0.01), 1)
    assert told.baseline_starts >= 3 and told.freedom >= 7 and told.picks >= 2
    assert not told.any_gain and not told.verdict


def test_great_gain_is_found_in_both():
    world = World(0.005, 0.005, 0.25)
    for told in (simulated(world, 0), replayed(world, 0)):
        assert told.found and not told.any_gain and abs(told.error) < 0.02


def test_studies_are_written_as_they_come_and_read_back(tmp_path, capsys):
    path = tmp_path / "studies.jsonl"
    main(["--studies", "1", "--only", "replayed", "--worlds", "1", "--json", str(path)])
    printed = capsys.readouterr().out.splitlines()
    assert list(lines_of([path])) == printed
