"""The fake's command line, and how a release resolves it."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping

_TEXTS = (
    "model-path", "tokenizer-path", "host", "dtype", "quantization", "kv-cache-dtype", "load-format", "log-level",
    "device", "served-model-name", "api-key", "dist-init-addr", "attention-backend", "prefill-attention-backend",
    "decode-attention-backend", "sampling-backend", "grammar-backend", "moe-runner-backend",
    "speculative-draft-model-path", "speculative-draft-attention-backend", "speculative-draft-load-format",
    "speculative-attention-mode", "speculative-adaptive-config",
)  # fmt: skip
_NUMBERS = (
    "port", "nccl-port", "max-running-requests", "max-total-tokens", "context-length", "page-size",
    "chunked-prefill-size", "cuda-graph-max-bs", "decode-log-interval", "random-seed", "stream-interval",
    "speculative-num-steps", "speculative-eagle-topk", "speculative-num-draft-tokens",
)  # fmt: skip
_FRACTIONS = ("mem-fraction-static", "watchdog-timeout", "schedule-conservativeness")
_SWITCHES = (
    "trust-remote-code", "disable-radix-cache", "disable-overlap-schedule", "disable-cuda-graph",
    "disable-custom-all-reduce", "disable-piecewise-cuda-graph", "enable-flashinfer-allreduce-fusion",
    "enable-torch-symm-mem", "enable-symm-mem", "enable-mscclpp", "enable-metrics", "enable-dp-attention",
    "enable-mixed-chunk", "skip-server-warmup", "log-requests",
    "speculative-adaptive",
)  # fmt: skip
_OLD_RELEASES = ("0.5.9", "0.5.10", "0.5.10.post1")
_TREES_FALL_BACK = frozenset({"0.5.11", "0.5.12", "0.5.12.post1"})
"""v2 only on request; later ones run v2 unless a tree or a flag says otherwise."""
_TWO_WORKERS = (*_OLD_RELEASES, "0.5.11", "0.5.12", "0.5.12.post1")
"""Later ones have v2 alone, trees included (sglang#27964)."""


def parser(release: str) -> argparse.ArgumentParser:
    """Flags of the real server that studies use; anything else is refused as argparse does."""
    prog = "launch_server.py" if release == "0.5.9" else "sglang serve"
    made = argparse.ArgumentParser(prog=prog)
    for name in _TEXTS:
        made.add_argument(f"--{name}", required=name == "model-path")
    for name in _NUMBERS:
        made.add_argument(f"--{name}", type=int)
    for name in _FRACTIONS:
        made.add_argument(f"--{name}", type=float)
    for name in _SWITCHES:
        made.add_argument(f"--{name}", action="store_true")
    if release != "0.5.9":
        made.add_argument("--enforce-disable-flashinfer-allreduce-fusion", action="store_true")
    made.add_argument("--tp-size", "--tensor-parallel-size", type=int)
    made.add_argument("--dp-size", "--data-parallel-size", type=int)
    made.add_argument("--cuda-graph-bs", type=int, nargs="+")
    made.add_argument("--speculative-algorithm", choices=("EAGLE", "EAGLE3", "NEXTN", "STANDALONE", "NGRAM"))
    made.set_defaults(host="127.0.0.1", port=30000, tp_size=1, dp_size=1, decode_log_interval=40, page_size=1)
    return made


def resolve(args: argparse.Namespace, release: str, env: Mapping[str, str], log: Callable[[str], None]) -> None:
    """Rewrite arguments in place as the release does.

    Args:
        args: What was parsed.
        release: Such as `0.5.11`.
        env: The server's environment.
        log: Gets the lines that the release logs.

    Raises:
        ValueError, AssertionError, TypeError: In the release's own words, or its lack of them.
    """
    if args.enable_flashinfer_allreduce_fusion and getattr(args, "enforce_disable_flashinfer_allreduce_fusion", False):
        args.enable_flashinfer_allreduce_fusion = False
    if args.speculative_algorithm is None:
        args.max_running_requests = args.max_running_requests or 4096
        return
    if args.speculative_algorithm == "NEXTN":
        args.speculative_algorithm = "EAGLE"
    if args.max_running_requests is None:
        args.max_running_requests = 48
        log(
            "Max running requests is reset to 48 for speculative decoding. You can override this by explicitly setting --max-running-requests."
        )
    _choose_worker(args, release, env, log)
    _fill_tree(args, log)


def _choose_worker(args: argparse.Namespace, release: str, env: Mapping[str, str], log: Callable[[str], None]) -> None:
    asked = env.get("SGLANG_ENABLE_SPEC_V2", "").lower()
    if release not in _TWO_WORKERS:
        return
    tree = args.speculative_eagle_topk is not None and args.speculative_eagle_topk > 1
    if release in _OLD_RELEASES:
        v2 = asked in ("1", "true", "yes")
        if v2 and tree:
            raise ValueError("Spec v2 currently only supports topk = 1 for speculative decoding.")
        args.disable_overlap_schedule = not v2
        return
    if release not in _TREES_FALL_BACK:
        return  # v2 takes trees, and what chose v1 is gone (sglang#27964)
    if tree and not args.disable_overlap_schedule:
        log(
            "Spec v1 is used for eagle/eagle3/standalone speculative decoding because spec v2 currently only "
            "supports topk = 1."
        )
    args.disable_overlap_schedule |= tree or asked in ("0", "false", "no")


def _fill_tree(args: argparse.Namespace, log: Callable[[str], None]) -> None:
    if args.speculative_num_steps is None:
        assert args.speculative_eagle_topk is None and args.speculative_num_draft_tokens is None
        args.speculative_num_steps, args.speculative_eagle_topk, args.speculative_num_draft_tokens = 3, 1, 4
    if args.speculative_eagle_topk is None:
        raise TypeError("'>' not supported between instances of 'NoneType' and 'int'")
    if args.speculative_eagle_topk == 1 and args.speculative_num_draft_tokens != args.speculative_num_steps + 1:
        log("speculative_num_draft_tokens is adjusted to speculative_num_steps + 1 when speculative_eagle_topk == 1")
        args.speculative_num_draft_tokens = args.speculative_num_steps + 1
