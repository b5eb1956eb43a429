"""Whether this machine can run a study for real: one line for each thing missing."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from search.host.nvml import GpuFacts
from search.spec.study import StudySpec

FREE_MEMORY_SHARE = 0.02
"""Share of a GPU's memory that may be in use before a launch: drivers keep a little for themselves."""

_GIB = 2**30


def missing_for(
    spec: StudySpec,
    *,
    gpus: Sequence[GpuFacts],
    installed_release: str | None,
    default_python: str,
    exists: Callable[[Path], bool] = Path.exists,
) -> tuple[str, ...]:
    """What the study needs and this machine does not have; empty when it can start.

    Args:
        spec: The study.
        gpus: Of this machine, in index order; empty without NVIDIA's driver.
        installed_release: Of SGLang under `engine.python`; None when it is not there.
        default_python: Our own interpreter, which a study without `engine.python` uses.
        exists: Whether a local path is there.
    """
    return (
        *gpus_missing(spec, gpus),
        *release_missing(spec, installed_release, default_python),
        *_paths(spec, exists),
    )


def missing_on_node(
    spec: StudySpec,
    *,
    gpus: Sequence[GpuFacts],
    installed_release: str | None,
    default_python: str,
    exists: Callable[[Path], bool] = Path.exists,
) -> tuple[str, ...]:
    """As `missing_for`, for one node of a cluster: it may hold some of the study's slots, at least one.

    Memory in use is not looked at: Ray may have lent a GPU to somebody else, and lends us another.
    The prompts' file is read by the driver alone.

    Args:
        spec: The study.
        gpus: Of the node.
        installed_release: Of SGLang there; None where it cannot be found.
        default_python: The interpreter without `engine.python`.
        exists: Whether a path is there.
    """
    return (
        *gpus_missing(spec, gpus, count=spec.model.tp, look_at_use=False),
        *release_missing(spec, installed_release, default_python),
        *_models(spec, exists),
    )


def gpus_missing(
    spec: StudySpec, gpus: Sequence[GpuFacts], *, count: int | None = None, look_at_use: bool = True
) -> Iterator[str]:
    """Too few GPUs of the kind, or ones of another size, or in use.

    Args:
        spec: The study.
        gpus: Of the machine.
        count: GPUs that are needed; None for those of all slots.
        look_at_use: Whether memory in use counts.
    """
    wanted, count = spec.hardware, count or spec.hardware.gpus
    fitting = [gpu for gpu in gpus if is_kind(gpu.name, wanted.kind)]
    if len(fitting) < count:
        found = ", ".join(
            f"{sum(gpu.name == name for gpu in gpus)}x {name}" for name in dict.fromkeys(g.name for g in gpus)
        )
        yield f"GPUs: the study needs {count}x {wanted.kind}, but this machine has {found or 'none'}."
        return
    for gpu in fitting if not look_at_use else fitting[:count]:
        if gpu.sm != wanted.sm:
            yield f"GPU {gpu.uuid}: the study file says `sm: {wanted.sm}`, but this GPU has {gpu.sm}. Correct the file."
        # A tenth less is the same GPU: vendors count in powers of ten, drivers reserve some.
        if gpu.memory_total < 0.9 * wanted.memory_gib * _GIB:
            yield (
                f"GPU {gpu.uuid}: the study needs {wanted.memory_gib:g} GiB of memory, but this GPU has "
                f"{gpu.memory_total / _GIB:.0f} GiB."
            )
        if look_at_use and gpu.memory_used > FREE_MEMORY_SHARE * gpu.memory_total:
            yield (
                f"GPU {gpu.uuid}: {gpu.memory_used / _GIB:.1f} GiB of its memory are in use already. End what uses "
                "it; `nvidia-smi` names the processes."
            )


def is_kind(name: str, kind: str) -> bool:
    """Whether a driver's GPU name is of the kind the study names; either may be the longer one."""
    one, other = name.casefold().removeprefix("nvidia "), kind.casefold().removeprefix("nvidia ")
    return one.startswith(other) or other.startswith(one)


def release_missing(spec: StudySpec, installed: str | None, default_python: str) -> Iterator[str]:
    """No SGLang there, or another release than the study's."""
    python = spec.engine.python or default_python
    if installed is None:
        yield (
            f"SGLang: {spec.engine.release} is not installed in {python}. Install it there, or name the interpreter that "
            "has it as `engine.python` in the study file."
        )
    elif _public(installed) != _public(spec.engine.release):
        yield (
            f"SGLang: the study is for {spec.engine.release}, but {python} has {installed}. Name another `engine.python`, "
            "or change `engine.release` and the study's name."
        )


def _public(version: str) -> str:
    """A version without its local part: a patched 0.5.9 calls itself `0.5.9+sm120`, say."""
    return version.partition("+")[0]


def _paths(spec: StudySpec, exists: Callable[[Path], bool]) -> Iterator[str]:
    yield from _models(spec, exists)
    named = {"measure.prompts.file": spec.measure.prompts.file}
    named |= {f"workloads.{name}.file": workload.file for name, workload in spec.workloads.items()}
    for key, file in named.items():
        if file and not exists(Path(file)):
            yield f"Prompts: `{key}` is {file}, and nothing is there."


def _models(spec: StudySpec, exists: Callable[[Path], bool]) -> Iterator[str]:
    for key, value in (("model.target", spec.model.target), ("model.draft", spec.model.draft)):
        if is_local(value) and not exists(Path(value).expanduser()):
            yield f"Model: `{key}` is the path {value}, and nothing is there. Correct it, or pass `--{key[6:].replace('target', 'model')}`."


def is_local(model: str) -> bool:
    """Whether a model is named by a path; a hub id is `owner/name` or a bare name."""
    return model.startswith(("/", "./", "../", "~")) or model.count("/") > 1
