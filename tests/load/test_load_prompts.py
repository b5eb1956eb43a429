import json
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.prompts.make_prompts import PROMPTS, complete
from search.errors import UsageError
from search.load.prompts import load_prompts


def write(tmp_path, *lines, name="prompts.jsonl"):
    path = tmp_path / name
    path.write_text("\n".join(line if isinstance(line, str) else json.dumps(line) for line in lines))
    return path


def test_shipped_set_is_large_mixed_and_distinct():
    shipped = load_prompts()
    everything = shipped.search + shipped.held_out
    assert len(everything) == 447
    assert len({prompt.text for prompt in everything}) == len(everything)
    kinds = {"chat": 28, "code": 28, "maths": 28, "summary": 13, "long": 13}
    assert Counter(prompt.kind for prompt in shipped.held_out) == kinds
    assert {prompt.kind for prompt in shipped.search[:4]} == {"chat", "code", "maths", "long"}
    assert {prompt.kind for prompt in shipped.search[-4:]} <= {"chat", "code", "maths", "summary", "long"}
    assert not {p.prompt_id for p in shipped.search} & {p.prompt_id for p in shipped.held_out}


def test_generated_prompts_are_what_their_script_makes():
    lines = PROMPTS.read_text()
    assert complete(lines) == lines


def test_equal_input_gives_an_equal_set_and_the_hash_covers_the_template():
    assert load_prompts() == load_prompts()
    assert load_prompts(template="<u>{prompt}</u>").sha256 != load_prompts().sha256


def test_template_surrounds_the_prompt_and_leaves_braces_alone(tmp_path):
    path = write(tmp_path, {"prompt": "f({x})"}, {"text": "two"})
    loaded = load_prompts(path, template="{bos}<u>{prompt}</u>")
    assert [p.text for p in loaded.search + loaded.held_out] == ["{bos}<u>f({x})</u>", "{bos}<u>two</u>"]


def test_lines_keep_their_id_and_kind(tmp_path):
    path = write(tmp_path, {"prompt": "a", "id": 7, "kind": "code"}, "", {"text": "b"})
    loaded = load_prompts(path)
    assert [(p.prompt_id, p.kind) for p in loaded.search] == [("7", "code")]
    assert loaded.held_out[0].kind == "chat"


def test_id_of_a_line_does_not_depend_on_its_place(tmp_path):
    before = load_prompts(write(tmp_path, {"prompt": "a"}, {"prompt": "b"}))
    after = load_prompts(write(tmp_path, {"prompt": "new"}, {"prompt": "b"}, {"prompt": "a"}))
    assert {p.prompt_id for p in before.search + before.held_out} < {p.prompt_id for p in after.search + after.held_out}


TALKS = [
    {"id": "t1", "conversations": [{"from": "gpt", "value": "hi"}, {"from": "human", "value": "ask"}]},
    {"id": "t2", "conversations": []},
    {"id": "t3", "conversations": [{"role": "user", "content": "more"}]},
]


@pytest.mark.parametrize("pretty", [None, 1])
def test_sharegpt_array_gives_first_human_turns(tmp_path, pretty):
    loaded = load_prompts(write(tmp_path, json.dumps(TALKS, indent=pretty), name="talks.json"))
    assert [(p.prompt_id, p.text) for p in loaded.search + loaded.held_out] == [("t1", "ask"), ("t3", "more")]
    assert loaded.skipped == 1


def test_sharegpt_lines_give_the_same(tmp_path):
    lines = load_prompts(write(tmp_path, *TALKS))
    assert lines == load_prompts(write(tmp_path, json.dumps(TALKS), name="talks.json"))


def test_kinds_select(tmp_path):
    assert {p.kind for p in load_prompts(kinds=["code", "maths"]).search} == {"code", "maths"}
    with pytest.raises(UsageError, match=r"among .*got \['poetry'\]"):
        load_prompts(kinds=["poetry"])


@pytest.mark.parametrize(
    ("lines", "where", "words"),
    [
        (['{"prompt": "a"}', "{oops"], ":2:", "JSON object"),
        (['{"prompt": "a"}', "", "[1]"], ":3:", "JSON object"),
        (['{"promt": "a"}'], ":1:", "['promt']"),
        (['{"prompt": ""}'], ":1:", "non-empty"),
        (['{"prompt": 3}'], ":1:", "non-empty"),
        (['{"prompt": "a", "kind": []}'], ":1:", "`kind`"),
        (['{"conversations": 3}'], ":1:", "must be a list"),
        (["[", '{"prompt": "a"},', '{"prompt": }', "]"], ":3:", "array"),
        (["[", '{"prompt": "a"},', '"b"', "]"], ":3:", "JSON object"),
        (["[", '{"prompt": "a"}'], "prompts.jsonl", "must end with"),
        ([""], "prompts.jsonl", "at least one"),
    ],
)
def test_wrong_entry_is_named_with_file_and_line(tmp_path, lines, where, words):
    with pytest.raises(UsageError) as caught:
        load_prompts(write(tmp_path, *lines))
    assert "prompts.jsonl" + where.removeprefix("prompts.jsonl") in str(caught.value)
    assert words in str(caught.value)


def test_unreadable_file_is_named(tmp_path):
    with pytest.raises(UsageError, match=r"none\.jsonl: the prompt file cannot be read"):
        load_prompts(tmp_path / "none.jsonl")
    (tmp_path / "latin.jsonl").write_bytes(b'{"prompt": "\xe4"}')
    with pytest.raises(UsageError, match="must be UTF-8"):
        load_prompts(tmp_path / "latin.jsonl")


def test_template_without_its_place_is_refused():
    with pytest.raises(UsageError, match=r"must contain `\{prompt\}`"):
        load_prompts(template="no place")


def test_single_prompt_serves_both_purposes(tmp_path):
    loaded = load_prompts(write(tmp_path, {"prompt": "only"}))
    assert loaded.search == loaded.held_out


@given(st.lists(st.tuples(st.sampled_from(["chat", "code"]), st.text(min_size=1)), min_size=2, max_size=40))
def test_split_is_complete_disjoint_and_never_empty(tmp_path_factory, entries):
    path = tmp_path_factory.mktemp("prompts") / "p.jsonl"
    rows = [json.dumps({"id": str(i), "kind": kind, "prompt": "x" + text}) for i, (kind, text) in enumerate(entries)]
    path.write_text("\n".join(rows))
    loaded = load_prompts(path)
    assert loaded.search
    assert loaded.held_out
    ids = [p.prompt_id for p in loaded.search + loaded.held_out]
    assert sorted(ids, key=int) == [str(i) for i in range(len(entries))]


def test_prompt_that_stands_twice_is_taken_once_and_counted(tmp_path):
    loaded = load_prompts(write(tmp_path, {"prompt": "a"}, {"prompt": "b"}, {"prompt": "a"}))
    assert sorted(p.text for p in loaded.search + loaded.held_out) == ["a", "b"]
    assert loaded.skipped == 1


def test_id_given_to_two_texts_is_refused_with_both_lines(tmp_path):
    path = write(tmp_path, {"id": "x", "prompt": "a"}, {"id": "x", "prompt": "b"})
    with pytest.raises(UsageError, match=r":2: the id of a prompt must be its own, but `x` stands in line 1"):
        load_prompts(path)
