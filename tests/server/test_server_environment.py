"""What is installed, which GPUs, which weights: asked without importing anything heavy."""

import os
import sys

import pytest
from test_server_host import FakeNvml

from search.errors import HostUnfit
from search.host.environment import FACTS, model_folder, model_identity, probe_environment
from search.testing import install_fake_sglang


class LinkedNvml(FakeNvml):
    """Two GPUs, linked as told."""

    NVML_P2P_STATUS_OK = 0
    NVML_P2P_CAPS_INDEX_READ = 0
    NVML_P2P_CAPS_INDEX_NVLINK = 2

    def __init__(self, *, nvlink: bool, read: bool = True, level: int = 30) -> None:
        super().__init__()
        self.answers = {self.NVML_P2P_CAPS_INDEX_NVLINK: nvlink, self.NVML_P2P_CAPS_INDEX_READ: read}
        self.level = level

    def nvmlDeviceGetP2PStatus(self, one: int, other: int, index: int) -> int:  # noqa: N802
        assert one != other
        return self.NVML_P2P_STATUS_OK if self.answers[index] else 3

    def nvmlDeviceGetTopologyCommonAncestor(self, one: int, other: int) -> int:  # noqa: N802
        return self.level


@pytest.fixture
def installed(tmp_path):
    """A fake SGLang and a torch whose import would fail, as the engine's interpreter sees them."""
    site = install_fake_sglang(tmp_path / "site", release="0.5.9")
    site = tmp_path / "site"
    (site / "torch").mkdir()
    (site / "torch" / "__init__.py").write_text("raise SystemExit('imported')")
    (site / "torch" / "version.py").write_text("cuda: str | None = '12.9'\n")
    for name, version in (("torch", "2.9.1"), ("sgl_kernel", "0.3.21")):
        info = site / f"{name}-{version}.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name.replace('_', '-')}\nVersion: {version}\n")
    return site


def probe(site, nvml=None, **options):
    env = {**os.environ, "PYTHONPATH": str(site)}
    return probe_environment(
        sys.executable, env, "/no/model", "nobody/draft", nvml=nvml or FakeNvml(driver=False), **options
    )


def test_installed_packages_answer_without_being_imported(installed):
    facts = probe(installed)
    assert (facts["sglang"], facts["torch"], facts["cuda"], facts["sgl_kernel"]) == ("0.5.9", "2.9.1", "12.9", "0.3.21")
    assert tuple(facts) == FACTS
    assert facts["driver"] == facts["links"] == facts["target"] == facts["draft"] == "unknown"


def test_source_hash_follows_code_and_tuned_tables_and_nothing_else(installed):
    first = probe(installed)["sglang_source"]
    (installed / "sglang" / "notes.txt").write_text("no code")
    (installed / "sglang" / "__pycache__").mkdir(exist_ok=True)
    (installed / "sglang" / "__pycache__" / "x.pyc").write_bytes(b"compiled")
    assert probe(installed)["sglang_source"] == first
    (installed / "sglang" / "patched.py").write_text("PATCH = 1\n")
    second = probe(installed)["sglang_source"]
    (installed / "sglang" / "E=384.json").write_text("{}")
    assert len({first, second, probe(installed)["sglang_source"]}) == 3


@pytest.mark.parametrize(
    ("nvml", "links"),
    [
        (LinkedNvml(nvlink=True), "NVLink"),
        (LinkedNvml(nvlink=False), "PCIe over the host bridge, with peer access"),
        (LinkedNvml(nvlink=False, read=False, level=50), "PCIe over the CPU link, without peer access"),
    ],
)
def test_gpus_driver_and_links_are_asked_of_nvml(installed, nvml, links):
    facts = probe(installed, nvml)
    assert (facts["driver"], facts["gpus"], facts["links"]) == ("580.65.06", "NVIDIA RTX PRO 6000", links)
    assert nvml.open == 0


@pytest.mark.parametrize(
    ("script", "said"),
    [
        ("echo no such module >&2; exit 3", "no such module"),
        ("echo hello", "could not say"),
        ("exec sleep 5", "did not say within 0.3 s"),
    ],
)
def test_interpreter_without_an_answer_is_told(tmp_path, script, said):
    python = tmp_path / "python"
    python.write_text(f"#!/bin/sh\n{script}\n")
    python.chmod(0o755)
    with pytest.raises(HostUnfit, match=said):
        probe_environment(str(python), None, "t", "d", nvml=FakeNvml(driver=False), timeout_s=0.3)


def test_weights_trained_once_more_are_another_model_although_names_and_sizes_agree(tmp_path):
    weights = tmp_path / "model.safetensors"
    header, once, again = b"h" * 100_000, b"\1" * 900_000, b"\2" * 900_000
    weights.write_bytes(header + once)
    first = model_identity(str(tmp_path), {})
    weights.write_bytes(header + again)
    assert model_identity(str(tmp_path), {}) != first
    weights.write_bytes(header + once)
    assert model_identity(str(tmp_path), {}) == first


def test_model_folder_is_told_by_config_and_weight_names_and_sizes(tmp_path):
    (tmp_path / "config.json").write_text('{"architectures": ["A"]}')
    (tmp_path / "model-1.safetensors").write_bytes(b"1234")
    first = model_identity(str(tmp_path), {})
    assert first.startswith("sha256 ") and first.endswith("(1 weight files)")
    (tmp_path / "README.md").write_text("words")
    assert model_identity(str(tmp_path), {}) == first
    (tmp_path / "model-1.safetensors").write_bytes(b"12345")
    second = model_identity(str(tmp_path), {})
    (tmp_path / "config.json").write_text('{"architectures": ["B"]}')
    assert len({first, second, model_identity(str(tmp_path), {})}) == 3


@pytest.mark.parametrize("variables", [{"HF_HUB_CACHE": "{}/hub"}, {"HF_HOME": "{}"}])
def test_hub_model_is_told_by_its_cached_revision(tmp_path, variables):
    env = {name: value.format(tmp_path) for name, value in variables.items()}
    assert model_identity("owner/name", env) == ""
    refs = tmp_path / "hub" / "models--owner--name" / "refs"
    refs.mkdir(parents=True)
    (refs / "main").write_text("0123abc\n")
    assert model_identity("owner/name", env) == "revision 0123abc"


def test_name_that_no_file_system_takes_is_no_model_folder():
    assert model_folder("x" * 5000, {}) is None
