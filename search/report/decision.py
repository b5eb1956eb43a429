"""The decision: what to do now, in one sentence, from the winners that everything else is made of too."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from textwrap import shorten
from typing import Literal, TypeAlias

from search.analysis.findings import Ahead, Gain, LoadWinner
from search.analysis.words import gain_words, settled_by
from search.config import SpecConfig
from search.outcomes import Outcome
from search.report.basis import basis
from search.report.content import ReportContent
from search.report.text import counted, loads_words, one_line
from search.report.warnings import Choice, warnings

Verdict: TypeAlias = Literal["on", "off", "open", "baselines", "nothing", "rehearsal"]
"""`on`: speculation pays somewhere. `off`: everything measured is slower at every load. `open`: neither is shown.
`baselines`: nothing that speculates is measured. `nothing`: no config is. `rehearsal`: the numbers are invented."""

_SAID_OF_A_FAILURE = 120
"""Characters of a root line in a headline."""

_TWICE = 1.995


@dataclass(frozen=True, slots=True)
class Decision:
    """The first screen in words; backticks mark ids and commands.

    Attributes:
        sentence: What to do, in one sentence.
        choices: What to run, the highest loads first; empty where there is no verdict.
        ahead: What leads where no gain is shown anywhere: for whoever takes the risk.
        basis: How sure, and on what.
        warnings: What may change the decision.
        next: What to do now.
    """

    verdict: Verdict
    sentence: str
    choices: tuple[Choice, ...] = ()
    ahead: SpecConfig | None = None
    basis: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    next: str = ""

    @property
    def lines(self) -> tuple[str, ...]:
        """All of it, without the marks: for terminals, logs and machines."""
        return tuple(plain(line) for line in (self.sentence, *self.warnings, *self.basis, self.next) if line)


def plain(text: str) -> str:
    """Without the marks round ids and commands."""
    return text.replace("`", "")


def decide(content: ReportContent) -> Decision:
    """The decision of a study, from its launches and its judgement alone."""
    made = _decide(content)
    second = () if content.escalation is None else content.escalation.lines
    by_workload = () if content.workloads is None else content.workloads.lines
    rests_on = (
        ()
        if made.verdict in ("nothing", "rehearsal")
        else (*basis(content, made.choices), *content.judgement.traffic, *by_workload, *second)
    )
    return Decision(
        made.verdict,
        made.sentence,
        made.choices,
        made.ahead,
        rests_on,
        () if made.verdict == "rehearsal" else tuple(warnings(content, made.choices)),
        made.next or _next(content, made),
    )


def _decide(content: ReportContent) -> Decision:
    judgement, study = content.judgement, content.spec.study
    if content.is_rehearsal:
        return Decision(
            "rehearsal",
            "No verdict: this was a rehearsal with invented numbers, which are the same for every model and GPU.",
            next=f"`python -m search.run --study {study}` on the GPUs measures it.",
        )
    if not judgement.results:
        return Decision("nothing", f"No verdict: {_how_it_ended(content)}", next=_resume(content))
    winners = [winner for winner in judgement.winners if not winner.only_expected]
    if not winners and judgement.winners:
        return Decision(
            "nothing", "No verdict: all that was computed is extrapolated, beyond what the cost model was fitted to."
        )
    if not winners:
        failed = f" {_how_it_ended(content)}" if judgement.failures else ""
        return Decision("nothing", f"No verdict: no baseline is measured, so nothing can be compared.{failed}")
    compared = [winner for winner in winners if winner.compared]
    if not compared:
        measured = ", ".join(f"C={winner.concurrency}" for winner in winners)
        return Decision(
            "baselines", f"No verdict yet: only baselines are measured, at {measured}, and nothing that speculates."
        )
    paying = [winner for winner in compared if winner.claimed and winner.config.speculates]
    if paying:
        return _on(content, paying, compared)
    baseline = _baseline(content, compared)
    if all(winner.slower for winner in compared):
        where = loads_words([winner.concurrency for winner in compared])
        return Decision(
            "off",
            f"Leave speculation off: at {where} {_everything(content)} is slower than `{baseline.config}`.",
            (baseline,),
        )
    best = _best_ahead(compared)
    return Decision(
        "open",
        f"Leave speculation off for now: no gain is shown{_open_words(content, compared)}.",
        (baseline,),
        None if best is None else best[1].config,
    )


def _on(content: ReportContent, paying: Sequence[LoadWinner], compared: Sequence[LoadWinner]) -> Decision:
    loads, all_loads = [w.concurrency for w in paying], [w.concurrency for w in compared]
    choices = _choices(paying)
    by_load = {winner.concurrency: winner for winner in paying}
    throughput = content.objective_loads[-1]
    several = len(choices) > 1
    where = _where(loads, all_loads)
    parts = [_choice_words(choice, by_load, throughput, alone=not several) for choice in choices]
    if len(loads) == 1 and where:
        parts = [part.removesuffix(f" at {loads[0]}") for part in parts]  # the load is named already
    text = f"Turn speculation on{where}: {'; '.join(parts)}"
    off = [w.concurrency for w in compared if w.slower]
    still = [w.concurrency for w in compared if w.concurrency not in (*loads, *off)]
    if off:
        text += f"; leave it off at {loads_words(off)}, where {_everything(content)} is slower"
    if still:
        text += f"; at {loads_words(still)} no gain is shown"
    return Decision("on", text + ".", choices)


def _choices(paying: Sequence[LoadWinner]) -> tuple[Choice, ...]:
    """One per config; a load whose winner cannot be distinguished from a config that is chosen anyway joins that."""
    chosen: dict[SpecConfig, list[int]] = {}
    for winner in sorted(paying, key=lambda winner: -winner.concurrency):
        same = next((one for one in chosen if one == winner.config or one in winner.same), winner.config)
        chosen.setdefault(same, []).append(winner.concurrency)
    return tuple(Choice(config, tuple(sorted(loads))) for config, loads in chosen.items())


def _choice_words(choice: Choice, winners: dict[int, LoadWinner], throughput: int, *, alone: bool) -> str:
    at = throughput if throughput in choice.loads else max(choice.loads, key=lambda load: winners[load].gain.value)
    gain = winners[at].gain
    words = f"`{choice.config}`, {_gain_words(gain, at)}"
    if choice.loads == (1,):
        return f"for single users {words}"
    return words if alone else f"at {loads_words(choice.loads)} {words}"


def _gain_words(gain: Gain, load: int) -> str:
    much = f"{gain.value:.1f} times" if gain.value >= _TWICE else _percent(gain)
    if load == 1:
        text = f"{much} as fast" if gain.value >= _TWICE else f"{much} faster"
    else:
        what = "the tokens per second" if gain.value >= _TWICE else "more tokens per second"
        text = f"{much} {what} at {load}"
    return text


def _percent(gain: Gain) -> str:
    """Whole percents, as a sentence can bear; the interval stands below it."""
    share = 100 * (gain.value - 1)
    return f"{share:.0f}%" if share >= 2 else f"{share:.1f}%"


def _at(load: int) -> str:
    return "for single users" if load == 1 else f"at {load} concurrent requests"


def _where(loads: Sequence[int], of: Sequence[int]) -> str:
    """At which of the compared loads, as people say it."""
    if list(loads) == list(of):
        return ""
    below = [load for load in of if load < loads[0]]
    if list(loads) == list(of[len(below) :]):
        return f" above {below[-1]} concurrent {'request' if below[-1] == 1 else 'requests'}"
    if list(loads) == [1]:
        return " for single users"
    if list(loads) == list(of[: len(loads)]):
        return f" up to {loads[-1]} concurrent requests"
    return f" at {loads_words(loads)} concurrent requests"


def _everything(content: ReportContent) -> str:
    """All that was compared, as a sentence names it: a simulation compares what its cost model was fitted to alone."""
    return "everything measured" if content.study.kind != "simulated" else "everything the cost model was fitted to"


def _open_words(content: ReportContent, compared: Sequence[LoadWinner]) -> str:
    """Where it is slower for certain, and what is ahead as far as measured."""
    slower = [winner.concurrency for winner in compared if winner.slower]
    where = "for single users" if slower == [1] else f"at {loads_words(slower)}" if slower else ""
    text = f", and {where} {_everything(content)} is slower" if slower else ""
    best = _best_ahead(compared)
    if best is None:
        return text
    load, ahead = best
    return f"{text}; ahead so far is `{ahead.config}`, by {_percent(ahead.gain)} {_at(load)}"


def _best_ahead(compared: Sequence[LoadWinner]) -> tuple[int, Ahead] | None:
    found = [(winner.concurrency, winner.ahead[0]) for winner in compared if winner.ahead]
    return max(found, key=lambda one: one[1].gain.value, default=None)


def _baseline(content: ReportContent, compared: Sequence[LoadWinner]) -> Choice:
    """The baseline to run: the one of the throughput objective's load, or of most loads."""
    last = content.objective_loads[-1]
    most = Counter(winner.baseline for winner in compared).most_common(1)[0][0]
    config = next((winner.baseline for winner in compared if winner.concurrency == last), most)
    return Choice(config, tuple(winner.concurrency for winner in compared))


def _how_it_ended(content: ReportContent) -> str:
    """How the launches ended, where nothing is measured."""
    ended = [launch for launch in content.launches if launch.outcome is not None]
    if not content.launches:
        return "nothing has been launched yet."
    if not ended:
        return f"{counted(len(content.launches), 'launch')} {_was(len(content.launches))} begun, and none has ended."
    reasons = Counter(str(launch.reason or launch.outcome) for launch in ended)
    listed = ", ".join(
        f"{reason} {count} times" if count > 1 else str(reason) for reason, count in reasons.most_common()
    )
    measured = sum(launch.outcome is Outcome.MEASURED for launch in ended)
    none = "" if measured else "nothing was measured. "
    text = f"{none}{counted(len(ended), 'launch')} ended: {listed}."
    last = next((launch for launch in reversed(ended) if launch.evidence is not None), None)
    if last is None or last.evidence is None:
        return text
    log = f" (log: {last.evidence.log_path})" if last.evidence.log_path else ""
    # The whole line stands among the failures: a headline that goes on for six lines is read by nobody.
    said = shorten(one_line(last.evidence.root_line), _SAID_OF_A_FAILURE, placeholder=" …")
    ending = f"{text} The last: {said.rstrip('.')}{log}"
    return ending if ending.endswith("…") else f"{ending}."


def _was(count: int) -> str:
    return "was" if count == 1 else "were"


def _next(content: ReportContent, made: Decision) -> str:
    """What to do now."""
    study = content.spec.study
    speculating = [choice.config for choice in made.choices if choice.config.speculates]
    if made.verdict == "baselines":
        return _resume(content)
    if content.study.kind == "simulated":
        config = next(iter(speculating), None)
        if config is not None:
            return f"Check it with one real launch: `python -m search try --study {study} {config}`.{_beyond(content)}"
        return f"`python -m search.run --study {study}` on the GPUs measures it.{_beyond(content)}"
    if made.verdict == "on":
        return "Start the server with the command below."
    if made.verdict == "off":
        return "Serve without speculation; another draft, release or shape may change this."
    if content.study.kind == "replay":
        return "This recording holds no more: only further starts on its GPUs would tell."
    if made.verdict == "open":
        best = _best_ahead([winner for winner in content.judgement.winners if winner.compared])
        settled = settled_by(best[1].gain) if best else ""
        lead = f"{settled[:1].upper()}{settled[1:]}: " if settled else "Go on with more starts: "
        return f"{lead}`python -m search.run --study {study} --launches {_more(content)}`."
    return _resume(content)


def _beyond(content: ReportContent) -> str:
    """What the cost model expects to be better still, though it was not fitted to it: the launch to make after that."""
    ahead = max(content.judgement.beyond, key=lambda winner: (winner.gain.value, -winner.concurrency), default=None)
    if ahead is None or not ahead.config.speculates:
        return ""
    return (
        f" Then `{ahead.config}`: the cost model was not fitted to it, and expects {gain_words(ahead.gain)} over "
        f"`{ahead.baseline}` at {ahead.concurrency}."
    )


def _resume(content: ReportContent) -> str:
    if content.study.kind == "replay":
        return ""
    simulated = " --simulate" if content.study.kind == "simulated" else ""
    lead = "Go on" if content.launches else "Begin"
    lead = "Mend the cause, then go on" if content.judgement.failures else lead
    return f"{lead}: `python -m search.run --study {content.spec.study}{simulated}`."


def _more(content: ReportContent) -> int:
    """A budget that leaves room for starting the contenders again."""
    return max(content.spec.budget.launches, len(content.launches)) + 8
