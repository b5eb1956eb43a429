"""How the study's servers pick their tokens, as the study file says it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from pydantic import Field, model_validator

from search.spec.part import Part

if TYPE_CHECKING:
    from search.load.sampling import Sampling


class SamplingSpec(Part):
    """Sampling of the measured requests; greedy unless it says otherwise.

    `thinking` is told to the target's chat template; without it the model does as it is used to. Losslessness is checked
    on greedy answers whatever stands here.
    """

    temperature: Annotated[float, Field(ge=0, le=2)] = 0.0
    top_p: Annotated[float, Field(gt=0, le=1)] = 1.0
    top_k: Annotated[int, Field(ge=1, le=2**20)] | None = None
    thinking: bool | None = None

    @model_validator(mode="after")
    def _draws_or_not(self) -> SamplingSpec:
        if self.temperature == 0 and (self.top_p != 1 or self.top_k is not None):
            raise ValueError(
                "`top_p` and `top_k` change nothing at `temperature` 0, which is greedy; raise `temperature`, or take them out"
            )
        return self

    @property
    def is_greedy(self) -> bool:
        """Whether equal prompts have equal answers."""
        return self.temperature == 0

    @property
    def load_sampling(self) -> Sampling:
        """As the client takes it."""
        from search.load.sampling import Sampling

        return Sampling(self.temperature, self.top_p, self.top_k)

    @property
    def said(self) -> dict[str, object]:
        """What differs from greedy and the model's own habit, by name: its part of a fingerprint."""
        return self.model_dump(exclude_defaults=True)

    @property
    def words(self) -> str:
        """Such as `temperature 0.6, top_p 0.95, thinking on`; `greedy` where nothing is drawn."""
        names = {True: "on", False: "off"}
        parts = [
            f"{name} {names[value] if isinstance(value, bool) else format(value, 'g')}"
            for name, value in self.said.items()
            if isinstance(value, bool | int | float)
        ]
        return ", ".join([*(["greedy"] if self.is_greedy else []), *parts])
