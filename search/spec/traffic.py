"""How a study file says the share of the day that a service spends at each concurrency."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, TypeAlias

from pydantic import AfterValidator, BeforeValidator, Field

from search.spec.types import Concurrency

_ROUNDED = 0.011
"""By how much shares in whole percents may miss 100%."""


def share_of(value: object) -> object:
    """`2%` as 0.02; everything else as it is, for a check to refuse."""
    if isinstance(value, str) and value.strip().endswith("%"):
        try:
            return float(value.strip()[:-1]) / 100
        except ValueError:
            return value
    return value


def _loads_of_traffic(value: object) -> object:
    """Keys of JSON are text."""
    if not isinstance(value, Mapping):
        return value
    return {int(key) if isinstance(key, str) and key.isdecimal() else key: share for key, share in value.items()}


def _whole_day(shares: dict[int, float]) -> dict[int, float]:
    total = sum(shares.values())
    if shares and abs(total - 1.0) > _ROUNDED:
        raise ValueError(
            f"the shares of `traffic` must add up to 100%, but they add up to {total:.1%}; it is the share of the day at each concurrency"
        )
    return {load: shares[load] / total for load in sorted(shares)}


TrafficShares: TypeAlias = Annotated[
    dict[Concurrency, Annotated[float, BeforeValidator(share_of), Field(gt=0, le=1)]],
    BeforeValidator(_loads_of_traffic),
    AfterValidator(_whole_day),
    Field(max_length=20),
]
"""`{1: 20%, 30: 50%, 100: 30%}`: the share of the day that the service spends at each concurrency."""
