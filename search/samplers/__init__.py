"""Which config to launch next: samplers over the finite list of valid configs."""

from search.samplers.finite import STOCK, FiniteSpaceSampler, SpaceExhausted, make_sampler
from search.samplers.knobs import distributions_of

__all__ = ["STOCK", "FiniteSpaceSampler", "SpaceExhausted", "distributions_of", "make_sampler"]
