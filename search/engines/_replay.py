"""A recorded table behind the engine contract."""

from __future__ import annotations

from collections import Counter

from search.config import SpecConfig
from search.contracts import EffectiveSettings, LaunchPaths, Phase, PhaseResult, Slot
from search.engines._played import PlayedSession
from search.engines.recording import Recording, result_of
from search.errors import LaunchFailed, LoadFailed, NotRecorded
from search.outcomes import Evidence


class ReplayEngine:
    """Answers from a recording and never invents a config or a phase.

    Each launch of a config draws the next of its recorded starts, round and round, with all repeats of that start in
    file order: starts differ by more than repeats do, and a mixture of them would hide it. Where a start holds fewer
    repeats than are asked, they cycle; a config with one recorded start goes on where its launch before stopped.
    What a start lacks altogether, such as a load that only another one measured, comes from the others. It moves no
    clock; what things took stands in the values, 0 where it is not recorded.
    """

    def __init__(self, recording: Recording) -> None:
        self._recording = recording
        self._space = frozenset(recording.space())
        self._failures = recording.failures()
        self._phase_failures = recording.phase_failures()
        self._repeats = recording.repeats()
        self._starts = recording.starts()
        self._launched: Counter[SpecConfig] = Counter()
        self._drawn: Counter[tuple[SpecConfig, int, int | None]] = Counter()
        self._boots = {
            (row.config, row.launch): row.boot_s for row in reversed(recording.rows) if row.boot_s is not None
        }
        # What was measured after a switch is replayed as a start of its own, which takes what that start took.
        shared = {row.start: row.boot_s for row in recording.rows if row.start == row.launch and row.boot_s is not None}
        for row in recording.rows:
            if row.start in shared:
                self._boots.setdefault((row.config, row.launch), shared[row.start])

    def launch(
        self,
        config: SpecConfig,
        *,
        slot: Slot,  # noqa: ARG002
        paths: LaunchPaths,
        holds: tuple[SpecConfig, ...] = (),  # noqa: ARG002
    ) -> ReplaySession:
        """See `Engine`; writes no file.

        Raises:
            NotRecorded: The table has no row of this config.
            LaunchFailed: Every recorded launch of it failed; with the first recorded reason.
        """
        name = self._recording.name
        if config not in self._space:
            raise NotRecorded(f"A replay knows what was recorded, but {config} is not in `{name}`.")
        failure = self._failures.get(config)
        if failure is not None:
            evidence = Evidence(f"Recorded in `{name}`: {config} ended with {failure.reason}.", phase="launch")
            raise LaunchFailed(failure.reason, evidence, failure.boot_s or 0.0)
        starts = self._starts.get(config, ())
        # A run that resumes is a new process: the folders of the study's launches show how many came before.
        before = max(self._launched[config], _launched_before(paths))
        self._launched[config] = before + 1
        start = starts[before % len(starts)] if starts else None
        return ReplaySession(self, config, start=start, boot_s=self._boots.get((config, start or 0), 0.0))

    @property
    def release(self) -> str:
        """The recorded SGLang release; empty where not recorded."""
        versions = self._recording.meta.get("versions")
        return str(versions.get("sglang", "")) if isinstance(versions, dict) else ""

    def draw(self, config: SpecConfig, phase: Phase, repeat: int, *, start: int | None) -> PhaseResult:
        """The next recorded repeat of a phase, of a recorded start where that has any.

        Args:
            config: The one that runs.
            phase: Its concurrency is looked up; the table's own requests stand in the result.
            repeat: Its number.
            start: The recorded launch that is replayed; None for any.

        Raises:
            NotRecorded: The table has no such phase.
            LoadFailed: It was recorded as broken.
        """
        key = (config, phase.concurrency)
        rows = self._repeats.get(key)
        if rows is None:
            failure = self._phase_failures.get(key)
            name = self._recording.name
            if failure is None:
                raise NotRecorded(
                    f"A replay knows what was recorded, but {config} has no phase at concurrency {phase.concurrency} "
                    f"in `{name}`."
                )
            line = f"Recorded in `{name}`: {config} at concurrency {phase.concurrency} ended with {failure.reason}."
            raise LoadFailed(failure.reason, Evidence(line, phase=f"c={phase.concurrency}"))
        mine = [row for row in rows if row.launch == start]
        drawn = (*key, start if mine else None)
        chosen = mine or rows
        row = chosen[self._drawn[drawn] % len(chosen)]
        self._drawn[drawn] += 1
        return result_of(row, repeat=repeat, requests=phase.requests, computed=self._recording.computed)


class ReplaySession(PlayedSession):
    """One replayed launch."""

    def __init__(self, engine: ReplayEngine, config: SpecConfig, *, start: int | None, boot_s: float) -> None:
        super().__init__(effective=EffectiveSettings(config, release=engine.release), boot_s=boot_s, stop_s=0.0)
        self._engine, self._start = engine, start

    def measure(self, phase: Phase, repeat: int) -> PhaseResult:
        """See `Session`; warm-up is not recorded and takes no time."""
        self._require_open(phase.concurrency)
        return self._engine.draw(self.effective.config, phase, repeat, start=self._start)


def _launched_before(paths: LaunchPaths) -> int:
    """How many earlier launches of the same config have a folder beside this one: `0007-off` has one such as `0001-off`."""
    number, _, name = paths.root.name.partition("-")
    folders = paths.root.parent.glob("*-*") if number.isdigit() and name else ()
    return sum(folder.name.partition("-")[2] == name and folder.name.partition("-")[0] < number for folder in folders)
