"""Prompt files that people bring: OpenAI batches, chats, ShareGPT; and files that are wrong on purpose."""

import json

import pytest

from search.errors import UsageError
from search.load import readers
from search.load.prompts import load_prompts
from search.load.readers import read_chats


@pytest.fixture
def written(tmp_path):
    """Writes entries as JSON lines, or a text as it is; returns the file."""

    def write(*entries, text=None):
        path = tmp_path / "prompts.jsonl"
        path.write_text("\n".join(map(json.dumps, entries)) if text is None else text, encoding="utf-8")
        return path

    return write


def refused(path):
    with pytest.raises(UsageError) as caught:
        read_chats(path)
    return str(caught.value)


def batch(number, *messages, **body):
    return {
        "custom_id": f"request-{number}", "method": "POST", "url": "/v1/chat/completions",
        "body": {"model": "any", "max_tokens": 5, "temperature": 2, "messages": list(messages), **body},
    }  # fmt: skip


SYSTEM = {"role": "system", "content": "Be brief."}
USER = {"role": "user", "content": "What is a draft?"}
ASSISTANT = {"role": "assistant", "content": "A guess."}


def test_openai_batch_is_read_with_its_ids_messages_and_tools(written):
    tool = {"type": "function", "function": {"name": "look_up"}}
    chats, skipped = read_chats(written(batch(1, SYSTEM, USER), batch(2, USER, tools=[tool])))
    assert [(chat.prompt_id, chat.messages, chat.tools) for chat in chats] == [
        ("request-1", (SYSTEM, USER), ()),
        ("request-2", (USER,), (tool,)),
    ]
    assert skipped == 0


def test_completion_of_a_batch_is_a_plain_prompt(written):
    (chat,), _ = read_chats(written({"custom_id": "a", "url": "/v1/completions", "body": {"prompt": "Go on:"}}))
    assert chat.plain == "Go on:"


def test_chat_is_sent_up_to_the_message_that_is_to_be_answered(written):
    (chat,), _ = read_chats(written(batch(1, USER, ASSISTANT, USER, ASSISTANT)))
    assert chat.messages == (USER, ASSISTANT, USER)


def test_parts_of_text_are_one_text_and_a_picture_is_left_out(written):
    parts = {"role": "user", "content": [{"type": "text", "text": "Hel"}, {"type": "text", "text": "lo"}]}
    picture = {"role": "user", "content": [{"type": "image_url", "image_url": {"url": "http://x"}}]}
    chats, skipped = read_chats(written(batch(1, parts), batch(2, picture), batch(3, SYSTEM)))
    assert [chat.plain for chat in chats] == ["Hello"]
    assert skipped == 2


def test_chat_of_several_messages_needs_the_targets_template(written):
    path = written(batch(1, SYSTEM, USER))
    with pytest.raises(UsageError, match=r"`request-1` is one and the template is a text. Write `template: chat`"):
        load_prompts(path, template="{prompt}")


def test_equal_ids_of_unlike_prompts_are_refused_on_one_line_too(written):
    text = json.dumps([{"id": "a", "prompt": "one"}, {"id": "a", "prompt": "two"}])
    assert "`a` stands in line 1 for another text" in refused(written(text=text))


@pytest.mark.parametrize(
    ("entry", "said"),
    [
        ({"body": 3}, "`body` must be a JSON object, but got `3`"),
        ({"body": {"messages": "hello"}}, "`messages` must be a list of at most 1000, but got `hello`"),
        ({"messages": ["hello"]}, "a message must be an object with a `role`"),
        ({"messages": [{"role": "root", "content": "x"}]}, "a message must be an object with a `role`"),
        ({"messages": [{"role": "user", "content": 7}]}, "`content` must be a text, but got `7`"),
        ({"messages": [USER] * 1001}, "`messages` must be a list of at most 1000, but got 1,001 of them"),
        ({"messages": [USER], "tools": "all"}, "`tools` must be a list of objects, but got `all`"),
        ({"prompt": "x", "id": ["a"]}, "`id` must be a text"),
        ({"prompt": "half \ud800 pair"}, "half of a surrogate pair"),
        ({"prompt": "x", "id": "\udfff"}, "half of a surrogate pair"),
    ],
)  # fmt: skip
def test_entry_that_cannot_be_sent_is_refused_with_its_line(written, entry, said):
    told = refused(written({"prompt": "fine"}, entry))
    assert "prompts.jsonl:2: " in told and said in told


def test_prompt_that_is_too_long_is_refused(written, monkeypatch):
    monkeypatch.setattr(readers, "MAX_CHARACTERS", 100)
    assert "a prompt has at most 100 characters" in refused(written({"prompt": "long " * 40}))


def test_file_with_too_many_entries_is_refused_before_all_are_kept(written, monkeypatch):
    monkeypatch.setattr(readers, "MAX_ENTRIES", 3)
    said = refused(written(*({"prompt": f"prompt {n}"} for n in range(5))))
    assert "at most 3 entries, but line 4 begins another one" in said


@pytest.mark.parametrize("text", ["[" * 100_000, '{"a":' * 100_000 + "1" + "}" * 100_000])
def test_nesting_without_end_is_refused(written, text):
    assert "Correct it" in refused(written(text=text)) or "cut off" in refused(written(text=text))


def test_mark_of_byte_order_is_no_part_of_the_first_line(tmp_path):
    path = tmp_path / "bom.jsonl"
    path.write_bytes(b"\xef\xbb\xbf" + json.dumps({"prompt": "first"}).encode())
    (chat,), _ = read_chats(path)
    assert chat.plain == "first"
