"""As much of SGLang as the plugin's live part touches, with the traps of 0.5.16: asserts, early returns, caches.

The worker follows `EAGLEWorkerV2` of that release in what it overrides, restores, forgets and asserts; graphs and
backends are records of the shape they were made for.
"""

import contextlib
import sys
import types
from dataclasses import dataclass, field
from functools import cached_property
from types import SimpleNamespace
from typing import Any

from search_shapes import internals


class ServerArgs:
    """One mutable object, changed through `override`."""

    def __init__(self, **fields):
        vars(self).update(
            speculative_algorithm="EAGLE3", speculative_eagle_topk=4, speculative_num_steps=4,
            speculative_num_draft_tokens=16, page_size=1, host="127.0.0.1", dp_size=1, pp_size=1, nnodes=1,
            disaggregation_mode="null", enable_dp_attention=False,
        )  # fmt: skip
        vars(self).update(fields)
        self.mutations = []

    @cached_property
    def max_speculative_num_draft_tokens(self):
        return self.speculative_num_draft_tokens

    def override(self, source, **fields):
        self.mutations.append((source, fields))
        vars(self).update(fields)


@dataclass
class SpecRuntimeState:
    speculative_num_steps: int
    speculative_num_draft_tokens: int
    draft_attn_backend: Any
    cuda_graph_runner: Any
    target_attn_backend: Any
    target_graph_runner: Any
    draft_extend_attn_backend: Any
    cuda_graph_runner_for_draft_extend: Any


@dataclass
class Chain:
    shape: tuple


class EagleDraftWorker:
    def __init__(self, args, world):
        self.server_args, self.world = args, world
        self.topk = args.speculative_eagle_topk
        self.speculative_num_steps = args.speculative_num_steps
        self.speculative_num_draft_tokens = args.speculative_num_draft_tokens
        self._topk1_parents_prealloc = self._topk1_score_indices_prealloc = None
        self.draft_runner = SimpleNamespace(
            server_args=args, tp_group="tp", attn_backend=None, draft_attn_backend=None, canary_manager=None,
            model_config=SimpleNamespace(hf_config=SimpleNamespace(index_share_for_mtp_iteration=True, index_topk=64)),
        )  # fmt: skip
        self.dsa_extend_topk_buf = "stale"
        self.dsa_seed_topk_width = None
        self.draft_owns_attention, self.parallel_layout = "owner", "layout"
        self._init_dsa_index_share_state()
        self._rebuild_topk1_chain_buffers()

    def draft_tp_context(self, group, **owner):
        assert owner == ({"owns_attention": "owner"} if self.world.release == "0.5.21" else {})
        return self.world.entered(f"draft tp {group}")

    def _init_dsa_index_share_state(self):
        config = self.draft_runner.model_config.hf_config
        self.index_share_for_mtp_iteration = config.index_share_for_mtp_iteration and self.topk == 1
        self.dsa_index_topk = config.index_topk
        self.seed_dsa_topk_from_draft_extend = self.index_share_for_mtp_iteration

    def _rebuild_topk1_chain_buffers(self):
        if self.topk != 1:
            return
        assert self.speculative_num_draft_tokens == self.speculative_num_steps + 1, "topk=1 requires a chain"
        self._topk1_parents_prealloc = Chain((8, self.speculative_num_steps))
        self._topk1_score_indices_prealloc = Chain((8, self.speculative_num_steps))

    def init_attention_backend(self):
        made = (self.topk, self.speculative_num_steps, self.index_share_for_mtp_iteration)
        self.draft_attn_backend = ("draft backend", *made)
        self.draft_extend_attn_backend = ("extend backend", *made)
        self.draft_runner.draft_attn_backend = self.draft_attn_backend
        self.draft_runner.attn_backend = self.draft_extend_attn_backend

    def _capture_cuda_graphs(self):
        args = self.server_args
        self.cuda_graph_runner = self.cuda_graph_runner_for_draft_extend = None
        self.world.seen_in.append(tuple(self.world.contexts))
        if "draft" in self.world.faults:
            raise RuntimeError("CUDA out of memory")
        common = {"topk": args.speculative_eagle_topk, "speculative_num_steps": args.speculative_num_steps}
        if self.speculative_num_steps > 1:
            self.cuda_graph_runner = SimpleNamespace(**common)
        self.cuda_graph_runner_for_draft_extend = SimpleNamespace(
            captured_req_width=args.speculative_num_draft_tokens, **common
        )


class EAGLEWorkerV2:
    def __init__(self, args, world):
        self.server_args, self.world, self.gpu_id, self.adaptive_controller = args, world, 0, None
        self.topk = args.speculative_eagle_topk
        self.speculative_num_steps = args.speculative_num_steps
        self.speculative_num_draft_tokens = args.speculative_num_draft_tokens
        self._draft_worker = EagleDraftWorker(args, world)
        runner = SimpleNamespace(server_args=args, prefill_cuda_graph_runner=None)
        self._target_worker = SimpleNamespace(model_runner=runner)
        self._draft_worker.init_attention_backend()
        self._draft_worker._capture_cuda_graphs()
        runner.attn_backend = ("target backend", self.topk, self.speculative_num_draft_tokens)
        runner.decode_cuda_graph_runner = self._verify_graphs(
            args.speculative_num_steps, args.speculative_num_draft_tokens
        )

    def _verify_graphs(self, steps, tokens):
        if "verify" in self.world.faults:
            raise AssertionError("shared logits buffer holds 2048 rows")
        return SimpleNamespace(speculative_num_steps=steps, speculative_num_draft_tokens=tokens)

    @property
    def spec_v2_attn_backends(self):
        runner = self._target_worker.model_runner
        return (
            runner.attn_backend,
            self._draft_worker.draft_attn_backend,
            self._draft_worker.draft_extend_attn_backend,
        )

    def build_adaptive_runtime_state(self, speculative_num_steps, speculative_num_draft_tokens, cuda_graph_bs=None):
        draft = self._draft_worker
        with self._override_worker_state(speculative_num_steps, speculative_num_draft_tokens):
            draft.init_attention_backend()
            draft._capture_cuda_graphs()
            return SpecRuntimeState(
                speculative_num_steps, speculative_num_draft_tokens, draft.draft_attn_backend, draft.cuda_graph_runner,
                ("target backend", self.server_args.speculative_eagle_topk, speculative_num_draft_tokens),
                self._verify_graphs(speculative_num_steps, speculative_num_draft_tokens),
                draft.draft_extend_attn_backend, draft.cuda_graph_runner_for_draft_extend,
            )  # fmt: skip

    def apply_runtime_state(self, state):
        if self.speculative_num_steps == state.speculative_num_steps:
            return
        self.speculative_num_steps = state.speculative_num_steps
        self.speculative_num_draft_tokens = state.speculative_num_draft_tokens
        draft, runner = self._draft_worker, self._target_worker.model_runner
        draft.speculative_num_steps = state.speculative_num_steps
        draft.speculative_num_draft_tokens = state.speculative_num_draft_tokens
        draft.draft_attn_backend = draft.draft_runner.draft_attn_backend = state.draft_attn_backend
        draft.cuda_graph_runner = state.cuda_graph_runner
        draft.draft_extend_attn_backend = draft.draft_runner.attn_backend = state.draft_extend_attn_backend
        draft.cuda_graph_runner_for_draft_extend = state.cuda_graph_runner_for_draft_extend
        draft._rebuild_topk1_chain_buffers()
        if "apply" in self.world.faults:
            raise RuntimeError("half way")
        runner.attn_backend = state.target_attn_backend
        runner.decode_cuda_graph_runner = state.target_graph_runner
        self.server_args.override(
            "adaptive_spec.restore", speculative_num_steps=state.speculative_num_steps,
            speculative_num_draft_tokens=state.speculative_num_draft_tokens,
        )  # fmt: skip

    @contextlib.contextmanager
    def _override_worker_state(self, steps, tokens):
        draft, args = self._draft_worker, self.server_args
        names = (
            "draft_attn_backend",
            "draft_extend_attn_backend",
            "cuda_graph_runner",
            "cuda_graph_runner_for_draft_extend",
        )
        backup = {name: getattr(draft, name) for name in names}
        numbers = (self.speculative_num_steps, self.speculative_num_draft_tokens)
        backends = (draft.draft_runner.draft_attn_backend, draft.draft_runner.attn_backend)
        for owner in (self, draft):
            owner.speculative_num_steps, owner.speculative_num_draft_tokens = steps, tokens
        args.override("capture", speculative_num_steps=steps, speculative_num_draft_tokens=tokens)
        draft._rebuild_topk1_chain_buffers()
        try:
            yield
        finally:
            for owner in (self, draft):
                owner.speculative_num_steps, owner.speculative_num_draft_tokens = numbers
            vars(draft).update(backup)
            draft.draft_runner.draft_attn_backend, draft.draft_runner.attn_backend = backends
            args.override("restore", speculative_num_steps=numbers[0], speculative_num_draft_tokens=numbers[1])
            draft._rebuild_topk1_chain_buffers()


EAGLEWorkerV2.__module__ = "sglang.srt.speculative.eagle_worker_v2"


@dataclass
class World:
    """One rank's scheduler, and the modules the plugin imports."""

    faults: set = field(default_factory=set)
    contexts: list = field(default_factory=list)
    seen_in: list = field(default_factory=list)
    arguments: dict = field(default_factory=dict)
    release: str = "0.5.16"

    def __post_init__(self):
        self.args = ServerArgs(**self.arguments)
        assert self.args.max_speculative_num_draft_tokens  # read while pools are made, and so cached
        self.worker = EAGLEWorkerV2(self.args, self)
        self.scheduler = SimpleNamespace(
            server_args=self.args, draft_worker=self.worker, tp_cpu_group=None, req_to_token_pool=object(), idle=True,
            metrics_reporter=SimpleNamespace(spec_total_num_accept_tokens=9, spec_total_num_forward_ct=3),
            future_map=SimpleNamespace(
                _forward_buf_initialized=True, need_topk=True, need_hidden_states=True, needs_cpu_seq_lens=False, topk_p_buf=4, topk_index_buf=4,
                hidden_states_buf=None, draft_probs_buf=None, dsa_topk_indices_buf="stale",
            ),
        )  # fmt: skip
        self.scheduler.is_fully_idle = lambda: self.scheduler.idle
        self.scheduler.flush_cache = lambda: self.scheduler.idle

    @contextlib.contextmanager
    def entered(self, name):
        self.contexts.append(name)
        yield
        self.contexts.remove(name)

    def install(self, monkeypatch):
        """Put the modules where the plugin imports them from; their functions are looked at elsewhere."""
        monkeypatch.setattr(internals, "missing", lambda *_: [])
        here = sys.modules[__name__]
        memory = types.SimpleNamespace(
            synchronize=lambda: None, empty_cache=lambda: None, mem_get_info=lambda _: (20 * 2**30, 140 * 2**30)
        )
        outputs = types.SimpleNamespace(
            SetInternalStateReqOutput=lambda updated: types.SimpleNamespace(updated=updated)
        )

        def reserve():
            args = self.args
            return 2 * max(
                args.speculative_eagle_topk * args.speculative_num_steps, args.max_speculative_num_draft_tokens
            )

        def needs_cpu(*given):
            assert len(given) == (2 if self.release in ("0.5.16", "0.5.18") else 1)
            return given[-1][0][1] == 1

        context = SimpleNamespace(override=self.args.override, resolved_server_args_dict=lambda: {**vars(self.args)})
        if self.release == "0.5.16":
            settings = {"get_server_args": lambda: self.args}
        else:
            settings = {"get_context": lambda: context}
        for name, parts in {
            "torch": {"cuda": memory},
            "sglang.srt.speculative.adaptive_runtime_state": {"SpecRuntimeState": here.SpecRuntimeState},
            "sglang.srt.layers.moe.utils": {
                "speculative_moe_backend_context": lambda: self.entered("moe"),
                "speculative_moe_a2a_backend_context": lambda: self.entered("a2a"),
            },
            "sglang.srt.runtime_context": settings,
            "sglang.srt.speculative.spec_utils": {"draft_tp_context": lambda what: self.entered(f"draft tp {what}")},
            "sglang.srt.managers.overlap_utils": {"decide_needs_cpu_seq_lens": needs_cpu},
            "sglang.srt.managers.io_struct": vars(outputs),
            "sglang.srt.mem_cache.allocation_sizing": {"get_alloc_reserve_per_decode": reserve},
        }.items():
            for length in range(1, name.count(".") + 1):
                parent = ".".join(name.split(".")[:length])
                monkeypatch.setitem(sys.modules, parent, types.ModuleType(parent))
            module = types.ModuleType(name)
            vars(module).update(parts)
            monkeypatch.setitem(sys.modules, name, module)
