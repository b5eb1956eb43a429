"""A study that samples: part of its fingerprint, and losslessness checked on greedy answers beside it."""

import numpy as np
import pytest
from lab_study import STUDY

from search.outcomes import Outcome, Reason
from search.spec.file import parse_study
from search.spec.fingerprint import differences, fingerprint
from search.testing.engines import Script, ScriptedEngine, Speed

SAMPLED = STUDY + "measure: {sampling: {temperature: 0.7, top_p: 0.95}}\n"
FAST = Speed({1: 900.0, 30: 9000.0, 100: 9000.0}, accept=2.0)
PLAIN = Speed({1: 100.0, 30: 700.0, 100: 1000.0})


def true(prompt, concurrency, repeat):
    return np.random.default_rng(prompt).integers(0, 30_000, 64).tolist()


def other(prompt, concurrency, repeat):
    """Another text after an eighth of the answer."""
    return [
        *true(prompt, concurrency, repeat)[:8],
        *np.random.default_rng(9000 + prompt).integers(0, 30_000, 56).tolist(),
    ]


def loop(prompt, concurrency, repeat):
    return [5] * 64


def engine(answers):
    return ScriptedEngine(
        lambda config, _: Script(FAST, answers=answers) if config.speculates else Script(PLAIN, answers=true)
    )


def facts(text):
    return fingerprint(parse_study(text, name="lab.yaml"), kind="measured")


def test_greedy_study_has_the_fingerprint_of_before():
    assert not any("sampling" in name for name in facts(STUDY))


def test_sampling_is_part_of_the_fingerprint():
    assert differences(facts(STUDY), facts(SAMPLED)) == [
        "measure.sampling.temperature: not set -> 0.7",
        "measure.sampling.top_p: not set -> 0.95",
    ]


@pytest.mark.parametrize(("answers", "verdict"), [(true, "lossless"), (other, "lossy")])
def test_losslessness_is_checked_on_greedy_answers_beside_the_sampled_ones(lab, answers, verdict):
    scripted = engine(answers)
    lab.run(scripted, text=SAMPLED, launches=2)
    _, chain = lab.launches()
    assert [(check.concurrency, check.verdict) for check in chain.lossless] == [(1, verdict), (100, verdict)]
    # A baseline answers greedily twice, a config once; none of it is stored as a measurement.
    assert scripted.greedy == [(1, 1), (100, 1), (1, 2), (100, 2), (1, 1), (100, 1)]
    assert [(phase.concurrency, phase.repeat) for phase in chain.phases[:4]] == [(1, 1), (100, 1), (1, 2), (100, 2)]


def test_garbage_that_only_greedy_answers_show_bars_a_config(lab):
    lab.run(engine(loop), text=SAMPLED, launches=2)
    assert (lab.launches()[1].outcome, lab.launches()[1].reason) == (Outcome.FAILED, Reason.BAD_OUTPUT)


def test_greedy_study_needs_no_phases_beside_it(lab):
    scripted = engine(true)
    lab.run(scripted, text=STUDY, launches=2)
    assert scripted.greedy == [] and {check.verdict for check in lab.launches()[1].lossless} == {"lossless"}
