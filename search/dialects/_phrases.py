"""Log lines that tell a cause, shared by the releases read so far.

Only roots are listed. What follows from a root (`Received sigquit from a child process`, exit
code -9) is an echo and names no cause. Lines were read in sglang 0.5.9 and 0.5.11, the others are
of PyTorch, NCCL, CPython and uvicorn. A frame such as `in load_model` is a line of a Python traceback.
"""

from __future__ import annotations

from typing import Final

from search.dialects.base import Phrase
from search.outcomes import Reason

_ERROR = r"^[\w.]*(?:Error|Exception)\b"
_CUDA_OOM = r"OutOfMemoryError|CUDA out of memory|CUDA error: out of memory|cudaErrorMemoryAllocation|CUBLAS_STATUS_ALLOC_FAILED"
_DRAFT = r"speculative/\w*(?:worker|eagle|draft)\w*\.py"

ARGUMENTS: Final = (
    Phrase(
        r": error: (?:unrecognized arguments|ambiguous option|argument |the following arguments)", Reason.ARG_UNKNOWN
    ),
    Phrase(r"Spec v2 currently only supports topk = 1", Reason.ARG_INVALID_COMBO),
    # More draft tokens than the tree can hold; as a rule wrapped into "Capture cuda graph failed".
    Phrase(r"selected index k out of range", Reason.ARG_INVALID_COMBO),
    # A tree on the old v2 worker (sglang#13352, sglang#14077).
    Phrase(r"Sizes of tensors must match except in dimension 1", Reason.ARG_INVALID_COMBO),
    Phrase(r"has no attribute 'set_eagle3_layers_to_capture'", Reason.ARG_INVALID_COMBO),
    Phrase(r"only supports topk ?= ?1 for speculative decoding", Reason.ARG_INVALID_COMBO),
    Phrase(r"EAGLE is not supported in (?:decode )?attention backend", Reason.ARG_INVALID_COMBO),
    Phrase(r"FlashAttention v3 Backend requires SM", Reason.ARG_INVALID_COMBO),
    # An attention backend for MLA (flashmla, cutlass_mla, …) on a model without it: seen with 0.5.11 and a Llama draft.
    Phrase(
        r"'ModelConfig' object has no attribute '(?:kv_lora_rank|qk_\w+_head_dim|v_head_dim)'", Reason.ARG_INVALID_COMBO
    ),
    # An attention backend that was not built for this GPU; in any other frame the whole build was not.
    Phrase(
        r"no kernel image is available for execution on the device",
        Reason.ARG_INVALID_COMBO,
        frame=r"attention/\w+_backend\.py",
    ),
    Phrase(
        r"^(?:ValueError|AssertionError|TypeError|NotImplementedError)\b",
        Reason.ARG_INVALID_COMBO,
        frame=r", in (?:prepare_server_args|check_server_args)\b",
    ),
)

DRAFT: Final = (
    Phrase(r"Model architectures .* are not supported for now", Reason.DRAFT_MISMATCH, frame=_DRAFT),
    Phrase(r"Model architectures .* are not supported for now", Reason.ARG_INVALID_COMBO),
    Phrase(
        r"Attempted to load weight \(|size mismatch for|mat1 and mat2 shapes cannot be multiplied"
        r"|^AssertionError: self\.org_vocab_size=|^KeyError: '[\w.]*(?:weight|bias|embed|norm)",
        Reason.DRAFT_MISMATCH,
        frame=_DRAFT,
    ),
)

COMMUNICATION: Final = (
    Phrase(r"^KeyError: \d+$", Reason.COMM_UNSUPPORTED, frame=r"torch_symm_mem\.py"),
    Phrase(r"FlashInfer allreduce fusion requires SM", Reason.COMM_UNSUPPORTED),
    # A stack dump of a start-up that stands still (sglang#29073); faulthandler and py-spy both print "Thread".
    Phrase(r"_symmetric_memory|\brendezvous\b", Reason.COMM_INIT_HANG, frame=r"^(?:Current thread|Thread) \w+"),
    Phrase(
        r"NCCL error|ncclUnhandledCudaError|ncclSystemError|ncclInternalError|ncclRemoteError|DistBackendError",
        Reason.COMM_HOST_FAULT,
    ),
)

MEMORY: Final = (
    Phrase(r"Not enough memory\. Please try to increase --mem-fraction-static", Reason.OOM_KV),
    Phrase(r"max_running_request is zero", Reason.OOM_KV),
    Phrase(r"profiled value -\d+", Reason.OOM_KV),
    Phrase(rf"Capture cuda graph failed: .*(?:{_CUDA_OOM})", Reason.OOM_GRAPH),
    Phrase(_CUDA_OOM, Reason.OOM_RUNTIME, frame=r", in event_loop_\w+"),
    Phrase(_CUDA_OOM, Reason.OOM_GRAPH, frame=r", in (?:init_device_graphs|init_cuda_graphs|capture)\b"),
    Phrase(_CUDA_OOM, Reason.OOM_KV, frame=r", in init_memory_pool\b"),
    Phrase(_CUDA_OOM, Reason.OOM_WEIGHTS, frame=r", in load_model\b"),
    # Without a traceback, what the log said last tells the phase.
    Phrase(_CUDA_OOM, Reason.OOM_RUNTIME, frame=r"The server is fired up and ready to roll"),
    Phrase(_CUDA_OOM, Reason.OOM_GRAPH, frame=r"KV Cache is allocated"),
    Phrase(_CUDA_OOM, Reason.OOM_WEIGHTS),
    Phrase(r"^MemoryError\b|Cannot allocate memory|No space left on device", Reason.HOST_OOM),
    Phrase(r"RuntimeError: The memory capacity is unbalanced", Reason.HOST_BUSY),
)

HOST: Final = (
    Phrase(r"^(?:ModuleNotFoundError|ImportError): ", Reason.MISSING_MODULE),
    Phrase(r"no kernel image is available for execution on the device", Reason.MISSING_MODULE),
    Phrase(r"address already in use", Reason.PORT_BUSY),
    Phrase(r" at \d+ is not available in \d+", Reason.PORT_BUSY),
    Phrase(
        r"Cannot find any model weights with|SafetensorError|Error while deserializing header"
        r"|does not appear to have a file named|OfflineModeIsEnabled|LocalEntryNotFoundError|RepositoryNotFoundError"
        r"|HFValidationError|Attempted to load weight \(",
        Reason.WEIGHT_LOAD,
    ),
    Phrase(
        r"CUDA error: (?:an illegal memory access|unspecified launch failure|misaligned address|device-side assert)"
        r"|cudaErrorIllegalAddress|CUBLAS_STATUS_EXECUTION_FAILED|uncorrectable ECC error",
        Reason.CUDA_FAULT,
    ),
)

UNDER_LOAD: Final = (
    # The soft watchdog prints the same words, goes on, and ends in `self.soft=True`.
    Phrase(r"watchdog timeout .*self\.soft=False", Reason.SERVER_HANG_LOAD),
    Phrase(_ERROR, Reason.SERVER_CRASH_LOAD, frame=r", in event_loop_\w+"),
    Phrase(r"Initialization failed\. warmup error:", Reason.SERVER_CRASH_LOAD),
)

COMMON: Final = ARGUMENTS + COMMUNICATION + DRAFT + MEMORY + HOST + UNDER_LOAD
"""All of the above, the more specific groups first."""
