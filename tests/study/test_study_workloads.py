"""Several workloads in one study: measured beside its own, judged each by itself, the worst case said."""

import pytest
from lab_study import STUDY

from search.analysis.workloads import seen_by, workloads_answer
from search.errors import UsageError
from search.spec.file import parse_study
from search.spec.fingerprint import differences, fingerprint
from search.testing.engines import Script, ScriptedEngine, Speed

TEXT = (
    STUDY.replace("confirm: 0", "confirm: 6")
    .replace("watch: [30]\n", "")
    .replace("sampler: random", "sampler: random\nworkloads:\n  code: {kinds: [code]}\n  rhymes: {kinds: [chat]}\n")
)
CONFIGS = ("off", "v2-k1-s2-d3")


def speed(factor, accept=None):
    """Rates that differ a little from repeat to repeat, as a host's do."""
    rates = {1: 100.0 * factor, 30: 800.0 * factor, 100: 1000.0 * factor}
    return Speed(rates, accept=accept, swings=dict.fromkeys(rates, (1.0, 1.002)))


def engine(own, code, rhymes):
    """A baseline of 1 with all prompts, and a chain that is so many times as fast with each of them."""
    plain = speed(1.0)
    chain = Script(speed(own, 2.0), workload_speeds={"code": speed(code, 2.5), "rhymes": speed(rhymes, 1.5)})
    return ScriptedEngine(
        lambda config, _: (
            chain if config.speculates else Script(plain, workload_speeds={"code": plain, "rhymes": plain})
        )
    )


def answer_of(lab, scripted, text=TEXT):
    lab.run(scripted, text=text, configs=CONFIGS)
    return workloads_answer(parse_study(text, name="lab.yaml"), lab.launches())


def test_phases_of_workloads_stand_beside_the_studys_own(lab):
    lab.run(engine(1.1, 1.3, 0.8), text=TEXT, configs=CONFIGS)
    launches = lab.launches()
    for launch in launches[:2]:
        assert {phase.workload for phase in launch.phases} == {None}
        assert {(phase.workload, phase.concurrency) for phase in launch.beside} == {
            ("code", 1), ("code", 100), ("rhymes", 1), ("rhymes", 100),
        }  # fmt: skip
    confirmed = [launch for launch in launches if launch.stage == "confirm"]
    assert confirmed and all(phase.held_out for launch in confirmed for phase in launch.beside)
    (only,) = {phase.workload for launch in seen_by(launches, "code") for phase in launch.phases}
    assert only == "code"


def test_prompts_that_turn_a_gain_into_a_loss_are_named(lab):
    told = answer_of(lab, engine(1.1, 1.3, 0.8))
    assert [verdict.name for verdict in told.verdicts] == ["main", "code", "rhymes"]
    winners = {verdict.name: {str(winner.config) for winner in verdict.winners} for verdict in told.verdicts}
    assert winners == {"main": {"v2-k1-s2-d3"}, "code": {"v2-k1-s2-d3"}, "rhymes": {"off"}}
    for worst in told.worst:
        assert worst.config is None and not worst.shown
        (reversal,) = worst.reversals
        assert (str(reversal.config), reversal.better[0], reversal.worse[0]) == ("v2-k1-s2-d3", "code", "rhymes")
    assert [line.split(":")[0] for line in told.warnings] == ["Prompts decide at C=1", "Prompts decide at C=100"]
    assert "Worst case: no speculation; `v2-k1-s2-d3` comes nearest, -20.0% with rhymes." in told.lines[0]


def test_gain_with_all_prompts_is_the_worst_of_them(lab):
    told = answer_of(lab, engine(1.2, 1.3, 1.1))
    assert [(str(worst.config), worst.workload, worst.shown) for worst in told.worst] == [
        ("v2-k1-s2-d3", "rhymes", True)
    ] * 2
    assert told.warnings == ()
    assert told.worst[0].gain.value == pytest.approx(1.1, rel=1e-3)


def test_equal_configs_have_no_gain_and_no_reversal_with_any_prompts(lab):
    told = answer_of(lab, engine(1.0, 1.0, 1.0))
    assert {str(winner.config) for verdict in told.verdicts for winner in verdict.winners} == {"off"}
    assert told.warnings == () and not any(worst.shown for worst in told.worst)


def test_study_of_one_workload_has_no_answer_of_this_kind(lab):
    lab.run(engine(1.1, 1.3, 0.8), text=STUDY, configs=CONFIGS)
    assert workloads_answer(parse_study(STUDY, name="lab.yaml"), lab.launches()) is None


def test_each_further_workload_leaves_a_claim_less_of_the_level(lab):
    from search.analysis.arenas import RATE
    from search.analysis.memo import Memo
    from search.analysis.results import config_results
    from search.analysis.winners import arenas_of

    lab.run(engine(1.1, 1.3, 0.8), text=TEXT, configs=CONFIGS)
    spent = []
    for text in (STUDY, TEXT):
        spec = parse_study(text, name="lab.yaml")
        results = config_results(spec, lab.launches())
        spent.append(arenas_of(spec, lab.launches(), results, Memo())[RATE, 1].verdict.spent)
    assert spent[1] == pytest.approx(spent[0] / 3)


def test_workload_may_come_to_a_running_study_and_may_not_change_in_it():
    def of(text):
        return fingerprint(parse_study(text, name="lab.yaml"), kind="measured")

    without, one = TEXT.replace("  rhymes: {kinds: [chat]}\n", ""), TEXT
    assert differences(of(STUDY), of(without)) == differences(of(without), of(one)) == []
    assert differences(of(one), of(without)) == [
        "workloads.rhymes.output_tokens: 256 -> not set",
        "workloads.rhymes.prompts.kinds: chat -> not set",
        "workloads.rhymes.prompts.template: {prompt} -> not set",
    ]
    changed = TEXT.replace("{kinds: [chat]}", "{kinds: [chat], sampling: {temperature: 0.5}}")
    assert differences(of(one), of(changed)) == ["workloads.rhymes.sampling.temperature: not set -> 0.5"]


@pytest.mark.parametrize(
    ("workloads", "said"),
    [
        ("main: {}", "'main' is the workload of `measure.prompts`"),
        ("a.b: {}", "`workloads.a.b"),
        ("code: {template: none}", "`{prompt}` must stand in the template, or it is `chat`"),
        ("code: {sampling: {thinking: true}}", "`workloads.code.sampling.thinking` is told to the target's chat template"),
        ("code: {sampling: {top_p: 0.5}}", "`top_p` and `top_k` change nothing at `temperature` 0"),
        (", ".join(f"w{n}: {{}}" for n in range(9)), "at most 8 workloads besides its own prompts, but got 9"),
        ("code: {kind: chat}", "did you mean `kinds`?"),
    ],
)  # fmt: skip
def test_workload_that_cannot_be_sent_is_refused(workloads, said):
    with pytest.raises(UsageError) as caught:
        parse_study(f"{STUDY}workloads: {{{workloads}}}\n", name="lab.yaml")
    assert said in str(caught.value)


def test_acceptance_of_an_unknown_workload_is_refused():
    with pytest.raises(UsageError, match=r"`simulation.acceptance` must name workloads of the study, one of none"):
        parse_study(STUDY + "simulation: {acceptance: {code: 1.2}}\n", name="lab.yaml")
