"""Checks of the plan: the release, the installed SGLang's own word, graphs, running limit."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from search.config import flag_name
from search.dialects import Dialect, is_newer, known_releases
from search.host.environment import UNKNOWN
from search.preflight.findings import Finding, error, fine, warning
from search.preflight.installed_report import ArgumentReport
from search.preflight.requirements import release_missing
from search.spec.study import StudySpec


def check_release(
    spec: StudySpec, dialect: Dialect, *, installed: str | None, default_python: str, environment: Mapping[str, str]
) -> Iterator[Finding]:
    """The release of the study against what is installed and what is known of it.

    Args:
        spec: The study.
        dialect: Of its release, or the nearest known one.
        installed: The installed release; None where SGLang cannot be found.
        default_python: The interpreter without `engine.python`.
        environment: Of the launch.
    """
    missing = tuple(release_missing(spec, installed, default_python))
    for line in missing:
        says, _, way = line.removeprefix("SGLang: ").rstrip(".").partition(". ")
        yield error("SGLang", says, way[:1].lower() + way[1:])
    if not missing:
        packages = [
            f"{name} {environment[name]}"
            for name in ("torch", "cuda", "nccl", "flashinfer", "sgl_kernel")
            if environment.get(name, UNKNOWN) != UNKNOWN
        ]
        yield fine("SGLang", ", ".join([f"{installed} in {spec.engine.python or default_python}", *packages]))
    if is_newer(spec.engine.release):
        says = f"{spec.engine.release} is newer than any that was read; it is spoken to like {known_releases()[-1]}"
        yield warning("dialect", says, "heed the check `arguments` below, which asks the release itself")
    else:
        yield fine("dialect", f"{spec.engine.release} was read, {len(dialect.rules())} rules")
    yield from _cuda(environment)


def _cuda(environment: Mapping[str, str]) -> Iterator[Finding]:
    """A driver runs code built for its own major version of CUDA and older ones."""
    built, runs = environment.get("cuda", UNKNOWN), environment.get("driver_cuda", UNKNOWN)
    if UNKNOWN in (built, runs):
        return
    try:
        older = int(runs.partition(".")[0]) < int(built.partition(".")[0])
    except ValueError:
        return
    if older:
        says = f"torch is built for CUDA {built}, but the driver runs CUDA up to {runs}"
        yield error("CUDA", says, "install a newer driver, or torch for an older CUDA in `engine.python`")
    else:
        yield fine("CUDA", f"torch for {built} on a driver for up to {runs}")


def check_flags(spec: StudySpec, dialect: Dialect, report: ArgumentReport | None) -> Iterator[Finding]:
    """Flags of the study that the stock parser does not know, unless the installed one took them."""
    for line in dialect.unknown_flags(spec.deployment):
        if report is not None and report.resolved:
            yield fine("server flags", f"{line.rstrip('.')}; the installed parser takes it")
        else:
            way = "correct or remove it; a patched tree may know it, which only the check `arguments` can show"
            yield warning("server flags", line.rstrip("."), way)


def check_words(report: ArgumentReport | None) -> Iterator[Finding]:
    """The installed SGLang's own word on every config of the plan."""
    check = "arguments"
    if report is None:
        yield warning(check, "not asked, because there is no SGLang to ask", "install it, or name `engine.python`")
        return
    for line in report.stops:
        says, _, way = line.rstrip(".").rpartition(". ")
        yield error(check, says or way, way if says else "see above")
    for line in report.remarks:
        way = "look at it; the study would start" if report.answered else "the study would start without this check"
        yield warning(check, line.rstrip("."), way)
    if not report.stops and report.answered:
        times = f"{report.import_s:.1f} s to start, {report.each_s:.3f} s each"
        yield fine(
            check, f"the installed SGLang takes {report.answered} of {report.asked} configs as expected ({times})"
        )


def check_loads(spec: StudySpec, report: ArgumentReport | None) -> Iterator[Finding]:
    """Graph sizes and running limit against the concurrencies."""
    highest, limit = spec.loads[-1], spec.engine.max_running_requests
    yield fine("running limit", f"{limit} requests admitted, at most {highest} at once are sent")
    resolved = list(report.resolved.values()) if report else []
    args = {flag_name(name): value for name, value in spec.engine.server_args.items()}
    if args.get("disable-cuda-graph") or any(values.get("disable_cuda_graph") for values in resolved):
        says = "CUDA graphs are off: every decode step pays for its launches"
        yield warning("graphs", says, "remove `disable-cuda-graph`, unless a config cannot be captured")
        return
    largest = _largest_graph(resolved) if resolved else _named_graph(args)
    if largest is None:
        way = f"set `cuda-graph-max-bs` (from 0.5.14 `cuda-graph-max-bs-decode`) to {highest} to be sure"
        yield warning("graphs", f"the release chooses their sizes; {highest} requests at once are sent", way)
    elif largest < highest:
        says = f"captured up to {largest} requests, but {highest} at once are sent: those run without a graph"
        way = f"set `cuda-graph-max-bs` (from 0.5.14 `cuda-graph-max-bs-decode`) to {highest}, memory allowing"
        yield warning("graphs", says, way)
    else:
        yield fine("graphs", f"captured up to {largest} requests, at most {highest} at once are sent")


def _largest_graph(resolved: Sequence[Mapping[str, Any]]) -> int | None:
    """The smallest of the configs' largest ones."""
    sizes = [int(limit) for values in resolved if (limit := values.get("cuda_graph_max_bs")) is not None]
    return min(sizes, default=None)


def _named_graph(args: Mapping[str, Any]) -> int | None:
    for name in ("cuda-graph-max-bs-decode", "cuda-graph-max-bs", "cuda-graph-bs-decode", "cuda-graph-bs"):
        value = args.get(name)
        sizes = value if isinstance(value, list | tuple) else [value]
        whole = [size for size in sizes if isinstance(size, int) and not isinstance(size, bool)]
        if whole:
            return max(whole)
    return None
