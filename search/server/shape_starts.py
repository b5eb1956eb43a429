"""Which configs may share a start, which shape it starts with, and in which order it goes through them. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from search.config import SpecConfig, tree_bound
from search.shape import Shape

PINNED = (
    "attention_backend", "prefill_attention_backend", "decode_attention_backend", "speculative_draft_attention_backend",
    "speculative_attention_mode", "page_size", "cuda_graph_bs", "max_running_requests", "mem_fraction_static",
    "max_total_num_tokens",
)  # fmt: skip
"""Settings that a start resolves by itself, some of them from its shape, and that decide what is measured. All
starts of a study are to have them alike, those of one config too."""

_OF_THE_SHAPE = frozenset(
    {
        *("topk", "num_steps", "num_draft_tokens"),
        *("speculative_eagle_topk", "speculative_num_steps", "speculative_num_draft_tokens"),
        "max_speculative_num_draft_tokens",
    }
)


@dataclass(frozen=True, slots=True)
class StartGroup:
    """Configs that one start can measure.

    Attributes:
        configs: In the order given.
        start_with: The config to launch. Its shape may be none of theirs: none of them need be largest in all
            three numbers. None for `off`, which is its own start.
        pinned: Settings to send with this start, and with starts of its configs on their own, by name.
        to_read_back: Names of settings to pin that are known only once a first start has reported them.
        reserves: Cache slots a request reserves per decode step in the start's shape, and in each config's own.
            The start's pools and buffers are made for the first.
        why_apart: Why these configs share no start with those of an earlier group; empty for the first.
    """

    configs: tuple[SpecConfig, ...]
    start_with: SpecConfig | None
    pinned: tuple[tuple[str, object], ...] = ()
    to_read_back: tuple[str, ...] = ()
    reserves: tuple[int, tuple[int, ...]] = (0, ())
    why_apart: str = ""


def decode_slots(shape: Shape, page_size: int) -> int:
    """Cache slots that one request may take in one decode step (sglang 0.5.16 `mem_cache/allocation_sizing.py`)."""
    if page_size == 1 or shape.topk == 1:
        return max(shape.topk * shape.num_steps, shape.num_draft_tokens)
    pages = (2 * (page_size - 1) + shape.num_steps) // page_size
    return max(pages * page_size * shape.topk, shape.num_draft_tokens)


def row_headroom(shape: Shape, page_size: int) -> int:
    """Slots of a request's row beyond the context length (same file)."""
    extra = 4 + shape.num_draft_tokens
    return extra if page_size == 1 else max(extra, 2 * decode_slots(shape, page_size) + page_size - 1)


def holds(start: Shape, shape: Shape, page_size: int) -> bool:
    """Whether a start's pools, rows and buffers are large enough for a shape. The plugin asks the same again."""
    return (
        all(mine <= room for mine, room in zip(shape.numbers, start.numbers, strict=True))
        and decode_slots(shape, page_size) <= decode_slots(start, page_size)
        and row_headroom(shape, page_size) <= row_headroom(start, page_size)
    )


def smallest_start(shapes: Sequence[Shape], page_size: int) -> Shape:
    """The smallest shape that holds all of some: one of them where one does, else the largest of each number.

    A member is preferred, since what is reserved ahead then is what that config reserves anyhow.
    """
    shapes = tuple(dict.fromkeys(shapes))
    topk = max(shape.topk for shape in shapes)
    steps = max(shape.num_steps for shape in shapes)
    tokens = max(shape.num_draft_tokens for shape in shapes)
    member = Shape(topk, steps, tokens)
    if member in shapes and all(holds(member, other, page_size) for other in shapes):
        return member
    made = Shape(topk, steps, steps + 1 if topk == 1 else min(tokens, tree_bound(topk=topk, num_steps=steps)))
    assert all(holds(made, shape, page_size) for shape in shapes)
    return made


def group(configs: Iterable[SpecConfig], resolved: Mapping[str, Mapping[str, object]]) -> list[StartGroup]:
    """Sort configs into starts: those whose settings agree in all but the shape share one.

    Args:
        configs: Canonical ones.
        resolved: Config id -> what a start of it alone resolves, by SGLang's names (backends, page size, graph
            sizes, …). A config that is missing here shares no start: nothing says that it may.

    Returns:
        Groups in the order of their first config; each `off` is a group of its own.
    """
    heads: list[tuple[SpecConfig, Mapping[str, object]]] = []
    members: list[list[SpecConfig]] = []
    for config in configs:
        settings = resolved.get(config.config_id)
        place = None
        if config.speculates and settings is not None:
            fits = (i for i, head in enumerate(heads) if not _differences(config, settings, *head))
            place = next(fits, None)
        if place is None:
            heads.append((config, {} if settings is None else settings))
            members.append([config])
        else:
            members[place].append(config)
    known = [config.config_id in resolved for config, _ in heads]
    return [
        _start(
            members[i],
            head[1],
            _why(head, [other for other, known_one in zip(heads[:i], known[:i], strict=True) if known_one]),
        )
        if known[i]
        else _start(members[i], head[1], "Nothing is known of what a start of it resolves.")
        for i, head in enumerate(heads)
    ]


def order(shapes: Sequence[Shape], *, anchor: Shape, start: int) -> tuple[Shape, ...]:
    """The order of one start: the anchor first, in the middle and last; the others balanced over starts.

    Odd starts walk backwards through the order of the even one before them, and each pair of starts is turned by one
    more place: a shape's mean place tends to the middle, so that what the place does cancels between starts.

    Args:
        shapes: What to measure, the anchor among them or not.
        anchor: Measured three times; what it shows of places is taken from the others.
        start: Number of the start, from 0.
    """
    others = [shape for shape in dict.fromkeys(shapes) if shape != anchor]
    if others:
        turn = (start // 2) % len(others)
        others = others[turn:] + others[:turn]
    if start % 2:
        others.reverse()
    half = (len(others) + 1) // 2
    if len(others) < 2:
        return (anchor, *others, *[anchor] * len(others))
    return (anchor, *others[:half], anchor, *others[half:], anchor)


def _start(configs: Sequence[SpecConfig], settings: Mapping[str, object], why: str) -> StartGroup:
    shapes = [shape for config in configs if (shape := Shape.of(config)) is not None]
    pinned = tuple((name, settings[name]) for name in PINNED if settings.get(name) is not None)
    missing = tuple(name for name in PINNED if settings.get(name) is None)
    if not shapes:
        return StartGroup(tuple(configs), None, pinned, missing, why_apart=why)
    page_size = int(str(settings.get("page_size") or 1))
    first = smallest_start(shapes, page_size)
    launched = replace(configs[0], topk=first.topk, num_steps=first.num_steps, num_draft_tokens=first.num_draft_tokens)
    reserves = (2 * decode_slots(first, page_size), tuple(2 * decode_slots(shape, page_size) for shape in shapes))
    return StartGroup(tuple(configs), launched, pinned, missing, reserves, why)


def _differences(
    config: SpecConfig, settings: Mapping[str, object], head: SpecConfig, of_head: Mapping[str, object]
) -> list[str]:
    if not head.speculates or not of_head:
        return ["speculation"]
    knobs = [(name, getattr(config, name), getattr(head, name)) for name in ("spec_version", "allreduce_fusion")]
    mine, theirs = dict(config.extra), dict(head.extra)
    knobs += [(name, mine.get(name), theirs.get(name)) for name in sorted({*mine, *theirs})]
    names = sorted({*settings, *of_head} - _OF_THE_SHAPE)
    knobs += [(name, settings.get(name), of_head.get(name)) for name in names]
    return [f"`{name}` {ours} rather than {other}" for name, ours, other in knobs if ours != other]


def _why(
    head: tuple[SpecConfig, Mapping[str, object]], earlier: Sequence[tuple[SpecConfig, Mapping[str, object]]]
) -> str:
    config, settings = head
    if not config.speculates:
        return "`off` always has starts of its own: it has no draft model, and another memory layout."
    differences = [
        f"{other.config_id}: {', '.join(_differences(config, settings, other, of_other))}"
        for other, of_other in earlier
        if other.speculates
    ]
    return "; ".join(differences)
