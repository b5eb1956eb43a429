"""SGLang's adaptive steps against the best single config, in real starts that take turns; `--fake` needs no GPU.

A study's report says which steps to run at which load, out of starts of one config each (`schedule.json`,
`launch/adaptive-steps.json`). Whether one server that switches does the same is another question: it captures graphs for
every step count, and no drafting inside a speculating server is not a server without speculation. Here both are started
in turn (A B, B A, …) and measured at every load of the schedule, with the study's prompts and phases.

    python -m benchmarks.schedule_race --study kimi-k25 --report reports/kimi-k25 --rounds 3 --json race.json
    python -m benchmarks.schedule_race --study lab --config v2-k1-s2-d3 --slots 1:0,30:2,100:1     # steps by hand
    python -m benchmarks.schedule_race --fake --rounds 2                                          # on the fake server
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from search.app.assembly import read_spec
from search.app.options import RunOptions
from search.config import SpecConfig
from search.contracts import LaunchPaths, PhaseResult, Slot
from search.dialects import for_release
from search.engines import SglangEngine
from search.errors import UsageError
from search.host.hardware import probe_host
from search.metrics import gain_percent, pace_ms
from search.preflight.facts import slot_gpus
from search.preflight.prompts import study_prompts
from search.spec.file import parse_study
from search.spec.study import StudySpec
from search.stats.comparison import Comparison
from search.stats.phase_readings import reading_of
from search.stats.readings import Reading
from search.stats.scatter import pooled_scatter
from search.stats.standings import Judge
from search.testing import install_fake_sglang

SINGLE, SCHEDULE = "single", "schedule"

_FAKE = """
study: schedule-race
model: {{target: models/target, draft: models/draft, algorithm: EAGLE3, architecture: LlamaForCausalLM}}
hardware: {{gpus: 1, kind: NVIDIA H200, sm: 90, memory_gib: 139, links: nvlink}}
engine:
  release: 0.5.16
  env: {{PYTHONPATH: "{site}", FAKE_SGLANG_SPEED: "3"}}
  max_running_requests: 64
space: {{spec_version: [v2], topk: [1], num_steps: [1, 2, 3], num_draft_tokens: [tree]}}
objectives: {{latency: 1, throughput: 16}}
measure: {{output_tokens: 48, requests_at_latency: 6, requests_per_worker: 3, repeats: 2}}
"""


@dataclass(frozen=True, slots=True)
class Schedule:
    """What races: a config, and the steps that run at each load in place of its own."""

    config: SpecConfig
    steps: Mapping[int, int]


def main(argv: Sequence[str] | None = None) -> int:
    """Race, print a line for each load, and write the numbers."""
    args = _arguments().parse_args(argv)
    with tempfile.TemporaryDirectory() as folder:
        if args.fake:
            site = install_fake_sglang(Path(folder) / "site", release="0.5.16")
            spec = parse_study(_FAKE.format(site=site), name="schedule-race.yaml")
            slots, config = args.slots or "1:3,8:1", args.config or "v2-k1-s3-d4"
            schedule = Schedule(SpecConfig.from_id(config), _slots(slots))
        else:
            spec = read_spec(RunOptions(here=Path.cwd(), study=args.study))
            schedule = _schedule(args)
        race_result = race(spec, schedule, rounds=args.rounds, out=args.out or Path(folder) / "starts", fake=args.fake)
    for row in race_result["loads"]:
        print(row["line"])
    if args.json:
        args.json.write_text(json.dumps(race_result, indent=1) + "\n")
    return 0


def race(spec: StudySpec, schedule: Schedule, *, rounds: int, out: Path, fake: bool) -> dict[str, Any]:
    """Start both in turn and compare them at every load of the schedule.

    Args:
        spec: The study: its release, prompts and phases.
        schedule: The config and the steps by load.
        rounds: Starts of each.
        out: Folder for logs.
        fake: No GPU is looked for.

    Raises:
        UnsupportedKnob: The release cannot run that schedule.
    """
    out.mkdir(parents=True, exist_ok=True)
    dialect = for_release(spec.engine.release)
    prompts = study_prompts(spec, spec.engine.over(os.environ))
    name, text = dialect.schedule_file(schedule.steps)
    (out / name).write_text(text)
    words = dialect.launch_args(schedule.config, spec.deployment)
    plain = (*(f"{key}={value}" for key, value in words.env.items() if value is not None), *words.flags)
    raw = {
        SINGLE: plain,
        SCHEDULE: (*plain, "--speculative-adaptive", "--speculative-adaptive-config", str((out / name).resolve())),
    }
    slot = Slot(0, () if fake else slot_gpus(spec, probe_host().gpus))
    phases: list[tuple[str, int, PhaseResult]] = []
    for number in range(rounds):
        for place, who in enumerate((SINGLE, SCHEDULE) if number % 2 == 0 else (SCHEDULE, SINGLE)):
            start = 2 * number + place + 1
            engine = SglangEngine(
                spec.deployment,
                dialect,
                prompts=prompts.own.search,
                sampling=spec.measure.sampling.load_sampling,
                raw=raw[who],
            )
            paths = LaunchPaths(out / f"{start:04d}-{who}")
            try:
                with engine.launch(schedule.config, slot=slot, paths=paths) as session:
                    for repeat in range(1, spec.measure.repeats + 1):
                        for load in schedule.steps:
                            phase = spec.measure.phase(load, warm=repeat > 1)
                            phases.append((who, start, session.measure(phase, repeat)))
            finally:
                engine.close()
    return {
        "study": spec.study,
        "release": spec.engine.release,
        "config_id": schedule.config.config_id,
        "steps_by_load": {str(load): steps for load, steps in schedule.steps.items()},
        "rounds": rounds,
        "loads": list(_rows(schedule, phases)),
    }


def _rows(schedule: Schedule, phases: Sequence[tuple[str, int, PhaseResult]]) -> Iterator[dict[str, Any]]:
    for load, steps in schedule.steps.items():
        of = pace_ms if load == 1 else (lambda phase: phase.output_tps)
        readings: dict[str, list[Reading]] = {SINGLE: [], SCHEDULE: []}
        rates: dict[str, list[float]] = {SINGLE: [], SCHEDULE: []}
        accepted: dict[str, list[float]] = {SINGLE: [], SCHEDULE: []}
        for who, start, phase in phases:
            if phase.concurrency == load:
                reading = reading_of(phase, of, start=start, slot="0", prompt_set="search", fresh=False)
                readings[who] += [] if reading is None else [reading]
                rates[who].append(phase.output_tps)
                accepted[who] += [] if phase.accept_length is None else [phase.accept_length]
        gain = Judge(pooled_scatter(readings), load != 1).gain(readings[SCHEDULE], readings[SINGLE])
        mean = {who: sum(mine) / len(mine) for who, mine in rates.items()}
        yield {
            "concurrency": load,
            "steps": steps,
            "output_tps": mean,
            "accept_length": {who: sum(mine) / len(mine) if mine else None for who, mine in accepted.items()},
            "ratio": None if gain is None else [gain.ratio, gain.lo, gain.hi],
            "assumed_scatter": gain is not None and gain.assumed,
            "line": f"C={load:<4} {steps} steps against {schedule.config.num_steps}: {_words(gain)}   "
            f"{mean[SCHEDULE]:.1f} against {mean[SINGLE]:.1f} tok/s",
        }


def _words(gain: Comparison | None) -> str:
    if gain is None:
        return "cannot be compared"
    how = "assumed scatter" if gain.assumed else "shown" if gain.separable else "not separable"
    return f"{gain_percent(gain.ratio)} [{gain_percent(gain.lo)}, {gain_percent(gain.hi)}] {how}"


def _schedule(args: argparse.Namespace) -> Schedule:
    if args.slots and args.config:
        return Schedule(SpecConfig.from_id(args.config), _slots(args.slots))
    path = args.report / "schedule.json"
    data = json.loads(path.read_text()) if path.is_file() else {}
    adaptive, single = data.get("adaptive"), data.get("single")
    if not adaptive or not single:
        why = data.get("adaptive_why_not") or "there is no such file"
        raise UsageError(
            f"A race needs the schedule of a report, but {path} has none: {why}. Name one with `--config` and `--slots`."
        )
    config = SpecConfig.from_id(single["config_id"])
    if not config.speculates:
        config = SpecConfig.from_id(adaptive["start"])
    return Schedule(config, {int(load): int(steps) for load, steps in adaptive["steps_by_load"].items()})


def _slots(text: str) -> dict[int, int]:
    try:
        found = {int(load): int(steps) for load, steps in (part.split(":") for part in text.split(","))}
    except ValueError as error:
        raise UsageError(f"`--slots` reads like `1:0,30:2,100:1`, load and steps, but got {text!r}.") from error
    return dict(sorted(found.items()))


def _arguments() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--study", help="whose release, prompts and phases are used")
    parser.add_argument("--report", type=Path, default=Path("reports"), help="folder with its schedule.json")
    parser.add_argument("--config", help="the single config, in place of the report's")
    parser.add_argument("--slots", help="load and steps, as 1:0,30:2,100:1, in place of the report's")
    parser.add_argument("--rounds", type=int, default=3, help="starts of each")
    parser.add_argument("--out", type=Path, help="folder for logs")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--fake", action="store_true", help="on the fake server")
    return parser


if __name__ == "__main__":
    raise SystemExit(main())
