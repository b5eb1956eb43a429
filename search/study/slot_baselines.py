"""Whether the slots of a study are alike, told by the baseline that each has measured."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from search.load import separable
from search.storage import LaunchRecord
from search.study.judgement import ConfigResult
from search.study.results import config_results, is_baseline_to_compare
from search.study.spec import StudySpec
from search.study.winners import TIE


def slot_sentences(spec: StudySpec, launches: Sequence[LaunchRecord]) -> list[str]:
    """One sentence for each slot whose baseline differs from the first slot's beyond doubt."""
    by_slot: dict[int, list[LaunchRecord]] = {}
    for launch in launches:
        if is_baseline_to_compare(launch):
            by_slot.setdefault(launch.slot, []).append(launch)
    if len(by_slot) < 2:
        return []
    results = {slot: config_results(spec, mine) for slot, mine in sorted(by_slot.items())}
    first, *others = results
    return [sentence for slot in others for sentence in _sentences(first, results[first], slot, results[slot])]


def _sentences(first: int, ours: Sequence[ConfigResult], slot: int, theirs: Sequence[ConfigResult]) -> Iterator[str]:
    """Only configs that both have measured are compared, at each load that both have."""
    for other in theirs:
        one = next((result for result in ours if result.config == other.config), None)
        if one is None:
            continue
        parts = []
        for load in sorted(one.loads.keys() & other.loads.keys()):
            here, there = one.loads[load].rate, other.loads[load].rate
            gain = there.value / here.value - 1
            # A ratio within a percent is no news, however small the doubt. Unknown doubt: the percent decides.
            if separable(here, there) is not False and abs(gain) > TIE:
                parts.append(f"{gain:+.1%} at C={load}")
        if parts:
            yield (
                f"Slot {slot} is not like slot {first}: its baseline {other.config} measures {', '.join(parts)}. "
                "Configs measured on different slots differ by as much for no reason of their own."
            )
