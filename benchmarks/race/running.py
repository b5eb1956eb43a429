"""Many races, spread over processes; the order of the scores is that of the tasks, whoever ran them."""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import nullcontext
from dataclasses import dataclass
from random import Random
from typing import TypeVar

from benchmarks.processes import one_thread_each
from benchmarks.race.contest import run_course
from benchmarks.race.rivals import make_entrant, parse_entry
from benchmarks.race.scoring import Score, score
from benchmarks.race.sources import Source, load_table

Asked = TypeVar("Asked")
Done = TypeVar("Done")


@dataclass(frozen=True, slots=True)
class Task:
    """One race."""

    source: Source
    entry: str
    seed: int
    budget: int


def tasks(sources: Sequence[Source], entries: Sequence[str], *, seeds: int, budget: int) -> list[Task]:
    """Every entry on every table with every seed; one seed for entries that draw nothing."""
    return [
        Task(source, entry, seed, budget)
        for source in sources
        for entry in entries
        for seed in range(seeds if parse_entry(entry)[0].seeded else 1)
    ]


def sampler_seed(table: str, seed: int) -> int:
    """A seed of each table's own: one seed's lucky first draws must not count once for every table."""
    return Random(f"{table}/{seed}").getrandbits(31)


def run_task(task: Task) -> Score:
    """Race once and judge it; an error says which race it ended."""
    table = load_table(task.source)
    try:
        entrant = make_entrant(task.entry, table, seed=sampler_seed(table.name, task.seed))
        rival, _ = parse_entry(task.entry)
        course = run_course(table, entrant, budget=task.budget, seed=task.seed, knows_known=rival.knows_known)
        return score(table, course, entry=task.entry, seed=task.seed, budget=task.budget)
    except Exception as error:
        error.add_note(f"in the race of {task.entry} on {table.name} with seed {task.seed}")
        raise


def run_tasks(todo: Sequence[Task], *, jobs: int, tell: Callable[[int, Score], None]) -> list[Score]:
    """All scores, in the order of the tasks.

    Args:
        todo: What to race.
        jobs: Processes; 1 races in this one.
        tell: Called with the number of races done and the last score.
    """
    scores: list[Score] = []
    with one_thread_each():
        for done in spread(run_task, todo, jobs=jobs):
            scores.append(done)
            tell(len(scores), done)
    return scores


def spread(work: Callable[[Asked], Done], todo: Sequence[Asked], *, jobs: int, chunk: int = 4) -> Iterator[Done]:
    """Results in the order of what is to do; with more than one job by processes of their own."""
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(jobs, mp_context=context) if jobs > 1 else nullcontext() as pool:
        yield from map(work, todo) if pool is None else pool.map(work, todo, chunksize=chunk)
