"""The helper process that asks an installed SGLang about arguments, against small stand-ins of one."""

import os
import sys
import time
from pathlib import Path

import pytest

from search.preflight.installed_process import ArgumentRequest, ask_installed

SERVER_ARGS = """
import argparse, os, signal, subprocess, sys, time

print("a greeting on stdout")


class ServerArgs:
    def __init__(self, **values):
        self.__dict__.update(values)

    def check_server_args(self):
        assert self.page_size != 7


def prepare_server_args(argv):
    parser = argparse.ArgumentParser()
    parser.add_argument("--speculative-eagle-topk", type=int)
    parser.add_argument("--page-size", type=int, default=1)
    args = parser.parse_args(argv)
    if args.page_size == 9:
        os.kill(os.getpid(), signal.SIGKILL)
    if args.page_size == 99:
        child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
        open(os.environ["CHILD"], "w").write(str(child.pid))
        time.sleep(60)
    if os.environ.get("SGLANG_ENABLE_SPEC_V2") and (args.speculative_eagle_topk or 0) > 1:
        raise ValueError("Spec v2 currently only supports topk = 1.\\nAnd a second line.")
    os.environ["SGLANG_ENABLE_SPEC_V2"] = "1"
    return ServerArgs(attention_backend="triton", unknown_field=3, decode_attention_backend=None, **vars(args))
"""
LATER = """
class Graph:
    max_bs = 160
    bs = [1, 2, 160]


class ServerArgs(dict):
    page_size = None

    def resolve_once(self):
        self.values = {"page_size": 64, "cuda_graph_config": {"decode": Graph(), "prefill": None}}

    def check_server_args(self):
        assert self.values

    def resolved_dict(self):
        return self.values


def prepare_server_args(argv):
    return ServerArgs()
"""
TORCH = """
class cuda:
    is_available = staticmethod(lambda: {gpus} > 0)
    device_count = staticmethod(lambda: {gpus})
"""


@pytest.fixture
def ask(tmp_path):
    """Asks an installation made of the given sources; each request is a list of words and variables."""

    def ask(*requests, server_args=SERVER_ARGS, gpus=8, package="", python="", **options):
        site = tmp_path / "site"
        (site / "sglang" / "srt").mkdir(parents=True, exist_ok=True)
        (site / "sglang" / "__init__.py").write_text(package)
        (site / "sglang" / "srt" / "__init__.py").write_text("")
        if server_args is not None:
            (site / "sglang" / "srt" / "server_args.py").write_text(server_args)
        (site / "torch.py").write_text(TORCH.format(gpus=gpus))
        env = {**os.environ, "PYTHONPATH": str(site), "CHILD": str(tmp_path / "child"), "UNSET": "inherited"}
        asked = [ArgumentRequest(tuple(words.split()), env) for words, env in requests]
        return ask_installed(asked, python=python or sys.executable, env=env, **options)

    return ask


def test_accepted_arguments_come_with_their_resolved_values(ask):
    said = ask(("--page-size 16", {}))
    (word,) = said.words
    assert (word.refusal, said.trouble, said.unusable) == ("", "", False)
    assert dict(word.resolved) == {"attention_backend": "triton", "page_size": 16}
    assert said.import_s > 0 and said.each_s > 0


def test_values_of_later_releases_are_read_after_their_own_resolution(ask):
    (word,) = ask(("", {}), server_args=LATER).words
    assert dict(word.resolved) == {"page_size": 64, "cuda_graph_max_bs": 160, "cuda_graph_bs": [1, 2, 160]}


def test_refusals_come_with_the_first_line_of_the_servers_words(ask):
    tree = "--speculative-eagle-topk 2"
    said = ask((tree, {"SGLANG_ENABLE_SPEC_V2": "1"}), ("--page-size x", {}), ("--page-size 7", {}), (tree, {}))
    assert [word.refusal for word in said.words] == [
        "ValueError: Spec v2 currently only supports topk = 1.",
        "argument --page-size: invalid int value: 'x'",
        "AssertionError",
        "",
    ]


def test_variables_that_one_resolution_sets_do_not_reach_the_next(ask):
    tree = ("--speculative-eagle-topk 2", {"SGLANG_ENABLE_SPEC_V2": None})
    assert [word.refusal for word in ask(("", {}), tree, tree).words] == ["", "", ""]


def test_what_all_requests_set_is_there_at_import(ask):
    at_import = "import os\nSEEN = os.environ.get('OFFLINE'), 'UNSET' in os.environ\n"
    source = at_import + SERVER_ARGS.replace('attention_backend="triton"', "attention_backend=str(SEEN)")
    both = {"OFFLINE": "1", "UNSET": None}
    words = ask(("", both | {"OWN": "1"}), ("", both), server_args=source).words
    assert [word.resolved["attention_backend"] for word in words] == ["('1', False)"] * 2


def test_helper_that_dies_leaves_its_answers_and_the_arguments_it_died_of(ask):
    said = ask(("", {}), ("--page-size 9", {}), ("", {}))
    assert len(said.words) == 1 and not said.unusable
    assert "was ended by signal 9 after 1 of 3 argument sets" in said.trouble
    assert "`--page-size 9`" in said.trouble


def test_helper_that_hangs_is_ended_with_all_it_started(ask, tmp_path):
    said = ask(("", {}), ("--page-size 99", {}), timeout_s=3.0)
    assert len(said.words) == 1
    assert "did not finish within 3 s after 1 of 2" in said.trouble
    child = Path("/proc") / (tmp_path / "child").read_text()
    deadline = time.monotonic() + 10
    while child.exists() and "zombie" not in (child / "status").read_text() and time.monotonic() < deadline:
        time.sleep(0.02)
    assert not child.exists() or "zombie" in (child / "status").read_text()


def test_sglang_that_cannot_be_imported_is_unusable_and_says_why(ask):
    said = ask(("", {}), package="raise ImportError('libcudart.so.13: cannot open shared object file')")
    assert said.unusable and not said.words
    assert "libcudart.so.13" in said.trouble and "No server could start" in said.trouble
    said = ask(("", {}), server_args="import a_module_that_is_not_there", package="")
    assert said.unusable and "a_module_that_is_not_there" in said.trouble


def test_interpreter_that_is_not_there_is_unusable(ask):
    said = ask(("", {}), python="/no/such/python")
    assert said.unusable and "/no/such/python could not be started" in said.trouble


@pytest.mark.parametrize("source", [None, "class ServerArgs: pass"])
def test_functions_that_moved_leave_the_question_open(ask, source):
    said = ask(("", {}), server_args=source)
    assert not said.unusable and not said.words
    assert "keeps its argument checks elsewhere" in said.trouble


def test_without_a_gpu_the_question_stays_open(ask):
    said = ask(("", {}), gpus=0)
    assert not said.unusable and not said.words
    assert "torch sees no GPU" in said.trouble


def test_helper_that_ends_at_once_says_its_last_words(ask, tmp_path):
    python = tmp_path / "python"
    python.write_text("#!/bin/sh\necho out of luck >&2\nexit 3\n")
    python.chmod(0o755)
    said = ask(("", {}), python=str(python))
    assert "ended with status 3 before SGLang was imported (its last words: out of luck)" in said.trouble
