"""The recorded verdicts: files load, are large enough, and cross every family of rules on both sides."""

import gzip
import json
from collections import defaultdict
from functools import cache
from pathlib import Path

import pytest

FOLDER = Path(__file__).parents[2] / "verdicts"
RELEASES = sorted(path.name.removesuffix(".jsonl.gz") for path in FOLDER.glob("*.jsonl.gz"))
FAMILIES = {
    "trio-defaults",
    "trio-partial",
    "trio-numbers",
    "worker-version",
    "algorithm-names",
    "page-and-tree",
    "default-backend",
    "trtllm-mha",
    "fa4",
    "draft-backend",
    "ngram",
    "dflash",
    "running-limit",
    "scheduler",
    "dp-attention",
    "sampling",
    "adaptive",
    "hybrid",
    "moe-runner",
    "graphs",
    "fusion",
    "transport",
    "memory",
    "draft-details",
}
BOTH_SIDES = {"trio-partial", "algorithm-names", "page-and-tree", "ngram", "scheduler", "sampling"}


@cache
def verdicts(release):
    header, *lines = map(json.loads, gzip.decompress((FOLDER / f"{release}.jsonl.gz").read_bytes()).splitlines())
    return header, lines


def test_over_thirty_architectures_are_recorded_as_they_were_published_with_every_algorithm():
    entries = [json.loads(line) for line in (FOLDER / "architectures.jsonl").read_text("utf-8").splitlines()]
    published = {entry["name"]: entry["config"]["architectures"][0] for entry in entries if "source" in entry}
    assert len(set(published.values())) >= 32
    recorded = {path.name.removesuffix(".jsonl.gz") for path in (FOLDER / "architectures").glob("*.jsonl.gz")}
    assert len(recorded) >= 15
    for release in recorded:
        header, lines = verdicts(f"architectures/{release}")
        assert (header["cases"], header["accepted"]) == (len(lines), sum(x["verdict"] == "accepted" for x in lines))
        found = defaultdict(set)
        for line in lines:
            if line["origin"] == "chosen":
                found[line["model"]].add(line["knobs"].get("algorithm"))
        complete = {
            name for name in published if found[name] >= {None, "EAGLE", "EAGLE3", "NGRAM", "STANDALONE", "DFLASH"}
        }
        assert len(complete) == len(published), release


def test_the_four_releases_that_matter_most_are_recorded():
    assert {"0.5.9", "0.5.11", "0.5.16", "0.5.23"} <= set(RELEASES)


@pytest.mark.parametrize("release", RELEASES)
def test_the_header_names_the_source_of_the_verdicts(release):
    header, lines = verdicts(release)
    assert header["release"] == release
    assert header["wheel"] == f"sglang-{release}"
    assert len(header["source_sha256"]) == 64
    assert {"python", "torch", "transformers", "date", "seed", "stand_ins"} <= set(header)
    assert header["cases"] == len(lines)
    assert header["accepted"] == sum(line["verdict"] == "accepted" for line in lines)


@pytest.mark.parametrize("release", RELEASES)
def test_every_family_is_there_with_over_300_cases_of_unique_ids(release):
    _, lines = verdicts(release)
    assert len(lines) >= 300
    assert len({line["id"] for line in lines}) == len(lines)
    assert {line["family"] for line in lines} == FAMILIES | {"generated"}
    assert {line["gpu"] for line in lines} == {"sm90", "sm100", "sm120"}
    assert {line["tp"] for line in lines} == {1, 2, 8}


@pytest.mark.parametrize("release", RELEASES)
def test_rules_are_crossed_on_both_sides(release):
    _, lines = verdicts(release)
    sides = {(line["family"], line["verdict"]) for line in lines}
    for family in {*BOTH_SIDES, "generated"}:
        assert {(family, "accepted"), (family, "refused")} <= sides, family


@pytest.mark.parametrize("release", RELEASES)
def test_a_verdict_tells_either_the_resolved_values_or_the_refusal_and_its_place(release):
    for line in verdicts(release)[1]:
        assert {"knobs", "argv", "env", "model", "draft"} <= set(line)
        if line["verdict"] == "accepted":
            assert {"attention_backend", "page_size", "mem_fraction_static"} <= set(line["resolved"]), line["id"]
            speculates = line["resolved"].get("speculative_algorithm") is not None
            assert ("worker" in line["resolved"]) == speculates, line["id"]
        else:
            assert line["verdict"] == "refused"
            assert line["error"]
            # A fault outside the release would be one of the recording machine, not a verdict.
            assert line["where"] != "outside", line["id"]


def test_the_chosen_cases_are_the_same_in_every_release():
    first = {line["id"] for line in verdicts(RELEASES[0])[1] if line["origin"] == "chosen"}
    for release in RELEASES:
        mine = {line["id"] for line in verdicts(release)[1] if line["origin"] == "chosen"}
        assert len(mine & first) >= 500, release
