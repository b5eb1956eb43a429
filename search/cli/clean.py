"""`search clean`: stops what an earlier crash left on this host."""

from __future__ import annotations

from typing import Annotated

import typer

from search.cli.guard import command, say
from search.cli.options import DebugOption


@command
def clean(
    everything: Annotated[
        bool, typer.Option("--all", help="Also servers of studies that are still running on this host.")
    ] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only list them.")] = False,
    debug: DebugOption = False,  # noqa: ARG001
) -> None:
    """Stop servers that an earlier crash left on this host: only such as this tool started."""
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
