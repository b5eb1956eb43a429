"""The plan of a study against the word of an installed SGLang: what stops, what is only remarked."""

import pytest

from search.config import SpecConfig
from search.deployment import Deployment, Hardware, Patch
from search.dialects import for_release
from search.preflight.installed_check import check_arguments
from search.preflight.installed_process import ServerWord, ServerWords
from search.server.command import LAUNCH_TAG

H200 = Hardware("NVIDIA H200", 90, 141, "nvlink")
PATCH = Patch("trees-on-v2", ("v2-topk1-only",))
CHAIN, TREE = SpecConfig.from_id("v2-k1-s2-d3"), SpecConfig.from_id("v2-k2-s2-d7")
RESOLVED = {
    "attention_backend": "triton",
    "disable_overlap_schedule": False,
    "enable_flashinfer_allreduce_fusion": False,
    "max_running_requests": 256,
    "page_size": 1,
    "speculative_algorithm": "EAGLE3",
    "speculative_eagle_topk": 1,
    "speculative_num_draft_tokens": 3,
    "speculative_num_steps": 2,
    "tp_size": 1,
}
TREE_RESOLVED = RESOLVED | {"speculative_eagle_topk": 2, "speculative_num_draft_tokens": 7}


def deployment(*patches):
    return Deployment(
        "/models/target",
        "/models/draft",
        "EAGLE3",
        1,
        H200,
        "0.5.9",
        architecture="LlamaForCausalLM",
        patches=patches,
        server_args={"attention-backend": "triton"},
    )


def check(*words, configs=(CHAIN,), patches=(), trouble="", unusable=False, asked=None):
    def ask(requests):
        if asked is not None:
            asked.extend(requests)
        return ServerWords(tuple(words), trouble, unusable)

    return check_arguments(configs, deployment(*patches), for_release("0.5.9"), env={}, ask=ask)


def test_requests_are_the_words_and_variables_of_a_launch():
    asked = []
    check(ServerWord(resolved=RESOLVED), asked=asked)
    (request,) = asked
    words = " ".join(request.argv)
    assert words.startswith("--model-path /models/target --tp-size 1 --max-running-requests 256")
    assert "--speculative-num-steps 2 --speculative-eagle-topk 1 --speculative-num-draft-tokens 3" in words
    assert request.env["SGLANG_ENABLE_SPEC_V2"] == "1" and request.env["HF_HUB_OFFLINE"] == "1"
    assert LAUNCH_TAG not in request.env  # or a clean-up would end the helper


def test_word_that_agrees_is_kept_and_nothing_is_said():
    report = check(ServerWord(resolved=RESOLVED))
    assert (report.asked, report.answered, report.stops, report.remarks) == (1, 1, (), ())
    assert report.resolved["v2-k1-s2-d3"]["attention_backend"] == "triton"


def test_refused_config_stops_with_the_servers_words():
    (line,) = check(ServerWord(refusal="ValueError: draft and target disagree")).stops
    assert line.startswith("v2-k1-s2-d3: expected to start, but the installed SGLang refuses it: ValueError: draft and")


def test_config_that_would_run_as_another_stops():
    (line,) = check(ServerWord(resolved=RESOLVED | {"disable_overlap_schedule": True})).stops
    assert line.startswith(
        "v2-k1-s2-d3: expected to run as asked, but the installed SGLang would run it as v1-k1-s2-d3."
    )


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("attention_backend", "flashinfer", "expected attention_backend triton, but the installed SGLang resolves"),
        ("max_running_requests", 48, "resolves max_running_requests 48"),
    ],
)
def test_value_that_is_not_the_expected_one_stops(name, value, said):
    (line,) = check(ServerWord(resolved=RESOLVED | {name: value})).stops
    assert said in line


def test_value_that_a_release_no_longer_tells_is_no_difference():
    told = {name: value for name, value in RESOLVED.items() if name != "page_size"}
    assert check(ServerWord(resolved=told)).stops == ()


def test_patch_that_lifts_a_rule_of_the_config_accounts_for_other_values():
    word = ServerWord(resolved=TREE_RESOLVED | {"attention_backend": "flashinfer"})
    report = check(word, configs=(TREE,), patches=(PATCH,))
    assert report.stops == ()
    (line,) = report.remarks
    assert "Patch `trees-on-v2` accounts for it" in line and "flashinfer" in line


def test_no_patch_accounts_for_another_running_limit():
    word = ServerWord(resolved=TREE_RESOLVED | {"max_running_requests": 48})
    (line,) = check(word, configs=(TREE,), patches=(PATCH,)).stops
    assert "resolves max_running_requests 48" in line


def test_patch_that_is_not_installed_stops():
    word = ServerWord(refusal="ValueError: Spec v2 currently only supports topk = 1 for speculative decoding.")
    (line,) = check(word, configs=(TREE,), patches=(PATCH,)).stops
    assert line.startswith(
        "v2-k2-s2-d7: legal by patch `trees-on-v2` of the study, but the installed SGLang refuses it"
    )
    assert "Install the patch" in line


def test_patch_accounts_for_no_config_that_breaks_none_of_its_rules():
    word = ServerWord(resolved=RESOLVED | {"attention_backend": "flashinfer"})
    assert len(check(word, patches=(PATCH,)).stops) == 1


def test_configs_that_differ_alike_share_a_line():
    configs = [SpecConfig.from_id(f"v2-k1-s{steps}-d{steps + 1}") for steps in range(1, 6)]
    report = check(*[ServerWord(refusal="ValueError: no")] * 5, configs=configs)
    (line,) = report.stops
    assert line.startswith("v2-k1-s1-d2, v2-k1-s2-d3, v2-k1-s3-d4 and 2 more: expected to start")


def test_check_that_could_not_be_made_is_remarked_and_stops_nothing():
    report = check(trouble="this SGLang keeps its argument checks elsewhere.")
    assert report.stops == () and report.answered == 0
    (line,) = report.remarks
    assert line.startswith("The plan could not be held to the installed SGLang (none checked): this SGLang keeps")


def test_answers_before_a_crash_still_count():
    report = check(ServerWord(refusal="ValueError: no"), configs=(CHAIN, TREE), trouble="it was ended by signal 9.")
    assert len(report.stops) == 1
    assert "(1 of 2 checked)" in report.remarks[0]


def test_sglang_that_cannot_be_imported_stops():
    assert check(trouble="SGLang cannot be imported by x.", unusable=True).stops == ("SGLang cannot be imported by x.",)
