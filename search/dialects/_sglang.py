"""What all SGLang releases of this project have in common; their traits say where they differ."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from functools import cached_property
from typing import Any, ClassVar

from search.config import KnobValue, SpecConfig, SpecVersion, flag_name, is_variable
from search.contracts import EffectiveSettings
from search.deployment import ArgValue, Deployment
from search.dialects import _adaptive, _fusion, _knobs, _readback, _targets
from search.dialects._base import Dialect, LaunchArgs, Rule
from search.dialects._checks import checks_of
from search.dialects._flags import check_values, flags_of, nearest_flag
from search.dialects._forced import forced_page
from search.dialects._resolver import BUILT_IN, Resolver
from search.dialects._rule import Check
from search.dialects._rules_models import MULTI_LAYER
from search.dialects._setting import arguments
from search.dialects._traits import Traits
from search.dialects._variables import resolve_variable
from search.errors import UsageError

WIDE_BY_DEFAULT = frozenset({"LlamaForCausalLM", "Grok1ForCausalLM", "Grok1VForCausalLM"})
"""Targets that get a tree where the command gives no numbers; all others get a chain."""


class SglangDialect(Dialect):
    """One release, given by its traits and by how it spells the worker version."""

    traits: ClassVar[Traits]
    knob_flags: ClassVar[Mapping[str, str]] = _knobs.PLAIN_FLAGS

    @abstractmethod
    def worker_args(self, version: SpecVersion, *, overlap: bool) -> LaunchArgs:
        """Spell the worker version, explicitly, whatever the environment holds."""

    @property
    def supports_v1(self) -> bool:
        """See `Dialect`."""
        return "EAGLE3" in self.traits.v1_algorithms

    @property
    def fusion_idles(self) -> bool:
        """See `Dialect`."""
        return not self.traits.fusion_backends

    @property
    def adaptive_steps(self) -> tuple[int, ...]:
        """See `Dialect`."""
        return self.traits.adaptive_table if self.traits.adaptive is not None else ()

    def schedule_file(self, steps: Mapping[int, int]) -> tuple[str, str]:
        """See `Dialect`."""
        return _adaptive.FILE_NAME, _adaptive.schedule_text(steps, self.traits)

    @property
    def supports_tree_on_v2(self) -> bool:
        """See `Dialect`."""
        return self.traits.tree_on_v2

    @cached_property
    def checks(self) -> tuple[Check, ...]:
        """The rules with their tests."""
        return checks_of(self.traits)

    def rules(self) -> tuple[Rule, ...]:
        """See `Dialect`."""
        return tuple(check.rule for check in self.checks)

    def takes(self, algorithm: str, architecture: str) -> bool:
        """See `Dialect`."""
        known = "EAGLE" if algorithm == "NEXTN" else algorithm
        return known in self.traits.algorithms and _targets.takes(known, architecture, self.traits.release)

    def forces_chains(self, deployment: Deployment) -> bool:
        """See `Dialect`."""
        page = forced_page(deployment.architecture, deployment.hardware.sm // 10, self.traits.release)
        layered = not deployment.draft and deployment.architecture in MULTI_LAYER
        return page is not None or layered

    def default_tree(self, deployment: Deployment) -> tuple[int, int, int]:
        """See `Dialect` (0.5.9 `srt/server_args.py:2404`, `auto_choose_speculative_params`)."""
        match deployment.algorithm:
            case "NGRAM":
                return 10, 18, 12
            case "DFLASH":
                facts = deployment.draft_facts
                block = facts.block_size if facts is not None and facts.block_size else 16
                return 1, max(block - 1, 1), block
            case "STANDALONE":
                return 1, 3, 4
            case _:
                return (4, 5, 8) if deployment.architecture in WIDE_BY_DEFAULT else (1, 3, 4)

    def fuses_unasked(self, deployment: Deployment) -> bool:
        """See `Dialect`."""
        return _fusion.comes_by_itself(deployment, arguments(deployment), self.traits)

    def on(self, deployment: Deployment) -> Resolver:
        """See `Dialect`.

        Raises:
            UsageError: The release lacks the deployment's algorithm, or a flag of the study has a value that the
                release's parser does not take.
        """
        self._check_algorithm(deployment)
        self.server_args(deployment)  # refuses flags that the study may not set
        check_values(arguments(deployment), self.traits.release, patched=bool(deployment.patches))
        return Resolver(self.traits, self.checks, deployment)

    def launch_args(self, config: SpecConfig, deployment: Deployment) -> LaunchArgs:
        """See `Dialect`. The words go after those of `server_args`: the server takes the last of two.

        Raises:
            UnsupportedKnob: A knob or value has no spelling in this release.
        """
        resolver = self.on(deployment)
        resolver.resolve(config)  # refuses what has no spelling
        extra, args = dict(config.extra), arguments(deployment)
        worker = self.worker_args(config.spec_version, overlap=extra.get("overlap", "on") == "on")
        flags: list[str] = []
        env: dict[str, str | None] = {**dict.fromkeys(deployment.searched_env), **worker.env}
        files: dict[str, tuple[str, str]] = {}
        if config.speculates:
            flags += self._drafting(config, deployment, resolver.algorithm)
        flags += worker.flags
        flags += _fusion.fusion_flags(config.allreduce_fusion, deployment, args, self.traits)
        if self.traits.pcie_ipc:
            env[_knobs.PCIE_IPC_VARIABLE] = deployment.env.get(_knobs.PCIE_IPC_VARIABLE)
        for name, value in config.extra:
            if name == "allreduce_transport":
                transport = _knobs.resolve_transport(value, deployment, args, self.traits)
                if transport == _knobs.PCIE_IPC:
                    env[_knobs.PCIE_IPC_VARIABLE] = "1"
                elif transport != "auto":
                    flags.append(f"--{_knobs.TRANSPORT_FLAGS[transport]}")
            elif name == "adaptive" and value != _adaptive.OFF:
                flags.append("--speculative-adaptive")
                if value != _adaptive.AUTO:
                    text = _adaptive.file_text(str(value), self.traits)
                    files["--speculative-adaptive-config"] = (_adaptive.FILE_NAME, text)
            elif name in self.knob_flags:
                if value != "auto":
                    flags += [f"--{self.knob_flags[name]}", str(value)]
            elif is_variable(name):
                held = resolve_variable(name, value, deployment, self.traits.release)
                env[name] = None if held is None else str(held)
            elif name not in BUILT_IN:
                flags += _spell(
                    _knobs.check_flag(name, value, args, self.traits, patched=bool(deployment.patches)), value
                )
        return LaunchArgs(tuple(flags), env, files)

    def server_args(self, deployment: Deployment) -> LaunchArgs:
        """See `Dialect`. The radix cache is off unless the study says otherwise: hits would flatter repeats.

        Raises:
            UsageError: The study sets a flag that one of its own fields or a knob sets, or one that
                this release calls otherwise.
        """
        flags = ["--model-path", deployment.model, "--tp-size", str(deployment.tp)]
        # Always: unset, a speculating server admits 48 requests (0.5.9 `srt/server_args.py:2362`, 0.5.11 `:3453`).
        flags += ["--max-running-requests", str(deployment.max_running_requests)]
        if deployment.trust_remote_code:
            flags.append("--trust-remote-code")
        given = {flag_name(name): value for name, value in deployment.server_args.items()}
        for name, value in ({"disable-radix-cache": True} | given).items():
            if name in _knobs.OWNED_FLAGS:
                raise UsageError(
                    f"`server_args` may not hold `{name}`, because {_knobs.OWNED_FLAGS[name]} sets it; got {value!r}. "
                    "Set it there and remove it here."
                )
            if name in self.traits.gone_flags:
                raise UsageError(
                    f"`server_args` holds `{name}`, but SGLang {self.traits.release} has no such flag. "
                    f"Write {self.traits.gone_flags[name]}."
                )
            flags += _spell(name, value)
        return LaunchArgs(tuple(flags))

    def unknown_flags(self, deployment: Deployment) -> tuple[str, ...]:
        """See `Dialect`."""
        release = self.traits.release
        return tuple(
            f"`server_args` holds `{name}`, but the parser of SGLang {release} has no such flag.{nearest_flag(name, release)}"
            for name in arguments(deployment)
            if name not in flags_of(release)
        )

    def effective(self, server_info: Mapping[str, Any], asked: SpecConfig) -> EffectiveSettings:
        """See `Dialect`."""
        return _readback.effective(server_info, asked, self.knob_flags, self.traits)

    def _check_algorithm(self, deployment: Deployment) -> None:
        algorithm = deployment.algorithm
        known = "EAGLE" if algorithm == "NEXTN" else algorithm
        if known not in self.traits.algorithms:
            since = " It begins at 0.5.11." if known == "DFLASH" else ""
            raise UsageError(
                f"SGLang {self.traits.release} is driven with one of {', '.join(sorted(self.traits.algorithms))}, but the "
                f"study's `algorithm` is {algorithm}.{since}"
            )

    def _drafting(self, config: SpecConfig, deployment: Deployment, algorithm: str) -> list[str]:
        """Algorithm, draft and tree numbers."""
        words = ["--speculative-algorithm", algorithm]
        if deployment.draft and algorithm != "NGRAM":
            words += ["--speculative-draft-model-path", deployment.draft]
        steps, topk, tokens = str(config.num_steps), str(config.topk), str(config.num_draft_tokens)
        match algorithm:
            case "NGRAM":
                words += [f"--{self.traits.ngram_depth_flag}", steps, "--speculative-ngram-max-bfs-breadth", topk]
            case "DFLASH":
                pass  # it forces topk and steps to 1; the block is its number of draft tokens
            case _:
                words += ["--speculative-num-steps", steps, "--speculative-eagle-topk", topk]
        return [*words, "--speculative-num-draft-tokens", tokens]


def _spell(name: str, value: ArgValue | KnobValue) -> list[str]:
    if value is False:
        return []
    if value is True:
        return [f"--{name}"]
    words = value if isinstance(value, tuple) else (value,)
    return [f"--{name}", *map(str, words)]
