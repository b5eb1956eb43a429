"""Why a server of ours did not become ready, and the failure that a launch raises for it."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

from search.deployment import Deployment
from search.dialects import Dialect
from search.errors import LaunchFailed
from search.masking import Masker
from search.outcomes import Evidence, Reason
from search.server.classify import classify, classify_stall
from search.server.ports import PortBlock
from search.server.readiness import NotReady, Unready
from search.server.scrub import scrub
from search.server.supervisor import Supervisor


@dataclasses.dataclass(frozen=True, slots=True)
class Ended:
    """What a server's end showed before it was stopped.

    Attributes:
        code: Exit code of its launcher; None while it lived.
        guardian_lost: Its guardian died first.
        start_error: Why the launcher could not be started.
        stacks: Where its processes stood, in words; empty where nobody looked.
        stale: What it means if somebody else answers on its port.
    """

    code: int | None
    guardian_lost: bool
    start_error: str
    stacks: str
    stale: tuple[Reason, str]


def why_not_ready(
    failure: NotReady, ended: Ended, *, log: Path, stack_dump: Path, deployment: Deployment, dialect: Dialect
) -> tuple[Reason, Evidence]:
    """Reason and evidence of a server that did not become ready; its log is complete.

    Args:
        failure: What was seen of it from outside.
        ended: How it ended.
        log: Its log.
        stack_dump: Stacks of its processes, if they were dumped.
        deployment: The limits it was held to.
        dialect: Whose phrases to try first.
    """
    if ended.guardian_lost:
        return Reason.WORKER_LOST, Evidence("the guardian died before its server", "starting", ended.code, str(log))
    if ended.start_error:
        line = f"the launcher could not start: {ended.start_error}"
        return Reason.MISSING_MODULE, Evidence(line, "starting", ended.code)
    match failure.kind:
        case Unready.EXITED:
            return classify(log, exit_code=ended.code, dialect=dialect)
        case Unready.STALE:
            return ended.stale[0], Evidence(ended.stale[1], "first token", ended.code, str(log))
    limit_s = deployment.boot_ceiling_s if failure.kind is Unready.CEILING else deployment.stall_s
    detail = f"{failure.kind.value} within {limit_s:g} s; {failure.detail}; {ended.stacks}"
    reason, evidence = classify_stall(log, detail=detail, dialect=dialect, stacks=stack_dump)
    if failure.kind is Unready.SILENT and reason is Reason.STARTUP_STALL:
        reason = Reason.SERVER_HANG_LOAD
    return reason, evidence


def not_ours(server: Supervisor, detail: str) -> tuple[Reason, str]:
    """PORT_BUSY where a stranger took the port after it was drawn, else STALE_SERVER; and the line that says so."""
    if stranger := server.stranger_on_port():
        return Reason.PORT_BUSY, f"{detail}; it was taken by {stranger}"
    return Reason.STALE_SERVER, detail


def stopped(server: Supervisor, reason: Reason, evidence: Evidence, masker: Masker) -> LaunchFailed:
    """Stop a server without grace; the failure of its launch, with what the stop could not remove.

    Args:
        server: What is stopped.
        reason: Of the failure.
        evidence: What it is based on; masked here.
        masker: Of the launch's secrets, for its log too.
    """
    report = server.kill()
    scrub(server.log_path, masker)
    evidence = dataclasses.replace(evidence, root_line=masker.text(evidence.root_line))
    return LaunchFailed(reason, evidence, leftovers=() if report.clean else report.leftovers)


def of_another_launch(info: dict[str, Any], ports: PortBlock) -> str:
    """What a server says of its own ports that is not so for this launch; empty if all is well.

    Owning the port is the stronger proof, but a prefix that starts a container hides who does.
    """
    for name, ours in (("port", ports.http), ("nccl_port", ports.nccl)):
        if info.get(name) not in (None, ours):
            return f"the server on port {ports.http} says it was started with {name} {info[name]}, but ours got {ours}"
    return ""
