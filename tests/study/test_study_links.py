"""The all-reduce probe: its arithmetic, its processes, and what `search links` and the doctor say of it."""

import json
import os
import stat
import sys
import textwrap
from dataclasses import replace
from datetime import UTC, datetime

import psutil
import pytest
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

from search.app.links import (
    StoredLinks,
    keep_links,
    measure_links,
    pass_words,
    settings_of,
    slower_than_twins,
    stored_links,
)
from search.cli.app import app
from search.errors import HostUnfit, UsageError
from search.preflight.examine import Level, check_all_reduce
from search.preflight.links import LinkPoint, LinkProbe, fitted, probe_links
from search.server.ports import fresh_ports
from search.spec.file import parse_study

STUDY = """\
study: pair
model: {{target: /models/target, draft: /models/draft, algorithm: EAGLE3, architecture: LlamaForCausalLM, tp: {tp}}}
hardware: {{gpus: 2, kind: H200, sm: 90, memory_gib: 141, links: nvlink}}
engine: {{release: 0.5.16, python: {python}, env: {{NCCL_PROTO: LL}}}}
space:
  {{spec_version: [v2], topk: [1, 2], num_steps: [1, 2], num_draft_tokens: [tree],
    env: {{NCCL_P2P_DISABLE: [0, 1], NCCL_PROTO: [LL, Simple], SGLANG_X: [1]}}}}
"""


def points(latency, token, sizes=(1, 2, 4, 64, 512)):
    return tuple(LinkPoint(size, us := latency + token * size, us, us) for size in sizes)


def rank_script(folder, body):
    """An interpreter that, instead of the probe, does `body` with RANK and the request at hand."""
    path = folder / "rank"
    path.write_text(
        f"#!{sys.executable}\nimport json, os, sys, time\nrank, ask = int(os.environ['RANK']), json.loads(sys.argv[3])\n"
        + textwrap.dedent(body)
    )
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return str(path)


GOOD = """
if rank == 0:
    slow = 5 if os.environ.get("NCCL_P2P_DISABLE") == "1" else 1
    print(json.dumps({"state": "ready", "device": "H200", "library": "2.29", "bytes": 2}))
    for tokens in ask["tokens"]:
        us = slow * (20 + 0.1 * tokens)
        print(json.dumps({"tokens": tokens, "us": us, "low": us - 1, "high": us + 1, "graph": True}), flush=True)
"""


def probe(python, **more):
    asked = {"ranks": 2, "hidden": 64, "env": dict(os.environ), "port": fresh_ports().http} | more
    return probe_links(python=python, **asked)


@given(st.floats(1.0, 500.0), st.floats(0.001, 10.0))
def test_fit_gives_back_latency_and_cost_of_a_token_when_points_lie_on_a_line(latency, token):
    fit = fitted(points(latency, token))
    assert (fit.latency_us, fit.token_us) == (pytest.approx(latency, rel=1e-6), pytest.approx(token, rel=1e-6))
    assert fit.knee == pytest.approx(latency / token, rel=1e-5)


@given(st.lists(st.floats(1.0, 1e5), min_size=2, max_size=10))
def test_fit_is_never_negative_whatever_the_points(times):
    fit = fitted([LinkPoint(2**place, us, us, us) for place, us in enumerate(times)])
    assert fit.latency_us >= 0
    assert fit.token_us >= 0


def test_fit_is_unknown_with_one_size():
    assert fitted(points(10, 1, sizes=(4,))) is None


def test_pass_costs_two_all_reduces_a_layer_between_sizes_and_beyond_the_largest():
    found = LinkProbe((), 8, 7168, points=points(40, 0.5))
    assert found.pass_ms(3, 61) == pytest.approx(2 * 61 * 41.5 / 1000)
    assert found.pass_ms(1024, 61) == pytest.approx(2 * 61 * 552 / 1000)
    assert LinkProbe((), 8, 7168).pass_ms(3, 61) is None


def test_bus_bandwidth_counts_what_each_link_carries():
    # 512 tokens x 7168 x 2 bytes in 100 us, 8 ranks: 2 * 7 / 8 of 7.34 MB each 100 us.
    found = LinkProbe((), 8, 7168, points=(LinkPoint(1, 10, 10, 10), LinkPoint(512, 100, 100, 100)))
    assert found.bus_gbps(512) == pytest.approx(2 * 7 / 8 * 512 * 7168 * 2 / 100e-6 / 1e9)


def test_probe_reads_what_the_first_rank_reports(tmp_path):
    found = probe(rank_script(tmp_path, GOOD), setting={"NCCL_P2P_DISABLE": "1"})
    assert (found.trouble, found.device, found.library, found.in_graph) == ("", "H200", "2.29", True)
    assert found.setting == (("NCCL_P2P_DISABLE", "1"),)
    assert found.fit.latency_us == pytest.approx(100)
    assert found.fit.token_us == pytest.approx(0.5)


def test_probe_says_which_rank_failed_and_why_and_ends_the_others(tmp_path):
    body = """
    if rank == 1:
        print("  noise", file=sys.stderr)
        sys.exit("RuntimeError: NCCL error: unhandled system error")
    open(os.environ["PID_FILE"], "w").write(str(os.getpid()))
    time.sleep(600)
    """
    pid_file = tmp_path / "pid"
    found = probe(rank_script(tmp_path, body), env={**os.environ, "PID_FILE": str(pid_file)})
    assert found.trouble == "rank 1 ended with status 1: RuntimeError: NCCL error: unhandled system error"
    assert found.points == ()
    assert not pid_file.exists() or not pid_file.read_text() or not psutil.pid_exists(int(pid_file.read_text()))


def test_probe_that_hangs_is_ended_at_its_limit(tmp_path):
    found = probe(rank_script(tmp_path, "time.sleep(600)"), limit_s=0.5)
    assert found.trouble == "it did not finish within 0.5 s"


def test_probe_keeps_the_sizes_that_came_before_a_failure(tmp_path):
    body = """
    if rank == 0:
        print(json.dumps({"tokens": 1, "us": 5, "low": 5, "high": 5, "graph": True}), flush=True)
        print('{"tokens": 2, "us"', flush=True)
        print('[]', flush=True)
        sys.exit(3)
    time.sleep(600)
    """
    found = probe(rank_script(tmp_path, body))
    assert [point.tokens for point in found.points] == [1]
    assert found.trouble == "rank 0 ended with status 3"


@pytest.mark.parametrize("python", ["/nowhere/python", sys.executable])
def test_probe_without_a_usable_interpreter_says_so(python, tmp_path):
    blocked = tmp_path / "torch.py"
    blocked.write_text("raise ModuleNotFoundError(\"No module named 'torch'\")")
    found = probe(python, env={**os.environ, "PYTHONPATH": str(tmp_path)}, limit_s=60)
    assert ("could not be started" in found.trouble) or ("No module named 'torch'" in found.trouble)


def test_one_rank_has_nobody_to_reduce_with():
    assert probe(sys.executable, ranks=1).trouble == "one GPU has nobody to reduce with"


def test_settings_are_the_study_and_each_other_value_of_its_nccl_variables():
    assert settings_of(parse_study(STUDY.format(tp=2, python="x"), name="pair")) == (
        {},
        {"NCCL_P2P_DISABLE": "0"},
        {"NCCL_P2P_DISABLE": "1"},
        {"NCCL_PROTO": "Simple"},
    )


def test_measuring_needs_two_gpus_a_server_and_a_hidden_size(tmp_path):
    with pytest.raises(UsageError, match=r"`model.tp` of pair is 1"):
        measure_links(parse_study(STUDY.format(tp=1, python="x"), name="pair"))
    with pytest.raises(UsageError, match=r"no config.json of /models/target here. Say it with `--hidden`"):
        measure_links(parse_study(STUDY.format(tp=2, python="x"), name="pair"))
    with pytest.raises(HostUnfit, match=r"needs 2 GPUs of H200"):
        measure_links(parse_study(STUDY.format(tp=2, python="x"), name="pair"), hidden=64)


def stored(host="a", latency=20.0, setting=(), **more):
    found = LinkProbe(setting, 2, 64, points=points(latency, 0.1), device="H200", in_graph=True)
    return StoredLinks(host, (f"GPU-{host}",), datetime(2026, 12, 1, tzinfo=UTC), 4, (replace(found, **more),))


def test_slower_host_is_said_beside_its_twin_and_no_other():
    here = stored("here", latency=30.0)
    assert list(slower_than_twins(here, [stored("twin")])) == [
        "as the study is: an all-reduce of 1 tokens takes 30 us here and 20 us on twin (2026-12-01)"
    ]
    for other in (stored("here"), stored("twin", latency=29.0), stored("b", hidden=128), stored("c", device="H100")):
        assert not list(slower_than_twins(here, [other]))


def test_probes_are_kept_and_read_back(tmp_path):
    assert stored_links(tmp_path) == ()
    keep_links(tmp_path, stored("a"))
    keep_links(tmp_path, stored("b", setting=(("NCCL_PROTO", "LL"),)))
    assert stored_links(tmp_path) == (stored("a"), stored("b", setting=(("NCCL_PROTO", "LL"),)))


@pytest.mark.parametrize("text", ["", "{}", '[{"host": 1}]', "[NaN]"])
def test_file_that_holds_no_probes_is_refused_by_name(tmp_path, text):
    (tmp_path / "links.json").write_text(text)
    with pytest.raises(UsageError, match=r"links\.json holds probes of links, but cannot be read"):
        stored_links(tmp_path)


def test_words_of_passes_say_what_they_spend():
    assert pass_words(LinkProbe((), 8, 64, points=points(40, 0.5)), 61, (1, 16)) == (
        "A pass of 61 layers spends in its 122 all-reduces: 1 tokens 4.94 ms, 16 tokens 5.86 ms."
    )
    assert pass_words(LinkProbe((), 8, 64), None, (1,)) == ""


def test_command_prints_each_setting_and_keeps_nothing_of_a_trial_without_gpus(tmp_path):
    study = tmp_path / "pair.yaml"
    study.write_text(STUDY.format(tp=2, python=rank_script(tmp_path, GOOD)))
    asked = [
        "links",
        "--study",
        str(study),
        "--reports",
        str(tmp_path / "r"),
        "--hidden",
        "64",
        "--layers",
        "48",
        "--cpu",
    ]
    done = CliRunner().invoke(app, asked)
    assert done.exit_code == 0, done.output
    assert "as the study is: A pass of 48 layers spends in its 96 all-reduces: 1 tokens 1.93 ms" in done.stdout
    assert "NCCL_P2P_DISABLE=1: A pass of 48 layers spends in its 96 all-reduces: 1 tokens 9.65 ms" in done.stdout
    assert not (tmp_path / "r").exists()
    shown = json.loads(CliRunner().invoke(app, [*asked, "--json"]).stdout)
    assert [one["setting"] for one in shown["probes"]][1] == [["NCCL_P2P_DISABLE", "0"]]


def test_command_fails_with_the_reason_when_no_setting_could_be_timed(tmp_path):
    study = tmp_path / "pair.yaml"
    study.write_text(STUDY.format(tp=2, python=rank_script(tmp_path, "sys.exit('RuntimeError: no link')")))
    done = CliRunner().invoke(app, ["links", "--study", str(study), "--hidden", "64", "--cpu"])
    assert done.exit_code != 0
    assert "as the study is: rank" in done.stdout
    assert "RuntimeError: no link" in done.stdout


def test_doctor_says_what_an_all_reduce_costs_or_why_it_does_not_know():
    known = check_all_reduce(LinkProbe((), 8, 7168, points=points(40, 0.5)), None)
    assert (known.level, known.says) == (
        Level.OK,
        "40 us over 8 GPUs by NCCL, twice that at 80 tokens; `search links` tries the study's settings",
    )
    unknown = check_all_reduce(LinkProbe((), 8, 7168, trouble="rank 3 ended by signal 9"), None)
    assert unknown.level is Level.WARNING
    assert "rank 3 ended by signal 9" in unknown.says


def test_real_probe_runs_where_torch_is(tmp_path):
    """With gloo, on the processor: the script itself, its ranks meeting and agreeing on the slowest."""
    pytest.importorskip("torch")
    found = probe(sys.executable, backend="gloo", tokens=(1, 64), limit_s=110)
    assert found.trouble == ""
    assert [point.tokens for point in found.points] == [1, 64]
    assert (found.library, found.item_bytes) == ("gloo", 4)
