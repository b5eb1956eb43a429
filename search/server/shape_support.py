"""Whether a launch can carry the plugin, and what its environment needs for that."""

from __future__ import annotations

import json
import re
import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any

from search.config import SpecConfig, SpecVersion
from search.deployment import Deployment
from search.server.ports import LOOPBACK

TOKEN_VARIABLE = "SPEC_SEARCH_SHAPES_TOKEN"  # noqa: S105 - the name of a variable
CAP_VARIABLE = "SPEC_SEARCH_SHAPES_CAP"
PLUGIN_NAME = "search_shapes"
_PLUGINS = "SGLANG_PLUGINS"
_PATH = "PYTHONPATH"

ALGORITHMS = ("EAGLE", "EAGLE3", "NEXTN", "STANDALONE")
_FLAGS = {
    "enable-dp-attention": "DP attention",
    "enable-two-batch-overlap": "two-batch overlap",
    "enable-pdmux": "PD multiplexing",
    "enable-multi-layer-eagle": "multi-layer EAGLE",
    "speculative-use-rejection-sampling": "rejection sampling",
    "speculative-adaptive": "adaptive steps",
    "enable-lora": "LoRA",
    "lora-paths": "LoRA",
    "enable-torch-compile": "torch.compile",
}
_COUNTS = {"dp-size": ("data-parallel-size",), "pp-size": ("pipeline-parallel-size",), "nnodes": ()}
_RELEASE = re.compile(r"v?(\d+(?:\.\d+)*)(\.post\d+)?")


@dataclass(frozen=True, slots=True)
class Support:
    """Whether one start can hold several shapes.

    Attributes:
        ok: Whether to try it.
        reason: Why not; for an `ok` one, what is not proven yet, or empty.
        proven: Whether this release and algorithm stood beside starts apart on a real GPU.
    """

    ok: bool
    reason: str = ""
    proven: bool = False


def plugin_folder() -> Path:
    """The folder to put on `PYTHONPATH`: packaged, or beside the sources. In a container it has to be mounted."""
    inside = Path(str(resources.files("search"))) / "plugin"
    return inside if inside.is_dir() else inside.parent.parent / "plugin"


def new_token() -> str:
    """The token of one launch: 32 hex digits."""
    return secrets.token_hex(16)


def shapes_environment(token: str, inherited: Mapping[str, str], deployment: Deployment) -> dict[str, str]:
    """Variables that let SGLang find the plugin, beyond what the launch has.

    `PYTHONPATH` is extended. `SGLANG_PLUGINS` is a whitelist: where the user has one, the plugin is added to it;
    where there is none, none is made, or the user's other plugins would be left out.
    """
    given = {**inherited, **deployment.env}
    folder = str(plugin_folder())
    path = [folder, *(part for part in given.get(_PATH, "").split(":") if part and part != folder)]
    environment = {TOKEN_VARIABLE: token, _PATH: ":".join(path)}
    named = [name.strip() for name in given.get(_PLUGINS, "").split(",") if name.strip()]
    if named:
        environment[_PLUGINS] = ",".join(dict.fromkeys([*named, PLUGIN_NAME]))
    return environment


def known_releases() -> tuple[str, ...]:
    """Releases with a row in the plugin's table, oldest first."""
    return tuple(_releases())


def shapes_support(release: str, deployment: Deployment, config: SpecConfig) -> Support:
    """Whether starts of this deployment can switch away from, or to, a config.

    What only a running server knows (prefill graphs of the full kind, a hybrid model's state pool) the plugin
    refuses itself; then `Report.refuses` says why.

    Args:
        release: The SGLang release, such as `0.5.16` or `0.5.16+patched`.
        deployment: What every launch shares.
        config: The config; only its worker and opened knobs matter, not its shape.
    """
    row = _releases().get(_base(release))
    if row is None:
        return Support(False, f"SGLang {release} has no row in the plugin's table ({', '.join(_releases())} have).")
    if config.spec_version is not SpecVersion.V2:
        return Support(False, f"`{config.spec_version.value}` always has starts of its own; shapes are switched on v2.")
    if deployment.algorithm not in ALGORITHMS:
        return Support(
            False,
            f"Shapes are switched for {', '.join(ALGORITHMS)}, but this study drafts with {deployment.algorithm}.",
        )
    given = {name.replace("_", "-"): value for name, value in deployment.server_args.items()}
    given |= {name.replace("_", "-"): value for name, value in config.extra}
    if reason := _refused_by(given):
        return Support(False, reason)
    if deployment.algorithm in row["proven"]:
        return Support(True, proven=True)
    return Support(True, f"Not proven on a GPU: SGLang {release} with {deployment.algorithm}.")


def _refused_by(given: Mapping[str, object]) -> str:
    adaptive = given.get("adaptive", "off")
    if adaptive not in ("off", False):
        return f"A server with adaptive steps (`adaptive` {adaptive}) keeps its shape."
    for flag, words in _FLAGS.items():
        if given.get(flag) not in (None, False):
            return f"A server with {words} (`--{flag}`) keeps its shape."
    for flag, others in _COUNTS.items():
        for name in (flag, *others):
            if int(str(given.get(name, 1))) > 1:
                return f"A server with `--{name} {given[name]}` keeps its shape."
    if given.get("cuda-graph-backend-prefill") == "full":
        return "Full prefill graphs hold the start's own backend; `--cuda-graph-backend-prefill breakable` does not."
    if given.get("disaggregation-mode", "null") != "null":
        return "A server of a disaggregated pair keeps its shape."
    if given.get("host", LOOPBACK) not in (LOOPBACK, "localhost", "::1"):
        return f"A server that takes commands listens on loopback alone, but `--host` is {given['host']}."
    return ""


@cache
def _releases() -> dict[str, Any]:
    table = json.loads((plugin_folder() / PLUGIN_NAME / "internals.json").read_text(encoding="utf-8"))
    releases: dict[str, Any] = table["releases"]
    return releases


def _base(release: str) -> str:
    match = _RELEASE.match(release.strip())
    return match[1] + (match[2] or "") if match else release
