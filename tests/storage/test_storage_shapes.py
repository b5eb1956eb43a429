"""Stored cells follow their dataclass, and hold finite numbers only; what older versions stored is read."""

import json
import math
import sqlite3
from contextlib import closing
from dataclasses import dataclass, fields, make_dataclass, replace
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st
from test_storage_store import CHAIN, EXPECTED, PHASE, STUDY, planned

from search.contracts import GpuState, PhaseResult
from search.errors import LoadFailed, StorageFault
from search.outcomes import Evidence, Note, Outcome, Reason
from search.stats.estimates import Estimate
from search.stats.losslessness import OutputCheck
from search.storage.shapes import Shape, finite, is_finite
from search.storage.store import Store
from search.storage.translate import EXPECTED as EXPECTED_SHAPE
from search.storage.translate import LAUNCH
from search.storage.translate import PHASE as PHASE_SHAPE

ANY = st.floats(allow_nan=True, allow_infinity=True)


@dataclass(frozen=True)
class Inner:
    size: float
    names: tuple[str, ...] = ()


@dataclass(frozen=True)
class Outer:
    note: Note
    share: float | None
    counts: tuple[float, ...]
    inner: Inner | None = None


@given(share=st.none() | ANY, counts=st.lists(ANY).map(tuple), size=ANY)
def test_cells_are_json_whatever_the_numbers_and_read_back_without_those_that_are_not_finite(share, counts, size):
    shape = Shape(Outer)
    cells = json.loads(json.dumps(shape.plain(Outer(Note.UNSTABLE, share, counts, Inner(size))), allow_nan=False))
    read = shape.value(cells)
    assert read.note is Note.UNSTABLE
    assert read.share == (share if share is not None and math.isfinite(share) else None)
    assert read.counts == (counts if all(map(math.isfinite, counts)) else ())
    assert read.inner == (Inner(size) if math.isfinite(size) else None)


def test_new_optional_field_is_stored_and_read_and_is_its_default_in_rows_from_before():
    later = make_dataclass("Later", [("completed", int | None, None)], bases=(Inner,), frozen=True)
    shape = Shape(later)
    assert shape.plain(later(1.0, completed=7)) == {"size": 1.0, "names": [], "completed": 7}
    assert shape.value(shape.plain(later(1.0, completed=7))) == later(1.0, completed=7)
    assert shape.value({"size": 1.0, "names": None, "of another version": 1}) == later(1.0)


@pytest.mark.parametrize("field", [f.name for f in fields(PhaseResult) if f.type == "float | None"])
@pytest.mark.parametrize("number", [math.inf, -math.inf, math.nan])
def test_unknown_number_of_a_repeat_is_none_in_the_database(tmp_path, field, number):
    with Store(tmp_path / "trials.db") as store:
        store.save_study(STUDY)
        store.begin_launch("kimi", planned)
        store.add_phase("kimi", 1, replace(PHASE, **{field: number}))
        assert store.launches("kimi")[0].phases == (replace(PHASE, **{field: None}),)


def test_repeat_without_a_finite_rate_is_no_measurement_and_says_so(tmp_path):
    with Store(tmp_path / "trials.db") as store:
        store.save_study(STUDY)
        store.begin_launch("kimi", planned)
        with pytest.raises(
            LoadFailed, match=r"METRIC_INVALID.*`output_tps` of a repeat is a finite number, but got inf"
        ):
            store.add_phase("kimi", 1, replace(PHASE, output_tps=math.inf))
        assert store.launches("kimi")[0].phases == ()


def test_forecast_and_check_with_an_infinite_bound_lose_what_is_not_known(tmp_path):
    check = OutputCheck(1, "lossless", "equal", agreement=Estimate(0.9, -math.inf, 0.95), chance=math.nan)
    with Store(tmp_path / "trials.db") as store:
        store.save_study(STUDY)
        wide = replace(EXPECTED, second=(1.0, 2.0, math.inf))
        begun = store.begin_launch("kimi", lambda number: replace(planned(number), expected=wide))
        store.finish_launch("kimi", replace(begun, outcome=Outcome.MEASURED, lossless=(check,), boot_s=math.inf))
        (read,) = store.launches("kimi")
    assert read.expected is None and read.boot_s is None
    assert read.lossless == (replace(check, agreement=Estimate(0.9, None, 0.95), chance=None),)


def test_infinite_numbers_that_an_older_version_stored_are_unknown(tmp_path):
    with Store(tmp_path / "trials.db") as store:
        store.save_study(STUDY)
        store.begin_launch("kimi", lambda number: replace(planned(number), expected=EXPECTED))
        store.add_phase("kimi", 1, PHASE)
        store.add_phase("kimi", 1, replace(PHASE, repeat=3))
    with closing(sqlite3.connect(tmp_path / "trials.db")) as database:
        database.execute("update search_phases set tpot_ms = 9e999, window_tps = '[1.0, Infinity]' where repeat = 2")
        database.execute("update search_phases set output_tps = 9e999 where repeat = 3")
        database.execute("update search_expected set latency_ms = '[1.0, NaN, 2.0]'")
        database.commit()
    with Store(tmp_path / "trials.db") as store:
        (read,) = store.launches("kimi")
    assert read.phases == (replace(PHASE, tpot_ms=None, window_tps=()),) and read.expected is None


def test_number_of_no_world_in_a_database_is_unknown(tmp_path):
    with Store(tmp_path / "trials.db") as store:
        store.save_study(STUDY)
        store.begin_launch("kimi", planned)
        for repeat in (1, 2, 3, 4):
            store.add_phase("kimi", 1, replace(PHASE, repeat=repeat))
    with closing(sqlite3.connect(tmp_path / "trials.db")) as database:
        database.execute("update search_launches set boot_s = 1e308, duration_s = -1e308")
        database.execute("update search_phases set duration_s = 1e308, itl_ms = 1e300 where repeat = 1")
        database.execute("update search_phases set duration_s = -1 where repeat = 2")
        database.execute("update search_phases set output_tps = 1e308 where repeat = 3")
        database.commit()
    with Store(tmp_path / "trials.db") as store:
        (read,) = store.launches("kimi")
    assert (read.boot_s, read.duration_s) == (None, None)
    assert read.phases == (replace(PHASE, repeat=1, duration_s=None, itl_ms=None), replace(PHASE, repeat=4))


def test_word_of_a_later_version_is_a_fault_with_a_way_out_not_a_traceback(tmp_path):
    with Store(tmp_path / "trials.db") as store:
        store.save_study(STUDY)
        store.begin_launch("kimi", planned)
    with closing(sqlite3.connect(tmp_path / "trials.db")) as database:
        database.execute("""update search_launches set notes = '["OF_TOMORROW"]'""")
        database.commit()
    with (
        Store(tmp_path / "trials.db") as store,
        pytest.raises(StorageFault, match=r"launch 1 cannot be read.*`notes.0`.*OF_TOMORROW.*Run the version"),
    ):
        store.launches("kimi")


def test_database_from_before_a_column_was_added_reads_goes_on_and_keeps_what_is_new(tmp_path):
    path = tmp_path / "trials.db"
    with Store(path) as store:
        store.save_study(STUDY)
        store.begin_launch("kimi", planned)
        store.add_phase("kimi", 1, PHASE)
    with closing(sqlite3.connect(path)) as database:
        database.execute("alter table search_phases drop column client_busy")
        database.execute("alter table search_launches drop column changed")
        database.execute("alter table search_launches drop column no_server")
        database.execute("alter table search_studies drop column changes")
        database.commit()
    with Store(path, read_only=True) as store:
        assert store.launches("kimi")[0].phases == (PHASE,)
    with Store(path) as store:
        busy = replace(PHASE, repeat=3, client_busy=0.25)
        assert store.launches("kimi")[0].phases == (PHASE,)
        store.add_phase("kimi", 1, busy)
        assert store.launches("kimi")[0].phases == (PHASE, busy)


def test_database_from_before_starts_were_shared_reads_each_launch_as_a_start_of_its_own_and_goes_on(tmp_path):
    path = tmp_path / "trials.db"
    with Store(path) as store:
        store.save_study(STUDY)
        store.begin_launch("kimi", planned)
    with closing(sqlite3.connect(path)) as database:
        for column in ("start", "place", "switch_s"):
            database.execute(f"alter table search_launches drop column {column}")
        database.commit()
    with Store(path, read_only=True) as store:
        before = store.launches("kimi")[0]
        assert (before.start, before.place, before.switch_s, before.start_number) == (None, 0, None, 1)
    with Store(path) as store:
        second = store.begin_launch("kimi", lambda number: replace(planned(number), start=1, place=1, switch_s=7.5))
        assert list(store.launches("kimi")) == [before, second]
        assert (second.start_number, second.place, second.switch_s) == (1, 1, 7.5)


def test_launch_cells_hold_enums_as_words_and_a_config_as_its_knobs():
    cells = LAUNCH.plain(replace(planned(3), outcome=Outcome.FAILED, reason=Reason.OOM_KV, evidence=Evidence("full")))
    assert cells["outcome"] == "FAILED" and cells["reason"] == "OOM_KV" and cells["asked"] == CHAIN.params
    assert cells["evidence"]["root_line"] == "full" and cells["evidence"]["exit_code"] is None
    assert is_finite(cells)


def test_gpu_state_without_a_clock_is_unknown_as_a_whole():
    result = replace(PHASE, gpu=GpuState(math.nan, 60.0))
    assert PHASE_SHAPE.plain(result)["gpu"] is None


def test_gpu_state_and_forecast_read_back_equal():
    result = replace(PHASE, gpu=GpuState(1500.0, 60.0, 0.5, ("power cap",)))
    assert PHASE_SHAPE.value(PHASE_SHAPE.plain(result)) == result
    assert EXPECTED_SHAPE.value(EXPECTED_SHAPE.plain(EXPECTED)) == EXPECTED


def test_finite_puts_none_for_what_is_no_number_at_any_depth():
    assert finite({"a": [1.0, math.inf], "b": {"c": (math.nan, "x")}}) == {"a": [1.0, None], "b": {"c": [None, "x"]}}


def test_launch_is_read_anew_when_another_driver_changes_it_after_its_end(tmp_path):
    with Store(tmp_path / "trials.db") as mine, Store(tmp_path / "trials.db") as other:
        mine.save_study(STUDY)
        begun = mine.begin_launch("kimi", planned)
        closed = replace(begun, outcome=Outcome.INTERRUPTED, reason=Reason.STOPPED)
        other.finish_launch("kimi", closed)
        second = other.begin_launch("kimi", planned)
        other.finish_launch("kimi", replace(second, outcome=Outcome.MEASURED))
        assert [launch.outcome for launch in other.launches("kimi")] == [Outcome.INTERRUPTED, Outcome.MEASURED]
        mine.finish_launch("kimi", replace(begun, outcome=Outcome.MEASURED))
        assert [launch.outcome for launch in other.launches("kimi")] == [Outcome.MEASURED, Outcome.MEASURED]


def test_reading_when_nothing_changed_asks_for_no_launch(tmp_path):
    from sqlalchemy import event

    with Store(tmp_path / "trials.db") as store:
        store.save_study(STUDY)
        for _ in range(3):
            begun = store.begin_launch("kimi", planned)
            store.finish_launch("kimi", replace(begun, outcome=Outcome.MEASURED))
        first = store.launches("kimi")
        asked = []
        event.listen(store._engine, "before_cursor_execute", lambda *words: asked.append(words[2]))
        assert store.launches("kimi") == first and len(asked) == 1
        store.finish_launch("kimi", replace(first[1], duration_s=1.0))
        asked.clear()
        assert store.launches("kimi")[1].duration_s == 1.0
        assert [words for words in asked if "search_phases" in words]  # of what changed alone


def test_study_of_another_day_keeps_its_zone(tmp_path):
    with Store(tmp_path / "trials.db") as store:
        store.save_study(replace(STUDY, spec={"share": math.inf}))
        assert store.study("kimi").created_at == datetime(2026, 1, 2, tzinfo=UTC)
        assert store.study("kimi").spec == {"share": None}
