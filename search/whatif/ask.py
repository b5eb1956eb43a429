"""What if we ran this config? Legal, cost, expectation, test, decision: one value, computed without I/O."""

from __future__ import annotations

from collections.abc import Sequence

from search.config import SpecConfig, simplicity
from search.dialects import Dialect
from search.model.confounding import confounded
from search.physics.model import Physics
from search.spec.study import StudySpec
from search.whatif.answer import Legality, Separation, Test, Variant, WhatIf
from search.whatif.evidence import Basis
from search.whatif.forecast import Predictor
from search.whatif.legality import legality_of, read_question
from search.whatif.verdict import decision_of, verdict_of, worth_of


def what_if(
    spec: StudySpec, text: str, *, dialect: Dialect, physics: Physics, basis: Basis, study_option: str = ""
) -> WhatIf:
    """Answer a question about a config of a study.

    Args:
        spec: The study.
        text: `knob=value` pairs or a config id; what is not said is taken from the study.
        dialect: Of the study's release.
        physics: The study's cost model.
        basis: What was measured so far.
        study_option: How `--study` names the study; its own name without it.

    Raises:
        InvalidConfig: A knob or value is not understood, or the tree is impossible.
        UnsupportedKnob: The release has no spelling for a knob.
    """
    asked, taken = read_question(spec, text, dialect)
    space = spec.space_of(dialect)
    found: dict[SpecConfig, Legality] = {}
    for config in asked:
        canonical, legality = legality_of(config, spec, space, dialect)
        found.setdefault(canonical, legality)
    predictor = Predictor(
        spec, space.including([config for config in found if found[config].legal]), list(found), basis, physics
    )
    outlook = predictor.outlook
    variants = tuple(_variant(config, legality, predictor) for config, legality in found.items())
    effects = confounded(outlook.belief, _seen(basis), launchable=space.configs)
    separations = tuple(
        Separation(str(item), item.launch.config_id, outlook.forecast(item.launch).gain) for item in effects
    )
    test = _test(spec, variants, predictor, study_option or spec.study)
    return WhatIf(
        study=spec.study,
        release=spec.engine.release,
        asked=text.strip(),
        taken=taken,
        basis=basis.kind,
        rests_on=basis.words,
        objectives=outlook.loads,
        variants=variants,
        noise_gain=outlook.noise_gain,
        separations=separations,
        test=test,
        decision=decision_of(
            variants,
            separations,
            test,
            noise_gain=outlook.noise_gain,
            modelled=basis.kind == "prior",
        ),
    )


def _seen(basis: Basis) -> Sequence[SpecConfig]:
    return list(dict.fromkeys(item.config for item in basis.observations))


def _variant(config: SpecConfig, legality: Legality, predictor: Predictor) -> Variant:
    expectation = predictor.expectation(config)
    worth = worth_of(
        legality, expectation, noise_gain=predictor.outlook.noise_gain, modelled=predictor.basis.kind == "prior"
    )
    unlocking = predictor.unlocking(config) if worth == "locked" else None
    return Variant(
        config_id=config.config_id,
        legality=legality,
        cost=predictor.cost(config),
        expectation=expectation,
        unlocking=unlocking,
        worth=worth,
        verdict=verdict_of(
            config.config_id,
            worth,
            expectation,
            unlocking,
            objectives=predictor.outlook.loads,
            noise_gain=predictor.outlook.noise_gain,
            modelled=predictor.basis.kind == "prior",
        ),
    )


def _test(spec: StudySpec, variants: Sequence[Variant], predictor: Predictor, study: str) -> Test:
    ids = [variant.config_id for variant in variants]
    untried = predictor.untried
    if predictor.basis.kind == "prior":
        # As a search does: nothing can be compared before a baseline is measured.
        best = min((config for config in untried if not config.speculates), key=simplicity, default=None)
    else:
        best = predictor.outlook.best(untried) if untried else None
    questions = tuple(
        f"{name}: {question.words}" for name, question in spec.questions.items() if set(question.configs) & set(ids)
    )
    to_launch = [variant for variant in variants if variant.legality.legal and variant.worth != "measured"]
    suggested = ""
    if to_launch and not questions:
        rivals = dict.fromkeys(load.best for load in to_launch[0].expectation.loads if load.best)
        loads = ", ".join(map(str, spec.loads))
        against = ", ".join(f'"{rival}"' for rival in rivals if rival != to_launch[0].config_id)
        suggested = f"{{config: {to_launch[0].config_id}, against: [{against}], at: [{loads}]}}"
    return Test(
        commands=tuple(f"python -m search try --study {study} {variant.config_id}" for variant in to_launch),
        questions=questions,
        suggested=suggested,
        next_launch=best.config_id if best else "",
        next_gain=predictor.outlook.forecast(best).gain if best else 0.0,
    )
