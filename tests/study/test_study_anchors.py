"""The first config of a shared start is measured again: what a place does is known, and no trial is spent on it."""

from collections import Counter

from search.outcomes import Outcome
from search.shape import SwitchFailed
from search.testing.engines import Script, ScriptedEngine, Speed

GROUP = tuple(f"v2-k1-s{steps}-d{steps + 1}" for steps in range(1, 13))
SPEED = Speed({1: 100.0, 30: 800.0, 100: 1000.0})


def run(lab, script=lambda config, before: Script(SPEED), group=GROUP, **options):
    served = ScriptedEngine(script)
    heard = lab.run(served, groups=(group,), configs=("off", *group), **options)
    assert heard.error is None
    return served


def shared(lab):
    return [launch for launch in lab.launches() if launch.start is not None]


def test_first_of_a_start_is_measured_again_at_its_fourth_place_and_every_sixth_after_it(lab):
    run(lab)
    launches = shared(lab)
    first = launches[0]
    again = [launch for launch in launches if launch.asked == first.asked and launch is not first]
    assert [launch.place for launch in again] == [4, 10]
    assert {launch.start for launch in again} == {first.number}
    assert all((launch.trial, launch.stage, launch.outcome) == (None, "search", Outcome.MEASURED) for launch in again)
    assert all(launch.why.startswith("the first of its start again") for launch in again)


def test_each_config_has_one_trial_all_the_same(lab):
    run(lab)
    trials = Counter(trial.user_attrs["config_id"] for trial in lab.trials())
    assert trials == Counter(("off", *GROUP))


def test_short_start_has_no_anchor(lab):
    run(lab, group=GROUP[:3])
    assert max(Counter(launch.asked for launch in lab.launches()).values()) == 1


def test_anchor_that_cannot_be_switched_to_is_not_tried_again_and_blames_nobody(lab):
    def script(config, before):
        broken = SwitchFailed("it broke", usable=True) if config.config_id == "v2-k1-s2-d3" and before else None
        return Script(SPEED, switch_error=broken)

    run(lab, script)
    first = shared(lab)[0].asked
    assert first.config_id == "v2-k1-s2-d3"
    mine = [launch for launch in lab.launches() if launch.asked == first]
    assert [launch.outcome is Outcome.MEASURED for launch in mine] == [True, False, False]
    assert lab.trial("v2-k1-s2-d3").state.name == "COMPLETE"
