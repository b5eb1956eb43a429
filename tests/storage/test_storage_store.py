"""Records survive the database; faults are told with a way out."""

import os
import sqlite3
from dataclasses import replace
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path

import optuna
import pytest

from search.config import SpecConfig, SpecVersion
from search.contracts import EffectiveSettings, PhaseResult
from search.errors import StorageFault, UsageError
from search.outcomes import Evidence, Note, Outcome, Reason
from search.storage.optuna_side import optuna_storage, quiet_optuna
from search.storage.records import Expected, LaunchRecord, StudyRecord
from search.storage.store import Store
from search.storage.urls import storage_url

STUDY = StudyRecord(
    "kimi", "measured", {"study": "kimi", "watch": [30]}, {"engine.release": "0.5.9"}, datetime(2026, 1, 2, tzinfo=UTC)
)
CHAIN = SpecConfig(SpecVersion.V2, 1, 2, 3, allreduce_fusion="auto", extra=(("page_size", 64),))
PHASE = PhaseResult(
    concurrency=100,
    repeat=2,
    requests=400,
    output_tokens=102_400,
    duration_s=132.5,
    output_tps=775.0,
    whole_run_tps=760.25,
    tpot_ms=12.5,
    ttft_ms=95.0,
    accept_length=2.37,
    accept_histogram=(21, 14, 69),
    prompt_tpot_ms=(12.0, 13.0),
    window_tps=(770.0, 780.0),
    warmup_s=3.5,
    notes=(Note.GRAPH_MISS, Note.THROTTLED),
    extrapolated=True,
)


def planned(number):
    return LaunchRecord(
        number=number,
        stage="search",
        asked=CHAIN,
        config=CHAIN,
        started_at=datetime(2026, 1, 2, 3, 4, 5, 678, tzinfo=UTC),
        trial=7,
        why="proposed by tpe",
        folder=f"launches/{number:04d}-x",
        slot=1,
    )


EXPECTED = Expected((9.5, 10.25, 12.0), (700.0, 775.0, 880.5), feasible=0.9, enters_front=0.4, gain=0.0125)


@pytest.fixture
def store(tmp_path):
    with Store(tmp_path / "trials.db") as store:
        store.save_study(STUDY)
        yield store


def test_database_from_before_expectations_were_stored_goes_on(tmp_path, store):
    store.begin_launch("kimi", planned)
    store.close()
    with sqlite3.connect(tmp_path / "trials.db") as connection:
        connection.execute("DROP TABLE search_expected")
    with Store(tmp_path / "trials.db") as again:
        again.begin_launch("kimi", lambda number: replace(planned(number), expected=EXPECTED))
        assert [launch.expected for launch in again.launches("kimi")] == [None, EXPECTED]


def test_launch_with_all_its_parts_reads_back_equal(store):
    begun = store.begin_launch("kimi", lambda number: replace(planned(number), expected=EXPECTED))
    store.add_phase("kimi", 1, PHASE)
    store.add_phase("kimi", 1, replace(PHASE, accept_length=None, accept_histogram=(), notes=(), extrapolated=False))
    done = replace(
        begun,
        config=SpecConfig(SpecVersion.OFF),
        outcome=Outcome.FAILED,
        reason=Reason.OOM_GRAPH,
        evidence=Evidence("CUDA out of memory", "graph capture", -9, "/logs/server.log"),
        notes=(Note.EFFECTIVE_DIFFERS,),
        boot_s=780.5,
        duration_s=1000.25,
        effective=EffectiveSettings(SpecConfig(SpecVersion.OFF), "0.5.9", 48, (("attention_backend", "fa3"),)),
    )
    store.finish_launch("kimi", done)
    (read,) = store.launches("kimi")
    second = replace(PHASE, accept_length=None, accept_histogram=(), notes=(), extrapolated=False)
    assert read == replace(done, phases=(PHASE, second))


def test_launch_in_flight_is_readable_without_outcome_and_with_its_phases(store, tmp_path):
    store.begin_launch("kimi", planned)
    store.add_phase("kimi", 1, PHASE)
    with Store(tmp_path / "trials.db") as other:
        (read,) = other.launches("kimi")
    assert read.outcome is None and read.phases == (PHASE,)


def test_numbers_count_up_per_study(store):
    store.save_study(replace(STUDY, name="other"))
    assert [store.begin_launch(name, planned).number for name in ("kimi", "kimi", "other")] == [1, 2, 1]


def test_number_taken_by_another_driver_meanwhile_is_passed_over(store, tmp_path):
    calls = []

    def late(number):
        # The other driver is quicker once.
        calls.append(number)
        return planned(number if len(calls) > 1 else 1)

    store.begin_launch("kimi", planned)
    assert store.begin_launch("kimi", late).number == 2 and calls == [2, 2]


def test_study_reads_back_and_saving_again_renews_spec_but_not_birth(store):
    store.save_study(
        replace(STUDY, fingerprint={"engine.release": "0.5.11"}, created_at=datetime(2027, 1, 1, tzinfo=UTC))
    )
    assert store.study("kimi") == replace(STUDY, fingerprint={"engine.release": "0.5.11"})
    assert store.studies() == (store.study("kimi"),) and store.study("none") is None


def test_times_of_other_zones_come_back_as_the_same_moment(store):
    plus_two = datetime(2026, 1, 2, 5, 0, tzinfo=timezone(timedelta(hours=2)))
    store.begin_launch("kimi", lambda number: replace(planned(number), started_at=plus_two))
    assert store.launches("kimi")[0].started_at == datetime(2026, 1, 2, 3, 0, tzinfo=UTC)


def test_launches_are_read_anew_while_unfinished_and_when_another_driver_adds_one(store, tmp_path):
    first = store.begin_launch("kimi", planned)
    assert store.launches("kimi") == (first,)
    done = replace(first, outcome=Outcome.MEASURED)
    store.add_phase("kimi", 1, PHASE)
    store.finish_launch("kimi", done)
    with Store(tmp_path / "trials.db") as other:
        second = other.begin_launch("kimi", planned)
    assert store.launches("kimi") == (replace(done, phases=(PHASE,)), second)
    again = replace(done, outcome=Outcome.INTERRUPTED, reason=Reason.STOPPED)
    store.finish_launch("kimi", again)
    assert store.launches("kimi") == (replace(again, phases=(PHASE,)), second)


def test_unknown_study_has_no_launches_and_takes_none(store):
    assert store.launches("none") == ()
    with pytest.raises(UsageError, match="no study 'none'"):
        store.begin_launch("none", planned)
    with pytest.raises(UsageError, match="no launch 9"):
        store.add_phase("kimi", 9, PHASE)


def test_optuna_shares_the_database_file(store, tmp_path):
    storage = optuna_storage(f"sqlite:///{tmp_path}/trials.db")
    with quiet_optuna():
        optuna.create_study(study_name="kimi", storage=storage)
    storage.remove_session()
    storage.engine.dispose()
    tables = {row[0] for row in _sql(tmp_path / "trials.db", "select name from sqlite_master where type='table'")}
    assert {"trials", "studies", "search_studies", "search_launches", "search_phases", "search_meta"} <= tables
    assert _sql(tmp_path / "trials.db", "pragma journal_mode") == [("wal",)]


def test_deleting_a_study_deletes_its_launches(store):
    store.begin_launch("kimi", planned)
    with store._engine.begin() as connection:
        connection.exec_driver_sql("delete from search_studies")
        assert connection.exec_driver_sql("select count(*) from search_launches").scalar() == 0


def test_tables_of_another_version_are_refused(store, tmp_path):
    store.close()
    _sql(tmp_path / "trials.db", "update search_meta set value = '99'")
    with pytest.raises(StorageFault, match=r"version 99.*version 2.*another `--storage`"):
        Store(tmp_path / "trials.db")


def test_file_that_is_no_database_is_told_so(tmp_path):
    (tmp_path / "trials.db").write_text("not a database, but long enough to be looked at " * 40)
    with pytest.raises(StorageFault, match="choose another `--storage`"):
        Store(tmp_path / "trials.db")
    with pytest.raises(StorageFault, match="choose another `--storage`"):
        optuna_storage(tmp_path / "trials.db")


def test_missing_folder_is_named(tmp_path):
    with pytest.raises(UsageError, match=r"no folder .*nowhere"):
        storage_url(tmp_path / "nowhere" / "trials.db")


@pytest.mark.parametrize("kind", ["folder", "pipe", "loop", "device"])
def test_storage_that_is_no_plain_file_is_refused_before_it_is_opened(tmp_path, kind):
    path = tmp_path / "trials.db"
    if kind == "folder":
        path.mkdir()
    elif kind == "pipe":
        os.mkfifo(path)
    else:
        path.symlink_to(path if kind == "loop" else "/dev/null")
    with pytest.raises(UsageError, match="names a file, but"):
        storage_url(path)


@pytest.mark.parametrize("text", ["mysql://host/db", "://", "sqlite://", "sqlite:///:memory:"])
def test_storage_of_another_kind_is_refused(text):
    with pytest.raises(UsageError):
        storage_url(text)


def test_path_and_url_mean_the_same_file(tmp_path):
    assert storage_url(tmp_path / "t.db") == storage_url(f"sqlite:///{tmp_path}/t.db")


def _sql(path: Path, statement: str) -> list:
    connection = sqlite3.connect(path)
    try:
        rows = connection.execute(statement).fetchall()
        connection.commit()
        return rows
    finally:
        connection.close()
