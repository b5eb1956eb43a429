"""`init --command`: a pasted launch command becomes the study that reproduces it."""

import gzip
import json
import re
import shlex
import sys
from pathlib import Path

import pytest
import yaml
from typer.testing import CliRunner

from search.app.init_command import study_of_command
from search.app.launch_command import read_command
from search.cli.app import app
from search.config import SpecConfig
from search.dialects import for_release
from search.errors import UsageError
from search.spec.file import load_study

VERDICTS = Path(__file__).parents[2] / "verdicts"
CHECKPOINTS = Path(__file__).parent.parent / "data" / "checkpoints"
GUIDES = yaml.safe_load((CHECKPOINTS.parent / "guides.yaml").read_text(encoding="utf-8"))

ANSWERED = [guide for guide in GUIDES if "config" in guide]
REFUSED = [guide for guide in GUIDES if "refused" in guide]

EAGLE = "--speculative-algorithm EAGLE --speculative-num-steps 3 --speculative-eagle-topk 1 --speculative-num-draft-tokens 4"
DRAFTED = "--speculative-algorithm EAGLE3 --speculative-draft-model-path m/b"
COMMANDS = [
    ("0.5.9", "python -m sglang.launch_server --model m/a", "off"),
    ("0.5.9", f"python3 -m sglang.launch_server --model-path m/a --tp 4 {EAGLE}", "v1-k1-s3-d4"),
    ("0.5.9", f"SGLANG_ENABLE_SPEC_V2=1 python3 -m sglang.launch_server --model-path m/a {EAGLE}", "v2-k1-s3-d4"),
    ("0.5.11", f"sglang serve --model-path m/a --tp-size=8 {EAGLE}", "v2-k1-s3-d4"),
    ("0.5.11", f"sglang serve m/a --disable-overlap-schedule {EAGLE}", "v1-k1-s3-d4"),
    (
        "0.5.11",
        "docker run --gpus all -e SGLANG_ENABLE_SPEC_V2=1 lmsysorg/sglang:v0.5.11 python3 -m sglang.launch_server --model m/a "
        "--speculative-algo EAGLE3 --speculative-draft-model m/b --speculative-num-steps 3 --speculative-eagle-topk 4 "
        "--speculative-num-draft-tokens 16",
        "v1-k4-s3-d16",
    ),
    ("0.5.16", f"sglang serve --model-path m/a --disable-overlap-schedule {EAGLE}", "v2-k1-s3-d4+overlap=off"),
    (
        "0.5.16",
        "[Service]\nEnvironment=NCCL_P2P_LEVEL=SYS\nExecStart=/opt/sgl/bin/python -m sglang.launch_server \\\n  --model-path m/a"
        f" \\\n  {EAGLE} --host 0.0.0.0 --port 30000\nRestart=always",
        "v2-k1-s3-d4",
    ),
    (
        "0.5.16",
        "$ python -m sglang.launch_server --model m/a --speculative-algorithm NGRAM > log 2>&1 &",
        "v2-k10-s18-d12",
    ),
    (
        "0.5.16",
        "export HF_HUB_OFFLINE=1\n# the draft proposes a block\npython -m sglang.launch_server --model m/a "
        "--speculative-algorithm DFLASH --speculative-draft-model-path m/b --speculative-dflash-block-size 8",
        "v2-k1-s7-d8",
    ),
    (
        "0.5.16",
        f"python -m sglang.launch_server --model m/a {DRAFTED} --speculative-adaptive",
        "v2-k1-s3-d4+adapt=auto",
    ),
    (
        "0.5.23",
        f"python -m sglang.launch_server --model m/a {DRAFTED} --speculative-adaptive",
        "v2-k1-s3-d4+adapt=auto",
    ),
    (
        "0.5.16",
        f"python -m sglang.launch_server --model m/a {DRAFTED} --speculative-adaptive --speculative-num-steps 7",
        "v2-k1-s7-d8+adapt=auto",
    ),
    (
        "0.5.16",
        f"python -m sglang.launch_server --model m/a {DRAFTED} --speculative-adaptive --speculative-num-steps 0 "
        "--speculative-eagle-topk 1",
        "v2-k1-s1-d2+adapt=auto",
    ),
    (
        "0.5.12.post1",
        f"python -m sglang.launch_server --model m/a {DRAFTED} --speculative-adaptive --speculative-num-steps 2 "
        "--speculative-eagle-topk 1",
        "v2-k1-s2-d3+adapt=1-2-3-7",
    ),
]


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize(("release", "command", "config"), COMMANDS)
def test_command_becomes_the_study_whose_known_config_it_is(here, release, command, config):
    if "NGRAM" in command or "DFLASH" in command:
        config = SpecConfig.from_id(config).config_id
    done = CliRunner().invoke(app, ["init", "--command", command, "--gpus", "8x H200", "--release", release])
    assert done.exit_code == 0, done.output
    spec = load_study(here / "spaces" / "command.yaml")
    assert spec.engine.release == release and spec.model.target == "m/a"
    assert list(spec.known) == list(dict.fromkeys(["off", config]))
    planned = CliRunner().invoke(app, ["plan", "--study", "command"])
    assert planned.exit_code == 0 and "cannot be launched" not in planned.stdout


def test_variables_and_flags_in_front_and_behind_are_kept():
    said = read_command(COMMANDS[7][1].replace("--host", "--mem-fraction-static 0.8 --host"), for_release("0.5.16"))
    assert said.env == {"NCCL_P2P_LEVEL": "SYS"} and said.python == "/opt/sgl/bin/python"
    assert said.server_args == {"mem-fraction-static": 0.8} and said.dropped == ("host", "port")


@pytest.mark.parametrize(
    ("command", "said"),
    [
        ("vllm serve m/a", "neither is in it"),
        ("python -m sglang.launch_server --tp 2", "names its model"),
        ("python -m sglang.launch_server --model m/a --speculative-num-stepz 3", "no such flag"),
        ("python -m sglang.launch_server --model m/a --speculative-num 3", "it could be"),
        ("python -m sglang.launch_server --model", "takes a value"),
        ("python -m sglang.launch_server --model 'm/a", "not whole"),
        (
            "python -m sglang.launch_server --model m/a --speculative-algorithm EAGLE --speculative-num-steps 3",
            "lacks topk",
        ),
        ("python -m sglang.launch_server --model m/a --speculative-algorithm DSPARK", "is not driven"),
        ("python -m sglang.launch_server --model m/a --attention-backend nonsense", "takes one of triton"),
        ("python -m sglang.launch_server --model m/a --mem-fraction-static 88", "takes a number between 0 and 1"),
        ("python -m sglang.launch_server --model m/a --tp 2 --random-seed many", "takes a whole number"),
    ],
)
def test_command_that_is_not_understood_or_would_die_is_told_so(here, command, said):
    done = CliRunner().invoke(app, ["init", "--command", command, "--gpus", "8x H200", "--release", "0.5.16"])
    assert done.exit_code == 2 and said in done.stderr, done.output
    assert not (here / "spaces").exists()


@pytest.mark.parametrize("release", ["0.5.9", "0.5.12.post1", "0.5.16", "0.5.23"])
def test_numbers_that_a_command_leaves_out_are_those_that_the_release_resolves(here, release, monkeypatch):
    """All recorded launches without numbers; what the release itself made of them is known."""
    monkeypatch.setattr(sys, "path", [str(VERDICTS), *sys.path])
    import models

    models.write(here / "models")
    compared, refused = 0, []
    for folder in ("", "architectures"):
        with gzip.open(VERDICTS / folder / f"{release}.jsonl.gz", "rt") as lines:
            cases = [json.loads(line) for line in lines][1:]
        for case in cases:
            drafts = case["knobs"].get("algorithm") in ("EAGLE", "EAGLE3", "NEXTN", "STANDALONE")
            named = {"num_steps", "topk", "num_draft_tokens", "adaptive"} & case["knobs"].keys()
            if case["verdict"] != "accepted" or not drafts or named or compared >= 60:
                continue
            words = [f"{name}={value}" for name, value in case["env"].items()]
            command = shlex.join([*words, "python", "-m", "sglang.launch_server", *case["argv"]])
            try:
                made = study_of_command(command, name="x", gpus="8x H200", release=release, path=here / "x.yaml")
            except UsageError as error:
                refused.append(str(error))
                continue
            told = case["resolved"]
            config = made.config
            assert (config.topk, config.num_steps, config.num_draft_tokens) == (
                told["speculative_eagle_topk"],
                told["speculative_num_steps"],
                told["speculative_num_draft_tokens"],
            ), case["id"]
            compared += 1
    assert compared >= 20
    assert [
        words for words in refused if "would refuse this command" not in words and "needs a draft" not in words
    ] == []


@pytest.mark.parametrize("guide", REFUSED, ids=[guide["url"].rpartition("/")[2] for guide in REFUSED])
def test_command_of_a_public_report_that_cannot_be_launched_says_why(here, guide):
    words = ["--command", guide["command"], "--gpus", guide["gpus"], "--release", guide["release"]]
    for verb in (["whatif"], ["init", "--name", "made"]):
        asked = CliRunner().invoke(app, [*verb, *words])
        said = " ".join(asked.stderr.split())
        assert asked.exit_code == 2 and guide["refused"] in said, asked.output
        assert not re.match(r"\S+:\d+:", said)  # a line of a file that nobody has seen


@pytest.mark.parametrize("guide", ANSWERED, ids=[guide["url"].rpartition("/")[2] for guide in ANSWERED])
def test_command_of_a_public_guide_is_answered_as_it_stands(here, guide):
    words = ["--command", guide["command"], "--gpus", guide["gpus"], "--release", guide["release"]]
    asked = CliRunner().invoke(app, ["whatif", *words, "--json"])
    assert asked.exit_code == 0, asked.output
    (variant,) = json.loads(asked.stdout)["variants"]
    assert variant["config_id"] == guide["config"] and variant["legality"]["legal"]
    assert guide["release"] in variant["legality"]["releases"]
    made = CliRunner().invoke(app, ["init", "--name", "made", *words])
    assert made.exit_code == 0, made.output
    spec = load_study(here / "spaces" / "made.yaml")
    set_in_front = [word for word in guide["command"].split() if word.startswith("NCCL_")]
    assert all(word in {f"{name}={value}" for name, value in spec.engine.env.items()} for word in set_in_front)


def test_whatif_answers_about_a_pasted_command():
    command = COMMANDS[3][1]
    done = CliRunner().invoke(
        app, ["whatif", "--command", command, "--gpus", "8x H200", "--release", "0.5.11", "--json"]
    )
    assert done.exit_code == 0, done.output
    told = json.loads(done.stdout)
    (variant,) = told["variants"]
    assert variant["config_id"] == "v2-k1-s3-d4" and variant["legality"]["legal"]
    assert any("what its architecture forces or lacks is not known" in line for line in told["command"])
    both = CliRunner().invoke(app, ["whatif", "off", "--command", command])
    assert both.exit_code == 2 and "leave out CONFIG" in both.stderr


def test_whatif_of_a_dflash_command_asks_every_release_without_dying_of_one():
    words = ["whatif", "--command", COMMANDS[9][1], "--gpus", "1x H200", "--release", "0.5.16", "--json"]
    (variant,) = json.loads(CliRunner().invoke(app, words).stdout)["variants"]
    assert variant["legality"]["releases"][0] == "0.5.13" or "0.5.9" not in variant["legality"]["releases"]


def test_releases_that_lack_a_flag_of_the_command_are_not_said_to_run_it():
    command = f"python -m sglang.launch_server --model m/a --cuda-graph-max-bs 32 {EAGLE}"
    words = ["whatif", "--command", command, "--gpus", "1x H200", "--release", "0.5.16", "--json"]
    (variant,) = json.loads(CliRunner().invoke(app, words).stdout)["variants"]
    assert variant["legality"]["releases"][-1] == "0.5.19"


def test_variables_that_a_command_sets_are_filled_in_and_others_are_asked_for():
    dialect = for_release("0.5.16")
    said = read_command(
        "MODEL=m/a\nexport TP=4\nsglang serve --model-path $MODEL --tp ${TP} --context-length ${LENGTH:-8192} --port $PORT",
        dialect,
    )
    assert (said.model, said.tp, said.server_args["context-length"]) == ("m/a", 4, 8192)
    with pytest.raises(UsageError, match=r"`--tp-size` holds `\$TP`, which nothing in it sets"):
        read_command("sglang serve --model-path m/a --tp-size $TP", dialect)


def test_one_admitted_request_becomes_two_and_is_told():
    made = study_of_command(
        f"sglang serve m/a --max-running-requests 1 {EAGLE}",
        name="x",
        gpus="1x H200",
        release="0.5.16",
        path=Path("x.yaml"),
    )
    assert any("is 2 and not 1" in remark for remark in made.remarks)
