"""Finds the first root cause in a server's log.

A log of a death has the cause near its end, echoes after it (`Received sigquit from a child
process`, advice on memory fractions) and harmless complaints before it. So exceptions of tracebacks
are believed before loose lines, those a scheduler died of (`hit an exception`) before others, the
innermost of a chain before its wrappers, and echoes only when there is nothing else.
"""

from __future__ import annotations

import re
import signal
from dataclasses import dataclass, field
from pathlib import Path

from search.dialects import Dialect, Phrase
from search.masking import mask_text
from search.outcomes import Evidence, Reason
from search.server.logscan import LogLine, read_lines
from search.server.phrases import BENIGN, DEATHS, ECHO, GENERIC, OUT_OF_MEMORY, POOLS

SERVING = "serving"

_STAGES = (
    (re.compile(r"^server_args="), "loading"),
    (re.compile(r"^Init torch distributed begin"), "communication set-up"),
    (re.compile(r"^Init torch distributed ends"), "loading"),
    (re.compile(r"^Load weight begin"), "loading weights"),
    (re.compile(r"^Load weight end"), "memory pools"),
    (re.compile(r"^(KV Cache is allocated|Memory pool end)"), "after memory pools"),
    (re.compile(r"^Capture .*graph.* begin"), "graph capture"),
    (re.compile(r"^Capture .*graph.* end"), "after memory pools"),
    (re.compile(r"Uvicorn running|Started server process"), "warm-up"),
    (re.compile(r"fired up and ready to roll"), SERVING),
)
"""Milestones of a boot, in the words of 0.5.9 to 0.5.23. A draft model loads after the target's
pools and graphs, so stages may go back."""

_ROUTINE = re.compile(r'(Decode|Prefill) batch|INFO: +[\d.]+:\d+ - "')
"""What a healthy server prints for every step and request; a night has millions."""

_OOM_BY_STAGE = {
    "graph capture": Reason.OOM_GRAPH,
    "after memory pools": Reason.OOM_GRAPH,
    "warm-up": Reason.OOM_RUNTIME,
    SERVING: Reason.OOM_RUNTIME,
}

_TRACEBACK = "Traceback (most recent call last):"
_LINK = re.compile(r"^(During handling of the above|The above exception was)")
_FATAL = re.compile(r"hit an exception")
_POOL_FILE = re.compile(r'File ".*memory_pool\w*\.py"|, in init_memory_pool\b')
_ARGUMENT_FILE = re.compile(r'File ".*(server_args\.py|arg_groups/\w+\.py)"')
_DRAFT_FILE = re.compile(r'File ".*(eagle|draft|standalone)\w*\.py"', re.IGNORECASE)
_LOADER_FILE = re.compile(r'File ".*(loader|weight_utils|model_runner|models/\w+)\.py"')
_MISFIT = re.compile(r"size mismatch|shapes? .*(mismatch|cannot be multiplied)|must match the size|loaded_weight|vocab")
_RENDEZVOUS = re.compile(
    r"_symmetric_memory|(?:, in |^\s+(?:[\w<>]+\.)*)(?:init_process_group|\w*rendezvous\w*)(?:$| \()"
)
"""A frame as Python (`…, in name`) or py-spy (`    Class.name (file:line)`) writes it."""

_ARGUMENT_ERRORS = re.compile(r"^(ValueError|AssertionError|TypeError|NotImplementedError)\b")


@dataclass(frozen=True, slots=True)
class _Cause:
    """A line that may be the root cause; no reason when no phrase knows it."""

    line: str
    stage: str
    reason: Reason | None = None
    chain: int = 0


@dataclass(slots=True)
class _Chain:
    """One chain of exceptions. The files it goes through are remembered by what they say, not kept."""

    number: int = 0
    fatal: bool = False
    open: bool = False
    linked: bool = False
    in_pools: bool = False
    in_arguments: bool = False
    in_draft: bool = False
    in_loader: bool = False
    frames: set[str] = field(default_factory=set)
    """Frames of phrases that this chain went through. Another traceback's frames say nothing of its cause."""

    def saw(self, line: str) -> None:
        """Take an indented line of a traceback."""
        self.in_pools |= bool(_POOL_FILE.search(line))
        self.in_arguments |= bool(_ARGUMENT_FILE.search(line))
        self.in_draft |= bool(_DRAFT_FILE.search(line))
        self.in_loader |= bool(_LOADER_FILE.search(line))


class _Scan:
    """What is kept of a log while it streams by: the first of each kind of cause."""

    def __init__(self, dialect: Dialect | None) -> None:
        own = dialect.phrases if dialect else ()
        self._own = [(re.compile(phrase.pattern), phrase) for phrase in own]
        self._generic = [(re.compile(phrase.pattern), phrase) for phrase in GENERIC]
        self._pools = [(re.compile(phrase.pattern), phrase) for phrase in POOLS]
        self._frames = {phrase.frame: re.compile(phrase.frame) for phrase in (*own, *POOLS, *GENERIC) if phrase.frame}
        self._seen: set[str] = set()  # frames named in loose lines, of the log as a whole
        self._chain = _Chain()
        self.stage = "arguments"
        self.last_line = ""
        self._forget()

    def _forget(self) -> None:
        self.fatal: _Cause | None = None
        self.fatal_unknown: _Cause | None = None
        self.uncaught: _Cause | None = None
        self.uncaught_unknown: _Cause | None = None
        self.loose: _Cause | None = None
        self.death: _Cause | None = None
        self.echo: _Cause | None = None

    def feed(self, line: LogLine) -> None:
        """Take the next line."""
        text = line.text
        if not text.strip() or (line.stamped and text == self.last_line):
            return
        if _ROUTINE.match(text):
            self.last_line = text
            return
        named = {frame for frame, pattern in self._frames.items() if pattern.search(text)}
        in_traceback = self._chain.open and not line.stamped
        (self._chain.frames if in_traceback and _TRACEBACK not in text else self._seen).update(named)
        if _TRACEBACK in text:
            if not self._chain.linked:
                fatal = bool(_FATAL.search(text) or _FATAL.search(self.last_line))
                self._chain = _Chain(self._chain.number + 1, fatal)
            self._chain.open, self._chain.linked = True, False
        elif in_traceback:
            if text[0].isspace():
                self._chain.saw(text)
            else:
                self._chain.open = False
                self._exception(text)
        else:
            self._chain.linked |= bool(_LINK.match(text))
            self._loose(text)
        self._milestone(text)
        self.last_line = text

    def root(self) -> _Cause | None:
        """The cause to believe: what killed a scheduler, an uncaught exception, a loose line, an echo."""
        fatal = self.fatal
        if fatal and self.fatal_unknown and self.fatal_unknown.chain < fatal.chain:
            fatal = None  # another rank died first, of something no phrase knows
        unknown = self.fatal_unknown
        if unknown and self.loose and self.loose.chain < unknown.chain:
            unknown = None  # a line that a phrase knows said before what the exception then means
        order = (fatal, unknown, self.uncaught, self.loose, self.uncaught_unknown, self.death, self.echo)
        return next((cause for cause in order if cause), None)

    def _exception(self, text: str) -> None:
        cause = _Cause(text, self.stage, self._reason(text) or self._by_traceback(text), self._chain.number)
        if ECHO.search(text):
            self.echo = self.echo or cause
        elif self._chain.fatal and cause.reason:
            self.fatal = self.fatal or cause
        elif self._chain.fatal:
            self.fatal_unknown = self.fatal_unknown or cause
        elif cause.reason:
            self.uncaught = self.uncaught or cause
        else:
            self.uncaught_unknown = self.uncaught_unknown or cause

    def _loose(self, text: str) -> None:
        if BENIGN.search(text) or ECHO.search(text):
            return
        if self.loose is None and (reason := self._reason(text)):
            self.loose = _Cause(text, self.stage, reason, self._chain.number)
        elif self.death is None and DEATHS.search(text):
            self.death = _Cause(text, self.stage)

    def _reason(self, text: str) -> Reason | None:
        reason = self._match(self._own, text)
        if reason is None and OUT_OF_MEMORY.search(text):
            return self._match(self._pools, text) or self._pool()
        return reason or self._match(self._generic, text)

    def _match(self, phrases: list[tuple[re.Pattern[str], Phrase]], text: str) -> Reason | None:
        for pattern, phrase in phrases:
            if (not phrase.frame or phrase.frame in self._seen | self._chain.frames) and pattern.search(text):
                return phrase.reason
        return None

    def _pool(self) -> Reason:
        """Which pool was too small, by the latest milestone."""
        if self.stage == "memory pools" and self._chain.in_pools:
            return Reason.OOM_KV
        return _OOM_BY_STAGE.get(self.stage, Reason.OOM_WEIGHTS)

    def _by_traceback(self, text: str) -> Reason | None:
        """What the files of a traceback say of an exception that no phrase knows."""
        if self._chain.in_draft and self._chain.in_loader and _MISFIT.search(text):
            return Reason.DRAFT_MISMATCH
        # Until the server prints its arguments its own process does nothing but read and resolve them. Later a rank
        # may ask that code again, such as for the backend of a draft; under load nothing is resolved any more.
        early = self.stage == "arguments" and not self._chain.fatal
        of_the_arguments = early or (self._chain.in_arguments and self.stage != SERVING)
        if of_the_arguments and _ARGUMENT_ERRORS.match(text):
            return Reason.ARG_INVALID_COMBO
        return None

    def _milestone(self, text: str) -> None:
        for pattern, stage in _STAGES:
            if pattern.search(text):
                self.stage = stage
                if stage == SERVING:
                    self._forget()  # whatever was said before, the server lived on
                return


def classify(
    log_path: Path, *, exit_code: int | None, phase: str = "", dialect: Dialect | None = None
) -> tuple[Reason, Evidence]:
    """Say why a server ended.

    Args:
        log_path: Its log; may be missing, huge, or cut in the middle of a character.
        exit_code: Of the launcher; negative for a signal, None while it is alive. SGLang ends with -9
            both after a crash and after a clean stop, so the code alone decides nothing.
        phase: What we were doing, such as `c=100`; empty lets the log's milestones decide.
        dialect: Whose phrases to try before the generic ones.

    Returns:
        A reason, and the line it is based on, secrets masked. An exception that no phrase knows is
        SERVER_CRASH_LOAD under load and UNKNOWN before. A server that ended without any error in
        its log is UNKNOWN: SGLang says why it dies, so somebody else killed it, such as the OOM
        killer, and the config is not to blame.
    """
    scan = _Scan(dialect)
    for line in read_lines(log_path):
        scan.feed(line)
    cause = scan.root()
    if cause is None or cause.reason is None:
        reason = Reason.SERVER_CRASH_LOAD if cause and phase.startswith("c=") else Reason.UNKNOWN
        text = cause.line if cause else _no_cause(exit_code, scan.last_line)
    else:
        reason, text = cause.reason, cause.line
    stage = cause.stage if cause else scan.stage
    return reason, Evidence(mask_text(text), phase or stage, exit_code, str(log_path))


def classify_stall(
    log_path: Path, *, detail: str, dialect: Dialect | None = None, stacks: Path | None = None
) -> tuple[Reason, Evidence]:
    """Say what a living server that makes no progress waits for.

    A scheduler may die and leave its launcher waiting (0.5.9); then its exception is the cause.
    Otherwise the last milestone decides, or a stack dump in the log.

    Args:
        log_path: The log.
        detail: What was watched, and for how long.
        dialect: Whose phrases to try before the generic ones.
        stacks: A stack dump beside the log, as py-spy writes it; need not exist.
    """
    scan = _Scan(dialect)
    in_rendezvous = False
    for line in read_lines(log_path):
        scan.feed(line)
        in_rendezvous |= _waits_for_peers(line.text)
    for line in read_lines(stacks) if stacks else ():
        in_rendezvous |= _waits_for_peers(line.text)
    cause = scan.root()
    if cause is not None and cause is not scan.echo:
        return cause.reason or Reason.UNKNOWN, Evidence(mask_text(cause.line), cause.stage, None, str(log_path))
    hangs = in_rendezvous or scan.stage == "communication set-up"
    text = f"{detail}; last line: {scan.last_line}" if scan.last_line else f"{detail}; nothing was logged"
    reason = Reason.COMM_INIT_HANG if hangs else Reason.STARTUP_STALL
    return reason, Evidence(mask_text(text), scan.stage, None, str(log_path))


def _waits_for_peers(text: str) -> bool:
    """Whether a line of a stack is inside a rendezvous; importing such a module is not."""
    return bool(_RENDEZVOUS.search(text)) and "<module>" not in text


def _no_cause(exit_code: int | None, last_line: str) -> str:
    if exit_code is None:
        how = "no error in the log"
    elif exit_code < 0:
        how = f"ended by {_signal_name(-exit_code)} with no error in the log"
    else:
        how = f"ended with exit code {exit_code} and no error in the log"
    return f"{how}; last line: {last_line}" if last_line else f"{how}, which is empty"


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:  # a real-time signal
        return f"signal {number}"
