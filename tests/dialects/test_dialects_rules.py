"""Rules: what each release refuses, in whose words, and what lifts it."""

from dataclasses import replace

import pytest

from search.config import SpecConfig
from search.deployment import CheckpointFacts, Deployment, Hardware, Patch
from search.dialects import for_release, known_releases, known_rule_ids
from search.errors import ImpossibleTree, UnsupportedKnob, UsageError

WITH_V1 = ("0.5.9", "0.5.10", "0.5.10.post1", "0.5.11", "0.5.12", "0.5.12.post1")
SM120 = Hardware("NVIDIA RTX PRO 6000 Blackwell Server Edition", 120, 95.0, "pcie")
H200 = Hardware("NVIDIA H200", 90, 139.0, "nvlink")
B200 = Hardware("NVIDIA B200", 100, 178.0, "nvlink")
LLAMA = Deployment("/models/target", "/models/draft", "EAGLE3", 8, H200, "0.5.11", architecture="LlamaForCausalLM")
KIMI = Deployment(
    "/models/kimi", "/models/draft", "EAGLE3", 8, SM120, "0.5.9", architecture="KimiK25ForConditionalGeneration"
)


def broken(config_id: str, deployment: Deployment, release: str) -> set[str]:
    dialect = for_release(release)
    config = dialect.canonical(SpecConfig.from_id(config_id), deployment)
    return {rule.rule_id for rule in dialect.violations(config, deployment)}


def with_args(**server_args) -> Deployment:
    return replace(LLAMA, server_args={name.replace("_", "-"): value for name, value in server_args.items()})


def test_tree_on_v2_is_locked_on_0_5_9_in_the_servers_own_words():
    dialect = for_release("0.5.9")
    rules = dialect.violations(SpecConfig("v2", 4, 5, 8), LLAMA)
    assert [rule.rule_id for rule in rules] == ["v2-topk1-only"]
    assert rules[0].text == "Spec v2 currently only supports topk = 1 for speculative decoding."
    assert rules[0].source == "sglang 0.5.9 srt/server_args.py:2381"
    assert "0.5.13" in rules[0].unlock


def test_tree_on_v2_is_locked_on_0_5_11_because_another_config_would_run():
    rules = for_release("0.5.11").violations(SpecConfig("v2", 2, 2, 7), LLAMA)
    assert [rule.rule_id for rule in rules] == ["v2-topk1-only"]
    assert "would silently run the v1 config" in rules[0].text


@pytest.mark.parametrize("release", WITH_V1)
@pytest.mark.parametrize("config_id", ["off", "v1-k1-s2-d3", "v2-k1-s2-d3", "v1-k2-s2-d7", "v1-k4-s3-d16"])
def test_plain_configs_break_no_rule(config_id, release):
    assert broken(config_id, LLAMA, release) == set()


@pytest.mark.parametrize("release", known_releases())
def test_rule_ids_are_unique_and_every_rule_has_words_and_a_source_of_its_release(release):
    rules = for_release(release).rules()
    assert len({rule.rule_id for rule in rules}) == len(rules)
    places = tuple(f"sglang {release} {folder}/" for folder in ("srt", "jit_kernel", "kernels"))
    assert all(rule.text and rule.source.startswith(places) for rule in rules)


def test_kimi_eagle3_is_locked_on_stock_0_5_9_only_and_only_when_it_speculates():
    assert broken("v1-k1-s2-d3", KIMI, "0.5.9") == {"eagle3-kimi-k25"}
    assert broken("v1-k1-s2-d3", KIMI, "0.5.11") == set()
    assert broken("off", KIMI, "0.5.9") == set()


def test_patch_lifts_exactly_the_rules_it_names():
    patched = replace(KIMI, patches=(Patch("kimi", ("eagle3-kimi-k25",)),))
    assert broken("v1-k2-s2-d7+arf=auto", KIMI, "0.5.9") == {"eagle3-kimi-k25", "arf-sm120"}
    assert broken("v1-k2-s2-d7+arf=auto", patched, "0.5.9") == {"arf-sm120"}


@pytest.mark.parametrize("release", known_releases())
@pytest.mark.parametrize(("hardware", "locked"), [(SM120, True), (H200, False), (B200, False)])
def test_fusion_is_locked_where_its_path_is_never_taken(hardware, locked, release):
    assert broken("off+arf=auto", replace(LLAMA, hardware=hardware), release) == ({"arf-sm120"} if locked else set())


def test_named_fusion_backend_is_locked_before_0_5_14():
    (rule,) = for_release("0.5.11").violations(SpecConfig("off", allreduce_fusion="trtllm"), LLAMA)
    assert rule.rule_id == "arf-named-backend"
    assert "0.5.14" in rule.unlock


@pytest.mark.parametrize("deployment", [KIMI, replace(KIMI, server_args={"enable-torch-symm-mem": True})])
def test_torch_symmetric_memory_is_locked_on_sm120_by_knob_or_by_the_studys_own_flag(deployment):
    config_id = "off" if deployment.server_args else "off+art=torch-symm-mem"
    assert broken(config_id, deployment, "0.5.9") == {"torch-symm-mem-sm120"}


def test_depth_that_no_node_can_reach_is_dropped_not_locked():
    dialect = for_release("0.5.9")
    (rule,) = dialect.violations(SpecConfig("v1", 2, 4, 4), LLAMA)
    assert (rule.rule_id, rule.locks) == ("wasted-depth", False)
    assert dialect.violations(SpecConfig("v1", 2, 3, 4), LLAMA) == ()


@pytest.mark.parametrize(
    ("config_id", "rules"),
    [
        ("v1-k2-s2-d7+attn=triton+page=16", {"tree-paging-triton"}),
        ("v1-k2-s2-d7+attn=flashinfer+page=16", set()),
        ("v1-k2-s2-d7+attn=fa3+page=16", set()),
        ("v1-k2-s2-d7+attn=triton", set()),
        ("v1-k1-s2-d3+attn=triton+page=16", set()),
        # Backends that force a page size exclude trees.
        ("v1-k2-s2-d7+attn=flashmla", {"tree-paging"}),
        ("v1-k1-s2-d3+attn=flashmla", set()),
        ("v1-k1-s2-d3+attn=flex_attention", {"flex-attention-speculation", "draft-attention-backend"}),
        ("v1-k1-s2-d3+dattn=nonsense", {"draft-attention-backend"}),
        ("off+attn=trtllm_mla", {"trtllm-mla-gpu"}),
        ("off+attn=trtllm_mha", {"trtllm-mha-gpu"}),
    ],
)
@pytest.mark.parametrize("release", WITH_V1)
def test_attention_backend_and_page_size_rules_on_hopper(config_id, rules, release):
    assert broken(config_id, LLAMA, release) == rules


@pytest.mark.parametrize("release", WITH_V1)
def test_trtllm_mha_on_sm100_takes_chains_and_refuses_trees(release):
    b200 = replace(LLAMA, hardware=B200)
    assert broken("v2-k1-s2-d3+attn=trtllm_mha", b200, release) == set()
    assert broken("v1-k2-s2-d7+attn=trtllm_mha", b200, release) == {"tree-paging", "trtllm-mha-topk1"}


def test_trtllm_mha_for_decode_alone_is_allowed_on_hopper_from_0_5_11():
    split = with_args(decode_attention_backend="trtllm_mha", prefill_attention_backend="flashinfer")
    assert broken("off", split, "0.5.9") == {"trtllm-mha-gpu"}
    assert broken("off", split, "0.5.11") == set()


def test_tree_of_an_mla_target_on_sm100_meets_the_page_size_of_its_default_backend():
    b200 = replace(KIMI, hardware=B200)
    assert broken("v1-k2-s2-d7", b200, "0.5.11") == {"tree-paging"}
    assert broken("v1-k2-s2-d7+attn=triton", b200, "0.5.11") == set()


def test_fa3_is_refused_off_its_gpus_though_arguments_accept_it():
    assert broken("off+attn=fa3", replace(LLAMA, hardware=SM120), "0.5.11") == {"fa3-gpu"}
    ampere = replace(LLAMA, hardware=Hardware("NVIDIA A100", 80, 79.0, "nvlink"))
    assert broken("off+attn=fa3", ampere, "0.5.11") == set()
    assert broken("off+attn=fa3", replace(ampere, architecture="DeepseekV2ForCausalLM"), "0.5.11") == {"fa3-gpu"}


@pytest.mark.parametrize("release", WITH_V1)
def test_standalone_refuses_dp_attention_and_eagle3_does_not(release):
    dp = with_args(enable_dp_attention=True, dp_size=2)
    assert broken("v1-k1-s2-d3", replace(dp, algorithm="STANDALONE"), release) == {"standalone-dp-attention"}
    assert broken("v1-k1-s2-d3", dp, release) == set()
    assert broken("off", replace(dp, algorithm="STANDALONE"), release) == set()


def test_dp_attention_flag_without_ranks_does_nothing():
    alone = replace(with_args(enable_dp_attention=True), algorithm="STANDALONE")
    assert broken("v1-k1-s2-d3", alone, "0.5.11") == set()


@pytest.mark.parametrize(
    ("server_args", "rule"),
    [
        ({"enable_lora": True, "lora_paths": "adapter"}, "lora-speculation"),
        ({"pp_size": 2}, "pipeline-speculation"),
    ],
)
def test_study_flags_that_exclude_speculation_lock_it_and_leave_off_alone(server_args, rule):
    assert broken("v1-k1-s2-d3", with_args(**server_args), "0.5.11") == {rule}
    assert broken("off", with_args(**server_args), "0.5.11") == set()


def test_chunked_prefill_must_be_a_multiple_of_the_page():
    assert broken("off+page=64", with_args(chunked_prefill_size=1000), "0.5.11") == {"page-chunk"}
    assert broken("off+page=64", with_args(chunked_prefill_size=1024), "0.5.11") == set()


@pytest.mark.parametrize("release", [release for release in known_releases() if release not in WITH_V1])
def test_v1_is_locked_where_it_is_gone_and_trees_are_legal_on_v2(release):
    assert broken("v1-k2-s2-d7", LLAMA, release) == {"v1-worker-gone"}
    assert broken("v2-k2-s2-d7", LLAMA, release) == set()


@pytest.mark.parametrize(
    ("release", "architecture", "rules"),
    [
        ("0.5.9", "KimiK25ForConditionalGeneration", {"eagle3-kimi-k25"}),
        ("0.5.10.post1", "KimiK25ForConditionalGeneration", set()),
        ("0.5.11", "Gemma3ForCausalLM", {"eagle3-target"}),
        ("0.5.12.post1", "Gemma3ForCausalLM", set()),
        ("0.5.23", "Qwen3_5ForCausalLM", set()),
        ("0.5.9", "", set()),
    ],
)
def test_target_without_the_hooks_of_eagle3_is_locked_by_release(release, architecture, rules):
    dialect = for_release(release)
    assert broken("v2-k1-s2-d3", replace(LLAMA, architecture=architecture), release) == rules
    assert dialect.takes("EAGLE3", architecture) is (rules == set())


def test_dflash_is_taken_from_0_5_11_by_targets_with_its_hook():
    assert not for_release("0.5.10.post1").takes("DFLASH", "Qwen3ForCausalLM")
    assert for_release("0.5.11").takes("DFLASH", "Qwen3ForCausalLM")
    assert not for_release("0.5.11").takes("DFLASH", "Glm4MoeForCausalLM")
    assert broken("v1-k1-s15-d16", replace(LLAMA, algorithm="DFLASH", architecture="Glm4MoeForCausalLM"), "0.5.11") == {
        "dflash-target"
    }


def test_paged_trees_are_legal_on_triton_from_0_5_13():
    assert broken("v2-k2-s2-d7+attn=triton+page=16", LLAMA, "0.5.13.post1") == set()
    assert broken("v2-k2-s2-d7+attn=trtllm_mha", replace(LLAMA, hardware=B200), "0.5.13.post1") == {
        *("tree-paging", "trtllm-mha-topk1")
    }


def test_named_fusion_backends_grow_with_the_releases():
    assert broken("off+arf=mnnvl", LLAMA, "0.5.13.post1") == {"arf-named-backend"}
    assert broken("off+arf=mnnvl", LLAMA, "0.5.14") == set()
    assert broken("off+arf=cutedsl", replace(LLAMA, hardware=B200), "0.5.20") == {"arf-named-backend"}
    assert broken("off+arf=cutedsl", replace(LLAMA, hardware=B200), "0.5.23") == set()
    assert broken("off+arf=cutedsl", LLAMA, "0.5.23") == {"arf-cutedsl-gpu"}


def test_torch_symmetric_memory_on_sm120_dies_until_0_5_13_and_is_idle_from_0_5_14():
    assert broken("off+art=torch-symm-mem", KIMI, "0.5.13.post1") == {"torch-symm-mem-sm120"}
    assert for_release("0.5.14").canonical(SpecConfig.from_id("off+art=torch-symm-mem"), KIMI).config_id == "off"


def test_rejection_sampling_takes_chains_only():
    sampled = with_args(speculative_use_rejection_sampling=True)
    assert broken("v2-k1-s2-d3", sampled, "0.5.14") == set()
    assert broken("v2-k2-s2-d7", sampled, "0.5.14") == {"rejection-topk1"}


def test_adaptive_start_outside_its_candidates_is_dropped_from_0_5_13():
    assert broken("v2-k1-s2-d3+adapt=1-3-7", LLAMA, "0.5.13.post1") == {"adaptive-steps"}
    assert broken("v2-k1-s3-d4+adapt=1-3-7", LLAMA, "0.5.13.post1") == set()


def test_every_rule_is_one_that_some_patch_may_name():
    assert {"v2-topk1-only", "arf-sm120", "eagle3-kimi-k25", "v1-worker-gone"} <= known_rule_ids()


@pytest.mark.parametrize(
    ("release", "config", "rules"),
    [
        ("0.5.16", "v2-k1-s1-d2", {"ngram-depth"}),
        ("0.5.16", "v2-k1-s2-d3", set()),
        ("0.5.9", "v1-k1-s12-d8", {"ngram-window"}),
        ("0.5.9", "v1-k1-s13-d8", set()),
    ],
)
def test_trie_of_ngram_has_a_least_depth(release, config, rules):
    assert broken(config, replace(LLAMA, algorithm="NGRAM", draft=""), release) == rules


@pytest.mark.parametrize("release", ["0.5.9", "0.5.16", "0.5.23"])
def test_trie_of_ngram_is_at_most_as_wide_as_it_is_at_least(release):
    deployment = replace(with_args(speculative_ngram_min_bfs_breadth=4), algorithm="NGRAM", draft="")
    version = "v1" if release == "0.5.9" else "v2"
    assert broken(f"{version}-k2-s18-d12", deployment, release) == {"ngram-breadth"}
    assert broken(f"{version}-k4-s18-d12", deployment, release) == set()


@pytest.mark.parametrize(("budget", "rules"), [(0, {"ngram-corpus"}), (8, {"ngram-corpus"}), (7, set())])
def test_corpus_of_ngram_leaves_a_token_for_the_root(budget, rules):
    args = {"speculative_ngram_external_corpus_path": "/c.jsonl", "speculative_ngram_external_sam_budget": budget}
    deployment = replace(with_args(**args), algorithm="NGRAM", draft="")
    assert broken("v2-k4-s18-d8", deployment, "0.5.16") == rules


MIMO = replace(
    LLAMA,
    draft="",
    tp=8,
    architecture="MiMoV2ForCausalLM",
    target_facts=CheckpointFacts("MiMoV2ForCausalLM", mtp_layers=3, fused_shards=4),
)


@pytest.mark.parametrize(
    ("release", "tp", "args", "broken_rules"),
    [
        ("0.5.16", 8, {}, {"fused-projections"}),
        ("0.5.16", 4, {}, set()),
        ("0.5.16", 2, {}, {"fused-projections"}),
        ("0.5.16", 8, {"dp-size": 2, "enable-dp-attention": True}, set()),
        ("0.5.23", 8, {}, {"fused-projections"}),
        ("0.5.23", 2, {}, set()),
    ],
)
def test_fused_projections_are_cut_as_they_were_written(release, tp, args, broken_rules):
    assert broken("off", replace(MIMO, tp=tp, server_args=args), release) == broken_rules


@pytest.mark.parametrize("release", ["0.5.12", "0.5.12.post1", "0.5.23"])
def test_release_before_its_first_correction_forces_what_that_one_forces(release):
    deployment = replace(LLAMA, tp=8, architecture="DeepseekV32ForCausalLM", draft="")
    assert for_release(release).on(deployment).resolve(SpecConfig.from_id("off")).page_size == 64


def test_deepseek_v4_takes_its_own_backend_whatever_is_asked_and_speculates_as_eagle_alone():
    deployment = replace(LLAMA, tp=8, architecture="DeepseekV4ForCausalLM", draft="")
    found = for_release("0.5.16").on(deployment).resolve(SpecConfig.from_id("off+attn=triton"))
    assert (found.backends.attention, found.page_size) == ("dsv4", 256)
    assert broken("v2-k1-s1-d2", replace(deployment, algorithm="EAGLE"), "0.5.16") == set()
    nextn = replace(deployment, algorithm="NEXTN")  # the release refuses that name here, so it is spelled EAGLE
    assert broken("v2-k1-s1-d2", nextn, "0.5.16") == set()
    assert "EAGLE" in for_release("0.5.16").launch_args(SpecConfig.from_id("v2-k1-s1-d2"), nextn).flags


def test_minimax_m3_has_a_page_size_of_its_own_until_one_is_asked_for():
    deployment = replace(LLAMA, tp=8, architecture="MiniMaxM3SparseForConditionalGeneration")
    bound = for_release("0.5.16").on(deployment)
    pages = [bound.resolve(SpecConfig.from_id(f"off{knobs}")).page_size for knobs in ("", "+page=16", "+attn=triton")]
    assert pages == [128, 16, 1]


def test_wide_trie_of_ngram_is_spelled_as_it_stands():
    deployment = replace(LLAMA, algorithm="NGRAM", draft="", release="0.5.16")
    config = SpecConfig.from_id("v2-k4-s4-d64")
    bound = for_release("0.5.16").on(deployment)
    assert bound.canonical(config) == config and bound.violations(config) == ()
    flags = " ".join(map(str, for_release("0.5.16").launch_args(config, deployment).flags))
    assert "--speculative-ngram-max-bfs-breadth 4 --speculative-num-draft-tokens 64" in flags
    with pytest.raises(ImpossibleTree, match="= 53` must hold"):
        for_release("0.5.16").on(LLAMA).canonical(config)


def test_weight_cache_excludes_speculation():
    assert broken("v2-k1-s3-d4", with_args(weight_cache_mode="client"), "0.5.18") == {"weight-cache"}
    assert broken("off", with_args(weight_cache_mode="client"), "0.5.18") == set()


@pytest.mark.parametrize(
    ("args", "said"),
    [
        ({"attention_backend": "nonsense"}, "takes one of triton"),
        ({"mem_fraction_static": 88}, "`mem-fraction-static: 88`, but it takes a number between 0 and 1"),
        ({"page_size": 0}, "takes a number above 0"),
        ({"attention_backend": True}, "takes a value"),
        ({"enable_mixed_chunk": 3}, "is a switch"),
        ({"dp_size": "two"}, "takes a whole number"),
    ],
)
def test_flag_of_the_study_has_a_value_that_the_release_takes(args, said):
    with pytest.raises(UsageError, match=said):
        for_release("0.5.16").on(with_args(**args))


@pytest.mark.parametrize(
    ("knob", "said"),
    [
        ("kv_cache_dtype=nonsense", "takes one of auto"),
        ("mem_fraction_static=1.5", "takes a number between 0 and 1"),
        ("chunked_prefill_size=many", "takes a whole number"),
        ("max_running_requests=0", "takes a number above 0"),
        ("enable_mixed_chunk=3", "is a switch"),
    ],
)
def test_flag_that_is_searched_has_a_value_that_the_release_takes(knob, said):
    with pytest.raises(UnsupportedKnob, match=said):
        for_release("0.5.16").canonical(SpecConfig.from_id(f"off+{knob}"), LLAMA)


@pytest.mark.parametrize(("release", "adaptive", "steps"), [("0.5.11", "1-3-7", 3), ("0.5.12.post1", "1-2-3-7", 2)])
def test_start_outside_the_candidates_is_moved_or_added(release, adaptive, steps):
    version = "v1" if release == "0.5.11" else "v2"
    asked = SpecConfig.from_id(f"{version}-k1-s2-d3+adapt=1-3-7")
    canonical = for_release(release).canonical(asked, LLAMA)
    assert (dict(canonical.extra)["adaptive"], canonical.num_steps) == (adaptive, steps)
