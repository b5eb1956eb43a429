"""The twelve numbers of the story the project starts from, as launches and a judgement."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from search.analysis.findings import (
    ConfigResult,
    FailedLaunch,
    Gain,
    Judgement,
    LoadResult,
    LoadWinner,
    Pick,
    QuestionVerdict,
)
from search.config import SpecConfig
from search.contracts import PhaseResult
from search.outcomes import Evidence, Outcome, Reason
from search.report.content import ReportContent, ServingCommand
from search.space import LockedConfig, RuleCount, SpaceSummary
from search.spec.file import parse_study
from search.stats.estimates import Estimate
from search.storage.records import LaunchRecord, StudyRecord

LOADS = (1, 30, 100, 250)
RATES = {
    "off": (92.7, 689.4, 773.1, 718.1),
    "v2-k1-s2-d3": (86.8, 759.3, 775.0, 754.4),
    "v1-k4-s3-d16": (80.9, 313.3, 353.1, 353.8),
}
SCORES = {"off": 1.0, "v2-k1-s2-d3": 0.9688, "v1-k4-s3-d16": 0.6314}
START = datetime(2026, 3, 2, 20, 0, tzinfo=UTC)

STUDY = """
study: kimi-k25
title: Kimi-K2.5 on eight RTX PRO 6000
model: {target: moonshotai/Kimi-K2.5, draft: AQ-MedAI/Kimi-K25-eagle3, algorithm: EAGLE3, tp: 8}
hardware: {gpus: 8, kind: NVIDIA RTX PRO 6000 Blackwell, sm: 120, memory_gib: 96, links: pcie}
engine: {release: 0.5.9, patches: [{name: sm120-fusion, lifts: [arf-sm120], note: "fusion on SM120"}]}
space: {spec_version: [v1, v2], topk: [1, 2, 4], num_steps: [1, 2, 3], num_draft_tokens: [tree]}
watch: [30, 250]
assumptions: ["topk 4 ran with 3 steps"]
"""


def phases(config_id: str) -> tuple[PhaseResult, ...]:
    return tuple(
        PhaseResult(
            concurrency=load, repeat=1, requests=16, output_tokens=4096, duration_s=60.0, output_tps=rate,
            whole_run_tps=rate, tpot_ms=round(1000 * load / rate, 6), ttft_ms=120.0,
            accept_length=None if config_id == "off" else 1.9,
        )
        for load, rate in zip(LOADS, RATES[config_id], strict=True)
    )  # fmt: skip


def result(config_id: str, launch: int, *, doubt: float | None = 0.01) -> ConfigResult:
    def estimate(value: float) -> Estimate:
        return Estimate(value) if doubt is None else Estimate(value, value * (1 - doubt), value * (1 + doubt))

    loads = {
        phase.concurrency: LoadResult(
            phase.concurrency, estimate(rate), estimate(phase.tpot_ms), 120.0, phase.accept_length, (), False
        )
        for phase, rate in zip(phases(config_id), RATES[config_id], strict=True)
    }
    return ConfigResult(
        SpecConfig.from_id(config_id),
        loads,
        (loads[1].tpot_ms, loads[100].rate),
        SCORES[config_id],
        (launch,),
        False,
        (),
        gains={load: Gain(rate / base) for load, rate, base in zip(LOADS, RATES[config_id], RATES["off"], strict=True)},
    )


@pytest.fixture
def judgement() -> Judgement:
    off, chain, tree = (result(config_id, number) for number, config_id in enumerate(RATES, 1))

    def winner(load: int, best: ConfigResult) -> LoadWinner:
        gain = best.gains[load]
        return LoadWinner(
            load, best.config, best.loads[load].rate, off.config, off.loads[load].rate, gain, True, (), None, False,
            compared=2, slower=load == 1,
        )  # fmt: skip

    return Judgement(
        baselines=(off,),
        results=(off, chain, tree),
        front=(off, chain),
        winners=(winner(1, off), winner(30, chain), winner(100, chain), winner(250, chain)),
        beyond=(),
        picks=(Pick(("lowest-latency", "best-score"), off), Pick(("highest-throughput", "best-at-c30"), chain)),
        failures=(
            FailedLaunch(
                4, SpecConfig.from_id("v1-k2-s2-d7"), "FAILED", "OOM_GRAPH", "config",
                "CUDA out of memory in graph capture", "launches/0004-v1-k2-s2-d7/server.log",
            ),
        ),
        verdicts=(QuestionVerdict("width-or-overlap", "not measured", "v1-k1-s2-d3 has not been measured."),),
        headlines=("At C=1 nothing beats off.", "At C=30 v2-k1-s2-d3 wins: 759 tok/s, +10.1% over off."),
    )  # fmt: skip


@pytest.fixture
def launches() -> tuple[LaunchRecord, ...]:
    measured = tuple(
        LaunchRecord(
            number=number, stage="baseline" if config_id == "off" else "known", asked=SpecConfig.from_id(config_id),
            config=SpecConfig.from_id(config_id), started_at=START + timedelta(minutes=21 * number), trial=number - 1,
            outcome=Outcome.MEASURED, boot_s=782.0, duration_s=1260.0, why="named in the study file",
            folder=f"launches/000{number}-{config_id}", phases=phases(config_id),
        )
        for number, config_id in enumerate(RATES, 1)
    )  # fmt: skip
    log = "launches/0004-v1-k2-s2-d7/server.log"
    failed = replace(
        measured[1], number=4, stage="search", asked=SpecConfig.from_id("v1-k2-s2-d7"),
        config=SpecConfig.from_id("v1-k2-s2-d7"), outcome=Outcome.FAILED, reason=Reason.OOM_GRAPH,
        evidence=Evidence("CUDA out of memory in graph capture", "graph capture", 1, log), boot_s=None,
        duration_s=840.0, phases=(), why="proposed by tpe",
    )  # fmt: skip
    return (*measured, failed)


@pytest.fixture
def content(judgement, launches) -> ReportContent:
    return ReportContent(
        spec=parse_study(STUDY, name="kimi-k25.yaml"),
        study=StudyRecord("kimi-k25.simulated", "simulated", {}, {"model": "moonshotai/Kimi-K2.5"}, START),
        launches=launches,
        judgement=judgement,
        commands={
            config_id: f"exec env \\\n  HF_HUB_OFFLINE=1 \\\n  python \\\n  --model-path 'a b' # {config_id}"
            for config_id in RATES
        },
        serving={
            config_id: ServingCommand(f"exec env \\\n  serve # {config_id}", ("prefix cache on; measured off",))
            for config_id in RATES
        },
        provenance=("fitted: twelve numbers of one host",),
        space=SpaceSummary(
            release="0.5.9",
            raw=8,
            launchable=("off", "v2-k1-s2-d3", "v1-k4-s3-d16", "v1-k2-s2-d7"),
            baselines=("off",),
            aliases=1,
            dropped=(RuleCount("tree-bound", 3, "More draft tokens than the tree can fill."),),
            locked=(LockedConfig("v2-k2-s2-d7", ("v2-topk1-only",)),),
            locked_by=(RuleCount("v2-topk1-only", 1, "v2 takes topk 1 only.", "0.5.9", "SGLang 0.5.14"),),
        ),
    )
