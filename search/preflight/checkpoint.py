"""A model's folder, looked at without loading it: its configuration, and whether its weights are all there."""

from __future__ import annotations

import json
import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

INDEX = "model.safetensors.index.json"
TOKENIZERS = ("tokenizer.json", "tokenizer.model", "tiktoken.model", "tekken.json", "vocab.json", "vocab.txt")
"""Files out of which a tokenizer is made; one of them is enough."""
_OTHER_WEIGHTS = ("*.bin", "*.pt", "*.pth", "*.gguf")
_MAX_HEADER = 100_000_000
"""Bytes; the format's own limit (safetensors, `MAX_HEADER_SIZE`)."""
_MAX_JSON = 50_000_000


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """What a folder holds.

    Attributes:
        config: `config.json`; empty where it cannot be read.
        weight_bytes: Of all weight files that are there.
        weight_files: How many.
        faults: What is missing or torn, one line each.
        weight_names: All tensors, where an index names them.
        tokenizer: Whether a tokenizer lies beside the weights.
    """

    folder: Path
    config: Mapping[str, Any] = field(default_factory=dict)
    weight_bytes: int = 0
    weight_files: int = 0
    faults: tuple[str, ...] = ()
    weight_names: frozenset[str] = frozenset()
    tokenizer: bool = False

    @property
    def architecture(self) -> str:
        """`architectures[0]`; empty without one."""
        named = self.config.get("architectures")
        return named[0] if isinstance(named, list) and named and isinstance(named[0], str) else ""

    @property
    def text_config(self) -> Mapping[str, Any]:
        """The language model's part of a configuration that also has a vision part."""
        parts = (self.config.get(name) for name in ("text_config", "llm_config", "language_config"))
        return next((part for part in parts if isinstance(part, Mapping)), self.config)

    def number(self, name: str) -> int | None:
        """A whole number of the language model's part; None without one."""
        value = self.text_config.get(name, self.config.get(name))
        return value if isinstance(value, int) and not isinstance(value, bool) else None

    @property
    def quantisation(self) -> str:
        """Method by which the weights are quantised; empty for plain ones."""
        for part in (self.config, self.text_config):
            found = part.get("quantization_config") or part.get("compression_config")
            if isinstance(found, Mapping):
                return str(found.get("quant_method") or found.get("quant_algo") or "unnamed")
        return ""


def read_configuration(folder: Path) -> Checkpoint:
    """Look at configuration, weight index and tokenizer alone; reads no weight file."""
    config, faults = _json(folder / "config.json")
    placed = _json(folder / INDEX)[0].get("weight_map")
    return Checkpoint(
        folder,
        config,
        faults=tuple(faults),
        weight_names=frozenset(placed) if isinstance(placed, dict) else frozenset(),
        tokenizer=any((folder / name).exists() for name in TOKENIZERS) or any(folder.glob("*.gguf")),
    )


def read_checkpoint(folder: Path) -> Checkpoint:
    """Look at a folder; reads configuration, index and the head of each weight file."""
    found = read_configuration(folder)
    weights = sorted(folder.glob("*.safetensors"))
    index_faults = list(_index_faults(folder, weights))
    torn = [fault for path in weights if (fault := _torn(path))]
    if not weights:
        weights = sorted(path for pattern in _OTHER_WEIGHTS for path in folder.glob(pattern))
        if not weights and not index_faults:
            index_faults = ["no weight file is there"]
    return replace(
        found,
        weight_bytes=sum(path.stat().st_size for path in weights if path.exists()),
        weight_files=len(weights),
        faults=(*found.faults, *index_faults, *torn),
    )


def _json(path: Path) -> tuple[dict[str, Any], list[str]]:
    try:
        if path.stat().st_size > _MAX_JSON:
            return {}, [f"{path.name} is larger than {_MAX_JSON} bytes"]
        found = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}, [f"{path.name} is not there"]
    except (OSError, ValueError) as error:
        return {}, [f"{path.name} cannot be read: {error}"]
    return (found, []) if isinstance(found, dict) else ({}, [f"{path.name} holds no object"])


def _index_faults(folder: Path, weights: list[Path]) -> Iterator[str]:
    """Files that the index names and the folder lacks; a download that broke off leaves these."""
    if not (folder / INDEX).exists():
        return
    index, faults = _json(folder / INDEX)
    yield from faults
    placed = index.get("weight_map")
    if not isinstance(placed, dict):
        if not faults:
            yield f"{INDEX} has no `weight_map`"
        return
    there = {path.name for path in weights if path.exists()}
    missing = sorted({str(name) for name in placed.values()} - there)
    if missing:
        more = f" and {len(missing) - 3} more" if len(missing) > 3 else ""
        yield f"{len(missing)} of {len(set(placed.values()))} weight files are missing: {', '.join(missing[:3])}{more}"


def _torn(path: Path) -> str:
    """Empty, or why the file is not whole: its head says how long it must be."""
    try:
        size = path.stat().st_size
        with path.open("rb") as file:
            start = file.read(8)
            if start.startswith(b"version "):
                return f"{path.name} is a Git LFS pointer, not the weights"
            length = struct.unpack("<Q", start)[0] if len(start) == 8 else _MAX_HEADER + 1
            if length > _MAX_HEADER:
                return f"{path.name} is not a safetensors file"
            head = json.loads(file.read(length))
        ends = [entry["data_offsets"][1] for name, entry in head.items() if name != "__metadata__"]
    except FileNotFoundError:
        return f"{path.name} is a link to nothing"
    except (OSError, ValueError, KeyError, TypeError, AttributeError, IndexError) as error:
        return f"{path.name} cannot be read: {error}"
    wanted = 8 + length + max(ends, default=0)
    return "" if size == wanted else f"{path.name} has {size} bytes, but its head says {wanted}"
