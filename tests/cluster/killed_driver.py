"""A driver to be killed: `python killed_driver.py FOLDER [ADDRESS]` holds a ready fake server that left a child behind.

The child forked twice and is deaf to SIGTERM: only the guardian, its new parent, can find it.
"""

import os
import sys
import threading
from functools import partial
from pathlib import Path

from quick_ray import local_without_helpers

from search.cluster import RayExecutor
from search.config import SpecConfig
from search.contracts import LaunchPaths
from search.dialects import for_release
from search.engines import SglangEngine
from search.load.prompts import load_prompts
from search.spec.file import parse_study
from search.testing import install_fake_sglang

STUDY = """
study: killed
model: {target: models/target, draft: models/draft, algorithm: STANDALONE, architecture: LlamaForCausalLM}
hardware: {gpus: 1, kind: NVIDIA H200, sm: 90, memory_gib: 139, links: nvlink}
engine:
  release: 0.5.11
  env: {PYTHONPATH: "@fake@", FAKE_SGLANG: double-fork-grandchild}
  server_args: {attention-backend: triton}
  max_running_requests: 64
space: {spec_version: [v1], topk: [1], num_steps: [1], num_draft_tokens: [2]}
objectives: {latency: 1, throughput: 8}
"""


def paper_gpus(count):
    return tuple(f"GPU-{os.getpid()}-{index}" for index in range(count))


def main(folder, address=None):
    fake = install_fake_sglang(folder / "fake", release="0.5.11")
    spec = parse_study(STUDY.replace("@fake@", str(fake)), name="killed.yaml")
    factory = partial(
        SglangEngine,
        spec.deployment,
        for_release("0.5.11"),
        prompts=load_prompts().search,
        held_out=load_prompts().held_out,
    )
    options = {"address": address, "gpus_per_slot": 2, "find_uuids": paper_gpus} if address else {}
    paths = LaunchPaths(folder / "launch")
    paths.root.mkdir()
    with RayExecutor(factory, **options) as executor:
        (slot,) = executor.slots
        executor.engine(slot).launch(SpecConfig("off"), slot=slot, paths=paths)
        print("ready", flush=True)
        threading.Event().wait()


if __name__ == "__main__":
    local_without_helpers()
    main(Path(sys.argv[1]), *sys.argv[2:])
