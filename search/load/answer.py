"""One stream, record by record, until it is a `Trace` or a failure with its cause."""

from __future__ import annotations

import json
from typing import Any

from search.dialects import MetaFields
from search.errors import LoadFailed
from search.load.output_ids import OutputIds
from search.load.sse import DONE, count_key, find_count
from search.load.trace import Trace
from search.outcomes import Evidence, Reason

_NOT_NOW = frozenset({429, 502, 503, 504})
"""What a full queue, a restarting rank or something between us and the server answers (RFC 9110, section 15)."""


class StreamLost(Exception):
    """A stream ended before its final record; the text says how. The caller finds out why."""


def refused(status: int, message: str, phase: str) -> LoadFailed:
    """A request that the server answered with an error instead of tokens.

    4xx means that our request does not fit this server (a prompt beyond its context, say), which
    no other config would cure: the tool is to blame. 429, 502, 503 and 504 say "not now" of a server that
    lives: whether the config or the moment is the cause, one failure does not show, so it is UNKNOWN
    and tried once more. Everything else is the server breaking.
    """
    line = f"HTTP {status}: {message.strip()[:500]}"
    if "out of memory" in message.lower():
        return LoadFailed(Reason.OOM_RUNTIME, Evidence(line, phase))
    if status in _NOT_NOW:
        return LoadFailed(Reason.UNKNOWN, Evidence(line, phase))
    reason = Reason.TOOL_ERROR if 400 <= status < 500 else Reason.SERVER_CRASH_LOAD
    return LoadFailed(reason, Evidence(line, phase))


class Answer:
    """Collects the records of one stream.

    A record counts as an arrival only if it brought tokens: SGLang's last record may repeat the
    count of the one before. Where a server reports the count in the last record only, the text
    gives the arrivals, and the count is spread over them afterwards.
    """

    def __init__(self, fields: MetaFields, phase: str) -> None:
        self._fields = fields
        self._phase = phase
        self._key = count_key(fields.completion_tokens)
        self._times: list[float] = []
        self._counts: list[int | None] = []
        self._count = 0
        self._text_length = 0
        self._last: bytes | None = None
        self._ids = OutputIds()
        self._done = False

    def add(self, record: bytes, now: float) -> bool:
        """Take one record received at `now`; return whether it brought tokens.

        Raises:
            LoadFailed: The record is an error, or not JSON.
        """
        if record == DONE:
            self._done = True
            return False
        self._last = record
        count = find_count(record, self._key)
        if count is None or None in self._counts[-1:]:
            return self._add_by_text(self._decode(record), now)
        if count < self._count:
            text = f"token counts of a stream must not fall, but {self._count} was followed by {count}"
            raise LoadFailed(Reason.METRIC_INVALID, Evidence(text, self._phase))
        if count == self._count:
            return False
        self._count = count
        self._ids.see(record, count)
        self._times.append(now)
        self._counts.append(count)
        return True

    def finish(self, *, index: int, prompt_id: str, worker: int, started: float) -> Trace:
        """The trace of the ended stream.

        Args:
            index: Place of the request in its phase, from 0.
            prompt_id: Of the prompt that was sent.
            worker: Which worker of the closed loop sent it.
            started: When it was sent, on the client's clock, in seconds.

        Raises:
            StreamLost: There was no final record.
            LoadFailed: The server aborted the request, gave no token, or no count.
        """
        if self._last is None:
            if self._done:
                raise LoadFailed(
                    Reason.CLIENT_NO_OUTPUT, Evidence("a stream ended without a single record", self._phase)
                )
            raise StreamLost("the stream ended before its first record")
        body = self._decode(self._last)
        meta = body.get("meta_info")
        meta = meta if isinstance(meta, dict) else {}
        reason = meta.get("finish_reason")
        if isinstance(reason, dict) and reason.get("type") == "abort":
            status = _whole(reason.get("status_code")) or 500
            raise refused(status, f"aborted: {reason.get('message', '')}", self._phase)
        if not self._done and reason is None:
            raise StreamLost(f"the stream ended without its final record, after {len(self._times)} arrivals")
        tokens = _whole(meta.get(self._fields.completion_tokens))
        if tokens is None:
            text = f"the final record must hold `{self._fields.completion_tokens}`, but did not"
            raise LoadFailed(Reason.METRIC_INVALID, Evidence(text, self._phase))
        if tokens == 0 or not self._times:
            raise LoadFailed(Reason.CLIENT_NO_OUTPUT, Evidence("a request ended without any token", self._phase))
        histogram = meta.get(self._fields.accept_histogram) if self._fields.accept_histogram else None
        return Trace(
            index=index,
            prompt_id=prompt_id,
            worker=worker,
            started=started,
            times=tuple(self._times),
            counts=self._filled(tokens),
            tokens=tokens,
            verify_count=_whole(meta.get(self._fields.verify_count)),
            histogram=tuple(n for n in histogram if isinstance(n, int)) if isinstance(histogram, list) else (),
            prompt_tokens=_whole(meta.get("prompt_tokens")),
            cached_tokens=_whole(meta.get("cached_tokens")),
            finish=str(reason.get("type", "")) if isinstance(reason, dict) else "",
            output_ids=self._ids.finish(body, tokens),
        )

    def _add_by_text(self, body: dict[str, Any], now: float) -> bool:
        text = body.get("text")
        length = len(text) if isinstance(text, str) else 0
        if length <= self._text_length:
            return False
        self._text_length = length
        self._times.append(now)
        self._counts.append(None)
        return True

    def _filled(self, tokens: int) -> tuple[float, ...]:
        """Counts of all arrivals; untold ones by equal shares after a first token of its own.

        The first token comes from the prefill, alone; the passes after it bring the rest.
        """
        counted = [count for count in self._counts if count is not None]
        if len(counted) == len(self._counts):
            return tuple(float(count) for count in counted)
        steps = len(self._times) - 1
        return tuple(1 + (tokens - 1) * i / steps if steps else float(tokens) for i in range(steps + 1))

    def _decode(self, record: bytes) -> dict[str, Any]:
        try:
            body = json.loads(record)
        except ValueError as error:
            line = f"a record of the stream must be JSON, but got {record[:120]!r}"
            raise LoadFailed(Reason.METRIC_INVALID, Evidence(line, self._phase)) from error
        if not isinstance(body, dict):
            line = f"a record of the stream must be an object, but got {record[:120]!r}"
            raise LoadFailed(Reason.METRIC_INVALID, Evidence(line, self._phase))
        if "error" in body:
            raw = body["error"]
            said = raw if isinstance(raw, dict) else {"message": raw}
            # SGLang puts a ValueError of its request checks here, behind a status of 200. Once
            # tokens have come, the request was fine and something broke.
            status = _whole(said.get("code")) or (500 if self._times else 400)
            raise refused(status, str(said.get("message", raw)), self._phase)
        return body


def _whole(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None
