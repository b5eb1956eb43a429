"""A database that is locked, full or away: waited for, or a clear stop with nothing torn."""

import sqlite3
from contextlib import closing
from dataclasses import replace
from datetime import UTC, datetime

import optuna
import pytest
from sqlalchemy.exc import IntegrityError, OperationalError
from test_storage_store import PHASE, STUDY, planned

from search.errors import StorageFault
from search.storage.optuna_side import optuna_storage, quiet_optuna
from search.storage.patience import Patience, is_passing
from search.storage.store import Store
from search.storage.urls import storage_url


class Watch:
    """Time that passes only by waiting."""

    def __init__(self):
        self.now, self.slept, self.told = 0.0, [], []

    def sleep(self, seconds):
        self.now += seconds
        self.slept.append(seconds)

    def patience(self, url, **options):
        return Patience(url, sleep=self.sleep, monotonic=lambda: self.now, tell=self.told.append, **options)


def gone(words="connection failed: Connection refused", state=None):
    class Cause(Exception):
        sqlstate = state

    return OperationalError("select 1", {}, Cause(words))


@pytest.fixture
def url(tmp_path):
    return storage_url(tmp_path / "trials.db")


def test_outage_is_told_once_and_waited_for(url):
    watch = Watch()
    answers = iter([gone(), gone(), gone("terminating connection", "57P01"), "row"])

    def work(attempt):
        answer = next(answers)
        if isinstance(answer, Exception):
            raise answer
        return attempt, answer

    assert watch.patience(url).run(work) == (3, "row")
    assert watch.slept == [0.1, 0.2, 0.4]
    (line,) = watch.told
    assert "does not answer (connection failed: Connection refused)" in line and "up to 90 s" in line


def test_outage_without_an_end_is_a_fault_after_the_limit(url):
    watch = Watch()

    def work(_):
        raise gone()

    with pytest.raises(StorageFault, match="check that the database server runs"):
        watch.patience(url, limit_s=90).run(work)
    assert 90 <= watch.now < 96 and max(watch.slept) == 5.0


@pytest.mark.parametrize(
    ("error", "passing"),
    [
        (gone("database is locked"), True),
        (gone("database or disk is full"), False),
        (gone("the database system is starting up", "57P03"), True),
        (gone("deadlock detected", "40P01"), True),
        (gone("sorry, too many clients already", "53300"), True),
        (gone("could not extend file: No space left on device", "53100"), False),
        (gone('connection failed: FATAL: password authentication failed for user "x"'), False),
        (gone('connection failed: FATAL: database "x" does not exist'), False),
        (gone("no such table: search_launches"), False),
    ],
)
def test_only_what_passes_by_itself_is_waited_for(error, passing):
    assert is_passing(error) is passing


def test_key_that_another_driver_took_is_tried_again_at_once(url):
    watch = Watch()

    def work(attempt):
        if attempt < 3:
            raise IntegrityError("insert", {}, Exception("UNIQUE constraint failed"))
        return attempt

    assert watch.patience(url).run(work) == 3 and watch.slept == []


class LostAnswer:
    """A store whose next commit works, but whose answer does not arrive."""

    def __init__(self, store, monkeypatch):
        run, store_run = store._patience.run, []

        def losing(work):
            def attempt(number):
                result = work(number)
                if number == 0 and not store_run:
                    store_run.append(result)
                    raise gone()
                return result

            return run(attempt)

        monkeypatch.setattr(store._patience, "run", losing)


@pytest.mark.parametrize("what", ["begin", "phase", "note"])
def test_commit_whose_answer_is_lost_is_not_made_twice(tmp_path, url, monkeypatch, what):
    at = datetime(2026, 1, 1, tzinfo=UTC)
    with Store(tmp_path / "trials.db", patience=Watch().patience(url)) as store:
        store.save_study(STUDY)
        calls = {
            "begin": lambda: store.begin_launch("kimi", planned),
            "phase": lambda: store.add_phase("kimi", 1, PHASE),
            "note": lambda: store.add_note("kimi", at, "changed"),
        }
        if what != "begin":
            calls["begin"]()
        LostAnswer(store, monkeypatch)
        calls[what]()
        (launch,) = store.launches("kimi")
        assert launch.number == 1 and launch.phases == ((PHASE,) if what == "phase" else ())
        assert store.study("kimi").notes == (("changed",) if what == "note" else ())


def test_locked_file_is_waited_for_by_both_libraries(tmp_path, url, monkeypatch):
    monkeypatch.setattr("search.storage.urls.BUSY_TIMEOUT_S", 0)
    monkeypatch.setattr("search.storage.opening.BUSY_TIMEOUT_S", 0)
    told = []
    with closing(sqlite3.connect(tmp_path / "trials.db", check_same_thread=False)) as other, quiet_optuna():

        def tell(line):
            told.append(line)
            other.rollback()

        patience = Patience(url, tell=tell)
        with Store(url.render_as_string(), patience=patience) as store:
            store.save_study(STUDY)
            storage = optuna_storage(url.render_as_string(), patience=patience)
            study = optuna.create_study(study_name="kimi", storage=storage)
            for write in (lambda: store.begin_launch("kimi", planned), lambda: study.set_user_attr("a", 1)):
                other.execute("begin immediate")
                write()
        assert len(store.launches("kimi")) == 1 and study.user_attrs == {"a": 1}
        storage.remove_session()
        storage.engine.dispose()
    assert len(told) == 2 and all("database is locked" in line for line in told)


def test_lock_without_an_end_names_the_way_out(tmp_path, url, monkeypatch):
    monkeypatch.setattr("search.storage.opening.BUSY_TIMEOUT_S", 0)
    watch = Watch()
    with Store(tmp_path / "trials.db", patience=watch.patience(url)) as store:
        store.save_study(STUDY)
        with closing(sqlite3.connect(tmp_path / "trials.db")) as other:
            other.execute("begin immediate")
            with pytest.raises(StorageFault, match="another process has held it for over 90 s"):
                store.begin_launch("kimi", planned)
        assert store.launches("kimi") == ()
        assert store.begin_launch("kimi", planned).number == 1


def test_full_disk_stops_at_once_with_nothing_torn(tmp_path, url):
    watch = Watch()
    big = replace(PHASE, prompt_tpot_ms=tuple(float(n) for n in range(100_000)))
    with Store(tmp_path / "trials.db", patience=watch.patience(url)) as store, quiet_optuna():
        storage = optuna_storage(tmp_path / "trials.db", patience=watch.patience(url))
        study = optuna.create_study(study_name="kimi", storage=storage)
        store.save_study(STUDY)
        store.begin_launch("kimi", planned)
        for engine in (store._engine, storage.engine):
            engine.dispose()
            _limit_pages(engine)
        with pytest.raises(StorageFault, match=r"disk is full.*make room"):
            store.add_phase("kimi", 1, big)
        with pytest.raises(StorageFault, match=r"disk is full.*make room"):
            study.set_user_attr("words", "x" * 2_000_000)
        (launch,) = store.launches("kimi")
        assert launch.phases == () and watch.slept == []
        assert study.user_attrs == {}
        storage.remove_session()
        storage.engine.dispose()


def _limit_pages(engine):
    """No page may be added to the file through this engine: a full disk."""
    from sqlalchemy import event

    event.listen(engine, "connect", lambda connection, _: connection.execute("pragma max_page_count = 1"))
