"""A shape, and what a start that was made for one shape can hold of others. Pure arithmetic."""

from __future__ import annotations

from typing import NamedTuple


class Shape(NamedTuple):
    """What a running server can switch to."""

    topk: int
    num_steps: int
    num_draft_tokens: int

    def __str__(self) -> str:
        return f"k{self.topk}-s{self.num_steps}-d{self.num_draft_tokens}"


def tree_bound(topk: int, num_steps: int) -> int:
    """Largest number of tokens that a tree can fill, root included."""
    return 1 + topk + (num_steps - 1) * topk**2


def impossible(shape: Shape) -> str:
    """Why no server could run a shape; empty when one could."""
    topk, steps, tokens = shape
    if topk < 1 or steps < 1 or tokens < 2:
        return f"`topk >= 1`, `num_steps >= 1` and `num_draft_tokens >= 2` must hold, but got {shape}."
    if topk == 1 and tokens != steps + 1:
        return f"With topk 1 `num_draft_tokens == num_steps + 1` must hold, but got {shape}."
    if topk > 1 and tokens > tree_bound(topk, steps):
        return f"`num_draft_tokens <= {tree_bound(topk, steps)}` must hold for this tree, but got {shape}."
    return ""


def decode_slots(shape: Shape, page_size: int) -> int:
    """Cache slots that one request may take in one decode step (sglang 0.5.16 `mem_cache/allocation_sizing.py`)."""
    topk, steps, tokens = shape
    if page_size == 1 or topk == 1:
        return max(topk * steps, tokens)
    pages = (2 * (page_size - 1) + steps) // page_size
    return max(pages * page_size * topk, tokens)


def row_headroom(shape: Shape, page_size: int) -> int:
    """Slots of a request's row beyond the context length (same file)."""
    extra = 4 + shape.num_draft_tokens
    return extra if page_size == 1 else max(extra, 2 * decode_slots(shape, page_size) + page_size - 1)


def too_large(shape: Shape, start: Shape, page_size: int) -> str:
    """Why a start cannot hold a shape; empty when it can.

    No order of shapes is enough: topk sizes the draft's rows, steps the draft's writes, tokens the logits
    buffer that all graphs share and the request rows, topk times steps what a decode step allocates.
    """
    parts = [
        f"{name} {mine} > {room}" for name, mine, room in zip(Shape._fields, shape, start, strict=True) if mine > room
    ]
    for name, size in (("cache slots per decode step", decode_slots), ("row headroom", row_headroom)):
        mine, room = size(shape, page_size), size(start, page_size)
        if mine > room:
            parts.append(f"{name} {mine} > {room}")
    if not parts:
        return ""
    return f"This start was made for {start}, and {shape} needs more: {', '.join(parts)}. Start with a larger shape."
