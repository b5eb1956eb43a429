"""`--accept-changes`: a study goes on under changed conditions, and its report says so."""

from typer.testing import CliRunner

from search.cli.app import run_app


def run(*words):
    return CliRunner().invoke(run_app, ["--study", "kimi-k25", "--simulate", "--sampler", "random", "-q", *words])


def test_changed_conditions_are_accepted_and_told_in_the_report(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert run("--launches", "2", "--seed", "0").exit_code == 0
    refused = run("--launches", "3", "--seed", "1")
    assert refused.exit_code == 2 and "--accept-changes" in refused.output
    accepted = run("--launches", "3", "--seed", "1", "--accept-changes")
    assert accepted.exit_code == 0 and "accepted: seed: 0 -> 1" in accepted.output
    (page,) = tmp_path.glob("reports/*/index.html")
    assert "fingerprint changed at launch 3: seed: 0 -&gt; 1" in page.read_text()
    assert run("--launches", "4", "--seed", "1").exit_code == 0
