"""Prompts that would make a measurement say little."""

import logging
import random

import pytest

from search.contracts import Phase
from search.errors import UsageError
from search.load.guards import check_room, look_random, times_used
from search.load.prompts import load_prompts
from search.load.target import Prompt

PIECES = [
    chr(97 + a) + chr(97 + b) + end for a in range(26) for b in range(26) for end in ("", " ", "ing ", "tion", ".")
]


def random_tokens(count):
    draw = random.Random(3)
    return [Prompt(str(i), "chat", "".join(draw.choices(PIECES, k=200))) for i in range(count)]


def test_random_tokens_are_told_from_text():
    assert look_random(random_tokens(20))
    assert not look_random(load_prompts().search)


@pytest.mark.parametrize("kind", ["chat", "code", "maths", "long"])
def test_no_kind_of_text_looks_random(kind):
    assert not look_random(load_prompts(kinds=[kind]).search)


def test_few_words_are_not_judged():
    assert not look_random(random_tokens(1))


def test_file_of_random_tokens_is_warned_of_and_used(tmp_path, caplog):
    path = tmp_path / "random.jsonl"
    path.write_text("".join(f'{{"prompt": "{prompt.text}"}}\n' for prompt in random_tokens(20)))
    with caplog.at_level(logging.WARNING):
        loaded = load_prompts(path)
    assert len(loaded.search) == 15
    assert "random.jsonl: The prompts look like random tokens" in caplog.text


def test_shipped_prompts_are_not_warned_of(caplog):
    with caplog.at_level(logging.WARNING):
        load_prompts()
    assert caplog.text == ""


@pytest.mark.parametrize(("requests", "times"), [(1, 1), (20, 1), (21, 2), (40, 2), (41, 3)])
def test_prompts_are_used_again_when_there_are_too_few(requests, times):
    assert times_used(random_tokens(20), Phase(concurrency=1, requests=requests, output_tokens=2)) == times


LONG = [Prompt("short", "chat", "a"), Prompt("long", "long", "a" * 1000)]


@pytest.mark.parametrize(
    ("requests", "room", "refused"), [(2, None, False), (2, 200, False), (2, 199, True), (1, 199, False)]
)
def test_prompt_that_certainly_does_not_fit_is_refused(requests, room, refused):
    phase = Phase(concurrency=1, requests=requests, output_tokens=100)
    if not refused:
        check_room(LONG, phase, room)
        return
    with pytest.raises(UsageError, match="`long` has 1000 characters and 100 tokens are asked for"):
        check_room(LONG, phase, room)
