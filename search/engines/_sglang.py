"""The real engine: one SGLang server per launch, under a supervisor and a guardian."""

from __future__ import annotations

import contextlib
import dataclasses
import logging
import os
import secrets
import threading
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

from search.config import SpecConfig
from search.contracts import Clock, LaunchPaths, RealClock, Slot
from search.deployment import Deployment
from search.dialects import Dialect, simulating
from search.engines._sglang_failure import Ended, not_ours, of_another_launch, stopped, why_not_ready
from search.engines._sglang_session import DEATH_GRACE_S, RunPhase, SglangSession, excused
from search.engines._sglang_settings import settings_in_use, with_token, write_command
from search.engines._shape_start import KEEPS, ShapeStart, shape_start
from search.engines._shape_switch import ShapeSwitch, Switching, Unshared, first_switch
from search.errors import LaunchFailed
from search.load.sampling import GREEDY, Sampling
from search.load.target import Limits, Prompt
from search.load.workload import Workload
from search.masking import Masker
from search.outcomes import Blame, Evidence, Reason
from search.server.command import LAUNCH_TAG, ServerCommand, server_command
from search.server.gpu_watch import GpuWatch
from search.server.http import ask_first_token, read_server_info
from search.server.lease import GpuLease, LeaseTerms, lease_gpus, wait_for_free_memory
from search.server.ports import PortBlock, fresh_ports
from search.server.readiness import BootLimits, NotReady, Unready, wait_ready
from search.server.reaper import reap_orphans
from search.server.scrub import scrub
from search.server.shapes import ShapeClient
from search.server.stacks import dump_stacks, find_py_spy
from search.server.supervisor import Deadlines, Supervisor
from search.server.system import Os, RealOs
from search.shape import SwitchRefused

_log = logging.getLogger(__name__)

_SWITCH_S = 120.0
"""A switch may take as long as a start did, whose graphs are a part of it, and at least so long; but no longer than
a start may stand still."""


_MOST_UNSHARED = 2
_PLUGIN_FRAME = b"/search_shapes/"


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
        switch_s: Longest switch of shapes; None for what a start suggests, see `_SWITCH_S`.

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
        switch_s: float | None = None,
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
        self._switch_s = switch_s
        self._leases: dict[tuple[str, ...], GpuLease] = {}
        self._abort = threading.Event()
        self._keeps = ""
        """Why starts of this deployment never switch, once one has shown it."""
        self._unshared = 0
        """Starts made for another shape that were of no use."""

    def abort(self) -> None:
        """Make a running `launch` or `measure` raise `Interrupted` soon, and every later one at once.

        For other threads. It holds for good, so that one that comes just before a launch counts.
        """
        self._abort.set()

    def close(self) -> None:
        """Give the GPUs back. For the end of a study, when no session is open any more."""
        while self._leases:
            self._leases.popitem()[1].release()

    def launch(
        self, config: SpecConfig, *, slot: Slot, paths: LaunchPaths, holds: tuple[SpecConfig, ...] = ()
    ) -> SglangSession:
        """See `Engine`. Whatever ends a launch early, an interrupt included, stops its server first.

        With `holds` the server is started with the smallest shape that holds them all, and switched to `config`. Where
        it turns out that it cannot switch, and runs another shape, it is stopped and `config` has a start of its own;
        the effective settings say why.

        Raises:
            LaunchFailed: With reason and evidence, and with leftovers if the stop was not clean.
            Interrupted: `abort` was called.
            UnsupportedKnob: The release has no spelling for a knob; nothing was started.
        """
        keeps = self._keeps
        if holds and self._raw is None and not keeps:
            try:
                start = shape_start(config, holds, self._deployment, self._dialect)
                return self._launch(config, slot, paths, start=start, holds=holds)
            except SwitchRefused as problem:
                keeps = problem.reason
            except Unshared as problem:
                keeps = str(problem)
                self._unshared += 1
                if problem.for_good or self._unshared >= _MOST_UNSHARED:
                    self._keeps = keeps
            _log.warning("%s has a start of its own: %s", config, keeps)
        return self._launch(config, slot, paths, keeps=keeps if holds else "")

    def _launch(
        self,
        config: SpecConfig,
        slot: Slot,
        paths: LaunchPaths,
        *,
        start: ShapeStart | None = None,
        holds: tuple[SpecConfig, ...] = (),
        keeps: str = "",
    ) -> SglangSession:
        """One start: that of `config` alone, or one that holds it and others.

        Raises:
            Unshared: The latter does not do.
        """
        tag = f"{paths.root.name}-{secrets.token_hex(4)}"
        self._lease(slot, paths, tag)
        ports = fresh_ports()
        command = self._command(start.config if start else config, ports, tag, slot, paths)
        if start is not None:
            command = dataclasses.replace(command, env={**command.env, **start.environment})
        masker = _masker_of(command)
        paths.root.mkdir(parents=True, exist_ok=True)
        paths.server_log.write_bytes(b"")  # a log is appended to, and must be of one launch only
        paths.server_log.chmod(0o600)  # what a server prints may be secret until it is scrubbed
        command.write_files()
        tell = partial(settings_in_use, dialect=self._dialect, masker=masker)

        def keep_command(config: SpecConfig, paths: LaunchPaths, remark: str) -> None:
            write_command(self._command(config, ports, tag, slot, paths), paths, remark)

        other = start is not None and start.config != config
        keep_command(
            config, paths, f"Measured in a start made for {start.config}, by a switch." if start and other else ""
        )
        server = Supervisor(
            self._os,
            tag=tag,
            ports=ports,
            log_path=paths.server_log,
            gpu_uuids=slot.gpu_uuids,
            deadlines=self._deadlines,
        )
        switch: ShapeSwitch | None = None
        further = {KEEPS: keeps} if keeps else {}
        try:
            began = self._os.monotonic()
            server.start(command, secrets=masker.secrets)
            self._wait_ready(server)
            boot_s = self._os.monotonic() - began
            if start is not None:
                limit_s = self._switch_s or min(self._deployment.stall_s, max(_SWITCH_S, boot_s))
                client = ShapeClient(ports.http, start.token)
                switch = ShapeSwitch(client, server, self._os, aborted=self._abort, limit_s=limit_s)
                further = first_switch(switch, start, config)
            effective = tell(self._own_info(server), config, paths=paths, further=further)
            server.ready()
            if start is not None:
                self._keeps = further.get(KEEPS, "")
        except NotReady as failure:
            failed = self._launch_failed(server, failure, paths, masker)
            if start is None or not _is_of_sharing(failed, paths.server_log, other=other):
                raise failed from failure
            _keep_log(paths)
            raise Unshared(f"a start made for several configs failed: {failed}") from failure
        except LaunchFailed as failure:
            raise stopped(server, failure.reason, failure.evidence, masker) from failure
        except Unshared as failure:
            end = stopped(server, Reason.TOOL_ERROR, Evidence(str(failure), "switch"), masker)
            if end.leftovers:
                raise end from failure
            _keep_log(paths)
            raise Unshared(end.evidence.root_line, for_good=failure.for_good) from failure
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
            switching=Switching(switch, start, config, holds, paths.root.name, tell, keep_command)
            if start and switch and KEEPS not in further
            else None,
            sampling=self._sampling,
            workloads=self._workloads,
        )

    def _command(self, config: SpecConfig, ports: PortBlock, tag: str, slot: Slot, paths: LaunchPaths) -> ServerCommand:
        return server_command(
            config,
            self._deployment,
            self._dialect,
            ports=ports,
            tag=tag,
            gpu_uuids=slot.gpu_uuids,
            raw=self._raw,
            folder=paths.root.resolve(),
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

    def _own_info(self, server: Supervisor) -> dict[str, Any]:
        """What a server that has just answered says it runs.

        Raises:
            NotReady: It has ended.
            LaunchFailed: It says nothing, or is not ours.
        """
        log = str(server.log_path)
        try:
            info = read_server_info(server.ports.base_url)
        except OSError as error:
            if (code := self._exit_code_soon(server)) is not None:
                raise NotReady(Unready.EXITED, f"exit code {code}") from error
            line = f"the server generated a token but does not say what it runs: {error}"
            raise LaunchFailed(Reason.TOOL_ERROR, Evidence(line, "read-back", None, log)) from error
        if wrong := of_another_launch(info, server.ports):
            reason, line = not_ours(server, wrong)
            raise LaunchFailed(reason, Evidence(line, "read-back", None, log))
        return info

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
        ended = Ended(code, lost, start_error, stacks, not_ours(server, failure.detail))
        server.kill()
        reason, evidence = why_not_ready(
            failure,
            ended,
            log=paths.server_log,
            stack_dump=paths.stacks,
            deployment=self._deployment,
            dialect=self._dialect,
        )
        reason, evidence = excused(server, reason, evidence)
        return stopped(server, reason, evidence, masker)

    def _dump(self, server: Supervisor, paths: LaunchPaths, masker: Masker) -> str:
        dumped = dump_stacks(server.processes(), paths.stacks, py_spy=find_py_spy(self._deployment.python))
        scrub(paths.stacks, masker)
        return dumped


def _is_of_sharing(failed: LaunchFailed, log: Path, *, other: bool) -> bool:
    """Whether a start that failed may do so because it was to hold several configs.

    Args:
        failed: As its log and stop show it.
        log: Of the server.
        other: Whether it was started with another shape than its config's.
    """
    if failed.leftovers or failed.blame is Blame.HOST:
        return False
    return other or _PLUGIN_FRAME in log.read_bytes()


def _keep_log(paths: LaunchPaths) -> None:
    """Make room for the log of the start that comes next."""
    with contextlib.suppress(FileNotFoundError):
        paths.server_log.replace(paths.shared_log)


def _masker_of(command: ServerCommand) -> Masker:
    """Knows every secret that a launch is given; its tag is none."""
    own = {name: value for name, value in command.env.items() if value is not None and name != LAUNCH_TAG}
    return with_token(Masker.of(env=own, words=command.argv, inherited=os.environ), command.env)


def _read_info(url: str) -> dict[str, Any]:
    try:
        return read_server_info(url)
    except OSError:
        return {}


def _client() -> RunPhase:
    from search.load.phases import run_phase

    return run_phase
