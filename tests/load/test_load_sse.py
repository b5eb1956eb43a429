import json
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from search.load.sse import MAX_LINE, LineTooLong, RecordSplitter, count_key, find_count

KEY = count_key("completion_tokens")


def split(stream: bytes, cuts: list[int]) -> list[bytes]:
    splitter = RecordSplitter()
    edges = [0, *sorted(cut % (len(stream) + 1) for cut in cuts), len(stream)]
    return [record for a, b in pairwise(edges) for record in splitter.feed(stream[a:b])]


@given(cuts=st.lists(st.integers(0, 10_000), max_size=12))
def test_records_are_the_same_wherever_reads_end(cuts):
    stream = 'data: {"text": "für 日本 🙂"}\n\n: a comment\r\n\r\ndata:{"n": 2}\r\n\r\ndata: [DONE]\n\n'.encode()
    assert split(stream, cuts) == ['{"text": "für 日本 🙂"}'.encode(), b'{"n": 2}', b"[DONE]"]


def test_an_unfinished_line_beyond_the_bound_is_refused():
    splitter = RecordSplitter()
    list(splitter.feed(b"data: " + b"x" * (MAX_LINE - 6)))
    with pytest.raises(LineTooLong, match="8388609"):
        list(splitter.feed(b"x"))


@given(
    text=st.text() | st.sampled_from(["completion_tokens", '"completion_tokens": 7', '\\"completion_tokens":7']),
    count=st.integers(0, 10**6),
)
def test_count_is_found_whatever_the_text_says(text, count):
    record = {"text": text, "meta_info": {"completion_tokens": count, "finish_reason": None}}
    for separators in ((",", ":"), (", ", ": ")):
        for ascii_only in (True, False):
            raw = json.dumps(record, separators=separators, ensure_ascii=ascii_only).encode("utf-8", "surrogatepass")
            assert find_count(raw, KEY) == count


@given(text=st.text() | st.sampled_from(['"completion_tokens": 7', "completion_tokens", '{"completion_tokens":7}']))
def test_count_is_not_found_where_only_text_speaks_of_it(text):
    raw = json.dumps({"text": text, "meta_info": {"finish_reason": None}}).encode()
    assert find_count(raw, KEY) is None
