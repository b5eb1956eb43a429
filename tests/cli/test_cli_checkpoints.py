"""`init` and `plan` on configurations of real checkpoints: what they are is read, never guessed from a name."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from search.app import init_study
from search.cli.app import app
from search.preflight.checkpoint import read_configuration
from search.preflight.checkpoint_facts import facts_of
from search.spec.file import load_study

CHECKPOINTS = Path(__file__).parent.parent / "data" / "checkpoints"


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(init_study, "installed_release", lambda python: None)
    return tmp_path


def init(*words):
    return CliRunner().invoke(app, ["init", "--name", "made", *map(str, words)])


def drafted(here, target, draft="", gpus="8x H200"):
    words = ["--model", CHECKPOINTS / target, "--gpus", gpus, *(["--draft", CHECKPOINTS / draft] if draft else [])]
    done = init(*words)
    assert done.exit_code == 0, done.output
    return load_study(here / "spaces" / "made.yaml")


@pytest.mark.parametrize(
    ("target", "layers"),
    [
        ("target-qwen36-27b", 1),
        ("target-qwen36-35b-a3b", 1),
        ("target-step35", 3),
        ("target-mimo-v2-flash", 3),
        ("target-glm52", 1),
    ],
)
def test_target_with_mtp_layers_drafts_with_them(here, target, layers):
    assert facts_of(read_configuration(CHECKPOINTS / target)).mtp_layers == layers
    spec = drafted(here, target)
    assert (spec.model.algorithm, spec.model.draft) == ("EAGLE", "")
    assert len(spec.known) > 1, "a config with speculation is legal"


@pytest.mark.parametrize("target", ["target-gptoss-20b", "target-qwen3-8b", "target-kimi-k26", "target-minimax-m27"])
def test_target_without_layers_that_sglang_reads_drafts_from_the_text(here, target):
    assert drafted(here, target).model.algorithm == "NGRAM"


@pytest.mark.parametrize(
    ("target", "draft", "said"),
    [
        ("target-glm52", "draft-dspark-glm52", "DSPARK is not driven"),
        ("target-gemma4-31b", "draft-gemma4-assistant", "FROZEN_KV_MTP is not driven"),
        ("target-qwen3-8b", "draft-peagle-qwen3", "no release from 0.5.9 to 0.5.23 has PEagleDraftModel"),
    ],
)
def test_draft_that_no_driven_algorithm_takes_is_refused(here, target, draft, said):
    done = init("--model", CHECKPOINTS / target, "--draft", CHECKPOINTS / draft, "--gpus", "8x H200")
    assert done.exit_code == 2 and said in done.stderr
    assert not (here / "spaces").exists()


def test_draft_head_as_the_target_is_refused(here):
    done = init("--model", CHECKPOINTS / "draft-eagle3-mla-kimi", "--gpus", "8x H200")
    assert done.exit_code == 2 and "only drafts, for EAGLE3" in done.stderr


@pytest.mark.parametrize(
    ("text", "said"), [(None, "nothing is at"), ("", "config.json is not there"), ("{", "config.json cannot be read")]
)
def test_model_that_cannot_be_read_is_an_error(here, text, said):
    folder = here / "model"
    if text is not None:
        folder.mkdir()
    if text:
        (folder / "config.json").write_text(text)
    done = init("--model", folder, "--gpus", "1x H200")
    assert done.exit_code == 2 and said in done.stderr
    assert not (here / "spaces").exists()


def test_sparse_attention_leaves_backend_and_trees_out(here):
    spec = drafted(here, "target-glm52")
    assert "attention-backend" not in spec.engine.server_args
    assert spec.space.topk == (1,)


def test_one_mtp_layer_a_step_bounds_the_depth(here):
    spec = drafted(here, "target-step35")
    assert spec.space.topk == (1,) and spec.space.num_steps == (1, 2, 3)


def test_draft_of_a_trained_block_opens_that_block_alone(here):
    spec = drafted(here, "target-qwen36-27b", "draft-dflash2-qwen36")
    assert (spec.model.algorithm, spec.space.num_draft_tokens) == ("DFLASH", (8,))


def test_fp8_blocks_bound_the_tensor_parallel_size(here):
    assert drafted(here, "target-minimax-m27").model.tp == 4


@pytest.mark.parametrize(("release", "legal"), [("0.5.11", False), ("0.5.12", True), ("0.5.16", True)])
def test_draft_class_is_legal_from_its_first_release(here, release, legal, monkeypatch):
    monkeypatch.setattr(init_study, "installed_release", lambda python: release)
    spec = drafted(here, "target-kimi-k26", "draft-eagle3-mla-kimi")
    planned = CliRunner().invoke(app, ["plan", "--study", "made"])
    assert spec.model.algorithm == "EAGLE3"
    assert ("Eagle3DeepseekV2ForCausalLM; it is in SGLang 0.5.12 and later" in planned.stdout) != legal
    assert (len(spec.known) > 1) == legal


def test_ordinary_draft_is_refused_under_a_backend_for_latent_attention(here):
    spec = drafted(here, "target-kimi-k26", "draft-llama-eagle3-kimi", gpus="8x B200")
    text = (here / "spaces" / "made.yaml").read_text()
    (here / "spaces" / "mla.yaml").write_text(
        text.replace("attention-backend: triton", "attention-backend: trtllm_mla")
    )
    assert spec.engine.server_args["attention-backend"] == "triton"
    planned = CliRunner().invoke(app, ["plan", "--study", "mla", "--list"])
    assert "mla-backend-draft" in planned.stdout


def test_plan_names_blocks_that_do_not_divide_and_the_way_out(here):
    drafted(here, "target-minimax-m27")
    text = (here / "spaces" / "made.yaml").read_text()
    (here / "spaces" / "made.yaml").write_text(text.replace("  tp: 4", "  tp: 8"))
    planned = CliRunner().invoke(app, ["plan", "--study", "made"])
    assert "FP8 blocks of 128 rows do not divide an expert's width: 1536 over 8 GPUs is 192" in planned.stdout
    assert "set `ep-size: 8` under `engine.server_args`, or choose `model.tp: 4`" in planned.stdout


def test_plan_says_that_acceptance_is_simulated(here):
    drafted(here, "target-glm52")
    text = (here / "spaces" / "made.yaml").read_text()
    text = text.replace("\nengine:\n", "\nengine:\n  env: {SGLANG_SIMULATE_ACC_LEN: '3.0'}\n")
    (here / "spaces" / "made.yaml").write_text(text)
    planned = CliRunner().invoke(app, ["plan", "--study", "made"])
    assert "SGLANG_SIMULATE_ACC_LEN simulates acceptance: all numbers are SYNTHETIC" in planned.stdout


@pytest.mark.parametrize(
    ("names", "layers"),
    [
        (("model.layers.0.w", "model.layers.77.w", "model.layers.78.w"), 1),
        (("model.layers.0.w", "model.layers.77.w"), 0),
        (("model.layers.0.w", "mtp.layers.0.w"), 1),
        (("lm_head.weight",), 1),
    ],
)
def test_weight_index_decides_whether_mtp_layers_are_there(tmp_path, names, layers):
    (tmp_path / "config.json").write_text((CHECKPOINTS / "target-glm52" / "config.json").read_text())
    index = {"weight_map": dict.fromkeys(names, "model-1.safetensors")}
    (tmp_path / "model.safetensors.index.json").write_text(json.dumps(index))
    assert facts_of(read_configuration(tmp_path)).mtp_layers == layers


MODELS = CHECKPOINTS.parent / "models"
OWN_LAYERS = {
    "Qwen--Qwen3.5-122B-A10B": 1,
    "Qwen--Qwen3.5-397B-A17B": 1,
    "XiaomiMiMo--MiMo-7B-Base": 1,
    "deepseek-ai--DeepSeek-R1": 1,
    "deepseek-ai--DeepSeek-V3.2": 1,
    "deepseek-ai--DeepSeek-V4-Flash": 1,
    "deepseek-ai--DeepSeek-V4-Pro": 1,
    "nvidia--NVIDIA-Nemotron-3-Super-120B-A12B-FP8": 1,
    "nvidia--Qwen3.6-27B-NVFP4": 1,
    "zai-org--GLM-5.2-FP8": 1,
}
"""Public models that draft with MTP layers of their own; the others here have none that SGLang reads."""
ONLY_CHAINS = {name for name in OWN_LAYERS if "DeepSeek-V3.2" in name or "DeepSeek-V4" in name or "GLM" in name}


@pytest.mark.parametrize("name", sorted(path.name for path in MODELS.iterdir() if path.is_dir()))
def test_study_of_a_public_model_is_drafted_from_its_own_configuration(here, monkeypatch, name):
    monkeypatch.setattr(init_study, "installed_release", lambda python: "0.5.16")
    facts = facts_of(read_configuration(MODELS / name))
    assert facts.heads and facts.hidden and facts.vocabulary and not facts.zeros
    done = init("--model", MODELS / name, "--gpus", "8x H200")
    assert done.exit_code == 0, done.output
    spec = load_study(here / "spaces" / "made.yaml")
    assert spec.model.architecture == facts.architecture
    if name == "moonshotai--Kimi-K3":
        assert spec.known == ("off",) and "no config with speculation is legal here" in done.output
        return
    assert spec.model.algorithm == ("EAGLE" if name in OWN_LAYERS else "NGRAM")
    assert any(config.startswith("v2-") for config in spec.known)
    if name in OWN_LAYERS:
        assert facts.mtp_layers == OWN_LAYERS[name]
        assert (spec.space.topk == (1,)) == (name in ONLY_CHAINS)


def test_plan_says_that_code_of_the_model_is_not_trusted(here):
    drafted(here, "target-mimo-v2-flash")
    study = here / "spaces" / "made.yaml"
    planned = CliRunner().invoke(app, ["plan", "--study", "made"])
    assert planned.exit_code == 0 and "warning: own code: config.json names code of the model's own" in planned.output
    study.write_text(study.read_text().replace("  # trust_remote_code: true", "  trust_remote_code: true"))
    assert "own code" not in CliRunner().invoke(app, ["plan", "--study", "made"]).output


def test_fused_projections_bound_tp_to_the_shards_they_were_written_for(here):
    """MiMo V2.5 (`verdicts/architectures.jsonl`): four key-value heads, fused, on eight GPUs."""
    shapes = Path(__file__).parents[2] / "verdicts" / "architectures.jsonl"
    entry = next(
        entry for entry in map(json.loads, shapes.read_text("utf-8").splitlines()) if entry["name"] == "mimo_v25"
    )
    (here / "mimo").mkdir()
    (here / "mimo" / "config.json").write_text(json.dumps(entry["config"]))
    assert init("--model", "mimo", "--gpus", "8x H200").exit_code == 0
    spec = load_study(here / "spaces" / "made.yaml")
    assert (spec.model.tp, spec.slots) == (4, 2)
    assert any(config.startswith("v2-k1") for config in spec.known)


def test_fp8_blocks_of_dense_layers_bound_tp_too(here):
    narrow = here / "narrow"
    narrow.mkdir()
    config = json.loads((MODELS / "Qwen--Qwen3-32B-FP8" / "config.json").read_text())
    (narrow / "config.json").write_text(json.dumps(config | {"intermediate_size": 2560}))
    done = init("--model", narrow, "--gpus", "8x H200")
    assert done.exit_code == 0, done.output
    path = here / "spaces" / "made.yaml"
    assert load_study(path).model.tp == 4
    path.write_text(path.read_text().replace("  tp: 4", "  tp: 8"))
    planned = CliRunner().invoke(app, ["plan", "--study", "made"])
    assert (
        "error: FP8 blocks: FP8 blocks of 128 rows do not divide a layer's width: 2560 over 8 GPUs is 320"
        in planned.output
    )
