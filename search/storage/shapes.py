"""Stored cells: a frozen dataclass as one JSON-able cell per field, by pydantic.

A shape is read off the dataclass, so a new field needs no word here. Numbers that are not finite
neither enter a cell nor leave one: an optional field is None instead, a tuple of numbers is empty,
and a value that cannot be without them is refused.
"""

from __future__ import annotations

import dataclasses
import math
import types
from collections.abc import Iterable, Mapping
from datetime import datetime
from functools import cache
from typing import Annotated, Any, Generic, NotRequired, TypeVar, Union, get_args, get_origin, get_type_hints

from pydantic import (
    FiniteFloat,
    PlainSerializer,
    PlainValidator,
    TypeAdapter,
    ValidationError,
    ValidatorFunctionWrapHandler,
    WrapValidator,
)
from typing_extensions import TypedDict  # pydantic's own demand below Python 3.12

from search.config import SpecConfig
from search.stats.estimates import Estimate

T = TypeVar("T")


class Shape(Generic[T]):
    """How values of one dataclass are stored.

    Args:
        kind: The dataclass.
        leave_out: Fields that are stored elsewhere, or not at all.
    """

    def __init__(self, kind: type[T], *, leave_out: Iterable[str] = ()) -> None:
        self.kind = kind
        hints = get_type_hints(kind)
        self.fields: dict[str, Any] = {
            field.name: hints[field.name]
            for field in dataclasses.fields(kind)  # type: ignore[arg-type]
            if field.name not in leave_out
        }
        self._optional = {name for name, hint in self.fields.items() if is_optional(hint)}
        cells = {name: NotRequired[_cell(hint)] for name, hint in self.fields.items()}
        # A mapping, not the class itself: what is left out, or not stored yet, has no cell.
        self._cells: TypeAdapter[Any] = TypeAdapter(TypedDict(kind.__name__, cells))  # type: ignore[operator]

    def plain(self, value: T) -> dict[str, Any]:
        """The cells of a value, by field name.

        Raises:
            ValidationError: A number that must be there is not finite.
        """
        data = {name: getattr(value, name) for name in self.fields}
        cells = dict(self._cells.dump_python(data, mode="json"))
        if is_finite(cells):
            return cells
        return dict(self._cells.dump_python(self._cells.validate_python(cells), mode="json"))

    def plain_or_none(self, value: T) -> dict[str, Any] | None:
        """The cells of a value; None where a number that must be there is not finite: nothing is known, then."""
        try:
            return self.plain(value)
        except ValidationError:
            return None

    def value(self, cells: Mapping[str, Any], **others: Any) -> T:
        """The value of stored cells; a missing cell, or None where the field has no None, is the field's default.

        Args:
            cells: By field name; further names are ignored.
            others: Fields that were left out of the shape.

        Raises:
            ValidationError: A cell holds what its field cannot be.
        """
        stored = {
            name: cells[name]
            for name in self.fields
            if name in cells and (cells[name] is not None or name in self._optional)
        }
        read = self._cells.validate_python(stored)
        try:
            return self.kind(**read, **others)
        except TypeError as error:  # a field without a default has no cell
            raise ValueError(str(error)) from error


def is_optional(hint: Any) -> bool:
    """Whether None is among the values of a field."""
    return type(None) in get_args(hint)


def is_finite(value: object) -> bool:
    """Whether no number in JSON-able data is infinite or no number at all."""
    if isinstance(value, float):
        return math.isfinite(value)
    if isinstance(value, Mapping):
        return all(map(is_finite, value.values()))
    return not isinstance(value, (list, tuple)) or all(map(is_finite, value))


def finite(value: Any) -> Any:
    """JSON-able data with None in place of every number that is not finite."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {key: finite(inner) for key, inner in value.items()}
    return [finite(inner) for inner in value] if isinstance(value, (list, tuple)) else value


@cache
def _shape(kind: type[Any]) -> Shape[Any]:
    return Shape(kind)


def _cell(hint: Any) -> Any:
    """The type that pydantic reads and writes for a field of type `hint`."""
    if hint in _SPECIAL:
        return _SPECIAL[hint]
    if get_origin(hint) in (Union, types.UnionType) and is_optional(hint):
        inner = [_cell(part) for part in get_args(hint) if part is not type(None)]
        return Annotated[Union[(*inner, None)], WrapValidator(_or_none)]
    if get_origin(hint) is tuple:
        parts = get_args(hint)
        if len(parts) == 2 and parts[1] is Ellipsis:
            return Annotated[tuple[_cell(parts[0]), ...], WrapValidator(_or_empty)]  # type: ignore[misc]
        return tuple[tuple(map(_cell, parts))]  # type: ignore[misc]
    if dataclasses.is_dataclass(hint):
        shape = _shape(hint)  # type: ignore[arg-type]
        return Annotated[hint, PlainValidator(shape.value), PlainSerializer(shape.plain_or_none)]
    return hint


def _or_none(value: Any, read: ValidatorFunctionWrapHandler) -> Any:
    try:
        return read(value)
    except ValidationError:
        if is_finite(value):
            raise
        return None


def _or_empty(value: Any, read: ValidatorFunctionWrapHandler) -> Any:
    try:
        return read(value)
    except ValidationError:
        if is_finite(value):
            raise
        return ()


def _estimate(cell: Any) -> Estimate:
    value, lo, hi = cell
    if not is_finite(value):
        raise ValueError("an estimate has a finite value")
    return Estimate(value, finite(lo), finite(hi))


def _estimate_cell(estimate: Estimate) -> list[float | None] | None:
    if not is_finite(estimate.value):
        return None
    return [estimate.value, finite(estimate.lo), finite(estimate.hi)]


_SPECIAL: dict[Any, Any] = {
    float: FiniteFloat,
    datetime: datetime,
    SpecConfig: Annotated[SpecConfig, PlainValidator(SpecConfig.from_params), PlainSerializer(lambda c: c.params)],
    Estimate: Annotated[Estimate, PlainValidator(_estimate), PlainSerializer(_estimate_cell)],
}
"""Types with a form of their own: a config as its knobs, an estimate as value and bounds."""
