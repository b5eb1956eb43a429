"""The tables. Optuna owns `studies`, `trials` and others in the same database; ours start with `search_`."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from sqlalchemy import JSON, DateTime, ForeignKey, String, Text, TypeDecorator, UniqueConstraint
from sqlalchemy.engine import Dialect
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column, relationship

SCHEMA_VERSION = 2


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
    """One study."""

    __tablename__ = "search_studies"

    id: Mapped[int] = mapped_column(primary_key=True)
    name: Mapped[str] = mapped_column(String(255), unique=True)
    kind: Mapped[str] = mapped_column(String(16))
    spec: Mapped[dict[str, Any]]
    fingerprint: Mapped[dict[str, Any]]
    created_at: Mapped[datetime]


class LaunchRow(Base):
    """One server start. `outcome` is NULL while it runs, or when its driver died."""

    __tablename__ = "search_launches"
    __table_args__ = (UniqueConstraint("study_id", "number"),)

    id: Mapped[int] = mapped_column(primary_key=True)
    study_id: Mapped[int] = mapped_column(ForeignKey("search_studies.id", ondelete="CASCADE"))
    number: Mapped[int]
    trial: Mapped[int | None]
    stage: Mapped[str] = mapped_column(String(16))
    asked_id: Mapped[str] = mapped_column(String(255))
    config_id: Mapped[str] = mapped_column(String(255), index=True)
    asked: Mapped[dict[str, Any]]
    config: Mapped[dict[str, Any]]
    started_at: Mapped[datetime]
    outcome: Mapped[str | None] = mapped_column(String(16))
    reason: Mapped[str | None] = mapped_column(String(32))
    evidence: Mapped[dict[str, Any] | None]
    notes: Mapped[list[Any]]
    boot_s: Mapped[float | None]
    duration_s: Mapped[float | None]
    why: Mapped[str] = mapped_column(Text)
    folder: Mapped[str] = mapped_column(Text)
    slot: Mapped[int]
    effective: Mapped[dict[str, Any] | None]
    lossless: Mapped[list[Any] | None]
    phases: Mapped[list[PhaseRow]] = relationship(order_by="PhaseRow.id", cascade="all, delete-orphan")
    expected: Mapped[ExpectedRow | None] = relationship(cascade="all, delete-orphan")


class PhaseRow(Base):
    """One repeat of one phase."""

    __tablename__ = "search_phases"

    id: Mapped[int] = mapped_column(primary_key=True)
    launch_id: Mapped[int] = mapped_column(ForeignKey("search_launches.id", ondelete="CASCADE"), index=True)
    concurrency: Mapped[int]
    repeat: Mapped[int]
    requests: Mapped[int]
    requested: Mapped[int | None]
    output_tokens: Mapped[int | None]
    duration_s: Mapped[float | None]
    warmup_s: Mapped[float]
    output_tps: Mapped[float]
    whole_run_tps: Mapped[float | None]
    tpot_ms: Mapped[float | None]
    ttft_ms: Mapped[float | None]
    accept_length: Mapped[float | None]
    accept_histogram: Mapped[list[Any]]
    prompt_tpot_ms: Mapped[list[Any]]
    window_tps: Mapped[list[Any]]
    notes: Mapped[list[Any]]
    extrapolated: Mapped[bool]
    prompt_ids: Mapped[list[Any]]
    prompts_sha256: Mapped[str] = mapped_column(String(64))
    ttft_p99_ms: Mapped[float | None]
    itl_ms: Mapped[float | None]
    itl_p99_ms: Mapped[float | None]
    e2e_ms: Mapped[float | None]
    goodput_rps: Mapped[float | None]
    gpu: Mapped[dict[str, Any] | None]
    client_busy: Mapped[float | None]
    ttft_p50_ms: Mapped[float | None]
    e2e_p99_ms: Mapped[float | None]
    goodput: Mapped[float | None]
    gpus: Mapped[int | None]


class ExpectedRow(Base):
    """What was expected of a launch when it was chosen; quantiles as `[5%, 50%, 95%]`.

    `latency_ms` and `output_tps` hold the first and the second objective, whatever they are: the names are those of
    the first databases.
    """

    __tablename__ = "search_expected"

    launch_id: Mapped[int] = mapped_column(ForeignKey("search_launches.id", ondelete="CASCADE"), primary_key=True)
    latency_ms: Mapped[list[Any]]
    output_tps: Mapped[list[Any]]
    feasible: Mapped[float]
    enters_front: Mapped[float]
    gain: Mapped[float]


class OwnerRow(Base):
    """Which driver process began a launch.

    `token` is of one call: after a commit whose answer was lost, it tells that the row is there.
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
