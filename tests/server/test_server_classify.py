"""Real log shapes and the right answer for each."""

from pathlib import Path

import pytest

from search.dialects import for_release
from search.outcomes import Reason
from search.server import classify, classify_stall

LOGS = Path(__file__).parent.parent / "data" / "logs"
OOM = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 1.75 GiB."

# log -> exit code, phase we were in, reason, start of the root line, phase in the evidence
ANSWERS = {
    "unknown-flag": (2, "", Reason.ARG_UNKNOWN, "launch_server.py: error: unrecognized arguments: --tp 2", "arguments"),
    "ambiguous-flag": (2, "", Reason.ARG_UNKNOWN, "sglang serve: error: ambiguous option: --cuda-graph-max-bs", "arguments"),
    "v2-tree-refused": (1, "", Reason.ARG_INVALID_COMBO, "ValueError: Spec v2 currently only supports topk = 1", "arguments"),
    "bare-assertion": (1, "", Reason.ARG_INVALID_COMBO, "AssertionError", "arguments"),
    "steps-without-topk": (1, "", Reason.ARG_INVALID_COMBO, "TypeError: '>' not supported between", "arguments"),
    "tree-on-old-v2": (-9, "c=100", Reason.ARG_INVALID_COMBO, "RuntimeError: Sizes of tensors must match", "c=100"),
    "tree-too-large": (-9, "", Reason.ARG_INVALID_COMBO, "RuntimeError: selected index k out of range", "graph capture"),
    "deep-gemm-missing": (137, "", Reason.MISSING_MODULE, "ModuleNotFoundError: No module named 'deep_gemm'", "after memory pools"),
    "module-missing-in-capture": (-9, "", Reason.MISSING_MODULE, "ModuleNotFoundError: No module named 'deep_gemm'", "graph capture"),
    "shared-library-missing": (1, "", Reason.MISSING_MODULE, "ImportError: libcudart.so.13", "arguments"),
    "oom-weights": (-9, "", Reason.OOM_WEIGHTS, OOM, "loading weights"),
    "oom-kv-pool": (-9, "", Reason.OOM_KV, "RuntimeError: Not enough memory. Please try to increase", "memory pools"),
    "oom-kv-allocation": (-9, "", Reason.OOM_KV, OOM, "memory pools"),
    "oom-kv-profiled": (-9, "", Reason.OOM_KV, "max_total_tokens=4096 is larger than the profiled value -48848", "memory pools"),
    "oom-kv-no-request": (-9, "", Reason.OOM_KV, "AssertionError: max_running_request is zero", "after memory pools"),
    "oom-graph": (-9, "", Reason.OOM_GRAPH, OOM, "graph capture"),
    "oom-draft-weights": (-9, "", Reason.OOM_WEIGHTS, OOM, "loading weights"),
    "oom-runtime": (-9, "c=100", Reason.OOM_RUNTIME, OOM, "c=100"),
    "draft-mismatch": (-9, "", Reason.DRAFT_MISMATCH, "RuntimeError: The size of tensor a (7168) must match", "loading weights"),
    "symm-mem-sm120": (-9, "", Reason.COMM_UNSUPPORTED, "KeyError: 12", "communication set-up"),
    "nccl-error": (-9, "", Reason.COMM_HOST_FAULT, "torch.distributed.DistBackendError: NCCL error", "communication set-up"),
    "peer-died-second": (-9, "c=100", Reason.CUDA_FAULT, "RuntimeError: CUDA error: an illegal memory access", "c=100"),
    "store-timeout": (-9, "", Reason.COMM_INIT_HANG, "torch.distributed.DistStoreError: Timed out", "communication set-up"),
    "host-oom-killer": (1, "", Reason.HOST_OOM, "RuntimeError: Rank 0 scheduler died during initialization", "loading weights"),
    "gpu-occupied": (-9, "", Reason.HOST_BUSY, "ValueError: The memory capacity is unbalanced", "loading"),
    "port-taken": (1, "", Reason.PORT_BUSY, "ERROR:    [Errno 98] error while attempting to bind", "warm-up"),
    "weights-missing": (-9, "", Reason.WEIGHT_LOAD, "RuntimeError: Cannot find any model weights with", "loading weights"),
    "hub-offline": (1, "", Reason.WEIGHT_LOAD, "huggingface_hub.errors.LocalEntryNotFoundError", "arguments"),
    "illegal-access": (-9, "c=100", Reason.CUDA_FAULT, "RuntimeError: CUDA error: an illegal memory access", "c=100"),
    "watchdog": (-9, "c=100", Reason.SERVER_HANG_LOAD, "Scheduler watchdog timeout", "c=100"),
    "crash-under-load": (-9, "c=100", Reason.SERVER_CRASH_LOAD, "IndexError: index 128 is out of bounds", "c=100"),
    "two-first-requests": (-9, "", Reason.SERVER_CRASH_LOAD, "RuntimeError: Sizes of tensors must match except in dimension 0", "warm-up"),
    "mla-backend-without-mla": (-9, "", Reason.ARG_INVALID_COMBO, "AttributeError: 'ModelConfig' object has no attribute 'kv_lora_rank'", "after memory pools"),
    "unknown-at-boot": (-9, "", Reason.UNKNOWN, "triton.compiler.errors.CompilationError: at 12:4", "graph capture"),
    "survived-complaint": (-9, "c=100", Reason.OOM_RUNTIME, OOM, "c=100"),
    "killed-from-outside": (-9, "c=1", Reason.SERVER_CRASH_LOAD, "ended by SIGKILL with no error in the log", "c=1"),
}  # fmt: skip


def test_each_log_has_an_answer():
    assert sorted(ANSWERS) == sorted(path.stem for path in LOGS.glob("*.log"))


@pytest.mark.parametrize("release", ["0.5.11", None])
@pytest.mark.parametrize("name", ANSWERS)
def test_log_is_classified_by_its_first_root_cause(name, release):
    exit_code, phase, reason, root, where = ANSWERS[name]
    dialect = for_release(release) if release else None
    got, evidence = classify(LOGS / f"{name}.log", exit_code=exit_code, phase=phase, dialect=dialect)
    assert (got, evidence.phase, evidence.exit_code) == (reason, where, exit_code)
    assert evidence.root_line.startswith(root)
    assert evidence.log_path.endswith(f"{name}.log")


def test_missing_log_is_unknown_and_says_so(tmp_path):
    reason, evidence = classify(tmp_path / "server.log", exit_code=3)
    assert reason is Reason.UNKNOWN
    assert evidence.root_line == "ended with exit code 3 and no error in the log, which is empty"


def test_huge_line_and_cut_utf8_do_not_hide_the_cause(tmp_path):
    log = tmp_path / "server.log"
    junk = b"x" * 5_000_000 + b"\n" + "Fehler: zu groß".encode()[:-1]
    log.write_bytes(junk + b"\n" + (LOGS / "oom-weights.log").read_bytes())
    assert classify(log, exit_code=-9)[0] is Reason.OOM_WEIGHTS


def test_progress_bar_before_the_cause_is_not_one_line(tmp_path):
    log = tmp_path / "server.log"
    bar = "".join(f"\rLoading safetensors checkpoint shards: {n}% Completed" for n in range(100))
    log.write_text(bar + "\nlaunch_server.py: error: unrecognized arguments: --tp 2\n")
    assert classify(log, exit_code=2)[1].root_line == "launch_server.py: error: unrecognized arguments: --tp 2"


def test_only_an_echo_is_quoted_but_not_believed(tmp_path):
    log = tmp_path / "server.log"
    log.write_text("[2026-03-01 02:11:09] Received sigquit from a child process. It usually means the child failed.\n")
    reason, evidence = classify(log, exit_code=-9)
    assert reason is Reason.UNKNOWN
    assert evidence.root_line.startswith("ended by SIGKILL with no error in the log")


def test_secret_in_the_root_line_is_masked(tmp_path):
    log = tmp_path / "server.log"
    log.write_text("sglang serve: error: unrecognized arguments: --api-key tr0ub4dor --tp 2\n")
    evidence = classify(log, exit_code=2)[1]
    assert "tr0ub4dor" not in evidence.root_line
    assert "--tp 2" in evidence.root_line


def test_stall_in_the_rendezvous_blames_communication(tmp_path):
    log = tmp_path / "server.log"
    log.write_text("[2026-03-01 02:11:00 TP0] Init torch distributed begin.\n")
    reason, evidence = classify_stall(log, detail="no sign of progress within 600 s")
    assert reason is Reason.COMM_INIT_HANG
    assert evidence.root_line == "no sign of progress within 600 s; last line: Init torch distributed begin."


def test_stall_with_a_stack_in_symmetric_memory_blames_communication(tmp_path):
    log = tmp_path / "server.log"
    log.write_text(
        "[2026-03-01 02:11:02 TP0] Load weight begin. avail mem=90 GB\n"
        "Thread 0x00007f (most recent call first):\n"
        '  File "/site/torch/distributed/_symmetric_memory/__init__.py", line 60 in enable_symm_mem_for_group\n'
    )
    assert classify_stall(log, detail="stalled")[0] is Reason.COMM_INIT_HANG


def test_stall_while_loading_blames_the_host(tmp_path):
    log = tmp_path / "server.log"
    log.write_text("[2026-03-01 02:11:02 TP0] Load weight begin. avail mem=90 GB\n")
    assert classify_stall(log, detail="stalled")[0] is Reason.STARTUP_STALL


def test_stall_after_a_scheduler_died_is_that_death(tmp_path):
    log = tmp_path / "server.log"
    dead = (LOGS / "oom-weights.log").read_text().partition("[2026-03-01 02:11:09]")[0]
    log.write_text(dead)
    assert classify_stall(log, detail="stalled")[0] is Reason.OOM_WEIGHTS
