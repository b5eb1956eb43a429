"""The environment that a measurement depends on: installed code, driver, GPUs, links, models."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from importlib.resources import files
from itertools import combinations
from pathlib import Path
from typing import Any

from search.errors import HostUnfit
from search.server.host import probe_host
from search.server.nvml import nvml_session

UNKNOWN = "unknown"
"""A fact without an answer: it can be compared with nothing, so it differs from nothing."""

FACTS = (
    *("sglang", "sglang_source", "torch", "cuda", "nccl", "flashinfer", "sgl_kernel", "triton", "transformers"),
    *("driver", "gpus", "links", "target", "draft"),
)
"""Names of all facts. `gpus` and `links` are kinds, not counts: more GPUs of one kind change nothing."""

_WEIGHTS = frozenset({".safetensors", ".bin", ".pt", ".pth", ".gguf"})
_PATHS = {10: "one PCIe switch", 20: "PCIe switches", 30: "the host bridge", 40: "the NUMA node", 50: "the CPU link"}
"""NVML's topology levels; 0 is one board."""


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
        "driver": probe_host(nvml).driver,
        "gpus": ", ".join(sorted({gpu.name for gpu in probe_host(nvml).gpus})),
        "links": ", ".join(sorted(set(_links(nvml)))),
        "target": model_identity(target, env),
        "draft": model_identity(draft, env),
    }
    return {name: found.get(name) or UNKNOWN for name in FACTS}


def model_identity(model: str, env: Mapping[str, str]) -> str:
    """What tells one set of weights from another without reading hundreds of gigabytes.

    Args:
        model: A folder, or a hub id such as `owner/name`.
        env: Says where the hub's cache is.

    Returns:
        A hash over `config.json` and the names and sizes of weight files for a folder, the cached
        revision for a hub id; empty when there is neither.
    """
    folder = Path(model).expanduser()
    if folder.is_dir():
        return _folder_identity(folder)
    revision = _hub_cache(env) / f"models--{model.replace('/', '--')}" / "refs" / "main"
    try:
        return f"revision {revision.read_text(encoding='utf-8').strip()}"
    except OSError:
        return ""


def _installed(python: str, env: Mapping[str, str], timeout_s: float) -> dict[str, str]:
    code = files("search.server").joinpath("_environment_probe.py").read_text(encoding="utf-8")
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
            (f"{python} did not say within {timeout_s:g} s what is installed there. Is its disk slow?",)
        ) from error
    except subprocess.CalledProcessError as error:
        said = (error.stderr.strip().splitlines() or ["it said nothing"])[-1]
        raise HostUnfit((f"{python} could not say what is installed there: {said}",)) from error
    except (OSError, ValueError, IndexError) as error:
        raise HostUnfit((f"{python} could not say what is installed there: {error}",)) from error
    return facts


def _links(nvml: Any) -> Iterator[str]:
    """How each pair of GPUs is linked, in words."""
    with nvml_session(nvml) as library:
        if library is None:
            return
        handles = [library.nvmlDeviceGetHandleByIndex(index) for index in range(library.nvmlDeviceGetCount())]
        for one, other in combinations(handles, 2):
            try:
                ok = library.NVML_P2P_STATUS_OK
                if library.nvmlDeviceGetP2PStatus(one, other, library.NVML_P2P_CAPS_INDEX_NVLINK) == ok:
                    yield "NVLink"
                    continue
                direct = library.nvmlDeviceGetP2PStatus(one, other, library.NVML_P2P_CAPS_INDEX_READ) == ok
                level = int(library.nvmlDeviceGetTopologyCommonAncestor(one, other))
            except library.NVMLError:
                continue
            yield f"PCIe over {_PATHS.get(level, 'one board')}, {'with' if direct else 'without'} peer access"


def _folder_identity(folder: Path) -> str:
    digest = hashlib.sha256()
    config = folder / "config.json"
    digest.update(config.read_bytes() if config.is_file() else b"")
    weights = sorted(path for path in folder.iterdir() if path.suffix in _WEIGHTS)
    for path in weights:
        digest.update(f"{path.name}\0{path.stat().st_size}\0".encode())
    return f"sha256 {digest.hexdigest()[:16]} ({len(weights)} weight files)"


def _hub_cache(env: Mapping[str, str]) -> Path:
    """Where Hugging Face's library caches, by its own rules."""
    if path := env.get("HF_HUB_CACHE"):
        return Path(path)
    home = env.get("HF_HOME") or str(Path(env.get("XDG_CACHE_HOME") or "~/.cache") / "huggingface")
    return Path(home).expanduser() / "hub"
