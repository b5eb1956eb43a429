"""What the doctor says of shared starts, and how it asks the plugin about an installed SGLang."""

import os
import sys

import pytest

from search.preflight.findings import Level
from search.preflight.shapes import PluginWord, ask_plugin, check_shared_starts
from search.spec.study import StudySpec
from search.testing import install_fake_sglang


def study(release="0.5.16", algorithm="STANDALONE", wish="auto"):
    return StudySpec.model_validate(
        {
            "study": "lab",
            "model": {"target": "t", "draft": "d", "algorithm": algorithm},
            "hardware": {"gpus": 1, "kind": "NVIDIA H200", "sm": 90, "memory_gib": 139, "links": "nvlink"},
            "engine": {"release": release, "shared_starts": wish},
            "space": {
                "spec_version": ["v2"],
                "topk": [1],
                "num_steps": [1],
                "num_draft_tokens": [2],
                "allreduce_fusion": ["off"],
            },
        }
    )


def word_of(folder, release):
    return ask_plugin("", {**os.environ, "PYTHONPATH": str(install_fake_sglang(folder, release=release))})


def test_sglang_without_the_internals_is_told_by_their_names(tmp_path):
    told = word_of(tmp_path, "0.5.16")
    assert told.trouble == "" and told.asked >= len(told.lacks) > 10
    assert any("EAGLEWorkerV2" in lack for lack in told.lacks)
    (found,) = check_shared_starts(study(), told)
    assert (found.level, "lacks" in found.says) == (Level.WARNING, True)


def test_sglang_without_a_row_and_interpreter_that_is_not_there_are_trouble(tmp_path):
    assert "0.5.11 has no row" in word_of(tmp_path, "0.5.11").trouble
    assert "could not be started" in ask_plugin(str(tmp_path / "no-python"), dict(os.environ)).trouble


def test_interpreter_that_crashes_or_hangs_gives_no_answer_and_is_ended(tmp_path):
    (tmp_path / "sitecustomize.py").write_text("raise SystemExit('broken')")
    env = {**os.environ, "PYTHONPATH": str(tmp_path)}
    assert "gave no answer" in ask_plugin(sys.executable, env).trouble
    (tmp_path / "sitecustomize.py").write_text("import time; time.sleep(60)")
    assert "did not answer within 1 s" in ask_plugin(sys.executable, env, timeout_s=1.0).trouble


@pytest.mark.parametrize(
    ("spec", "word", "level", "words"),
    [
        (study(), PluginWord(asked=60), Level.OK, "finds all 60 internals that it needs"),
        (study("0.5.23", wish="on"), PluginWord(asked=60), Level.OK, "Not proven on a GPU: SGLang 0.5.23"),
        (study(), PluginWord(trouble="it hangs"), Level.WARNING, "could not be asked: it hangs"),
        (study("0.5.23"), None, Level.OK, "each config has a start of its own. Not proven"),
        (study("0.5.9", "EAGLE3"), None, Level.OK, "has no row"),
    ],
)
def test_finding_says_what_becomes_of_shared_starts(spec, word, level, words):
    (found,) = check_shared_starts(spec, word)
    assert found.level is level and words in found.says


@pytest.mark.parametrize("spec", [study(wish="off"), study()])
def test_nothing_is_said_where_nobody_asks_or_nothing_is_installed(spec):
    assert list(check_shared_starts(spec, None)) == []
