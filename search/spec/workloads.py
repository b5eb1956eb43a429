"""Prompts and workloads of a study: what is sent."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Final

from pydantic import AfterValidator, Field, field_validator

from search.spec.part import Part
from search.spec.sampling import SamplingSpec

CHAT: Final = "chat"
"""The template of the target's own tokenizer."""
MAIN: Final = "main"
"""What people call the workload that a study searches with, beside its further ones."""
MOST: Final = 8
"""Further workloads of a study."""


class PromptsSpec(Part):
    """Where prompts come from: a file (see `search.load.readers`), or the packaged set without one.

    `template` wraps each prompt; `{prompt}` marks its place. `chat` is the target's own chat template, of the tokenizer
    beside its weights, or of the folder that `tokenizer` names. `kinds` keeps only prompts of these kinds.
    """

    file: str = ""
    template: str = "{prompt}"
    tokenizer: str = ""
    kinds: tuple[Annotated[str, Field(min_length=1, max_length=64)], ...] = Field(default=(), strict=False)

    @field_validator("template")
    @classmethod
    def _has_place(cls, template: str) -> str:
        if "{prompt}" not in template and template != CHAT:
            raise ValueError(
                f"`{{prompt}}` must stand in the template, or it is `chat` for the target's own, but got {template!r}"
            )
        return template

    @property
    def said(self) -> dict[str, object]:
        """What a fingerprint tells of it besides the hash of the prompts themselves; `file` and folder may move."""
        kinds = {"kinds": ", ".join(sorted(self.kinds))} if self.kinds else {}
        return {"template": self.template, **kinds}


class WorkloadSpec(PromptsSpec):
    """Another kind of traffic that the same servers may get: its prompts, and where they differ lengths and sampling.

    Measured at the objectives' loads, on baselines, known configs and confirmations always, on others where it is cheap. The
    search goes by the study's own prompts.
    """

    output_tokens: Annotated[int, Field(ge=16)] | None = None
    sampling: SamplingSpec | None = None


def _few(workloads: Mapping[str, WorkloadSpec]) -> Mapping[str, WorkloadSpec]:
    if len(workloads) > MOST:
        raise ValueError(f"a study has at most {MOST} workloads besides its own prompts, but got {len(workloads)}")
    if MAIN in workloads:
        raise ValueError(f"{MAIN!r} is the workload of `measure.prompts`; give this one another name")
    return workloads


WorkloadName = Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9_-]*$", max_length=32)]
Workloads = Annotated[dict[WorkloadName, WorkloadSpec], AfterValidator(_few)]
