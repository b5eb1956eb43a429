"""One of several drivers of a study on a Ray cluster: `python shared_driver.py FOLDER DATABASE ADDRESS`.

Every launch runs on the fake server; a third of the configs get one of its misbehaviours, drawn
from the seed and the config alone, so that every driver draws the same.
"""

from __future__ import annotations

import dataclasses
import os
import random
import sys
from functools import partial
from pathlib import Path

from search.cluster import RayExecutor
from search.contracts import RealClock
from search.dialects import for_release
from search.engines import SglangEngine
from search.load.prompts import load_prompts
from search.server.supervisor import Deadlines
from search.spec.file import parse_study
from search.spec.fingerprint import fingerprint
from search.storage.optuna_side import optuna_storage
from search.storage.store import Store
from search.study import budget
from search.study.context import StudyContext, Watch
from search.study.events import Ending
from search.study.runner import run_study
from search.testing import install_fake_sglang

NAME = "shared"
LAUNCHES = 60
SLOTS = 2
GPUS_PER_SLOT = 2
SEED = 20240607
FAULTS = (
    *("oom-kv", "oom-graph", "exit-1", "exit-kill", "die-at-first-request", "die-under-load"),
    *("ignore-sigterm", "double-fork-grandchild", "runaway-grandchild", "partial-utf8"),
)
"""The last four must not cost a measurement."""

_STUDY = """
study: shared
model: {target: models/target, draft: models/draft, algorithm: STANDALONE, architecture: LlamaForCausalLM}
hardware: {gpus: 1, kind: NVIDIA H200, sm: 90, memory_gib: 139, links: nvlink}
engine:
  release: 0.5.11
  env: {PYTHONPATH: "@fake@", FAKE_SGLANG_SPEED: "1.5", FAKE_SGLANG_BOOT_S: "0.1"}
  server_args: {attention-backend: triton}
  max_running_requests: 64
  boot_ceiling_minutes: 1
space: {spec_version: [v1, v2], topk: [1, 2, 3, 4], num_steps: [1, 2, 3, 4, 5, 6], num_draft_tokens: [4, 6, 8, tree]}
objectives: {latency: 1, throughput: 8}
watch: []
known: ["off"]
measure: {output_tokens: 48, requests_at_latency: 2, requests_per_worker: 2, repeats: 1, parallel_loads: true}
budget: {launches: 60, failures_in_a_row: 60, retries: 60, closing: false, confirm: 0, ladder: 0}
sampler: random
"""


def fault_of(config_id: str) -> str:
    """The misbehaviour of a config's servers; empty for none, and for the baseline always."""
    rng = random.Random(f"{SEED} {config_id}")
    return rng.choice(FAULTS) if config_id != "off" and rng.random() < 1 / 3 else ""


class FaultyEngine(SglangEngine):
    """A real engine whose servers misbehave as their config says."""

    def launch(self, config, *, slot, paths, holds=()):
        env = {**self._deployment.env, "FAKE_SGLANG": fault_of(config.config_id)}
        self._deployment = dataclasses.replace(self._deployment, env=env)
        return super().launch(config, slot=slot, paths=paths)


def paper_gpus(count):
    """GPUs that exist on paper only; each actor has its own."""
    return tuple(f"GPU-{os.getpid()}-{index}" for index in range(count))


class Lines:
    """Prints what happens."""

    def started(self, start):
        print("started", start.already, flush=True)

    def launching(self, launch):
        print("launching", launch.number, launch.config, launch.slot, flush=True)

    def launched(self, launch, judgements):
        print("launched", launch.number, launch.config, launch.outcome, launch.reason, launch.evidence, flush=True)

    def ended(self, ending, judgement):
        print("ended", ending, flush=True)


def main(folder: Path, database: str, address: str) -> Ending:
    """Run the study, or what is left of it."""
    folder.mkdir(exist_ok=True)
    # Faults drawn by lot come three alike in a row now and then, which would end a study, as it should.
    budget.SAME_ROOT_LINE = LAUNCHES
    fake = install_fake_sglang(folder.parent / "fake", release="0.5.11")
    spec = parse_study(_STUDY.replace("@fake@", str(fake)), name="shared.yaml")
    dialect = for_release(spec.engine.release)
    deadlines = dataclasses.replace(Deadlines(), **{n: v / 5 for n, v in dataclasses.asdict(Deadlines()).items()})
    factory = partial(
        FaultyEngine,
        spec.deployment,
        dialect,
        prompts=load_prompts().search,
        held_out=load_prompts().held_out,
        deadlines=deadlines,
    )
    with (
        RayExecutor(
            factory,
            slots=SLOTS,
            gpus_per_slot=GPUS_PER_SLOT,
            address=address,
            lease_s=6,
            find_uuids=paper_gpus,
        ) as executor,
        Store(database) as store,
    ):
        return run_study(
            StudyContext(
                spec=spec,
                name=NAME,
                kind="measured",
                space=spec.space_of(dialect),
                fingerprint=fingerprint(spec, kind="measured"),
                clock=RealClock(),
                reports=folder,
                resume_command="the same command",
            ),
            executor=executor,
            store=store,
            storage=optuna_storage(database),
            watch=Watch(Lines()),
        )


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2], sys.argv[3])
