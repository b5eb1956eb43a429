"""Finds the root cause in a server's log.

A log of a death has the cause near its end, echoes after it (`Received sigquit from a child
process`, advice on memory fractions) and harmless complaints before it. So exceptions of tracebacks
are believed before loose lines, those a scheduler died of (`hit an exception`) before others, and
echoes only when there is nothing else. Within a chain of exceptions what a phrase knows counts, else
the outermost, see `Chain.cause`. A crash while starting that no phrase knows is judged by its frames
and its kind: a rule that somebody stated, a file of the host, or a START_CRASH, of which only the
next start and a sibling show whose fault it is (`search.study.blame`).
"""

from __future__ import annotations

import re
import signal
from dataclasses import dataclass
from pathlib import Path

from search.dialects import Dialect, Phrase
from search.masking import mask_text
from search.outcomes import Evidence, Reason
from search.server.chains import Chain
from search.server.logscan import LogLine, read_lines
from search.server.phrases import BENIGN, DEATHS, ECHO, GENERIC, OUT_OF_MEMORY, POOLS
from search.server.places import ARGUMENTS, CAPTURE, SERVING, WARM_UP, next_stage, place_of

_ROUTINE = re.compile(r'(Decode|Prefill) batch|INFO: +[\d.]+:\d+ - "')
"""What a healthy server prints for every step and request; a night has millions."""

_OOM_BY_STAGE = {
    CAPTURE: Reason.OOM_GRAPH,
    "after memory pools": Reason.OOM_GRAPH,
    WARM_UP: Reason.OOM_RUNTIME,
    SERVING: Reason.OOM_RUNTIME,
}

_TRACEBACK = "Traceback (most recent call last):"
_LINK = re.compile(r"^(During handling of the above|The above exception was)")
_FATAL = re.compile(r"hit an exception")
_MISFIT = re.compile(r"size mismatch|shapes? .*(mismatch|cannot be multiplied)|must match the size|loaded_weight|vocab")
_RENDEZVOUS = re.compile(
    r"_symmetric_memory|(?:, in |^\s+(?:[\w<>]+\.)*)(?:init_process_group|\w*rendezvous\w*)(?:$| \()"
)
"""A frame as Python (`…, in name`) or py-spy (`    Class.name (file:line)`) writes it."""

_ARGUMENT_ERRORS = re.compile(r"^(ValueError|AssertionError|TypeError|NotImplementedError)\b")
_REFUSALS = re.compile(r"^(ValueError|AssertionError|NotImplementedError|RuntimeError)\b")
_RULE = re.compile(
    r"\bonly (be used|supports?|supported|works?)\b|\b(not|un)[ -]?support(ed)?\b|does(n't| not) support|\brequires?\b"
    r"|\b(must|should|has to) be\b|\b(not|in)[ -]?compatible\b|\bexpects? \S+ to be\b|does not match the\b|is not divisible by"
)
"""An exception that states a rule was thrown by somebody who looked: the next start meets the same rule."""
_HOST_ERRORS = re.compile(
    r"^(builtins\.)?(OSError|IOError|PermissionError|FileExistsError|FileNotFoundError|NotADirectoryError|BlockingIOError"
    r"|TimeoutError|ConnectionError|ConnectionRefusedError)\b"
)
_BEFORE_WEIGHTS = frozenset({"communication set-up", ARGUMENTS})


@dataclass(frozen=True, slots=True)
class _Cause:
    """A line that may be the root cause; no reason when no phrase knows it."""

    line: str
    stage: str
    reason: Reason | None = None
    chain: int = 0


class _Scan:
    """What is kept of a log while it streams by: the first of each kind of cause."""

    def __init__(self, dialect: Dialect | None, *, under_load: bool = False) -> None:
        self._under_load = under_load
        own = dialect.phrases if dialect else ()
        self._own = [(re.compile(phrase.pattern), phrase) for phrase in own]
        self._generic = [(re.compile(phrase.pattern), phrase) for phrase in GENERIC]
        self._pools = [(re.compile(phrase.pattern), phrase) for phrase in POOLS]
        self._frames = {phrase.frame: re.compile(phrase.frame) for phrase in (*own, *POOLS, *GENERIC) if phrase.frame}
        self._seen: set[str] = set()  # frames named in loose lines, of the log as a whole
        self._chain = Chain()
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
        if not text.strip():
            self._chain.going_on = False
            return
        if line.stamped and text == self.last_line:
            return
        if _ROUTINE.match(text):
            self.last_line = text
            return
        named = {frame for frame, pattern in self._frames.items() if pattern.search(text)}
        in_traceback = self._chain.open and not line.stamped
        (self._chain.frames if in_traceback and _TRACEBACK not in text else self._seen).update(named)
        if _TRACEBACK in text:
            if not self._chain.linked:
                self._conclude()
                fatal = bool(_FATAL.search(text) or _FATAL.search(self.last_line))
                self._chain = Chain(self._chain.number + 1, fatal)
            self._chain.open, self._chain.linked, self._chain.going_on = True, False, False
        elif in_traceback:
            if text[0].isspace():
                self._chain.saw(text)
            else:
                self._chain.throws(text, self.stage, self._reason(text) or self._by_traceback(text))
        else:
            self._chain.linked |= bool(_LINK.match(text))
            self._chain.going_on &= not (line.stamped or _LINK.match(text) or ECHO.search(text))
            if self._chain.going_on:
                self._chain.goes_on(text)
            self._loose(text)
        if stage := next_stage(text):
            self.stage = stage
            if stage == SERVING:
                self._chain.thrown.clear()
                self._forget()  # whatever was said before, the server lived on
        self.last_line = text

    def root(self) -> _Cause | None:
        """The cause to believe: what killed a scheduler, an uncaught exception, a loose line, an echo."""
        self._conclude()
        fatal = self.fatal
        if fatal and self.fatal_unknown and self.fatal_unknown.chain < fatal.chain:
            fatal = None  # another rank died first, of something no phrase knows
        unknown = self.fatal_unknown
        if unknown and self.loose and self.loose.chain < unknown.chain:
            unknown = None  # a line that a phrase knows said before what the exception then means
        order = (fatal, unknown, self.uncaught, self.loose, self.uncaught_unknown, self.death, self.echo)
        return next((cause for cause in order if cause), None)

    def _conclude(self) -> None:
        """Take note of what the last chain says, once it is whole."""
        chain = self._chain
        thrown = chain.cause()
        stage = place_of(thrown.stage if thrown else self.stage, chain.places, of_a_rank=chain.fatal)
        if thrown is None:
            if chain.thrown and self.echo is None:
                self.echo = _Cause(chain.thrown[0].line, stage, None, chain.number)
        else:
            reason = thrown.reason or self._reason(thrown.words) or self._by_traceback(thrown.words)
            cause = _Cause(thrown.words, stage, reason or self._by_kind(thrown.words), chain.number)
            if chain.fatal and reason:
                self.fatal = self.fatal or cause
            elif chain.fatal:
                self.fatal_unknown = self.fatal_unknown or cause
            elif reason:
                self.uncaught = self.uncaught or cause
            else:
                self.uncaught_unknown = self.uncaught_unknown or cause
        chain.thrown.clear()

    def _loose(self, text: str) -> None:
        if BENIGN.search(text) or ECHO.search(text):
            return
        if self.loose is None and (reason := self._reason(text)):
            self.loose = _Cause(text, self.stage, reason, self._chain.number)
        elif self.death is None and DEATHS.search(text):
            crashed = self.stage != SERVING and text.startswith("Fatal Python error")
            self.death = _Cause(text, self.stage, Reason.START_CRASH if crashed else None)

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
        if self.stage in _BEFORE_WEIGHTS and "communication set-up" in self._chain.places:
            return Reason.HOST_BUSY  # nothing of ours is on the GPU yet, so it is somebody else's memory
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

    def _by_kind(self, text: str) -> Reason | None:
        """What the kind of an exception shows that no phrase knows, of a server that was starting."""
        if self._under_load or self.stage == SERVING:
            return None
        if self._chain.in_build:
            return Reason.MISSING_MODULE  # a kernel could not be built: no config brings its own compiler
        if _HOST_ERRORS.match(text):
            return Reason.HOST_FAULT
        if _REFUSALS.match(text) and _RULE.search(text):
            return Reason.ARG_INVALID_COMBO
        return Reason.START_CRASH


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
        SERVER_CRASH_LOAD under load; before, its kind and its frames decide, see `_by_kind`. A server that ended without any error in
        its log is UNKNOWN: SGLang says why it dies, so somebody else killed it, such as the OOM
        killer, and the config is not to blame.
    """
    scan = _Scan(dialect, under_load=phase.startswith("c="))
    for line in read_lines(log_path):
        scan.feed(line)
    cause = scan.root()
    if cause is None or cause.reason in (None, Reason.START_CRASH):
        at_start = cause.reason if cause and cause.reason else Reason.UNKNOWN
        reason = Reason.SERVER_CRASH_LOAD if cause and phase.startswith("c=") else at_start
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
