"""What is secret by name or look is masked; what is not stays readable."""

import html
import json
import shlex
from urllib.parse import quote

import pytest

from search.masking import Masker, is_harmless, mask_text, mask_words, script_words, without_escapes


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
    assert Masker().tree(info) == {
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


@pytest.mark.parametrize(
    "text",
    [
        "PGPASSWORD=%s psql", "SSHPASS=%s", "OPENAI_API_KEY_2: %s", "redis://:%s@cache:6379/0", "amqp://u:%s@mq",
        'env "TOKEN=%s" python', "export WANDB_API_KEY='%s'", '{"hf_token": "%s"}', "--admin-api-key %s", "--api-key=%s",
        "https://hooks.slack.com/services/T0/B0/%s", "https://h.example/x?token=%s&a=1", "Authorization: Bearer %s",
        "postgresql+psycopg://me:%s@db/x", "Cookie: %s",
    ],
)  # fmt: skip
def test_secret_in_free_text_does_not_stay(text):
    secret = "s3cretS3cretS3cret9"
    assert secret not in mask_text(text % secret)


@pytest.mark.parametrize(
    "text",
    [
        "eos_token='</s>', bos_token_id=1", "max_total_num_tokens=2048, key=None", "tokenizer=/models/t",
        "KeyError: 'model.layers.0.mlp'", "avail mem=3.11 GB, token usage: 0.02", "git+https://github.com/sgl-project/sglang",
        "http://127.0.0.1:30000/health", "--max-running-requests 256", "monkey=brown", "draft_token_num: 16",
    ],
)  # fmt: skip
def test_text_without_secrets_stays_readable(text):
    assert mask_text(text) == text


def test_variable_keeps_its_value_only_where_its_name_is_known_and_nothing_in_it_is_secret():
    assert is_harmless("NCCL_P2P_LEVEL", "SYS")
    assert is_harmless("HF_HUB_OFFLINE", "1")
    assert not is_harmless("HF_TOKEN", "x")
    assert not is_harmless("SGLANG_API_KEY", "x")
    assert not is_harmless("SGLANG_HOOK", "http://u:p@h/")
    assert not is_harmless("MY_SETTING", "x")


def test_words_of_a_prefix_lose_what_they_assign_to_unknown_variables():
    words = (
        "docker",
        "run",
        "-e",
        "HF_TOKEN=abc",
        "-e",
        "NCCL_DEBUG=WARN",
        "--env=PIN=7",
        "sshpass",
        "-p",
        "pw",
        "--gpus",
        "all",
    )
    assert mask_words(words) == (
        "docker", "run", "-e", "HF_TOKEN=***", "-e", "NCCL_DEBUG=WARN", "--env=PIN=***", "sshpass", "-p", "***", "--gpus", "all",
    )  # fmt: skip


def test_masker_finds_known_secrets_wherever_they_stand():
    masker = Masker.of(
        env={"DEPLOY": "open-sesame", "NCCL_DEBUG": "WARN"},
        words=("env", "PIN=4711x"),
        inherited={"A_TOKEN": "tok-tok", "LANG": "C.UTF-8"},
    )
    text = masker.text("cannot open-sesame with 4711x and tok-tok on WARN in C.UTF-8")
    assert text == "cannot *** with *** and *** on WARN in C.UTF-8"
    assert masker.tree({"open-sesame": ["4711x", 5]}) == {"***": ["***", 5]}


def test_masker_does_not_mask_words_by_a_short_secret():
    assert Masker(["a"]).text("a start") == "a start"


def test_two_secrets_of_one_name_are_read_from_two_variables():
    words, names = script_words(("-e", "PIN=1", "-e", "PIN=2", "-e", "PIN=1"))
    assert words == ("-e", 'PIN="$PIN"', "-e", 'PIN="$PIN_2"', "-e", 'PIN="$PIN"')
    assert names == ("PIN", "PIN_2")


@pytest.mark.parametrize(
    "text",
    ["\x1b[31mred\x1b[0m", "\x1b]0;title\x07red", "\x1b]8;;http://x\x1b\\red\x1b]8;;\x1b\\", "\x9b31mred", "re\x1b(Bd"],
)
def test_escape_sequences_go_whole(text):
    assert without_escapes(text) == "red"


def test_known_secret_is_found_however_it_is_escaped_and_the_password_of_a_url_alone_too():
    secret = 'it\'s "quoted" & <odd>/1'
    masker = Masker.of(env={"MINE": secret, "CACHE": "redis://:pa55word1@cache/0"}, inherited={"PWD": "/srv/run"})
    for text in (secret, repr(secret), json.dumps(secret), shlex.quote(secret), quote(secret), html.escape(secret)):
        assert "quoted" not in masker.text(f"said {text} here")
    assert masker.own_text("login failed for pa55word1") == "login failed for ***"
    assert masker.text("in /srv/run") == "in /srv/run"


def test_own_text_keeps_our_sentences_and_takes_out_what_steers_a_terminal():
    assert (
        Masker().own_text("known keys: study, title; \x1b[2Jtoken: 35.2\r\n")
        == "known keys: study, title; token: 35.2\n"
    )
    assert "pw" not in Masker().own_text("got 'pg://me:pw@db/x'")
