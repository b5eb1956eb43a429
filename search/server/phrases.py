"""What logs of every release say about causes; a dialect holds only what its range says besides.

Texts are those of SGLang 0.5.9 to 0.5.23 and of the libraries under it (PyTorch, NCCL,
transformers, uvicorn). Order matters within this list: earlier ones are more specific.
"""

from __future__ import annotations

import re

from search.dialects import Phrase
from search.outcomes import Reason

_DRAFT_FILE = r"speculative/\w*(worker|eagle|draft)\w*\.py|, in _resolve_speculative_algorithm_alias"
_UNKNOWN_MODEL = (
    r"Model architectures .* are not supported for now|does not recognize this architecture|^ValueError: Unrecognized model in"
    r"|has no SGlang implementation"
)

_ALLREDUCE_FILE = (
    r'File ".*(flashinfer/comm/\w+|flashinfer_comm\w*|custom_all_reduce\w*|quick_all_reduce\w*|symm_mem\w*)\.py"'
)
"""All-reduce kernels that a config chooses; NCCL's own, which every config uses, is none of them."""

GENERIC: tuple[Phrase, ...] = (
    # The command line and its resolution.
    Phrase(r"error: (unrecognized arguments|ambiguous option|argument |the following arguments)", Reason.ARG_UNKNOWN),
    # A model that this release does not know: the draft's is the config's fault.
    Phrase(_UNKNOWN_MODEL, Reason.DRAFT_MISMATCH, frame=_DRAFT_FILE),
    Phrase(_UNKNOWN_MODEL, Reason.ARG_INVALID_COMBO),
    # 0.5.11 and 0.5.12 say the same in a mere warning: "Spec v1 is used … because spec v2 currently only …".
    Phrase(r"(?<!because spec v2 currently )only supports? topk ?= ?1", Reason.ARG_INVALID_COMBO),
    Phrase(r"speculative_eagle_topk.* > 1 with page_size", Reason.ARG_INVALID_COMBO),
    Phrase(r"selected index k out of range", Reason.ARG_INVALID_COMBO),
    Phrase(r"Sizes of tensors must match except in dimension 1", Reason.ARG_INVALID_COMBO),
    Phrase(r"not supported between instances of 'NoneType' and 'int'", Reason.ARG_INVALID_COMBO),
    Phrase(r"Unknown speculative algorithm name", Reason.ARG_INVALID_COMBO),
    Phrase(r"is not supported in (decode )?attention backend", Reason.ARG_INVALID_COMBO),
    Phrase(r"FlashAttention v3 Backend requires SM", Reason.ARG_INVALID_COMBO),
    Phrase(
        r"'ModelConfig' object has no attribute '(kv_lora_rank|qk_\w+_head_dim|v_head_dim)'", Reason.ARG_INVALID_COMBO
    ),
    Phrase(r"speculative decoding does not support", Reason.ARG_INVALID_COMBO),
    Phrase(r"not compatible with .*speculative decoding", Reason.ARG_INVALID_COMBO),
    Phrase(r"trust_remote_code=True", Reason.ARG_INVALID_COMBO),
    Phrase(r"has no attribute 'set_eagle3_layers_to_capture'", Reason.ARG_INVALID_COMBO),
    Phrase(r"--speculative-use-rejection-sampling requires", Reason.ARG_INVALID_COMBO),
    Phrase(r"^AssertionError: \d+ is not divisible by \d+", Reason.ARG_INVALID_COMBO),
    Phrase(r"is not divisible by weight quantization block", Reason.ARG_INVALID_COMBO),
    Phrase(r"Pre-permute function for .* is not registered", Reason.ARG_INVALID_COMBO),
    Phrase(
        r"^(?:ValueError|AssertionError|TypeError|NotImplementedError)\b",
        Reason.ARG_INVALID_COMBO,
        frame=r", in (?:prepare_server_args|check_server_args)\b",
    ),
    # A kernel that this config chose and this GPU is too small for, such as trees on SM120.
    Phrase(r"OutOfResources: out of resource", Reason.ARG_INVALID_COMBO),
    Phrase(r"no kernel image is available for execution", Reason.ARG_INVALID_COMBO, frame=r"attention/\w+_backend\.py"),
    # Weights of a shape that the model does not have: the draft's are the config's fault.
    Phrase(r"has no attribute '(set_embed|set_embed_and_head|get_embed_and_head|hot_token_id)'", Reason.DRAFT_MISMATCH),
    Phrase(
        r"Attempted to load weight \(|size mismatch for|mat1 and mat2 shapes cannot be multiplied"
        r"|^AssertionError: self\.org_vocab_size=|^KeyError: '[\w.]*(?:weight|bias|embed|norm)",
        Reason.DRAFT_MISMATCH,
        frame=_DRAFT_FILE,
    ),
    Phrase(r"Attempted to load weight \(", Reason.WEIGHT_LOAD),
    # Memory. The two texts of the first pair want opposite remedies.
    Phrase(r"Not enough memory\. Please try to increase --mem-fraction-static", Reason.OOM_KV),
    Phrase(r"max_running_request is zero", Reason.OOM_KV),
    Phrase(r"profiled value -\d", Reason.OOM_KV),
    Phrase(r"common cause is the OS OOM killer", Reason.HOST_OOM, frame=r"exit code: -9\)"),
    Phrase(r"DefaultCPUAllocator: can't allocate memory|Cannot allocate memory|^MemoryError", Reason.HOST_OOM),
    Phrase(r"unable to (mmap|allocate shared memory)|No space left on device.*shm", Reason.HOST_OOM),
    # Also said as a mere warning, where SGLANG_ENABLE_TP_MEMORY_INBALANCE_CHECK is off.
    Phrase(r"Error: .*(The memory capacity is unbalanced|GPUs may be occupied by other processes)", Reason.HOST_BUSY),
    Phrase(r"CUDA-capable device\(s\) is/are busy or unavailable", Reason.HOST_BUSY),
    # What is installed on the host.
    Phrase(r"^(ModuleNotFoundError|ImportError): |cannot open shared object file", Reason.MISSING_MODULE),
    Phrase(r"Capture cuda graph failed: No module named", Reason.MISSING_MODULE),
    Phrase(r"no kernel image is available for execution", Reason.MISSING_MODULE),
    Phrase(r"Found no NVIDIA driver|No CUDA GPUs are available|No accelerator .*is available", Reason.MISSING_MODULE),
    Phrase(
        r"No GPU memory values found|error from cudaGetDeviceCount|driver version is insufficient"
        r"|forward compatibility was attempted",
        Reason.MISSING_MODULE,
    ),
    Phrase(r"[Nn]inja (build failed|exited with status)|Error building extension", Reason.MISSING_MODULE),
    Phrase(r"Could not load any common_ops library|\bundefined symbol: ", Reason.MISSING_MODULE),
    Phrase(r"ERROR.*: Failed to download ", Reason.HOST_FAULT),
    Phrase(
        r"Disk quota exceeded|Read-only file system|No space left on device|Permission denied: '", Reason.HOST_FAULT
    ),
    # Communication between GPUs.
    Phrase(r"KeyError: \d+$", Reason.COMM_UNSUPPORTED, frame=r"torch_symm_mem\.py"),
    Phrase(r"allreduce fusion requires SM", Reason.COMM_UNSUPPORTED),
    # What the GPUs or their links cannot do for the all-reduce that this config chose; elsewhere it is the device's fault.
    Phrase(
        r"CUDA (driver )?error: (invalid (argument|device)|operation not (supported|permitted)|peer access|mapping of buffer)"
        r"|^(ValueError|AssertionError|NotImplementedError)\b",
        Reason.COMM_UNSUPPORTED,
        frame=_ALLREDUCE_FILE,
    ),
    Phrase(r"(symmetric memory|multicast|peer access).* (not|isn't) supported", Reason.COMM_UNSUPPORTED),
    Phrase(r"DistStoreError|waiting for clients|Rendezvous.* timed? ?out", Reason.COMM_INIT_HANG),
    Phrase(r"collective operation timeout", Reason.SERVER_HANG_LOAD, frame=r"fired up and ready to roll"),
    Phrase(r"collective operation timeout", Reason.COMM_INIT_HANG),
    Phrase(r"NCCL error|nccl(UnhandledCuda|System|Internal|Remote)Error|DistBackendError", Reason.COMM_HOST_FAULT),
    # Weights on the way in.
    Phrase(
        r"Cannot find any model weights|SafetensorError|(Header|Metadata)\w*(TooLarge|Incomplete)", Reason.WEIGHT_LOAD
    ),
    Phrase(r"LocalEntryNotFoundError|OfflineModeIsEnabled|RepositoryNotFoundError", Reason.WEIGHT_LOAD),
    Phrase(r"couldn't connect to '?https://huggingface\.co|is not a valid model identifier", Reason.WEIGHT_LOAD),
    Phrase(r"does not appear to have a file named|Can't load (the )?(tokenizer|config)", Reason.WEIGHT_LOAD),
    Phrase(r"Couldn't instantiate the backend tokenizer", Reason.WEIGHT_LOAD),
    Phrase(r"FileNotFoundError: .*(safetensors|\.json|\.bin)", Reason.WEIGHT_LOAD),
    Phrase(r"Input/output error|Stale file handle", Reason.WEIGHT_LOAD),
    # Ports, after minutes of loading.
    Phrase(r"[Aa]ddress already in use|EADDRINUSE|\bat \d+ is not available", Reason.PORT_BUSY),
    # The device itself.
    Phrase(r"(CUDA|HIP) error: |cudaError\w+|CUDA driver error|uncorrectable ECC", Reason.CUDA_FAULT),
    # Under load.
    Phrase(r"host='(127\.0\.0\.1|localhost)'.*Read timed out", Reason.SERVER_HANG_LOAD),
    Phrase(r"watchdog timeout(?!.*soft=True)", Reason.SERVER_HANG_LOAD),
    Phrase(r"^[\w.]*(Error|Exception)\b", Reason.SERVER_CRASH_LOAD, frame=r", in event_loop_\w+"),
)

OUT_OF_MEMORY = re.compile(r"OutOfMemoryError|CUDA out of memory|CUDA error: out of memory|CUBLAS_STATUS_ALLOC_FAILED")
"""Which pool it was is decided by `POOLS`, else by where it stands in the log, see `classify`."""

POOLS: tuple[Phrase, ...] = (
    Phrase(r"Capture cuda graph failed: ", Reason.OOM_GRAPH),
    Phrase(r"", Reason.OOM_RUNTIME, frame=r", in event_loop_\w+"),
    Phrase(r"", Reason.OOM_GRAPH, frame=r", in (?:init_device_graphs|init_cuda_graphs|capture)\b"),
    Phrase(r"", Reason.OOM_KV, frame=r", in init_memory_pool\b"),
    Phrase(r"", Reason.OOM_WEIGHTS, frame=r", in load_model\b"),
)
"""Frames of a traceback that show which pool was too small, whatever the line of the exception says."""

ECHO = re.compile(
    r"Received sigquit from a child|SIGQUIT received|(the|one) child failed|Possible solutions|^\d\. (set|disable|reduce) |Open an issue"
    r"|resource_tracker: |leaked (semaphore|shared_memory)|Killed$|^Aborted|core dumped"
    r"|Connection (closed|reset) by peer|Broken pipe|^EOFError|^ConnectionResetError|^KeyboardInterrupt"
    r"|^(During handling of|The above exception)|Initialization failed|died during initialization \(exit code: (?!-9\))"
)
"""Consequences of a failure elsewhere; never a root cause while anything else is there."""

DEATHS = re.compile(r"^Fatal Python error: |^Subprocess \w+ .*crashed with exit code|scheduler is dead")
"""Names no cause, but is the line to quote when there is none."""

BENIGN = re.compile(r"Ignore import error|\bWARNING\b|\w*Warning: |deprecated|^server_args=|^usage: |^\s*\[--")
"""Lines a healthy server prints too; they count only inside a traceback."""
