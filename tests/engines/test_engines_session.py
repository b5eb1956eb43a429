"""What a session adds to the client's numbers: notes of the log and the GPUs, and the outputs on disk."""

import json
import threading
from contextlib import nullcontext
from dataclasses import replace
from types import SimpleNamespace

import pytest

from search.config import SpecConfig
from search.contracts import EffectiveSettings, GpuState, LaunchPaths, Phase, PhaseResult
from search.dialects import for_release
from search.engines._sglang_session import SglangSession
from search.errors import UsageError
from search.load.sampling import Sampling
from search.load.target import Limits, Prompt
from search.load.workload import Workload
from search.outcomes import Note

PHASE = Phase(concurrency=100, requests=100, output_tokens=8)
HOT = GpuState(1400, 91, 0.5, ("SW thermal slowdown",))
COOL = GpuState(1980, 60)


def decode(running, queued, graph=True):
    return (
        f"[2026-11-29 23:12:15 TP0] Decode batch, #running-req: {running}, #token: 9, token usage: 0.05, "
        f"cuda graph: {graph}, gen throughput (token/s): 20118.42, #queue-req: {queued}\n"
    )


class Server:
    """A supervisor of nothing."""

    def __init__(self, log_path):
        self.log_path = log_path
        self.ports = SimpleNamespace(base_url="http://127.0.0.1:9")

    def poll(self):
        return None

    def measuring(self):
        """Nothing to keep."""

    measured = measuring


@pytest.fixture
def session(tmp_path):
    """Makes sessions whose client writes `lines` to the server's log and returns a result."""

    def make(
        lines=(), *, limit=256, details=(), gpu=None, limits=None, seen=None, synthetic=False, workloads=None, **result
    ):
        paths = LaunchPaths(tmp_path)
        paths.server_log.write_text(decode(1, 0, graph=False) * 9)  # of a phase before

        async def client(target, prompts, phase, repeat, *, requests_log):
            if seen is not None:
                seen.append((target, prompts))
            with paths.server_log.open("a") as log:
                log.writelines(lines)
            return PhaseResult(phase.concurrency, repeat, 1, 8, 1.0, 8.0, 8.0, 1.0, 1.0, **result)

        return SglangSession(
            Server(paths.server_log),
            None,
            dialect=for_release("0.5.11"),
            paths=paths,
            effective=EffectiveSettings(SpecConfig.from_id("off"), "0.5.11", limit, details),
            boot_s=1.0,
            prompts=(Prompt("a", "chat", "a"),),
            held_out=(),
            run_phase=client,
            aborted=threading.Event(),
            dump=str,
            limits=limits,
            watch_gpus=lambda: nullcontext(SimpleNamespace(state=gpu)),
            synthetic=synthetic,
            sampling=Sampling(0.7),
            workloads=workloads,
        )

    return make


@pytest.mark.parametrize(
    ("facts", "notes"),
    [
        ({}, ()),
        ({"lines": [decode(100, 0)] * 9, "gpu": COOL}, ()),
        ({"limit": 48}, (Note.ADMISSION_LIMITED,)),
        ({"limit": 48, "notes": (Note.ADMISSION_LIMITED,)}, (Note.ADMISSION_LIMITED,)),
        ({"limit": 25, "details": (("dp_size", "4"),)}, ()),
        ({"lines": [decode(48, 52)] * 9}, (Note.ADMISSION_LIMITED,)),
        ({"lines": [decode(25, 1)] * 9, "details": (("dp_size", "4"),)}, ()),
        ({"lines": [decode(60, 40), decode(100, 0), decode(12, 0)]}, ()),
        ({"lines": [decode(100, 0, graph=False)] * 9}, (Note.GRAPH_MISS,)),
        ({"gpu": HOT}, (Note.THROTTLED,)),
        ({"synthetic": True}, (Note.SYNTHETIC,)),
        ({"gpu": HOT, "notes": (Note.WARMUP_TAINTED,)}, (Note.WARMUP_TAINTED, Note.THROTTLED)),
    ],
)
def test_notes_appear_when_they_should_and_only_then(session, facts, notes):
    result = session(**facts).measure(PHASE, 1)
    assert (result.notes, result.gpu) == (notes, facts.get("gpu"))


def test_token_ids_go_to_one_file_per_concurrency(session, tmp_path):
    made = session(prompt_ids=("a", "b"), outputs=((1, 2), (3, 4)))
    made.measure(PHASE, 1)
    made.measure(PHASE, 2)
    lines = [json.loads(line) for line in (tmp_path / "outputs-c100.jsonl").read_text().splitlines()]
    assert lines == [
        {"repeat": 1, "prompt_id": "a", "tokens": [1, 2]},
        {"repeat": 1, "prompt_id": "b", "tokens": [3, 4]},
        {"repeat": 2, "prompt_id": "a", "tokens": [1, 2]},
        {"repeat": 2, "prompt_id": "b", "tokens": [3, 4]},
    ]


def test_release_that_tells_no_token_ids_leaves_no_file(session, tmp_path):
    session(prompt_ids=("a",)).measure(PHASE, 1)
    assert not LaunchPaths(tmp_path).outputs(100).exists()


@pytest.mark.parametrize("detail", ["context_length", "max_total_num_tokens"])
def test_prompt_that_cannot_fit_is_refused_before_anything_is_sent(session, detail):
    seen = []
    made = session(details=((detail, "8"),), seen=seen)
    assert made.measure(Phase(1, 1, 8), 1).requests == 1
    with pytest.raises(UsageError, match="must fit into 8 tokens"):
        made.measure(Phase(1, 1, 9), 1)
    assert len(seen) == 1


def test_limits_reach_the_client(session):
    seen = []
    session(limits=Limits(ttft_ms=500), seen=seen).measure(PHASE, 1)
    assert seen[0][0].limits == Limits(ttft_ms=500, tpot_ms=None)


def test_phase_gets_the_prompts_and_the_sampling_of_its_workload(session):
    code = Workload((Prompt("c", "code", "c"),), (Prompt("h", "code", "h"),), Sampling(0.2))
    seen = []
    made = session(seen=seen, workloads={"code": code})
    for phase in (
        PHASE,
        replace(PHASE, greedy=True),
        replace(PHASE, workload="code"),
        replace(PHASE, workload="code", held_out=True),
    ):
        made.measure(phase, 1)
    assert [(prompts[0].prompt_id, target.sampling.temperature) for target, prompts in seen] == [
        ("a", 0.7), ("a", 0), ("c", 0.2), ("h", 0.2),
    ]  # fmt: skip


def test_answers_of_a_further_workload_are_not_kept_for_comparison(session, tmp_path):
    code = Workload((Prompt("c", "code", "c"),))
    made = session(workloads={"code": code}, prompt_ids=("c",), outputs=((1, 2),))
    made.measure(replace(PHASE, workload="code"), 1)
    assert not (tmp_path / "outputs-c100.jsonl").exists()


def test_workload_that_the_engine_was_not_given_is_refused(session):
    with pytest.raises(UsageError, match=r"must be of a workload that the engine was given, of '', but got 'verse'"):
        session().measure(replace(PHASE, workload="verse"), 1)
