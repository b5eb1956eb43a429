"""Failed starts: whose fault they are once repeated, and which neighbours they spare."""

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st
from optuna.trial import TrialState

from search.config import SpecConfig, tree_bound
from search.engines import ReplayEngine
from search.engines.recording import Recording, Row
from search.errors import BreakerOpen, LaunchFailed
from search.outcomes import Blame, Evidence, Outcome, Reason
from search.storage.records import LaunchRecord
from search.study.blame import settled
from search.study.context import Recorded
from search.study.events import Ending
from search.study.lessons import lessons_of, spared
from search.testing.engines import Script, ScriptedEngine

AT = datetime(2026, 1, 1, tzinfo=UTC)


def config(config_id):
    return SpecConfig.from_id(config_id)


def died(
    number, config_id, reason=Reason.DETERMINISTIC_CRASH, line="boom", *, code=-9, phase="graph capture", boot_s=None
):
    evidence = Evidence(line, phase, code)
    asked = config(config_id)
    return LaunchRecord(
        number, "search", asked, asked, AT, outcome=reason.outcome, reason=reason, evidence=evidence, boot_s=boot_s
    )  # fmt: skip


def came_up(number, config_id):
    return LaunchRecord(
        number, "search", config(config_id), config(config_id), AT, outcome=Outcome.MEASURED, boot_s=60.0
    )


def names(found):
    return sorted(map(str, found))


SPACE = [
    config(name)
    for name in (
        "off", "v1-k1-s2-d3", "v1-k1-s4-d5", "v2-k1-s1-d2", "v2-k1-s2-d3", "v2-k1-s3-d4", "v2-k1-s4-d5", "v2-k1-s5-d6",
        "v2-k2-s2-d7", "v2-k2-s4-d8", "v2-k4-s3-d4", "v2-k4-s3-d16",
    )
]  # fmt: skip


def test_steps_above_a_depth_that_crashed_are_spared_and_the_lesson_names_its_launch():
    launches = [came_up(1, "off"), came_up(2, "v2-k1-s3-d4"), died(7, "v2-k1-s4-d5", line="IndexError: layer 4")]
    found = spared(SPACE, launches)
    assert names(found) == ["v2-k1-s5-d6", "v2-k2-s4-d8"]
    words = found[config("v2-k1-s5-d6")].words
    assert "launch 7" in words and "num_steps of 4 or more" in words and "IndexError: layer 4" in words


def test_tree_that_did_not_fit_spares_what_needs_more_of_everything():
    launches = [came_up(1, "off"), died(2, "v2-k2-s2-d7", Reason.OOM_GRAPH, "CUDA out of memory")]
    assert names(spared(SPACE, launches)) == ["v2-k2-s4-d8", "v2-k4-s3-d16"]


def test_backend_that_cannot_draft_spares_every_tree_with_it_but_none_with_another():
    space = [config(f"v2-k1-s{steps}-d{steps + 1}+attention_backend={one}") for steps in (1, 2, 3) for one in ("fa3", "triton")]  # fmt: skip
    refused = died(3, "v2-k1-s1-d2+attention_backend=triton", Reason.ARG_INVALID_COMBO, "triton cannot draft")
    launches = [came_up(1, "off+attention_backend=triton"), came_up(2, "v2-k1-s2-d3+attention_backend=fa3"), refused]
    assert names(spared(space, launches)) == [
        "v2-k1-s2-d3+attn=triton",
        "v2-k1-s3-d4+attn=triton",
    ]


def test_number_that_another_config_passed_is_no_explanation():
    launches = [came_up(1, "v2-k1-s5-d6"), died(2, "v2-k2-s4-d8")]
    # Steps 4 were passed; what is left is the width, or more tokens than 8.
    (lesson,) = lessons_of(launches)
    assert lesson.at_least == {"topk": 2, "num_draft_tokens": 8}


def test_cut_tree_that_died_says_nothing_of_whole_trees():
    assert spared(SPACE, [came_up(1, "off"), died(2, "v2-k4-s3-d4")]) == {}
    assert names(spared(SPACE, [came_up(1, "off"), died(2, "v2-k4-s3-d4", Reason.OOM_GRAPH)])) == ["v2-k4-s3-d16"]


@pytest.mark.parametrize(
    "launch",
    [
        died(2, "v2-k1-s1-d2", Reason.START_CRASH),
        died(2, "v2-k1-s1-d2", Reason.HOST_BUSY),
        died(2, "v2-k1-s1-d2", Reason.MISSING_MODULE),
        died(2, "v2-k1-s1-d2", Reason.COMM_INIT_HANG),
        died(2, "v2-k1-s1-d2", Reason.SERVER_CRASH_LOAD, phase="c=100", boot_s=60.0),
    ],
)
def test_accident_host_and_crash_under_load_spare_nothing(launch):
    assert spared(SPACE, [came_up(1, "off"), launch]) == {}


def test_start_that_contradicts_a_lesson_ends_it():
    launches = [came_up(1, "off"), died(2, "v2-k1-s2-d3")]
    assert config("v2-k1-s3-d4") in spared(SPACE, launches)
    assert (
        spared(SPACE, [*launches, came_up(3, "v2-k1-s3-d4"), came_up(4, "v2-k2-s4-d8"), came_up(5, "v2-k4-s3-d16")])
        == {}
    )


TREES = st.builds(
    lambda version, topk, steps, share: SpecConfig(
        spec_version=version,
        topk=topk,
        num_steps=steps,
        num_draft_tokens=steps + 1 if topk == 1 else max(2, round(share * tree_bound(topk=topk, num_steps=steps))),
        allreduce_fusion="off",
    ),
    st.sampled_from(["v1", "v2"]), st.sampled_from([1, 2, 4]), st.integers(1, 6), st.floats(0.1, 1.0),
)  # fmt: skip


@given(
    st.lists(st.tuples(TREES, st.sampled_from([None, Reason.OOM_KV, Reason.DETERMINISTIC_CRASH])), max_size=8), TREES
)
def test_lesson_stops_nothing_that_started_and_nothing_smaller_than_all_that_failed(history, other):
    launches = [
        came_up(n, str(tree)) if reason is None else died(n, str(tree), reason)
        for n, (tree, reason) in enumerate(history, 1)
    ]
    for lesson in lessons_of(launches):
        assert not any(lesson.stops(launch.config) for launch in launches if launch.outcome is Outcome.MEASURED)
        taught = [launch.asked for launch in lesson.taught_by]
        if lesson.stops(other):
            assert other.spec_version in {one.spec_version for one in taught}
            smallest = min(one.num_steps for one in taught), min(one.num_draft_tokens for one in taught)
            assert other.num_steps >= smallest[0] or other.num_draft_tokens >= smallest[1] or other.topk > 1


def test_second_death_alike_is_the_configs_fault_where_a_sibling_started():
    first = died(2, "v2-k1-s2-d3", Reason.START_CRASH, "KeyError: 'x' at 0x7f00")
    again = died(3, "v2-k1-s2-d3", Reason.START_CRASH, "KeyError: 'x' at 0x8a11")
    record = settled(again, [came_up(1, "off"), first])
    assert (record.reason, record.blame, record.outcome) == (Reason.DETERMINISTIC_CRASH, Blame.CONFIG, Outcome.FAILED)
    assert settled(again, [first]) is again  # nobody knows whether anything starts here
    assert settled(again, [came_up(1, "off")]) is again  # once is an accident


def test_other_crash_other_moment_and_killing_hand_settle_nothing():
    sibling = came_up(1, "off")
    again = died(3, "v2-k1-s2-d3", Reason.START_CRASH, "KeyError: 'x'")
    assert settled(again, [sibling, died(2, "v2-k1-s2-d3", Reason.START_CRASH, "KeyError: 'y'")]) is again
    assert (
        settled(again, [sibling, died(2, "v2-k1-s2-d3", Reason.START_CRASH, "KeyError: 'x'", phase="loading")]) is again
    )
    killed = [died(n, "v2-k1-s2-d3", Reason.UNKNOWN, "ended by SIGKILL with no error in the log") for n in (2, 3)]
    assert settled(killed[1], [sibling, killed[0]]) is killed[1]
    silent = [
        died(n, "v2-k1-s2-d3", Reason.UNKNOWN, "ended with exit code 1 and no error in the log", code=1) for n in (2, 3)
    ]
    assert settled(silent[1], [sibling, silent[0]]).reason is Reason.DETERMINISTIC_CRASH
    loaded = [died(n, "v2-k1-s2-d3", Reason.CUDA_FAULT, phase="c=100", boot_s=60.0) for n in (2, 3)]
    assert settled(loaded[1], [sibling, loaded[0]]) is loaded[1]


def crash(reason=Reason.START_CRASH, line="IndexError: list index out of range"):
    return Script(launch_error=LaunchFailed(reason, Evidence(line, "graph capture", -9)))


def test_config_that_crashes_twice_alike_is_infeasible_and_its_neighbours_are_not_launched(lab):
    deep = {"v2-k1-s2-d3"}
    engine = ScriptedEngine(lambda config, _: crash() if config.config_id in deep else Script())
    heard = lab.run(engine, launches=20)
    assert heard.ending is Ending.EXHAUSTED and engine.launched.count("v2-k1-s2-d3") == 2
    reasons = [launch.reason for launch in heard.launches if launch.asked.config_id == "v2-k1-s2-d3"]
    assert reasons == [Reason.START_CRASH, Reason.DETERMINISTIC_CRASH]
    assert [launch.reason for launch in lab.launches() if launch.reason] == reasons
    assert lab.trial("v2-k1-s2-d3").state is TrialState.COMPLETE and not lab.trial("v2-k1-s2-d3").user_attrs["feasible"]
    assert sorted({*lab.configs} - {*engine.launched}) == ["v2-k1-s3-d4"]
    (told,) = [line for line in heard.notices if line.startswith("not launched: ")]
    assert "v2-k1-s3-d4" in told and "as launch 3 showed" in told and "IndexError" in told
    again = ScriptedEngine(lambda config, _: Script())
    assert lab.run(again, launches=20).ending is Ending.EXHAUSTED and again.launched == []


def test_crash_that_every_config_shows_stops_the_study_and_blames_none(lab):
    engine = ScriptedEngine(lambda config, _: crash())
    heard = lab.run(engine)
    assert isinstance(heard.error, BreakerOpen) and "IndexError" in str(heard.error)
    assert "what all launches share is to blame" in str(heard.error)
    assert engine.launched == ["off", "off"] and all(launch.blame is Blame.FLAKE for launch in heard.launches)


def test_known_config_that_must_fail_alike_is_not_launched_either(lab):
    text = lab.text.replace("known: [v2-k1-s2-d3]", "known: [v2-k1-s2-d3, v2-k1-s3-d4]")
    refused = crash(Reason.ARG_INVALID_COMBO, "ValueError: no such depth")
    engine = ScriptedEngine(lambda config, _: refused if config.config_id == "v2-k1-s2-d3" else Script())
    heard = lab.run(engine, text=text, launches=2)
    assert engine.launched == ["off", "v2-k1-s2-d3"]
    again = ScriptedEngine(lambda config, _: Script())
    heard = lab.run(again, text=text, launches=20)
    assert heard.ending is Ending.EXHAUSTED
    # The chains of v1 and of one step start, and so does a wider tree: steps 3 of v2 were never passed.
    assert "v2-k1-s3-d4" not in again.launched and any("v2-k1-s3-d4" in line for line in heard.notices)


def test_replay_launches_a_config_that_its_table_measured_where_a_neighbour_failed(lab):
    failed, fine, failed_too = "v2-k1-s2-d3", "v2-k1-s3-d4", "v2-k1-s4-d5"
    measured = [
        Row(config(name), 1, Outcome.MEASURED, concurrency=load, repeat=repeat, output_tps=100.0 * load, boot_s=60.0)
        for name in ("off", fine)
        for load in (1, 30, 100)
        for repeat in (1, 2, 3)
    ]
    refused = [Row(config(name), 1, Outcome.FAILED, Reason.ARG_INVALID_COMBO) for name in (failed, failed_too)]
    table = Recording({"name": "mine"}, (*measured, *refused))
    starts = table.starts()
    assert config(fine) in spared(table.space(), [came_up(1, "off"), died(2, failed, Reason.ARG_INVALID_COMBO)])
    heard = lab.run(
        ReplayEngine(table),
        configs=tuple(map(str, table.space())),
        recorded=Recorded(lambda one: len(starts.get(one, ()))),
        launches=20,
    )
    ends = {launch.asked.config_id: launch.outcome for launch in heard.launches}
    assert heard.error is None and ends[failed] is not Outcome.MEASURED and ends[fine] is Outcome.MEASURED
    assert not any(fine in line for line in heard.notices if line.startswith("not launched: "))
