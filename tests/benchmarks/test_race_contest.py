"""One race: who may ask what, and that the lean loop is the product's loop."""

from datetime import UTC, datetime

import pytest
from race_tables import VALUES, small_table

from benchmarks.race.contest import run_course
from benchmarks.race.rivals import RIVALS, make_entrant, parse_entry, registry
from benchmarks.race.rivals.finite_gp import FiniteGp
from benchmarks.race.scoring import score
from benchmarks.race.worlds import make_world
from search.cluster import InlineExecutor
from search.contracts import VirtualClock
from search.engines import ReplayEngine
from search.outcomes import Outcome
from search.storage.optuna_side import optuna_storage
from search.storage.store import Store
from search.study.context import Overrides, StudyContext, Watch
from search.study.events import Ending
from search.study.lessons import spared
from search.study.runner import run_study

ABLE = [name for name, rival in RIVALS.items() if not rival.missing()]
ENTRIES = [*ABLE, "tpe:told=yes", "nsga2:told=yes", "finite-gp:feasibility=no", "finite-gp:gating=yes"]


@pytest.fixture(autouse=True)
def _list_tuned_elsewhere(monkeypatch):
    """Tuning takes seconds, and its result is none of these tests' business."""
    monkeypatch.setattr(registry, "building_list", lambda: ("v2-k1-s3-d4", "v1-k4-s3-d16"))


def raced(entry, table, *, seed=0, budget=40):
    rival, _ = parse_entry(entry)
    return run_course(
        table, make_entrant(entry, table, seed=seed), budget=budget, seed=seed, knows_known=rival.knows_known
    ).launches


def launched(entry, table, *, seed=0, budget=40):
    return [launch.config.config_id for launch in raced(entry, table, seed=seed, budget=budget)]


def settled(entry, table):
    """How many configs were launched, or must fail as one of them did."""
    launches = raced(entry, table)
    return len(launches) + len(spared(table.space.configs, launches))


class Silent:
    """A listener that keeps the launches."""

    def __init__(self):
        self.asked = []

    def started(self, start):
        pass

    def launching(self, launch):
        pass

    def launched(self, launch, judgements):
        self.asked.append(launch.config.config_id)

    def ended(self, ending, judgement):
        pass


@pytest.mark.parametrize("sampler", ["tpe", "nsga2"])
def test_lean_loop_and_the_study_launch_the_same_configs_in_the_same_order(sampler, tmp_path):
    table = make_world(0)  # one baseline: a study launches all of them first, a race only the first
    assert len(table.space.baselines) == 1
    listener = Silent()
    with Store(tmp_path / "trials.db") as store:
        storage = optuna_storage(tmp_path / "trials.db")
        ending = run_study(
            StudyContext(
                spec=table.spec,
                name="race.replay",
                kind="replay",
                space=table.space,
                fingerprint={},
                clock=VirtualClock(datetime(2026, 1, 1, tzinfo=UTC)),
                reports=tmp_path / "reports",
                resume_command="",
            ),
            executor=InlineExecutor(ReplayEngine(table.recording)),
            store=store,
            storage=storage,
            watch=Watch(listener),
            overrides=Overrides(launches=14, hours=1e6, seed=5, sampler=sampler),
        )
        storage.remove_session()
        storage.engine.dispose()
    assert ending is Ending.LAUNCHES
    entrant = make_entrant(sampler, table, seed=5)
    course = run_course(table, entrant, budget=14, seed=0)  # repeats in file order, as a replay deals them
    assert [launch.config.config_id for launch in course.launches] == listener.asked


@pytest.mark.parametrize("entry", ENTRIES)
def test_every_entrant_ends_on_a_table_where_much_fails_and_repeats_nothing(entry):
    asked = launched(entry, small_table())
    assert asked[0] == "off"
    assert len(asked) == len(set(asked))
    # All but the cookbook go on until nothing is left that may start.
    assert len(asked) == 3 if entry == "cookbook" else settled(entry, small_table()) == 8


@pytest.mark.parametrize("entry", ENTRIES)
def test_every_entrant_ends_when_all_but_the_baseline_fail(entry):
    values = {"off": VALUES["off"]}
    table = small_table(values, failed=[*(name for name in VALUES if name != "off"), "v1-k4-s2-d21"])
    assert len(launched(entry, table)) == 3 if entry == "cookbook" else settled(entry, table) == 7


@pytest.mark.parametrize("entry", ENTRIES)
def test_every_entrant_ends_when_everything_measures_the_same(entry):
    table = small_table(dict.fromkeys(VALUES, VALUES["off"]), failed=())
    assert len(launched(entry, table)) == (3 if entry == "cookbook" else 6)


@pytest.mark.parametrize("entry", [name for name in ABLE if name not in ("cookbook", "oracle")])
def test_same_seed_launches_the_same(entry):
    table = make_world(10)
    assert launched(entry, table, seed=3, budget=9) == launched(entry, table, seed=3, budget=9)


@pytest.mark.parametrize("entry", ["tpe", "nsga2", "random", "raw-random", "fixed-list", "descent"])
def test_another_seed_launches_something_else_where_draws_decide(entry):
    table = make_world(10)
    assert launched(entry, table, seed=1, budget=14) != launched(entry, table, seed=2, budget=14)


@pytest.mark.parametrize("entry", [name for name in ABLE if name != "oracle"])
def test_nobody_is_ahead_of_the_oracle_at_any_budget_of_a_small_table(entry):
    table = small_table()

    def shares(name):
        rival = RIVALS[name]
        course = run_course(table, make_entrant(name, table, seed=1), budget=8, seed=1, knows_known=rival.knows_known)
        return score(table, course, entry=name, seed=1, budget=8)

    floor, rival = shares("oracle"), shares(entry)
    for launches in range(1, 9):
        assert rival.share_at(launches) <= floor.share_at(launches) + 1e-12


def test_start_is_the_baseline_and_what_is_recorded_of_the_known_configs_for_all_but_the_cookbook():
    table = small_table(known=("off", "v2-k1-s2-d3", "v1-k2-s2-d7", "v2-k1-s6-d7"))
    assert launched("random", table)[:3] == ["off", "v2-k1-s2-d3", "v1-k2-s2-d7"]
    assert launched("cookbook", table)[:2] == ["off", "v2-k1-s3-d4"]


class SkipsAll(FiniteGp):
    def skips(self, config, low):
        assert [phase.concurrency for phase in low] == [1, 1]
        return config.speculates


def test_gated_launch_measures_the_latency_alone_saves_its_time_and_adds_no_share():
    table = small_table()
    course = run_course(table, SkipsAll(table, seed=0), budget=3, seed=0)
    done = score(table, course, entry="skips", seed=0, budget=3)
    assert [launch.outcome for launch in course.launches[:2]] == [Outcome.MEASURED, Outcome.GATED]
    assert done.minutes[:2] == pytest.approx((5.0, 8.0))
    assert done.shares == pytest.approx([460 / 2760] * 3)
    assert done.gated == 2


def test_gate_of_the_plain_rival_skips_what_cannot_enter_the_front():
    table = small_table({name: [(latency, rate)] * 3 for name, (latency, rate) in CLEAR.items()}, failed=(), known=())
    entrant = FiniteGp(table, seed=0, gating=True)
    course = run_course(table, entrant, budget=len(CLEAR), seed=0)
    gated = {launch.config.config_id for launch in course.launches if launch.outcome is Outcome.GATED}
    assert gated
    assert not {table_id for table_id in gated if CLEAR[table_id] in table.front}


# Everything with topk 2 is slower on both axes, by far.
CLEAR = {"off": (10.0, 1000.0)} | {
    f"v2-k{topk}-s{steps}-d{tokens}": (topk * (8.0 - steps) ** topk, (1200.0 - 100.0 * steps) / topk**3)
    for topk in (1, 2)
    for steps in (1, 2, 3, 4, 5)
    for tokens in ([steps + 1] if topk == 1 else [3, steps + 2] if steps > 1 else [3])
}


def test_cookbook_takes_the_nearest_config_where_the_default_is_not_in_the_space():
    table = small_table()
    assert set(launched("cookbook", table)[1:]) <= {config.config_id for config in table.space.configs}
