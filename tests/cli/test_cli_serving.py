"""`serving:` of a study file: held to the release, and written into the scripts that people copy."""

from pathlib import Path

import pytest
from typer.testing import CliRunner

from search.app.serving import check_serving, serving_command
from search.cli.app import app
from search.config import SpecConfig
from search.dialects import for_release
from search.errors import UsageError
from search.spec.file import packaged_spaces, parse_study
from search.spec.stored import stored_spec

KIMI = (packaged_spaces() / "kimi-k25.yaml").read_text()


def spec_with(serving):
    return parse_study(f"{KIMI}\nserving: {serving}\n", name="kimi-k25.yaml")


def serve(serving, config="v2-k1-s2-d3"):
    spec = spec_with(serving)
    return serving_command(SpecConfig.from_id(config), spec, for_release(spec.engine.release))


def test_serving_form_has_the_users_address_and_the_prefix_cache_and_names_both():
    made = serve("{host: 0.0.0.0, port: 8000}")
    assert "--host 0.0.0.0 \\\n  --port 8000" in made.text
    assert "--disable-radix-cache" not in made.text and "--nccl-port" not in made.text
    assert "--speculative-num-steps 2" in made.text and "--model-path moonshotai/Kimi-K2.5" in made.text
    assert [line.split(";")[0] for line in made.changes] == [
        "prefix cache on",
        "listens on 0.0.0.0",
        "port 8000",
    ]


def test_serving_form_without_a_word_of_the_user_leaves_the_host_to_the_server():
    made = serve("{}")
    assert "--host" not in made.text and made.text.rstrip().endswith("--port 30000")


def test_every_setting_that_serving_changes_is_named_with_what_was_measured():
    made = serve(
        "{prefix_cache: false, max_running_requests: 64, env: {NCCL_DEBUG: WARN}, "
        "server_args: {mem-fraction-static: 0.8, enable-metrics: true, enable-torch-symm-mem: false}}"
    )
    said = "\n".join(made.changes)
    assert "max-running-requests 64; measured with 256" in said
    assert "mem-fraction-static 0.8; measured with 0.88" in said
    assert "enable-metrics on; measured without it" in said
    assert "enable-torch-symm-mem off; measured with on" in said
    assert "variable NCCL_DEBUG; measured without it" in said
    assert "prefix cache" not in said and "--disable-radix-cache" in made.text
    assert "--enable-torch-symm-mem" not in made.text and "--max-running-requests 64" in made.text


@pytest.mark.parametrize(
    ("args", "said"),
    [
        ("{no-such-flag: 1}", "no such flag"),
        ("{speculative-num-steps: 4}", "speculative-num-steps"),
        ("{tp-size: 4}", "tp-size"),
    ],
)
def test_flag_that_the_release_or_the_study_refuses_is_refused_before_anything_is_launched(args, said):
    spec = spec_with(f"{{server_args: {args}}}")
    with pytest.raises(UsageError, match=said):
        check_serving(spec, for_release(spec.engine.release))


@pytest.mark.parametrize(
    ("flag", "field"), [("host", "host"), ("disable-radix-cache", "prefix_cache"), ("port", "port")]
)
def test_flag_with_a_field_of_its_own_is_written_there(flag, field):
    with pytest.raises(UsageError, match=rf"is set by `serving\.{field}`"):
        spec_with(f"{{server_args: {{{flag}: 1}}}}")


def test_secrets_of_serving_are_stored_nowhere():
    spec = spec_with("{env: {HF_TOKEN: hf_abcdefghijklmnopqrstuvwxyz}, server_args: {api-key: topsecret}}")
    assert "topsecret" not in str(stored_spec(spec)) and "hf_abcdefgh" not in str(stored_spec(spec))
    made = serving_command(SpecConfig.from_id("off"), spec, for_release(spec.engine.release))
    assert "topsecret" not in made.text and "hf_abcdefgh" not in made.text
    assert "topsecret" not in "\n".join(made.changes)


def test_run_with_a_wrong_serving_flag_exits_with_2_and_launches_nothing(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("mine.yaml").write_text(f"{KIMI}\nserving: {{server_args: {{no-such-flag: 1}}}}\n")
    done = CliRunner().invoke(app, ["run", "--study", "mine.yaml", "--simulate"])
    assert done.exit_code == 2 and "`serving`" in done.stderr and not Path("trials.db").exists()
