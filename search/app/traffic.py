"""A traffic that was asked for on the command line, in place of the study file's."""

from __future__ import annotations

import re

from pydantic import TypeAdapter, ValidationError

from search.errors import UsageError
from search.spec.study import StudySpec
from search.spec.traffic import TrafficShares


def with_traffic(spec: StudySpec, text: str) -> StudySpec:
    """The same study with another traffic, such as `1:20%,30:50%,100:30%`.

    Raises:
        UsageError: It reads otherwise, or its shares do not add up.
    """
    parts = [part.split(":") for part in re.sub(r"[{}\s]", "", text).split(",") if part]
    reads = "`--traffic` reads like `1:20%,30:50%,100:30%`: the share of the day at each concurrency"
    if not parts or any(len(part) != 2 for part in parts) or len({part[0] for part in parts}) < len(parts):
        raise UsageError(f"{reads}, but got {text[:80]!r}.")
    try:
        shares = TypeAdapter(TrafficShares).validate_python({load: _share(share) for load, share in parts})
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        said = first["msg"].removeprefix("Value error, ")
        raise UsageError(f"{reads}, but got {text[:80]!r}: {said}.") from error
    return spec.model_copy(update={"traffic": shares})


def _share(text: str) -> str | float:
    try:
        return float(text)
    except ValueError:
        return text
