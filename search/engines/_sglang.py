"""The real engine: one SGLang server per launch, under a supervisor and a guardian."""

from __future__ import annotations

import dataclasses
import json
import logging
import os
import secrets
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from search.config import SpecConfig
from search.contracts import NOT_VERIFIED, Clock, EffectiveSettings, LaunchPaths, RealClock, Slot
from search.deployment import Deployment
from search.dialects import Dialect, simulating
from search.engines._sglang_session import DEATH_GRACE_S, RunPhase, SglangSession, excused
from search.engines._verified import untold
from search.errors import LaunchFailed
from search.load.sampling import GREEDY, Sampling
from search.load.target import Limits, Prompt
from search.load.workload import Workload
from search.masking import Masker
from search.outcomes import Evidence, Reason
from search.server.classify import classify, classify_stall
from search.server.command import LAUNCH_TAG, ServerCommand, server_command
from search.server.gpu_watch import GpuWatch
from search.server.http import ask_first_token, read_server_info
from search.server.lease import GpuLease, LeaseTerms, lease_gpus, wait_for_free_memory
from search.server.ports import PortBlock, fresh_ports
from search.server.readiness import BootLimits, NotReady, Unready, wait_ready
from search.server.reaper import reap_orphans
from search.server.scrub import scrub
from search.server.stacks import dump_stacks, find_py_spy
from search.server.supervisor import Deadlines, Supervisor
from search.server.system import Os, RealOs

_log = logging.getLogger(__name__)


class SglangEngine:
    """Launches real servers.

    Args:
        deployment: What every launch of the study shares.
        dialect: Of the deployment's release.
        prompts: The study's own prompts, in order.
        held_out: For phases that confirm.
        sampling: How tokens of the study's own prompts are picked.
        workloads: The study's further workloads, by name.
        clock: Time.
        raw: Words to send exactly, in place of the config's, see `server_command`; what then
            runs is reported by `Session.effective`.
        limits: What a request must keep to count as good.
        run_phase: The client; None for `search.load.run_phase`.
        system: The operating system; None for this machine's.
        deadlines: How long a stop and a lease may take.
        terms: What a lease of GPUs tolerates.
        locks: Folder of the GPUs' lock files; None for the one all users of this host share.

    The GPUs of a slot are leased at the first launch on them and kept until `close` or the end of
    this process, so that nobody else comes between two launches of a study.
    """

    def __init__(
        self,
        deployment: Deployment,
        dialect: Dialect,
        *,
        prompts: tuple[Prompt, ...],
        held_out: tuple[Prompt, ...] = (),
        sampling: Sampling = GREEDY,
        workloads: Mapping[str, Workload] | None = None,
        clock: Clock | None = None,
        raw: tuple[str, ...] | None = None,
        limits: Limits | None = None,
        run_phase: RunPhase | None = None,
        system: Os | None = None,
        deadlines: Deadlines | None = None,
        terms: LeaseTerms | None = None,
        locks: Path | None = None,
    ) -> None:
        self._deployment = deployment
        self._dialect = dialect
        self._prompts = prompts
        self._held_out = held_out
        self._sampling = sampling
        self._workloads = dict(workloads or {})
        self._raw = raw
        self._limits = limits
        self._run_phase = run_phase
        self._os = system or RealOs(clock or RealClock())
        self._deadlines = deadlines
        self._terms = terms or LeaseTerms()
        self._locks = locks
        self._leases: dict[tuple[str, ...], GpuLease] = {}
        self._abort = threading.Event()

    def abort(self) -> None:
        """Make a running `launch` or `measure` raise `Interrupted` soon, and every later one at once.

        For other threads. It holds for good, so that one that comes just before a launch counts.
        """
        self._abort.set()

    def close(self) -> None:
        """Give the GPUs back. For the end of a study, when no session is open any more."""
        while self._leases:
            self._leases.popitem()[1].release()

    def launch(self, config: SpecConfig, *, slot: Slot, paths: LaunchPaths) -> SglangSession:
        """See `Engine`. Whatever ends a launch early, an interrupt included, stops its server first.

        Raises:
            LaunchFailed: With reason and evidence, and with leftovers if the stop was not clean.
            Interrupted: `abort` was called.
            UnsupportedKnob: The release has no spelling for a knob; nothing was started.
        """
        tag = f"{paths.root.name}-{secrets.token_hex(4)}"
        self._lease(slot, paths, tag)
        ports = fresh_ports()
        command = server_command(
            config,
            self._deployment,
            self._dialect,
            ports=ports,
            tag=tag,
            gpu_uuids=slot.gpu_uuids,
            raw=self._raw,
            folder=paths.root.resolve(),
        )
        masker = _masker_of(command)
        paths.root.mkdir(parents=True, exist_ok=True)
        paths.server_log.write_bytes(b"")  # a log is appended to, and must be of one launch only
        paths.server_log.chmod(0o600)  # what a server prints may be secret until it is scrubbed
        command.write_files()
        paths.command.write_text(command.script())
        paths.command.chmod(0o700)
        server = Supervisor(
            self._os,
            tag=tag,
            ports=ports,
            log_path=paths.server_log,
            gpu_uuids=slot.gpu_uuids,
            deadlines=self._deadlines,
        )
        try:
            began = self._os.monotonic()
            server.start(command)
            self._wait_ready(server)
            boot_s = self._os.monotonic() - began
            effective = self._read_back(server, config, paths, masker)
            server.ready()
        except NotReady as failure:
            raise self._launch_failed(server, failure, paths, masker) from failure
        except LaunchFailed as failure:
            raise _stopped(server, failure.reason, failure.evidence, masker) from failure
        except BaseException:
            server.kill()
            scrub(paths.server_log, masker)
            raise
        return SglangSession(
            server,
            self._os,
            dialect=self._dialect,
            paths=paths,
            effective=effective,
            boot_s=boot_s,
            prompts=self._prompts,
            held_out=self._held_out,
            run_phase=self._run_phase or _client(),
            aborted=self._abort,
            dump=lambda: self._dump(server, paths, masker),
            masker=masker,
            limits=self._limits,
            watch_gpus=lambda: GpuWatch(slot.gpu_uuids),
            synthetic=bool(simulating(command.environment(os.environ))),
            sampling=self._sampling,
            workloads=self._workloads,
        )

    def _lease(self, slot: Slot, paths: LaunchPaths, tag: str) -> None:
        """Make sure that the slot's GPUs are ours alone, and empty."""
        uuids = slot.gpu_uuids
        if not uuids:
            return
        facts = {"uid": str(os.getuid()), "launch": "/".join(paths.root.absolute().parts[-3:]), "tag": tag}
        if uuids in self._leases:
            self._leases[uuids].note(facts)
        else:
            self._leases[uuids] = lease_gpus(uuids, self._os, facts=facts, terms=self._terms, folder=self._locks)
            for leftover in reap_orphans()[0]:
                _log.warning("Stopped what an earlier crash left: %s", leftover)
        wait_for_free_memory(uuids, self._os, terms=self._terms, aborted=self._abort.is_set)

    def _wait_ready(self, server: Supervisor) -> None:
        url = server.ports.base_url
        wait_ready(
            server,
            self._os,
            limits=BootLimits(self._deployment.stall_s, self._deployment.boot_ceiling_s),
            ask=lambda: ask_first_token(url, timeout_s=self._deployment.boot_ceiling_s),
            vouch=lambda: bool(self._deployment.prefix) and _read_info(url).get("nccl_port") == server.ports.nccl,
            aborted=self._abort.is_set,
        )

    def _read_back(
        self, server: Supervisor, config: SpecConfig, paths: LaunchPaths, masker: Masker
    ) -> EffectiveSettings:
        try:
            info = read_server_info(server.ports.base_url)
        except OSError as error:
            if (code := self._exit_code_soon(server)) is not None:
                raise NotReady(Unready.EXITED, f"exit code {code}") from error
            line = f"the server generated a token but does not say what it runs: {error}"
            raise LaunchFailed(Reason.TOOL_ERROR, Evidence(line, "read-back", None, str(paths.server_log))) from error
        if wrong := _of_another_launch(info, server.ports):
            reason, line = _not_ours(server, wrong)
            raise LaunchFailed(reason, Evidence(line, "read-back", None, str(paths.server_log)))
        paths.server_info.write_text(json.dumps(masker.tree(info), indent=1, sort_keys=True) + "\n")
        effective = self._dialect.effective(info, config)
        shown = tuple((name, masker.tree(value, name)) for name, value in effective.details)
        effective = dataclasses.replace(effective, details=shown)
        if missing := untold(info, config):
            _log.warning("the server does not report %s: what runs is not verified", ", ".join(missing))
            details = (*effective.details, (NOT_VERIFIED, ", ".join(missing)))
            effective = dataclasses.replace(effective, details=tuple(sorted(details)))
        return effective

    def _exit_code_soon(self, server: Supervisor) -> int | None:
        """A refused connection precedes the exit of the process that refused it by a moment."""
        end = self._os.monotonic() + DEATH_GRACE_S
        while (code := server.poll()) is None and self._os.monotonic() < end:
            self._os.sleep(0.05)
        return code

    def _launch_failed(self, server: Supervisor, failure: NotReady, paths: LaunchPaths, masker: Masker) -> LaunchFailed:
        """Stop the server, so that its log is complete, then say why it did not become ready."""
        code, lost, start_error = server.poll(), server.guardian_lost, server.start_error
        stacks = ""
        if failure.kind in (Unready.STALLED, Unready.SILENT, Unready.CEILING):
            stacks = self._dump(server, paths, masker)
        stale = _not_ours(server, failure.detail)
        server.kill()
        reason, evidence = self._why(
            paths, failure, code, lost=lost, start_error=start_error, stacks=stacks, stale=stale
        )
        reason, evidence = excused(server, reason, evidence)
        return _stopped(server, reason, evidence, masker)

    def _dump(self, server: Supervisor, paths: LaunchPaths, masker: Masker) -> str:
        dumped = dump_stacks(server.processes(), paths.stacks, py_spy=find_py_spy(self._deployment.python))
        scrub(paths.stacks, masker)
        return dumped

    def _why(
        self,
        paths: LaunchPaths,
        failure: NotReady,
        code: int | None,
        *,
        lost: bool,
        start_error: str,
        stacks: str,
        stale: tuple[Reason, str],
    ) -> tuple[Reason, Evidence]:
        log = paths.server_log
        if lost:
            return Reason.WORKER_LOST, Evidence("the guardian died before its server", "starting", code, str(log))
        if start_error:
            return Reason.MISSING_MODULE, Evidence(f"the launcher could not start: {start_error}", "starting", code)
        match failure.kind:
            case Unready.EXITED:
                return classify(log, exit_code=code, dialect=self._dialect)
            case Unready.STALE:
                return stale[0], Evidence(stale[1], "first token", code, str(log))
        limit_s = self._deployment.boot_ceiling_s if failure.kind is Unready.CEILING else self._deployment.stall_s
        detail = f"{failure.kind.value} within {limit_s:g} s; {failure.detail}; {stacks}"
        reason, evidence = classify_stall(log, detail=detail, dialect=self._dialect, stacks=paths.stacks)
        if failure.kind is Unready.SILENT and reason is Reason.STARTUP_STALL:
            reason = Reason.SERVER_HANG_LOAD
        return reason, evidence


def _not_ours(server: Supervisor, detail: str) -> tuple[Reason, str]:
    """PORT_BUSY where a stranger took the port after it was drawn, else STALE_SERVER; and the line that says so."""
    if stranger := server.stranger_on_port():
        return Reason.PORT_BUSY, f"{detail}; it was taken by {stranger}"
    return Reason.STALE_SERVER, detail


def _stopped(server: Supervisor, reason: Reason, evidence: Evidence, masker: Masker) -> LaunchFailed:
    """The failure of a launch, with what the stop of its server could not remove."""
    report = server.kill()
    scrub(server.log_path, masker)
    evidence = dataclasses.replace(evidence, root_line=masker.text(evidence.root_line))
    return LaunchFailed(reason, evidence, leftovers=() if report.clean else report.leftovers)


def _masker_of(command: ServerCommand) -> Masker:
    """Knows every secret that a launch is given; its tag is none."""
    own = {name: value for name, value in command.env.items() if value is not None and name != LAUNCH_TAG}
    return Masker.of(env=own, words=command.argv, inherited=os.environ)


def _read_info(url: str) -> dict[str, Any]:
    try:
        return read_server_info(url)
    except OSError:
        return {}


def _of_another_launch(info: dict[str, Any], ports: PortBlock) -> str:
    """What a server says of its own ports that is not so for this launch; empty if all is well.

    Owning the port is the stronger proof, but a prefix that starts a container hides who does.
    """
    for name, ours in (("port", ports.http), ("nccl_port", ports.nccl)):
        if info.get(name) not in (None, ours):
            return f"the server on port {ports.http} says it was started with {name} {info[name]}, but ours got {ours}"
    return ""


def _client() -> RunPhase:
    from search.load.phases import run_phase

    return run_phase
