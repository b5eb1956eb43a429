"""The comparison that a real study begins with, over every recorded word of eleven releases."""

from dataclasses import replace

import pytest
from verdict_replay import NotSent, TreeBound, cases, recorded_releases, translate

from search.dialects import for_release
from search.errors import UsageError
from search.preflight.installed_check import compare_word
from search.preflight.installed_process import ServerWord

RELEASES = recorded_releases()


def launchable(release):
    """Recorded cases that we would launch: config, deployment, dialect and the case."""
    dialect = for_release(release)
    for case in cases(release):
        try:
            config, deployment, asked_fusion = translate(case, release)
            if dialect.unknown_flags(deployment) or (not asked_fusion and case["tp"] > 1):
                continue  # without a word on fusion the server chooses, and we always say one
            bound = dialect.on(deployment)
            config = bound.canonical(config)
            dialect.launch_args(config, deployment)
            if not bound.violations(config):
                yield config, deployment, dialect, case
        except (NotSent, TreeBound, UsageError):
            continue


@pytest.mark.parametrize("release", RELEASES)
def test_words_of_the_stock_release_differ_from_nothing_we_expect(release):
    found, compared = [], 0
    for config, deployment, dialect, case in launchable(release):
        word = ServerWord(refusal=case.get("refusal", ""), resolved=case.get("resolved", {}))
        if "max_running_requests" not in case["knobs"]:  # the recording left it to the server, we never do
            deployment = replace(deployment, max_running_requests=word.resolved.get("max_running_requests"))
        found += [(case["id"], each) for each in compare_word(config, word, deployment, dialect)]
        compared += 1
    assert found == []
    assert compared > 150


def test_a_word_changed_in_any_value_is_found():
    changes = {
        "disable_overlap_schedule": lambda value: not value,
        "attention_backend": lambda value: "torch_native",
        "max_running_requests": lambda value: 7,
        "page_size": lambda value: 2 * value,
        "speculative_num_draft_tokens": lambda value: value + 1,
    }
    unseen = []
    for config, deployment, dialect, case in launchable("0.5.11"):
        if case["verdict"] != "accepted" or "max_running_requests" not in case["knobs"] or config.topk != 1:
            continue
        for name, change in changes.items():
            told = dict(case["resolved"])
            told[name] = change(told[name])
            known = dialect.on(deployment).resolve(config).backends.attention is not None
            if name in ("attention_backend", "page_size") and not known:
                continue
            if deployment.algorithm in ("NGRAM", "DFLASH") and name == "disable_overlap_schedule":
                continue  # both have one worker on this release, whatever the scheduler does
            adaptive = any(knob == "adaptive" for knob, _ in config.extra)
            if name == "speculative_num_draft_tokens" and adaptive:
                continue
            if not list(compare_word(config, ServerWord(resolved=told), deployment, dialect)):
                unseen.append((case["id"], name))
    assert unseen == []
