"""`search ab`: two shapes in turn inside one server."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from search.app.options import DEFAULT_REPORTS, DEFAULT_STORAGE, RunOptions
from search.cli.guard import command, interrupts, say
from search.cli.options import (
    DebugOption,
    DraftOption,
    ExecutorOption,
    JsonOption,
    ModelOption,
    QuietOption,
    RayAddressOption,
    ReportsOption,
    SeedOption,
    SimulateOption,
    StorageOption,
    StudyOption,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from search.app.ab import Alternation
    from search.storage.records import LaunchRecord


@command
def ab(
    ctx: typer.Context,
    first: Annotated[str, typer.Argument(metavar="CONFIG_A", help='Such as "topk=2 num_steps=2", or a config id.')],
    second: Annotated[str, typer.Argument(metavar="CONFIG_B", help="Of another shape.")],
    study: StudyOption = None,
    rounds: Annotated[int, typer.Option("--rounds", metavar="N", help="Even, 4 to 12; each measures both.")] = 10,
    simulate: SimulateOption = False,
    storage: StorageOption = DEFAULT_STORAGE,
    reports: ReportsOption = DEFAULT_REPORTS,
    seed: SeedOption = None,
    executor: ExecutorOption = None,
    ray_address: RayAddressOption = None,
    model: ModelOption = None,
    draft: DraftOption = None,
    as_json: JsonOption = False,
    quiet: QuietOption = False,
    debug: DebugOption = False,  # noqa: ARG001
) -> None:
    """Measure two shapes in turn inside one server: their difference, and the smallest one that so many rounds show."""
    import json

    from search.app.ab import alternate, as_result

    options = RunOptions(
        here=Path.cwd(),
        study=study,
        simulate=simulate,
        storage=storage,
        reports=reports,
        seed=seed,
        executor=executor,
        ray_address=ray_address,
        model=model,
        draft=draft,
    )

    def heard(record: LaunchRecord) -> None:
        if not quiet:
            say(f"[{record.place + 1}/{2 * rounds}] {record.asked}", err=as_json)

    found = alternate(options, (first, second), rounds=rounds, heard=heard, interrupts=interrupts(ctx))
    for line in [json.dumps(as_result(found), indent=1)] if as_json else _lines(found):
        say(line)


def _lines(found: Alternation) -> Iterator[str]:
    yield f"a = {found.a}, b = {found.b}: {len(found.records) // 2} rounds in one start, in the order a b b a"
    for one in found.contrasts:
        comparison = one.comparison
        a, b = (sum(values) / len(values) for values in (one.a, one.b))
        verdict = "differs" if not comparison.lo <= 1 <= comparison.hi else "no difference shown"
        yield (
            f"{one.objective.name}: a {a:.4g}, b {b:.4g}; b / a {comparison.ratio - 1:+.2%} [{comparison.lo - 1:+.2%}, "
            f"{comparison.hi - 1:+.2%}], {verdict}; so many rounds show differences from {comparison.smallest:.2%} on (4 in 5 times)"
        )
    yield (
        "These intervals hold inside one start. Another start may favour one of the two by what starts differ by: a "
        "recommendation rests on starts of their own (`search run`)."
    )
