"""A CPU-only machine that answers as a GPU server, so that a release resolves its arguments on it.

Two things are replaced, and no function of SGLang is: `torch.cuda` and `nvidia-smi` answer for the
GPUs of the case, and modules that need a GPU build (kernels, codecs) are empty stand-ins. SGLang's own
`is_sm90_supported` and the like then answer for SM90, SM100 or SM120 by themselves.
"""

from __future__ import annotations

import importlib
import importlib.abc
import importlib.machinery
import os
import stat
import sys
import types
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest.mock import MagicMock

STAND_INS = [
    "sgl_kernel",
    "flashinfer",
    "deep_gemm",
    "cutlass",
    "cuda",
    "quack",
    "flash_attn",
    "flash_attn_4",
    "sgl_fa4",
    "outlines",
    "torchao",
    "nvidia_ml_py",
    "mooncake",
    "nixl",
    "grpc",
    "smg_grpc_proto",
    "torch_memory_saver",
    "py_spy",
    "modelscope",
    "llguidance",
    "blobfile",
    "sglang_kernel",
    "tilelang",
]
"""Modules that need a GPU build or that resolution never calls; empty stand-ins from the start."""

LATE_STAND_INS = ("torchvision", "torchaudio", "torchcodec", "av", "soundfile", "timm", "decord", "kernels")
"""Stand-ins only after transformers is imported, which would otherwise take them for the real ones."""


@dataclass(frozen=True)
class Gpu:
    """What the fake driver says of every GPU.

    Attributes:
        name: As `torch.cuda.get_device_name` gives it.
        capability: Compute capability.
        memory_mib: As `nvidia-smi --query-gpu=memory.total` gives it.
        processors: Streaming multiprocessors.
    """

    name: str
    capability: tuple[int, int]
    memory_mib: int
    processors: int


GPUS = {
    "sm90": Gpu("NVIDIA H200", (9, 0), 143_771, 132),
    "sm100": Gpu("NVIDIA B200", (10, 0), 183_359, 148),
    "sm120": Gpu("NVIDIA RTX PRO 6000 Blackwell Server Edition", (12, 0), 97_887, 188),
}


def pretend(gpu: Gpu, *, cuda: str, folder: Path) -> None:
    """Make `torch.cuda` and `nvidia-smi` of this process answer for `gpu`; eight of them until `set_count`."""
    import torch

    size = gpu.memory_mib * 2**20
    properties = types.SimpleNamespace(
        name=gpu.name,
        total_memory=size,
        major=gpu.capability[0],
        minor=gpu.capability[1],
        multi_processor_count=gpu.processors,
        gcnArchName="",
        warp_size=32,
        L2_cache_size=50 * 2**20,
    )
    answers: dict[str, Any] = {
        "is_available": True,
        "is_initialized": False,
        "get_device_capability": gpu.capability,
        "get_device_properties": properties,
        "get_device_name": gpu.name,
        "current_device": 0,
        "mem_get_info": (int(size * 0.99), size),
        "is_bf16_supported": True,
        "get_arch_list": ["sm_90", "sm_100", "sm_120"],
    }
    for name, answer in answers.items():
        setattr(torch.cuda, name, _always(answer))
    torch.version.cuda = cuda
    set_count(8)
    # Kernels register shapes for operators of libraries that are only stand-ins here.
    torch.library.register_fake = lambda *_a, **_k: lambda function: function
    script = folder / "nvidia-smi"
    script.write_text(
        "#!/bin/sh\n"
        f'case "$*" in *compute_cap*) line={gpu.capability[0]}.{gpu.capability[1]};; '
        f"*name*) line='{gpu.name}';; *list-gpus*) line='GPU 0: {gpu.name}';; *) line={gpu.memory_mib};; esac\n"
        'for i in 1 2 3 4 5 6 7 8; do echo "$line"; done\n'
    )
    script.chmod(script.stat().st_mode | stat.S_IXUSR)
    os.environ["PATH"] = f"{folder}{os.pathsep}{os.environ['PATH']}"


def set_count(count: int) -> None:
    """Let this process see `count` GPUs."""
    import torch

    torch.cuda.device_count = lambda: count


def _always(answer: Any) -> Any:
    return lambda *_args, **_kwargs: answer


class StandIns(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Import hook: any submodule and any name of the modules in `names`, all without behaviour."""

    def __init__(self, names: Sequence[str]) -> None:
        self.names = set(names)
        self.used: set[str] = set()

    def find_spec(self, fullname: str, path: Any, target: Any = None) -> Any:  # noqa: ARG002 - the protocol's signature
        """A spec for the modules that are replaced, None for all others."""
        top = fullname.partition(".")[0]
        if top not in self.names:
            return None
        self.used.add(top)
        return importlib.machinery.ModuleSpec(fullname, self, is_package=True)

    def create_module(self, spec: Any) -> types.ModuleType:
        """An empty module that invents every attribute it is asked for."""
        return _Empty(spec.name)

    def exec_module(self, module: types.ModuleType) -> None:
        """Nothing to run; a path makes it a package."""
        module.__path__ = []


class _Empty(types.ModuleType):
    def __getattr__(self, name: str) -> Any:
        if name == "__version__":
            return "9.9.9"
        if name.startswith("__"):
            raise AttributeError(name)
        if name.startswith("register"):  # decorator factories: what they decorate stays what it is
            return lambda *_args, **_kwargs: lambda decorated: decorated
        return MagicMock(name=name)


def install_stand_ins() -> StandIns:
    """Put the stand-ins in place and import transformers between the early and the late ones."""
    # xgrammar's C++ binding looks for CUDA bindings and would take the stand-ins for them.
    importlib.import_module("xgrammar")
    hook = StandIns(STAND_INS)
    sys.meta_path.insert(0, hook)
    import transformers
    import transformers.utils.import_utils as import_utils

    # Without torchvision, transformers has placeholder classes that raise on any use; SGLang
    # registers its image processors on them at import, which must be harmless here.
    def attribute(cls: type, name: str) -> Any:
        return (lambda *_a, **_k: None) if name == "register" else type.__getattribute__(cls, name)

    import_utils.requires_backends = lambda *_a, **_k: None
    import_utils.DummyObject.__getattribute__ = attribute
    for name in ("AutoProcessor", "AutoImageProcessor"):
        if (cls := getattr(transformers, name, None)) is not None:
            type.__setattr__(cls, "register", staticmethod(lambda *_a, **_k: None))
    hook.names |= set(LATE_STAND_INS)
    return hook
