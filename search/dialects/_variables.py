"""Environment variables as knobs: which may be searched, what they take, and the values that change nothing.

`variables.tsv` is what `verdicts/variables.py` read out of the releases; what NCCL takes is from its user guide.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from functools import cache
from importlib import resources
from typing import Final, NoReturn

from search.config import KnobValue
from search.deployment import Deployment
from search.dialects._knobs import PCIE_IPC_VARIABLE
from search.dialects._order import at_least
from search.errors import UnsupportedKnob
from search.masking import is_harmless

UNSET: Final = "unset"
"""In place of a value: the variable is not set, whatever this process inherited."""

SIMULATES: Final = "SGLANG_SIMULATE_"
"""Begins the names of variables under which a server invents its acceptance or its routing (0.5.9 `srt/environ.py`)."""

OWNED_VARIABLES: Final[Mapping[str, str]] = {
    "CUDA_VISIBLE_DEVICES": "the slot of a launch",
    "SGLANG_ENABLE_SPEC_V2": "the knob `spec_version`",
    PCIE_IPC_VARIABLE: "the knob `allreduce_transport`",
    "SGLANG_PLUGINS": "the plugin that switches shapes",
    "SGLANG_RUN_ID": "the server",
    "SGLANG_ENABLE_DETERMINISTIC_INFERENCE": "the flag `enable-deterministic-inference`",
    # Overwritten at every start (0.5.9 `srt/entrypoints/engine.py:818`, 0.5.23 `:1921`).
    "CUDA_DEVICE_MAX_CONNECTIONS": "the server, which overwrites it,",
    "CUDA_MODULE_LOADING": "the server, which overwrites it,",
}
"""Variables a study may not open, and what sets them."""

_SEARCHED: Final = (
    "CUBLAS_", "CUDA_", "CUDNN_", "FLASHINFER_", "NCCL_", "NVSHMEM_", "OMP_", "PYTORCH_", "SGLANG_", "SGL_", "TORCH",
    "TRITON_", "TRTLLM_", "UCX_",
)  # fmt: skip
"""Beginnings of the names that may be searched: what computes and communicates. Paths, caches and hosts are not knobs."""


@dataclass(frozen=True, slots=True)
class Variable:
    """What a variable takes.

    Attributes:
        kind: `bool`, `int`, `float`, `size` (whole number, with K, M or G behind it), `words` (`choices` joined by `,`, `:`
            and `;`, with `^` in front of what is excluded) or empty for anything.
        choices: The only values it takes, or the words of a list; empty for any.
        least: Of a number.
        most: Of a number; None without an end.
        default: What an absent one means; None where only the library knows.
    """

    kind: str = ""
    choices: tuple[str, ...] = ()
    least: float | None = None
    most: float | None = None
    default: KnobValue | float | None = None


_SWITCH: Final = Variable("int", least=0, most=1, default=0)
_CHANNELS: Final = Variable("int", least=1, most=64)
NCCL: Final[Mapping[str, Variable]] = {
    "NCCL_ALLOC_P2P_NET_LL_BUFFERS": _SWITCH,
    "NCCL_ALGO": Variable("words", ("Tree", "Ring", "CollnetDirect", "CollnetChain", "NVLS", "NVLSTree", "PAT")),
    "NCCL_BUFFSIZE": Variable("size", default=4194304),
    "NCCL_CGA_CLUSTER_SIZE": Variable("int", least=0, most=8),
    "NCCL_CROSS_NIC": Variable("int", least=0, most=2),
    "NCCL_CUMEM_ENABLE": Variable("int", least=-2, most=1),
    "NCCL_CUMEM_HOST_ENABLE": Variable("int", least=0, most=1),
    "NCCL_GRAPH_MIXING_SUPPORT": Variable("int", least=0, most=1, default=1),
    "NCCL_GRAPH_REGISTER": Variable("int", least=0, most=1),
    "NCCL_IB_DISABLE": _SWITCH,
    "NCCL_IGNORE_CPU_AFFINITY": _SWITCH,
    "NCCL_LAUNCH_MODE": Variable(choices=("PARALLEL", "GROUP"), default="PARALLEL"),
    "NCCL_MAX_CTAS": _CHANNELS,
    "NCCL_MAX_NCHANNELS": _CHANNELS,
    "NCCL_MAX_P2P_NCHANNELS": _CHANNELS,
    "NCCL_MIN_CTAS": _CHANNELS,
    "NCCL_MIN_NCHANNELS": _CHANNELS,
    "NCCL_MIN_P2P_NCHANNELS": _CHANNELS,
    "NCCL_MNNVL_ENABLE": Variable("int", least=0, most=2),
    "NCCL_NET_GDR_LEVEL": Variable(choices=("LOC", "PIX", "PXB", "PHB", "SYS")),
    "NCCL_NTHREADS": Variable("int", ("64", "128", "256", "512")),
    "NCCL_NVB_DISABLE": _SWITCH,
    "NCCL_NVLS_ENABLE": Variable("int", least=0, most=2),
    "NCCL_P2P_DIRECT_DISABLE": _SWITCH,
    "NCCL_P2P_DISABLE": _SWITCH,
    "NCCL_P2P_LEVEL": Variable(choices=("LOC", "NVL", "PIX", "PXB", "PHB", "SYS")),
    "NCCL_P2P_LL_THRESHOLD": Variable("size", default=16384),
    "NCCL_P2P_NVL_CHUNKSIZE": Variable("size"),
    "NCCL_P2P_PCI_CHUNKSIZE": Variable("size"),
    "NCCL_PROTO": Variable("words", ("LL", "LL128", "Simple")),
    "NCCL_PXN_DISABLE": _SWITCH,
    "NCCL_SHM_DISABLE": _SWITCH,
    "NCCL_SHM_USE_CUDA_MEMCPY": _SWITCH,
}
"""NCCL's own (NCCL user guide, "Environment Variables"): transports, protocols, algorithms, channels and buffers."""

_LEVELS: Final = {"0": "LOC", "1": "PIX", "2": "PXB", "3": "PHB", "4": "PHB", "5": "SYS"}
"""Levels of distance by number, as NCCL took them before 2.5 and still does."""
_TRUE, _FALSE = ("1", "true", "yes", "y"), ("0", "false", "no", "n")
_WORD: Final = re.compile(r"[^,:;^]+")


@cache
def variables_of(release: str) -> Mapping[str, Variable]:
    """The variables with known values: those that the release reads, and NCCL's."""
    text = resources.files("search.dialects").joinpath("variables.tsv").read_text(encoding="utf-8")
    found = dict(NCCL)
    for line in text.splitlines():
        if line.startswith("#"):
            continue
        name, first, last, kind, default = line.split("\t")
        if at_least(release, first) and at_least(last, release):
            found[name] = Variable(json.loads(kind) or "", default=json.loads(default))
    return found


def check_variable(name: str, deployment: Deployment, release: str) -> None:
    """Refuse a variable that is not for a study to open.

    Raises:
        UnsupportedKnob: Something else sets it, it is none of those that change speed, or this release does not read it.
    """
    if (owner := OWNED_VARIABLES.get(name)) is not None:
        raise UnsupportedKnob(f"`{name}` is not opened as a variable, because {owner} sets it. Leave it out.")
    if name.startswith(SIMULATES):
        raise UnsupportedKnob(
            f"`{name}` invents what is to be measured, so it is no knob. Set it under `engine.env`, where it makes every "
            "number SYNTHETIC, or leave it out."
        )
    if name in deployment.env:
        raise UnsupportedKnob(
            f"`{name}` is a knob of this study, but its `engine.env` sets it for every launch. Remove one of the two."
        )
    if not name.startswith(_SEARCHED) or not is_harmless(name):
        raise UnsupportedKnob(
            f"A variable that is searched stands in ids and tables with its value and changes how fast a server is, so its "
            f"name begins with {', '.join(_SEARCHED)}, but got `{name}`. Set it under `engine.env`."
        )
    known = variables_of(release)
    ours = name.startswith(("SGLANG_", "SGL_")) and not deployment.patches  # a patched tree may read more
    if name not in known and (ours or name.startswith("NCCL_")):
        near = get_close_matches(name, known, n=1, cutoff=0.6)
        hint = f" Did you mean `{near[0]}`?" if near else ""
        reader = "NCCL" if name.startswith("NCCL_") else f"SGLang {release}"
        raise UnsupportedKnob(f"{reader} reads no variable `{name}`.{hint} Correct it, or set it under `engine.env`.")


def resolve_variable(name: str, value: KnobValue, deployment: Deployment, release: str) -> KnobValue | None:
    """The value as a config id holds it; None where it changes nothing: unset, a default, or NCCL's on one GPU.

    Args:
        name: Of the variable.
        value: As a study file or a config id has it.
        deployment: Its own variables may not be searched too; how many GPUs there are decides what NCCL's do.
        release: SGLang's.

    Raises:
        UnsupportedKnob: It may not be opened, or takes no such value.
    """
    check_variable(name, deployment, release)
    if value == UNSET:
        return None
    known = variables_of(release).get(name, Variable())
    held = _held(name, value, known)
    if name.startswith("NCCL_") and deployment.tp == 1:
        return None
    return None if held == known.default and known.default is not None else held


def _held(name: str, value: KnobValue, known: Variable) -> KnobValue:
    text = str(value)
    match known.kind:
        case "bool":
            if text.lower() in _TRUE:
                return 1
            if text.lower() in _FALSE:
                return 0
            _refuse(name, value, "1 or 0")
        case "int":
            if not re.fullmatch(r"-?\d{1,18}", text, re.ASCII):
                _refuse(name, value, "a whole number")
            number = int(text)
            if known.choices and text not in known.choices:
                _refuse(name, value, f"one of {', '.join(known.choices)}")
            if (known.least is not None and number < known.least) or (known.most is not None and number > known.most):
                _refuse(name, value, f"a whole number from {known.least:g} to {known.most:g}")
            return number if number >= 0 else text
        case "float":
            if not re.fullmatch(r"-?(\d+\.?\d*|\.\d+)(e-?\d+)?", text, re.ASCII | re.IGNORECASE):
                _refuse(name, value, "a number")
            plain = f"{float(text):g}"
            return int(plain) if plain.isdecimal() else plain
        case "size":
            match = re.fullmatch(r"(\d{1,15})([KMGkmg]?)", text, re.ASCII)
            if match is None:
                _refuse(name, value, "a number of bytes")
            return int(match[1]) * int(1024 ** " KMG".index(match[2].upper() or " "))
        case "words":
            if not set(_WORD.findall(text)) <= {*known.choices, "allreduce", "allgather", "broadcast"} or not text:
                _refuse(name, value, f"words of {', '.join(known.choices)}")
        case _:
            if name.endswith("_LEVEL"):
                text = _LEVELS.get(text, text)
            if known.choices and text not in known.choices:
                _refuse(name, value, f"one of {', '.join(known.choices)}")
            return text if known.choices else value
    return value


def _refuse(name: str, value: KnobValue, takes: str) -> NoReturn:
    raise UnsupportedKnob(f"`{name}` takes {takes}, but got {value!r}. Correct it, or write `{UNSET}` for none.")


def simulating(env: Mapping[str, str]) -> tuple[str, ...]:
    """The variables under which a server with this environment invents acceptance or routing; empty where it measures.

    A method alone invents nothing: the length, or a switch, turns it on (0.5.16 `srt/environ.py:311`).
    """
    named = sorted(name for name in env if name.startswith(SIMULATES))
    ways = f"{SIMULATES}ACC_"
    turned_on = (name for name in named if not name.startswith(ways) or name == f"{ways}LEN")
    return (
        tuple(named) if any(env[name].strip().lower() not in ("", "-1", "-1.0", *_FALSE) for name in turned_on) else ()
    )
