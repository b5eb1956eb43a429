"""Which config to launch next: samplers over the finite list of valid configs."""

from search.samplers.doors import SAMPLERS, make_sampler
from search.samplers.finite import STOCK, FiniteSpaceSampler, SpaceExhausted
from search.samplers.frontier import WHY, FrontierSampler, Parts
from search.samplers.frontier_evidence import EVIDENCE, evidence_of
from search.samplers.frontier_outlook import Forecast, LaunchCost, Outlook
from search.samplers.knobs import distributions_of

__all__ = [
    "EVIDENCE",
    "SAMPLERS",
    "STOCK",
    "WHY",
    "FiniteSpaceSampler",
    "Forecast",
    "FrontierSampler",
    "LaunchCost",
    "Outlook",
    "Parts",
    "SpaceExhausted",
    "distributions_of",
    "evidence_of",
    "make_sampler",
]
