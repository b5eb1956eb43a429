"""Log phrases: which cause the first line that any phrase knows tells."""

from collections.abc import Sequence

import pytest

from search.dialects import for_release, known_releases
from search.outcomes import Reason
from search.server.classify import classify


@pytest.fixture
def first_cause(tmp_path):
    """What a server's log tells with one release's phrases before the generic ones."""

    def read(lines: Sequence[str], release: str) -> Reason | None:
        log = tmp_path / "server.log"
        log.write_text("\n".join(lines) + "\n")
        reason, _ = classify(log, exit_code=1, dialect=for_release(release))
        return None if reason is Reason.UNKNOWN else reason

    return read


def raised_in(function: str, error: str, *, file: str = "srt/model_executor/model_runner.py") -> list[str]:
    return [
        "[2025-11-29 10:00:00 TP0] Scheduler hit an exception: Traceback (most recent call last):",
        f'  File "/opt/sglang/{file}", line 7, in {function}',
        "    do()",
        error,
        "",
        "[2025-11-29 10:00:01] Received sigquit from a child process. It usually means the child failed.",
    ]


OOM = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB."
LOGS = [
    (["launch_server.py: error: unrecognized arguments: --tp 2"], Reason.ARG_UNKNOWN),
    (["sglang serve: error: argument --speculative-algorithm: invalid choice: 'FOO'"], Reason.ARG_UNKNOWN),
    (["usage: x", "sglang serve: error: ambiguous option: --cuda-graph-max could match --a, --b"], Reason.ARG_UNKNOWN),
    (
        raised_in(
            "prepare_server_args",
            "ValueError: Currently standalone speculative decoding does not support dp.",
            file="srt/server_args.py",
        ),
        Reason.ARG_INVALID_COMBO,
    ),
    (raised_in("check_server_args", "AssertionError"), Reason.ARG_INVALID_COMBO),
    (raised_in("prepare_server_args", "AssertionError", file="srt/server_args.py"), Reason.ARG_INVALID_COMBO),
    (
        raised_in(
            "forward", "RuntimeError: Sizes of tensors must match except in dimension 1. Expected size 6 but got 8"
        ),
        Reason.ARG_INVALID_COMBO,
    ),
    (
        raised_in("capture", "Exception: Capture cuda graph failed: selected index k out of range"),
        Reason.ARG_INVALID_COMBO,
    ),
    (
        raised_in("load", "AttributeError: 'KimiK25' object has no attribute 'set_eagle3_layers_to_capture'"),
        Reason.ARG_INVALID_COMBO,
    ),
    (raised_in("load_model", OOM), Reason.OOM_WEIGHTS),
    (raised_in("init_memory_pool", OOM), Reason.OOM_KV),
    (raised_in("init_device_graphs", OOM), Reason.OOM_GRAPH),
    (raised_in("event_loop_overlap", OOM), Reason.OOM_RUNTIME),
    (["KV Cache is allocated. #tokens: 1000", OOM], Reason.OOM_GRAPH),
    (["The server is fired up and ready to roll!", OOM], Reason.OOM_RUNTIME),
    ([OOM], Reason.OOM_WEIGHTS),
    (["Exception: Capture cuda graph failed: CUDA out of memory. Tried"], Reason.OOM_GRAPH),
    (["RuntimeError: Not enough memory. Please try to increase --mem-fraction-static."], Reason.OOM_KV),
    (["max_total_tokens=10 is larger than the profiled value -48848. Use the profiled value"], Reason.OOM_KV),
    (["AssertionError: max_running_request is zero"], Reason.OOM_KV),
    (["RuntimeError: The memory capacity is unbalanced. Some GPUs may be occupied"], Reason.HOST_BUSY),
    (["[TP0] The memory capacity is unbalanced. Some GPUs may be occupied by other processes."], None),
    (raised_in("__init__", "KeyError: 12", file="device_communicators/torch_symm_mem.py"), Reason.COMM_UNSUPPORTED),
    (["torch.distributed.DistBackendError: NCCL error in: x.cpp, unhandled system error"], Reason.COMM_HOST_FAULT),
    (
        raised_in("load_weights", "RuntimeError: size mismatch for lm_head", file="speculative/standalone_worker.py"),
        Reason.DRAFT_MISMATCH,
    ),
    (["RuntimeError: Cannot find any model weights with `/models/x`"], Reason.WEIGHT_LOAD),
    (raised_in("init", "ModuleNotFoundError: No module named 'deep_gemm'"), Reason.MISSING_MODULE),
    (["Ignore import error when loading sglang.srt.models.x: No module named 'y'"], None),
    (["ERROR: [Errno 98] error while attempting to bind on address: address already in use"], Reason.PORT_BUSY),
    (["nccl_port at 4000 is not available in 60 seconds."], Reason.PORT_BUSY),
    (["OSError: [Errno 28] No space left on device: '/dev/shm/x'"], Reason.HOST_OOM),
    (["torch.AcceleratorError: CUDA error: an illegal memory access was encountered"], Reason.CUDA_FAULT),
    (["Scheduler watchdog timeout (self.watchdog_timeout=300, self.soft=False)"], Reason.SERVER_HANG_LOAD),
    (["Scheduler watchdog timeout (self.watchdog_timeout=300, self.soft=True)"], None),
    (raised_in("event_loop_normal", "IndexError: list index out of range"), Reason.SERVER_CRASH_LOAD),
    (["Received sigquit from a child process. It usually means the child failed."], None),
]


@pytest.mark.parametrize("release", known_releases())
@pytest.mark.parametrize(("log", "cause"), LOGS, ids=[str(place) for place in range(len(LOGS))])
def test_log_tells_its_root_cause(first_cause, log, cause, release):
    assert first_cause(log, release) is cause


@pytest.mark.parametrize(
    ("release", "cause"), [("0.5.9", None), ("0.5.11", Reason.HOST_OOM), ("0.5.23", Reason.HOST_OOM)]
)
def test_silently_killed_scheduler_is_told_from_0_5_11_on(first_cause, release, cause):
    line = "RuntimeError: Rank 0 scheduler died during initialization (exit code: -9). If exit code is -9 (SIGKILL), a"
    assert first_cause([line], release) is cause


@pytest.mark.parametrize("release", ["0.5.9", "0.5.11", "0.5.16"])
def test_graph_capture_followed_by_a_missing_module_blames_the_module(first_cause, release):
    log = [
        "Capture cuda graph end. Time elapsed: 37 s",
        *raised_in("init", "ModuleNotFoundError: No module named 'deep_gemm'"),
    ]
    assert first_cause(log, release) is Reason.MISSING_MODULE


@pytest.mark.parametrize("release", known_releases())
def test_no_healthy_line_tells_a_cause(first_cause, release):
    healthy = [
        "[TP0] Load weight begin. avail mem=138.00 GB",
        "[TP0] Load weight end. elapsed=3.1 s, type=LlamaForCausalLM",
        "[TP0] KV Cache is allocated. #tokens: 1000, K size: 1.00 GB, V size: 1.00 GB",
        "[TP0] Capture cuda graph begin. This can take up to several minutes. avail mem=60.00 GB",
        "[TP0] Capture draft cuda graph end. Time elapsed: 1.00 s. mem usage=0.10 GB.",
        "[TP0] max_total_num_tokens=1000, chunked_prefill_size=8192, max_running_requests=128",
        "The server is fired up and ready to roll!",
        "[TP0] Decode batch, #running-req: 1, accept len: 2.37, gen throughput (token/s): 300.00",
        "Spec v1 is used for eagle/eagle3/standalone speculative decoding because overlap schedule is disabled.",
        "Spec v1 is used for eagle/eagle3/standalone speculative decoding because spec v2 currently only supports topk = 1.",
        "SGLANG_ENABLE_SPEC_V2 has been removed: speculative decoding always runs the V2 worker.",
        "Auto-enabling FlashInfer AllReduce Fusion on SM90/SM10X for Qwen3MoeForCausalLM",
        "speculative_adaptive disabled: speculative_eagle_topk=4 (only topk=1 is supported). Falling back to static",
    ]
    assert first_cause(healthy, release) is None
