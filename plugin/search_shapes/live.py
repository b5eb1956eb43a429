"""One rank of a running SGLang: the only module that touches SGLang's own objects. What it touches stands in
`internals.json`; what differs between releases, in the profile there."""

from __future__ import annotations

import gc
import logging
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

from search_shapes import internals, refusals
from search_shapes.graph_addresses import Addresses
from search_shapes.settings import Settings
from search_shapes.shape import Shape

log = logging.getLogger("search_shapes")

_NOTHING = Shape(0, 0, 0)
_WORKER = ("topk", "speculative_num_steps", "speculative_num_draft_tokens")
_DRAFT = (
    *_WORKER, "draft_attn_backend", "draft_extend_attn_backend", "cuda_graph_runner",
    "cuda_graph_runner_for_draft_extend", "index_share_for_mtp_iteration", "seed_dsa_topk_from_draft_extend",
    "dsa_extend_topk_buf", "dsa_index_topk", "dsa_seed_topk_width", "_topk1_parents_prealloc",
    "_topk1_score_indices_prealloc",
)  # fmt: skip
_RELAY = (
    "_forward_buf_initialized", "need_topk", "need_hidden_states", "topk_p_buf", "topk_index_buf",
    "hidden_states_buf", "draft_probs_buf", "dsa_topk_indices_buf", "needs_cpu_seq_lens",
)  # fmt: skip
_ABSENT = object()

Snapshot = tuple[list[tuple[Any, str, Any]], dict[str, Any]]


def reserve_tokens() -> int:
    """Cache slots that a request reserves ahead of each decode step, as it stands now."""
    from sglang.srt.mem_cache.allocation_sizing import get_alloc_reserve_per_decode

    return int(get_alloc_reserve_per_decode())


class LiveServer:
    """A scheduler, its speculative worker and the runners below, on one rank. See `switch.Server`."""

    def __init__(self, scheduler: Any, profile: dict[str, Any], release: str) -> None:
        self._scheduler = scheduler
        self._profile = profile
        self._release = release
        self._worker: Any = getattr(scheduler, "draft_worker", None)
        self._draft: Any = getattr(self._worker, "_draft_worker", None)
        target = getattr(self._worker, "_target_worker", None)
        self._target: Any = getattr(target, "model_runner", None)
        self._runner: Any = getattr(self._draft, "draft_runner", None)
        self._settings = Settings(profile["config"], (scheduler, self._worker, self._draft, self._target, self._runner))
        self._addresses = Addresses(scheduler)
        self._refuses: str | None = None
        self.page_size = int(self._settings.get("page_size") or 1)

    def refuses(self) -> str:
        """See `Server`."""
        if self._refuses is None:
            self._refuses = refusals.by_settings(self._settings.get) or self._by_parts()
        return self._refuses

    def busy(self) -> str:
        """See `Server`."""
        if getattr(self._scheduler, "_engine_paused", False):
            return "the engine is paused."
        return "" if self._scheduler.is_fully_idle() else "requests are running or waiting."

    def running(self) -> Shape:
        """See `Server`."""
        return _shape(self._worker) if hasattr(self._worker, "topk") else _NOTHING

    def places(self) -> dict[str, Shape | None]:
        """See `Server`."""
        if self.refuses():
            return {}
        topk, _, tokens = self.running()
        found: dict[str, Shape | None] = {
            "worker": _shape(self._worker),
            "draft worker": _shape(self._draft),
            "settings": Shape(*(self._settings.get(f"speculative_{name}") for name in ("eagle_topk", *_names()))),
        }
        draft, extend = self._draft.cuda_graph_runner, self._draft.cuda_graph_runner_for_draft_extend
        verify = self._target.decode_cuda_graph_runner
        if draft is not None:
            found["draft graphs"] = Shape(draft.topk, draft.speculative_num_steps, tokens)
        if extend is not None:
            found["draft extend graphs"] = Shape(
                getattr(extend, "topk", topk), extend.speculative_num_steps, extend.captured_req_width
            )
        if hasattr(verify, "speculative_num_steps"):  # without decode graphs the eager runner stands there
            found["verify graphs"] = Shape(topk, verify.speculative_num_steps, verify.speculative_num_draft_tokens)
        if topk == 1:
            chain = getattr(self._draft, "_topk1_score_indices_prealloc", None)
            found["chain buffers"] = None if chain is None else Shape(1, int(chain.shape[1]), int(chain.shape[1]) + 1)
        return found

    def free_gb(self) -> float:
        """See `Server`."""
        import torch

        gc.collect()
        torch.cuda.synchronize()
        torch.cuda.empty_cache()
        return float(torch.cuda.mem_get_info(self._worker.gpu_id)[0]) / 2**30

    def full(self) -> str:
        """See `Server`."""
        return self._addresses.full()

    def state(self) -> Any:
        """See `Server`."""
        from sglang.srt.speculative.adaptive_runtime_state import SpecRuntimeState

        draft, target = self._draft, self._target
        return SpecRuntimeState(
            speculative_num_steps=self._worker.speculative_num_steps,
            speculative_num_draft_tokens=self._worker.speculative_num_draft_tokens,
            draft_attn_backend=draft.draft_attn_backend,
            cuda_graph_runner=draft.cuda_graph_runner,
            target_attn_backend=target.attn_backend,
            target_graph_runner=target.decode_cuda_graph_runner,
            draft_extend_attn_backend=draft.draft_extend_attn_backend,
            cuda_graph_runner_for_draft_extend=draft.cuda_graph_runner_for_draft_extend,
        )

    def build(self, shape: Shape) -> Any:
        """See `Server`. Inside the contexts of `EAGLEWorkerV2.init_cuda_graphs`."""
        import torch

        self._guard_chain_buffers()
        snapshot = self.snapshot()
        torch.cuda.synchronize()
        try:
            self._set_topk(shape.topk)
            with self._contexts(), self._addresses.counted():
                state = self._worker.build_adaptive_runtime_state(shape.num_steps, shape.num_draft_tokens)
            torch.cuda.synchronize()
            return state
        finally:
            # SGLang puts steps and tokens back itself, but not topk, and not all after an error.
            self.restore(snapshot)

    def snapshot(self) -> Snapshot:
        """See `Server`."""
        held = [(self._worker, name) for name in _WORKER]
        held += [(self._draft, name) for name in _DRAFT]
        held += [(self._runner, name) for name in ("attn_backend", "draft_attn_backend")]
        held += [(self._target, name) for name in ("attn_backend", "decode_cuda_graph_runner")]
        held += [(self._scheduler.future_map, name) for name in _RELAY]
        values = [(owner, name, vars(owner).get(name, _ABSENT)) for owner, name in held]
        return values, self._settings.tree()

    def restore(self, snapshot: Snapshot) -> None:
        """See `Server`."""
        values, tree = snapshot
        for owner, name, value in values:
            if value is not _ABSENT:
                setattr(owner, name, value)
        self._settings.set_tree(tree)

    def apply(self, shape: Shape, state: Any) -> None:
        """See `Server`."""
        import torch

        self._guard_chain_buffers()
        self._set_topk(shape.topk)
        self._worker.speculative_num_steps = -1  # or it returns at once when only the steps are equal
        self._worker.apply_runtime_state(state)
        self._settings.set_tree(dict(zip(Settings.TREE, shape, strict=True)))
        if hasattr(self._draft, "dsa_extend_topk_buf"):
            self._draft.dsa_extend_topk_buf = None  # made anew when needed
        self._renew_relay()
        torch.cuda.synchronize()

    def settle(self) -> str:
        """See `Server`."""
        if not self._scheduler.flush_cache():
            return "requests came in between."
        counters = self._scheduler.metrics_reporter
        counters.spec_total_num_accept_tokens = counters.spec_total_num_forward_ct = 0
        return ""

    def _by_parts(self) -> str:
        if reason := refusals.by_worker(type(self._worker)):
            return reason
        if absent := internals.missing(self._release) + self._absent():
            return f"This SGLang {self._release} lacks {', '.join(absent)}; the table of internals says otherwise."
        return refusals.by_runners(self._worker, self._target, self._runner, self._scheduler.req_to_token_pool)

    def _absent(self) -> list[str]:
        owners = {
            "Scheduler": self._scheduler,
            "EAGLEWorkerV2": self._worker,
            "EagleDraftWorker": self._draft,
            "FutureMap": self._scheduler.future_map,
            "SchedulerMetricsReporter": self._scheduler.metrics_reporter,
            "ModelRunner": self._target,
        }
        absent = []
        for entry in internals.wanted(self._release):
            *_, owner, name = entry["name"].split(".")
            if entry["kind"] == "attribute" and owner in owners and not hasattr(owners[owner], name):
                absent.append(f"`{owner}.{name}`")
        return absent

    def _set_topk(self, topk: int) -> None:
        self._worker.topk = self._draft.topk = topk
        self._settings.set_tree({"speculative_eagle_topk": topk})
        if type(self._draft).__name__ == "StandaloneDraftWorker":
            # It has no draft indices to seed and sets this one value by itself.
            config = self._runner.model_config.hf_config
            self._draft.index_share_for_mtp_iteration = (
                getattr(config, "index_share_for_mtp_iteration", False) and topk == 1
            )
        else:
            self._draft._init_dsa_index_share_state()

    def _guard_chain_buffers(self) -> None:
        """Let the chain buffers be rebuilt only where there is a chain.

        SGLang asserts tokens == steps + 1 whenever topk is 1, also while it undoes an override and topk is
        already (or still) that of the other shape.
        """
        draft = self._draft
        if "_rebuild_topk1_chain_buffers" in vars(draft):
            return
        rebuild = draft._rebuild_topk1_chain_buffers

        def guarded() -> None:
            if draft.topk == 1 and draft.speculative_num_draft_tokens == draft.speculative_num_steps + 1:
                rebuild()

        draft._rebuild_topk1_chain_buffers = guarded

    def _renew_relay(self) -> None:
        relay = self._scheduler.future_map
        relay.dsa_topk_indices_buf = None
        if self._profile["relay"] == "flag":
            relay._forward_buf_initialized = False
        else:
            relay.need_topk = relay.need_hidden_states = False
            relay.topk_p_buf = relay.topk_index_buf = relay.hidden_states_buf = relay.draft_probs_buf = None
        from sglang.srt.managers.overlap_utils import decide_needs_cpu_seq_lens

        backends = self._worker.spec_v2_attn_backends
        if self._profile["cpu_lens"] == "backends":
            relay.needs_cpu_seq_lens = decide_needs_cpu_seq_lens(backends)
        else:
            relay.needs_cpu_seq_lens = decide_needs_cpu_seq_lens(self._scheduler.server_args, backends)

    @contextmanager
    def _contexts(self) -> Iterator[None]:
        from sglang.srt.layers.moe.utils import speculative_moe_a2a_backend_context, speculative_moe_backend_context

        with ExitStack() as stack:
            stack.enter_context(self._draft_context())
            stack.enter_context(speculative_moe_backend_context())
            stack.enter_context(speculative_moe_a2a_backend_context())
            yield

    def _draft_context(self) -> Any:
        draft = self._draft
        kind = self._profile["draft_context"]
        if kind == "tp_group":
            return draft.draft_tp_context(self._runner.tp_group)
        if kind == "tp_group_and_owner":
            return draft.draft_tp_context(self._runner.tp_group, owns_attention=draft.draft_owns_attention)
        from sglang.srt.speculative.spec_utils import draft_tp_context

        return draft_tp_context(draft.draft_owns_attention if kind == "owner" else draft.parallel_layout)


def _names() -> tuple[str, str]:
    return "num_steps", "num_draft_tokens"


def _shape(owner: Any) -> Shape:
    return Shape(*(int(getattr(owner, name)) for name in _WORKER))
