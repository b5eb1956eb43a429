"""Whether a config may run here, who says no, where it could, and what it sends through each pass."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from search.config import LONG_NAMES, TREE_KNOBS, KnobValue, SpecConfig, SpecVersion, check_tree, tree_bound
from search.deployment import Deployment
from search.dialects import UNSET, Dialect, for_release, known_releases
from search.errors import ImpossibleTree, InvalidConfig, UnsupportedKnob, UsageError
from search.server.command import server_command
from search.server.ports import PortBlock
from search.space import FULL_TREE, Space, parse_assignments
from search.spec.study import StudySpec
from search.whatif.answer import Legality, Refusal, TokenShare

_PORTS = PortBlock(http=30000, nccl=30001)
"""SGLang's own default; a search draws fresh ones for each launch."""


def read_question(spec: StudySpec, text: str, dialect: Dialect) -> tuple[tuple[SpecConfig, ...], tuple[str, ...]]:
    """The configs that are meant, as asked, and where knobs that were not said come from.

    Without a worker both are meant. Tree knobs come from the first speculating config that the
    study names, further knobs from the first value the study opens.

    Raises:
        InvalidConfig: A knob or value is not understood, or the tree is impossible.
    """
    text, algorithm = text.strip(), spec.model.algorithm
    try:
        named = SpecConfig.from_id(text)
    except InvalidConfig:
        if "=" not in text:
            raise
    else:
        check_tree(named, algorithm)
        return (named,), ()
    said = {LONG_NAMES.get(name, name) for name in (word.partition("=")[0] for word in text.replace(",", " ").split())}
    defaults, taken = _defaults(spec, said)
    if "spec_version" in said:
        workers: tuple[Mapping[str, KnobValue], ...] = ({},)
    else:
        workers = ({"spec_version": SpecVersion.V1.value}, {"spec_version": SpecVersion.V2.value})
        taken = ("spec_version: both workers.", *taken)
    try:
        configs = tuple(
            parse_assignments(text, {**defaults, **worker}, dialect=dialect, algorithm=algorithm) for worker in workers
        )
    except ImpossibleTree as error:
        raise ImpossibleTree(f"{error}{_grown(_said_tree(text, defaults))}") from error
    if any(not config.speculates for config in configs):
        return configs, tuple(line for line in taken if not line.startswith(TREE_KNOBS))
    if "num_draft_tokens" not in said and "num_draft_tokens" not in defaults:
        taken = (*taken, f"num_draft_tokens {configs[0].num_draft_tokens}: the full tree.")
    return configs, taken


def _said_tree(text: str, defaults: Mapping[str, KnobValue]) -> tuple[int, int] | None:
    """Width and depth as said or taken; None where they are no numbers."""
    words = dict(word.partition("=")[::2] for word in text.replace(",", " ").split())
    values = {name: str(words.get(name, defaults.get(name, ""))) for name in ("topk", "num_steps")}
    if not all(value.isdecimal() and int(value) > 0 for value in values.values()):
        return None
    return int(values["topk"]), int(values["num_steps"])


def legality_of(asked: SpecConfig, spec: StudySpec, space: Space, dialect: Dialect) -> tuple[SpecConfig, Legality]:
    """The canonical config of a question, and whether it may run.

    Args:
        asked: The config as asked.
        spec: The study.
        space: Of the study.
        dialect: Of its release.

    Raises:
        UnsupportedKnob: The release has no spelling for a knob or value.
    """
    found = space.explain(asked)
    config, deployment = found.config, spec.deployment
    bare = dialect.on(replace(deployment, patches=())).violations(config)
    refused = {rule.rule_id for rule in found.rules}
    return config, Legality(
        refusals=tuple(Refusal(rule.rule_id, rule.text, rule.source, rule.unlock) for rule in found.rules),
        through=tuple(
            f"{patch.name} (lifts {rule.rule_id})"
            for rule in bare
            if rule.rule_id not in refused
            for patch in deployment.patches
            if rule.rule_id in patch.lifts
        ),
        releases=tuple(release for release in known_releases() if _runs_on(config, deployment, release)),
        outside=found.unchosen,
        rewritten_from=asked.config_id if asked != config else "",
        verify_tokens=config.verify_tokens,
        tree=_tree(config, deployment.algorithm),
        shares=tuple(_shares(config, spec.known_configs)),
        command=_command(config, deployment, dialect),
    )


def _defaults(spec: StudySpec, said: set[str]) -> tuple[dict[str, KnobValue], tuple[str, ...]]:
    values: dict[str, KnobValue] = {}
    taken = []
    known = next((config for config in spec.known_configs if config.speculates), None)
    for name in ("topk", "num_steps"):
        if name in said:
            continue
        if known is not None:
            values[name] = known.params[name]
            taken.append(f"{name} {values[name]}: as in {known}, which the study names first.")
        else:
            values[name] = getattr(spec.space, name)[0]
            taken.append(f"{name} {values[name]}: the first of the study's choices.")
    tokens = spec.choices.values["num_draft_tokens"][0]
    if spec.model.algorithm in ("NGRAM", "DFLASH") and "num_draft_tokens" not in said and tokens != FULL_TREE:
        values["num_draft_tokens"] = tokens  # no tree that could be full
        taken.append(f"num_draft_tokens {tokens}: the first of the study's choices.")
    for name, choices in spec.choices.values.items():
        if name not in said and name not in ("spec_version", *TREE_KNOBS) and choices and choices[0] != UNSET:
            values[name] = choices[0]
            taken.append(f"{name} {choices[0]}: the first of the study's choices.")
    return values, tuple(taken)


def _tree(config: SpecConfig, algorithm: str) -> str:
    if not config.speculates or config.topk is None or config.num_steps is None:
        return ""
    if algorithm == "NGRAM":
        wide = f"a trie at most {config.topk} wide and {config.num_steps} deep"
        return f"{wide}: {config.num_draft_tokens} tokens are verified, padding where it holds fewer"
    if algorithm == "DFLASH":
        return f"a block of {config.num_draft_tokens} tokens, drafted in one pass"
    if config.topk == 1:
        return f"a chain: the root and {config.num_steps} drafts"
    room = tree_bound(topk=config.topk, num_steps=config.num_steps)
    filled = (
        "all of them are verified" if config.num_draft_tokens == room else f"{config.num_draft_tokens} are verified"
    )
    steps = f" + {config.num_steps - 1}*{config.topk}^2" if config.num_steps > 1 else ""
    return f"1 + {config.topk}{steps} = {room} nodes at most, {filled}"


def _grown(tree: tuple[int, int] | None) -> str:
    """How an impossible tree would have grown, for its error."""
    if tree is None or tree[0] == 1:
        return ""
    topk, steps = tree
    rest = f", every later one {topk} for each of {topk} beams" if steps > 1 else ""
    return (
        f" The root is 1 token, the first step proposes {topk}{rest}: {tree_bound(topk=topk, num_steps=steps)} in all; "
        "SGLang does not check it and dies in graph capture."
    )


def _runs_on(config: SpecConfig, deployment: Deployment, release: str) -> bool:
    """Whether another release could run a config with the study's own flags; one that lacks the algorithm cannot."""
    dialect, moved = for_release(release), replace(deployment, release=release)
    try:
        if dialect.unknown_flags(moved) and not deployment.patches:
            return False
        bound = dialect.on(moved)
        there = bound.canonical(config)
        return _runs_as(there) == _runs_as(config) and not bound.violations(there)
    except (UnsupportedKnob, UsageError):
        return False


def _runs_as(config: SpecConfig) -> tuple[object, ...]:
    """What must not become something else on another release: worker, tree and adaptive steps."""
    tree = (config.topk, config.num_steps, config.num_draft_tokens)
    return (config.spec_version, *tree, dict(config.extra).get("adaptive"))


def _shares(config: SpecConfig, known: Sequence[SpecConfig]) -> Iterator[TokenShare]:
    """Against the largest tree and the smallest one that the study names."""
    if not config.speculates:
        return
    others = sorted(
        (other for other in known if other.speculates and other.verify_tokens != config.verify_tokens),
        key=lambda other: -other.verify_tokens,
    )
    for other in dict.fromkeys(others[:1] + others[-1:]):
        yield TokenShare(other.config_id, other.verify_tokens, config.verify_tokens / other.verify_tokens)


def _command(config: SpecConfig, deployment: Deployment, dialect: Dialect) -> tuple[str, ...]:
    try:
        named = replace(deployment, python=deployment.python or "python")
        return server_command(config, named, dialect, ports=_PORTS, tag="").words()
    except UnsupportedKnob:
        return ()
