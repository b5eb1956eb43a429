"""What is secret by name or look is masked; what is not stays readable."""

import pytest

from search.server.masking import mask_text, mask_tree


def test_tree_is_masked_by_name_at_any_depth():
    info = {
        "api_key": "k1",
        "admin_api_key": None,
        "ssl_keyfile_password": "k2",
        "internal_states": [{"hf_token": "k3", "memory_usage": {"token_capacity": 7}}],
        "speculative_token_map": "/models/map.pt",
        "tokenizer_path": "/models/target",
        "max_total_tokens": 4096,
    }
    assert mask_tree(info) == {
        "api_key": "***",
        "admin_api_key": None,
        "ssl_keyfile_password": "***",
        "internal_states": [{"hf_token": "***", "memory_usage": {"token_capacity": 7}}],
        "speculative_token_map": "/models/map.pt",
        "tokenizer_path": "/models/target",
        "max_total_tokens": 4096,
    }


@pytest.mark.parametrize(
    ("text", "masked"),
    [
        ("server_args=ServerArgs(port=1, api_key='k1', host='h')", "server_args=ServerArgs(port=1, api_key='***', host='h')"),
        ("api_key=None, host='h'", "api_key=None, host='h'"),
        ("launch --api-key k1 --port 1", "launch --api-key *** --port 1"),
        ("Authorization: Bearer abc.def", "Authorization: Bearer ***"),
        ("http://user:pw@proxy:3128/", "http://***@proxy:3128/"),
        ("token hf_abcdefghijklmnopqrstuv is invalid", "token *** is invalid"),
        ("http://127.0.0.1:31000/generate", "http://127.0.0.1:31000/generate"),
        ("KeyError: 'lm_head.weight'", "KeyError: 'lm_head.weight'"),
    ],
)  # fmt: skip
def test_text_is_masked_by_look(text, masked):
    assert mask_text(text) == masked
