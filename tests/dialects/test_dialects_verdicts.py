"""What we say of a launch, held to what the release itself answered (`verdicts/`)."""

from collections import defaultdict
from contextlib import suppress
from functools import cache

import pytest
from verdict_replay import FLAT, LATER, NotSent, TreeBound, cases, recorded_releases, replay, translate

from search.dialects import for_release, known_rule_ids
from search.errors import UsageError
from search.space import SpaceChoices, enumerate_space

RELEASES = recorded_releases()
WIDE = SpaceChoices(topk=(1, 2, 4), num_steps=(1, 2, 3, 5), num_draft_tokens=(2, 4, 8, 16, "tree"))


@cache
def replayed(release):
    """All cases of a release that we would ever send, each with both words."""
    found = []
    for case in cases(release):
        with suppress(NotSent):
            found.append(replay(case, release))
    return found


@pytest.mark.parametrize("release", RELEASES)
def test_dialect_and_server_agree_on_every_recorded_case(release):
    assert [(entry.case["id"], entry.disagrees) for entry in replayed(release) if entry.disagrees] == []


@pytest.mark.parametrize("release", RELEASES)
def test_most_recorded_cases_are_ones_we_would_send(release):
    assert len(replayed(release)) >= 500
    assert sum(not entry.accepted for entry in replayed(release)) >= 50


def test_every_rule_by_which_we_refuse_more_than_the_server_has_its_reason():
    stricter = {
        rule
        for release in RELEASES
        for entry in replayed(release)
        if entry.case["verdict"] == "accepted"
        for rule in entry.rules
    }
    assert stricter <= LATER.keys()
    assert LATER.keys() <= known_rule_ids() | {"tree-bound"}


@pytest.mark.parametrize("release", RELEASES)
def test_configs_share_an_id_exactly_if_the_server_resolved_them_alike(release):
    """Within one machine, model and set of static flags; over what we would launch and what our knobs set."""
    groups = defaultdict(list)
    for case in cases(release):
        try:
            config, deployment, asked_fusion = translate(case, release)
        except (NotSent, TreeBound, UsageError):
            continue
        if case["verdict"] != "accepted" or (not asked_fusion and case["tp"] > 1):
            continue
        try:
            bound = for_release(release).on(deployment)
            canonical = bound.canonical(config)
        except UsageError:
            continue
        adapts = any(name == "adaptive" for name, _ in canonical.extra)
        if bound.violations(canonical) or (adapts and release in FLAT):
            continue  # in the flat format the worker moves the start, after the arguments
        told = case["resolved"]
        values = tuple(
            told.get(name)
            for name in (
                *("speculative_algorithm", "speculative_num_steps", "speculative_eagle_topk"),
                *("speculative_num_draft_tokens", "disable_overlap_schedule", "page_size"),
                *("attention_backend", "prefill_attention_backend", "decode_attention_backend"),
            )
        )
        extra = tuple(
            pair
            for pair in canonical.extra
            if pair[0] in ("adaptive", "draft_attention_backend", "speculative_attention_mode")
        )
        key = (
            case["gpu"],
            case["tp"],
            case["model"],
            case["draft"],
            tuple(sorted(map(str, deployment.server_args.items()))),
        )
        groups[key].append((canonical.config_id, (values, canonical.allreduce_fusion, extra), case["id"]))
    compared = 0
    for entries in groups.values():
        for one in entries:
            for other in entries:
                compared += one is not other
                assert (one[0] == other[0]) == (one[1] == other[1]), (one, other)
    assert compared > 100


@pytest.mark.parametrize("release", RELEASES)
def test_no_enumerated_config_is_one_that_the_server_refused(release):
    spaces, found = {}, 0
    for case in cases(release):
        try:
            config, deployment, _ = translate(case, release)
        except (NotSent, TreeBound, UsageError):
            continue
        key = (case["gpu"], case["tp"], case["model"], case["draft"], deployment.algorithm, str(deployment.server_args))
        try:
            if key not in spaces:
                spaces[key] = enumerate_space(WIDE, deployment, for_release(release))
            inside = spaces[key].find(config)
        except UsageError:
            continue
        if inside is not None:
            found += 1
            assert case["verdict"] == "accepted", (case["id"], inside)
    assert found > 100


@pytest.mark.parametrize("release", recorded_releases("architectures"))
def test_dialect_and_server_agree_on_every_architecture(release):
    """What a target forces: backend, page size, fusion, worker, refusals; facts are read from its configuration."""
    entries = []
    for case in cases(release, "architectures"):
        try:
            entries.append(replay(case, release))
        except NotSent:
            continue
    assert len(entries) > 1000
    assert len({entry.case["model"] for entry in entries}) >= 30
    assert [(entry.case["id"], entry.disagrees) for entry in entries if entry.disagrees] == []
