"""A real study begins with the installed SGLang's own word on its plan."""

import sys

import pytest
from typer.testing import CliRunner

from search.app import measured
from search.cli.app import app
from search.host.hardware import HostFacts, clock_kept, ephemeral_from
from search.host.nvml import GpuFacts
from search.preflight import facts
from search.preflight.installed_report import ArgumentDifference, ArgumentReport, DifferenceKind
from search.spec.file import parse_study
from search.testing import install_fake_sglang

STUDY = """\
study: lab
model: {{target: ./target, draft: ./draft, algorithm: EAGLE3, architecture: LlamaForCausalLM}}
hardware: {{gpus: 1, kind: H200, sm: 90, memory_gib: 141, links: nvlink}}
engine:
  release: 0.5.11
  python: {python}
  env: {{PYTHONPATH: {site}}}
space: {{spec_version: [v2], topk: [1], num_steps: [1, 2], num_draft_tokens: [tree]}}
"""
REFUSES = """
class ServerArgs:
    pass


def prepare_server_args(argv):
    raise ValueError("this tree wants two steps" if "--speculative-num-steps" in argv else "and a target")
"""


@pytest.fixture
def host(tmp_path, monkeypatch):
    """A host with one H200 and an SGLang made of the given source; runs the study there."""

    def host(server_args):
        site = install_fake_sglang(tmp_path / "site", release="0.5.11")
        (site / "torch.py").write_text(
            "class cuda:\n    is_available = staticmethod(lambda: True)\n    device_count = staticmethod(lambda: 1)\n"
        )
        if server_args is not None:
            (site / "sglang" / "srt").mkdir()
            (site / "sglang" / "srt" / "__init__.py").write_text("")
            (site / "sglang" / "srt" / "server_args.py").write_text(server_args)
        for name in ("target", "draft"):
            (tmp_path / name).mkdir()
        (tmp_path / "lab.yaml").write_text(STUDY.format(python=sys.executable, site=site))
        monkeypatch.chdir(tmp_path)
        monkeypatch.setattr(measured, "reap_orphans", lambda: None)
        gpu = GpuFacts("GPU-0", "NVIDIA H200", 141 * 2**30, 0, 90, "580")
        monkeypatch.setattr(measured, "probe_host", lambda: HostFacts((gpu,)))
        # The study would go on to launch: the parts after the check are not this test's.
        monkeypatch.setattr(measured, "measured_facts", lambda *_, **__: {})
        return CliRunner().invoke(app, ["try", "--study", "./lab.yaml", "v9"])

    return host


def test_study_that_the_installed_sglang_refuses_does_not_start(host, tmp_path):
    done = host(REFUSES)
    assert done.exit_code == 3
    assert (
        "v2-k1-s1-d2, v2-k1-s2-d3: expected to start, but the installed SGLang refuses it: ValueError: this tree"
        in (done.stderr)
    )
    assert "off: expected to start, but the installed SGLang refuses it: ValueError: and a target" in done.stderr
    assert not (tmp_path / "trials.db").exists()


def test_check_that_could_not_be_made_is_told_and_the_study_goes_on(host):
    done = host(None)
    assert "The plan could not be held to the installed SGLang" in done.stderr
    assert "expected to start" not in done.stderr
    assert done.exit_code == 2 and "v9" in done.stderr  # what it tripped over next


def test_sglang_that_cannot_be_imported_does_not_start(host):
    done = host("raise ImportError('libnccl.so.2: cannot open shared object file')")
    assert done.exit_code == 3
    assert "libnccl.so.2" in done.stderr and "No server could start there" in done.stderr


def test_node_whose_sglang_refuses_the_plan_lacks_something(monkeypatch):
    text = STUDY.format(python=sys.executable, site="/none")
    spec = parse_study(text.replace("./target", "x/target").replace("./draft", "x/draft"), name="lab.yaml")
    gpu = GpuFacts("GPU-0", "NVIDIA H200", 141 * 2**30, 0, 90, "580")
    asked = []

    def check(configs, deployment, dialect, *, gpu_uuids, timeout_s):
        asked.append((len(configs), gpu_uuids))
        difference = ArgumentDifference(configs[0], DifferenceKind.REFUSED, "accepted", "ValueError: not here")
        return ArgumentReport(len(configs), len(configs), (difference,))

    monkeypatch.setattr(facts, "probe_host", lambda: HostFacts((gpu,)))
    monkeypatch.setattr(facts, "installed_release", lambda python, env: "0.5.11")
    monkeypatch.setattr(facts, "check_arguments", check)
    node = facts.node_facts(spec)
    (line,) = node.missing
    assert "the installed SGLang refuses it: ValueError: not here" in line
    assert (asked, node.environment) == ([(3, ("GPU-0",))], {})


def test_system_tells_its_clock_and_its_ports(tmp_path):
    assert clock_kept() in (True, False, None)
    given = tmp_path / "range"
    given.write_text("32768\t60999\n")
    assert ephemeral_from(given) == 32768
    assert ephemeral_from(tmp_path / "none") is None
