"""Which configs of a study one server start can measure, one after the other."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from search.config import SpecConfig, flag_name
from search.deployment import Deployment
from search.dialects import Dialect, Resolved
from search.errors import UsageError
from search.server.shape_starts import StartGroup, group
from search.server.shape_support import known_releases, shapes_support
from search.space import Space
from search.spec.study import StudySpec
from search.study.sharing import NO_SHARING, Sharing

_POOL = "mem-fraction-static"
_NO_POOL = (
    f"`engine.server_args` does not name `{_POOL}`: what is left for the graphs of further shapes would be up to the "
    "release, and the cache of each start up to its shape; name it, with some GB to spare"
)
"""From 0.5.16 on a release that chooses it sizes the cache after capturing the graphs of the start's own shape
(`srt/server_args.py:post_capture_kv_sizing_planned`). Graph sizes depend on GPU and tp alone (`:3903`)."""
_NO_BACKEND = (
    "which attention backend the release chooses for this model is not known here; name `attention-backend` in "
    "`engine.server_args`"
)
_SHAPE_FIELDS = frozenset(
    {"speculative_eagle_topk", "speculative_num_steps", "speculative_num_draft_tokens", "speculative_algorithm"}
)
_MOST_REASONS = 4


@dataclass(frozen=True, slots=True)
class StartPlan:
    """A study's starts before its first launch.

    Attributes:
        sharing: What may share a start.
        configs: Of the space.
        apart: Why configs share no start -> how many, most frequent first.
    """

    sharing: Sharing
    configs: int
    apart: tuple[tuple[str, int], ...] = ()

    @property
    def line(self) -> str:
        """One line for people: which configs a server start can hold, and why not more."""
        groups = self.sharing.groups
        head = "starts: one for each launch"
        if groups:
            named = "; ".join(_named(members) for members in groups[:3]) + "; …" * (len(groups) > 3)
            head = f"starts: one can hold several configs, any of one group: {named}"
        return f"{head}; {self.sharing.words}" if self.sharing.words else head


def sharing_of(spec: StudySpec, space: Space, dialect: Dialect | None) -> Sharing:
    """What `start_plan` finds, alone."""
    return start_plan(spec, space, dialect).sharing if dialect is not None else NO_SHARING


def start_plan(
    spec: StudySpec,
    space: Space,
    dialect: Dialect,
    *,
    installed: Mapping[str, Mapping[str, Any]] | None = None,
) -> StartPlan:
    """Sort the configs of a study into starts, by what the release makes of them.

    Args:
        spec: The study; `engine.shared_starts` is its wish.
        space: Its valid configs.
        dialect: Of its release.
        installed: Config id -> what the installed release resolved, where it was asked: its word splits groups further.

    Raises:
        UsageError: Shared starts are asked for, on a release that has none.
    """
    deployment, wish = spec.deployment, spec.engine.shared_starts
    count = len(space.configs)
    if wish == "off":
        return StartPlan(Sharing(words="`engine.shared_starts` is off"), count)
    if wish == "on":
        _refuse_without_a_row(space, deployment)
    bound = dialect.on(deployment)
    apart: Counter[str] = Counter()
    fit: list[SpecConfig] = []
    resolved: dict[str, dict[str, object]] = {}
    unproven = ""
    for config in space.configs:
        support = shapes_support(deployment.release, deployment, config)
        settings = bound.resolve(config)
        if reason := _why_apart(config, support.reason if not support.ok else "", settings, deployment):
            apart[reason] += 1
        elif not support.proven and wish == "auto":
            apart[f"{support.reason.rstrip('.')} (`engine.shared_starts: on` shares them all the same)"] += 1
        else:
            unproven = unproven or ("" if support.proven else support.reason)
            fit.append(config)
            resolved[config.config_id] = _settings(settings, (installed or {}).get(config.config_id, {}))
    groups = group(fit, resolved)
    shared = tuple(one.configs for one in groups if len(one.configs) > 1)
    for one in groups:
        if len(one.configs) == 1:
            apart[_alone(one)] += 1
    reasons = tuple((reason, number) for reason, number in apart.most_common())
    words = (
        [f"NOT PROVEN ON A GPU: {unproven.removeprefix('Not proven on a GPU: ').rstrip('.')}"]
        if unproven and shared
        else []
    )
    words += [f"{number} apart: {reason.rstrip('.')}" for reason, number in reasons[:_MOST_REASONS]]
    return StartPlan(Sharing(shared, "; ".join(words)), count, reasons)


def _refuse_without_a_row(space: Space, deployment: Deployment) -> None:
    found = [shapes_support(deployment.release, deployment, config) for config in space.configs if config.speculates]
    if found and not any(one.ok for one in found):
        raise UsageError(
            f"`engine.shared_starts: on` needs a release and a draft that can switch shapes, but: {found[0].reason} "
            f"Releases that can: {', '.join(known_releases())}. Write `auto`, or take one of them."
        )


def _why_apart(config: SpecConfig, unsupported: str, settings: Resolved, deployment: Deployment) -> str:
    if not config.speculates:
        return "`off` always has starts of its own"
    if unsupported:
        return unsupported
    if deployment.target_facts is not None and deployment.target_facts.hybrid:
        return "a hybrid model keeps its shape: its state pool is made for one"
    given = {flag_name(name) for name in deployment.server_args} | {flag_name(name) for name, _ in config.extra}
    if _POOL not in given:
        return _NO_POOL
    return _NO_BACKEND if None in settings.backends.pair else ""


def _settings(settings: Resolved, installed: Mapping[str, Any]) -> dict[str, object]:
    """What two configs must have alike to share a start, by SGLang's names."""
    backends = settings.backends
    named: dict[str, object] = {
        "attention_backend": backends.attention,
        "prefill_attention_backend": backends.prefill,
        "decode_attention_backend": backends.decode,
        "page_size": settings.page_size,
        "speculative_draft_attention_backend": settings.draft_backends,
        "speculative_attention_mode": settings.attention_mode,
        "overlap": settings.overlap,
        "transport": settings.transport,
        "adaptive": settings.adaptive,
        "flags": settings.flags,
        "variables": settings.variables,
    }
    versions_used = {f"installed {name}": str(value) for name, value in installed.items() if name not in _SHAPE_FIELDS}
    return named | versions_used


def _alone(one: StartGroup) -> str:
    return f"no other config resolves alike ({one.why_apart.partition('; ')[0]})" if one.why_apart else "no other one"


def _named(members: tuple[SpecConfig, ...]) -> str:
    widths = sorted({config.topk or 0 for config in members})
    return f"{len(members)} configs with topk {', '.join(map(str, widths))}"
