"""Real log shapes and the right answer for each."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from search.dialects import for_release
from search.outcomes import Blame, Reason
from search.server.classify import classify, classify_stall

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
    "mla-backend-without-mla": (-9, "", Reason.ARG_INVALID_COMBO, "AttributeError: 'ModelConfig' object has no attribute 'kv_lora_rank'", "attention backend"),
    "unknown-at-boot": (-9, "", Reason.START_CRASH, "triton.compiler.errors.CompilationError: at 12:4", "graph capture"),
    "survived-complaint": (-9, "c=100", Reason.OOM_RUNTIME, OOM, "c=100"),
    "killed-from-outside": (-9, "c=1", Reason.UNKNOWN, "ended by SIGKILL with no error in the log", "c=1"),
    "invalid-choice": (2, "", Reason.ARG_UNKNOWN, "launch_server.py: error: argument --speculative-algorithm", "arguments"),
    "model-flag-missing": (2, "", Reason.ARG_UNKNOWN, "sglang serve: error: the following arguments are required", "arguments"),
    "flag-gone-in-new-release": (2, "", Reason.ARG_UNKNOWN, "sglang serve: error: unrecognized arguments: --cuda-graph-bs", "arguments"),
    "flag-value-not-a-number": (2, "", Reason.ARG_UNKNOWN, "launch_server.py: error: argument --speculative-num-steps", "arguments"),
    "algorithm-unknown-by-name": (1, "", Reason.ARG_INVALID_COMBO, "ValueError: Unknown speculative algorithm name: FOO", "arguments"),
    "tree-with-pages-0.5.9": (1, "", Reason.ARG_INVALID_COMBO, "ValueError: speculative_eagle_topk > 1 with page_size > 1 is unstable", "arguments"),
    "tree-with-pages-0.5.13": (1, "", Reason.ARG_INVALID_COMBO, "ValueError: speculative_eagle_topk > 1 with page_size > 1 is only", "arguments"),
    "tree-on-trtllm-mha": (1, "", Reason.ARG_INVALID_COMBO, "ValueError: trtllm_mha backend only supports topk = 1", "arguments"),
    "tree-on-flashinfer-mla": (137, "", Reason.ARG_INVALID_COMBO, "ValueError: Currently Flashinfer MLA only supports topk=1", "attention backend"),
    "draft-backend-unknown": (-9, "", Reason.ARG_INVALID_COMBO, "ValueError: EAGLE is not supported in attention backend", "after memory pools"),
    "rejection-sampling-other-vocab": (-9, "", Reason.ARG_INVALID_COMBO, "ValueError: --speculative-use-rejection-sampling requires", "after memory pools"),
    "steps-outside-adaptive": (1, "", Reason.ARG_INVALID_COMBO, "ValueError: --speculative-num-steps=2 is not in the adaptive config", "arguments"),
    "lora-with-eagle": (1, "", Reason.ARG_INVALID_COMBO, "AssertionError: Currently LoRA is only compatible with NGRAM", "arguments"),
    "eagle3-on-a-model-without": (-9, "", Reason.ARG_INVALID_COMBO, "AttributeError: 'KimiK25ForConditionalGeneration' object has no", "after memory pools"),
    "heads-not-divisible": (-9, "", Reason.ARG_INVALID_COMBO, "AssertionError: 40 is not divisible by 16", "loading"),
    "kernel-needs-more-shared-memory": (-9, "", Reason.ARG_INVALID_COMBO, "triton.runtime.errors.OutOfResources", "graph capture"),
    "remote-code-not-trusted": (1, "", Reason.ARG_INVALID_COMBO, "ValueError: The repository /models/target contains custom code", "arguments"),
    "attention-kernel-for-another-gpu": (-9, "", Reason.ARG_INVALID_COMBO, "RuntimeError: CUDA error: no kernel image", "graph capture"),
    "build-for-other-gpus": (-9, "", Reason.MISSING_MODULE, "RuntimeError: CUDA error: no kernel image", "graph capture"),
    "draft-shapes-do-not-multiply": (-9, "", Reason.DRAFT_MISMATCH, "RuntimeError: mat1 and mat2 shapes cannot be multiplied", "graph capture"),
    "draft-with-another-vocab": (-9, "", Reason.DRAFT_MISMATCH, "AssertionError: self.org_vocab_size=128256", "loading weights"),
    "draft-weight-of-another-shape": (-9, "", Reason.DRAFT_MISMATCH, "AssertionError: Attempted to load weight (", "loading weights"),
    "target-weight-of-another-shape": (-9, "", Reason.WEIGHT_LOAD, "AssertionError: Attempted to load weight (", "loading weights"),
    "fusion-on-sm120": (-9, "", Reason.COMM_UNSUPPORTED, "ValueError: FlashInfer allreduce fusion requires SM90", "after memory pools"),
    "multicast-missing": (-9, "", Reason.COMM_UNSUPPORTED, "RuntimeError: CUDA driver error: multicast is not supported", "communication set-up"),
    "key-12-in-another-table": (-9, "", Reason.START_CRASH, "KeyError: 12", "loading weights"),
    "collective-timeout-at-start": (-6, "", Reason.COMM_INIT_HANG, "[rank0]:[E301 02:31:00.101 ProcessGroupNCCL.cpp:683]", "communication set-up"),
    "collective-timeout-under-load": (-6, "c=100", Reason.SERVER_HANG_LOAD, "[rank0]:[E301 02:31:00.101 ProcessGroupNCCL.cpp:683]", "c=100"),
    "nccl-remote-error-under-load": (-9, "c=100", Reason.COMM_HOST_FAULT, "torch.distributed.DistBackendError: NCCL error", "c=100"),
    "oom-graph-wrapped": (-9, "", Reason.OOM_GRAPH, "Exception: Capture cuda graph failed: CUDA out of memory", "graph capture"),
    "oom-draft-graph": (-9, "", Reason.OOM_GRAPH, OOM, "graph capture"),
    "oom-first-request": (-9, "", Reason.OOM_RUNTIME, OOM, "warm-up"),
    "oom-echo-first": (137, "", Reason.OOM_WEIGHTS, OOM, "loading weights"),
    "oom-cublas": (-9, "c=100", Reason.OOM_RUNTIME, "RuntimeError: CUDA error: CUBLAS_STATUS_ALLOC_FAILED", "c=100"),
    "oom-glued-to-the-progress-bar": (-9, "", Reason.OOM_GRAPH, OOM, "graph capture"),
    "oom-in-a-chained-handler": (-9, "", Reason.OOM_KV, OOM, "memory pools"),
    "shared-memory-full": (-9, "", Reason.HOST_OOM, "OSError: [Errno 28] No space left on device: '/dev/shm/", "loading"),
    "host-allocator": (-9, "", Reason.HOST_OOM, "RuntimeError: [enforce fail at alloc_cpu.cpp:116]", "loading weights"),
    "scheduler-killed-0.5.9": (1, "", Reason.UNKNOWN, "Rank 0 scheduler is dead", "loading weights"),
    "gpu-in-exclusive-use": (-9, "", Reason.HOST_BUSY, "RuntimeError: CUDA error: CUDA-capable device(s) is/are busy", "loading"),
    "no-driver": (1, "", Reason.MISSING_MODULE, "RuntimeError: Found no NVIDIA driver", "arguments"),
    "no-gpu-visible": (1, "", Reason.MISSING_MODULE, "RuntimeError: No CUDA GPUs are available", "arguments"),
    "name-not-in-module": (1, "", Reason.MISSING_MODULE, "ImportError: cannot import name 'trtllm_allreduce_fusion'", "arguments"),
    "nccl-port-taken": (1, "", Reason.PORT_BUSY, "ValueError: nccl_port at 31001 is not available", "arguments"),
    "rendezvous-port-taken": (-9, "", Reason.PORT_BUSY, "torch.distributed.DistNetworkError: The server socket has failed", "communication set-up"),
    "weights-cut-off": (-9, "", Reason.WEIGHT_LOAD, "safetensors_rust.SafetensorError: Error while deserializing", "loading weights"),
    "weights-on-a-stale-mount": (-9, "", Reason.WEIGHT_LOAD, "OSError: [Errno 116] Stale file handle", "loading weights"),
    "config-missing": (1, "", Reason.WEIGHT_LOAD, "OSError: /models/target does not appear to have a file named", "arguments"),
    "ecc-error": (-9, "c=100", Reason.CUDA_FAULT, "torch.AcceleratorError: CUDA error: uncorrectable ECC error", "c=100"),
    "device-assert-in-capture": (-9, "", Reason.CUDA_FAULT, "torch.AcceleratorError: CUDA error: device-side assert", "graph capture"),
    "soft-watchdog-then-crash": (-9, "c=100", Reason.SERVER_CRASH_LOAD, "IndexError: index 128 is out of bounds", "c=100"),
    "warm-up-times-out": (-9, "", Reason.SERVER_HANG_LOAD, "requests.exceptions.ReadTimeout", "warm-up"),
    "segfault-at-boot": (-11, "", Reason.START_CRASH, "Fatal Python error: Segmentation fault", "graph capture"),
    "segfault-under-load": (-9, "c=30", Reason.SERVER_CRASH_LOAD, "Fatal Python error: Segmentation fault", "c=30"),
    "broken-pipe-before-the-cause": (-9, "c=100", Reason.CUDA_FAULT, "torch.AcceleratorError: CUDA error: an illegal memory", "c=100"),
    "terminated-from-outside": (-15, "c=10", Reason.SERVER_CRASH_LOAD, "Subprocess scheduler_0 (pid=2871) crashed with exit code -15", "c=10"),
    "cublas-in-autotune": (-9, "", Reason.CUDA_FAULT, "RuntimeError: CUDA error: CUBLAS_STATUS_EXECUTION_FAILED", "after memory pools"),
    "dflash-capture-unpack": (-9, "", Reason.START_CRASH, "ValueError: too many values to unpack (expected 2)", "graph capture"),
    "draft-config-without-model-type": (1, "", Reason.DRAFT_MISMATCH, "ValueError: Unrecognized model in /models/draft.", "arguments"),
    "draft-model-type-unknown": (-9, "", Reason.DRAFT_MISMATCH, "ValueError: The checkpoint you are trying to load has model type `kimi_k2` but Transformers does not recognize this architecture.", "after memory pools"),
    "draft-moe-prepermute": (-9, "", Reason.ARG_INVALID_COMBO, "NotImplementedError: Pre-permute function for flashinfer to triton", "graph capture"),
    "draft-state-length": (-9, "c=100", Reason.SERVER_CRASH_LOAD, "AssertionError: length of new_indices: 5 != length of topk_p: 7", "c=100"),
    "fp8-blocks-do-not-divide": (-9, "", Reason.ARG_INVALID_COMBO, "ValueError: Weight output_partition_size = 320", "loading weights"),
    "fp8-blocks-do-not-divide-in-draft": (-9, "", Reason.ARG_INVALID_COMBO, "ValueError: Weight output_partition_size = 320", "loading weights"),
    "kernel-headers-not-fetched": (-9, "", Reason.HOST_FAULT, "2026-05-01 10:04:20,100 - ERROR - flashinfer.jit: Failed to download", "after memory pools"),
    "kv-leak-check-after-sigquit": (-9, "c=100", Reason.SERVER_CRASH_LOAD, "ValueError: token_to_kv_pool_allocator memory leak detected!", "c=100"),
    "mamba-track-none": (-9, "c=100", Reason.SERVER_CRASH_LOAD, "TypeError: 'NoneType' object cannot be interpreted as an integer", "c=100"),
    "mla-backend-on-mha-draft": (-9, "", Reason.ARG_INVALID_COMBO, "ValueError: trtllm_mla backend can only be used with MLA models.", "attention backend"),
    "prefill-graph-internal-assert": (-9, "", Reason.START_CRASH, "RuntimeError: num_active_captures_ > 0 INTERNAL ASSERT FAILED", "graph capture"),
    "pyspy-dump-after-death": (-9, "c=100", Reason.SERVER_CRASH_LOAD, "AttributeError: 'NoneType' object has no attribute 'topk_p'", "c=100"),
    "segfault-thrice-in-one-line": (-9, "c=100", Reason.SERVER_CRASH_LOAD, "Fatal Python error: Fatal Python error: Segmentation fault", "c=100"),
    "standalone-other-width": (-9, "c=100", Reason.SERVER_CRASH_LOAD, "RuntimeError: Sizes of tensors must match except in dimension 0.", "c=100"),
    "tokenizer-not-staged": (1, "", Reason.WEIGHT_LOAD, "ValueError: Couldn't instantiate the backend tokenizer from one of: (1) a `tokenizers` library", "loading"),
    "ended-while-loading": (0, "", Reason.UNKNOWN, "ended with exit code 0 and no error in the log; last line: Gracefully", "loading weights"),
}  # fmt: skip

# log -> reason, start of the root line, phase in the evidence; the server lives
STALLS = {
    "stall-in-rendezvous": (Reason.COMM_INIT_HANG, "stalled; last line: Init torch distributed begin.", "communication set-up"),
    "stall-with-stack-in-symm-mem": (Reason.COMM_INIT_HANG, "", "loading"),
    "stall-while-loading": (Reason.STARTUP_STALL, "stalled; last line: Loading safetensors checkpoint shards:  12%", "loading weights"),
    "stall-before-the-ranks": (Reason.STARTUP_STALL, "stalled; last line: No chat template found", "loading"),
    "stall-after-a-scheduler-died": (Reason.OOM_GRAPH, OOM, "graph capture"),
}  # fmt: skip

STARTED = (
    "[2026-12-01 02:00:00] server_args=ServerArgs(tp_size=4)\n[2026-12-01 02:00:01 TP0] Load weight end. elapsed=1 s\n"
)
SERVES = f"{STARTED}[2026-12-01 02:00:09] The server is fired up and ready to roll!\n"
INVALID = "RuntimeError: CUDA error: invalid argument"
MISFIT = "RuntimeError: mat1 and mat2 shapes cannot be multiplied (8x5120 and 7168x4096)"


def died_in(path: str, exception: str, *, function: str = "forward") -> str:
    """What a rank logs that dies of `exception` in one file of SGLang."""
    head = "[2026-12-01 02:00:10 TP0] Scheduler hit an exception: Traceback (most recent call last):"
    return f'{head}\n  File "/site/{path}", line 7, in {function}\n    run()\n{exception}\n'


@pytest.mark.parametrize(
    ("before", "path", "exception", "reason"),
    [
        (STARTED, "flashinfer/comm/trtllm_ar.py", INVALID, Reason.COMM_UNSUPPORTED),
        (STARTED, "sglang/srt/layers/flashinfer_comm_fusion.py", INVALID, Reason.COMM_UNSUPPORTED),
        (STARTED, "sglang/srt/distributed/device_communicators/custom_all_reduce.py", INVALID, Reason.COMM_UNSUPPORTED),
        (STARTED, "sglang/srt/layers/moe/fused_moe.py", INVALID, Reason.CUDA_FAULT),
        (STARTED, "sglang/srt/distributed/device_communicators/pynccl.py", INVALID, Reason.CUDA_FAULT),
        (STARTED, "sglang/srt/server_args.py", "ValueError: no backend for this draft", Reason.ARG_INVALID_COMBO),
        (SERVES, "sglang/srt/server_args.py", "ValueError: no backend for this draft", Reason.UNKNOWN),
        (STARTED, "sglang/srt/layers/linear.py", "ValueError: no backend for this draft", Reason.START_CRASH),
        (STARTED, "sglang/srt/speculative/eagle_worker.py", MISFIT, Reason.DRAFT_MISMATCH),
        (STARTED, "sglang/srt/layers/linear.py", MISFIT, Reason.START_CRASH),
    ],
)
def test_same_phrase_is_read_by_its_frame_and_its_moment(tmp_path, before, path, exception, reason):
    log = tmp_path / "server.log"
    log.write_text(before + died_in(path, exception))
    assert classify(log, exit_code=-9)[0] is reason


UNLISTED = {
    "RuntimeError: this kernel only supports head_dim 128": Reason.ARG_INVALID_COMBO,
    "PermissionError: [Errno 1] Operation not permitted: '/dev/gdrdrv'": Reason.HOST_FAULT,
    "IndexError: list index out of range": Reason.START_CRASH,
}


@pytest.mark.parametrize("exception", UNLISTED)
def test_exception_that_nobody_listed_is_read_by_its_kind_while_starting_and_is_a_crash_under_load(tmp_path, exception):
    log = tmp_path / "server.log"
    log.write_text(STARTED + died_in("sglang/srt/layers/linear.py", exception))
    assert classify(log, exit_code=-9)[0] is UNLISTED[exception]
    assert classify(log, exit_code=-9, phase="c=100")[0] is Reason.SERVER_CRASH_LOAD


@pytest.mark.parametrize(
    ("after", "told"),
    [
        ("ValueError: bad tensor on argument #1,\nexpected dtype=bfloat16\n\nlater", "argument #1, expected dtype=bfloat16"),
        ("CompilationError: at 1:2:\n    x = tl.dot(q, k)\n        ^\nUnsupported rhs dtype fp8e5\n", "at 1:2: Unsupported rhs"),
        ("RuntimeError: it failed\n[1/2] cc -c a.c\n/usr/bin/ld: cannot find -lx\n", "it failed /usr/bin/ld: cannot find -lx"),
        ("ImportError:\n[kernel] no library\n", "ImportError: [kernel] no library"),
    ],
)  # fmt: skip
def test_message_that_goes_on_is_read_to_the_cause(tmp_path, after, told):
    log = tmp_path / "server.log"
    log.write_text(STARTED + died_in("sglang/srt/models/x.py", after))
    assert told in classify(log, exit_code=-9)[1].root_line


def test_place_is_told_by_frames_where_a_log_begins_with_the_traceback(tmp_path):
    log = tmp_path / "server.log"
    for path, place in {
        "sglang/srt/model_executor/cuda_graph_runner.py": "graph capture",
        "sglang/srt/layers/attention/attention_registry.py": "attention backend",
        "sglang/srt/mem_cache/memory_pool.py": "memory pools",
        "sglang/srt/model_loader/loader.py": "loading weights",
        "sglang/srt/layers/linear.py": "loading",
    }.items():
        log.write_text(died_in(path, "KeyError: 7"))
        assert classify(log, exit_code=-9)[1].phase == place


def test_frames_of_a_harmless_traceback_say_nothing_of_a_later_one(tmp_path):
    """A draft worker complained and went on; then the target died of the same words."""
    harmless = 'Traceback (most recent call last):\n  File "/site/sglang/srt/speculative/eagle_worker.py", line 1, in x\nOSError: no hub\n'
    log = tmp_path / "server.log"
    log.write_text(STARTED + harmless + died_in("sglang/srt/layers/linear.py", MISFIT))
    assert classify(log, exit_code=-9)[0] is not Reason.DRAFT_MISMATCH


def test_each_log_has_an_answer():
    assert sorted([*ANSWERS, *STALLS]) == sorted(path.stem for path in LOGS.glob("*.log"))


def test_logs_show_every_reason_that_a_log_can_show():
    config = {reason for reason in Reason if reason.blame is Blame.CONFIG} - {
        Reason.BAD_OUTPUT,
        Reason.DETERMINISTIC_CRASH,
    }
    host = {reason for reason in Reason if reason.blame is Blame.HOST} - {Reason.RAY_INFRA, Reason.WORKER_LOST}
    shown = {answer[2] for answer in ANSWERS.values()} | {answer[0] for answer in STALLS.values()}
    assert shown == config | host | {Reason.CUDA_FAULT, Reason.START_CRASH, Reason.UNKNOWN}
    assert {answer[0] for answer in ANSWERS.values()} >= {0, 1, 2, -9, 137, -15}


@pytest.mark.parametrize("release", ["0.5.9", "0.5.11", None])
@pytest.mark.parametrize("name", STALLS)
def test_stall_is_classified_by_its_last_milestone(name, release):
    reason, root, where = STALLS[name]
    dialect = for_release(release) if release else None
    got, evidence = classify_stall(LOGS / f"{name}.log", detail="stalled", dialect=dialect)
    assert (got, evidence.phase, evidence.exit_code) == (reason, where, None)
    assert evidence.root_line.startswith(root)


@pytest.mark.parametrize("release", ["0.5.9", "0.5.11", None])
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


WORST = [b"Traceback (most recent call last):", b'  File "x.py", line 1, in load_model', b"RuntimeError", b"\r", b"\n",
         b"[2026-03-01 02:11:00 TP0] ", b"Scheduler hit an exception: ", b"\xff\xfe", b"\x00", b"\x1b[31m", b" ", b"KeyError: 12"]  # fmt: skip


@given(st.lists(st.one_of(st.sampled_from(WORST), st.binary(max_size=20))), st.integers(-64, 255) | st.none())
def test_no_log_is_too_broken_to_be_classified(tmp_path_factory, pieces, exit_code):
    log = tmp_path_factory.getbasetemp() / "broken.log"
    log.write_bytes(b"".join(pieces))
    reason, evidence = classify(log, exit_code=exit_code)
    assert reason in Reason and evidence.root_line
    assert classify_stall(log, detail="stalled")[1].root_line


def test_signal_without_a_name_is_told_by_its_number(tmp_path):
    assert classify(tmp_path / "none", exit_code=-40)[1].root_line.startswith("ended by signal 40 with no error")


def test_record_glued_to_a_progress_bar_is_a_line_of_its_own(tmp_path):
    log = tmp_path / "server.log"
    log.write_text("shards:   0%| | 0/1 [00:00<?, ?it/s][2026-03-01 02:11:03] Load weight begin. avail mem=1 GB\n")
    assert classify_stall(log, detail="stalled")[1].phase == "loading weights"


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
