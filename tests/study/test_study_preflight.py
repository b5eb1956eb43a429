"""One line for each thing a machine lacks."""

import pytest

from search.host.nvml import GpuFacts
from search.preflight.requirements import missing_for, missing_on_node
from search.spec.file import parse_study

GIB = 2**30


def gpu(index=0, *, name="NVIDIA H200", used=0, total=141 * GIB, sm=90):
    return GpuFacts(f"GPU-{index}", name, total, used, sm, "570.1")


H200 = gpu()


@pytest.fixture
def missing(study_text):
    def ask(gpus=(H200,), installed="0.5.11", text=study_text, exists=lambda path: True):
        spec = parse_study(text, name="lab.yaml")
        return missing_for(spec, gpus=gpus, installed_release=installed, default_python="/py", exists=exists)

    return ask


def test_fitting_machine_lacks_nothing(missing):
    assert missing() == ()
    assert missing(installed="0.5.11+sm120") == ()


def test_bare_machine_lacks_gpus_sglang_and_both_models(missing):
    lines = missing(gpus=(), installed=None, exists=lambda path: False)
    assert len(lines) == 4
    assert lines[0] == "GPUs: the study needs 1x H200, but this machine has none."
    assert lines[1].startswith("SGLang: 0.5.11 is not installed in /py.")
    assert "/models/target" in lines[2] and "--model" in lines[2]
    assert "/models/draft" in lines[3] and "--draft" in lines[3]


def test_other_gpus_are_counted_by_kind(missing):
    (line,) = missing(gpus=(gpu(name="NVIDIA L4"), gpu(1, name="NVIDIA L4")))
    assert line == "GPUs: the study needs 1x H200, but this machine has 2x NVIDIA L4."


def test_memory_in_use_is_named_with_the_gpu_and_the_way_out(missing):
    (line,) = missing(gpus=(gpu(3, used=50 * GIB),))
    assert "GPU-3" in line and "50.0 GiB" in line and "nvidia-smi" in line
    assert missing(gpus=(gpu(used=GIB),)) == ()


def test_longer_driver_name_is_the_same_kind(missing, study_text):
    text = study_text.replace("kind: H200", "kind: RTX PRO 6000 Blackwell").replace("sm: 90", "sm: 120")
    text = text.replace("memory_gib: 141", "memory_gib: 95")
    name = "NVIDIA RTX PRO 6000 Blackwell Server Edition"
    assert missing(text=text, gpus=(gpu(name=name, total=95 * GIB, sm=120),)) == ()


def test_other_capability_smaller_memory_and_other_release_are_told(missing):
    lines = missing(gpus=(gpu(sm=100, total=80 * GIB),), installed="0.5.9")
    assert ["`sm: 90`" in lines[0], "80 GiB" in lines[1], "/py has 0.5.9" in lines[2]] == [True] * 3


def test_hub_ids_are_not_looked_for_on_disk(missing, study_text):
    text = study_text.replace("/models/target", "org/target").replace("/models/draft", "org/draft")
    assert missing(text=text, exists=lambda path: False) == ()


def test_node_of_a_cluster_needs_the_gpus_of_one_slot_and_the_weights_but_no_prompts(study_text):
    spec = parse_study(study_text, name="lab.yaml")

    def on_node(gpus, exists=True):
        return missing_on_node(
            spec, gpus=gpus, installed_release="0.5.11", default_python="/py", exists=lambda path: exists
        )

    assert on_node((H200, gpu(1, used=100 * GIB))) == ()
    (line,) = on_node(())
    assert line == "GPUs: the study needs 1x H200, but this machine has none."
    assert [line.split(" is the path ")[0] for line in on_node((H200,), exists=False)] == [
        "Model: `model.target`",
        "Model: `model.draft`",
    ]
    (line,) = on_node((H200, gpu(1, sm=80)))
    assert line.startswith("GPU GPU-1: the study file says `sm: 90`, but this GPU has 80.")


@pytest.mark.parametrize(
    ("model", "local"),
    [("models/lab/target", True), ("./target", True), ("~/target", True), ("owner/name", False), ("gpt2", False)],
)
def test_paths_are_told_from_hub_ids(study_text, model, local):
    text = study_text.replace("/models/target", model)
    assert model in text
    spec = parse_study(text, name="lab.yaml")
    lines = missing_for(
        spec, gpus=(H200,), installed_release="0.5.11", default_python="/py", exists=lambda path: "draft" in str(path)
    )
    assert bool(lines) == local
