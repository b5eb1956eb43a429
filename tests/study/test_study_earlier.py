"""Recordings that a study file names under `earlier`: what is kept of them, and what it changes."""

from dataclasses import replace
from pathlib import Path

import pytest

from search.config import SpecConfig
from search.errors import UsageError
from search.model.observations import Observation
from search.samplers.frontier import FrontierSampler
from search.samplers.matching import EarlierTable, matched
from search.samplers.warm_start import earlier_evidence
from search.space import Space
from search.spec.file import parse_study
from search.testing.engines import Script, ScriptedEngine, Speed

META = '{"name": "last-year", "baseline": "off", "known": []}'
HEADER = (
    "config_id,spec_version,topk,num_steps,num_draft_tokens,allreduce_fusion,launch,outcome,reason,notes,concurrency,"
    "repeat,requests,output_tps,tpot_ms,ttft_ms,accept_length,accept_histogram,boot_s,duration_s"
)
ROWS = (
    "off,off,,,,off,1,MEASURED,,,1,1,16,95,10.0,,,,60,10",
    "off,off,,,,off,1,MEASURED,,,1,2,16,95,12.0,,,,60,10",
    "off,off,,,,off,1,MEASURED,,,100,1,400,1000,,,,,60,10",
    "off,off,,,,off,1,MEASURED,,,30,1,100,600,,,,,60,10",
    "v2-k1-s3-d4,v2,1,3,4,off,2,MEASURED,,,1,1,16,130,7.5,,2.5,30/20/15/35,60,10",
    "v2-k1-s3-d4,v2,1,3,4,off,2,MEASURED,,,100,1,400,1500,,,2.5,30/20/15/35,60,10",
    "v1-k8-s4-d64,v1,8,4,64,off,3,MEASURED,,,1,1,16,50,20.0,,3.0,,60,10",
    "v1-k2-s2-d7,v1,2,2,7,off,4,FAILED,OOM_GRAPH,,,,,,,,,,30,",
    "v1-k1-s1-d2,v1,1,1,2,off,5,LOST,HOST_BUSY,,,,,,,,,,30,",
)


@pytest.fixture
def recording(tmp_path):
    folder = tmp_path / "last-year"
    folder.mkdir()
    (folder / "meta.json").write_text(META)
    (folder / "measurements.csv").write_text("\n".join((HEADER, *ROWS)) + "\n")
    return folder


@pytest.fixture
def text(study_text, recording):
    return study_text + f"earlier: [{{recording: {recording}, weight: 0.4}}]\n"


@pytest.fixture
def space():
    names = ("off", "v1-k1-s1-d2", "v1-k2-s2-d7", "v2-k1-s2-d3", "v2-k1-s3-d4")
    return Space.recorded(map(SpecConfig.from_id, names))


def test_numbers_inside_the_space_at_both_objectives_are_kept_with_their_weight(text, space):
    told = earlier_evidence(parse_study(text, name="x"), space)
    kept = {(item.config.config_id, item.load): item for item in told.observations}
    assert set(kept) == {("off", 1), ("off", 100), ("v2-k1-s3-d4", 1), ("v2-k1-s3-d4", 100)}
    assert {item.weight for item in kept.values()} == {0.4}
    assert kept["off", 1].ms_per_token == pytest.approx((10.0 * 12.0) ** 0.5)  # a geometric mean of its repeats
    assert kept["off", 1].relative_sd > 0 and kept["off", 100].relative_sd is None
    assert kept["v2-k1-s3-d4", 100].ms_per_token == pytest.approx(1000 * 100 / 1500)
    assert kept["v2-k1-s3-d4", 1].histogram == (30, 20, 15, 35)


def test_starts_and_failures_of_the_config_are_kept_and_those_of_the_host_are_not(text, space):
    told = earlier_evidence(parse_study(text, name="x"), space)
    assert {(start.config.config_id, start.started, start.of_memory) for start in told.starts} == {
        ("off", True, None),
        ("v2-k1-s3-d4", True, None),
        ("v1-k2-s2-d7", False, True),
    }
    assert {start.weight for start in told.starts} == {0.4}


def test_what_counts_is_said_in_one_line(text, space):
    assert earlier_evidence(parse_study(text, name="x"), space).words == (
        "earlier: 4 numbers of 2 configs in recording last-year, each worth 0.4 of a measurement; 1 of its configs are "
        "not in this study's space",
    )


@pytest.mark.parametrize("weight", ["0", "1", "1.5", "much"])
def test_weight_lies_between_nothing_and_a_measurement(study_text, weight):
    with pytest.raises(UsageError, match=r"earlier.*weight"):
        parse_study(study_text + f"earlier: [{{recording: x, weight: {weight}}}]\n", name="x")


def test_recording_that_is_not_there_stops_before_anything_is_launched(lab, study_text):
    engine = ScriptedEngine(lambda *_: Script(Speed({1: 100.0, 100: 1000.0})))
    text = study_text.replace("sampler: random", "sampler: frontier") + "earlier: [{recording: nowhere}]\n"
    heard = lab.run(engine, text=text)
    assert isinstance(heard.error, UsageError) and "nowhere" in str(heard.error)
    assert engine.launched == [] and heard.starts == []


def speed(config, _=0):
    rate = 100.0 if not config.speculates else 100.0 + config.num_draft_tokens
    return Script(Speed({1: rate, 30: 600.0, 100: 10 * rate}, accept=1.5 if config.speculates else None))


def test_search_believes_them_before_its_first_launch_and_says_so(lab, text):
    frontier = text.replace("sampler: random", "sampler: frontier")
    plain = lab.run(ScriptedEngine(speed), text=frontier.split("earlier:")[0], launches=2)
    assert not any("earlier:" in line for line in plain.notices)
    (lab.folder / "trials.db").unlink()
    heard = lab.run(ScriptedEngine(speed), text=frontier, launches=2)
    assert heard.notices[0].startswith("earlier: 4 numbers of 2 configs in recording last-year")
    narrow, wide = (run.launches[1].expected for run in (heard, plain))

    def spread(expected):
        return expected.first[2] / expected.first[0]

    assert spread(narrow) < 0.8 * spread(wide)  # a chain that was measured last year tells of its neighbour


def test_sampler_that_cannot_learn_from_them_says_so(lab, text):
    heard = lab.run(ScriptedEngine(speed), text=text, launches=1)
    assert heard.notices[0].endswith("; only `frontier` learns from it, and this is `random`")


def test_earlier_numbers_may_be_named_and_taken_away_between_two_runs(lab, text):
    frontier = text.replace("sampler: random", "sampler: frontier")
    lab.run(ScriptedEngine(speed), text=frontier.split("earlier:")[0], launches=2)
    assert lab.run(ScriptedEngine(speed), text=frontier, launches=3).error is None
    assert lab.run(ScriptedEngine(speed), text=frontier.split("earlier:")[0], launches=4).error is None
    assert len(lab.launches()) == 4


def test_failure_there_makes_its_config_less_likely_to_start_here(text, space):
    told = earlier_evidence(parse_study(text, name="x"), space)
    tree = SpecConfig.from_id("v1-k2-s2-d7")

    def feasible(starts):
        import optuna

        sampler = FrontierSampler(configs=space.configs, seed=0, earlier_starts=starts)
        study = optuna.create_study(directions=["minimize", "maximize"], sampler=sampler)
        outlook = sampler.outlook(study)
        return outlook.feasible[outlook.prior.index[tree]]

    assert feasible(told.starts) < 0.99 * feasible([start for start in told.starts if start.started])


def test_shipped_recordings_can_be_named(study_text):
    folder = Path(__file__).parents[2] / "recordings" / "h200-codelm-0.5.11"
    spec = parse_study(study_text + f"earlier: [{{recording: {folder}}}]\n", name="x")
    names = ("off", "v2-k1-s2-d3", "v1-k2-s2-d7")
    told = earlier_evidence(spec, Space.recorded(map(SpecConfig.from_id, names)))
    assert {item.config.config_id for item in told.observations} == set(names)
    assert {item.weight for item in told.observations} == {0.3}


def own(config_id, load, ms):
    return Observation(SpecConfig.from_id(config_id), load, ms)


class TestScale:
    """A table of another host: its baseline is this study's baseline, and its configs must compare as here."""

    TABLE = EarlierTable(
        "there",
        tuple(
            replace(own(name, load, ms * load), weight=0.3)
            for name, ms in (("off", 10.0), ("v2-k1-s2-d3", 8.0), ("v2-k1-s3-d4", 9.0))
            for load in (1, 100)
        ),
    )

    def test_nothing_is_told_before_a_config_is_shared(self):
        assert matched(self.TABLE, []).observations == ()
        assert matched(self.TABLE, [own("v1-k2-s2-d7", 1, 5.0)]).observations == ()

    def test_its_baseline_becomes_the_study_s(self):
        told = matched(self.TABLE, [own("off", 1, 20.0)])
        assert {item.config.config_id: item.ms_per_token for item in told.observations} == pytest.approx(
            {"off": 20.0, "v2-k1-s2-d3": 16.0, "v2-k1-s3-d4": 18.0}
        )
        assert {item.load for item in told.observations} == {1} and not told.refused

    def test_table_that_compares_otherwise_is_dropped_with_words_and_a_like_one_is_kept(self):
        alike = [own("off", 1, 20.0), own("v2-k1-s2-d3", 1, 16.5), own("v2-k1-s3-d4", 1, 17.5)]
        other = [own("off", 1, 20.0), own("v2-k1-s2-d3", 1, 24.0), own("v2-k1-s3-d4", 1, 30.0)]
        assert not matched(self.TABLE, alike).refused
        refused = matched(self.TABLE, other)
        assert "recording there is dropped: 2 of its numbers" in refused.refused and refused.observations == ()

    def test_without_its_baseline_one_config_sets_the_scale_and_tests_nothing(self):
        bare = replace(self.TABLE, observations=tuple(i for i in self.TABLE.observations if i.config.speculates))
        told = matched(bare, [own("off", 1, 20.0), own("v2-k1-s2-d3", 1, 32.0)])
        assert sorted(item.ms_per_token for item in told.observations) == pytest.approx([32.0, 36.0])


def test_table_on_another_scale_does_not_end_a_study_after_its_baseline(lab, text, recording):
    rows = [
        row.replace(",95,10.0,", ",9.5,100.0,").replace(",95,12.0,", ",9.5,100.0,") for row in ROWS if ",30," not in row
    ]
    rows = [row for row in rows if not row.startswith("off,")]
    (recording / "measurements.csv").write_text("\n".join((HEADER, *rows)) + "\n")
    frontier = text.replace("sampler: random", "sampler: frontier")
    heard = lab.run(ScriptedEngine(speed), text=frontier, launches=5)
    assert heard.error is None and len(heard.launches) == 5
