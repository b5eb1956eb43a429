"""A published curve tells how many drafts are accepted and nothing of speed: what priors make of it."""

import numpy as np
import pytest

from search.app.import_meta import About
from search.app.import_table import HowToRead, imported
from search.config import SpecConfig
from search.engines.recording import write_recording
from search.errors import UsageError
from search.metrics import DEFAULTS
from search.model.belief import Belief, Prior
from search.model.observations import Observation
from search.samplers.matching import EarlierTable, matched
from search.samplers.warm_start import earlier_evidence, recorded_evidence
from search.space import Space
from search.spec.file import parse_study

CHAIN, SHORT, OFF = map(SpecConfig.from_id, ("v2-k1-s2-d3", "v2-k1-s1-d2", "off"))


def curve(*lengths):
    table = "k,accept length\n" + "".join(f"{k},{length}\n" for k, length in enumerate(lengths, 1))
    return imported(table, HowToRead(worker="v2", at=1), About(source="x"), name="curve", where="text").recording


def test_curve_is_evidence_without_a_pace_and_without_a_start():
    observations, starts = recorded_evidence(curve(1.8, 2.5), DEFAULTS)
    assert [(item.config.config_id, item.ms_per_token, item.accept_length) for item in observations] == [
        ("v2-k1-s1-d2", None, 1.8),
        ("v2-k1-s2-d3", None, 2.5),
    ]
    assert starts == ()


def test_better_curve_makes_chains_look_faster_and_leaves_the_baseline_alone():
    prior = Prior.of((OFF, SHORT, CHAIN), (1, 100), seed=0)
    base = [Observation(OFF, 1, 10.0, 0.01)]
    good, bad = (
        Belief.given(prior, [*base, *recorded_evidence(curve(*lengths))[0]]).expected(1)
        for lengths in ((1.9, 2.8), (1.1, 1.15))
    )
    assert good[prior.index[CHAIN]] < bad[prior.index[CHAIN]] - 0.3
    assert good[prior.index[OFF]] == pytest.approx(bad[prior.index[OFF]], abs=0.02)
    assert np.isfinite(good).all()


def test_curve_counts_before_any_config_is_shared():
    told = recorded_evidence(curve(1.8, 2.5))[0]
    assert matched(EarlierTable("curve", told), []).observations == told


def test_study_that_names_a_curve_is_told_its_lengths(study_text, tmp_path):
    write_recording(tmp_path / "curve", curve(1.8, 2.5))
    spec = parse_study(study_text + f"earlier: [{{recording: {tmp_path / 'curve'}, weight: 0.5}}]\n", name="x")
    told = earlier_evidence(spec, Space.recorded((OFF, CHAIN)))
    assert [(item.config, item.accept_length, item.weight) for item in told.observations] == [(CHAIN, 2.5, 0.5)]


def test_observation_of_nothing_is_refused():
    with pytest.raises(UsageError, match="a pace or an accept length"):
        Observation(CHAIN, 1, None)
