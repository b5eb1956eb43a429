"""Runs in the engine's own interpreter and prints what is installed there as one JSON object.

It is passed as text (`python -c`), because that interpreter has no `search` package. Nothing heavy
is imported: torch alone would take seconds and SGLang more. Whatever has no answer is left out.
"""

from __future__ import annotations

import ctypes
import hashlib
import importlib.metadata
import importlib.util
import json
import os
import runpy
from pathlib import Path

PACKAGES = {
    "sglang": ("sglang",),
    "torch": ("torch",),
    "flashinfer": ("flashinfer-python", "flashinfer"),
    # Renamed on its way; a release has one of them.
    "sgl_kernel": ("sgl-kernel", "sglang-kernel"),
    "triton": ("triton",),
    "transformers": ("transformers",),
}
# Beside the code: tuned kernel tables are JSON, kernels compiled at run time are CUDA sources.
SOURCES = frozenset({".py", ".json", ".cu", ".cuh", ".cpp", ".h"})


def version(names: tuple[str, ...]) -> str:
    """Of the first distribution that is installed; empty without one."""
    for name in names:
        try:
            return importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return ""


def folder(package: str) -> Path | None:
    """Where a package would be imported from, a patched or editable tree included."""
    spec = importlib.util.find_spec(package)
    places = list(spec.submodule_search_locations or ()) if spec else []
    return Path(places[0]) if places else None


def source_hash(root: Path) -> str:
    """Of the relative paths and contents of all sources, in the order of the paths."""
    digest = hashlib.sha256()
    files = sorted(path for path in root.rglob("*") if path.suffix in SOURCES and path.is_file())
    for path in files:
        content = path.read_bytes()
        digest.update(f"{path.relative_to(root).as_posix()}\0{len(content)}\0".encode())
        digest.update(content)
    return digest.hexdigest()[:16]


def nccl_version(torch: Path | None) -> str:
    """Asked of the library that would be loaded; no CUDA context comes about."""
    beside = [str(torch.parent / "nvidia/nccl/lib/libnccl.so.2")] if torch else []
    # SGLang's own communicator takes this one first.
    for name in [os.environ.get("SGLANG_NCCL_SO_PATH", ""), *beside, "libnccl.so.2"]:
        number = ctypes.c_int()
        try:
            if not name or ctypes.CDLL(name).ncclGetVersion(ctypes.byref(number)):
                continue
        except (OSError, AttributeError):
            continue
        major, rest = divmod(number.value, 10_000)
        return f"{major}.{rest // 100}.{rest % 100}"
    return ""


def cuda_version(torch: Path | None) -> str:
    """The CUDA that torch was built for, from the one file of torch that says so."""
    try:
        return str(runpy.run_path(str(torch / "version.py")).get("cuda") or "") if torch else ""
    except OSError:
        return ""


def main() -> None:
    """Print every fact that has an answer."""
    sglang, torch = folder("sglang"), folder("torch")
    facts = {name: version(names) for name, names in PACKAGES.items()}
    facts["sglang_source"] = source_hash(sglang) if sglang else ""
    facts["cuda"] = cuda_version(torch)
    facts["nccl"] = nccl_version(torch)
    print(json.dumps({name: value for name, value in facts.items() if value}))  # noqa: T201


if __name__ == "__main__":
    main()
