"""Warnings about prompts before a GPU minute is spent on them."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence

from search.contracts import Phase
from search.errors import UsageError
from search.load.target import Prompt

_WORD = re.compile(r"\S+")
_JUDGED_FROM = 300
_COMMON = 20
_COMMON_SHARE = 0.06
_LONGEST_TOKEN = 10


def look_random(prompts: Sequence[Prompt]) -> bool:
    """Whether the prompts look like token ids drawn at random and decoded.

    In any language or program few words make up much of a text: in the shipped prompts the twenty
    most frequent are over a quarter. Pieces drawn evenly from a vocabulary make words that hardly
    return. Under 300 words (and for scripts that put no spaces between words) nothing is said.
    """
    words = Counter(word for prompt in prompts for word in _WORD.findall(prompt.text))
    total = words.total()
    if total < _JUDGED_FROM:
        return False
    return sum(count for _, count in words.most_common(_COMMON)) < _COMMON_SHARE * total


def prompt_warnings(prompts: Sequence[Prompt]) -> tuple[str, ...]:
    """What a person should know of these prompts before they are measured with."""
    if look_random(prompts):
        return (
            "The prompts look like random tokens: drafts guess nonsense worse than text, so accept lengths and with "
            "them every comparison of speculation would say little about real use. Give natural prompts.",
        )
    return ()


def times_used(prompts: Sequence[Prompt], phase: Phase) -> int:
    """How often the most used prompt is measured in one repeat of the phase: 1 as long as there are enough.

    Cycled prompts bring no new information about acceptance: a greedy server answers them alike.
    """
    return -(-phase.requests // len(prompts))


def check_room(prompts: Sequence[Prompt], phase: Phase, room_tokens: int | None) -> None:
    """Refuse prompts that certainly exceed what the server can hold of one request.

    Nobody tokenises here, so only the certain is refused: text of more than ten characters per
    token does not exist. What is closer to the limit the server itself refuses, by name.

    Args:
        room_tokens: Context length, or size of the KV pool where that is smaller; None if not known.

    Raises:
        UsageError: A prompt and its answer do not fit.
    """
    if room_tokens is None:
        return
    for prompt in prompts[: phase.requests]:
        least = len(prompt.text) // _LONGEST_TOKEN + phase.output_tokens
        if least > room_tokens:
            raise UsageError(
                f"A prompt and its answer must fit into {room_tokens} tokens on this server, but `{prompt.prompt_id}` "
                f"has {len(prompt.text)} characters and {phase.output_tokens} tokens are asked for. Shorten or drop "
                f"it, lower `output_tokens`, or raise the server's context length."
            )
