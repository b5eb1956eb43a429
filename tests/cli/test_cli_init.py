"""`search init` writes study files that `plan` accepts, and says what it guessed."""

import json
from itertools import product

import pytest
from typer.testing import CliRunner

from search.app import init_study as init_write
from search.app.init_guess import GPU_KINDS, gpus_found, gpus_given, guess_tp, study_name
from search.app.init_study import checked, draft_study
from search.cli.app import app
from search.dialects import for_release, known_releases
from search.errors import UsageError
from search.host.hardware import GpuLink, HostHardware
from search.host.nvml import GpuFacts
from search.preflight.checkpoint import Checkpoint
from search.spec.file import load_study

GIB = 2**30
MODELS = {
    "llama": "LlamaForCausalLM",
    "kimi": "KimiK25ForConditionalGeneration",
    "deepseek": "DeepseekV3ForCausalLM",
    "qwen-next": "Qwen3NextForCausalLM",
    "unknown": "SomethingNewForCausalLM",
}
DRAFTS = {
    "eagle3": "LlamaForCausalLMEagle3",
    "eagle": "LlamaForCausalLMEagle",
    "small": "LlamaForCausalLM",
    "dflash": "DFlashDraftModel",
}


@pytest.fixture
def here(tmp_path, monkeypatch):
    """A folder with models in it, on a machine without SGLang and without GPUs."""
    for name, architecture in (MODELS | DRAFTS).items():
        (tmp_path / "models" / name).mkdir(parents=True)
        config = {"architectures": [architecture], "num_attention_heads": 32}
        (tmp_path / "models" / name / "config.json").write_text(json.dumps(config))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(init_write, "installed_release", lambda python: None)
    return tmp_path


def init(*words):
    return CliRunner().invoke(app, ["init", *words])


KIMI = ("--model", "models/kimi", "--draft", "models/eagle3", "--gpus", "8x RTX PRO 6000")


def test_first_study_file_is_one_that_plan_accepts(here):
    done = init(*KIMI)
    assert done.exit_code == 0, done.output
    assert "guessed algorithm: EAGLE3 (the draft's architecture is LlamaForCausalLMEagle3)" in done.stdout
    assert done.stdout.splitlines()[-2:] == [
        "next, here: python -m search plan --study kimi",
        "next, on the host with the GPUs: python -m search doctor --study kimi",
    ]
    spec = load_study(here / "spaces" / "kimi.yaml")
    assert (spec.model.algorithm, spec.model.tp, spec.hardware.gpus, spec.hardware.sm) == ("EAGLE3", 8, 8, 120)
    assert spec.model.architecture == "KimiK25ForConditionalGeneration"
    planned = CliRunner().invoke(app, ["plan", "--study", "kimi"])
    assert planned.exit_code == 0 and "cannot be launched" not in planned.stdout


def test_every_guess_is_marked_in_the_file(here):
    init(*KIMI)
    text = (here / "spaces" / "kimi.yaml").read_text()
    guessed = {line.split(":")[0].strip() for line in text.splitlines() if "# GUESS: " in line}
    assert guessed == {"algorithm", "tp", "hardware", "release", "attention-backend", "boot_ceiling_minutes"}


def test_existing_file_is_never_overwritten(here):
    init(*KIMI)
    path = here / "spaces" / "kimi.yaml"
    path.write_text("mine")
    done = init(*KIMI)
    assert done.exit_code == 2 and "is there already and is not overwritten" in done.stderr
    assert path.read_text() == "mine"
    done = init(*KIMI, "--out", "other/my study.yaml", "--name", "second")
    assert done.exit_code == 0 and done.stdout.endswith("--study other/my study.yaml\n")
    text = (here / "other" / "my study.yaml").read_text()
    assert "study: second\n" in text and "--study 'other/my study.yaml'" in text


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ((), "`--model` names the target"),
        (("--model", "models/kimi"), 'Say which ones with `--gpus "8x RTX PRO 6000"`'),
        (("--model", "models/kimi", "--gpus", "eight H200"), "reads like \"8x RTX PRO 6000\", but got 'eight H200'"),
        (
            ("--model", "models/kimi", "--gpus", "8x Abacus"),
            "names 'Abacus', whose capability and memory are not known",
        ),
        ((*KIMI, "--name", "Not A Name"), "`study`"),
    ],
)
def test_wrong_usage_exits_with_2_and_writes_nothing(here, words, said, monkeypatch):
    monkeypatch.setattr(init_write, "probe_hardware", HostHardware)
    done = init(*words)
    assert done.exit_code == 2 and said in done.stderr
    assert not (here / "spaces").exists()


@pytest.mark.parametrize("release", known_releases())
def test_whatever_is_asked_for_is_accepted_on_every_release(here, monkeypatch, release):
    monkeypatch.setattr(init_write, "installed_release", lambda python: release)
    accepted = 0
    for (model, draft), kind in product(
        [*product(MODELS, ("eagle3", "eagle", "small", "")), ("llama", "dflash")], ("H200", "B200", "RTX PRO 6000")
    ):
        if draft == "dflash" and release in ("0.5.9", "0.5.10", "0.5.10.post1"):
            continue
        made = draft_study(
            name="x",
            asked_as="x",
            model=f"models/{model}",
            draft=f"models/{draft}" if draft else "",
            gpus=f"4x {kind}",
            python="",
        )
        text, configs = checked(made, here / "x.yaml")
        assert configs > 0 and f"\n  release: {release}" in text
        accepted += 1
    assert accepted >= 60


def test_algorithm_that_the_installed_release_lacks_is_refused(here, monkeypatch):
    monkeypatch.setattr(init_write, "installed_release", lambda python: "0.5.9")
    done = init("--model", "models/llama", "--draft", "models/dflash", "--gpus", "1x H200")
    assert done.exit_code == 2 and "DFLASH" in done.stderr and "0.5.11" in done.stderr


def test_without_a_draft_the_target_or_the_text_drafts(here):
    init("--model", "models/deepseek", "--gpus", "8x H200")
    init("--model", "models/llama", "--gpus", "1x H200")
    deepseek, llama = (load_study(here / "spaces" / f"{name}.yaml").model for name in ("deepseek", "llama"))
    assert (deepseek.algorithm, deepseek.draft, llama.algorithm) == ("EAGLE", "", "NGRAM")


@pytest.mark.parametrize(
    ("draft", "algorithm"),
    [
        ("AQ-MedAI/Kimi-K25-eagle3", "EAGLE3"),
        ("x/llama-eagle", "EAGLE"),
        ("x/DFlash-8b", "DFLASH"),
        ("x/1b", "STANDALONE"),
    ],
)
def test_draft_that_is_not_on_disk_is_judged_by_its_name(here, draft, algorithm):
    done = init("--model", "nobody/target", "--draft", draft, "--gpus", "2x H100")
    assert f"guessed algorithm: {algorithm} (" in done.stdout and "was not there to look at" in done.stdout


def test_model_with_code_of_its_own_is_not_trusted_unasked(here):
    path = here / "models" / "kimi" / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"auto_map": {"AutoConfig": "x.Y"}}))
    init(*KIMI)
    assert load_study(here / "spaces" / "kimi.yaml").model.trust_remote_code is False
    assert "# trust_remote_code: true" in (here / "spaces" / "kimi.yaml").read_text()


def test_strange_paths_are_quoted(here):
    model = here / "models" / "a: b #c"
    (here / "models" / "llama").rename(model)
    done = init("--model", str(model), "--draft", "- eagle3", "--gpus", "1x H200")
    assert done.exit_code == 0, done.output
    spec = load_study(next((here / "spaces").iterdir()))
    assert (spec.model.target, spec.model.draft) == (str(model), "- eagle3")


def checkpoint(tmp_path, gib, heads=64):
    return Checkpoint(tmp_path, {"num_attention_heads": heads}, weight_bytes=gib * GIB)


@pytest.mark.parametrize(
    ("gpus", "gib", "heads", "tp"),
    [
        ("8x H200", 16, 64, "1"),
        ("8x H200", 140, 64, "2"),
        ("8x RTX PRO 6000", 510, 64, "8"),
        ("6x H200", 200, 64, "2"),
        ("8x H200", 140, 14, "2"),
        ("8x H200", 500, 14, "2"),  # no more than 2 divide the heads
    ],
)
def test_tp_is_the_fewest_gpus_with_room_for_weights_and_cache(tmp_path, gpus, gib, heads, tp):
    guess = guess_tp(gpus_given(gpus), checkpoint(tmp_path, gib, heads), None)
    assert guess.value == tp and f"{gib} GiB of weights" in guess.why


def test_gpus_of_the_machine_are_looked_at():
    gpus = tuple(GpuFacts(f"GPU-{place}", "NVIDIA H200", 150_754_820_096, 0, 90, "580") for place in range(2))
    linked = GpuLink("GPU-0", "GPU-1", nvlink=True, path="", peer_access=True)
    found = gpus_found(HostHardware((*gpus, GpuFacts("GPU-9", "NVIDIA L4", 24 * GIB, 0, 89, "580")), (linked,)))
    assert (found.count, found.hardware.links, found.hardware.memory_gib, found.why) == (2, "nvlink", 140, "")


def test_every_known_kind_can_be_named(here):
    for kind in GPU_KINDS:
        assert gpus_given(f"2x {kind}").hardware.memory_gib > 0
    assert gpus_given("8 x NVIDIA H200").hardware.kind == "NVIDIA H200"
    with pytest.raises(UsageError):
        gpus_given("0x H200")


@pytest.mark.parametrize(
    ("model", "name"),
    [("moonshotai/Kimi-K2.5", "kimi-k2.5"), ("/m/My Model/", "my-model"), ("/", "study"), ("...", "study")],
)
def test_name_is_made_from_the_models(model, name):
    assert study_name(model) == name


def test_target_that_the_release_does_not_draft_for_is_told(here, monkeypatch):
    monkeypatch.setattr(init_write, "installed_release", lambda python: "0.5.9")
    done = init(*KIMI)
    assert done.exit_code == 0
    assert "stock, it does not take EAGLE3 on KimiK25ForConditionalGeneration" in done.stdout
    assert "no config with speculation is legal here" in done.stdout


def test_known_configs_are_legal_on_the_release(here):
    init("--model", "models/llama", "--draft", "models/eagle3", "--gpus", "1x H200")
    spec = load_study(here / "spaces" / "llama.yaml")
    space = spec.space_of(for_release(spec.engine.release))
    assert [space.find(config) is not None for config in spec.known_configs] == [True] * len(spec.known_configs)
