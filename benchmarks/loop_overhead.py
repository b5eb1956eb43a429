"""What the loop costs per trial, and how that grows: 1,000 simulated trials on each database.

The whole loop runs as in `search run --simulate`: Optuna's sampler, both libraries' tables, the
judgement, tables and page of the report. A simulated launch computes for well under a millisecond,
so the wall time between two launches is the loop's own.

    python benchmarks/loop_overhead.py [--trials N] [--sampler NAME] [--postgres URL] [--json PATH]
"""

from __future__ import annotations

import argparse
import json
import logging
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from itertools import pairwise
from pathlib import Path
from statistics import fmean
from tempfile import TemporaryDirectory

from search.analysis.findings import Judgement
from search.app.assemble import assemble
from search.app.options import RunOptions
from search.app.report_content import ContentBuilder
from search.app.run import Fanout, Paced
from search.contracts import RealClock
from search.report.content import ReportContent
from search.report.listener import ReportListener, RunLog
from search.storage.optuna_side import optuna_session
from search.storage.records import LaunchRecord
from search.storage.store import Store
from search.study.context import Overrides, StudyContext, Watch
from search.study.events import Ending, Judgements, Launching, RunStart
from search.study.runner import run_study

TARGET_S = 0.2
"""Processor time of one trial at the end of the run, at most."""

SPACE = {
    "topk: [1, 2, 4]": "topk: [1, 2, 3, 4, 5, 6, 7, 8]",
    "num_steps: [1, 2, 3, 4, 5]": "num_steps: [1, 2, 3, 4, 5, 6, 7, 8, 9, 10]",
    "sampler: frontier": "sampler: {sampler}",
}
"""The packaged study with a space that 1,000 trials do not exhaust."""


@dataclass(frozen=True)
class Cost:
    """Seconds per trial on one database: means of the first, the middle and the last tenth.

    `last_cpu_s` is this process's own processor time in the last tenth: what a machine that is busy
    with other things does not stretch, a database server's share not included.
    """

    database: str
    sampler: str
    trials: int
    total_s: float
    first_s: float
    middle_s: float
    last_s: float
    last_cpu_s: float
    worst_s: float


class Stopwatch:
    """Notes when each launch has been dealt with by everybody else."""

    def __init__(self) -> None:
        self.at: list[float] = []
        self.cpu: list[float] = []

    def started(self, start: RunStart) -> None:  # noqa: ARG002
        """The first trial begins."""
        self._note()

    def launching(self, launch: Launching) -> None:
        """Nothing to note."""

    def launched(self, launch: LaunchRecord, judgements: Judgements) -> None:  # noqa: ARG002
        """The last listener is told last."""
        self._note()

    def ended(self, ending: Ending, judgement: Judgement) -> None:
        """Nothing to note."""

    def _note(self) -> None:
        self.at.append(time.perf_counter())
        self.cpu.append(time.process_time())


def costs(database: str, at: Sequence[float], cpu: Sequence[float], sampler: str) -> Cost:
    spent = [later - earlier for earlier, later in pairwise(at)]
    tenth = max(1, len(spent) // 10)
    middle = len(spent) // 2
    return Cost(
        database=database,
        sampler=sampler,
        trials=len(spent),
        total_s=at[-1] - at[0],
        first_s=fmean(spent[:tenth]),
        middle_s=fmean(spent[middle : middle + tenth]),
        last_s=fmean(spent[-tenth:]),
        last_cpu_s=(cpu[-1] - cpu[-1 - tenth]) / tenth,
        worst_s=max(spent),
    )


def run(folder: Path, storage: str, trials: int, sampler: str) -> Cost:
    """One study in `folder`."""
    text = (Path(__file__).parent.parent / "spaces" / "kimi-k25.yaml").read_text()
    for before, after in SPACE.items():
        assert before in text, f"The packaged study changed: {before!r} is not in it."
        text = text.replace(before, after.format(sampler=sampler))
    study = folder / "kimi-k25.yaml"
    study.write_text(text)
    options = RunOptions(here=folder, study=str(study), simulate=True, storage=storage, reports=folder / "reports")
    parts = assemble(options)
    watch = Stopwatch()
    with parts.open_executor() as executor, Store(storage) as store, optuna_session(storage) as tables:
        builders: list[ContentBuilder] = []

        def content(judgement: Judgement) -> ReportContent:
            if not builders:
                record = store.study(parts.name)
                assert record is not None, "the loop stores the study before its first event"
                builders.append(ContentBuilder(parts.spec, record))
            return builders[0].content(store.launches(parts.name), judgement)

        page = Paced(ReportListener(parts.folder, content, RealClock()), RealClock())
        run_study(
            StudyContext(
                spec=parts.spec,
                name=parts.name,
                kind=parts.kind,
                space=parts.space,
                fingerprint=parts.fingerprint,
                clock=parts.clock,
                reports=parts.folder,
                resume_command="",
            ),
            executor=executor,
            store=store,
            storage=tables,
            watch=Watch(Fanout(RunLog(parts.folder / "run.log", parts.clock), page, watch)),
            overrides=Overrides(launches=trials, hours=1e9),
        )
    return costs("SQLite" if "://" not in storage else "PostgreSQL", watch.at, watch.cpu, sampler)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--trials", type=int, default=1000)
    parser.add_argument("--sampler", default="tpe")
    parser.add_argument("--postgres", metavar="URL", help="an empty database; without it only SQLite is measured")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    logging.disable(logging.WARNING)
    done = []
    for storage in filter(None, ("trials.db", options.postgres)):
        with TemporaryDirectory() as name:
            where = storage if "://" in storage else f"{name}/{storage}"
            done.append(run(Path(name), where, options.trials, options.sampler))
    print(
        f"{'database':<12}{'sampler':<9}{'trials':>7}{'total':>9}{'first':>9}{'middle':>9}{'last':>9}{'its CPU':>9}{'worst':>9}"
    )
    for cost in done:
        print(
            f"{cost.database:<12}{cost.sampler:<9}{cost.trials:>7}{cost.total_s:>8.1f}s{cost.first_s:>8.3f}s"
            f"{cost.middle_s:>8.3f}s{cost.last_s:>8.3f}s{cost.last_cpu_s:>8.3f}s{cost.worst_s:>8.3f}s"
        )
    if options.json:
        options.json.write_text(json.dumps([asdict(cost) for cost in done], indent=2) + "\n")
    if any(cost.last_cpu_s > TARGET_S for cost in done):
        raise SystemExit(f"A trial costs more than {TARGET_S:g} s of processor time at the end.")


if __name__ == "__main__":
    main()
