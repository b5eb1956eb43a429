"""The tables. Optuna owns `studies`, `trials` and others in the same database; ours start with `search_`."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, Literal, get_args, get_origin

from sqlalchemy import (
    JSON,
    Boolean,
    Column,
    DateTime,
    Double,
    ForeignKey,
    Integer,
    String,
    Table,
    Text,
    TypeDecorator,
    UniqueConstraint,
)
from sqlalchemy.engine import Dialect
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column
from sqlalchemy.types import TypeEngine

from search.storage.shapes import Shape, is_optional
from search.storage.translate import EXPECTED, LAUNCH, PHASE

SCHEMA_VERSION = 2
"""Raised only for what older tables cannot be given: new columns are added to them, see `opening`."""


class UtcDateTime(TypeDecorator[datetime]):
    """Aware datetimes in, aware UTC datetimes out; SQLite would drop the zone."""

    impl = DateTime
    cache_ok = True

    def process_bind_param(self, value: datetime | None, dialect: Dialect) -> datetime | None:  # noqa: ARG002
        """To naive UTC."""
        return value.astimezone(UTC).replace(tzinfo=None) if value else None

    def process_result_value(self, value: datetime | None, dialect: Dialect) -> datetime | None:  # noqa: ARG002
        """From naive UTC."""
        return value.replace(tzinfo=UTC) if value else None


def columns_of(shape: Shape[Any], named: Mapping[str, str] | None = None) -> list[Column[Any]]:
    """One column for each cell of a shape: plain for a plain type, JSON for all that has parts.

    Args:
        shape: What is stored.
        named: Column of a field whose name has changed since the first databases.
    """
    names = named or {}
    return [
        Column(names.get(name, name), _column_type(hint), key=name, nullable=is_optional(hint))
        for name, hint in shape.fields.items()
    ]


def _column_type(hint: Any) -> TypeEngine[Any]:
    kinds = [kind for kind in (get_args(hint) if is_optional(hint) else (hint,)) if kind is not type(None)]
    if len(kinds) == 1 and isinstance(kinds[0], type):
        for plain, column in ((bool, Boolean), (int, Integer), (float, Double), (str, Text)):
            if issubclass(kinds[0], plain):
                return column()
    if all(get_origin(kind) is Literal for kind in kinds):
        return Text()
    return JSON(none_as_null=True)


class Base(DeclarativeBase):
    """Base of our tables."""

    type_annotation_map = {  # noqa: RUF012
        dict[str, Any]: JSON(none_as_null=True),
        list[Any]: JSON(none_as_null=True),
        datetime: UtcDateTime,
    }


class MetaRow(Base):
    """Facts about our tables, such as their version."""

    __tablename__ = "search_meta"

    key: Mapped[str] = mapped_column(String(64), primary_key=True)
    value: Mapped[str] = mapped_column(Text)


class StudyRow(Base):
    """One study. `changes` counts the writes to its launches, so that a reader asks for new ones only."""

    __tablename__ = "search_studies"

    id: Mapped[int] = mapped_column(primary_key=True)
    name: Mapped[str] = mapped_column(String(255), unique=True)
    kind: Mapped[str] = mapped_column(String(16))
    spec: Mapped[dict[str, Any]]
    fingerprint: Mapped[dict[str, Any]]
    created_at: Mapped[datetime]
    changes: Mapped[int | None]


launches = Table(
    "search_launches",
    Base.metadata,
    Column("id", Integer, primary_key=True),
    Column("study_id", ForeignKey("search_studies.id", ondelete="CASCADE"), nullable=False),
    *columns_of(LAUNCH),
    Column("started_at", UtcDateTime, nullable=False),
    Column("asked_id", String(255), nullable=False),
    Column("config_id", String(255), nullable=False, index=True),
    Column("changed", Integer),
    Column("no_server", Boolean),
    UniqueConstraint("study_id", "number"),
)
"""One measurement in a server start. `outcome` is NULL while it runs, or when its driver died; `changed` is the
study's count of changes at the last one of this row; `no_server` marks a launch that cost no budget, see
`LaunchRecord.started_server`."""

phases = Table(
    "search_phases",
    Base.metadata,
    Column("id", Integer, primary_key=True),
    Column("launch_id", ForeignKey("search_launches.id", ondelete="CASCADE"), nullable=False, index=True),
    *columns_of(PHASE),
)
"""One repeat of one phase."""

expected = Table(
    "search_expected",
    Base.metadata,
    Column("launch_id", ForeignKey("search_launches.id", ondelete="CASCADE"), primary_key=True),
    *columns_of(EXPECTED, {"first": "latency_ms", "second": "output_tps"}),
)
"""What was expected of a launch when it was chosen; quantiles as `[5%, 50%, 95%]`."""


class OwnerRow(Base):
    """Which driver process began a launch.

    `token` is of one call: after a commit whose answer was lost, it shows that the row is there.
    """

    __tablename__ = "search_owners"

    launch_id: Mapped[int] = mapped_column(ForeignKey("search_launches.id", ondelete="CASCADE"), primary_key=True)
    owner: Mapped[str] = mapped_column(String(255))
    token: Mapped[str] = mapped_column(String(32), unique=True)


class ClaimRow(Base):
    """Which trial has a config to launch, over all drivers; the key lets one in."""

    __tablename__ = "search_claims"

    study_id: Mapped[int] = mapped_column(ForeignKey("search_studies.id", ondelete="CASCADE"), primary_key=True)
    config_id: Mapped[str] = mapped_column(String(255), primary_key=True)
    trial: Mapped[int]


class DriverRow(Base):
    """A driver process and its last sign of life."""

    __tablename__ = "search_drivers"

    owner: Mapped[str] = mapped_column(String(255), primary_key=True)
    beat_at: Mapped[datetime]


class NoteRow(Base):
    """What people must know of a study besides its launches."""

    __tablename__ = "search_notes"

    id: Mapped[int] = mapped_column(primary_key=True)
    study_id: Mapped[int] = mapped_column(ForeignKey("search_studies.id", ondelete="CASCADE"), index=True)
    at: Mapped[datetime]
    text: Mapped[str] = mapped_column(Text)
