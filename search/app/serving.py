"""The command to serve a config with: what was measured, changed as the study file's `serving:` says, each change named."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from search.config import SpecConfig, flag_name
from search.deployment import ArgValue, Deployment
from search.dialects import Dialect
from search.errors import UsageError
from search.masking import is_secret_name
from search.report.content import ServingCommand
from search.server.command import server_command
from search.server.ports import LOOPBACK, PortBlock
from search.spec.served import flag_values
from search.spec.study import StudySpec

_CACHE = "disable-radix-cache"


def serving_command(config: SpecConfig, spec: StudySpec, dialect: Dialect, *, here: bool = True) -> ServingCommand:
    """How to serve a config, secrets masked.

    Args:
        config: Any the release can run.
        spec: Names the interpreter that holds SGLang, or leaves it to the one that runs the study.
        dialect: Of the release.
        here: Whether a study ran servers with this interpreter; a computed or recorded one says nothing of it, and the
            command leaves the choice to the host that it is copied to.

    Raises:
        UnsupportedKnob: The release has no spelling for a knob.
        UsageError: `serving.server_args` holds a flag that the release does not have, or that a knob sets.
    """
    check_serving(spec, dialect)
    serving = spec.serving
    host = ("--host", serving.host) if serving.host else ()
    command = server_command(
        config,
        _deployment(spec, python="" if here else "python3"),
        dialect,
        ports=PortBlock(http=serving.port, nccl=serving.port + 1),
        tag="",
        address=(*host, "--port", str(serving.port)),
    )
    return ServingCommand(command.script().split("\n", 1)[1], tuple(_changes(spec)))


def check_serving(spec: StudySpec, dialect: Dialect) -> None:
    """Hold `serving:` to the release before anything is launched: what cannot be served need not be measured.

    Raises:
        UsageError: It holds a flag that the release does not have, or that a knob or field of the study sets.
    """
    unknown = dialect.unknown_flags(replace(spec.deployment, server_args=flag_values(spec.serving.server_args)))
    if unknown:
        raise UsageError(
            f"`serving`: {'; '.join(line.removesuffix('.') for line in unknown)}. Correct it in the study file."
        )
    try:
        dialect.server_args(_deployment(spec))
    except UsageError as error:
        raise UsageError(f"`serving`: {error}") from error


def _deployment(spec: StudySpec, *, python: str = "") -> Deployment:
    measured, serving = spec.deployment, spec.serving
    args: dict[str, ArgValue] = {flag_name(name): value for name, value in measured.server_args.items()}
    args |= flag_values(serving.server_args)
    args[_CACHE] = not serving.prefix_cache
    return replace(
        measured,
        python=measured.python or python,
        server_args=args,
        env={**measured.env, **serving.env},
        max_running_requests=serving.max_running_requests or measured.max_running_requests,
    )


def _changes(spec: StudySpec) -> Iterator[str]:
    """Each measured setting that serving changes, in words."""
    serving, measured = spec.serving, spec.deployment
    args = {flag_name(name): value for name, value in measured.server_args.items()}
    was_off = args.get(_CACHE, True) is True
    if serving.prefix_cache and was_off:
        yield "prefix cache on; measured off (--disable-radix-cache), so prompts that share a beginning come faster than measured"
    if not serving.prefix_cache and not was_off:
        yield "prefix cache off; measured on"
    if serving.host and serving.host != LOOPBACK:
        yield f"listens on {serving.host}; measured on {LOOPBACK}"
    yield f"port {serving.port}; measured on a fresh port for each start"
    limit = serving.max_running_requests
    if limit is not None and limit != measured.max_running_requests:
        yield f"max-running-requests {limit}; measured with {measured.max_running_requests}"
    for name, value in flag_values(serving.server_args).items():
        if args.get(name) == value:
            continue
        if is_secret_name(name):
            yield f"{name}; read from a variable when the script runs"
        else:
            before = f"measured with {_said(args[name])}" if name in args else "measured without it"
            yield f"{name} {'off' if value is False else _said(value)}; {before}"
    for name in serving.env:
        if serving.env[name] != measured.env.get(name):
            yield f"variable {name}; measured {'with another value' if name in measured.env else 'without it'}"


def _said(value: ArgValue) -> str:
    if value is True:
        return "on"
    return " ".join(map(str, value)) if isinstance(value, tuple) else str(value)
