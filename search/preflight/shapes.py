"""Whether the plugin that switches shapes finds what it needs in the installed SGLang."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from search.config import SpecConfig, SpecVersion
from search.preflight.findings import Finding, fine, warning
from search.server.shape_support import Support, plugin_folder, shapes_support
from search.spec.study import StudySpec

_LIMIT_S = 300.0
"""For the import of SGLang's modules from a cold disk."""
_CHECK = "shared starts"
_CHAIN = SpecConfig(SpecVersion.V2, 1, 2, 3)

_PROBE = """
import json, os
out = os.fdopen(os.dup(1), "w")
os.dup2(2, 1)
from search_shapes import internals
release = internals.installed_release()
row = internals.profile(release) is not None
lacks = internals.missing(release) if row else []
out.write(json.dumps({"release": release, "row": row, "lacks": lacks, "asked": len(internals.wanted(release)) if row else 0}))
out.flush()
os._exit(0)
"""
"""Runs in the engine's own interpreter. What it imports may print: stdout is kept for the answer."""


@dataclass(frozen=True, slots=True)
class PluginWord:
    """What the plugin says of the installed SGLang.

    Attributes:
        asked: Internals that it needs on this release.
        lacks: Those that are not there, in words.
        trouble: Why it could not be asked, in words; empty when it was.
    """

    asked: int = 0
    lacks: tuple[str, ...] = ()
    trouble: str = ""


def support_of(spec: StudySpec) -> Support:
    """Whether starts of a study can switch between shapes, as far as its file tells."""
    return shapes_support(spec.engine.release, spec.deployment, _CHAIN)


def ask_plugin(python: str, env: Mapping[str, str], *, timeout_s: float = _LIMIT_S) -> PluginWord:
    """Let the plugin look at the SGLang of an interpreter; nothing is launched.

    Args:
        python: The engine's interpreter; empty for our own.
        env: The environment of a launch.
        timeout_s: For all of it.
    """
    python = python or sys.executable
    path = ":".join(part for part in (str(plugin_folder()), env.get("PYTHONPATH", "")) if part)
    with tempfile.TemporaryFile("w+", encoding="utf-8", errors="replace") as stderr:
        try:
            helper = subprocess.Popen(
                [python, "-c", _PROBE],
                env={**env, "PYTHONPATH": path},
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=stderr,
                start_new_session=True,
            )
        except OSError as error:
            return PluginWord(trouble=f"{python} could not be started: {error}")
        with helper:
            try:
                out, _ = helper.communicate(timeout=timeout_s)
                answer = json.loads(out)
            except subprocess.TimeoutExpired:
                return PluginWord(trouble=f"{python} did not answer within {timeout_s:g} s")
            except ValueError:
                stderr.seek(0)
                said = [line.strip() for line in stderr if line.strip()]
                return PluginWord(trouble=f"{python} gave no answer ({said[-1][:200] if said else 'without a word'})")
            finally:
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    os.killpg(helper.pid, signal.SIGKILL)
    if not answer["row"]:
        return PluginWord(trouble=f"SGLang {answer['release']} has no row in the plugin's table")
    return PluginWord(int(answer["asked"]), tuple(map(str, answer["lacks"])))


def check_shared_starts(spec: StudySpec, word: PluginWord | None) -> Iterator[Finding]:
    """What becomes of shared starts on this machine.

    Args:
        spec: The study.
        word: The plugin's; None where there is no SGLang to look at.
    """
    if spec.engine.shared_starts == "off":
        return
    support = support_of(spec)
    if not support.ok:
        yield fine(_CHECK, f"none, each config has a start of its own: {support.reason.rstrip('.')}")
        return
    if not support.proven and spec.engine.shared_starts == "auto":
        yield fine(_CHECK, f"none, each config has a start of its own. {support.reason.rstrip('.')}")
        return
    if word is None:
        return
    if word.trouble:
        yield warning(
            _CHECK, f"the plugin could not be asked: {word.trouble}", "each config may have a start of its own"
        )
    elif word.lacks:
        more = f" and {len(word.lacks) - 3} more" if len(word.lacks) > 3 else ""
        says = f"this SGLang lacks {'; '.join(word.lacks[:3])}{more}"
        yield warning(_CHECK, says, "each config will have a start of its own; a release in `docs/shapes.md` can share")
    else:
        proven = "" if support.proven else f"; {support.reason.rstrip('.')}"
        yield fine(_CHECK, f"the plugin finds all {word.asked} internals that it needs{proven}")
