"""Answers that no healthy model gives, whatever it was asked: found without a baseline to compare with."""

from __future__ import annotations

from collections.abc import Sequence

from search.contracts import Phase
from search.errors import LoadFailed
from search.load.trace import Trace
from search.outcomes import Evidence, Reason

NAN_TOKEN = 0
"""What the greatest of many not-a-numbers is: its place in the vocabulary, the first (`torch.argmax`). In the
vocabularies of today that is `!`, `<unk>`, a padding or a first special token, none of which ends an answer."""

FEWEST_TOKENS = 16
"""Length from which a run of that token to an answer's end is no accident."""

_SHARE = 0.05


def is_garbage(trace: Trace) -> bool:
    """Whether an answer ends in a run of `NAN_TOKEN`, or holds a token that no vocabulary has."""
    ids = trace.output_ids
    if any(token < 0 for token in ids):
        return True
    return len(ids) >= FEWEST_TOKENS and not any(token != NAN_TOKEN for token in ids[-FEWEST_TOKENS:])


def refuse_garbage(traces: Sequence[Trace], phase: Phase) -> None:
    """Refuse a phase in which over a twentieth of the answers are garbage; right beginnings do not save them.

    Loops of other tokens are not judged here: after its end a greedy model may repeat itself for
    good reason, and only the baseline's answers show which. Servers that report no tokens are not judged either.

    Raises:
        LoadFailed: BAD_OUTPUT, with the number of answers and an example.
    """
    bad = [trace for trace in traces if is_garbage(trace)]
    if len(bad) > _SHARE * len(traces):
        ids = bad[0].output_ids
        start = next((place for place in range(len(ids)) if not any(ids[place:])), len(ids))
        line = (
            f"{len(bad)} of {len(traces)} answers are garbage: that to {bad[0].prompt_id} holds nothing but token "
            f"{NAN_TOKEN} from place {start} of {len(ids)} on, or tokens that no vocabulary has"
        )
        raise LoadFailed(Reason.BAD_OUTPUT, Evidence(line, f"c={phase.concurrency}"))
