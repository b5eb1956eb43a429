"""Where in its life a server was: by the milestones of its log, and by the frames of a traceback."""

from __future__ import annotations

import re

ARGUMENTS = "arguments"
LOADING = "loading"
ATTENTION = "attention backend"
CAPTURE = "graph capture"
WARM_UP = "warm-up"
SERVING = "serving"

_MILESTONES = (
    (re.compile(r"^server_args="), LOADING),
    (re.compile(r"^Init torch distributed begin"), "communication set-up"),
    (re.compile(r"^Init torch distributed ends"), LOADING),
    (re.compile(r"^Load weight begin"), "loading weights"),
    (re.compile(r"^Load weight end"), "memory pools"),
    (re.compile(r"^(KV Cache is allocated|Memory pool end)"), "after memory pools"),
    (re.compile(r"^Capture .*graph.* begin"), CAPTURE),
    (re.compile(r"^Capture .*graph.* end"), "after memory pools"),
    (re.compile(r"Uvicorn running|Started server process"), WARM_UP),
    (re.compile(r"fired up and ready to roll"), SERVING),
    (re.compile(r"SEARCH_SHAPES (switched|refused|failed) "), SERVING),  # of our plugin: whatever a build said is over
)
"""In the words of 0.5.9 to 0.5.23. A draft model loads after the target's pools and graphs, so stages may go back."""

_BY_FRAME = (
    (WARM_UP, re.compile(r", in (?:event_loop_\w+|run_event_loop)\b")),
    (CAPTURE, re.compile(r"cuda_graph|, in (?:init_cuda_graphs|init_device_graphs|capture\w*|_flashinfer_autotune)\b")),
    (
        ATTENTION,
        re.compile(r"attention/\w*(?:_backend\w*|registry)\.py|, in (?:init_attention_backend|create_\w+_backend)\b"),
    ),
    ("memory pools", re.compile(r"memory_pool\w*\.py|pool_configurator\.py|, in (?:init|alloc)_memory_pools?\b")),
    ("loading weights", re.compile(r"model_loader/|, in (?:load_model|load_weights)\b")),
    (
        "communication set-up",
        re.compile(r", in (?:init_torch_distributed|init_distributed_environment|initialize_model_parallel)\b"),
    ),
    (ARGUMENTS, re.compile(r"server_args\.py|arg_groups/")),
)
"""The first that any frame of a chain shows, from what a server does last to what it does first."""


def next_stage(text: str) -> str | None:
    """The stage that a line of a log begins; None for any other line."""
    return next((stage for pattern, stage in _MILESTONES if pattern.search(text)), None)


def seen_in(frame: str) -> str | None:
    """The place that a line of a traceback shows; None where it shows none."""
    return next((place for place, pattern in _BY_FRAME if pattern.search(frame)), None)


def place_of(stage: str, seen: set[str], *, of_a_rank: bool) -> str:
    """Where an exception was thrown.

    Milestones are believed before frames, since a rank may call any code at any time. But a log may begin with the
    traceback, and no milestone says that attention backends are made.

    Args:
        stage: By the milestones so far.
        seen: Places that the frames of its chain show.
        of_a_rank: A scheduler threw it, so the arguments were read.
    """
    if ATTENTION in seen and CAPTURE not in seen and stage not in (CAPTURE, WARM_UP, SERVING):
        return ATTENTION
    if stage != ARGUMENTS or not of_a_rank:
        return stage
    return next((place for place, _ in _BY_FRAME if place in seen and place != ARGUMENTS), LOADING)
