"""Runs in the engine's own interpreter: what does the installed SGLang make of these arguments?

It is passed as text (`python -c`), because that interpreter has no `search` package. Nothing is
launched and no weights are read: this is the release's own parser and `ServerArgs` resolution, the
first second of every launch.

One JSON object a line. First, unasked, the state of the installation: `ready`, `no-gpu` (the release
resolves otherwise without one), `moved` (SGLang is there, but not its functions where all releases
from 0.5.9 to 0.5.23 have them) or `unimportable`. Then an answer for each request on stdin.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import sys
import time
from collections.abc import Callable
from importlib import import_module
from typing import Any

SERVER_ARGS = "sglang.srt.server_args"
FIELDS = (
    "attention_backend",
    "attn_dp_size",
    "cuda_graph_bs",
    "cuda_graph_max_bs",
    "decode_attention_backend",
    "disable_cuda_graph",
    "disable_custom_all_reduce",
    "disable_overlap_schedule",
    "dp_size",
    "enable_dp_attention",
    "enable_flashinfer_allreduce_fusion",
    "enable_mixed_chunk",
    "enable_mscclpp",
    "enable_nccl_nvls",
    "enable_symm_mem",
    "enable_torch_symm_mem",
    "flashinfer_allreduce_fusion_backend",
    "max_running_requests",
    "mem_fraction_static",
    "page_size",
    "pp_size",
    "prefill_attention_backend",
    "speculative_adaptive",
    "speculative_algorithm",
    "speculative_attention_mode",
    "speculative_draft_attention_backend",
    "speculative_eagle_topk",
    "speculative_ngram_max_bfs_breadth",
    "speculative_num_draft_tokens",
    "speculative_num_steps",
    "tp_size",
)
Answer = dict[str, Any]


def find() -> tuple[Answer, Any]:
    """The state of the installation, and its module of arguments where that can be asked."""
    began = time.monotonic()
    try:
        module = import_module(SERVER_ARGS)
        torch = import_module("torch")
        state = {"gpus": torch.cuda.device_count() if torch.cuda.is_available() else 0}
    # Whatever an import raises ends a real launch too.
    except (Exception, SystemExit) as error:  # noqa: BLE001
        missing = error.name if isinstance(error, ModuleNotFoundError) else None
        moved = missing in (SERVER_ARGS, "sglang.srt")
        return {"state": "moved" if moved else "unimportable", "words": first_line(error)}, None
    if not all(hasattr(module, name) for name in ("prepare_server_args", "ServerArgs")):
        return {"state": "moved", "words": f"{SERVER_ARGS} has no `prepare_server_args`"}, None
    state |= {"import_s": time.monotonic() - began, "state": "ready" if state["gpus"] else "no-gpu"}
    return state, module


def answer(module: Any, argv: list[str]) -> Answer:
    """Accepted with the resolved values, or refused with the release's own words."""
    stderr = io.StringIO()
    try:
        with contextlib.redirect_stderr(stderr):
            args = module.prepare_server_args(argv)
            if hasattr(args, "resolve_once"):  # 0.5.20 and later resolve apart from parsing
                args.resolve_once()
            args.check_server_args()
    except SystemExit:
        said = (stderr.getvalue().strip().splitlines() or [""])[-1]
        return {"accepted": False, "refusal": said.rpartition("error: ")[2] or "its parser exits without a word"}
    except Exception as error:  # noqa: BLE001 - any of them ends a real launch; handed on with its words
        return {"accepted": False, "refusal": first_line(error)}
    # From 0.5.20 attributes stay as they were passed.
    values = args.resolved_dict() if hasattr(args, "resolved_dict") else vars(args)
    kept = {name: plain(values[name]) for name in FIELDS if values.get(name) is not None}
    graphs = values.get("cuda_graph_config")
    if graphs is not None:  # 0.5.14 and later: one record for decode and prefill
        decode = part(graphs, "decode")
        kept["cuda_graph_max_bs"] = plain(part(decode, "max_bs"))
        kept["cuda_graph_bs"] = plain(part(decode, "bs"))
    return {"accepted": True, "resolved": {name: value for name, value in kept.items() if value is not None}}


def first_line(error: BaseException) -> str:
    """`ValueError: Spec v2 …`; the type alone for a bare assertion."""
    said = (str(error).strip().splitlines() or [""])[0]
    return f"{type(error).__name__}: {said}" if said else type(error).__name__


def part(record: Any, name: str) -> Any:
    """A field of a record that is a mapping in one release and an object in another."""
    return record.get(name) if isinstance(record, dict) else getattr(record, name, None)


def plain(value: Any) -> Any:
    """As JSON has it: enumerations by value, unknown objects as text."""
    value = getattr(value, "value", value)
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    return value if isinstance(value, (str, int, float, bool)) or value is None else str(value)


def serve(say: Callable[[Answer], None]) -> None:
    """Answer until stdin ends."""
    state, module = find()
    say(state)
    if state["state"] != "ready":
        return
    # Resolution sets variables of its own (spec v2, NCCL); each request begins from the same ones.
    base = dict(os.environ)
    for line in sys.stdin:
        request = json.loads(line)
        env = {**base, **request["env"]}
        os.environ.clear()
        os.environ.update({name: value for name, value in env.items() if value is not None})
        began = time.monotonic()
        said = answer(module, request["argv"])
        say({**said, "seconds": time.monotonic() - began})


def main() -> None:
    """Keep stdout for answers: what imports and warnings print goes to stderr."""
    with os.fdopen(os.dup(1), "w") as out:
        os.dup2(2, 1)

        def say(what: Answer) -> None:
            out.write(json.dumps(what) + "\n")
            out.flush()

        serve(say)
    # Libraries of a GPU build may hang in their own clean-up.
    os._exit(0)


if __name__ == "__main__":
    main()
