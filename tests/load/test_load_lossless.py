"""Which answers are the baseline's own, which are another model's, and which are none."""

import numpy as np
import pytest

from search.contracts import PhaseResult
from search.stats.losslessness import (
    OutputCheck,
    answers_of,
    check_outputs,
    diversity,
    prefix_agreement,
    read_answers,
    worst,
    write_answers,
)

LENGTH = 256
LOOP = [7, 8] * (LENGTH // 2)


class Served:
    """A made-up model. Each answer is its own until a low bit falls the other way, then another."""

    def __init__(self, prompts=16, seed=0):
        self.draw = np.random.default_rng(seed)
        self.true = {f"p{i}": self.draw.integers(0, 30_000, LENGTH) for i in range(prompts)}

    def answers(self, split_after=None):
        """Answers that leave the true one after `split_after` tokens on average; None for never."""
        found = {}
        for name, tokens in self.true.items():
            at = LENGTH if split_after is None else min(LENGTH, int(self.draw.exponential(split_after)))
            found[name] = [*tokens[:at].tolist(), *self.draw.integers(30_000, 60_000, LENGTH - at).tolist()]
        return found

    def same(self, tokens):
        return dict.fromkeys(self.true, tokens)


def check(config, baseline, elsewhere=(), concurrency=1):
    return check_outputs(concurrency, config, baseline, elsewhere, rng=np.random.default_rng(1))


def phase(outputs=(), ids=(), repeat=1):
    return PhaseResult(
        1, repeat, len(outputs), 4, 1.0, 100.0, 100.0, 10.0, 50.0, prompt_ids=tuple(ids), outputs=tuple(outputs)
    )


@pytest.mark.parametrize(
    ("one", "other", "share"),
    [
        ([1, 2, 3, 4], [1, 2, 3, 4], 1.0),
        ([1, 2, 3, 4], [1, 2, 9, 4], 0.5),
        ([9, 2, 3, 4], [1, 2, 3, 4], 0.0),
        ([1, 2], [1, 2, 3, 4], 0.5),
        ([], [1, 2], 0.0),
        ([], [], 1.0),
    ],
)
def test_prefix_agreement_is_the_common_beginning_over_the_longer_answer(one, other, share):
    assert prefix_agreement(one, other) == prefix_agreement(other, one) == share


@pytest.mark.parametrize(
    ("tokens", "share"), [(range(10), 1.0), ([5] * 11, 1 / 8), ([1, 2] * 6, 2 / 9), ([1, 2], 1.0), ([], 1.0)]
)
def test_diversity_is_one_in_prose_and_small_in_a_loop(tokens, share):
    assert diversity(list(tokens)) == pytest.approx(share)


def test_equal_answers_are_lossless():
    served = Served()
    got = check([served.answers()] * 2, [served.answers()] * 2)
    assert (got.verdict, got.agreement.value, got.exact, got.reference_exact) == ("lossless", 1.0, 1.0, 1.0)
    assert got.why == (
        "answers share 100% [100%, 100%] of their length with the baseline's, which share 100% [100%, 100%] "
        "with each other (p = 1)"
    )


def test_low_bits_that_split_as_the_baselines_own_under_load_are_lossless():
    served = Served(prompts=100)
    baseline = [served.answers(200), served.answers(200)]
    got = check([served.answers(200), served.answers(200)], baseline, concurrency=100)
    assert got.verdict == "lossless" and got.chance > 0.01
    assert 0.3 < got.agreement.value < 0.6 and got.exact < 0.3
    assert got.agreement.lo < got.agreement.value < got.agreement.hi


def test_baseline_alone_on_the_gpu_repeats_itself_and_is_judged_by_its_loaded_self():
    served = Served()
    alone = [served.answers()] * 2
    config = [served.answers(200)] * 2
    judged = check(config, alone, [served.answers(200), served.answers(200)])
    assert judged.verdict == "lossless" and "with its own at another load" in judged.why
    # Without it, nothing excuses the splits.
    assert check(config, alone).verdict == "lossy"


def test_answers_are_compared_over_the_length_that_all_of_them_have():
    """At another load a prompt has an answer of another length; its end says nothing."""
    model = Served()
    short = {name: tokens[: LENGTH // 2] for name, tokens in model.answers().items()}
    found = check([model.answers(), model.answers()], [model.answers(), model.answers()], [short])
    assert (found.verdict, found.agreement.value, found.reference.value) == ("lossless", 1.0, 1.0)
    half = check([short], [model.answers(), model.answers()])
    assert (half.agreement.value, half.exact) == (1.0, 1.0)


def test_answers_that_split_much_sooner_are_lossy_with_numbers():
    served = Served(prompts=60)
    got = check([served.answers(60), served.answers(60)], [served.answers(400), served.answers(400)], concurrency=100)
    assert got.verdict == "lossy" and got.chance < 0.01 and got.prompts == 60
    assert got.reference.value - got.agreement.value > 0.1
    assert got.agreement.hi < got.reference.lo


def test_answers_that_split_a_little_sooner_are_within_the_tolerance():
    served = Served(prompts=400)
    got = check([served.answers(330), served.answers(330)], [served.answers(400), served.answers(400)])
    assert got.verdict == "lossless"
    assert 0 < got.reference.value - got.agreement.value < 0.1


def test_false_alarms_are_as_rare_as_the_level_says():
    alarms = 0
    for seed in range(60):
        served = Served(prompts=12, seed=seed)
        one = [served.answers(100) for _ in range(4)]
        alarms += check(one[:2], one[2:]).verdict != "lossless"
    assert alarms <= 2


@pytest.mark.parametrize("tokens", [LOOP, [0] * LENGTH])
def test_loops_where_the_baseline_talks_are_garbage(tokens):
    served = Served()
    got = check([served.same(tokens)], [served.answers(), served.answers()])
    assert got.verdict == "garbage" and got.why.startswith("answers loop: ")


@pytest.mark.parametrize("share", [3, 5])
@pytest.mark.parametrize("kind", ["loop", "other text", "after the first right tokens"])
def test_garbage_in_a_part_of_the_answers_is_garbage(share, kind):
    served = Served(prompts=60)
    good = served.answers(400)
    bad = {
        "loop": lambda tokens: LOOP,
        "other text": lambda tokens: [60_001 + n for n in range(LENGTH)],
        "after the first right tokens": lambda tokens: [*tokens[:4], *[60_001 + n for n in range(LENGTH - 4)]],
    }[kind]
    told = {name: bad(tokens) if place % share == 0 else tokens for place, (name, tokens) in enumerate(good.items())}
    got = check([told, told], [served.answers(400), served.answers(400)], concurrency=100)
    assert got.verdict == "garbage" and " of 60 answers " in got.why


def test_honest_splits_are_never_garbage():
    for seed in range(40):
        served = Served(prompts=16, seed=seed)
        got = check([served.answers(60)] * 2, [served.answers(100), served.answers(100)], concurrency=100)
        assert got.verdict != "garbage", got.why


def test_loops_that_the_baseline_has_too_are_lossless():
    served = Served()
    assert check([served.same(LOOP)] * 2, [served.same(LOOP)] * 2).verdict == "lossless"


def test_fluent_answers_to_something_else_are_garbage():
    served, other = Served(), Served(seed=1)
    got = check([other.answers()] * 2, [served.answers(400), served.answers(400)])
    assert got.verdict == "garbage" and got.agreement.value == 0


@pytest.mark.parametrize(
    ("config", "baseline", "why"),
    [
        ([], ["answers"], "the launch holds no tokens of its answers"),
        (["none"], ["answers"], "the launch holds no tokens of its answers"),
        (["answers"], [], "there are no answers of a baseline at this load to compare with"),
        (["answers"], ["answers"], "the baseline has one repeat here, so nothing shows how well it agrees with itself"),
        (["few"], ["few", "few"], "at least 8 prompts must be shared with the baseline, but 7 are"),
    ],
)
def test_what_cannot_be_compared_is_not_judged(config, baseline, why):
    served = Served()
    known = {"answers": served.answers(), "few": dict(list(served.answers().items())[:7]), "none": {}}
    got = check([known[name] for name in config], [known[name] for name in baseline])
    assert (got.verdict, got.why) == ("not judged", why)


def test_baseline_that_never_says_the_same_twice_judges_nobody():
    served = Served(prompts=50)
    got = check([served.answers(10)] * 2, [served.answers(10), served.answers(10)], concurrency=100)
    assert got.verdict == "not judged" and got.why.startswith("the baseline itself is unstable: its answers share ")


def test_answers_survive_the_disk(tmp_path):
    path = tmp_path / "launch" / "outputs-c1.jsonl"
    first = phase([(1, 2), (3, 4), (9, 9)], ["a", "b", "a"])
    write_answers(path, first)
    write_answers(path, phase([(5, 6), (3, 4)], ["a", "b"], repeat=2))
    write_answers(path, phase([(1,)], ["a"], repeat=0))  # a probe
    assert read_answers(path) == [{"a": (1, 2), "b": (3, 4)}, {"a": (5, 6), "b": (3, 4)}]
    assert answers_of(first) == {"a": (1, 2), "b": (3, 4)}


def test_damaged_or_missing_answers_are_none(tmp_path):
    assert read_answers(tmp_path / "none.jsonl") == []
    (tmp_path / "cut.jsonl").write_text('{"repeat": 1, "prompt_id": "a", "tok')
    assert read_answers(tmp_path / "cut.jsonl") == []
    assert answers_of(phase([(1, 2)], ())) == {}


def test_worst_verdict_decides():
    checks = [OutputCheck(1, verdict, "") for verdict in ("lossless", "not judged", "lossy", "garbage")]
    assert [worst(checks[:n]).verdict for n in (1, 2, 3, 4)] == ["lossless", "not judged", "lossy", "garbage"]
    assert worst([]) is None
