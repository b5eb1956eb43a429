"""Which configs of a study share a start, and what is said of the others."""

import dataclasses

import pytest

from search.app.sharing import sharing_of, start_plan
from search.config import SpecConfig
from search.deployment import CheckpointFacts
from search.dialects import for_release
from search.errors import UsageError
from search.spec.study import StudySpec

POOL = {"mem-fraction-static": 0.6}
TRITON = {"attention-backend": "triton"}


def study(release="0.5.16", algorithm="STANDALONE", args=None, workers=("v2",), **engine):
    return StudySpec.model_validate(
        {
            "study": "lab",
            "model": {
                "target": "t",
                "draft": "d",
                "algorithm": algorithm,
                "architecture": "LlamaForCausalLM",
            },
            "hardware": {"gpus": 1, "kind": "NVIDIA H200", "sm": 90, "memory_gib": 139, "links": "nvlink"},
            "engine": {"release": release, "server_args": POOL | TRITON if args is None else args, **engine},
            "space": {
                "spec_version": workers,
                "topk": (1, 2, 4),
                "num_steps": (1, 2),
                "num_draft_tokens": (2, 3, 5, "tree"),
                "allreduce_fusion": ("off",),
            },
        }
    )


def planned(spec, **more):
    dialect = for_release(spec.engine.release)
    return start_plan(spec, spec.space_of(dialect), dialect, **more)


def groups(plan):
    return [sorted({config.topk for config in members}) for members in plan.sharing.groups]


def test_shapes_share_a_start_where_release_and_draft_are_proven_and_off_never_does():
    plan = planned(study())
    assert groups(plan) == [[1, 2, 4]]
    off = SpecConfig.from_id("off")
    assert plan.sharing.beside(off) == ()
    chain = plan.sharing.groups[0][0]
    assert set(plan.sharing.beside(chain)) == set(plan.sharing.groups[0]) - {chain}
    assert plan.line.startswith("starts: one can hold several configs, any of one group: ")
    assert f": {plan.configs - 1} configs with topk 1, 2, 4; 1 apart" in plan.line
    assert "1 apart: `off` always has starts of its own" in plan.line


def test_shapes_whose_starts_would_choose_another_backend_share_none():
    assert groups(planned(study(args=POOL))) == [[1], [2, 4]]


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"args": TRITON}, "does not name `mem-fraction-static`"),
        ({"algorithm": "EAGLE3"}, "Not proven on a GPU: SGLang 0.5.16 with EAGLE3"),
        ({"release": "0.5.23"}, "`engine.shared_starts: on` shares them all the same"),
        ({"release": "0.5.11"}, "no row in the plugin's table"),
        ({"shared_starts": "off"}, "is off"),
        ({"shared_starts": False}, "is off"),
        ({"args": POOL | TRITON | {"enable-torch-compile": True}}, "keeps its shape"),
    ],
)
def test_no_start_is_shared_where_it_may_measure_otherwise_and_the_plan_says_why(changes, words):
    plan = planned(study(**changes))
    assert plan.sharing.groups == ()
    assert words in plan.line and words in plan.sharing.words


def test_model_whose_backend_is_not_known_shares_no_start_until_it_is_named():
    spec = study(args=POOL)
    unknown = spec.model_copy(update={"model": spec.model.model_copy(update={"architecture": "OfTomorrow"})})
    assert "name `attention-backend`" in planned(unknown).line
    named = study().model_copy(update={"model": unknown.model})
    assert groups(planned(named)) == [[1, 2, 4]]


def test_hybrid_model_shares_no_start():
    plan = planned(study().knowing(target=CheckpointFacts(architecture="LlamaForCausalLM", hybrid=True)))
    assert plan.sharing.groups == () and "hybrid" in plan.line


@pytest.mark.parametrize("wish", ["on", True])
def test_wish_shares_what_is_not_proven_and_says_so_aloud(wish):
    plan = planned(study(release="0.5.23", algorithm="EAGLE3", shared_starts=wish))
    assert groups(plan) == [[1, 2, 4]]
    assert "NOT PROVEN ON A GPU: SGLang 0.5.23 with EAGLE3" in plan.line


@pytest.mark.parametrize(("release", "algorithm"), [("0.5.9", "EAGLE3"), ("0.5.16", "DFLASH")])
def test_wish_where_nothing_can_be_shared_is_refused_with_what_can(release, algorithm):
    spec = study(release=release, algorithm=algorithm, shared_starts="on", workers=("v1", "v2"), args=POOL)
    if algorithm == "DFLASH":
        spec = spec.model_copy(update={"space": spec.space.model_copy(update={"topk": (1,)})})
    with pytest.raises(UsageError, match=r"`engine.shared_starts: on` needs .*Releases that can: 0\.5\.16"):
        planned(spec)


def test_word_of_the_installed_release_parts_what_the_dialect_takes_for_alike():
    spec = study()
    configs = planned(spec).sharing.groups[0]
    told = {
        config.config_id: {
            "speculative_num_steps": config.num_steps,
            "mem_fraction_static": 0.5 + 0.1 * (config.topk == 4),
        }
        for config in configs
    }
    assert groups(planned(spec, installed=told)) == [[1, 2], [4]]


def test_recording_that_launches_nothing_shares_nothing():
    spec = study()
    space = spec.space_of(for_release("0.5.16"))
    assert sharing_of(spec, space, None).groups == ()
    assert dataclasses.is_dataclass(sharing_of(spec, space, for_release("0.5.16")))
