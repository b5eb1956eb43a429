"""From choices to a space: bound the trees, rewrite as the server would, drop aliases, apply the rules."""

from __future__ import annotations

from difflib import get_close_matches

from search.config import SpecConfig, SpecVersion, tree_bound
from search.deployment import Deployment
from search.dialects import Dialect, known_rule_ids
from search.errors import InvalidConfig, UsageError
from search.space._choices import FULL_TREE, RawPoint, SpaceChoices
from search.space._space import ALIAS, INVALID, TREE_BOUND, Dropped, Locked, Space, launch_order


def enumerate_space(choices: SpaceChoices, deployment: Deployment, dialect: Dialect) -> Space:
    """Sort every raw point into launchable, locked and dropped.

    Raises:
        UnsupportedKnob: The release has no spelling for an open knob or one of its values.
        UsageError: A patch lifts a rule that no release has, the release lacks the algorithm, or a
            server flag of the study is not for it to set.
    """
    check_patches(deployment)
    dialect.server_args(deployment)  # refuses flags that no launch could be given
    if not deployment.patches and (unknown := dialect.unknown_flags(deployment)):
        raise UsageError("\n".join(unknown))
    ngram = deployment.algorithm == "NGRAM"
    if ngram and FULL_TREE in choices.num_draft_tokens:
        raise UsageError(
            f"`num_draft_tokens: {FULL_TREE}` is the size of a draft tree, but NGRAM fills its tokens from a trie and pads "
            "the rest. Name numbers, such as 12."
        )
    bound = dialect.on(deployment)
    configs: list[SpecConfig] = []
    locked: list[Locked] = []
    dropped: list[Dropped] = []
    seen: set[str] = set()
    for point in choices.points():
        if not ngram and (outside := _outside_tree(point)) is not None:
            dropped.append(Dropped(point.label, TREE_BOUND, outside))
            continue
        try:
            config = bound.canonical(_config(point))
        except InvalidConfig as error:
            dropped.append(Dropped(point.label, INVALID, str(error)))
            continue
        config_id = config.config_id
        if config_id in seen:
            dropped.append(Dropped(point.label, ALIAS, f"The same launch as {config_id}."))
            continue
        seen.add(config_id)
        rules = bound.violations(config)
        final = next((rule for rule in rules if not rule.locks), None)
        if final is not None:
            dropped.append(Dropped(point.label, final.rule_id, final.text, final))
        elif rules:
            locked.append(Locked(config, rules))
        else:
            configs.append(config)
    return Space(
        configs=tuple(sorted(configs, key=launch_order)),
        locked=tuple(sorted(locked, key=lambda entry: launch_order(entry.config))),
        dropped=tuple(dropped),
        raw=choices.raw,
        choices=choices,
        deployment=deployment,
        dialect=dialect,
    )


def check_patches(deployment: Deployment) -> None:
    """Refuse a patch that lifts a rule nobody knows: it would lift nothing, in silence.

    A rule of another release is known: the same study may be planned for several releases.

    Raises:
        UsageError: Naming the patch, the rule, and the nearest known one.
    """
    known = known_rule_ids()
    for patch in deployment.patches:
        for rule_id in patch.lifts:
            if rule_id not in known:
                near = get_close_matches(rule_id, sorted(known), n=1, cutoff=0.5)
                hint = f"Did you mean `{near[0]}`?" if near else f"Known rules: {', '.join(sorted(known))}."
                raise UsageError(
                    f"A patch lifts rules of SGLang, but patch `{patch.name}` lifts `{rule_id}`, which is none of them. "
                    f"{hint}"
                )


def _outside_tree(point: RawPoint) -> str | None:
    if point.topk is None or point.num_steps is None or point.num_draft_tokens is None or point.topk == 1:
        return None
    room = tree_bound(topk=point.topk, num_steps=point.num_steps)
    if point.num_draft_tokens <= room:
        return None
    return f"{point.num_draft_tokens} draft tokens, but topk {point.topk} and {point.num_steps} steps draft at most {room}."


def _config(point: RawPoint) -> SpecConfig:
    tokens = point.num_draft_tokens
    if point.topk == 1 and point.spec_version is not SpecVersion.OFF and tokens is not None:
        tokens = max(tokens, 2)  # rewritten by every release anyway
    return SpecConfig(point.spec_version, point.topk, point.num_steps, tokens, point.allreduce_fusion, point.extra)
