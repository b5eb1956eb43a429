"""One helper process in the engine's interpreter that resolves arguments as the installed SGLang does."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib.resources import files
from typing import IO, Any

IMPORT_S = 300.0
"""Time for the import: seconds from a warm disk, minutes from a cold one over a network."""
EACH_S = 2.0
"""Time for one argument set on top; measured are hundredths of a second, and 1 to 3 s for the first."""


@dataclass(frozen=True, slots=True)
class ArgumentRequest:
    """One command line to ask about.

    Attributes:
        argv: What stands after `-m sglang.launch_server`.
        env: Variables set for it; None unsets an inherited one.
    """

    argv: tuple[str, ...]
    env: Mapping[str, str | None] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ServerWord:
    """What the installed release says of one command line.

    Attributes:
        refusal: First line of its words; empty when it accepts.
        resolved: Values under SGLang's own names, those that are null left out; empty when refused.
    """

    refusal: str = ""
    resolved: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ServerWords:
    """What the helper process answered.

    Attributes:
        words: In the order of the requests; fewer where it ended early.
        trouble: Why it did not answer all, in a sentence; empty when it did.
        unusable: SGLang cannot even be imported there: no launch could start either.
        import_s: Seconds until it was ready.
        each_s: Mean seconds of one answer, the first one left out where there are more.
    """

    words: tuple[ServerWord, ...] = ()
    trouble: str = ""
    unusable: bool = False
    import_s: float = 0.0
    each_s: float = 0.0


def ask_installed(
    requests: Sequence[ArgumentRequest], *, python: str, env: Mapping[str, str], timeout_s: float | None = None
) -> ServerWords:
    """Pass command lines through the installed release's own parser and resolution.

    Takes about 5 s to start and hundredths of a second each. Nothing is launched and no weights are
    read; the GPUs are asked for their kind and memory, for which torch may hold a CUDA context on the
    first of them as long as this takes. A launcher's prefix (`numactl …`) is left out.

    Args:
        requests: What to ask.
        python: The engine's interpreter; empty for our own.
        env: The full environment, without what a request sets.
        timeout_s: For all of it; None for `IMPORT_S` and `EACH_S` a request.
    """
    python = python or sys.executable
    limit = IMPORT_S + EACH_S * len(requests) if timeout_s is None else timeout_s
    code = files("search.preflight").joinpath("_installed_probe.py").read_text(encoding="utf-8")
    code = code.encode(
        "ascii", "backslashreplace"
    ).decode()  # a word of the command line, whatever the locale's encoding
    asked = "".join(json.dumps({"argv": list(one.argv), "env": dict(one.env)}) + "\n" for one in requests)
    # A file, not a pipe, for what it prints: a child of a killed helper could hold a pipe open.
    with tempfile.TemporaryFile("w+", encoding="utf-8", errors="replace") as stderr:
        try:
            helper = subprocess.Popen(
                [python, "-c", code],
                env=_environment(env, requests),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=stderr,
                text=True,
                encoding="utf-8",
                start_new_session=True,
            )
        except OSError as error:
            return ServerWords(trouble=f"{python} could not be started: {error}.", unusable=True)
        try:
            out, _ = helper.communicate(asked, timeout=limit)
            late = False
        except subprocess.TimeoutExpired:
            late = True
        finally:
            _end(helper)
        if late:
            out, _ = helper.communicate()
        return _read(out, requests, python=python, late=limit if late else None, rc=helper.returncode, stderr=stderr)


def _environment(env: Mapping[str, str], requests: Sequence[ArgumentRequest]) -> dict[str, str]:
    """With what all requests set alike: some of it counts at import only (visible GPUs, an offline hub)."""
    first, *rest = requests or [ArgumentRequest(())]
    shared = {name: value for name, value in first.env.items() if all(one.env.get(name, "") == value for one in rest)}
    return {name: value for name, value in {**env, **shared}.items() if value is not None}


def _end(helper: subprocess.Popen[str]) -> None:
    """Kill its whole session, which holds nothing but what it started."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(helper.pid, signal.SIGKILL)


def _read(
    out: str,
    requests: Sequence[ArgumentRequest],
    *,
    python: str,
    late: float | None,
    rc: int | None,
    stderr: IO[str],
) -> ServerWords:
    lines = [line for line in map(whole_object, out.splitlines()) if line is not None]
    if not lines or "state" not in lines[0]:
        return ServerWords(trouble=f"{python} {_ending(late, rc)} before SGLang was imported{_last(stderr)}.")
    state, answers = lines[0], lines[1:]
    match state["state"]:
        case "unimportable":
            said = f"SGLang cannot be imported by {python}: {state['words']}. No server could start there."
            return ServerWords(trouble=said, unusable=True)
        case "moved":
            said = f"this SGLang keeps its argument checks elsewhere than the releases known here: {state['words']}."
            return ServerWords(trouble=said)
        case "no-gpu":
            said = "torch sees no GPU in this environment, and SGLang resolves its arguments otherwise without one."
            return ServerWords(trouble=said, import_s=float(state["import_s"]))
    words = tuple(
        ServerWord(resolved=line["resolved"]) if line["accepted"] else ServerWord(refusal=line["refusal"])
        for line in answers
    )
    trouble = ""
    if len(words) < len(requests):
        trouble = (
            f"{python} {_ending(late, rc)} after {len(words)} of {len(requests)} argument sets; "
            f"the next one was `{' '.join(requests[len(words)].argv)}`{_last(stderr)}."
        )
    seconds = [float(line["seconds"]) for line in answers]
    later = seconds[1:] or seconds
    mean = sum(later) / len(later) if later else 0.0
    return ServerWords(words, trouble, import_s=float(state["import_s"]), each_s=mean)


def whole_object(line: str) -> dict[str, Any] | None:
    """A whole JSON object; None for the torn last line of a process that was killed."""
    try:
        found = json.loads(line)
    except ValueError:
        return None
    return found if isinstance(found, dict) else None


def _ending(late: float | None, rc: int | None) -> str:
    if late is not None:
        return f"did not finish within {late:g} s"
    return f"was ended by signal {-rc}" if rc is not None and rc < 0 else f"ended with status {rc}"


def _last(stderr: IO[str]) -> str:
    stderr.seek(0)
    said = [line.strip() for line in stderr if line.strip()]
    return f" (its last words: {said[-1][:200]})" if said else ""
