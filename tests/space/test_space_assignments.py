"""Configs written by hand."""

import pytest

from search.dialects import for_release
from search.errors import InvalidConfig
from search.space import parse_assignments

DIALECT = for_release("0.5.9")


@pytest.mark.parametrize(
    ("text", "config_id"),
    [
        ("topk=2 num_steps=2 spec_version=v1", "v1-k2-s2-d7"),
        ("topk=2 num_steps=2", "v1-k2-s2-d7"),
        ("topk=1 num_steps=3", "v2-k1-s3-d4"),
        ("topk=2, num_steps=2, spec_version=v2", "v2-k2-s2-d7"),
        ("topk=4 num_steps=3 num_draft_tokens=16 arf=auto", "v1-k4-s3-d16+arf=auto"),
        ("topk=4 num_steps=1 num_draft_tokens=tree", "v1-k4-s1-d5"),
        ("topk=1 num_steps=1 page_size=16 attn=fa3", "v2-k1-s1-d2+attn=fa3+page=16"),
        ("topk=1 num_steps=3 overlap=off adapt=1-3-7", "v2-k1-s3-d4+adapt=1-3-7+overlap=off"),
        ("topk=1 num_steps=3 --chunked-prefill-size=4096", "v2-k1-s3-d4+chunked_prefill_size=4096"),
        ("spec_version=off --enable-mixed-chunk", "off+enable_mixed_chunk=True"),
        ("spec_version=off", "off"),
        ("spec_version=off allreduce_fusion=auto", "off+arf=auto"),
        ("v1-k2-s2-d7+arf=auto", "v1-k2-s2-d7+arf=auto"),
        ("off", "off"),
        (" v2-k1-s2-d3 ", "v2-k1-s2-d3"),
    ],
)
def test_text_reads_as_the_config(text, config_id):
    assert parse_assignments(text, dialect=DIALECT).config_id == config_id


def test_what_is_not_said_comes_from_the_defaults():
    defaults = {"spec_version": "v1", "topk": 1, "num_steps": 2, "allreduce_fusion": "auto"}
    assert parse_assignments("topk=2", defaults, dialect=DIALECT).config_id == "v1-k2-s2-d7+arf=auto"
    assert parse_assignments("spec_version=off", defaults, dialect=DIALECT).config_id == "off+arf=auto"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("num_steps=3", r"missing: `topk` and `num_draft_tokens`"),
        ("topc=2", r"`topc` is not a knob. The nearest one is `topk`"),
        ("steps=2", r"The nearest one is `num_steps`"),
        ("topk=two num_steps=2", r"`topk` is a whole number, but got 'two'"),
        ("topk", r"written like `topk=2 num_steps=2` or `v1-k2-s2-d7`, but got 'topk'"),
        ("topk=", r"but got 'topk='"),
        ("v1-k2-s2", r"A config id reads like"),
        ("spec_version=v3 topk=1 num_steps=2", r"is one of off, v1, v2, but got 'v3'"),
        ("spec_version=off topk=2", r"`off` has no tree knobs, but got `topk`"),
        ("topk=2 num_steps=2 num_draft_tokens=8", r"= 7` must hold"),
        ("", r"missing: `topk` and `num_steps` and `num_draft_tokens`"),
    ],
)
def test_text_that_is_no_config_is_refused_with_the_way_out(text, words):
    with pytest.raises(InvalidConfig, match=words):
        parse_assignments(text, dialect=DIALECT)
