"""Our numbers against `sglang.bench_serving`'s on one server, runs in turn; needs a GPU and SGLang.

For each config one server is launched, as a study would. On it, `--rounds` times, bench_serving
(a process of its own) and our client send the same prompts in the same order with the same output
length at concurrency 1 and at the study's throughput concurrency; who goes first changes every
round. Compared are whole-run throughput (all tokens / first request sent to last answer) and time
per output token; our steady window, with answers of mixed lengths, stands beside them.

    python benchmarks/against_bench_serving.py --study h200-lab --configs off v2-k1-s2-d3 --rounds 4
    python benchmarks/against_bench_serving.py --study h200-lab --rounds 24 --loads 100

`--holds` asks another question on the same server: how far do repeats of one phase lie apart, for
each way to start it and several numbers of requests per worker?
"""

from __future__ import annotations

import argparse
import asyncio
import json
import math
import os
import random
import statistics
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from scipy import stats

from search.config import SpecConfig
from search.contracts import LaunchPaths, Phase, PhaseResult, Slot
from search.dialects import for_release
from search.engines import SglangEngine
from search.host.hardware import probe_host
from search.load.phases import run_phase
from search.load.target import Prompt, Target
from search.preflight.prompts import study_prompts
from search.spec.file import find_study, load_study
from search.spec.study import StudySpec

SEED = 1
"""Of bench_serving, which shuffles its prompts with it; we send them in the order that gives."""

CLOSE = 0.02
"""Two tools agree when they are this close, or when their interval reaches across it."""


SHOWN_AS_MEASURED = 3
"""Rounds in which a phase as a study measures it stands beside: it takes a third of a round."""

STARTS = {"together": (False, 0.0), "staggered": (True, 0.0), "both": (True, 0.5)}
"""Ways to begin a phase: staggered or not, and the spread of its answers' lengths."""


@dataclass(frozen=True)
class Run:
    """One run of one tool: whole-run throughput in tokens per second, times in milliseconds."""

    tool: str
    concurrency: int
    round: int
    whole_run_tps: float
    tpot_ms: float
    ttft_ms: float
    accept_length: float | None
    steady_tps: float | None = None


@dataclass(frozen=True)
class Ratio:
    """Ours / theirs over paired rounds, with its 95% interval (Student's t on logarithms).

    `rounds_needed` is how many rounds an interval of ±2% would take.
    """

    config: str
    concurrency: int
    value: str
    ratio: float
    lo: float
    hi: float
    rounds: int
    rounds_needed: int
    verdict: str


def as_sent(prompts: Sequence[Prompt]) -> list[Prompt]:
    """In bench_serving's order: it seeds the global generator and shuffles once (0.5.11, datasets/custom.py)."""
    order = list(prompts)
    random.Random(SEED).shuffle(order)
    return order


async def bench_serving(
    target: Target, spec: StudySpec, prompts: Sequence[Prompt], phase: Phase, round_: int, folder: Path
) -> Run:
    """One run of `python -m sglang.bench_serving`."""
    dataset, out = folder / "prompts.jsonl", folder / f"out-{phase.concurrency}-{round_}.jsonl"
    turns = [[{"content": prompt.text}, {"content": "none"}] for prompt in prompts]
    dataset.write_text("".join(json.dumps({"conversations": turn}) + "\n" for turn in turns))
    words = [
        spec.engine.python or sys.executable, "-m", "sglang.bench_serving", "--backend", "sglang",
        "--base-url", target.base_url, "--model", spec.model.target, "--tokenizer", spec.model.target,
        "--dataset-name", "custom", "--dataset-path", str(dataset), "--num-prompts", str(phase.requests),
        "--sharegpt-output-len", str(phase.output_tokens), "--max-concurrency", str(phase.concurrency),
        "--seed", str(SEED), "--output-file", str(out), "--disable-tqdm", "--ready-check-timeout-sec", "0",
    ]  # fmt: skip
    process = await asyncio.create_subprocess_exec(
        *words,
        env={**os.environ, **spec.engine.env},
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
        start_new_session=True,
    )
    said, _ = await process.communicate()
    if process.returncode or not out.exists():
        raise SystemExit(f"bench_serving ended with {process.returncode}:\n{said.decode()[-3000:]}")
    data: dict[str, Any] = json.loads(out.read_text().splitlines()[-1])
    if data["completed"] != phase.requests:
        raise SystemExit(f"bench_serving completed {data['completed']} of {phase.requests} requests")
    return Run(
        "bench_serving",
        phase.concurrency,
        round_,
        data["output_throughput"],
        data["mean_tpot_ms"],
        data["mean_ttft_ms"],
        data.get("accept_length"),
    )


async def ours(
    tool: str, target: Target, prompts: Sequence[Prompt], phase: Phase, round_: int, log: Path | None = None
) -> Run:
    """One repeat of a phase."""
    result: PhaseResult = await run_phase(target, prompts, phase, round_, requests_log=log)
    assert result.whole_run_tps and result.tpot_ms and result.ttft_ms
    return Run(
        tool,
        phase.concurrency,
        round_,
        result.whole_run_tps,
        result.tpot_ms,
        result.ttft_ms,
        result.accept_length,
        result.output_tps,
    )


class Comparison:
    """Takes the place of `run_phase` in the engine, so that a supervised server is under both tools."""

    def __init__(
        self, spec: StudySpec, rounds: int, holds: Sequence[int], folder: Path, loads: Sequence[int] = ()
    ) -> None:
        self.runs: list[Run] = []
        self.held: list[tuple[str, int, Run]] = []
        self._spec = spec
        self._rounds = rounds
        self._holds = holds
        self._folder = folder
        self._loads = loads or spec.objective_loads

    async def __call__(
        self,
        target: Target,
        prompts: Sequence[Prompt],
        phase: Phase,  # noqa: ARG002 - the comparison has phases of its own
        repeat: int,  # noqa: ARG002
        *,
        requests_log: Path | None = None,
    ) -> PhaseResult:
        """All rounds; returns the warm-up's result, which nobody reads."""
        measure = self._spec.measure
        phases = [replace(measure.phase(load, warm=True), staggered=False, spread=0.0) for load in self._loads]
        first = None
        for load in self._loads:
            first = await run_phase(target, prompts, measure.phase(load, warm=False), 0)
        for round_ in range(self._rounds):
            for plain in phases:
                sent = as_sent(prompts[: plain.requests])
                mine = [("ours", plain)]
                if plain.concurrency > 1 and round_ < SHOWN_AS_MEASURED:
                    mine.append(("ours, as measured", measure.phase(plain.concurrency, warm=True)))
                theirs = bench_serving(target, self._spec, prompts[: plain.requests], plain, round_, self._folder)
                if round_ % 2:
                    self.runs += [await ours(name, target, sent, phase_, round_) for name, phase_ in mine]
                    self.runs.append(await theirs)
                else:
                    self.runs.append(await theirs)
                    self.runs += [await ours(name, target, sent, phase_, round_) for name, phase_ in mine]
                print(*self.runs[-len(mine) - 1 :], sep="\n", flush=True)
        loaded = phases[-1]
        for round_ in range(self._rounds if self._holds else 0):
            for per_worker in self._holds:
                for name, (staggered, spread) in STARTS.items():
                    requests = per_worker * loaded.concurrency
                    phase_ = replace(loaded, requests=requests, staggered=staggered, spread=spread)
                    run = await ours(name, target, prompts, phase_, round_, requests_log)
                    self.held.append((name, per_worker, run))
                    print(name, per_worker, run, flush=True)
        assert first is not None
        return first


def ratio(config: str, concurrency: int, value: str, ours_: Sequence[float], theirs: Sequence[float]) -> Ratio:
    """Ours / theirs with its interval."""
    logs = [math.log(a / b) for a, b in zip(ours_, theirs, strict=True)]
    mean, spread = statistics.fmean(logs), statistics.stdev(logs) if len(logs) > 1 else math.inf
    half = float(stats.t.ppf(0.975, max(1, len(logs) - 1))) * spread / math.sqrt(len(logs))
    needed = math.ceil((1.96 * spread / math.log1p(CLOSE)) ** 2) if math.isfinite(spread) else 0
    lo, hi = math.exp(mean - half), math.exp(mean + half)
    agrees = abs(math.exp(mean) - 1) <= CLOSE
    verdict = "within 2%" if agrees else "not separable" if lo <= 1 <= hi else "differs"
    return Ratio(config, concurrency, value, math.exp(mean), lo, hi, len(logs), max(2, needed), verdict)


def ratios(config: str, runs: Sequence[Run]) -> list[Ratio]:
    """Whole-run throughput and time per token at each concurrency."""
    found = []
    for load in sorted({run.concurrency for run in runs}):
        for value in ("whole_run_tps", "tpot_ms"):
            mine, theirs = (
                [getattr(r, value) for r in sorted(runs, key=lambda r: r.round) if (r.tool, r.concurrency) == (tool, load)]
                for tool in ("ours", "bench_serving")
            )  # fmt: skip
            found.append(ratio(config, load, value, mine, theirs))
    return found


def main() -> None:
    """Print the tables; write JSON if asked."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--study", required=True)
    parser.add_argument("--configs", nargs="+", default=["off"])
    parser.add_argument("--rounds", type=int, default=4)
    parser.add_argument("--loads", type=int, nargs="*", default=[], help="of the study's two; both without it")
    parser.add_argument("--holds", type=int, nargs="*", default=[], metavar="REQUESTS_PER_WORKER")
    parser.add_argument("--out", type=Path, default=Path("against"), help="folder for logs")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()

    spec = load_study(find_study(options.study, here=Path.cwd()))
    dialect = for_release(spec.engine.release)
    prompts = study_prompts(spec, os.environ).own.search
    uuids = tuple(gpu.uuid for gpu in probe_host().gpus[: spec.model.tp])
    table: dict[str, Any] = {"runs": {}, "holds": {}, "ratios": []}
    for name in options.configs:
        config = SpecConfig.from_id(name)
        with tempfile.TemporaryDirectory() as folder:
            holds = options.holds if name == "off" else ()
            comparison = Comparison(spec, options.rounds, holds, Path(folder), options.loads)
            engine = SglangEngine(spec.deployment, dialect, prompts=prompts, run_phase=comparison)
            paths = LaunchPaths(options.out / name)
            paths.root.mkdir(parents=True, exist_ok=True)
            try:
                with engine.launch(config, slot=Slot(0, uuids), paths=paths) as session:
                    session.measure(spec.measure.phase(spec.axes[0].concurrency, warm=True), 1)
            finally:
                engine.close()
        table["runs"][name] = [asdict(run) for run in comparison.runs]
        table["holds"][name] = [{"start": how, "per_worker": n, **asdict(run)} for how, n, run in comparison.held]
        found = ratios(name, comparison.runs)
        table["ratios"] += [asdict(line) for line in found]
        for line in found:
            print(
                f"{line.config:<16} C={line.concurrency:<4} {line.value:<14} ours/theirs {line.ratio:.3f} "
                f"[{line.lo:.3f}, {line.hi:.3f}] of {line.rounds} rounds: {line.verdict}; ±2% takes {line.rounds_needed}",
                flush=True,
            )
        for how in STARTS:
            for per_worker in options.holds if name == "off" else ():
                rates = [run.steady_tps or 0.0 for h, n, run in comparison.held if (h, n) == (how, per_worker)]
                spread = statistics.stdev(rates) / statistics.fmean(rates)
                print(
                    f"{name} {how:<10} {per_worker:>3} requests a worker: {statistics.fmean(rates):,.0f} tok/s, sd {spread:.1%}"
                )
        if options.json:
            options.json.write_text(json.dumps(table, indent=1) + "\n")


if __name__ == "__main__":
    main()
