"""`search links`: an all-reduce timed between the GPUs of a study's slot, under each of the study's NCCL settings."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from pydantic import TypeAdapter, ValidationError

from search.errors import HostUnfit, UsageError
from search.host.environment import model_folder
from search.host.hardware import probe_hardware
from search.preflight.checkpoint import read_configuration
from search.preflight.facts import slot_gpus
from search.preflight.links import Backend, LinkProbe, probe_links
from search.server.ports import fresh_ports
from search.spec.study import StudySpec

LINKS = "links.json"
"""Below a study's report folder: every probe of it, the newest last."""

SLOWER = 0.2
"""A host is said to be slower than its twin from here on: probes of one host repeat within a few per cent."""

_PREFIX = "NCCL_"


@dataclass(frozen=True, slots=True)
class StoredLinks:
    """One run of the probe, as kept beside a study's report.

    Attributes:
        host: Its name.
        gpus: UUIDs of the slot.
        at: When.
        layers: Of the target; None where nobody knows.
        probes: One for each setting, the study as it is first.
    """

    host: str
    gpus: tuple[str, ...]
    at: datetime
    layers: int | None
    probes: tuple[LinkProbe, ...]


_STORED = TypeAdapter(tuple[StoredLinks, ...])


def settings_of(spec: StudySpec) -> tuple[Mapping[str, str], ...]:
    """The study as it is, then each NCCL value that it searches, one at a time."""
    found: list[Mapping[str, str]] = [{}]
    for name, values in spec.space.env.items():
        if name.startswith(_PREFIX):
            own = spec.engine.env.get(name, "")
            found += [{name: _word(value)} for value in values if _word(value) != own]
    return tuple(found)


def measure_links(
    spec: StudySpec, *, hidden: int | None = None, layers: int | None = None, backend: Backend = "nccl"
) -> StoredLinks:
    """Time all-reduces on this machine, as the first server of the study would make them.

    Args:
        spec: The study.
        hidden: Size of a token's vector; None to read it from the target's `config.json`.
        layers: Likewise.
        backend: `gloo` runs without GPUs and shows nothing of their links.

    Raises:
        UsageError: The study has one GPU a server, or the target's size is known nowhere.
        HostUnfit: Too few GPUs.
    """
    ranks = spec.model.tp
    if ranks < 2:
        raise UsageError(
            f"An all-reduce needs two GPUs a server, but `model.tp` of {spec.study} is {ranks}: there is nothing to probe."
        )
    env = spec.engine.over(os.environ)
    folder = model_folder(spec.model.target, env)
    config = read_configuration(folder) if folder is not None else None
    hidden = hidden or (config.number("hidden_size") if config else None)
    layers = layers or (config.number("num_hidden_layers") if config else None)
    if not hidden:
        raise UsageError(
            f"The size of an all-reduce is the target's hidden size, but there is no config.json of {spec.model.target} "
            "here. Say it with `--hidden`, and the number of layers with `--layers`."
        )
    gpus: tuple[str, ...] = ()
    if backend == "nccl":
        gpus = slot_gpus(spec, probe_hardware().gpus)
        if len(gpus) < ranks:
            raise HostUnfit(
                (
                    f"The probe needs {ranks} GPUs of {spec.hardware.kind} for one server, but this host has {len(gpus)}.",
                )
            )
        env = {**env, "CUDA_VISIBLE_DEVICES": ",".join(gpus)}
    probes = tuple(
        probe_links(
            ranks=ranks,
            hidden=hidden,
            python=spec.engine.python,
            env=env,
            port=fresh_ports().http,
            setting=setting,
            backend=backend,
        )
        for setting in settings_of(spec)
    )
    return StoredLinks(socket.gethostname(), gpus, datetime.now(UTC), layers, probes)


def stored_links(reports: Path) -> tuple[StoredLinks, ...]:
    """What was probed before; empty without a file.

    Args:
        reports: The study's report folder.

    Raises:
        UsageError: The file is not one of ours.
    """
    path = reports / LINKS
    try:
        return _STORED.validate_json(path.read_bytes())
    except FileNotFoundError:
        return ()
    except (ValidationError, OSError) as error:
        first = str(error).splitlines()[0]
        raise UsageError(f"{path} holds probes of links, but cannot be read as such: {first}. Remove it.") from error


def keep_links(reports: Path, found: StoredLinks) -> None:
    """Add a run to the file, written whole or not at all."""
    kept = (*stored_links(reports), found)
    reports.mkdir(parents=True, exist_ok=True)
    place = reports / LINKS
    draft = place.with_suffix(".part")
    draft.write_bytes(_STORED.dump_json(kept, indent=1))
    draft.replace(place)


def slower_than_twins(found: StoredLinks, earlier: Sequence[StoredLinks]) -> Iterator[str]:
    """One line for each setting under which another host, or other GPUs, with the same probe were faster by a fifth.

    Compared is the latency of the smallest all-reduce and the time of the largest.
    """
    for probe in found.probes:
        for other in earlier:
            if (other.host, other.gpus) == (found.host, found.gpus):
                continue
            for theirs in other.probes:
                if not _alike(probe, theirs):
                    continue
                for ours_at, theirs_at in zip(
                    (probe.points[0], probe.points[-1]), (theirs.points[0], theirs.points[-1]), strict=True
                ):
                    if ours_at.tokens == theirs_at.tokens and ours_at.us > (1 + SLOWER) * theirs_at.us:
                        yield (
                            f"{setting_words(probe)}: an all-reduce of {ours_at.tokens} tokens takes {ours_at.us:.0f} us here and "
                            f"{theirs_at.us:.0f} us on {other.host} ({other.at:%Y-%m-%d})"
                        )


def setting_words(probe: LinkProbe) -> str:
    """The setting as people write it."""
    return " ".join(f"{name}={value}" for name, value in probe.setting) or "as the study is"


def pass_words(probe: LinkProbe, layers: int | None, tokens: Sequence[int]) -> str:
    """What passes of some sizes spend in all-reduces, in a sentence; empty where it is not known."""
    if layers is None:
        return ""
    spent = [(count, ms) for count in tokens if (ms := probe.pass_ms(count, layers)) is not None]
    if not spent:
        return ""
    listed = ", ".join(f"{count} tokens {ms:.2f} ms" for count, ms in spent)
    return f"A pass of {layers} layers spends in its {2 * layers} all-reduces: {listed}."


def _alike(one: LinkProbe, other: LinkProbe) -> bool:
    keys = [
        (probe.setting, probe.ranks, probe.hidden, probe.item_bytes, probe.device, probe.in_graph)
        for probe in (one, other)
    ]
    return keys[0] == keys[1] and bool(one.points and other.points)


def _word(value: object) -> str:
    return str(int(value)) if isinstance(value, bool) else str(value)
