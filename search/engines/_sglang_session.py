"""A running SGLang server as a `Session`: phases on it, and what its death really was."""

from __future__ import annotations

import asyncio
import dataclasses
import logging
import threading
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Protocol

from search.config import SpecConfig
from search.contracts import (
    NOT_VERIFIED,
    EffectiveSettings,
    LaunchPaths,
    Phase,
    PhaseResult,
    SelfClosing,
    StopReport,
)
from search.dialects import Dialect
from search.engines._decode_log import DecodeLog, log_size, read_decode_log
from search.engines._shape_switch import Switching
from search.errors import Interrupted, LoadFailed, UsageError
from search.load.event_loop import loop_factory
from search.load.guards import check_room, times_used
from search.load.notes import throttled
from search.load.sampling import GREEDY, Sampling
from search.load.target import Limits, Prompt, Target
from search.load.workload import OWN, Workload
from search.masking import Masker
from search.outcomes import Evidence, Note, Reason
from search.server.classify import classify
from search.server.gpu_watch import GpuWatch
from search.server.scrub import scrub
from search.server.supervisor import Supervisor
from search.server.system import Os
from search.shape import Shape, Switched, SwitchFailed, SwitchRefused
from search.stats.losslessness import write_answers

_log = logging.getLogger(__name__)

_ABORT_POLL_S = 0.2
_OUT_OF_MEMORY = frozenset({Reason.OOM_WEIGHTS, Reason.OOM_KV, Reason.OOM_GRAPH, Reason.OOM_RUNTIME})
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


def excused(server: Supervisor, reason: Reason, evidence: Evidence) -> tuple[Reason, Evidence]:
    """The cause, or HOST_BUSY where a server ran out of the memory that somebody else took since it was started."""
    if reason not in _OUT_OF_MEMORY or not (newcomers := server.newcomers()):
        return reason, evidence
    line = f"others came to the GPUs of this launch: {newcomers}; the server then said: {evidence.root_line}"
    return Reason.HOST_BUSY, dataclasses.replace(evidence, root_line=line)


class SglangSession(SelfClosing):
    """See `Session`. Made by `SglangEngine.launch`.

    Beside the client's numbers it reports what only the host sees: the GPUs' clocks and heat, and
    what the server logged meanwhile.
    """

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
        masker: Masker | None = None,
        limits: Limits | None = None,
        watch_gpus: Callable[[], GpuWatch] = lambda: GpuWatch(()),
        synthetic: bool = False,
        switching: Switching | None = None,
        sampling: Sampling = GREEDY,
        workloads: Mapping[str, Workload] | None = None,
    ) -> None:
        self._server = server
        self._os = system
        self._dialect = dialect
        self._paths = paths
        self._effective = effective
        self._boot_s = boot_s
        self._workloads = {OWN: Workload(prompts, held_out, sampling), **(workloads or {})}
        self._run_phase = run_phase
        self._aborted = aborted
        self._dump = dump
        self._masker = masker or Masker()
        self._limits = limits
        self._watch_gpus = watch_gpus
        self._synthetic = synthetic
        self._switching = switching
        self._scrubbed = False

    @property
    def effective(self) -> EffectiveSettings:
        """See `Session`."""
        return self._effective

    @property
    def holds(self) -> tuple[SpecConfig, ...]:
        """See `Session`."""
        return self._switching.holds if self._switching else ()

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
            UsageError: The phase wants held-out prompts, but the engine has none; or a prompt is
                longer than this server can hold.
        """
        prompts = self._workload(phase).chosen(held_out=phase.held_out)
        if not prompts:
            kind = "held-out prompts" if phase.held_out else "prompts"
            raise UsageError(f"A phase at concurrency {phase.concurrency} needs {kind}, but the engine was given none.")
        label = f"c={phase.concurrency}"
        check_room(prompts, phase, self._room_tokens)
        if (times := times_used(prompts, phase)) > 1:
            _log.info(
                "%s: %d prompts for %d requests, each used up to %d times", label, len(prompts), phase.requests, times
            )
        if self._aborted.is_set():
            raise Interrupted(f"The phase {label} was not begun, because the engine was interrupted before.")
        if (death := self._death(label)) is not None:
            raise LoadFailed(*self._cause(label, death.exit_code))
        log_start = log_size(self._server.log_path)
        self._server.measuring()
        try:
            with self._watch_gpus() as gpus, asyncio.Runner(loop_factory=loop_factory()) as runner:
                result = runner.run(self._abortable(phase, repeat, prompts, label))
        except LoadFailed as failure:
            explained = self._explained(failure, label)
            if self._server.guardian_lost:
                self.close()  # nobody guards what its server left, and nobody else may come to close it
            raise explained from failure
        except UsageError:
            raise
        except BaseException:  # Ctrl-C, an abort, a bug of ours: no server may outlive it
            self.close()
            raise
        finally:
            self._server.measured()
        log = read_decode_log(self._server.log_path, log_start)
        result = dataclasses.replace(result, gpu=gpus.state)
        result = dataclasses.replace(result, notes=tuple(dict.fromkeys((*result.notes, *self._notes(result, log)))))
        if result.outputs and not phase.workload:  # those of the study's own prompts are compared
            write_answers(self._paths.outputs(phase.concurrency), result)
        return result

    def switch(self, config: SpecConfig, *, paths: LaunchPaths) -> Switched:
        """See `Session`. The log stays where the start has it; what the server says now and the config's own command go
        to `paths`.

        Raises:
            SwitchRefused: Nothing has changed.
            SwitchFailed: With cause and evidence. The server still runs if `usable` says so, and has to be closed if not.
            Interrupted: `SglangEngine.abort` was called; the server is stopped.
        """
        switching = self._switching
        if switching is None or config not in (switching.launched, *switching.holds):
            held = ", ".join(map(str, self.holds)) or "no other config"
            raise SwitchRefused(f"this start was made to hold {held}, but not {config}, which needs one of its own.")
        label = f"switch to {Shape.of(config)}"
        if self._aborted.is_set():
            raise Interrupted(f"The {label} was not begun, because the engine was interrupted before.")
        began = self._os.monotonic()
        self._server.measuring()
        try:
            switched, effective = switching.run(config, paths)
        except SwitchRefused:
            raise
        except SwitchFailed as failure:
            explained = self._failed_switch(failure, label)
            if self._server.guardian_lost:
                self.close()
            raise explained from failure
        except BaseException:  # as in `measure`
            self.close()
            raise
        finally:
            self._server.measured()
        self._paths, self._effective = paths, effective
        return dataclasses.replace(switched, seconds=self._os.monotonic() - began)

    def _failed_switch(self, failure: SwitchFailed, label: str) -> SwitchFailed:
        """The client's failure with what the log says if the server died of it, or where it hangs."""
        log = str(self._server.log_path)
        hangs = failure.cause is Reason.SERVER_HANG_LOAD
        if (death := self._death_soon(label, 0.0 if failure.usable or hangs else DEATH_GRACE_S)) is not None:
            reason, evidence = self._cause(label, death.exit_code)
            return SwitchFailed(f"the server ended: {evidence.root_line}", False, reason, evidence)
        line = self._masker.text(failure.reason)
        if hangs:
            line = f"{line} {self._dump()}"
        cause = failure.cause or Reason.TOOL_ERROR
        return SwitchFailed(line, failure.usable, cause, Evidence(line, label, None, log))

    def _workload(self, phase: Phase) -> Workload:
        found = self._workloads.get(phase.workload)
        if found is None:
            raise UsageError(
                f"A phase must be of a workload that the engine was given, of {', '.join(map(repr, self._workloads))}, but "
                f"got {phase.workload!r}."
            )
        return found

    def close(self) -> StopReport:
        """See `Session`. The log is free of secrets then."""
        report = self._server.stop()
        if not self._scrubbed:
            self._scrubbed = True
            scrub(self._server.log_path, self._masker)
        return report

    async def _abortable(self, phase: Phase, repeat: int, prompts: tuple[Prompt, ...], label: str) -> PhaseResult:
        target = Target(
            base_url=self._server.ports.base_url,
            meta_fields=self._dialect.meta_fields,
            num_steps=self._effective.config.num_steps,
            limits=self._limits,
            sampling=GREEDY if phase.greedy else self._workload(phase).sampling,
            death=lambda: self._death(label),
            log_bytes=lambda: self._os.file_size(self._server.log_path),
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

    def _death_soon(self, label: str, within_s: float) -> Evidence | None:
        end = self._os.monotonic() + within_s
        while (death := self._death(label)) is None and self._os.monotonic() < end:
            self._os.sleep(0.05)
        return death

    def _explained(self, failure: LoadFailed, label: str) -> LoadFailed:
        """The client's failure, or what the log says if the server died of it."""
        within_s = DEATH_GRACE_S if failure.reason is Reason.SERVER_CRASH_LOAD else 0.0
        if (death := self._death_soon(label, within_s)) is not None:
            reason, evidence = self._cause(label, death.exit_code)
            asked, ended = failure.evidence.requested, failure.evidence.completed
            return LoadFailed(reason, dataclasses.replace(evidence, requested=asked, completed=ended))
        line = self._masker.text(failure.evidence.root_line)
        evidence = dataclasses.replace(failure.evidence, root_line=line, log_path=str(self._server.log_path))
        if failure.reason is Reason.SERVER_HANG_LOAD:
            evidence = dataclasses.replace(evidence, root_line=f"{line}; {self._dump()}")
        return LoadFailed(failure.reason, evidence)

    def _cause(self, label: str, code: int | None) -> tuple[Reason, Evidence]:
        log = self._server.log_path
        if self._server.guardian_lost:
            return Reason.WORKER_LOST, Evidence("the guardian died before its server", label, code, str(log))
        reason, evidence = excused(self._server, *classify(log, exit_code=code, phase=label, dialect=self._dialect))
        return reason, dataclasses.replace(evidence, root_line=self._masker.text(evidence.root_line))

    def _notes(self, result: PhaseResult, log: DecodeLog) -> Iterator[Note]:
        if self._synthetic:
            yield Note.SYNTHETIC
        limit = self._effective.max_running_requests
        if limit is not None and limit * self._ranks < result.concurrency:
            yield Note.ADMISSION_LIMITED
        elif self._ranks == 1 and log.admits_less_than(result.concurrency):
            yield Note.ADMISSION_LIMITED  # the pools ran full, say, whatever limit was reported
        if log.misses_graphs:
            yield Note.GRAPH_MISS
        if throttled(result.gpu):
            yield Note.THROTTLED
        if NOT_VERIFIED in dict(self._effective.details):
            yield Note.NOT_VERIFIED

    @property
    def _ranks(self) -> int:
        """Data-parallel ranks, which share the requests; the limit is per rank."""
        return max(1, self._number("dp_size") or 1)

    @property
    def _room_tokens(self) -> int | None:
        """Tokens that one request can have, prompt and answer; None where the server does not report it."""
        bounds = [n for n in (self._number("context_length"), self._number("max_total_num_tokens")) if n]
        return min(bounds, default=None)

    def _number(self, detail: str) -> int | None:
        text = dict(self._effective.details).get(detail, "")
        return int(text) if text.isdecimal() else None
