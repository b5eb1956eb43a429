"""Databases that are another program's, read-only, deleted under a run, or made by two at once."""

import os
import shutil
import sqlite3
import subprocess
import sys
import tempfile
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import optuna
import pytest
from test_storage_store import STUDY, planned

from search.errors import StorageFault, UsageError
from search.outcomes import Evidence, Outcome, Reason
from search.storage.file import file_lock
from search.storage.optuna_side import optuna_storage, quiet_optuna
from search.storage.store import LaunchesSpent, Store
from search.storage.urls import engine_options, storage_url


@pytest.fixture
def path(tmp_path):
    return tmp_path / "trials.db"


def made(path):
    with Store(path) as store:
        store.save_study(STUDY)
        store.begin_launch("kimi", planned)
    return path


def tables(path):
    with closing(sqlite3.connect(path)) as database:
        return {row[0] for row in database.execute("select name from sqlite_master where type = 'table'")}


@pytest.mark.parametrize("opened", [Store, optuna_storage])
def test_database_of_another_program_is_refused_before_a_table_is_made(path, opened):
    with closing(sqlite3.connect(path)) as database:
        database.execute("create table customers (id integer)")
        database.commit()
    with pytest.raises(StorageFault, match=r"tables of another one .customers.*Nothing was written"):
        opened(path)
    assert tables(path) == {"customers"}


def test_database_of_optuna_alone_is_shared(path):
    with quiet_optuna():
        storage = optuna.storages.RDBStorage(f"sqlite:///{path}")
        optuna.create_study(study_name="mine", storage=storage)
        storage.remove_session()
        storage.engine.dispose()
    made(path)
    storage = optuna_storage(path)
    assert [study.study_name for study in storage.get_all_studies()] == ["mine"]
    storage.remove_session()
    storage.engine.dispose()


@pytest.mark.parametrize("how", ["deleted", "replaced"])
def test_database_that_goes_while_it_is_in_use_stops_the_next_write_of_both_libraries(path, how):
    made(path)
    with Store(path) as store, quiet_optuna():
        storage = optuna_storage(path)
        study = optuna.create_study(study_name="kimi", storage=storage)
        if how == "replaced":
            shutil.copy(path, path.with_name("copy"))
            path.with_name("copy").replace(path)
        else:
            path.unlink()
        for write in (lambda: store.begin_launch("kimi", planned), lambda: study.set_user_attr("a", 1)):
            with pytest.raises(StorageFault, match=f"was {how}.*What to do") as raised:
                write()
            assert raised.value.exit_code == 4
        storage.remove_session()
        storage.engine.dispose()
    assert path.exists() is (how == "replaced")


def test_read_only_store_reads_and_leaves_the_file_as_it_is(path):
    made(path)
    before = path.read_bytes()
    with Store(path, read_only=True) as store:
        assert len(store.launches("kimi")) == 1 and store.study("kimi") is not None
        with pytest.raises(StorageFault, match=r"readonly.*writable"):
            store.save_study(replace(STUDY, name="other"))
    assert path.read_bytes() == before


def test_read_only_store_of_a_file_that_is_not_there_makes_none(path):
    with pytest.raises(UsageError, match="no database"):
        Store(path, read_only=True)
    assert not path.exists()


def test_read_only_store_of_a_database_without_our_tables_says_so_and_makes_none(path):
    with closing(sqlite3.connect(path)) as database:
        database.execute("create table customers (id integer)")
        database.commit()
    with pytest.raises(StorageFault, match="holds no study of this program"):
        Store(path, read_only=True)
    assert tables(path) == {"customers"}


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become somebody who may not write here")
def test_database_in_a_folder_that_cannot_be_written_is_read():
    # Not pytest's own folder, which no other user may enter.
    folder = Path(tempfile.mkdtemp(prefix="search-shut-"))
    made(folder / "trials.db")
    folder.chmod(0o555)
    os.seteuid(65534)
    try:
        with Store(folder / "trials.db", read_only=True) as store:
            assert len(store.launches("kimi")) == 1
        with pytest.raises(StorageFault, match="writable"):
            Store(folder / "trials.db")
    finally:
        os.seteuid(0)
    assert [path.name for path in folder.iterdir()] == ["trials.db"]
    shutil.rmtree(folder)


OPEN = """
import sys
from search.storage.store import Store
from search.storage.optuna_side import optuna_storage
sys.stdin.readline()
Store(sys.argv[1]).close()
storage = optuna_storage(sys.argv[1])
storage.remove_session()
"""


def test_two_first_runs_on_one_fresh_file_both_open_it(path):
    runs = [
        subprocess.Popen(
            [sys.executable, "-c", OPEN, str(path)], stdin=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        for _ in range(3)
    ]
    for run in runs:
        run.stdin.write("\n")
        run.stdin.flush()
    said = [run.communicate(timeout=120)[1] for run in runs]
    assert [run.returncode for run in runs] == [0, 0, 0], said
    assert {entry.name for entry in path.parent.iterdir()} == {"trials.db"}
    assert {"search_meta", "search_launches", "trials"} <= tables(path)


def test_lock_that_another_holds_is_waited_for_and_ends_with_a_way_out(tmp_path):
    lock, now = tmp_path / "lock", [0.0]

    def sleep(seconds):
        now[0] += seconds

    with (
        file_lock(lock),
        pytest.raises(StorageFault, match=r"over 5 s.*End that process"),
        file_lock(lock, wait_s=5.0, sleep=sleep, monotonic=lambda: now[0]),
    ):
        pass
    with file_lock(lock):
        pass
    assert not lock.exists()


def test_launch_that_started_no_server_costs_no_budget(path):
    made(path)
    with Store(path) as store:
        (first,) = store.launches("kimi")
        lost = replace(first, outcome=Outcome.LOST, reason=Reason.TOOL_ERROR, evidence=Evidence("no space left"))
        assert not lost.started_server
        store.finish_launch("kimi", lost)
        assert store.begin_launch("kimi", planned, at_most=1).number == 2
        with pytest.raises(LaunchesSpent):
            store.begin_launch("kimi", planned, at_most=1)


@pytest.mark.parametrize(
    "evidence", [Evidence("x", log_path="launches/0001-off/server.log"), Evidence("x", exit_code=1)]
)
def test_launch_with_a_log_or_an_exit_code_started_a_server(evidence):
    lost = replace(planned(1), outcome=Outcome.LOST, reason=Reason.PORT_BUSY, evidence=evidence)
    assert lost.started_server
    assert replace(planned(1), outcome=Outcome.FAILED, reason=Reason.OOM_GRAPH, evidence=Evidence("x")).started_server
    assert planned(1).started_server


def test_waits_for_postgresql_have_limits_that_its_url_may_change():
    pytest.importorskip("psycopg")
    given = engine_options(storage_url("postgresql://u@h/d?connect_timeout=3&options=-c%20lock_timeout%3D5000"))
    arguments = given["connect_args"]
    assert "connect_timeout" not in arguments
    assert arguments["options"].endswith("-c lock_timeout=30000 -c lock_timeout=5000")
    assert "-c statement_timeout=60000" in arguments["options"]
    assert engine_options(storage_url("postgresql://u@h/d"))["connect_args"]["connect_timeout"] == 10
