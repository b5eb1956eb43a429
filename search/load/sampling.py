"""How a server picks its tokens, as a request says it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Sampling:
    """Sampling parameters of SGLang's `/generate`.

    Attributes:
        temperature: 0 for greedy, which everything else then does not change.
        top_p: Share of the probability that is drawn from.
        top_k: Most tokens that are drawn from; None for all.
    """

    temperature: float = 0.0
    top_p: float = 1.0
    top_k: int | None = None

    @property
    def is_greedy(self) -> bool:
        """Whether equal prompts have equal answers."""
        return self.temperature == 0

    @property
    def params(self) -> dict[str, float]:
        """Under `sampling_params` of a request; what is at its default is left out."""
        if self.is_greedy:
            return {"temperature": 0}
        found: dict[str, float] = {"temperature": self.temperature}
        if self.top_p != 1:
            found["top_p"] = self.top_p
        if self.top_k is not None:
            found["top_k"] = self.top_k
        return found


GREEDY = Sampling()
