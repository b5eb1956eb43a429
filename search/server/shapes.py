"""The client of the plugin `plugin/search_shapes`: is it there, what runs, switch; and a probe of what runs.

A command goes to `/set_internal_state` with the token of the launch, the report comes with `/server_info`
(see `docs/shapes.md`). Blocking; one client per server.
"""

from __future__ import annotations

import hashlib
import http.client
import json
import random
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from search.server.http import FIRST_PROMPT
from search.server.ports import LOOPBACK
from search.shape import Probe, Report, Shape, Switched, SwitchFailed, SwitchRefused

REPORT = "search_shapes"
PROTOCOL = 1
SHAPE_KEYS = ("search_shapes_topk", "search_shapes_num_steps", "search_shapes_num_draft_tokens")
TOKEN_KEYS = ("search_shapes_token_a", "search_shapes_token_b", "search_shapes_token_c")
REQUEST_KEY = "search_shapes_request"
_CUTS = ((0, 11), (11, 22), (22, 32))
"""Hex digits of the token: three numbers, each exact in a float too."""

_REPORT_S = 30.0
_BUSY_PAUSE_S = 0.2
_BUSY = "busy"
_PROBE_TOKENS = 48
_MOST_BYTES = 16 * 2**20


def reported_shape(info: Mapping[str, Any]) -> Shape | None:
    """The shape that runs, by the plugin's report in a `/server_info`; None without one.

    The other fields there are the start's arguments, whatever runs.
    """
    report = _report_in(info)
    try:
        return None if report is None else Shape(*map(int, report["now"]))
    except (KeyError, TypeError, ValueError):
        return None


def token_forms(token: str) -> tuple[str, ...]:
    """A token as it may be written: as it is, and as the three numbers that it travels as."""
    return (token, *(str(int(token[start:end], 16)) for start, end in _CUTS))


@dataclass(slots=True)
class ShapeClient:
    """Talks to the plugin of one server on loopback.

    Args:
        port: The server's HTTP port.
        token: The launch's token, from `shape_support.new_token`.
        api_key: The server's `--api-key` or `--admin-api-key`, where it has one.
        clock: Seconds; never steps back.
        pause: Sleeps so many seconds.
    """

    port: int
    token: str
    api_key: str = ""
    clock: Callable[[], float] = time.monotonic
    pause: Callable[[float], None] = time.sleep
    _probes: dict[Shape, Probe] = field(default_factory=dict, init=False)
    _first: Probe | None = field(default=None, init=False)

    def is_there(self) -> bool:
        """Whether the plugin answers. SGLang only logs a plugin that fails to load, so a launch asks."""
        try:
            return self._report() is not None
        except OSError:
            return False

    def report(self) -> Report:
        """What the plugin says of its server.

        Raises:
            SwitchFailed: The server or the plugin does not answer.
        """
        try:
            report = self._report()
            if report is None:
                raise SwitchFailed(
                    "The plugin is not in this server. Look for `SEARCH_SHAPES` in its log, which says why."
                )
            last = report.get("last") or {}
            return Report(
                start=Shape(*report["start"]),
                now=Shape(*report["now"]),
                consistent=bool(report["consistent"]),
                refuses=str(report["refuses"]),
                broken=str(report["broken"]),
                built=tuple(Shape(*shape) for shape in report["states"]),
                last=dict(last),
                places=dict(report["places"]),
                reserve_tokens=report.get("reserve_tokens"),
            )
        except (OSError, KeyError, TypeError, ValueError) as error:
            raise SwitchFailed(f"No report came: {type(error).__name__}: {error}.") from error

    def current(self) -> Shape:
        """The shape that runs.

        Raises:
            SwitchFailed: The server does not answer, or its parts disagree.
        """
        report = self.report()
        if report.broken or not report.consistent:
            raise SwitchFailed(report.broken or f"Its parts run different shapes: {dict(report.places)}.")
        return report.now

    def switch(self, shape: Shape, timeout_s: float) -> Switched:
        """Let the server run a shape, waiting for it to be idle; then probe it.

        A shape met before has to give the text and accept length that it gave then.

        Raises:
            SwitchRefused: The start cannot hold the shape, or the server was not idle within `timeout_s`.
            SwitchFailed: Anything else; its `usable` says whether the start can go on.
        """
        began = self.clock()
        deadline = began + timeout_s
        before = self.current()
        if before not in self._probes:
            self._remember(before, self._probe(before, deadline))
        report = self._command(shape, deadline)
        last = report.last
        if last["outcome"] != "switched":
            self._give_up(before, report, deadline)
        if report.now != shape or not report.consistent:
            raise SwitchFailed(f"{shape} was asked and confirmed, but {report.now} runs: {dict(report.places)}.")
        probe = self._probe(shape, deadline)
        self._compare(shape, probe)
        self._remember(shape, probe)
        return Switched(
            seconds=self.clock() - began,
            built=bool(last["built"]),
            memory_gb=float(last["memory_gb"]),
            evicted=int(last.get("evicted", 0)),
            same_text=self._first is not None and probe.text_sha256 == self._first.text_sha256,
            reserve_tokens=report.reserve_tokens,
        )

    def probe(self, timeout_s: float = 60.0) -> Probe:
        """A short greedy answer of what runs.

        Raises:
            SwitchFailed: No answer, or an accept length that this shape cannot have.
        """
        return self._probe(self.current(), self.clock() + timeout_s)

    def _command(self, shape: Shape, deadline: float) -> Report:
        """Send the command until the server is idle; the report of how it ended."""
        while True:
            request = random.SystemRandom().getrandbits(48)
            numbers = [int(self.token[start:end], 16) for start, end in _CUTS]
            body = dict(zip((*SHAPE_KEYS, *TOKEN_KEYS, REQUEST_KEY), (*shape.numbers, *numbers, request), strict=True))
            try:
                status, text = self._send("POST", "/set_internal_state", {"server_args": body}, self._left(deadline))
            except (OSError, http.client.HTTPException) as error:
                raise SwitchFailed(f"The server went silent on the way to {shape}: {_words(error)}.") from error
            if status != 200:
                raise SwitchFailed(f"The command to run {shape} got HTTP {status}: {text[:200]}")
            report = self.report()
            last = report.last
            if last.get("request") != request:
                raise SwitchFailed(f"The plugin did not take the command to run {shape}: another launch's token?", True)
            refused = last["outcome"] == "refused"
            busy = refused and _BUSY in str(last["reason"])
            if not busy or self.clock() + _BUSY_PAUSE_S >= deadline:
                if refused:
                    raise SwitchRefused(str(last["reason"]))
                return report
            self.pause(_BUSY_PAUSE_S)

    def _give_up(self, before: Shape, report: Report, deadline: float) -> None:
        """Raise for a command that failed, having looked whether the old shape is as it was."""
        reason = str(report.last["reason"])
        if report.broken or not report.consistent or report.now != before:
            raise SwitchFailed(reason)
        try:
            self._compare(before, self._probe(before, deadline))
        except SwitchFailed as worse:
            raise SwitchFailed(f"{reason} And the old shape is not what it was: {worse.reason}") from worse
        raise SwitchFailed(reason, usable=True)

    def _remember(self, shape: Shape, probe: Probe) -> None:
        self._probes[shape] = probe
        self._first = self._first or probe

    def _compare(self, shape: Shape, probe: Probe) -> None:
        known = self._probes.get(shape)
        if known is not None and known != probe:
            raise SwitchFailed(
                f"{shape} answers otherwise than before in this start: text {known.text_sha256[:8]} then and "
                f"{probe.text_sha256[:8]} now, accept length {known.accept_length} and {probe.accept_length}."
            )

    def _probe(self, shape: Shape, deadline: float) -> Probe:
        body = {
            "text": FIRST_PROMPT,
            "sampling_params": {"max_new_tokens": _PROBE_TOKENS, "temperature": 0, "ignore_eos": True},
        }
        try:
            status, text = self._send("POST", "/generate", body, self._left(deadline))
            answer = json.loads(text) if status == 200 else None
            meta = answer["meta_info"] if isinstance(answer, dict) else {}
            tokens, passes = int(meta["completion_tokens"]), int(meta.get("spec_verify_ct") or 0)
            words = str(answer["text"]) if isinstance(answer, dict) else ""
        except (OSError, http.client.HTTPException, ValueError, KeyError, TypeError) as error:
            raise SwitchFailed(f"The probe of {shape} got no answer: {_words(error)}.") from error
        accept = tokens / passes if passes else None
        # The first token comes from the prefill, without a verify pass.
        if passes and tokens - 1 > passes * (shape.num_steps + 1):
            raise SwitchFailed(f"The probe of {shape} accepted {accept:.2f} tokens per pass, more than it drafts.")
        return Probe(hashlib.sha256(words.encode()).hexdigest(), accept)

    def _report(self) -> dict[str, Any] | None:
        """The plugin's words; None for a server without it.

        Raises:
            OSError: The server gives no JSON object.
        """
        try:
            status, text = self._send("GET", "/server_info", None, _REPORT_S)
            info = json.loads(text) if status == 200 else None
        except (http.client.HTTPException, ValueError) as error:
            raise OSError(_words(error)) from error
        return _report_in(info) if isinstance(info, dict) else None

    def _left(self, deadline: float) -> float:
        return max(0.5, deadline - self.clock())

    def _send(self, method: str, route: str, body: object, timeout_s: float) -> tuple[int, str]:
        connection = http.client.HTTPConnection(LOOPBACK, self.port, timeout=timeout_s)
        headers = {"Content-Type": "application/json"}
        if self.api_key:
            headers["Authorization"] = f"Bearer {self.api_key}"
        try:
            connection.request(method, route, None if body is None else json.dumps(body), headers)
            response = connection.getresponse()
            return response.status, response.read(_MOST_BYTES).decode(errors="replace")
        finally:
            connection.close()


def _report_in(info: Mapping[str, Any]) -> dict[str, Any] | None:
    states = info.get("internal_states")
    report = states[0].get(REPORT) if isinstance(states, list) and states and isinstance(states[0], dict) else None
    return report if isinstance(report, dict) and report.get("protocol") == PROTOCOL else None


def _words(error: Exception) -> str:
    return f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
