"""A cost model of speculative decoding: pure functions of a few named parameters."""

from search.physics.acceptance import accept_histogram, accept_length, rank_probabilities, survival
from search.physics.cost import Prediction, draft_ms, pass_ms, predict, running_requests, tree_survival
from search.physics.files import dump_physics, load_physics, parse_physics
from search.physics.model import UNITS, CostModel, FitPoint, Kind, Origin, Physics
from search.physics.provenance import fit_lines, parameter_lines, provenance, summary

__all__ = [
    "UNITS",
    "CostModel",
    "FitPoint",
    "Kind",
    "Origin",
    "Physics",
    "Prediction",
    "accept_histogram",
    "accept_length",
    "draft_ms",
    "dump_physics",
    "fit_lines",
    "load_physics",
    "parameter_lines",
    "parse_physics",
    "pass_ms",
    "predict",
    "provenance",
    "rank_probabilities",
    "running_requests",
    "summary",
    "survival",
    "tree_survival",
]
