"""The environment that a measurement depends on: installed code, driver, GPUs, links, models."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
from collections.abc import Mapping
from importlib.resources import files
from pathlib import Path
from typing import Any

from search.errors import HostUnfit
from search.host.hardware import probe_hardware

UNKNOWN = "unknown"
"""A fact without an answer: it can be compared with nothing, so it differs from nothing."""

FACTS = (
    *("sglang", "sglang_source", "torch", "cuda", "nccl", "flashinfer", "sgl_kernel", "triton", "transformers"),
    *("driver", "driver_cuda", "gpus", "gpu_memory", "capability", "links", "shared_memory", "target", "draft"),
)
"""Names of all facts. `cuda` is torch's, `driver_cuda` the newest the driver runs. GPUs and links are kinds,
not counts: more GPUs of one kind change nothing."""

_WEIGHTS = frozenset({".safetensors", ".bin", ".pt", ".pth", ".gguf"})
_BLOCK, _BLOCKS = 16384, 9
"""Bytes and blocks that are read of a weight file: 150 KB of each, a moment even over a network."""


def probe_environment(
    python: str,
    env: Mapping[str, str] | None,
    target: str,
    draft: str,
    *,
    nvml: Any = None,
    timeout_s: float = 120.0,
) -> dict[str, str]:
    """Every fact of `FACTS`, `UNKNOWN` where there is no answer.

    Args:
        python: The engine's interpreter; empty for our own.
        env: The full environment of the engine; None for the inherited one.
        target: Path or hub id.
        draft: Likewise.
        nvml: In place of NVIDIA's library.
        timeout_s: For the interpreter; a cold disk takes long over a few thousand small files.

    Raises:
        HostUnfit: The interpreter gave no answer.
    """
    env = os.environ if env is None else env
    found = {
        **_installed(python or sys.executable, env, timeout_s),
        **probe_hardware(nvml).facts(),
        "target": model_identity(target, env),
        "draft": model_identity(draft, env),
    }
    return {name: found.get(name) or UNKNOWN for name in FACTS}


def model_identity(model: str, env: Mapping[str, str]) -> str:
    """What distinguishes one set of weights from another without reading hundreds of gigabytes.

    Args:
        model: A folder, or a hub id such as `owner/name`.
        env: Says where the hub's cache is.

    Returns:
        A hash over `config.json` and the names, sizes and samples of weight files for a folder (the same model
        trained once more has the same names and sizes), the cached revision for a hub id; empty when there
        is neither.
    """
    folder = Path(model).expanduser()
    if os.path.isdir(folder):  # noqa: PTH112, `Path.is_dir` raises where a name is too long
        return _folder_identity(folder)
    revision = _cached_revision(model, env)
    return f"revision {revision}" if revision else ""


def model_folder(model: str, env: Mapping[str, str]) -> Path | None:
    """Where a model's files lie: the folder itself, or its newest snapshot in the hub's cache; None without one."""
    folder = Path(model).expanduser()
    if os.path.isdir(folder):  # noqa: PTH112, `Path.is_dir` raises where a name is too long
        return folder
    snapshot = _cached_model(model, env) / "snapshots" / (_cached_revision(model, env) or "none")
    return snapshot if os.path.isdir(snapshot) else None  # noqa: PTH112


def _installed(python: str, env: Mapping[str, str], timeout_s: float) -> dict[str, str]:
    code = files("search.host").joinpath("_environment_probe.py").read_text(encoding="utf-8")
    try:
        done = subprocess.run(
            [python, "-c", code],
            env=dict(env),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=timeout_s,
            check=True,
        )
        # Last line: a site hook of that environment may greet first.
        facts: dict[str, str] = json.loads(done.stdout.splitlines()[-1])
    except subprocess.TimeoutExpired as error:
        raise HostUnfit(
            (
                f"{python} did not say within {timeout_s:g} s what is installed there. Try `{python} -c 'import importlib.metadata'`: its disk may be slow.",
            )
        ) from error
    except subprocess.CalledProcessError as error:
        said = (error.stderr.strip().splitlines() or ["it said nothing"])[-1]
        raise HostUnfit((f"{python} could not say what is installed there: {said}",)) from error
    except (OSError, ValueError, IndexError) as error:
        raise HostUnfit((f"{python} could not say what is installed there: {error}",)) from error
    return facts


def _folder_identity(folder: Path) -> str:
    digest = hashlib.sha256()
    config = folder / "config.json"
    digest.update(config.read_bytes() if config.is_file() else b"")
    weights = sorted(path for path in folder.iterdir() if path.suffix in _WEIGHTS)
    for path in weights:
        digest.update(f"{path.name}\0{path.stat().st_size}\0".encode())
        digest.update(_samples(path))
    return f"sha256 {digest.hexdigest()[:16]} ({len(weights)} weight files)"


def _samples(path: Path) -> bytes:
    """Blocks spread evenly over a file, its first and its last among them; nothing of one that cannot be read."""
    try:
        with path.open("rb") as file:
            last = max(0, path.stat().st_size - _BLOCK)
            parts = []
            for place in range(_BLOCKS):
                file.seek(last * place // (_BLOCKS - 1))
                parts.append(file.read(_BLOCK))
            return b"".join(parts)
    except OSError:
        return b""


def _cached_model(model: str, env: Mapping[str, str]) -> Path:
    return _hub_cache(env) / f"models--{model.replace('/', '--')}"


def _cached_revision(model: str, env: Mapping[str, str]) -> str:
    try:
        return (_cached_model(model, env) / "refs" / "main").read_text(encoding="utf-8").strip()
    except OSError:
        return ""


def _hub_cache(env: Mapping[str, str]) -> Path:
    """Where Hugging Face's library caches, by its own rules."""
    if path := env.get("HF_HUB_CACHE"):
        return Path(path)
    home = env.get("HF_HOME") or str(Path(env.get("XDG_CACHE_HOME") or "~/.cache") / "huggingface")
    return Path(home).expanduser() / "hub"
