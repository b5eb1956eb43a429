"""What a study believes about configs it has not launched, and how sure it is."""

from search.model.belief import Belief, Prior
from search.model.confounding import Confounded, confounded
from search.model.feasibility import Feasibility, Start
from search.model.observations import Observation

__all__ = [
    "Belief",
    "Confounded",
    "Feasibility",
    "Observation",
    "Prior",
    "Start",
    "confounded",
]
