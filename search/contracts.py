"""The contract between the study loop and whatever can run a server: Engine and Session.

A driver launches a config on a slot, measures phases on the session it gets, decides between
phases, and closes it. A session lives across calls; under Ray it lives in the actor that holds
the GPUs and the driver holds a handle with this same shape.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import TracebackType
from typing import Protocol, Self

from search.config import SpecConfig
from search.outcomes import Note
from search.shape import Switched, SwitchRefused

_GOLDEN = (5**0.5 - 1) / 2


class Clock(Protocol):
    """Time, injected: a real clock, or a virtual one in simulation and tests."""

    def monotonic(self) -> float:
        """Seconds since an arbitrary start; never steps back."""
        ...

    def now(self) -> datetime:
        """Wall-clock time, timezone-aware UTC; for records, never for durations."""
        ...

    def spend(self, seconds: float) -> None:
        """Account for `seconds` that something reports to have taken.

        A real clock has already moved and ignores this; a virtual one moves now.
        """
        ...


class RealClock:
    """The machine's clock."""

    def monotonic(self) -> float:
        """See `Clock`."""
        return time.monotonic()

    def now(self) -> datetime:
        """See `Clock`."""
        return datetime.now(UTC)

    def spend(self, seconds: float) -> None:
        """See `Clock`."""


class VirtualClock:
    """A clock that moves only when it is given what something took; starts at a given moment."""

    def __init__(self, start: datetime) -> None:
        self._start = start
        self._elapsed = 0.0

    def monotonic(self) -> float:
        """See `Clock`."""
        return self._elapsed

    def now(self) -> datetime:
        """See `Clock`."""
        return self._start + timedelta(seconds=self._elapsed)

    def spend(self, seconds: float) -> None:
        """See `Clock`."""
        self._elapsed += seconds


class SelfClosing:
    """A context manager that closes itself on leaving, whatever ends it."""

    def close(self) -> object:
        """Give back what is held. Safe to call twice."""
        raise NotImplementedError

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


@dataclass(frozen=True, slots=True)
class Slot:
    """The GPUs of one server, by UUID (empty in simulation), and the host they are on."""

    index: int
    gpu_uuids: tuple[str, ...] = ()
    host: str = "localhost"


@dataclass(frozen=True, slots=True)
class LaunchPaths:
    """The only place that knows the file names of a launch."""

    root: Path

    @property
    def server_log(self) -> Path:
        """Everything the server printed."""
        return self.root / "server.log"

    @property
    def shared_log(self) -> Path:
        """What a server printed that was to run several configs and could not; `server_log` is of the start after it."""
        return self.root / "server-shared.log"

    @property
    def command(self) -> Path:
        """The command line and environment as a runnable shell script, secrets masked."""
        return self.root / "command.sh"

    @property
    def requests(self) -> Path:
        """One JSON line per measured request: times and counts, no text."""
        return self.root / "requests.jsonl"

    def outputs(self, concurrency: int) -> Path:
        """Token ids of the answers at one concurrency, one JSON line per request and repeat."""
        return self.root / f"outputs-c{concurrency}.jsonl"

    @property
    def server_info(self) -> Path:
        """What the server said it runs, secrets masked."""
        return self.root / "server_info.json"

    @property
    def stacks(self) -> Path:
        """Where a server that stood still was standing, one dump per process; only after a stall."""
        return self.root / "stacks.txt"


@dataclass(frozen=True, slots=True)
class Phase:
    """One concurrency to measure on a launch.

    Attributes:
        concurrency: Requests kept in flight (closed loop).
        requests: Measured requests, at least `concurrency`.
        output_tokens: Tokens a request generates (`ignore_eos`), on average; see `spread`.
        warmup_requests: Requests of one warm-up round before measuring; rounds repeat until two
            agree, at most `warmup_rounds` of them. 0 when this phase was warmed up before.
        warmup_tokens: Tokens that a request of the warm-up generates, on average; 0: as many as a measured one.
        held_out: Use the held-out prompts (confirmation) instead of the search's own.
        staggered: Begin with one request per worker whose length is spread evenly over
            (0, `output_tokens`] and which is not measured, so that workers do not start in step.
        spread: Above concurrency 1, answers are between `1 - spread` and `1 + spread` times
            `output_tokens` long, the same lengths in the same order for every config. Answers of
            one length keep workers in whatever step they fall into, for good. 0, and not
            staggered, is what other tools send, for comparisons with them.
        workload: Which of the study's workloads is sent, by its name; empty for its own prompts.
        greedy: Whatever the study samples at: for answers that are compared with a baseline's.
    """

    concurrency: int
    requests: int
    output_tokens: int
    warmup_requests: int = 0
    warmup_rounds: int = 4
    warmup_tokens: int = 0
    held_out: bool = False
    staggered: bool = True
    spread: float = 0.5
    workload: str = ""
    greedy: bool = False

    @property
    def warm_up(self) -> Phase:
        """The phase whose requests its warm-up sends."""
        return replace(self, output_tokens=self.warmup_tokens or self.output_tokens)

    def tokens_of(self, index: int) -> int:
        """Tokens that request `index` generates; their mean tends to `output_tokens`.

        By multiples of the golden ratio, which fill an interval more evenly than draws do, however
        many there are.
        """
        if self.concurrency == 1 or not self.spread:
            return self.output_tokens
        place = (0.5 + index * _GOLDEN) % 1.0
        return max(2, round(self.output_tokens * (1 + self.spread * (2 * place - 1))))


@dataclass(frozen=True, slots=True)
class GpuState:
    """The GPUs of a slot during one phase, sampled about once a second; the worst GPU counts.

    Attributes:
        sm_clock_mhz: Mean clock of the streaming multiprocessors.
        temperature_c: Highest core temperature.
        throttled: Share of the samples in which a clock was over 3% below its highest and the driver
            gave a reason that slows: power cap, heat, or hardware brake; 0 to 1.
        reasons: Which, in the driver's words, sorted.
    """

    sm_clock_mhz: float
    temperature_c: float
    throttled: float = 0.0
    reasons: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class PhaseResult:
    """What one repeat of a phase gave. A value that does not exist is None, never 0.

    Measured phases have all of them; recorded tables may lack those typed `| None`.

    Attributes:
        requests: Completed requests; all that were asked, or the phase has failed.
        requested: Requests that the phase was to measure; None where not recorded.
        held_out: Whether the held-out prompts were sent. Values of unlike prompts are never compared. None in
            rows from before, where the stage of the launch decides: confirmations sent them, nothing else did.
        output_tokens: Sum over completed requests, from the last record of each stream.
        duration_s: From the first request sent to the last token received, warm-up excluded.
        warmup_s: Time spent on warm-up before it.
        output_tps: Output tokens per second inside the steady window: from all workers busy
            to the first idle one.
        whole_run_tps: `output_tokens / duration_s`, what other tools print.
        tpot_ms: (last token time - first token time) / (output tokens - 1), mean over requests.
        ttft_ms: Time to first token, mean over requests.
        accept_length: Output tokens per verify pass over the phase, bonus token included; None
            without speculation.
        accept_histogram: Verify passes that accepted 0, 1, 2, … drafts; empty where the release
            does not report it.
        prompt_tpot_ms: Per request, in prompt order, so that configs compare pairwise.
        prompt_ids: Of the prompts behind `prompt_tpot_ms`, one each; empty where not recorded.
        prompts_sha256: Of the prompt set that was sent, template applied; empty where not recorded.
        ttft_p99_ms: 99th percentile of the time to first token.
        itl_ms: Inter-chunk time: between two records of one stream that brought tokens, mean.
        itl_p99_ms: 99th percentile of it.
        e2e_ms: Request sent to last token, mean over requests.
        goodput_rps: Requests per second of the steady window that met the study's limits; None
            without limits.
        ttft_p50_ms: Median of the time to first token.
        e2e_p99_ms: 99th percentile of the time from sending a request to its last token.
        goodput: Share of the requests that met the study's limits, 0 to 1; None without limits.
        gpus: Of the server; written by the driver, which knows the deployment. None in older rows.
        gpu: State of the GPUs during the phase; None where nobody looked.
        client_busy: Processor time of the client / duration, 0 to 1; near 1 the client was the
            bottleneck.
        outputs: Token ids of each answer, in prompt order, where the release reports them. For the
            losslessness gate; kept on disk beside the launch, never in the database or a recording.
        workload: Name of the study's workload that was sent; None for its own prompts.
        window_tps: Throughput of consecutive equal slices of the steady window.
        extrapolated: Whether a simulated value lies outside what the simulator was fitted to.
    """

    concurrency: int
    repeat: int
    requests: int
    output_tokens: int | None
    duration_s: float | None
    output_tps: float
    whole_run_tps: float | None
    tpot_ms: float | None
    ttft_ms: float | None
    accept_length: float | None = None
    accept_histogram: tuple[int, ...] = ()
    prompt_tpot_ms: tuple[float, ...] = ()
    window_tps: tuple[float, ...] = ()
    warmup_s: float = 0.0
    notes: tuple[Note, ...] = ()
    extrapolated: bool = False
    prompt_ids: tuple[str, ...] = ()
    prompts_sha256: str = ""
    ttft_p99_ms: float | None = None
    itl_ms: float | None = None
    itl_p99_ms: float | None = None
    e2e_ms: float | None = None
    goodput_rps: float | None = None
    gpu: GpuState | None = None
    client_busy: float | None = None
    ttft_p50_ms: float | None = None
    e2e_p99_ms: float | None = None
    goodput: float | None = None
    gpus: int | None = None
    outputs: tuple[tuple[int, ...], ...] = field(default=(), compare=False, repr=False)
    requested: int | None = None
    held_out: bool | None = None
    workload: str | None = None

    def __hash__(self) -> int:
        # Judging looks results up after every launch; hashing every prompt's time each time would be most of it.
        return hash((self.concurrency, self.repeat, self.output_tps, self.tpot_ms, self.duration_s))


NOT_VERIFIED = "not_verified"
"""Detail of the effective settings that names what the server did not report of its config."""


@dataclass(frozen=True, slots=True)
class EffectiveSettings:
    """What really runs, read back from the server.

    Attributes:
        config: The config that runs; compare its id with the one that was asked.
        release: The server's own version string.
        max_running_requests: Per data-parallel rank, after the pools had their say.
        details: Other values worth keeping (backends, memory fraction, …), sorted by name.
    """

    config: SpecConfig
    release: str = ""
    max_running_requests: int | None = None
    details: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class StopReport:
    """Proof of a stop.

    Attributes:
        clean: No process of the launch is alive, its port can be bound, and GPU memory is back.
        duration_s: From the wish to stop to the proof.
        leftovers: What is still there when not clean, one line each.
    """

    clean: bool
    duration_s: float
    leftovers: tuple[str, ...] = field(default=())


class Session(Protocol):
    """A running server: one start, with a measurement of one config or of several, one after the other.

    A context manager: leaving it stops the server and proves it.
    """

    @property
    def effective(self) -> EffectiveSettings:
        """What really runs now; after a switch, of the config switched to."""
        ...

    @property
    def holds(self) -> tuple[SpecConfig, ...]:
        """Configs that this start can switch to, as asked at its launch; empty where it can switch to none."""
        ...

    @property
    def boot_s(self) -> float:
        """Seconds from the start of the launcher to its first own token."""
        ...

    def measure(self, phase: Phase, repeat: int) -> PhaseResult:
        """Warm up if the phase says so, then measure it once.

        Raises:
            LoadFailed: The server broke, hung, or reported impossible numbers.
            NotRecorded: A replayed table has no such phase.
        """
        ...

    def switch(self, config: SpecConfig, *, paths: LaunchPaths) -> Switched:
        """Let this start run another config of `holds`; what is measured from now on is of that config.

        Args:
            config: One of `holds`.
            paths: Where the files of the measurements to come go. The server's log stays with the start.

        Returns:
            What it took. `effective` has been read back and names `config`.

        Raises:
            SwitchRefused: The server keeps what it ran and is as good as before.
            SwitchFailed: It broke, hung, or runs something else; `usable` says whether the start can go on.
            Interrupted: The engine was aborted.
        """
        ...

    def close(self) -> StopReport:
        """Stop the server; a second call returns the first report."""
        ...

    def __enter__(self) -> Self: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...


class OneConfigSession(SelfClosing):
    """What a session whose start keeps its shape has of the contract."""

    @property
    def holds(self) -> tuple[SpecConfig, ...]:
        """See `Session`: none."""
        return ()

    def switch(self, config: SpecConfig, *, paths: LaunchPaths) -> Switched:  # noqa: ARG002
        """See `Session`; always refused."""
        raise SwitchRefused(f"This start keeps its shape, so {config} needs one of its own.")


class Engine(Protocol):
    """Launches servers: real, simulated or replayed."""

    def launch(
        self, config: SpecConfig, *, slot: Slot, paths: LaunchPaths, holds: tuple[SpecConfig, ...] = ()
    ) -> Session:
        """Start a server for `config` and wait until a request of ours generated a token.

        Args:
            config: What runs when this returns.
            slot: Where.
            paths: Of the launch's files.
            holds: Further configs that the start is to be able to switch to (the study has found that one start can
                hold them all, see `search.shape`). Where the server turns out not to be able to, the session's
                `holds` is empty and the launch is otherwise as without it.

        Raises:
            LaunchFailed: With reason and evidence; nothing of the launch is left running.
            NotRecorded: A replayed table has no such config.
        """
        ...
