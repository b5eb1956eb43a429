"""A small study, a scripted engine, a virtual clock and a database in a temporary folder."""

import shutil
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

import optuna
import pytest
from lab_study import STUDY

from search.cluster import InlineExecutor
from search.config import SpecConfig
from search.contracts import Slot, VirtualClock
from search.errors import SearchError
from search.space import Space
from search.spec.file import parse_study
from search.spec.fingerprint import fingerprint
from search.storage.optuna_side import optuna_storage
from search.storage.store import Store
from search.study.context import Overrides, StudyContext, Watch
from search.study.runner import run_study
from search.study.sharing import Sharing
from search.study.signals import Interrupts

CONFIGS = ("off", "v1-k1-s1-d2", "v1-k1-s2-d3", "v1-k2-s2-d7", "v2-k1-s1-d2", "v2-k1-s2-d3", "v2-k1-s3-d4")


@dataclass
class Heard:
    """A listener that remembers."""

    starts: list = field(default_factory=list)
    launching_: list = field(default_factory=list)
    launches: list = field(default_factory=list)
    endings: list = field(default_factory=list)
    notices: list = field(default_factory=list)
    judgement: object = None

    def started(self, start):
        self.starts.append(start)

    def launching(self, launch):
        self.launching_.append(launch)

    def launched(self, launch, judgements):
        self.launches.append(launch)
        self.judgement = judgements.whole

    def ended(self, ending, judgement):
        self.endings.append(ending)
        self.judgement = judgement


@dataclass
class Lab:
    """Runs the small study again and again on one database."""

    folder: Path
    text: str = STUDY
    configs: tuple = CONFIGS
    interrupts: Interrupts = field(default_factory=Interrupts)

    def run(
        self,
        engine,
        *,
        text=None,
        configs=None,
        facts=None,
        slots=1,
        clock=None,
        pressed=False,
        groups=(),
        recorded=None,
        **options,
    ):
        """One run; returns what was heard, with the error in it if one ended the run."""
        spec = parse_study(text or self.text, name="lab.yaml")
        clock = clock or VirtualClock(datetime(2026, 1, 1, tzinfo=UTC))
        heard = Heard()
        heard.error = None
        self.interrupts = Interrupts()
        if pressed:
            self.interrupts.press()
        with Store(self.folder / "trials.db") as store:
            storage = optuna_storage(self.folder / "trials.db")
            try:
                heard.ending = run_study(
                    StudyContext(
                        spec=spec,
                        name="lab",
                        kind="measured",
                        space=Space.recorded(map(SpecConfig.from_id, configs or self.configs)),
                        fingerprint=fingerprint(spec, kind="measured", facts=facts),
                        clock=clock,
                        reports=self.folder / "reports",
                        resume_command="python -m search.run --study lab",
                        recorded=recorded,
                        sharing=Sharing(tuple(tuple(map(SpecConfig.from_id, group)) for group in groups)),
                    ),
                    executor=InlineExecutor(engine, tuple(map(Slot, range(slots)))),
                    store=store,
                    storage=storage,
                    watch=Watch(heard, heard.notices.append),
                    overrides=Overrides(**options),
                    interrupts=self.interrupts,
                )
            except SearchError as error:
                heard.error = error
            finally:
                storage.remove_session()
                storage.engine.dispose()
        heard.hours = clock.monotonic() / 3600
        return heard

    def trials(self):
        storage = optuna_storage(self.folder / "trials.db")
        study = optuna.load_study(study_name="lab", storage=storage)
        trials = study.get_trials()
        storage.remove_session()
        storage.engine.dispose()
        return trials

    def trial(self, config_id):
        (found,) = [trial for trial in self.trials() if trial.user_attrs.get("config_id") == config_id]
        return found

    def launches(self):
        with Store(self.folder / "trials.db") as store:
            return store.launches("lab")


@pytest.fixture(scope="session")
def empty_database(tmp_path_factory):
    """Both libraries' tables, made once: Optuna takes a while over them."""
    path = tmp_path_factory.mktemp("empty") / "trials.db"
    Store(path).close()
    storage = optuna_storage(path)
    storage.remove_session()
    storage.engine.dispose()
    return path


@pytest.fixture
def lab(tmp_path, empty_database):
    shutil.copy(empty_database, tmp_path / "trials.db")
    return Lab(tmp_path)


@pytest.fixture
def study_text():
    return STUDY
