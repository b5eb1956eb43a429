"""The command line of a launch, and the script that repeats it."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from search import dialects
from search.config import SpecConfig
from search.deployment import Deployment, Hardware
from search.dialects import for_release
from search.server.command import OWNED_ARGUMENTS, ServerCommand, server_command
from search.server.ports import PortBlock

PORTS = PortBlock(http=21000, nccl=21001)
V2 = SpecConfig.from_id("v2-k1-s2-d3")


def deployment(**more) -> Deployment:
    shared = {
        "model": "/models/target",
        "draft": "/models/draft",
        "algorithm": "EAGLE3",
        "tp": 2,
        "hardware": Hardware("NVIDIA H200", 90, 140.0, "nvlink"),
        "release": "0.5.11",
    }
    return Deployment(**(shared | more))


def build(config=V2, *, shared=None, **more) -> ServerCommand:
    shared = shared or deployment()
    return server_command(config, shared, for_release(shared.release), ports=PORTS, tag="t1", **more)


def test_command_is_prefix_interpreter_shared_config_and_address_in_this_order():
    argv = build(shared=deployment(prefix=("numactl", "-N0"), python="/opt/sglang/bin/python")).argv
    assert argv[:5] == ("numactl", "-N0", "/opt/sglang/bin/python", "-m", "sglang.launch_server")
    assert argv.index("--model-path") < argv.index("--speculative-num-steps") < argv.index("--host")
    assert argv[-6:] == ("--host", "127.0.0.1", "--port", "21000", "--nccl-port", "21001")


def test_every_argument_that_we_append_is_listed_as_ours():
    appended = {word.removeprefix("--") for word in build().argv[-6::2]}
    assert appended == {"host", "port", "nccl-port"}
    assert appended <= OWNED_ARGUMENTS.keys()


@pytest.mark.parametrize("name", ["api-key", "ssl-certfile", "grpc-mode", "config", "base-gpu-id", "dist-init-addr"])
def test_argument_that_would_change_protocol_or_place_is_listed_with_its_reason(name):
    assert len(OWNED_ARGUMENTS[name].split()) > 4


def test_arguments_listed_as_ours_are_flags_of_some_release_and_of_no_knob_of_a_study():
    rows = (Path(dialects.__file__).parent / "flags.tsv").read_text().splitlines()
    assert OWNED_ARGUMENTS.keys() <= {row.split("\t")[0] for row in rows if not row.startswith("#")}
    assert not OWNED_ARGUMENTS.keys() & {"attention-backend", "mem-fraction-static", "page-size", "stream-interval"}


def test_own_interpreter_is_the_default():
    assert build().argv[0] == sys.executable


def test_environment_sees_its_gpus_by_uuid_and_no_hub():
    env = build(gpu_uuids=("GPU-a", "GPU-b")).environment({"PATH": "/bin", "CUDA_VISIBLE_DEVICES": "7"})
    assert env["CUDA_VISIBLE_DEVICES"] == "GPU-a,GPU-b"
    assert (env["HF_HUB_OFFLINE"], env["SPEC_SEARCH_LAUNCH"], env["PATH"]) == ("1", "t1", "/bin")


def test_tag_survives_servers_that_rename_their_processes():
    command = build()
    assert command.env["SPT_NOENV"] == "1"
    assert "SPT_NOENV" not in command.script()


def test_study_may_open_the_hub():
    assert build(shared=deployment(env={"HF_HUB_OFFLINE": "0"})).env["HF_HUB_OFFLINE"] == "0"


def test_variable_that_the_dialect_unsets_is_not_inherited():
    env = build(SpecConfig.from_id("off")).environment({"SGLANG_ENABLE_SPEC_V2": "1"})
    assert "SGLANG_ENABLE_SPEC_V2" not in env


def test_raw_words_replace_the_configs_exactly():
    raw = ("SGLANG_ENABLE_SPEC_V2=1", "--speculative-algorithm", "EAGLE3", "--speculative-eagle-topk", "2", "A=b")
    command = build(raw=raw)
    assert command.env["SGLANG_ENABLE_SPEC_V2"] == "1"
    start = command.argv.index("--speculative-algorithm")
    assert command.argv[start : start + 5] == raw[1:]
    assert "--speculative-num-steps" not in command.argv


def test_script_is_quoted_so_that_a_shell_runs_the_same_words(tmp_path):
    script = tmp_path / "command.sh"
    words = ("a b", "$(touch hacked)", "'q'", '{"k": "*"}', "--flag")
    show = "import json, os, sys; print(json.dumps([sys.argv[1:], os.environ['SGLANG_NOTE'], 'GONE' in os.environ]))"
    script.write_text(
        ServerCommand((sys.executable, "-c", show, *words), {"SGLANG_NOTE": "x; y", "GONE": None}).script()
    )
    done = subprocess.run(["sh", script], capture_output=True, text=True, check=True, env={"GONE": "1"}, cwd=tmp_path)
    assert done.stdout == '[["a b", "$(touch hacked)", "\'q\'", "{\\"k\\": \\"*\\"}", "--flag"], "x; y", false]\n'
    assert not (tmp_path / "hacked").exists()


def test_adaptive_steps_file_lies_in_the_launchs_folder_and_the_script_writes_it(tmp_path):
    shared = deployment(release="0.5.16")
    command = build(SpecConfig.from_id("v2-k1-s3-d4+adapt=1-3-7"), shared=shared, folder=tmp_path / "launch")
    path = tmp_path / "launch" / "adaptive-steps.json"
    place = command.argv.index("--speculative-adaptive-config")
    assert command.argv[place + 1] == str(path)
    command.write_files()
    written = path.read_text()
    assert json.loads(written)["1"] == {"candidate_steps": [1, 3, 7]}
    path.write_text("")
    subprocess.run(["sh", "-c", command.script().split("exec env")[0]], check=True)
    assert path.read_text() == written


def test_script_holds_only_variables_set_on_purpose_and_no_launch_tag(monkeypatch):
    monkeypatch.setenv("HOME_SECRET", "inherited")
    script = build(shared=deployment(env={"NCCL_P2P_LEVEL": "SYS"})).script()
    assert "NCCL_P2P_LEVEL=SYS" in script
    assert "inherited" not in script
    assert "SPEC_SEARCH_LAUNCH" not in script


@pytest.mark.parametrize("name", ["HF_TOKEN", "AWS_SECRET_ACCESS_KEY", "WANDB_API_KEY", "DB_PASSWORD"])
def test_secret_variable_is_masked_in_the_script_but_sent(name):
    command = build(shared=deployment(env={name: "tr0ub4dor"}))
    assert command.env[name] == "tr0ub4dor"
    assert "tr0ub4dor" not in command.script()


def test_secret_flag_is_masked_in_the_script_but_sent():
    command = build(shared=deployment(server_args={"api-key": "tr0ub4dor"}))
    assert "tr0ub4dor" in command.argv
    assert "tr0ub4dor" not in command.script()
    assert '--api-key "$API_KEY"' in command.script()


def test_script_asks_for_the_secrets_that_it_does_not_hold_and_runs_with_them(tmp_path):
    show = "import json, os, sys; print(json.dumps([sys.argv[1:], os.environ['DEPLOY_PIN']]))"
    words = ("-e", "HF_TOKEN=hf 1", "--env=A_KEY=k2", "--api-key", "k3", "redis://:pw@host/0", "NCCL_P2P_LEVEL=SYS")
    script = tmp_path / "command.sh"
    script.write_text(ServerCommand((sys.executable, "-c", show, *words), {"DEPLOY_PIN": "1234"}).script())
    text = script.read_text()
    assert not [secret for secret in ("hf 1", "k2", "k3", ":pw", "1234") if secret in text]
    env = {"DEPLOY_PIN": "1234", "HF_TOKEN": "hf 1", "A_KEY": "k2", "API_KEY": "k3", "SECRET": ":pw"}
    done = subprocess.run(["sh", script], capture_output=True, text=True, check=True, env=env)
    assert json.loads(done.stdout) == [list(words), "1234"]
    for missing in env:
        rest = {name: value for name, value in env.items() if name != missing}
        lacking = subprocess.run(["sh", script], capture_output=True, text=True, env=rest)
        assert lacking.returncode != 0 and missing in lacking.stderr and not lacking.stdout
