"""Chat templates as tokenizers ship them: rendered in a process of their own, equal every time."""

import json

import pytest

from search.errors import UsageError
from search.load import chat_template
from search.load.chat_template import read_chat_template
from search.load.prompts import load_prompts
from search.load.readers import Chat

PLAIN = (
    "{{ bos_token }}{% for message in messages %}<{{ message['role'] }}>{{ message['content'] | trim }}{{ eos_token }}"
    "{% endfor %}{% if add_generation_prompt %}<assistant>{% endif %}"
)
THINKS = PLAIN + "{% if enable_thinking is defined and not enable_thinking %}<think></think>{% endif %}"


@pytest.fixture
def folder(tmp_path):
    """Makes a tokenizer's folder with a template."""

    def make(template=PLAIN, jinja=None, tokenizer=None, **config):
        told = {"bos_token": "<s>", "eos_token": {"content": "</s>", "lstrip": False}, **config}
        if template is not None:
            told["chat_template"] = template
        (tmp_path / "tokenizer_config.json").write_text(json.dumps(told))
        if jinja is not None:
            (tmp_path / "chat_template.jinja").write_text(jinja)
        if tokenizer is not None:
            (tmp_path / "tokenizer.json").write_text(json.dumps(tokenizer))
        return tmp_path

    return make


def chat(*contents, tools=()):
    roles = ("user", "assistant")
    messages = tuple({"role": roles[place % 2], "content": text} for place, text in enumerate(contents))
    return Chat("a", "chat", messages, tools)


def rendered(folder, *chats, **options):
    return read_chat_template(folder).render(chats or [chat("Hi")], **options)


def refused(folder, **options):
    with pytest.raises(UsageError) as caught:
        rendered(folder, **options)
    return str(caught.value)


def test_chat_is_rendered_up_to_where_the_answer_begins(folder):
    assert rendered(folder(), chat("Hi", "Hello", " Bye ")) == [
        "<s><user>Hi</s><assistant>Hello</s><user>Bye</s><assistant>"
    ]


@pytest.mark.parametrize(
    ("config", "tokenizer"),
    [
        ({"add_bos_token": True}, None),
        ({}, {"post_processor": {"type": "TemplateProcessing", "single": [{"SpecialToken": {"id": "<s>"}}]}}),
        ({}, {"post_processor": {"processors": [{"single": [{"SpecialToken": {"id": "<s>"}}, {"Sequence": {}}]}]}}),
    ],
)  # fmt: skip
def test_first_token_that_the_tokenizer_adds_itself_is_not_sent_twice(folder, config, tokenizer):
    assert rendered(folder(tokenizer=tokenizer, **config)) == ["<user>Hi</s><assistant>"]


def test_first_token_is_sent_where_the_tokenizer_is_told_not_to_add_it(folder):
    tokenizer = {"post_processor": {"single": [{"SpecialToken": {"id": "<s>"}}]}}
    assert rendered(folder(tokenizer=tokenizer, add_bos_token=False))[0].startswith("<s>")


def test_file_of_its_own_comes_before_the_one_in_the_configuration(folder):
    assert rendered(folder(jinja="{{ messages[0].content }}!")) == ["Hi!"]


def test_of_several_templates_the_default_is_taken(folder):
    named = [{"name": "tool_use", "template": "no"}, {"name": "default", "template": "yes"}]
    assert rendered(folder(named)) == ["yes"]


def test_thinking_is_told_to_the_template_and_left_to_it_without(folder):
    place = folder(THINKS)
    assert rendered(place, thinking=False)[0].endswith("<think></think>")
    assert rendered(place, thinking=True) == rendered(place) != rendered(place, thinking=False)


def test_switch_that_the_template_does_not_have_is_refused(folder):
    assert "makes the same prompt with it on and off" in refused(folder(), thinking=True)


def test_tools_and_what_templates_of_transformers_use_are_there(folder):
    text = (
        "{% for tool in tools %}{{ tool | tojson }}{% endfor %}"
        "{% generation %}{% for m in messages %}{% if loop.first %}{% continue %}{% endif %}{{ m.content }}{% endfor %}"
        "{% endgeneration %}"
    )
    told = rendered(folder(text), chat("a", "b", "c", tools=({"name": "<ü>"},)))
    assert told == ['{"name": "<ü>"}bc']


def test_date_is_the_same_every_day(folder):
    assert rendered(folder("{{ strftime_now('%d %b %Y') }}")) == ["26 Jul 2024"]


@pytest.mark.parametrize(
    ("template", "said"),
    [
        ("{{ raise_exception('roles must alternate') }}", "roles must alternate"),
        ("{{ ''.__class__.__mro__ }}", "SecurityError"),
        ("{{ messages.append(1) }}", "SecurityError"),
        ("{% for a in messages %}", "TemplateSyntaxError"),
        ("{{ 'x' * 5000000 }}", "longer than"),
        ("{{ 1 // 0 }}", "ZeroDivisionError"),
        ("{% include '/etc/passwd' %}", "no loader"),
    ],
)  # fmt: skip
def test_template_that_fails_or_reaches_out_is_refused(folder, template, said):
    assert said in refused(folder(template))


@pytest.mark.slow
def test_template_that_never_ends_is_stopped(folder, monkeypatch):
    monkeypatch.setattr(chat_template, "_CPU_S", 1)
    endless = "{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}"
    assert "within 1 s of processor time" in refused(folder(endless))


def test_tokenizer_without_a_template_says_what_to_write(folder):
    assert "Write the text around `{prompt}` as `template:`" in refused(folder(None))


def test_file_that_is_no_json_is_named(tmp_path):
    (tmp_path / "tokenizer_config.json").write_text("{")
    with pytest.raises(UsageError, match=r"tokenizer_config.json: a tokenizer's file must be JSON"):
        read_chat_template(tmp_path)


def test_hash_of_the_prompts_is_of_what_is_sent(folder, tmp_path):
    path = tmp_path / "prompts.jsonl"
    path.write_text(
        json.dumps({"messages": [{"role": "system", "content": "Brief."}, {"role": "user", "content": "Hi"}]})
    )
    one = load_prompts(path, chat=read_chat_template(folder()))
    again = load_prompts(path, chat=read_chat_template(folder()))
    other = load_prompts(path, chat=read_chat_template(folder(eos_token="<end>")))
    assert one.search[0].text == "<s><system>Brief.</s><user>Hi</s><assistant>"
    assert one.sha256 == again.sha256 != other.sha256
