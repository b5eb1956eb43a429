"""Load on a ready server and the numbers that come of it: client, prompts, phases, statistics."""

from search.load.doubt import Estimate, accept_drift, separable, throughput_estimate, tpot_estimate
from search.load.metrics import DRAFTS_HELP_ABOVE
from search.load.phases import measure, run_phase
from search.load.prompts import PromptSet, load_prompts
from search.load.target import Prompt, Target

__all__ = [
    "DRAFTS_HELP_ABOVE",
    "Estimate",
    "Prompt",
    "PromptSet",
    "Target",
    "accept_drift",
    "load_prompts",
    "measure",
    "run_phase",
    "separable",
    "throughput_estimate",
    "tpot_estimate",
]
