"""The few requests a supervisor makes itself: a first token, and the server's own account of itself."""

from __future__ import annotations

import http.client
import json
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

FIRST_PROMPT = "The quick brown fox"
_INFO_ROUTES = ("/server_info", "/get_server_info")
"""The second one is deprecated, but older builds and forks may have it alone."""

_MOST_BYTES = 16 * 2**20


@dataclass(frozen=True, slots=True)
class FirstToken:
    """What came of asking for a first token; `tokens` is 0 when none came, and `detail` says why."""

    tokens: int
    detail: str = ""


def ask_first_token(base_url: str, *, timeout_s: float) -> FirstToken:
    """Ask `/generate` for a few tokens, greedily, once the server has made its own first request; never raises.

    Until then `/health` answers 503 at once. Two first requests side by side can kill a server:
    seen with 0.5.11, whose v1 STANDALONE worker could not merge them ("Expected size 2048 but got
    size 512"). Any other answer of that route means nothing to us.
    """
    body = {"text": FIRST_PROMPT, "sampling_params": {"max_new_tokens": 4, "temperature": 0, "ignore_eos": True}}
    try:
        status, _ = _request(base_url, "GET", "/health", None, timeout_s=timeout_s)
        if status == 503:
            return FirstToken(0, "the server is still starting (/health: 503)")
        status, text = _request(base_url, "POST", "/generate", body, timeout_s=timeout_s)
    except (OSError, http.client.HTTPException) as error:
        return FirstToken(0, f"{type(error).__name__}: {error}")
    if status != 200:
        return FirstToken(0, f"HTTP {status}: {text[:300]}")
    try:
        meta = json.loads(text)["meta_info"]
        return FirstToken(int(meta["completion_tokens"]), text[:300])
    except (ValueError, KeyError, TypeError):
        return FirstToken(0, f"an answer that is not SGLang's: {text[:300]}")


def read_server_info(base_url: str, *, timeout_s: float = 10.0) -> dict[str, Any]:
    """What the server says it runs; it has just answered a request, so it need not be waited for long.

    A server that is silent on one route is not asked on the other: whoever called cannot be
    interrupted meanwhile.

    Raises:
        OSError: Neither route gave a JSON object; the text says what they gave.
    """
    problems = []
    for route in _INFO_ROUTES:
        try:
            status, text = _request(base_url, "GET", route, None, timeout_s=timeout_s)
            info = json.loads(text) if status == 200 else None
        except (OSError, http.client.HTTPException, ValueError) as error:
            problems.append(f"{route}: {type(error).__name__}: {error}")
            if isinstance(error, TimeoutError):
                break
            continue
        if isinstance(info, dict):
            return info
        problems.append(f"{route}: HTTP {status}: {text[:200]}")
    raise OSError("; ".join(problems))


def _request(base_url: str, method: str, route: str, body: object, *, timeout_s: float) -> tuple[int, str]:
    address = urlsplit(base_url)
    connection = http.client.HTTPConnection(address.hostname or "", address.port, timeout=timeout_s)
    try:
        payload = None if body is None else json.dumps(body)
        connection.request(method, route, payload, {"Content-Type": "application/json"})
        response = connection.getresponse()
        return response.status, response.read(_MOST_BYTES).decode(errors="replace")
    finally:
        connection.close()
