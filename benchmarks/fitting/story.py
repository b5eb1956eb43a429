"""What goes into the fit to the Kimi-K2.5 story: priors, assumptions, and their reasons."""

from __future__ import annotations

from types import MappingProxyType
from typing import Final

from benchmarks.fitting.fit import Free, Held, Recipe
from search.physics.model import FittedFor, Kind

_PRIOR, _ASSUMED = Kind.PRIOR, Kind.ASSUMED

STORY: Final = Recipe(
    name="kimi-k25-story",
    about="Kimi-K2.5 INT4 on 8x RTX PRO 6000 Blackwell over PCIe, EAGLE-3, a patched SGLang 0.5.9",
    fitted_for=FittedFor(model="Kimi-K2.5", gpus="RTX PRO 6000"),
    caveats=(
        "The tree of the story has topk 4 and 16 draft tokens; its depth is not stated and taken as 3 steps.",
        "topk 1 was seen only on v2 and topk 4 only on v1: what is width and what is the worker version rests on "
        "priors. v1-k1-s2-d3 would tell.",
        "The form of the model was chosen looking at the same twelve numbers, and the uncertainty of a fitted parameter takes "
        "that form as given: a small miss there says little about other configs.",
        "No config with all-reduce fusion is among the numbers: its factor is a prior.",
        "Which passes are too large for the fast path, and what that costs, is read from gaps in the numbers "
        "between 100 and 480 tokens; configs with that many tokens at concurrency 30 or 100 are the least certain.",
    ),
    parameters=MappingProxyType(
        {
            "first_accept": Free(
                0.58,
                0.03,
                "EAGLE-3 drafts of large models get 55 to 65% of first tokens right; the numbers show only its ratio "
                "to cycle time.",
                most=0.99,
            ),
            "accept_decay": Held(
                0.92, _PRIOR, "Acceptance falls slowly with depth; one depth per width was seen.", 0.05
            ),
            "sibling_share": Free(
                0.6,
                0.12,
                "A second and third guess find about half of what the first misses; tied to the tree's speed on v1.",
                most=0.99,
            ),
            "v1_accept_loss": Held(
                0.0,
                _ASSUMED,
                "A collapse on v1 under load is a rival explanation of the tree's numbers; "
                "tokens per verify explain them without it. Members try up to a tenth per 100 requests or so.",
                0.1,
            ),
            "base_ms": Free(9.5, 3.0, "One token without speculation takes 10.8 ms at concurrency 1."),
            "request_ms": Free(0.8, 0.4, "The rise of the baseline with load, shared with `token_ms`."),
            "token_ms": Free(0.3, 0.25, "All-reduce traffic over PCIe: a few tenths of a millisecond per token."),
            "crowding": Free(0.05, 0.1, "The baseline's cost per request rises between 30 and 250 requests."),
            "bulk_ms": Free(25.0, 15.0, "A large pass leaves the path of small messages and captured graphs."),
            "bulk_tokens": Free(
                262.0,
                12.0,
                "Between 250 tokens (the baseline at 250, little harmed) and 300 (the chain at 100, harmed).",
            ),
            "bulk_width": Held(50.0, _ASSUMED, "The edge is smooth because its place is not known.", 25.0),
            "fusion_factor": Held(1.0, _PRIOR, "Fusion may help or hurt over PCIe; the numbers do not tell.", 0.08),
            "verify_ms": Free(
                6.0, 3.0, "A verify pass costs more than a decode pass: the chain loses at concurrency 1."
            ),
            "verify_growth": Held(
                0.35,
                _ASSUMED,
                "More drafts touch more experts and a larger mask, ever less so; chosen among 0.2 to 0.5 so that the "
                "accept lengths of chain and tree come out plausible.",
                0.1,
            ),
            "draft_step_ms": Held(
                0.25, _PRIOR, "Verify is 97% of a cycle, so two steps take about half a millisecond.", 0.1
            ),
            "draft_token_ms": Held(
                0.004, _PRIOR, "The draft is one layer: its share stays about 1% under load.", 0.003
            ),
            "v1_overhead_ms": Held(0.6, _PRIOR, "What is serial beside verify fits into the remaining 3%.", 0.4),
            "v1_request_ms": Held(0.01, _PRIOR, "Bookkeeping per request on the host.", 0.01),
            "v2_overhead_ms": Held(0.1, _PRIOR, "Overlapped with the pass, all but a launch.", 0.1),
            "v1_running_limit": Held(
                256,
                _ASSUMED,
                "What the study sends to every server. Capped at 48, SGLang's silent default with speculation, the tree's "
                "353.1 and 353.8 tok/s at 100 and 250 are explained as well, so members try both.",
                others=(48,),
            ),
            "v2_running_limit": Held(
                256, _ASSUMED, "What the study sends; nothing in the chain's numbers looks capped."
            ),
            "draft_token_limit": Held(None, _ASSUMED, "Memory of large trees on this deployment is not known."),
            "prefill_ms": Held(
                200.0, _PRIOR, "A prompt of some hundred tokens on this machine; no number tells.", 150.0
            ),
            "boot_s": Held(780.0, _PRIOR, "547 GB of weights: about 13 minutes.", 60.0),
            "stop_s": Held(15.0, _PRIOR, "Drain, kill, and memory back.", 10.0),
            "switch_s": Held(
                40.0,
                _ASSUMED,
                "Assumed: 5 to 11 s a shape were seen with 48 small layers on one H200; here 61 large ones on eight cards.",
            ),
            "boot_spread": Held(0.03, _PRIOR, "Disk caches differ from boot to boot."),
            "start_spread": Held(
                0.01,
                _PRIOR,
                "Starts of one config differed by 1 to 4% where they were repeated; a quiet host is assumed.",
            ),
            "repeat_spread": Held(0.007, _PRIOR, "Repeats of a quiet server agree within about 1%."),
            "prompt_spread": Held(0.06, _PRIOR, "Prompts differ in how well they draft."),
        }
    ),
)
