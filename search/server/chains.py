"""One chain of exceptions of a log, and the line of it that shows a person the cause.

Python prints the first exception of a chain first. What a chain ends with says most: `KeyError: 'x'` becomes "no such
model type `x`". But a wrapper that only repeats what it wraps says less than that, and a message may go on for lines
before it comes to the cause.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from search.outcomes import Reason
from search.server.phrases import ECHO
from search.server.places import seen_in

_MOST_LINES, _LONGEST = 60, 400
"""Of a message: lines that are read, and characters that are quoted."""
_ENOUGH = 30
"""Characters of a message that a wrapper must repeat to be one."""

_CODE = re.compile(r"[\s^~]*")
_BARE = re.compile(r"[\w.]+:?")
_COMPILER = re.compile(r"\berror: |\bcannot find |undefined reference|No such file or directory")
"""What a compiler or a linker says of itself, among the words of what started it."""

_POOL_FILE = re.compile(r'File ".*memory_pool\w*\.py"|, in init_memory_pool\b')
_ARGUMENT_FILE = re.compile(r'File ".*(server_args\.py|arg_groups/\w+\.py)"')
_DRAFT_FILE = re.compile(r'File ".*(eagle|draft|standalone)\w*\.py"|, in maybe_init_draft_worker\b', re.IGNORECASE)
_LOADER_FILE = re.compile(r'File ".*(loader|weight_utils|model_runner|models/\w+)\.py"')
_BUILD_FILE = re.compile(r'File ".*(cpp_extension|/jit/\w+|/jit_kernel/utils|tvm_ffi/cpp/\w+)\.py"')
_RANK = re.compile(r", in run_scheduler_process\b")


@dataclass(slots=True)
class Thrown:
    """One exception of a chain.

    Attributes:
        line: As the log has it, its first line.
        stage: Of the server, when it was thrown.
        reason: What a phrase knows of it.
        more: Further lines of its message.
        code: The source line that threw it; empty where the log has none.
    """

    line: str
    stage: str
    reason: Reason | None = None
    more: list[str] = field(default_factory=list)
    code: str = ""

    @property
    def kind(self) -> str:
        """Its class."""
        return self.line.partition(":")[0]

    @property
    def words(self) -> str:
        """The line with what its message needs to be understood."""
        if not self.more and self.code and _BARE.fullmatch(self.line):
            return f"{self.line} ({self.code})"
        if not _COMPILER.search(self.line) and (said := next((t for t in self.more if _COMPILER.search(t)), "")):
            return f"{self.line} {said}"[:_LONGEST]
        after = [at + 1 for at, text in enumerate(self.more) if _CODE.fullmatch(text)]
        if after and after[-1] < len(
            self.more
        ):  # a compiler of kernels shows its source first, then says what is wrong
            return f"{self.line} {self.more[after[-1]]}"[:_LONGEST]
        text = self.line
        for line in self.more:
            if text[-1] not in ":,(" or len(text) > _LONGEST:
                break
            text = f"{text} {line}"
        return text[:_LONGEST]

    def repeats(self, other: Thrown) -> bool:
        """Whether this is a wrapper that says what `other` said."""
        message = other.line.partition(": ")[2][:_ENOUGH]
        return bool(message) and message in self.line


@dataclass(slots=True)
class Chain:
    """One chain of exceptions. The files it goes through are remembered by what they show, not kept."""

    number: int = 0
    fatal: bool = False
    open: bool = False
    linked: bool = False
    in_pools: bool = False
    in_arguments: bool = False
    in_draft: bool = False
    in_loader: bool = False
    in_build: bool = False
    frames: set[str] = field(default_factory=set)
    """Frames of phrases that this chain went through. Another traceback's frames say nothing of its cause."""
    places: set[str] = field(default_factory=set)
    thrown: list[Thrown] = field(default_factory=list)
    going_on: bool = False
    """The message of the last exception goes on."""
    _code: str = ""

    def saw(self, line: str) -> None:
        """Take an indented line of a traceback."""
        if not line.lstrip().startswith('File "'):
            self._code = self._code if _CODE.fullmatch(line) else line.strip()
            return
        self._code = ""
        self.fatal |= bool(_RANK.search(line))
        self.in_pools |= bool(_POOL_FILE.search(line))
        self.in_arguments |= bool(_ARGUMENT_FILE.search(line))
        self.in_draft |= bool(_DRAFT_FILE.search(line))
        self.in_loader |= bool(_LOADER_FILE.search(line))
        self.in_build |= bool(_BUILD_FILE.search(line))
        if place := seen_in(line):
            self.places.add(place)

    def throws(self, line: str, stage: str, reason: Reason | None) -> None:
        """Take an exception."""
        self.open, self.going_on = False, True
        self.thrown.append(Thrown(line, stage, reason, code=self._code))
        self._code = ""

    def goes_on(self, line: str) -> None:
        """Take a line of the last exception's message."""
        more = self.thrown[-1].more
        if len(more) < _MOST_LINES:
            more.append(line.strip())

    def cause(self) -> Thrown | None:
        """The exception to believe: the innermost that a phrase knows, else the outermost; wrappers for what they wrap.

        Where somebody catches what a phrase knows and throws the same kind again, the second says it better.
        """
        real = [one for one in self.thrown if not ECHO.search(one.line)]
        known = next((one for one in real if one.reason), None)
        if known is not None:
            real = [one for one in real if one.reason is known.reason and one.kind == known.kind]
        if not real:
            return None
        last = real[-1]
        return next((one for one in real[:-1] if last.repeats(one)), last)
