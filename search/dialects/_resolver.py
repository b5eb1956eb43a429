"""One release on one deployment: what a config resolves to, its canonical form, and the rules it breaks.

A canonical config is made from the resolved values alone: all optional knobs are written out with
them, and then every knob is left out that changes nothing. So two configs have one id exactly if
they resolve to the same values.

What does not depend on a tree's numbers is resolved once for all trees: a space of 100,000 points
has a few dozen of them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from search.config import KnobValue, SpecConfig, SpecVersion, check_tree, flag_name, is_variable
from search.deployment import ArgValue, Deployment
from search.dialects import _adaptive, _fusion, _knobs
from search.dialects._backends import resolve_backends, resolve_draft_backends, resolve_page_size
from search.dialects._base import Rule
from search.dialects._flags import flags_of
from search.dialects._rule import Check
from search.dialects._setting import (
    Arguments,
    Resolved,
    Setting,
    arguments,
    draft_tokens_of_a_chain,
    hybrid_radix,
    number,
    pipelined,
    text,
)
from search.dialects._targets import UNBUFFERED_ARCHITECTURES
from search.dialects._traits import Traits
from search.dialects._variables import resolve_variable
from search.errors import UnsupportedKnob

BUILT_IN: Final = frozenset({*_knobs.PLAIN_FLAGS, "allreduce_transport", "overlap", "adaptive"})

Extra = tuple[tuple[str, KnobValue], ...]


@dataclass(frozen=True, slots=True)
class _Shape:
    """What of a config the resolution depends on; trees of one shape resolve alike."""

    version: SpecVersion
    topk: int | None
    steps: int | None
    fusion: str
    extra: Extra


class Resolver:
    """Canonical form and rules of configs on one deployment.

    Args:
        traits: Of the release.
        checks: Its rules.
        deployment: Model, GPUs, flags.
    """

    def __init__(self, traits: Traits, checks: tuple[Check, ...], deployment: Deployment) -> None:
        self.traits = traits
        self.deployment = deployment
        self.algorithm = "EAGLE" if deployment.algorithm == "NEXTN" else deployment.algorithm
        self._args = arguments(deployment)
        lifted = deployment.lifted_rules
        kept = [check for check in checks if check.rule.rule_id not in lifted]
        self._tree_checks = tuple(check for check in kept if check.of_the_tree)
        self._checks = tuple(check for check in kept if not check.of_the_tree)
        self._resolved: dict[_Shape, Resolved] = {}
        self._canonical: dict[_Shape, tuple[SpecVersion, str, Extra]] = {}
        self._broken: dict[_Shape, tuple[Rule, ...]] = {}
        self._merged: dict[Extra, Arguments] = {}

    def canonical(self, config: SpecConfig) -> SpecConfig:
        """See `Dialect.canonical`."""
        check_tree(config, self.algorithm)
        config = draft_tokens_of_a_chain(self.algorithm, config)
        shape = self._shape(config)
        found = self._canonical.get(shape)
        if found is None:
            resolved = self.resolve(config)
            found = (resolved.worker, resolved.fusion, tuple(sorted(self._least(config, resolved))))
            self._canonical[shape] = found
        version, fusion, extra = found
        steps, tokens = config.num_steps, config.num_draft_tokens
        adaptive = dict(extra).get("adaptive")
        if adaptive is not None and (snapped := _adaptive.snapped_steps(str(adaptive), config, self.traits)) != steps:
            assert snapped is not None
            steps, tokens = snapped, snapped + 1
        if (version, steps, fusion, extra) == (
            config.spec_version,
            config.num_steps,
            config.allreduce_fusion,
            config.extra,
        ):
            return config
        return SpecConfig(version, config.topk, steps, tokens, fusion, extra)

    def violations(self, config: SpecConfig) -> tuple[Rule, ...]:
        """See `Dialect.violations`."""
        shape = self._shape(config)
        broken = self._broken.get(shape)
        if broken is None:
            setting = self.setting(config)
            broken = tuple(check.rule_for(setting) for check in self._checks if check.broken(setting))
            self._broken[shape] = broken
        if not config.speculates or not self._tree_checks:
            return broken
        setting = self.setting(config)
        return broken + tuple(check.rule_for(setting) for check in self._tree_checks if check.broken(setting))

    def setting(self, config: SpecConfig) -> Setting:
        """What rules are asked about."""
        return Setting(
            config, self.deployment, self._arguments(config.extra), self.traits, self.algorithm, self.resolve(config)
        )

    def resolve(self, config: SpecConfig) -> Resolved:
        """The values a server would end up with.

        Raises:
            UnsupportedKnob: A knob or value has no spelling in this release.
        """
        shape = self._shape(config)
        found = self._resolved.get(shape)
        if found is None:
            found = self._resolve(config)
            self._resolved[shape] = found
        return found

    def _shape(self, config: SpecConfig) -> _Shape:
        topk = config.topk and min(config.topk, 2)
        # Only adaptive steps look at the depth.
        steps = config.num_steps if any(name == "adaptive" for name, _ in config.extra) else None
        return _Shape(config.spec_version, topk, steps, config.allreduce_fusion, config.extra)

    def _arguments(self, extra: Extra) -> Arguments:
        """The study's flags with the config's own put over them."""
        if not extra:
            return self._args
        found = self._merged.get(extra)
        if found is None:
            merged: dict[str, ArgValue] = dict(self._args)
            for name, value in extra:
                if name == "attention_backend" and value == "auto":
                    merged.pop("attention-backend", None)
                elif name in ("attention_backend", "page_size"):
                    merged[_knobs.PLAIN_FLAGS[name]] = value
                elif name not in BUILT_IN and not is_variable(name):
                    flag = _knobs.check_flag(
                        name, value, self._args, self.traits, patched=bool(self.deployment.patches)
                    )
                    if self._says_something(flag, value):
                        merged[flag] = value
            found = merged
            self._merged[extra] = found
        return found

    def _resolve(self, config: SpecConfig) -> Resolved:
        extra, traits, deployment = dict(config.extra), self.traits, self.deployment
        self._check_values(extra)
        args = self._arguments(config.extra)
        worker = self._worker(config.spec_version)
        sent_topk = config.topk if self.algorithm in ("EAGLE", "EAGLE3", "STANDALONE") else None
        asked_page = number(args, "page-size", 0) or None
        backends = resolve_backends(
            deployment, args, traits, speculates=config.speculates, topk=sent_topk, page=asked_page
        )
        draft = extra.get("draft_attention_backend", "auto")
        draft_name = text(args, "speculative-draft-attention-backend") if draft == "auto" else str(draft)
        page = resolve_page_size(
            deployment,
            backends,
            traits,
            asked=asked_page,
            draft=draft_name if config.speculates else None,
            tree=(sent_topk or 1) > 1,
        )
        transport = "auto"
        if "allreduce_transport" in extra:
            transport = _knobs.resolve_transport(extra["allreduce_transport"], deployment, self._args, traits)
        draft_backends = None
        if config.speculates and self.algorithm != "NGRAM":
            draft_backends = resolve_draft_backends(
                backends, traits, algorithm=self.algorithm, asked=draft_name, major=deployment.hardware.sm // 10
            )
        return Resolved(
            worker=worker,
            overlap=self._overlap(worker, extra, args),
            backends=backends,
            page_size=page,
            draft_backends=draft_backends,
            attention_mode=self._mode(extra, args, split=config.speculates and backends.split),
            fusion=_fusion.resolve_fusion(config.allreduce_fusion, deployment, args, traits),
            transport=transport,
            adaptive=_adaptive.resolve_adaptive(
                extra.get("adaptive", _adaptive.OFF), config, args, traits, algorithm=self.algorithm, worker=worker
            ),
            flags=tuple(self._flags(config)),
            variables=tuple(self._variables(config)),
        )

    def _worker(self, version: SpecVersion) -> SpecVersion:
        """The worker that runs: for some algorithms and targets there is only one on releases that have two."""
        traits, algorithm = self.traits, self.algorithm
        if version is SpecVersion.V2 and algorithm not in traits.v2_algorithms and algorithm in traits.v1_algorithms:
            return SpecVersion.V1
        if version is SpecVersion.V1 and algorithm == "EAGLE" and self.deployment.architecture in traits.always_v2:
            return SpecVersion.V2
        return version

    def _overlap(self, worker: SpecVersion, extra: dict[str, KnobValue], args: Arguments) -> bool:
        asked = _knobs.resolve_overlap(extra.get("overlap", "on"), self.traits)
        stops = self.traits.hybrid_radix_stops_overlap
        hybrid = stops and worker is SpecVersion.OFF and hybrid_radix(self.deployment.architecture, args, self.traits)
        cached = not stops and "disable-radix-cache" not in args
        bufferless = cached and self.traits.tree_on_v2 and self.deployment.architecture in UNBUFFERED_ARCHITECTURES
        return asked and worker is not SpecVersion.V1 and not pipelined(args) and not hybrid and not bufferless

    def _mode(self, extra: dict[str, KnobValue], args: Arguments, *, split: bool) -> str | None:
        """It only chooses between two backends (`srt/layers/attention/hybrid_attn_backend.py:45`)."""
        if not split:
            return None
        return str(extra.get("speculative_attention_mode") or text(args, "speculative-attention-mode") or "prefill")

    def _flags(self, config: SpecConfig) -> Iterator[tuple[str, KnobValue]]:
        for name, value in config.extra:
            if name in BUILT_IN or is_variable(name) or not self._says_something(flag_name(name), value):
                continue
            mixed = name == "enable_mixed_chunk" and config.speculates
            if mixed and self.algorithm not in self.traits.mixed_chunk_algorithms:
                continue  # turned off with a warning (0.5.9 `srt/server_args.py:2390`)
            yield name, value

    def _variables(self, config: SpecConfig) -> Iterator[tuple[str, KnobValue]]:
        for name, value in config.extra:
            if is_variable(name):
                held = resolve_variable(name, value, self.deployment, self.traits.release)
                if held is not None:
                    yield name, held

    def _says_something(self, flag: str, value: KnobValue) -> bool:
        """Whether a flag knob changes anything: False sends no flag, and a default is an absent flag."""
        if flag == _knobs.LIMIT_FLAG:
            return str(value) != str(self.deployment.max_running_requests)
        known = flags_of(self.traits.release).get(flag)
        return value is not False and (known is None or not known.is_default(value))

    def _check_values(self, extra: dict[str, KnobValue]) -> None:
        release = self.traits.release
        if "attention_backend" in extra:
            choices = ("auto", *self.traits.attention_backends)
            _knobs.check_choice("attention_backend", extra["attention_backend"], choices, release=release)
        if "page_size" in extra:
            _knobs.check_page_size(extra["page_size"])
        if "speculative_attention_mode" in extra:
            mode = extra["speculative_attention_mode"]
            _knobs.check_choice("speculative_attention_mode", mode, ("prefill", "decode"), release=release)
        if extra.get("adaptive", _adaptive.OFF) not in (_adaptive.OFF, False):
            _adaptive.candidates(extra["adaptive"], self.traits)
        # The draft backend is free text to the server; `draft-attention-backend` is the rule for it.

    def _least(self, config: SpecConfig, resolved: Resolved) -> Extra:
        """The fewest knobs that resolve to `resolved`."""
        knobs = dict(_written_out(resolved))
        if self._resolves_to(config, {}, resolved):
            return ()
        order = [name for name in knobs if name not in _LAST] + [name for name in _LAST if name in knobs]
        dropped = True
        while dropped:
            dropped = False
            for name in order:
                fewer = {other: value for other, value in knobs.items() if other != name}
                if name in knobs and self._resolves_to(config, fewer, resolved):
                    knobs, dropped = fewer, True
        return tuple(knobs.items())

    def _resolves_to(self, config: SpecConfig, knobs: dict[str, KnobValue], resolved: Resolved) -> bool:
        other = SpecConfig(
            resolved.worker,
            config.topk,
            config.num_steps,
            config.num_draft_tokens,
            resolved.fusion,
            tuple(knobs.items()),
        )
        try:
            return self._resolve(other) == resolved
        except UnsupportedKnob:  # a flag of the study that no knob may name
            return False


_LAST: Final = ("page_size", "attention_backend")
"""Left out after the others, in this order: a backend may set the page size, not the other way round."""


def _written_out(resolved: Resolved) -> Iterator[tuple[str, KnobValue]]:
    """Every knob with its resolved value, where a value can be said at all."""
    yield from resolved.flags
    yield from resolved.variables
    if resolved.adaptive != _adaptive.OFF:
        yield "adaptive", resolved.adaptive
    if resolved.transport != "auto":
        yield "allreduce_transport", resolved.transport
    if resolved.worker is not SpecVersion.V1 and not resolved.overlap:
        yield "overlap", "off"
    if resolved.attention_mode is not None:
        yield "speculative_attention_mode", resolved.attention_mode
    if resolved.draft_backends is not None:
        prefill, decode = resolved.draft_backends
        if prefill is not None and prefill == decode:
            yield "draft_attention_backend", prefill
    yield "page_size", resolved.page_size
    # `auto` is the server's own choice where only the server knows it.
    yield "attention_backend", resolved.backends.attention or "auto"
