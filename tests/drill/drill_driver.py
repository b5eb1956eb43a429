"""The victim: a real study of two configs, or four, on the fake server: `python drill_driver.py FOLDER --storage STORAGE`.

Every wait of the product that has a seam is a fifth of its default, so that a case takes seconds
and the proportions stay.
"""

from __future__ import annotations

import argparse
import dataclasses
import faulthandler
import json
import os
import signal
import sys
import time
from collections.abc import Sequence
from datetime import datetime, timedelta
from functools import partial
from pathlib import Path

from search.analysis.findings import Judgement
from search.app.sharing import sharing_of
from search.cluster import RayExecutor, _cluster
from search.contracts import Phase, PhaseResult, RealClock
from search.dialects import for_release
from search.engines import SglangEngine
from search.load.prompts import load_prompts
from search.load.target import Prompt, Target
from search.server.supervisor import Deadlines
from search.spec.file import parse_study
from search.spec.fingerprint import fingerprint
from search.spec.study import StudySpec
from search.storage import heartbeat as heartbeat_module
from search.storage.optuna_side import optuna_session
from search.storage.records import LaunchRecord
from search.storage.store import Store
from search.study import runner
from search.study.context import StudyContext, Watch
from search.study.events import Ending, Judgements, Launching, RunStart
from search.study.runner import run_study
from search.study.signals import Interrupts, interruptible
from search.testing import install_fake_sglang

SCALE = float(os.environ.get("SEARCH_DRILL_SCALE", "5"))
"""Waits are the product's divided by this; 1 is the product, and the bar for a machine that is too busy for 5."""

RAY_WAITS_MS = {
    "health_check_initial_delay_ms": 5000,
    "health_check_period_ms": 3000,
    "health_check_timeout_ms": 10000,
}
"""Ray 2.60's own, scaled like the product's: five failed looks make a dead node."""

NAME = "drill"
CONFIGS = ("off", "v2-k1-s1-d2")
SWITCHED_CONFIGS = (*CONFIGS, "v2-k1-s2-d3")
SHARED_CONFIGS = (*CONFIGS, "v2-k1-s2-d3", "v2-k1-s3-d4")
LATENCY, THROUGHPUT = 1, 8
SLOW = float(os.environ.get("SEARCH_DRILL_SLOW", "1"))
"""On a machine that is busy with other things, limits that only tell a hang from work may be so many times as long."""

SILENCE_S = 4.0 * SLOW
"""Without a token for so long, a phase has failed."""

_STUDY = """
study: drill
model: {target: models/target, draft: models/draft, algorithm: STANDALONE, architecture: LlamaForCausalLM}
hardware: {gpus: 1, kind: NVIDIA H200, sm: 90, memory_gib: 139, links: nvlink}
engine:
  release: @release@
  env:
    PYTHONPATH: "@fake@"
    FAKE_SGLANG: "@misbehaves@"
    FAKE_SGLANG_SPEED: "1.5"
    FAKE_SGLANG_BOOT_S: "0.5"
    FAKE_SGLANG_WARMUP_S: "0.2"
    FAKE_SGLANG_DRAIN_S: "0.4"
  server_args: {attention-backend: triton, mem-fraction-static: 0.6}
  max_running_requests: 64
  boot_ceiling_minutes: @boot@
  stall_minutes: @stall@
space: {spec_version: [v2], topk: [1], num_steps: @steps@, num_draft_tokens: [tree]}
objectives: {latency: 1, throughput: 8}
watch: []
known: @known@
measure: {output_tokens: 32, requests_at_latency: 6, requests_per_worker: 4, repeats: 1}
budget: {launches: 12, failures_in_a_row: 3, closing: false, confirm: 0, ladder: 0}
sampler: grid
"""


async def impatient_phase(
    target: Target, prompts: Sequence[Prompt], phase: Phase, repeat: int, *, requests_log: Path | None = None
) -> PhaseResult:
    """`run_phase`, which gives a silent server up sooner."""
    from search.load.phases import run_phase

    target = dataclasses.replace(target, silence_s=SILENCE_S)
    return await run_phase(target, prompts, phase, repeat, requests_log=requests_log)


class Gates:
    """Holds the loop at moments that pass too quickly to be hit, until the drill lets it go."""

    def __init__(self, folder: Path, hold: str) -> None:
        self._folder = folder
        self._hold = hold

    def started(self, start: RunStart) -> None:
        """Nothing to hold."""

    def launching(self, launch: Launching) -> None:
        self._pass({1: "before", 2: "between"}.get(launch.number, ""))

    def launched(self, launch: LaunchRecord, judgements: Judgements) -> None:
        print(launch.number, launch.asked, launch.outcome, launch.reason, launch.evidence, flush=True)

    def ended(self, ending: Ending, judgement: Judgement) -> None:
        print(ending, flush=True)
        self._pass("end")

    def _pass(self, gate: str) -> None:
        if not gate or gate != self._hold:
            return
        self._hold = ""
        (self._folder / "reached").write_text(gate)
        while not (self._folder / "go").exists():
            time.sleep(0.01)


RUNAWAYS = ("double-fork-grandchild", "runaway-grandchild")


def study_spec(folder: Path, misbehaves: Sequence[str] = (), *, shared: bool = False, slow: str = "") -> StudySpec:
    """The study, with its fake server inside `folder`.

    Args:
        folder: Of the case.
        misbehaves: Of the fake server.
        shared: With configs for two drivers.
        slow: With configs that share a start, and a server that is slow at this part of a switch.
    """
    release = "0.5.16" if slow else "0.5.11"
    fake = install_fake_sglang(folder / "fake", release=release)
    # The larger shape first: its start holds the other one.
    known = ["off", "v2-k1-s2-d3"] if slow else ["off"]
    return parse_study(
        _STUDY.replace("@fake@", str(fake))
        .replace("@release@", release)
        .replace("@boot@", f"{0.4 * SLOW:g}")
        .replace("@stall@", f"{0.1 * SLOW:g}")
        .replace("@misbehaves@", ",".join([*misbehaves, *([f"shapes-slow-{slow}"] if slow else [])]))
        .replace("@known@", json.dumps(known))
        .replace("@steps@", "[1, 2, 3]" if shared else "[1, 2]" if slow else "[1]"),
        name="drill.yaml",
    )


class SetClock(RealClock):
    """A host's clock that is set wrong."""

    def __init__(self, ahead: timedelta) -> None:
        self._ahead = ahead

    def now(self) -> datetime:
        """See `Clock`."""
        return super().now() + self._ahead


def _scale_heartbeats() -> None:
    heartbeat_module.WATCH_S /= SCALE
    heartbeat_module.DEAD_AFTER_S /= SCALE
    runner.heartbeat = partial(heartbeat_module.heartbeat, every_s=heartbeat_module.BEAT_S / SCALE)


def deadlines() -> Deadlines:
    """The product's, scaled."""
    usual = dataclasses.asdict(Deadlines())
    return Deadlines(**{name: value / SCALE for name, value in usual.items()})


def main(interrupts: Interrupts) -> None:
    """Run the study, or what an earlier run left of it."""
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("--storage", required=True)
    parser.add_argument("--hold", default="", help="the moment to wait at")
    parser.add_argument("--runaways", action="store_true", help="each server leaves two processes that forked twice")
    parser.add_argument("--slow", default="", help="configs that share a start; what of a switch is slow")
    parser.add_argument("--shared", action="store_true", help="a space of four configs, for two drivers")
    parser.add_argument("--clock", type=float, default=0.0, metavar="SECONDS", help="ahead of this host's clock")
    args = parser.parse_args()
    _scale_heartbeats()
    clock = SetClock(timedelta(seconds=args.clock))
    heartbeat_module._utc_now = clock.now
    faulthandler.register(signal.SIGUSR1)  # where does it hang? the newest thread carries out a launch
    os.environ |= {f"RAY_{name}": f"{wait / SCALE:.0f}" for name, wait in RAY_WAITS_MS.items()}
    _cluster.SHUTDOWN_S /= SCALE
    if "SEARCH_DRILL_LEAN" in os.environ:  # in `make test`; the whole drill has everything that Ray starts
        sys.path.append(str(Path(__file__).parents[1] / "cluster"))
        from quick_ray import local_without_helpers

        local_without_helpers()
    spec = study_spec(args.folder, RUNAWAYS if args.runaways else (), shared=args.shared, slow=args.slow)
    dialect = for_release(spec.engine.release)
    space = spec.space_of(dialect)
    factory = partial(
        SglangEngine,
        spec.deployment,
        dialect,
        prompts=load_prompts().search,
        held_out=load_prompts().held_out,
        deadlines=deadlines(),
        run_phase=impatient_phase,
    )
    storage = args.storage
    with (
        interrupts.held(),
        RayExecutor(factory, slots=1, gpus_per_slot=0, lease_s=30 / SCALE) as executor,
        Store(storage) as store,
        optuna_session(storage) as tables,
    ):
        run_study(
            StudyContext(
                spec=spec,
                name=NAME,
                kind="measured",
                space=space,
                fingerprint=fingerprint(spec, kind="measured"),
                clock=clock,
                reports=args.folder / "reports",
                resume_command="the same command",
                sharing=sharing_of(spec, space, dialect),
            ),
            executor=executor,
            store=store,
            storage=tables,
            watch=Watch(Gates(args.folder, args.hold)),
            interrupts=interrupts,
        )


if __name__ == "__main__":
    # A shell starts background jobs with SIGINT ignored, and the drill has to press Ctrl-C.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    interruptible(main)
