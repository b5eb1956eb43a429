"""EAGLE, EAGLE3 and STANDALONE on releases that have both the v1 and the v2 worker (0.5.9 to 0.5.12)."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Mapping
from typing import Any, ClassVar, Final

from search.config import KnobValue, SpecConfig, SpecVersion
from search.contracts import EffectiveSettings
from search.deployment import ArgValue, Deployment
from search.dialects import _knobs, _readback
from search.dialects._checks import FUSION_MAJORS, Check
from search.dialects._setting import (
    MLA_ARCHITECTURES,
    Backends,
    Setting,
    argument,
    dp_attention,
    number,
    resolve_backends,
    resolve_page_size,
)
from search.dialects.base import Dialect, LaunchArgs, Rule
from search.errors import UnsupportedKnob, UsageError

OWNED_FLAGS: Final[Mapping[str, str]] = {
    **dict.fromkeys(("model", "model-path"), "the study's `model`"),
    **dict.fromkeys(("tp", "tp-size", "tensor-parallel-size"), "the study's `tp`"),
    "max-running-requests": "the study's `max_running_requests`",
    "trust-remote-code": "the study's `trust_remote_code`",
    "speculative-algorithm": "the study's `algorithm`",
    **dict.fromkeys(("speculative-draft-model", "speculative-draft-model-path"), "the study's `draft`"),
    "speculative-num-steps": "the knob `num_steps`",
    "speculative-eagle-topk": "the knob `topk`",
    "speculative-num-draft-tokens": "the knob `num_draft_tokens`",
    "disable-overlap-schedule": "the knob `spec_version`",
    **dict.fromkeys(
        (
            "enable-flashinfer-allreduce-fusion",
            "enforce-disable-flashinfer-allreduce-fusion",
            "flashinfer-allreduce-fusion-backend",
        ),
        "the knob `allreduce_fusion`",
    ),
}
"""Flags a study may not set on its own, and what sets them."""


class EagleDialect(Dialect):
    """Behaviour that 0.5.9 to 0.5.12 share; capability flags say where they differ."""

    can_force_fusion_off: ClassVar[bool] = False
    """Whether a flag turns all-reduce fusion off where the release turns it on by itself."""
    fusion_architectures: ClassVar[frozenset[str]] = frozenset()
    """Targets for which the release turns all-reduce fusion on by itself on SM90 and SM100."""
    v2_only_eagle_architectures: ClassVar[frozenset[str]] = frozenset()
    """Targets for which EAGLE always runs the v2 worker."""
    attention_backends: ClassVar[tuple[str, ...]] = ()
    """Values of `--attention-backend`."""
    knob_flags: ClassVar[Mapping[str, str]] = {
        "attention_backend": "attention-backend",
        "draft_attention_backend": "speculative-draft-attention-backend",
        "page_size": "page-size",
        "speculative_attention_mode": "speculative-attention-mode",
    }
    checks: ClassVar[tuple[Check, ...]] = ()

    @abstractmethod
    def fa4_forces_page(self, deployment: Deployment) -> bool:
        """Whether fa4 as prefill backend sets the page size to 128."""

    @abstractmethod
    def worker_args(self, version: SpecVersion) -> LaunchArgs:
        """Spell the worker version, explicitly, whatever the environment holds."""

    def rules(self) -> tuple[Rule, ...]:
        """See `Dialect`."""
        return tuple(check.rule for check in self.checks)

    def canonical(self, config: SpecConfig, deployment: Deployment) -> SpecConfig:
        """See `Dialect`.

        Raises:
            UnsupportedKnob: A knob or value has no spelling in this range.
        """
        version, tokens = config.spec_version, config.num_draft_tokens
        if config.topk == 1 and config.num_steps:
            tokens = config.num_steps + 1  # 0.5.9 `srt/server_args.py:2443`, 0.5.11 `:3539`
        if version is SpecVersion.V1 and self._always_v2(deployment):
            version = SpecVersion.V2
        fusion = self._canonical_fusion(config.allreduce_fusion, deployment)
        extra = tuple(self._canonical_extra(config, deployment)) if config.extra else ()
        asked = (config.spec_version, config.num_draft_tokens, config.allreduce_fusion, config.extra)
        if (version, tokens, fusion, extra) == asked:
            return config
        return SpecConfig(version, config.topk, config.num_steps, tokens, fusion, extra)

    def violations(self, config: SpecConfig, deployment: Deployment) -> tuple[Rule, ...]:
        """See `Dialect`."""
        setting = self._resolve(config, deployment)
        lifted = deployment.lifted_rules
        return tuple(check.rule for check in self.checks if check.broken(setting) and check.rule.rule_id not in lifted)

    def launch_args(self, config: SpecConfig, deployment: Deployment) -> LaunchArgs:
        """See `Dialect`. The words go after those of `server_args`: the server takes the last of two.

        Raises:
            UnsupportedKnob: A knob or value has no spelling in this range.
        """
        worker = self.worker_args(config.spec_version)
        flags: list[str] = []
        if config.speculates:
            flags += ["--speculative-algorithm", deployment.algorithm]
            flags += ["--speculative-draft-model-path", deployment.draft]
            flags += ["--speculative-num-steps", str(config.num_steps)]
            flags += ["--speculative-eagle-topk", str(config.topk)]
            flags += ["--speculative-num-draft-tokens", str(config.num_draft_tokens)]
        flags += worker.flags
        flags += self._fusion_flags(config.allreduce_fusion, deployment)
        for name, value in config.extra:
            if name == "allreduce_transport":
                flags += [f"--{_knobs.TRANSPORT_FLAGS[_knobs.canonical_transport(value, deployment)]}"]
            else:
                self._check_value(name, value)
                flags += [f"--{self.knob_flags[name]}", str(value)]
        return LaunchArgs(tuple(flags), worker.env)

    def server_args(self, deployment: Deployment) -> LaunchArgs:
        """See `Dialect`. The radix cache is off unless the study says otherwise: hits would flatter repeats.

        Raises:
            UsageError: The study sets a flag that one of its own fields or a knob sets.
        """
        flags = ["--model-path", deployment.model, "--tp-size", str(deployment.tp)]
        # Always: unset, a speculating server admits 48 requests (0.5.9 `srt/server_args.py:2362`, 0.5.11 `:3453`).
        flags += ["--max-running-requests", str(deployment.max_running_requests)]
        if deployment.trust_remote_code:
            flags.append("--trust-remote-code")
        given = {name.replace("_", "-"): value for name, value in deployment.server_args.items()}
        for name, value in ({"disable-radix-cache": True} | given).items():
            if name in OWNED_FLAGS:
                raise UsageError(
                    f"`server_args` may not hold `{name}`, because {OWNED_FLAGS[name]} sets it; got {value!r}. "
                    "Set it there and remove it here."
                )
            flags += _spell(name, value)
        return LaunchArgs(tuple(flags))

    def effective(self, server_info: Mapping[str, Any], asked: SpecConfig) -> EffectiveSettings:
        """See `Dialect`."""
        return _readback.effective(server_info, asked, self.knob_flags)

    def _always_v2(self, deployment: Deployment) -> bool:
        return deployment.algorithm == "EAGLE" and deployment.architecture in self.v2_only_eagle_architectures

    def _fusion_by_itself(self, deployment: Deployment) -> bool:
        """Whether the release turns fusion on unasked (0.5.9 `srt/server_args.py:1680`, 0.5.11 `:2330`)."""
        kind = deployment.hardware.kind
        return (
            deployment.architecture in self.fusion_architectures
            and deployment.hardware.sm // 10 in FUSION_MAJORS
            and ("H20" not in kind or "H200" in kind)
            and not dp_attention(deployment)
            and number(deployment, "nnodes", 1) == 1
            and argument(deployment, "moe-a2a-backend") in (None, "none")
        )

    def _canonical_fusion(self, fusion: str, deployment: Deployment) -> str:
        # With one GPU there is nothing to reduce; under dp attention the path is never taken
        # (0.5.9 `srt/layers/communicator.py:99`, 0.5.11 `:165`).
        if deployment.tp == 1 or dp_attention(deployment):
            return "off"
        if fusion == "off" and not self.can_force_fusion_off and self._fusion_by_itself(deployment):
            return "auto"
        return fusion

    def _fusion_flags(self, fusion: str, deployment: Deployment) -> tuple[str, ...]:
        if fusion == "auto":
            return ("--enable-flashinfer-allreduce-fusion",)
        if fusion != "off":
            raise UnsupportedKnob(f"`allreduce_fusion` is `off` or `auto` in this release, but got {fusion!r}.")
        # An unknown target may be one of those, and the flag does no harm on others.
        unknown = not deployment.architecture and deployment.hardware.sm // 10 in FUSION_MAJORS
        if self.can_force_fusion_off and deployment.tp > 1 and (unknown or self._fusion_by_itself(deployment)):
            return ("--enforce-disable-flashinfer-allreduce-fusion",)
        return ()

    def _check_value(self, name: str, value: KnobValue) -> None:
        match name:
            case "attention_backend":
                _knobs.check_choice(name, value, ("auto", *self.attention_backends))
            case "draft_attention_backend":
                pass  # the server takes any text; `draft-attention-backend` is the rule for it
            case "page_size":
                _knobs.check_page_size(value)
            case "speculative_attention_mode":
                _knobs.check_choice(name, value, ("prefill", "decode"))
            case _:
                known = ", ".join(sorted({*self.knob_flags, "allreduce_transport"}))
                raise UnsupportedKnob(f"SGLang {self.releases[-1]} has no knob `{name}`; it has {known}.")

    def _canonical_extra(self, config: SpecConfig, deployment: Deployment) -> Iterator[tuple[str, KnobValue]]:
        extra = dict(config.extra)
        default = resolve_backends(deployment, None)
        asked = extra.get("attention_backend")
        backends = resolve_backends(deployment, None if asked == "auto" else asked)
        for name, value in extra.items():
            if name == "allreduce_transport":
                value = _knobs.canonical_transport(value, deployment)
                if value != "auto":
                    yield name, value
                continue
            self._check_value(name, value)
            if name in _knobs.SPECULATION_ONLY and not config.speculates:
                continue
            match name:
                case "attention_backend":
                    if backends != default:
                        yield name, value
                case "draft_attention_backend":
                    inherited = argument(deployment, "speculative-draft-attention-backend")
                    if inherited is None and not backends.split:
                        inherited = backends.decode or backends.attention
                    if value not in ("auto", inherited):
                        yield name, value
                case "speculative_attention_mode":
                    fixed = argument(deployment, "speculative-attention-mode") or "prefill"
                    # It only chooses between two backends (`srt/layers/attention/hybrid_attn_backend.py:45`).
                    if value != fixed and backends.split:
                        yield name, value
                case "page_size":
                    page = self._page_size(backends, _knobs.check_page_size(value), deployment)
                    if page != self._page_size(backends, number(deployment, "page-size", 1), deployment):
                        yield name, page

    def _page_size(self, backends: Backends, asked: int, deployment: Deployment) -> int:
        fa4 = self.fa4_forces_page(deployment) and deployment.architecture not in MLA_ARCHITECTURES
        return resolve_page_size(backends, asked, fa4_forces_page=fa4)

    def _resolve(self, config: SpecConfig, deployment: Deployment) -> Setting:
        extra = dict(config.extra)
        backends = resolve_backends(deployment, extra.get("attention_backend"))
        page = int(extra["page_size"]) if "page_size" in extra else number(deployment, "page-size", 1)
        return Setting(
            config=config,
            deployment=deployment,
            major=deployment.hardware.sm // 10,
            backends=backends,
            page_size=self._page_size(backends, page, deployment),
            dp_attention=dp_attention(deployment),
            transport=str(extra.get("allreduce_transport") or _knobs.study_transport(deployment) or "auto"),
        )


def _spell(name: str, value: ArgValue) -> list[str]:
    if value is False:
        return []
    if value is True:
        return [f"--{name}"]
    words = value if isinstance(value, tuple) else (value,)
    return [f"--{name}", *map(str, words)]
