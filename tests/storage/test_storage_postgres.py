"""PostgreSQL: a server that goes away for a while, and several drivers on one study."""

import os
import signal
import subprocess
import sys
import threading
import time
from collections import Counter

import optuna
import pytest
from postgres_server import PostgresServer, binaries
from sqlalchemy import create_engine, inspect
from test_storage_store import PHASE, STUDY, planned

from search.errors import StorageFault
from search.masking import Masker
from search.outcomes import Outcome
from search.storage.optuna_side import optuna_session, optuna_storage, quiet_optuna
from search.storage.patience import Patience
from search.storage.scrubbing import scrub_database
from search.storage.store import Store
from search.storage.urls import storage_url

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(binaries() is None, reason="PostgreSQL's server is not installed (apt-get install postgresql)"),
]
LAUNCHES = 24
ENDLESS = ("--hours", "1000")
"""The packaged study's own hours end before its launches do."""


@pytest.fixture(scope="module")
def server():
    server = PostgresServer()
    server.start()
    yield server
    server.close()


def test_server_that_restarts_under_a_run_loses_nothing(server):
    with Store(server.url) as store, quiet_optuna(), optuna_session(server.url) as storage:
        study = optuna.create_study(study_name="kimi", storage=storage)
        store.save_study(STUDY)
        store.begin_launch("kimi", planned)
        server.stop()
        back = threading.Timer(0.5, server.start)
        back.start()
        try:
            store.add_phase("kimi", 1, PHASE)
            study.set_user_attr("seen", 1)
        finally:
            back.join()
        assert store.launches("kimi")[0].phases == (PHASE,)
        assert study.user_attrs == {"seen": 1}
        server.stop()
        back = threading.Timer(0.5, server.start)
        back.start()
        try:
            study.ask()
        finally:
            back.join()
        assert len(study.trials) == 1


def driver(server, folder, seed):
    """A whole `search run` in a process of its own."""
    words = ["--study", "kimi-k25", "--simulate", "--storage", server.url, "--launches", str(LAUNCHES), *ENDLESS, "-q"]
    return subprocess.Popen(
        [sys.executable, "-m", "search.run", *words, "--sampler", "random", "--reports", str(folder / f"r{seed}")],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )


def test_two_drivers_one_killed_half_way_account_for_every_launch_once(server, tmp_path):
    name = "kimi-k25.simulated"
    first, second = driver(server, tmp_path, 1), driver(server, tmp_path, 2)
    try:
        with Store(server.url) as store:
            end = time.monotonic() + 60
            while len(store.launches(name)) < LAUNCHES // 3:
                assert time.monotonic() < end and second.poll() is None, second.communicate()[0]
                time.sleep(0.02)
            os.killpg(second.pid, signal.SIGKILL)
            said = first.communicate(timeout=90)[0]
            assert first.returncode == 0, said
            again = driver(server, tmp_path, 3)
            said = again.communicate(timeout=90)[0]
            assert again.returncode == 0, said
            launches = store.launches(name)
            owners = store.owners(name)
    finally:
        for process in (first, second):
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
            process.communicate()
    numbers = [launch.number for launch in launches]
    assert numbers == list(range(1, len(launches) + 1)) and owners == {}
    assert 16 <= len(launches) <= LAUNCHES + 1  # what the confirmations set apart and do not need is not launched
    assert all(launch.outcome is not None for launch in launches)
    ended = [launch for launch in launches if launch.outcome is not Outcome.INTERRUPTED]
    searched = Counter(launch.asked for launch in ended if launch.trial is not None)
    assert set(searched.values()) == {1}
    again = [launch for launch in ended if launch.trial is None]
    assert {launch.stage for launch in again} <= {"confirm", "ladder"}
    assert {launch.asked for launch in again} <= set(searched)
    assert (
        max(Counter((launch.stage, launch.asked) for launch in again).values(), default=1) <= 3
    )  # two drivers confirm together what one would: twice, and a third time what leads and is not shown
    with quiet_optuna(), optuna_session(server.url) as storage:
        trials = optuna.load_study(study_name=name, storage=storage).trials
    assert all(trial.state.is_finished() for trial in trials)
    complete = {trial.number for trial in trials if trial.state.name in ("COMPLETE", "PRUNED")}
    assert complete == {launch.trial for launch in ended if launch.trial is not None}


def test_store_to_read_makes_nothing_and_writes_nothing(server):
    url = database(server, "looked_at")
    with pytest.raises(StorageFault, match="holds no study of this program"):
        Store(url, read_only=True)
    with Store(url) as store:
        store.save_study(STUDY)
        store.begin_launch("kimi", planned)
    with Store(url, read_only=True) as store:
        assert len(store.launches("kimi")) == 1
        with pytest.raises(StorageFault, match="read-only"):
            store.begin_launch("kimi", planned)


def test_secrets_of_both_librarys_tables_are_masked_in_place(server):
    url = database(server, "masked")
    storage = optuna_storage(url)
    optuna.create_study(study_name="kimi", storage=storage).set_user_attr("words", ["Bearer abcdefgh1234"])
    storage.remove_session()
    with Store(url) as store:
        store.save_study(STUDY)
        store.add_note("kimi", STUDY.created_at, "token=abcdefgh1234")

    def mask(_table, _name, value):
        return Masker().tree(value)

    places = [(found.place, found.rows) for found in scrub_database(url, mask, write=False)]
    assert ("search_notes.text", 1) in places and ("study_user_attributes.value_json", 1) in places
    assert [(found.place, found.rows) for found in scrub_database(url, mask, write=True)] == places
    assert scrub_database(url, mask, write=True) == ()
    assert optuna.load_study(study_name="kimi", storage=storage).user_attrs == {"words": ["Bearer ***"]}
    with Store(url, read_only=True) as store:
        assert store.study("kimi").notes == ("token=***",)
    storage.remove_session()
    storage.engine.dispose()


def test_database_of_another_program_is_refused(server):
    url = database(server, "shop")
    engine = create_engine(storage_url(url))
    with engine.begin() as connection:
        connection.exec_driver_sql("create table customers (id integer)")
    for opened in (Store, optuna_storage):
        with pytest.raises(StorageFault, match=r"tables of another one .customers"):
            opened(url)
    assert inspect(engine).get_table_names() == ["customers"]
    engine.dispose()


def test_lock_that_another_session_keeps_ends_with_a_way_out(server, monkeypatch):
    monkeypatch.setattr("search.storage.urls.LOCK_TIMEOUT_S", 1)
    url = database(server, "held")
    with Store(url, patience=Patience(storage_url(url), limit_s=0)) as store:
        store.save_study(STUDY)
        engine = create_engine(storage_url(url))
        with engine.begin() as connection:
            connection.exec_driver_sql("update search_studies set changes = 0")
            with pytest.raises(StorageFault, match=r"lock timeout.*pg_terminate_backend"):
                store.begin_launch("kimi", planned)
        engine.dispose()
        assert store.begin_launch("kimi", planned).number == 1


def database(server, name):
    """A database of its own on the tests' server."""
    engine = create_engine(storage_url(server.url), isolation_level="AUTOCOMMIT")
    with engine.connect() as connection:
        connection.exec_driver_sql(f"create database {name}")
    engine.dispose()
    return server.url.rpartition("/")[0] + f"/{name}"
