"""Secrets are planted wherever a user or a server can hold one; none of them is found in a file, a database or a terminal line."""

import json
import random
import string
import sys

import pytest
import yaml
from fake_servers import servers_of
from typer.testing import CliRunner

from search.app import measured
from search.cli.app import app
from search.host.hardware import HostFacts
from search.host.nvml import GpuFacts
from search.testing import install_fake_sglang

pytestmark = pytest.mark.slow

TALKS = """
import os, sys
words, server = sys.argv[1:sys.argv.index("--")], sys.argv[sys.argv.index("--") + 1:]
print("docker run", *words, flush=True)
print("argv", words, flush=True)
for name, value in os.environ.items():
    print(f"{name}={value}", f'export {name}="{value}"', f"{value!r} was read", sep=chr(10), flush=True)
for line in open("noise.txt"):
    print(line, end="", flush=True)
if "--speculative-num-steps 2" in " ".join(server):
    print("Traceback (most recent call last):", '  File "/site/hub.py", line 1, in login', sep=chr(10))
    print("RuntimeError: 401 for", *words, os.environ["MY_SETTING"], flush=True)
    raise SystemExit(1)
os.execvp(server[0], server)
"""
"""Put before the server: prints all it was given, as careless wrappers and containers do, and dies for some configs."""


class Planter:
    """Gives out secrets, each with a marker of its own in it."""

    def __init__(self, seed: int) -> None:
        self.random, self.planted = random.Random(seed), {}

    def secret(self, where: str, *, before: str = "", odd: str = "") -> str:
        letters = string.ascii_letters + string.digits
        marker = "".join(self.random.choice(letters) for _ in range(10)) + "7x" + self.random.choice(letters)
        self.planted[where] = marker
        return before + marker + odd


@pytest.fixture
def lab(tmp_path, monkeypatch):
    """A folder with a study for the fake server, every place of it with a secret; and the planter."""
    seed = random.randrange(2**32)
    print("seed of the secrets:", seed)
    plant = Planter(seed)
    secret = plant.secret
    fake = install_fake_sglang(tmp_path / "fake", release="0.5.11")
    (tmp_path / "talks.py").write_text(TALKS)
    for folder in ("target", "draft"):
        (tmp_path / folder).mkdir()
    prefix = [
        *(sys.executable, "talks.py", "-e", f"HF_TOKEN={secret('docker -e', before='hf_')}"),
        *("--env=WEB_HOOK=" + secret("--env="), "--registry-password", secret("flag and word", odd="!#")),
        *(f"--auth-token={secret('flag=')}", f"https://user:{secret('URL in the prefix')}@registry.example/v2"),
        *("sshpass", "-p", secret("sshpass -p"), "--"),
    ]
    env = {
        "PYTHONPATH": str(fake),
        "FAKE_SGLANG_SPEED": "20",
        "MY_SETTING": secret("a variable of any name", odd="$(touch hit)'\""),
        "OPENAI_API_KEY_2": secret("*_API_KEY_2", before="sk-"),
        "PGPASSWORD": secret("PGPASSWORD"),
        "CACHE": f"redis://:{secret('redis://:pw@')}@cache:6379/0",
        "NOTIFY": f"https://hooks.slack.com/services/T000/B000/{secret('webhook', odd='1a2b3c')}",
        "SGLANG_PROXY": f"http://me:{secret('URL of a harmless name')}@proxy:3128",
    }
    study = {
        "study": "lab",
        "title": f"lab, see https://me:{secret('title')}@wiki.example/",
        "assumptions": [f"login with PASSWORD={secret('assumption')}"],
        "model": {
            "target": str(tmp_path / "target"), "draft": str(tmp_path / "draft"),
            "algorithm": "STANDALONE", "architecture": "LlamaForCausalLM",
        },
        "hardware": {"gpus": 1, "kind": "H200", "sm": 90, "memory_gib": 141, "links": "nvlink"},
        "engine": {
            "release": "0.5.11", "prefix": prefix, "env": env, "boot_ceiling_minutes": 1,
            "server_args": {"attention-backend": "triton"},
            "patches": [{"name": "ours", "lifts": [], "note": f"from https://ci:{secret('patch note')}@git.example/p"}],
            "max_running_requests": 64,
        },
        "space": {"spec_version": ["v2"], "topk": [1], "num_steps": [1, 2], "num_draft_tokens": ["tree"]},
        "objectives": {"latency": 1, "throughput": 4},
        "known": ["v2-k1-s1-d2", "v2-k1-s2-d3"],
        "measure": {"output_tokens": 16, "requests_at_latency": 2, "requests_per_worker": 1, "repeats": 1, "repeats_at_most": 1},
        "budget": {"launches": 3, "closing": False, "failures_in_a_row": 9},
        "sampler": "grid",
    }  # fmt: skip
    (tmp_path / "lab.yaml").write_text(yaml.safe_dump(study))
    noise = [
        f"Authorization: Bearer {secret('Bearer in the log')}",
        f"OSError: https://hub:{secret('URL in the log')}@hub.example/api failed",
        f"retry with token='{secret('quoted in the log')}'",
        "x" * 5000 + f" api_key={secret('in a long line')}",
    ]
    (tmp_path / "noise.txt").write_text("\n".join(noise) + "\n")
    monkeypatch.setenv("WANDB_API_KEY", secret("inherited *_API_KEY"))
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", secret("inherited secret", odd="+/="))
    monkeypatch.chdir(tmp_path)
    gpu = GpuFacts("GPU-0", "NVIDIA H200", 141 * 2**30, 0, 90, "580")
    monkeypatch.setattr(measured, "probe_host", lambda: HostFacts((gpu,)))
    monkeypatch.setattr(measured, "reap_orphans", lambda: ((), ()))
    monkeypatch.setattr(measured, "slot_gpus", lambda *_: ())
    return tmp_path, plant


def found_in(data: bytes, planted):
    return [where for where, marker in planted.items() if marker.encode() in data]


def test_none_of_the_secrets_of_a_study_is_in_a_file_a_database_or_a_terminal_line(lab):
    folder, plant = lab
    given = {"lab.yaml", "noise.txt", "talks.py"}
    told = {}

    def run(*words, code=0):
        done = CliRunner().invoke(app, list(words))
        told[" ".join(words)[:60]] = done.output.encode()
        assert done.exit_code == code, done.output
        return done

    run("run", "--study", "./lab.yaml", "--executor", "inline")
    raw = f"RAW_TOKEN={plant.secret('--raw')}"
    run("try", "--study", "./lab.yaml", "--executor", "inline", "off", "--raw", raw, "--attention-backend", "triton")
    run("report", "--study", "lab", "--json")
    run("record", "--study", "lab", "--to", "recordings/lab")
    run("run", "--replay", "recordings/lab")
    assert run("clean", "--scrub", "--study", "./lab.yaml").output == "no secrets found\n"  # what is masked stays so
    away = (
        f"postgresql://me:{plant.secret('--storage')}@127.0.0.1:1/db?sslpassword={plant.secret('query of --storage')}"
    )
    run("run", "--study", "./lab.yaml", "--executor", "inline", "--storage", away, code=4)
    run(
        "run",
        "--study",
        "./lab.yaml",
        "--storage",
        away.replace("postgresql", "pg sql"),
        "--executor",
        "inline",
        code=2,
    )
    (folder / "lab.yaml").write_text((folder / "lab.yaml").read_text().replace("latency: 1", "latency: no"))
    run("plan", "--study", "./lab.yaml", code=2)

    assert len(plant.planted) >= 20
    launches = sorted((folder / "reports" / "lab" / "launches").iterdir())
    assert len(launches) == 4 and servers_of(folder) == []
    log = (launches[0] / "server.log").read_text()
    assert "MY_SETTING=***" in log and "docker run" in log and "fired up" in log  # it is still a log
    assert "RuntimeError: 401 for" in (folder / "reports" / "lab" / "run.log").read_text()
    leaks = {where: found for where, data in told.items() if (found := found_in(data, plant.planted))}
    for path in folder.rglob("*"):
        if path.is_file() and path.name not in given and (found := found_in(path.read_bytes(), plant.planted)):
            leaks[str(path.relative_to(folder))] = found
    assert not leaks, json.dumps(leaks, indent=1)
    assert not (folder / "hit").exists()
