"""A running SGLang server as a `Session`: phases on it, and what its death really was."""

from __future__ import annotations

import asyncio
import dataclasses
import threading
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Protocol

from search.contracts import EffectiveSettings, LaunchPaths, Phase, PhaseResult, SelfClosing, StopReport
from search.dialects import Dialect
from search.errors import Interrupted, LoadFailed, UsageError
from search.load.event_loop import loop_factory
from search.load.target import Prompt, Target
from search.outcomes import Evidence, Note, Reason
from search.server import Os, Supervisor, classify

_ABORT_POLL_S = 0.2
DEATH_GRACE_S = 2.0
"""How long a broken stream may precede the exit of the process that broke it."""


class RunPhase(Protocol):
    """The signature of `search.load.run_phase`."""

    def __call__(
        self,
        target: Target,
        prompts: Sequence[Prompt],
        phase: Phase,
        repeat: int,
        *,
        requests_log: Path | None = None,
    ) -> Awaitable[PhaseResult]:
        """Measure one repeat of a phase."""
        ...


class SglangSession(SelfClosing):
    """See `Session`. Made by `SglangEngine.launch`."""

    def __init__(
        self,
        server: Supervisor,
        system: Os,
        *,
        dialect: Dialect,
        paths: LaunchPaths,
        effective: EffectiveSettings,
        boot_s: float,
        prompts: tuple[Prompt, ...],
        held_out: tuple[Prompt, ...],
        run_phase: RunPhase,
        aborted: threading.Event,
        dump: Callable[[], str],
    ) -> None:
        self._server = server
        self._os = system
        self._dialect = dialect
        self._paths = paths
        self._effective = effective
        self._boot_s = boot_s
        self._prompts = prompts
        self._held_out = held_out
        self._run_phase = run_phase
        self._aborted = aborted
        self._dump = dump

    @property
    def effective(self) -> EffectiveSettings:
        """See `Session`."""
        return self._effective

    @property
    def boot_s(self) -> float:
        """See `Session`."""
        return self._boot_s

    def measure(self, phase: Phase, repeat: int) -> PhaseResult:
        """See `Session`. Not for a thread in which an event loop runs.

        Raises:
            LoadFailed: If the server died, with the cause its log gives, not the broken stream
                that the client saw.
            Interrupted: `SglangEngine.abort` was called; the server is stopped.
            UsageError: The phase wants held-out prompts, but the engine has none.
        """
        prompts = self._held_out if phase.held_out else self._prompts
        if not prompts:
            kind = "held-out prompts" if phase.held_out else "prompts"
            raise UsageError(f"A phase at concurrency {phase.concurrency} needs {kind}, but the engine was given none.")
        label = f"c={phase.concurrency}"
        if self._aborted.is_set():
            raise Interrupted(f"The phase {label} was not begun, because the engine was interrupted before.")
        if (death := self._death(label)) is not None:
            raise LoadFailed(*self._cause(label, death.exit_code))
        self._server.measuring()
        try:
            with asyncio.Runner(loop_factory=loop_factory()) as runner:
                result = runner.run(self._abortable(phase, repeat, prompts, label))
        except LoadFailed as failure:
            raise self._explained(failure, label) from failure
        except UsageError:
            raise
        except BaseException:  # Ctrl-C, an abort, a bug of ours: no server may outlive it
            self.close()
            raise
        finally:
            self._server.measured()
        return self._with_notes(result)

    def close(self) -> StopReport:
        """See `Session`."""
        return self._server.stop()

    async def _abortable(self, phase: Phase, repeat: int, prompts: tuple[Prompt, ...], label: str) -> PhaseResult:
        target = Target(
            base_url=self._server.ports.base_url,
            meta_fields=self._dialect.meta_fields,
            num_steps=self._effective.config.num_steps,
            death=lambda: self._death(label),
        )
        work = asyncio.ensure_future(self._run_phase(target, prompts, phase, repeat, requests_log=self._paths.requests))
        try:
            while not work.done():
                if self._aborted.is_set():
                    raise Interrupted(f"The phase {label} was interrupted.")
                await asyncio.wait({work}, timeout=_ABORT_POLL_S)
            return work.result()
        finally:
            if not work.done():
                work.cancel()
                await asyncio.wait({work})

    def _death(self, label: str) -> Evidence | None:
        code = self._server.poll()
        if code is None:
            return None
        return Evidence(f"the server ended with exit code {code}", label, code, str(self._server.log_path))

    def _explained(self, failure: LoadFailed, label: str) -> LoadFailed:
        """The client's failure, or what the log says if the server died of it."""
        end = self._os.monotonic() + (DEATH_GRACE_S if failure.reason is Reason.SERVER_CRASH_LOAD else 0.0)
        while (death := self._death(label)) is None and self._os.monotonic() < end:
            self._os.sleep(0.05)
        if death is not None:
            return LoadFailed(*self._cause(label, death.exit_code))
        evidence = dataclasses.replace(failure.evidence, log_path=str(self._server.log_path))
        if failure.reason is Reason.SERVER_HANG_LOAD:
            evidence = dataclasses.replace(evidence, root_line=f"{evidence.root_line}; {self._dump()}")
        return LoadFailed(failure.reason, evidence)

    def _cause(self, label: str, code: int | None) -> tuple[Reason, Evidence]:
        log = self._server.log_path
        if self._server.guardian_lost:
            return Reason.WORKER_LOST, Evidence("the guardian died before its server", label, code, str(log))
        return classify(log, exit_code=code, phase=label, dialect=self._dialect)

    def _with_notes(self, result: PhaseResult) -> PhaseResult:
        limit = self._effective.max_running_requests
        if limit is None or limit * self._ranks >= result.concurrency or Note.ADMISSION_LIMITED in result.notes:
            return result
        return dataclasses.replace(result, notes=(*result.notes, Note.ADMISSION_LIMITED))

    @property
    def _ranks(self) -> int:
        """Data-parallel ranks, which share the requests; the limit is per rank."""
        told = dict(self._effective.details).get("dp_size", "1")
        return max(1, int(told)) if told.isdecimal() else 1
