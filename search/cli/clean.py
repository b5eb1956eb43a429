"""`search clean`: stops what an earlier crash left on this host, and masks secrets that earlier versions stored."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from search.app.options import DEFAULT_REPORTS, DEFAULT_STORAGE
from search.cli.guard import command, printable, say
from search.cli.options import DebugOption, ReportsOption, StorageOption, StudyOption
from search.errors import UsageError


@command
def clean(
    everything: Annotated[
        bool, typer.Option("--all", help="Also servers of studies that are still running on this host.")
    ] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only list them.")] = False,
    scrub: Annotated[
        bool,
        typer.Option(
            "--scrub",
            help="Instead, look for secrets that earlier versions stored in the database, reports and recordings.",
        ),
    ] = False,
    write: Annotated[
        bool, typer.Option("--write", help="With --scrub: mask them; without it they are only listed.")
    ] = False,
    study: StudyOption = None,
    storage: StorageOption = DEFAULT_STORAGE,
    reports: ReportsOption = DEFAULT_REPORTS,
    recordings: Annotated[
        Path, typer.Option("--recordings", metavar="DIR", help="With --scrub: where recordings are.")
    ] = Path("recordings"),
    debug: DebugOption = False,  # noqa: ARG001
) -> None:
    """Stop servers that an earlier crash left on this host: only such as this tool started."""
    if write and not scrub:
        raise UsageError("`--write` belongs to `--scrub`. Name both, or leave it out.")
    if scrub:
        _scrub(study, storage, reports, recordings, write=write and not dry_run)
        return
    from search.errors import HostUnfit
    from search.server.lease import free_stale_locks
    from search.server.reaper import find_leftovers, find_orphans, stop_leftovers

    found = find_leftovers() if everything else find_orphans()
    for leftover in found:
        say(f"{'found' if dry_run else 'stopping'} {leftover}")
    running = {leftover.tag for leftover in find_leftovers() if leftover.guarded} - {leftover.tag for leftover in found}
    survivors = () if dry_run else stop_leftovers(found)
    locks = () if dry_run else free_stale_locks()
    if locks:
        say(f"removed {len(locks)} lock {'file' if len(locks) == 1 else 'files'} of GPUs that nobody holds any more")
    if running:
        say(f"not touched: {len(running)} running, {', '.join(sorted(running))} (`--all` stops them too)")
    if survivors:
        raise HostUnfit(
            (
                *(f"survived SIGKILL: {leftover}" for leftover in survivors),
                "A process that SIGKILL cannot end waits inside the kernel or is another user's. "
                "End it as that user, or restart the host.",
            )
        )
    if not found and not locks:
        say("nothing to clean")
    elif found and not dry_run:
        say(f"stopped {len(found)} {'process' if len(found) == 1 else 'processes'}")


def _scrub(study: str | None, storage: str, reports: Path, recordings: Path, *, write: bool) -> None:
    from search.app.scrub import Places, scrub_places
    from search.spec.file import find_study, load_study

    known = [load_study(find_study(study, here=Path.cwd())).model_dump(mode="json")] if study is not None else []
    found = scrub_places(Places(storage, reports, recordings), known=known, write=write)
    for line in found.masked:
        say(printable(f"{'masked' if write else 'holds secrets'}: {line}"))
    for line in found.left:
        say(printable(f"left: {line}"))
    if not found.masked:
        say("no secrets found")
    elif write:
        say("`python -m search report` makes a study's report anew from its database")
    else:
        say("nothing was changed; `--write` masks them")
