"""What all parts of a study file share."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict


class Part(BaseModel):
    """A mapping of a study file: frozen, strict, and without keys that nobody knows."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)
