"""Repeats that have nothing in common end no study: each is stored, judged, resumed and reported."""

import json

import pytest
from typer.testing import CliRunner

from search.cli.app import app
from search.study.events import Ending
from search.testing.engines import Script, ScriptedEngine, Speed


def wild(*shares):
    """Every config at 90 and 1,000 tok/s, times a share by repeat; one that speculates is 20% faster."""

    def script(config, _):
        faster = 1.2 if config.speculates else 1.0
        rates = {1: 90.0 * faster, 30: 600.0 * faster, 100: 1000.0 * faster}
        return Script(Speed(rates, 2.0 if config.speculates else None, dict.fromkeys(rates, shares)))

    return ScriptedEngine(script)


@pytest.mark.parametrize("shares", [(1.0, 5.0), (5.0, 1.0), (1.0, 0.05), (1.0, 1e12)])
def test_study_whose_repeats_lie_far_apart_goes_on_to_its_end_by_one_launch_a_run(lab, monkeypatch, shares):
    for count in (1, 2, 3):
        heard = lab.run(wild(*shares), launches=count)
        assert heard.error is None and heard.ending is Ending.LAUNCHES
    assert len(lab.launches()) == 3

    monkeypatch.chdir(lab.folder)
    done = CliRunner().invoke(app, ["report", "--study", "lab", "--json"])
    assert done.exit_code == 0, done.output
    json.loads(done.stdout, parse_constant=lambda word: pytest.fail(f"{word} is no JSON"))
    assert "a gain of" not in " ".join(heard.judgement.headlines)
