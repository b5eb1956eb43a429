"""`search doctor` on machines that have everything, something or nothing."""

import json
import os
import re
import struct
import sys
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest
from typer.testing import CliRunner

from search.cli.app import app
from search.dialects import for_release
from search.host.hardware import GpuLink, HostHardware
from search.host.nvml import GpuFacts, GpuUser
from search.preflight.checkpoint import read_checkpoint
from search.preflight.examine import DoctorFacts, Level, examine, worst
from search.preflight.installed_report import ArgumentDifference, ArgumentReport, DifferenceKind
from search.preflight.machine import MachineFacts
from search.preflight.models import algorithm_of
from search.spec.file import parse_study

GIB = 2**30
STUDY = """\
study: lab
model: {target: /models/target, draft: /models/draft, algorithm: EAGLE3, architecture: LlamaForCausalLM, tp: 2}
hardware: {gpus: 2, kind: H200, sm: 90, memory_gib: 141, links: nvlink}
engine: {release: 0.5.11}
space: {spec_version: [v1, v2], topk: [1, 2], num_steps: [1, 2], num_draft_tokens: [tree]}
"""


def write_weights(folder, config, *, tensors=None, torn=0, index=()):
    """A folder with a configuration and one small but real safetensors file."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps(config))
    (folder / "tokenizer.json").write_text("{}")
    head = json.dumps(tensors or {"w": {"dtype": "F32", "shape": [4], "data_offsets": [0, 16]}}).encode()
    data = struct.pack("<Q", len(head)) + head + bytes(16)
    (folder / "model-1.safetensors").write_bytes(data[: len(data) - torn])
    if index:
        placed = {f"layer.{place}": name for place, name in enumerate(index)}
        (folder / "model.safetensors.index.json").write_text(json.dumps({"weight_map": placed}))
    return folder


TARGET = {
    "architectures": ["LlamaForCausalLM"],
    "vocab_size": 128256,
    "hidden_size": 4096,
    "max_position_embeddings": 32768,
}
DRAFT = TARGET | {"architectures": ["LlamaForCausalLMEagle3"], "draft_vocab_size": 32000}


@pytest.fixture
def facts(tmp_path):
    """A machine without a fault."""
    gpus = tuple(GpuFacts(f"GPU-{index}", "NVIDIA H200", 141 * GIB, 0, 90, "580.65") for index in range(2))
    hardware = HostHardware(
        gpus,
        (GpuLink("GPU-0", "GPU-1", nvlink=True, path="", peer_access=True),),
        driver="580.65",
        driver_cuda="13.0",
        shared_memory=32 * GIB,
        shared_memory_free=32 * GIB,
    )
    machine = MachineFacts(
        hardware,
        (),
        {},
        disk_free=100 * GIB,
        ephemeral_from=32768,
        now=datetime(2026, 6, 1, tzinfo=UTC),
        clock_kept=True,
    )
    words = ArgumentReport(asked=1, answered=1, resolved={"off": {"cuda_graph_max_bs": 256}}, import_s=5.0, each_s=0.02)
    return DoctorFacts(
        machine,
        installed="0.5.11",
        default_python="/py",
        environment={"cuda": "12.9", "driver_cuda": "13.0"},
        target=read_checkpoint(write_weights(tmp_path / "target", TARGET)),
        draft=read_checkpoint(write_weights(tmp_path / "draft", DRAFT)),
        longest_prompt=3000,
        words=words,
    )


@pytest.fixture
def doctor(facts):
    """Examines the study with some facts changed; returns what is not ok, by check."""

    def doctor(text=STUDY, *, machine=None, hardware=None, **changes):
        spec = parse_study(text, name="lab.yaml")
        now = replace(facts, **changes)
        if hardware:
            now = replace(now, machine=replace(now.machine, hardware=replace(now.machine.hardware, **hardware)))
        if machine:
            now = replace(now, machine=replace(now.machine, **machine))
        found = examine(spec, for_release(spec.engine.release), now)
        assert all(bool(finding.way_out) == (finding.level is not Level.OK) for finding in found)
        return {f.check: (f.level.value, f.says, f.way_out) for f in found if f.level is not Level.OK}

    return doctor


def test_machine_that_has_everything_gets_ok_on_every_check(doctor, facts):
    assert doctor() == {}
    spec = parse_study(STUDY, name="lab.yaml")
    found = examine(spec, for_release("0.5.11"), facts)
    assert worst(found) is Level.OK
    assert {finding.check for finding in found} >= {
        *("GPUs", "GPU memory", "links", "shared memory", "disk", "ports", "clock", "SGLang", "dialect", "CUDA"),
        *("target weights", "draft weights", "architecture", "memory", "draft", "draft vocabulary", "quantisation"),
        *("context", "arguments", "running limit", "graphs"),
    }


def gpus(**second):
    first = GpuFacts("GPU-0", "NVIDIA H200", 141 * GIB, 0, 90, "580.65")
    return (first, replace(first, uuid="GPU-1", **second))


def test_gpus_that_are_missing_unequal_or_in_use(doctor):
    level, says, _ = doctor(hardware={"gpus": gpus()[:1], "links": ()})["GPUs"]
    assert (level, says) == ("error", "the study needs 2x H200, but this machine has 1x NVIDIA H200")
    unequal = gpus(name="NVIDIA H200 NVL", memory_total=140 * GIB)
    assert "NVIDIA H200 NVL with 140 GiB" in doctor(hardware={"gpus": unequal})["GPUs"][1]
    users = {"users": (GpuUser(77, "GPU-1", None), GpuUser(5, "GPU-9", None)), "names": {77: "python"}}
    level, says, way = doctor(hardware={"gpus": gpus(memory_used=50 * GIB)}, machine=users)["GPU memory"]
    assert (level, says) == ("error", "in use on 1 of 2, up to 50.0 GiB on GPU-1")
    assert "77 (python);" in way


@pytest.mark.parametrize(
    ("link", "level", "part"),
    [
        (GpuLink("GPU-0", "GPU-1", nvlink=False, path="the CPU link", peer_access=True), "error", "links: pcie"),
        (None, "warning", "nvidia-smi topo -m"),
    ],
)
def test_links_that_are_other_than_the_study_says(doctor, link, level, part):
    found = doctor(hardware={"links": (link,) if link else ()})["links"]
    assert found[0] == level and part in found[2]


def test_pcie_without_peer_access_is_a_warning(doctor):
    link = GpuLink("GPU-0", "GPU-1", nvlink=False, path="the CPU link", peer_access=False)
    level, says, _ = doctor(STUDY.replace("links: nvlink", "links: pcie"), hardware={"links": (link,)})["links"]
    assert (level, says) == ("warning", "PCIe over the CPU link, without peer access")


def test_little_shared_memory_disk_ports_and_clock(doctor):
    assert doctor(hardware={"shared_memory_free": 64 * 2**20})["shared memory"][0] == "error"
    assert doctor(hardware={"shared_memory_free": 4 * GIB})["shared memory"][0] == "warning"
    assert doctor(hardware={"shared_memory": None})["shared memory"][0] == "warning"
    assert doctor(machine={"disk_free": 10 * 2**20})["disk"][0] == "error"
    assert doctor(machine={"disk_free": 2 * GIB})["disk"][0] == "warning"
    assert doctor(machine={"reports_writable": False})["disk"][0] == "error"
    assert doctor(machine={"ports": "none of 100 blocks could be bound."})["ports"][0] == "error"
    assert "from 1024 on" in doctor(machine={"ephemeral_from": 1024})["ports"][1]
    assert doctor(machine={"now": datetime(1970, 1, 1, tzinfo=UTC)})["clock"][0] == "error"
    assert doctor(machine={"clock_kept": False})["clock"][0] == "warning"
    assert doctor(machine={"clock_kept": None}) == {}


def test_release_and_cuda_that_do_not_fit(doctor):
    assert doctor(installed=None)["SGLang"][1] == "0.5.11 is not installed in /py"
    assert doctor(installed="0.5.9")["SGLang"][1] == "the study is for 0.5.11, but /py has 0.5.9"
    old = {"cuda": "13.0", "driver_cuda": "12.8"}
    assert doctor(environment=old)["CUDA"][1] == "torch is built for CUDA 13.0, but the driver runs CUDA up to 12.8"
    assert doctor(environment={"cuda": "12.9", "driver_cuda": "12.4"}) == {}


@pytest.mark.filterwarnings("ignore::search.dialects.NewerRelease")
def test_newer_release_is_told_to_speak_like_the_newest_known(doctor):
    found = doctor(STUDY.replace("0.5.11", "0.6.1"), installed="0.6.1")
    assert found["dialect"][0] == "warning" and "0.5.23" in found["dialect"][1]


def test_weights_that_are_not_there_or_not_whole(doctor, tmp_path):
    assert doctor(target=None)["target weights"][1] == "/models/target is not there"
    hub = STUDY.replace("/models/draft", "nobody/draft")
    assert "hf download nobody/draft" in doctor(hub, draft=None)["draft weights"][2]
    index = ["model-1.safetensors", "model-2.safetensors", "model-2.safetensors", "model-3.safetensors"]
    torn = read_checkpoint(write_weights(tmp_path / "torn", TARGET, torn=4, index=index))
    says = doctor(target=torn)["target weights"][1]
    assert "2 of 3 weight files are missing: model-2.safetensors, model-3.safetensors" in says
    assert "model-1.safetensors has 82 bytes, but its head says 86" in says


def test_folders_that_only_look_like_weights(tmp_path):
    pointer = write_weights(tmp_path / "pointer", TARGET)
    (pointer / "model-1.safetensors").write_text("version https://git-lfs.github.com/spec/v1\noid sha256:00\n")
    assert read_checkpoint(pointer).faults == ("model-1.safetensors is a Git LFS pointer, not the weights",)
    (pointer / "model-1.safetensors").write_bytes(b"\xff" * 40)
    assert read_checkpoint(pointer).faults == ("model-1.safetensors is not a safetensors file",)
    (pointer / "model-1.safetensors").unlink()
    assert read_checkpoint(pointer).faults == ("no weight file is there",)
    (pointer / "config.json").write_text("[1]")
    (pointer / "pytorch_model.bin").write_bytes(b"123")
    found = read_checkpoint(pointer)
    assert (found.faults, found.weight_bytes) == (("config.json holds no object",), 3)


def checkpoint(tmp_path, base, **config):
    return read_checkpoint(write_weights(tmp_path / "other", base | config))


def test_architecture_of_the_target(doctor, tmp_path):
    other = checkpoint(tmp_path, TARGET, architectures=["Qwen3ForCausalLM"])
    assert "write `model.architecture: Qwen3ForCausalLM`" in doctor(target=other)["architecture"][2]
    unnamed = STUDY.replace(", architecture: LlamaForCausalLM", "")
    assert doctor(unnamed)["architecture"][0] == "warning"
    kimi = STUDY.replace("LlamaForCausalLM", "KimiK25ForConditionalGeneration").replace("0.5.11", "0.5.9")
    target = checkpoint(tmp_path, TARGET, architectures=["KimiK25ForConditionalGeneration"])
    level, says, _ = doctor(kimi, target=target, installed="0.5.9")["architecture"]
    assert level == "error" and "stock SGLang 0.5.9 does not take EAGLE3" in says
    patched = kimi.replace("0.5.9}", "0.5.9, patches: [{name: p, lifts: [eagle3-kimi-k25]}]}")
    assert "architecture" not in doctor(patched, target=target, installed="0.5.9")


def test_weights_that_no_gpu_can_hold(doctor, facts):
    huge = replace(facts.target, weight_bytes=300 * GIB)
    assert doctor(target=huge)["memory"][1] == "150 GiB of weights on each GPU of 141 GiB"


def test_draft_that_does_not_fit_its_target(doctor, tmp_path):
    standalone = checkpoint(tmp_path, TARGET)
    assert "write `model.algorithm: STANDALONE`" in doctor(draft=standalone)["draft"][2]
    other = checkpoint(tmp_path, DRAFT, vocab_size=151936, hidden_size=2048)
    found = doctor(draft=other)
    assert found["draft vocabulary"][0] == found["draft width"][0] == "error"
    assert "draft width" not in doctor(draft=checkpoint(tmp_path, DRAFT, hidden_size=2048, target_hidden_size=4096))
    assert doctor(draft=checkpoint(tmp_path, DRAFT, vocab_size=32000))["draft vocabulary"][0] == "error"
    small = checkpoint(tmp_path, TARGET, vocab_size=128000)
    assert doctor(STUDY.replace("EAGLE3", "STANDALONE"), draft=small)["draft vocabulary"][0] == "warning"
    short = checkpoint(tmp_path, DRAFT, max_position_embeddings=1024)
    assert doctor(draft=short)["draft context"][0] == "warning"


@pytest.mark.parametrize(
    ("architecture", "algorithm"),
    [
        ("LlamaForCausalLMEagle3", "EAGLE3"),
        ("Eagle3DeepseekV2ForCausalLM", "EAGLE3"),
        ("LlamaForCausalLMEagle", "EAGLE"),
        ("DeepseekV3ForCausalLMNextN", "EAGLE"),
        ("DFlashDraftModel", "DFLASH"),
        ("Qwen3ForCausalLM", "STANDALONE"),
        (None, ""),
    ],
)
def test_algorithm_is_read_from_the_drafts_architecture(tmp_path, architecture, algorithm):
    config = {"architectures": [architecture]} if architecture else {}
    assert algorithm_of(read_checkpoint(write_weights(tmp_path, config))) == algorithm


def test_quantisation_that_would_reach_the_draft(doctor, tmp_path):
    forced = STUDY.replace("0.5.11}", "0.5.11, server_args: {quantization: w4afp8}}")
    assert "unquant" in doctor(forced)["quantisation"][2]
    said = forced.replace("w4afp8}", "w4afp8, speculative-draft-model-quantization: unquant}")
    assert "quantisation" not in doctor(said)


def test_context_that_is_too_short(doctor, tmp_path):
    target = checkpoint(tmp_path, TARGET, max_position_embeddings=1024)
    level, says, _ = doctor(target=target)["context"]
    assert (level, says) == ("warning", "prompts of about 1000 tokens and answers of up to 384, in a context of 1024")
    assert doctor(target=checkpoint(tmp_path, TARGET, max_position_embeddings=300))["context"][0] == "error"
    assert doctor(longest_prompt=None, prompt_fault="p.jsonl: no")["prompts"][1] == "p.jsonl: no"


def test_what_the_installed_sglang_says_of_the_plan(doctor, facts):
    from search.config import SpecConfig

    config = SpecConfig.from_id("v2-k1-s2-d3")
    refused = ArgumentDifference(config, DifferenceKind.REFUSED, "accepted", "ValueError: no")
    level, says, way = doctor(words=replace(facts.words, differences=(refused,)))["arguments"]
    assert level == "error" and says.endswith("the installed SGLang refuses it: ValueError: no")
    assert way.startswith("Correct what it names")
    assert doctor(words=replace(facts.words, answered=0, trouble="it moved."))["arguments"][0] == "warning"
    assert doctor(words=replace(facts.words, trouble="no CUDA.", unusable=True))["arguments"][0] == "error"
    assert doctor(words=None)["arguments"][0] == "warning"


def test_graphs_smaller_than_the_highest_load(doctor, facts):
    few = replace(facts.words, resolved={"off": {"cuda_graph_max_bs": 256}, "v1-k1-s1-d2": {"cuda_graph_max_bs": 80}})
    assert doctor(words=few)["graphs"][1].startswith("captured up to 80 requests, but 100 at once are sent")
    assert doctor(words=replace(facts.words, resolved={}))["graphs"][0] == "warning"
    sizes = STUDY.replace("0.5.11}", "0.5.11, server_args: {cuda-graph-bs: [1, 8, 64]}}")
    assert "captured up to 64" in doctor(sizes, words=replace(facts.words, resolved={}))["graphs"][1]
    off = STUDY.replace("0.5.11}", "0.5.11, server_args: {disable-cuda-graph: true}}")
    assert doctor(off)["graphs"][1].startswith("CUDA graphs are off")


def test_flag_that_the_stock_parser_does_not_know(doctor, facts):
    odd = STUDY.replace("0.5.11}", "0.5.11, server_args: {my-own-flag: 3}}")
    assert "my-own-flag" in doctor(odd, words=None)["server flags"][1]
    assert "server flags" not in doctor(odd)


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_bare_machine_gets_every_check_it_can_and_exits_with_3(here):
    done = CliRunner().invoke(app, ["doctor", "--study", "kimi-k25"])
    assert done.exit_code == 3
    lines = done.stdout.splitlines()
    assert lines[0].startswith("error   GPUs") and lines[1].strip().startswith("-> run on a host that has them")
    assert any(line.startswith("ok      ports") for line in lines)
    assert re.fullmatch(r"kimi-k25 cannot run here: \d+ ok, \d+ warnings, \d+ errors", lines[-1])
    assert list(here.iterdir()) == []


def test_json_is_the_only_thing_on_stdout(here):
    done = CliRunner().invoke(app, ["doctor", "--study", "h200-lab", "--json"])
    told = json.loads(done.stdout)
    assert (done.exit_code, told["worst"]) == (3, "error")
    assert {"check", "level", "says", "way_out"} == set(told["findings"][0])
    assert set(told["hardware"]) >= {"driver", "links", "shared_memory"}


def test_doctor_without_a_study_is_wrong_usage(here):
    assert CliRunner().invoke(app, ["doctor"]).exit_code == 2


@pytest.mark.slow
@pytest.mark.skipif("SGLANG_TREES" not in os.environ, reason="SGLANG_TREES names a folder of unpacked wheels")
@pytest.mark.parametrize("release", ["0.5.9", "0.5.12.post1", "0.5.23"])
def test_plan_of_kimi_k25_is_what_the_real_release_resolves(here, release):
    """With SGLANG_TREES/<release>/sglang, and an interpreter that can import it in SGLANG_TREES_PYTHON."""
    verdicts = Path(__file__).parent.parent.parent / "verdicts"
    sys.path.insert(0, str(verdicts))
    try:
        import models
    finally:
        sys.path.remove(str(verdicts))
    models.write(here / "models")
    (here / "pretend").mkdir()
    (here / "pretend" / "sitecustomize.py").write_text(
        f"import sys, tempfile, pathlib\nsys.path.insert(0, {str(verdicts)!r})\nimport machine\n"
        "machine.pretend(machine.GPUS['sm120'], cuda='12.9', folder=pathlib.Path(tempfile.mkdtemp()))\n"
        "machine.install_stand_ins()\n"
    )
    text = (Path(__file__).parent.parent.parent / "spaces" / "kimi-k25.yaml").read_text()
    path = f"{here / 'pretend'}:{Path(os.environ['SGLANG_TREES']) / release}"
    engine = f"python: {os.environ['SGLANG_TREES_PYTHON']}\n  env: {{PYTHONPATH: '{path}', OMP_NUM_THREADS: '1'}}"
    text = text.replace('python: ""', engine).replace("release: 0.5.9", f"release: {release}")
    (here / "real.yaml").write_text(text)
    options = ["--model", "models/kimi_k25", "--draft", "models/eagle3_llama", "--json"]
    done = CliRunner().invoke(app, ["doctor", "--study", "./real.yaml", *options])
    said = [finding for finding in json.loads(done.stdout)["findings"] if finding["check"] == "arguments"]
    assert [finding["level"] for finding in said] == ["ok"]
    assert int(said[0]["says"].split(" takes ")[1].split()[0]) > 150


def test_plan_warns_of_a_draft_that_is_made_for_another_algorithm(tmp_path):
    """It starts and runs, with an accept length of 1.00 (sglang#21272)."""
    write_weights(tmp_path / "target", TARGET)
    write_weights(tmp_path / "draft", DRAFT)
    for algorithm, warned in (("EAGLE", True), ("EAGLE3", False)):
        text = STUDY.replace("/models/", f"{tmp_path}/").replace("EAGLE3", algorithm)
        (tmp_path / "lab.yaml").write_text(text)
        told = CliRunner().invoke(app, ["plan", "--study", str(tmp_path / "lab.yaml")])
        assert told.exit_code == 0, told.output
        line = "error: draft: LlamaForCausalLMEagle3 is made for EAGLE3, but the study says EAGLE;"
        assert (line in told.output) == warned
        as_json = CliRunner().invoke(app, ["plan", "--study", str(tmp_path / "lab.yaml"), "--json"])
        assert bool(json.loads(as_json.stdout)["draft"]) == warned


def test_target_without_a_tokenizer_is_an_error(doctor, tmp_path):
    bare = write_weights(tmp_path / "bare", TARGET)
    (bare / "tokenizer.json").unlink()
    level, says, way = doctor(target=read_checkpoint(bare))["tokenizer"]
    assert (level, way) == ("error", "copy the tokenizer's files beside the weights")
    assert "tokenizer.json" in says
