"""Load on a ready server and the numbers that come of it: client, prompts, phases, statistics."""

from search.load.acceptance import accept_drift, accept_estimate, accept_ratio
from search.load.doubt import (
    Estimate,
    prompts_to_tell,
    rate_of,
    ratio,
    repeat_doubt,
    separable,
    throughput_estimate,
    tpot_estimate,
)
from search.load.lossless import OutputCheck, answers_of, check_outputs, read_answers, worst, write_answers
from search.load.metrics import DRAFTS_HELP_ABOVE
from search.load.phases import measure, run_phase
from search.load.prompts import PromptSet, load_prompts
from search.load.repeats import Outlier, outliers, repeat_notes
from search.load.target import Limits, Prompt, Target

__all__ = [
    "DRAFTS_HELP_ABOVE",
    "Estimate",
    "Limits",
    "Outlier",
    "OutputCheck",
    "Prompt",
    "PromptSet",
    "Target",
    "accept_drift",
    "accept_estimate",
    "accept_ratio",
    "answers_of",
    "check_outputs",
    "load_prompts",
    "measure",
    "outliers",
    "prompts_to_tell",
    "rate_of",
    "ratio",
    "read_answers",
    "repeat_doubt",
    "repeat_notes",
    "run_phase",
    "separable",
    "throughput_estimate",
    "tpot_estimate",
    "worst",
    "write_answers",
]
