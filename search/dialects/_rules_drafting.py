"""Rules of what is drafted, on which worker, for which target."""

from __future__ import annotations

from collections.abc import Iterator

from search.config import SpecVersion
from search.dialects._adaptive import candidates
from search.dialects._rule import Draft, Test
from search.dialects._rules_models import without_own_layers
from search.dialects._setting import Setting, number
from search.dialects._targets import KIMI_K25, WITHOUT_MTP, takes
from search.dialects._traits import Traits

_PATCH_TREES = "SGLang 0.5.13 (sglang#26997, sglang#26972), or a patch that backports trees to the v2 worker"


def rules(traits: Traits) -> Iterator[Draft]:
    """Worker, targets and trees."""
    yield from _worker(traits)
    yield from _targets(traits)
    yield from _trees(traits)


def _worker(traits: Traits) -> Iterator[Draft]:
    refuses = "Spec v2 currently only supports topk = 1 for speculative decoding."
    rewrites = (
        "Spec v1 is used for eagle/eagle3/standalone speculative decoding because spec v2 currently only supports "
        "topk = 1. (The server does not refuse: it would silently run the v1 config.)"
    )
    yield Draft(
        "v2-topk1-only",
        rewrites if traits.tree_falls_back_to_v1 else refuses,
        lambda s: s.is_tree and s.drafts_like_eagle and s.config.spec_version is SpecVersion.V2,
        _PATCH_TREES,
    )
    yield Draft(
        "v1-worker-gone",
        f"SGLang {traits.release} has no v1 worker for this algorithm (removed by sglang#25464): `spec_version` is `off` or `v2`.",
        lambda s: s.config.spec_version is SpecVersion.V1 and s.algorithm not in s.traits.v1_algorithms,
        "SGLang 0.5.12.post1 or older (NGRAM and DFLASH: 0.5.13.post1 or older)",
    )


def _lacks_hook(algorithm: str) -> Test:
    def broken(s: Setting) -> bool:
        asked = s.speculates and s.algorithm == algorithm
        return asked and not takes(algorithm, s.deployment.architecture, s.traits.release)

    return broken


def _is_kimi_k25(s: Setting) -> bool:
    return s.deployment.architecture == KIMI_K25


def _targets(traits: Traits) -> Iterator[Draft]:
    if not takes("EAGLE3", KIMI_K25, traits.release):
        yield Draft(
            "eagle3-kimi-k25",
            f"{KIMI_K25} has no set_eagle3_layers_to_capture in this release, so EAGLE3 cannot run on it.",
            lambda s: _is_kimi_k25(s) and _lacks_hook("EAGLE3")(s),
            "SGLang 0.5.10, or a patch with sglang#19689",
            source_of="eagle3-target",
        )
    yield Draft(
        "eagle3-target",
        f"The target's class has no set_eagle3_layers_to_capture in SGLang {traits.release}, so EAGLE3 cannot run on it.",
        lambda s: not _is_kimi_k25(s) and _lacks_hook("EAGLE3")(s),
        "a release or a patch whose model class has it",
    )
    yield Draft(
        "dflash-target",
        f"The target's class has no set_dflash_layers_to_capture in SGLang {traits.release}, which is required for DFLASH.",
        _lacks_hook("DFLASH"),
        "a release or a patch whose model class has it",
    )
    yield Draft(
        "draft-missing",
        "DFLASH speculative decoding requires setting --speculative-draft-model-path.",
        lambda s: s.speculates and s.algorithm == "DFLASH" and not s.deployment.draft,
    )
    yield Draft(
        "eagle-draft-missing",
        "Without a draft EAGLE (NEXTN) drafts with the target's own layers, and this target has none. (Accepted by the "
        "arguments; the weights of the draft are then missing.)",
        lambda s: (
            without_own_layers(s)
            or (
                s.speculates
                and s.algorithm == "EAGLE"
                and not s.deployment.draft
                and s.deployment.architecture in WITHOUT_MTP
            )
        ),
        "a `draft`",
    )


def _wasted_depth(s: Setting) -> bool:
    config = s.config
    if not s.is_tree or not s.drafts_like_eagle:
        return False
    assert config.num_draft_tokens and config.num_steps
    return config.num_draft_tokens < config.num_steps + 1


def _paged_tree(s: Setting) -> bool:
    backend = s.resolved.backends.attention
    # An unknown backend is the server's to judge: it may well be flashinfer.
    return (
        s.is_tree
        and s.drafts_like_eagle
        and s.resolved.page_size > 1
        and backend is not None
        and backend not in s.traits.paged_tree_backends
    )


def _paged_ngram(s: Setting) -> bool:
    backend = s.resolved.backends.attention
    wide = s.speculates and s.algorithm == "NGRAM" and s.is_tree
    return wide and s.resolved.page_size > 1 and backend not in (None, "flashinfer")


def _short_branch(s: Setting) -> bool:
    """The window is 12 where nothing says otherwise (0.5.9 `srt/server_args.py`)."""
    if not s.speculates or s.algorithm != "NGRAM" or s.config.num_steps is None:
        return False
    return s.config.num_steps <= number(s.args, "speculative-ngram-max-match-window-size", 12)


def _narrow(s: Setting) -> bool:
    """Both are 1 where nothing says otherwise."""
    if not s.speculates or s.algorithm != "NGRAM" or s.config.topk is None:
        return False
    return number(s.args, "speculative-ngram-min-bfs-breadth", 1) > s.config.topk


def _corpus_takes_all(s: Setting) -> bool:
    if not s.speculates or s.algorithm != "NGRAM" or "speculative-ngram-external-corpus-path" not in s.args:
        return False
    budget = number(s.args, "speculative-ngram-external-sam-budget", 0)
    return not 0 < budget < (s.config.num_draft_tokens or 0)


def _starts_outside(s: Setting) -> bool:
    if s.resolved.adaptive == "off" or s.traits.adaptive != "by-batch-size":
        return False
    return s.config.num_steps not in candidates(s.resolved.adaptive, s.traits)


def _trees(traits: Traits) -> Iterator[Draft]:
    yield Draft(
        "wasted-depth",
        "With topk > 1 and num_draft_tokens < num_steps + 1 the best num_draft_tokens - 1 nodes never reach the last "
        "steps: fewer steps draft the same tree.",
        _wasted_depth,
        of_the_tree=True,
    )
    if "triton" in traits.paged_tree_backends:
        words = (
            f"speculative_eagle_topk > 1 with page_size > 1 is only supported on {traits.paged_tree_backends}. "
            "Use page_size == 1 or one of those backends."
        )
        yield Draft("tree-paging", words, _paged_tree)
    else:
        words = (
            "speculative_eagle_topk > 1 with page_size > 1 is unstable and produces incorrect results for paged "
            "attention backends. This combination is only supported for the 'flashinfer' backend. (fa3 is accepted too.)"
        )
        yield Draft("tree-paging", words, lambda s: _paged_tree(s) and s.resolved.backends.attention != "triton")
        yield Draft(
            "tree-paging-triton",
            words,
            lambda s: _paged_tree(s) and s.resolved.backends.attention == "triton",
            "SGLang 0.5.13, which allows paged trees on triton",
            source_of="tree-paging",
        )
    yield Draft(
        "ngram-paging",
        "speculative_eagle_topk > 1 with page_size > 1 is unstable and produces incorrect results for paged attention "
        "backends. This combination is only supported for the 'flashinfer' backend. (NGRAM's topk is its breadth.)",
        _paged_ngram,
    )
    yield Draft(
        "ngram-depth",
        f"{traits.ngram_depth_flag} must be greater than 1: the trie of NGRAM has no depth otherwise. (Thrown when the draft "
        "worker is built, after the weights are loaded.)",
        lambda s: s.speculates and s.algorithm == "NGRAM" and (s.config.num_steps or 2) < 2,
        of_the_tree=True,
    )
    yield Draft(
        "ngram-window",
        "max_match_window_size must be less than branch_length (`num_steps`). (Thrown when the draft worker is built.)",
        _short_branch,
        "a smaller `speculative-ngram-max-match-window-size`, or SGLang 0.5.10",
        of_the_tree=True,
    )
    yield Draft(
        "ngram-breadth",
        "min_bfs_breadth must be less than or equal to max_bfs_breadth (`topk`). (Thrown when the draft worker is built, "
        "after the weights are loaded.)",
        _narrow,
        "a smaller `speculative-ngram-min-bfs-breadth`",
        of_the_tree=True,
    )
    yield Draft(
        "ngram-corpus",
        "With an external corpus speculative_ngram_external_sam_budget must be positive and less than or equal to "
        "speculative_num_draft_tokens - 1.",
        _corpus_takes_all,
        "another `speculative-ngram-external-sam-budget`",
        of_the_tree=True,
    )
    yield Draft(
        "adaptive-steps",
        "--speculative-num-steps is not in the adaptive config candidate_steps. Pass one of those values.",
        _starts_outside,
    )
