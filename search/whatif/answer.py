"""The answer to "what if we ran this config?", as values; config ids are text, so that JSON is `asdict`."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, Literal, TypeAlias

BasisKind: TypeAlias = Literal["launches", "recording", "prior"]
Worth: TypeAlias = Literal["measured", "launch", "long shot", "no", "open", "locked", "impossible"]
"""`open` cannot be judged: no baseline is measured yet."""


@dataclass(frozen=True, slots=True)
class Refusal:
    """A rule that refuses a config here.

    Attributes:
        words: The server's own where it raises.
        source: Release and file, or upstream issue.
        unlock: What would lift it; empty when nothing can.
    """

    rule_id: str
    words: str
    source: str
    unlock: str


@dataclass(frozen=True, slots=True)
class TokenShare:
    """Tokens per verify pass beside those of a config that the study knows."""

    config_id: str
    tokens: int
    ratio: float


@dataclass(frozen=True, slots=True)
class Legality:
    """Whether one config may run on the study's deployment.

    Attributes:
        refusals: Empty where it may.
        through: Patches of the study without which a rule would refuse it, as `name (lifts rule)`.
        releases: Known releases on which this deployment could run it.
        outside: Choices of the study it lies outside of, one sentence each; it may be tried all the same.
        rewritten_from: What was asked, where the server makes another config of it; else empty.
        verify_tokens: Tokens per request in each pass of the target.
        tree: How many nodes the draft can propose, written out; empty without a tree.
        shares: Against known configs, the largest first.
        command: The whole command line, one word each and quoted for a shell, files that it writes and
            `NAME=VALUE` words of the environment first;
            for a locked config what a patched server would be sent; empty where it has no spelling.
    """

    refusals: tuple[Refusal, ...]
    through: tuple[str, ...]
    releases: tuple[str, ...]
    outside: tuple[str, ...]
    rewritten_from: str
    verify_tokens: int
    tree: str
    shares: tuple[TokenShare, ...]
    command: tuple[str, ...]

    @property
    def legal(self) -> bool:
        """Whether nothing refuses it."""
        return not self.refusals

    @property
    def locked(self) -> bool:
        """Refused, but by nothing that could not be lifted."""
        return bool(self.refusals) and all(refusal.unlock for refusal in self.refusals)


@dataclass(frozen=True, slots=True)
class Cost:
    """What one launch takes.

    Attributes:
        boot_s: Start and stop of the server.
        phases_s: All phases and repeats with their warm-up, at the expected rates.
        gpus: Held meanwhile.
        source: Where `boot_s` comes from, for people.
        memory: In which direction it goes, against what started or ran out of it.
    """

    boot_s: float
    phases_s: float
    gpus: int
    source: str
    memory: str

    @property
    def gpu_hours(self) -> float:
        """GPU time of the launch."""
        return (self.boot_s + self.phases_s) * self.gpus / 3600.0


@dataclass(frozen=True, slots=True)
class AtLoad:
    """One config at one concurrency, in output tokens per second.

    Attributes:
        low: 5% lie below.
        expected: Half lie below.
        high: 5% lie above.
        measured: Whether this config was measured at this load.
        best: The fastest config measured at it; empty where none was.
        best_tps: Its rate; None where none was.
        beats: Chance to be faster than it.
        model_tps: What the study's cost model says, for comparison: of a config that a simulated study extrapolates
            to, what its report prints.
        model_band: Ends of the fit's own 90% band, as in that report; None where the cost model was fitted to nothing.
    """

    concurrency: int
    low: float
    expected: float
    high: float
    measured: bool
    best: str
    best_tps: float | None
    beats: float | None
    model_tps: float
    model_band: tuple[float, float] | None = None


@dataclass(frozen=True, slots=True)
class Expectation:
    """What one config would measure, and what that would be worth.

    Attributes:
        starts: Chance that its server starts.
        enters_front: Chance to start and be dominated by no measured config.
        gain: Expected growth of the front's hypervolume, as a share of it.
        nearest: Measured configs most like it.
        gaps: What was not measured of it, one phrase each; empty for a measured config.
    """

    loads: tuple[AtLoad, ...]
    starts: float
    enters_front: float
    gain: float
    nearest: tuple[str, ...]
    gaps: tuple[str, ...]

    def at(self, concurrency: int) -> AtLoad:
        """The forecast at one of the study's loads."""
        return next(load for load in self.loads if load.concurrency == concurrency)


@dataclass(frozen=True, slots=True)
class Threshold:
    """From which rate of a legal twin on a locked config has even odds to be the fastest at a load.

    Attributes:
        twin_tps: None where no believable rate of the twin gives even odds.
        chance: That the twin measures so much.
    """

    concurrency: int
    best: str
    best_tps: float
    twin_tps: float | None
    chance: float


@dataclass(frozen=True, slots=True)
class Unlocking:
    """What the legal twin of a locked config (same tree, other worker) would say about it."""

    twin: str
    thresholds: tuple[Threshold, ...]


@dataclass(frozen=True, slots=True)
class Variant:
    """One reading of the question: the config, and everything about it.

    Attributes:
        unlocking: Of a locked config with a legal twin.
        worth: The verdict in a word.
        verdict: And in a sentence.
    """

    config_id: str
    legality: Legality
    cost: Cost
    expectation: Expectation
    unlocking: Unlocking | None
    worth: Worth
    verdict: str


@dataclass(frozen=True, slots=True)
class Separation:
    """Effects that the measurements leave confounded, and the launch that would separate them.

    Attributes:
        words: In a sentence.
        gain: Expected growth of the front by that launch.
    """

    words: str
    launch: str
    gain: float


@dataclass(frozen=True, slots=True)
class Test:
    """How to find out.

    Attributes:
        commands: The launches of the legal variants not measured yet.
        questions: Of the study file that name one of the configs, as `name: config against …`.
        suggested: A question to put into the study file, where there is none.
        next_launch: Of all untried configs the one with most expected growth per GPU hour by the same
            belief, before anything is measured the baseline; empty when nothing is left.
        next_gain: Its expected growth of the front.
    """

    commands: tuple[str, ...]
    questions: tuple[str, ...]
    suggested: str
    next_launch: str
    next_gain: float


@dataclass(frozen=True, slots=True)
class WhatIf:
    """The whole answer.

    Attributes:
        taken: Knobs that were not said and where their values come from, one sentence each.
        basis: Kind of the evidence.
        rests_on: The evidence in sentences, caveats included.
        objectives: Concurrencies of the objectives.
        noise_gain: Growth of the front that noise alone would show.
        decision: The verdict in one sentence.
    """

    study: str
    release: str
    asked: str
    taken: tuple[str, ...]
    basis: BasisKind
    rests_on: tuple[str, ...]
    objectives: tuple[int, ...]
    variants: tuple[Variant, ...]
    noise_gain: float
    separations: tuple[Separation, ...]
    test: Test
    decision: str

    def to_json(self) -> dict[str, Any]:
        """The answer as JSON values, the derived ones included."""
        found = asdict(self)
        for variant, part in zip(self.variants, found["variants"], strict=True):
            part["legality"] |= {"legal": variant.legality.legal, "locked": variant.legality.locked}
            part["cost"]["gpu_hours"] = variant.cost.gpu_hours
        return found
