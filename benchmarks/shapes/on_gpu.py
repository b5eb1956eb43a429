"""One start through many shapes and back, and some of them started apart; needs a GPU and SGLang, `--fake` neither.

Of each shape: greedy text at C=1 (a hash), accept length, time per token at C=1 and speed at C=1, 10 and 100, with the
client that studies use; with `--batches N` also N batches of 100 requests that start together and stream nothing. The result is written after every shape, so a run that is cut off keeps what it has; what did
not fit into `--limit-s` is named under `left`.

    python benchmarks/shapes/on_gpu.py --model /tmp/models/target --draft /tmp/models/draft \\
        --prompts /tmp/models/prompts.json --out $OUT/shapes.json --limit-s 560
    python benchmarks/shapes/on_gpu.py … --apart-only            # the starts apart alone, in a second call
    python benchmarks/shapes/on_gpu.py … --prefill-graphs breakable --algorithm EAGLE3 --tp 2
    python benchmarks/shapes/on_gpu.py --fake --quick            # the same way through, on the fake server
    python benchmarks/shapes/on_gpu.py … --dry-run               # commands and order, nothing started
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import json
import os
import re
import shlex
import signal
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator, Sequence
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.shapes.batches import batch_rates, ratio_of
from search.config import SpecConfig, SpecVersion
from search.contracts import Phase, PhaseResult
from search.deployment import Deployment, Hardware
from search.dialects import for_release
from search.errors import LoadFailed
from search.load.phases import measure
from search.load.prompts import load_prompts
from search.load.target import Prompt, Target
from search.server.command import ServerCommand, server_command
from search.server.http import ask_first_token
from search.server.ports import PortBlock, fresh_ports
from search.server.shape_starts import order, smallest_start
from search.server.shape_support import new_token, shapes_environment, shapes_support
from search.server.shapes import ShapeClient
from search.shape import Shape, SwitchFailed, SwitchRefused
from search.testing import install_fake_sglang

SHAPES = "k4-s4-d16 k1-s1-d2 k1-s2-d3 k1-s3-d4 k1-s4-d5 k1-s5-d6 k2-s2-d4 k2-s2-d7 k2-s3-d8 k2-s4-d15 k2-s5-d10 k4-s2-d8 k4-s3-d16"
APART = "k4-s4-d16 k1-s2-d3 k2-s2-d7 k2-s4-d15"
GRAPH_SIZES = (1, 2, 4, 8, 16, 32, 48, 64, 80, 96, 100, 112, 128)
STOP_S = 20.0
START_S = 240.0
"""A first start compiles kernels: 114 s were seen on 0.5.16."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run it; 0 when all that was asked was measured and nothing failed."""
    args = _arguments(argv)
    shapes = [_shape(word) for word in args.shapes.split()]
    run = Run(args, shapes)
    if args.dry_run:
        run.tell_plan()
        return 0
    # Servers have sessions of their own and outlive a driver that ends without a word: let it unwind instead.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    with tempfile.TemporaryDirectory() as folder:
        if args.fake:
            install_fake_sglang(Path(folder), release=args.release)
            run.site = folder
        if not args.apart_only:
            run.in_one_start()
        for word in args.apart.split():
            run.apart(_shape(word))
    run.compare()
    return 0 if not run.results["failures"] and not run.results["left"] else 1


class Run:
    """One run: what it was asked, and its results so far."""

    def __init__(self, args: argparse.Namespace, shapes: Sequence[Shape]) -> None:
        self.args = args
        self.shapes = list(shapes)
        self.anchor = self.shapes[0]
        self.began = time.monotonic()
        self.site = ""
        self.results: dict[str, Any] = {
            "release": args.release, "algorithm": args.algorithm, "tp": args.tp, "fake": args.fake,
            "prefill_graphs": args.prefill_graphs, "anchor": str(self.anchor), "start_with": str(self.start_with),
            "one_start": [], "apart": [], "failures": [], "left": [], "comparison": {},
        }  # fmt: skip
        prompts = load_prompts(Path(args.prompts) if args.prompts else None)
        self.prompts = prompts.search

    @property
    def start_with(self) -> Shape:
        """The smallest shape that holds all of them."""
        return smallest_start(self.shapes, self.args.page_size)

    @property
    def walk(self) -> tuple[Shape, ...]:
        """The order of the one start."""
        return order(self.shapes, anchor=self.anchor, start=self.args.start)

    def tell_plan(self) -> None:
        """Print what would be started, and the order."""
        token = "0" * 32
        config, ports = _config(self.start_with), PortBlock(31000, 31001)
        command = self._command(config, ports, token)
        support = shapes_support(self.args.release, self._deployment(), config)
        print("support:", support)
        print("order:", *self.walk)
        print("apart:", self.args.apart)
        print(f"prompts: {len(self.prompts)}")
        print(
            "environment:", {name: value for name, value in command.env.items() if name != "SPEC_SEARCH_SHAPES_TOKEN"}
        )
        print(shlex.join(command.argv))

    def in_one_start(self) -> None:
        """Start once, and go through all shapes."""
        try:
            with self._server(self.start_with, "one-start") as (ports, token, boot_s):
                self.results["boot_s"] = boot_s
                client = ShapeClient(ports.http, token)
                if not client.is_there():
                    self._failed("one-start", "the plugin does not answer; look for SEARCH_SHAPES in the log")
                    return
                report = client.report()
                self.results["report"] = {
                    "start": str(report.start),
                    "refuses": report.refuses,
                    "places": dict(report.places),
                }
                for place, shape in enumerate(self.walk):
                    if not self._time_for(self.args.shape_s):
                        self.results["left"] += [f"one-start {place} {shape}" for shape in self.walk[place:]]
                        break
                    if not self._one(client, ports, shape, place):
                        break
        except (SwitchFailed, OSError, RuntimeError) as error:
            self._failed("one-start", str(error))

    def apart(self, shape: Shape) -> None:
        """Start with one shape, as a study without the plugin would, and measure it."""
        if not self._time_for(self.args.boot_s + self.args.shape_s):
            self.results["left"].append(f"apart {shape}")
            return
        try:
            with self._server(shape, f"apart-{shape}", plugin=False) as (ports, _, boot_s):
                self._add("apart", {"shape": str(shape), "boot_s": boot_s, **self._measured(ports, shape)})
        except (LoadFailed, OSError, RuntimeError) as error:
            self._failed(f"apart {shape}", str(error))

    def compare(self) -> None:
        """Beside one another: each shape that was started apart, and the anchor's places."""
        table: dict[str, Any] = {}
        for apart in self.results["apart"]:
            here = [row for row in self.results["one_start"] if row["shape"] == apart["shape"] and "c1_tpot_ms" in row]
            if not here:
                continue
            table[apart["shape"]] = {
                "greedy_text_equal": all(row["greedy_text"] == apart["greedy_text"] for row in here),
                "accept_c1": [[row["accept_c1"] for row in here], apart["accept_c1"]],
                "accept_c100": [[row["accept_c100"] for row in here], apart["accept_c100"]],
                "c1_tpot_ratio": round(median(row["c1_tpot_ms"] for row in here) / apart["c1_tpot_ms"], 4),
                "c100_tps_ratio": round(median(row["c100_tps"] for row in here) / apart["c100_tps"], 4),
            }
            ratio = ratio_of(*([rate for row in rows for rate in row.get("batch_tps", ())] for rows in (here, [apart])))
            if ratio is not None:
                found = [round(value, 4) for value in (ratio.value, ratio.low, ratio.high)]
                table[apart["shape"]]["batch_tps_ratio"] = found
        anchors = [row for row in self.results["one_start"] if row["shape"] == str(self.anchor) and "c1_tpot_ms" in row]
        table["anchor_by_place"] = {
            name: [row[name] for row in anchors]
            for name in ("place", "greedy_text", "accept_c1", "c1_tpot_ms", "c100_tps")
        }
        texts = {
            row["greedy_text"] for row in (*self.results["one_start"], *self.results["apart"]) if "greedy_text" in row
        }
        table["greedy_texts"] = sorted(texts)
        self.results["comparison"] = table
        self.results["took_s"] = round(time.monotonic() - self.began, 1)
        self._write()
        print(
            json.dumps(
                {"comparison": table, "failures": self.results["failures"], "left": self.results["left"]}, indent=1
            )
        )

    def _one(self, client: ShapeClient, ports: PortBlock, shape: Shape, place: int) -> bool:
        row: dict[str, Any] = {"place": place, "shape": str(shape), "at_s": round(time.monotonic() - self.began, 1)}
        try:
            switched = client.switch(shape, self.args.switch_s)
        except SwitchRefused as error:
            self._failed(f"switch to {shape}", str(error))
            return True
        except SwitchFailed as error:
            self._failed(f"switch to {shape}", str(error))
            return error.usable
        row |= {
            "switch_s": round(switched.seconds, 2), "built": switched.built, "memory_gb": round(switched.memory_gb, 2),
            "evicted": switched.evicted, "probe_text_same": switched.same_text, "reserve_tokens": switched.reserve_tokens,
        }  # fmt: skip
        try:
            row |= self._measured(ports, shape)
        except (LoadFailed, OSError) as error:
            self._failed(f"measuring {shape}", str(error))  # a server that is gone fails the next switch
        self._add("one_start", row)
        return True

    def _measured(self, ports: PortBlock, shape: Shape) -> dict[str, Any]:
        quick = self.args.quick
        tokens = 48 if quick else 96
        dialect = for_release(self.args.release)
        target = Target(ports.base_url, dialect.meta_fields, shape.num_steps, silence_s=60)
        loads = {1: 2 if quick else 8, 10: 10 if quick else 50, 100: 100 if quick else 300}
        row: dict[str, Any] = {"greedy_text": _greedy_text(ports, self.prompts[:4], tokens)}
        # From the highest load down: what is compiled or allocated at first use is behind us when C=1 comes.
        for load in sorted(loads, reverse=True):
            results: list[PhaseResult] = []
            for repeat in range(1 if quick else self.args.repeats if load != 10 else 1):
                warm = {1: 1, 10: 10, 100: 100}[load] if repeat == 0 else 0
                phase = Phase(load, loads[load], tokens, warmup_requests=warm, warmup_rounds=1)
                results.append(measure(target, self.prompts, phase, repeat))
            row |= {
                f"c{load}_tps": round(median(result.output_tps for result in results), 1),
                f"c{load}_tpot_ms": round(median(result.tpot_ms or 0.0 for result in results), 4),
                f"accept_c{load}": _mean_accept(results),
                f"c{load}_repeats": [
                    [round(result.output_tps, 1), round(result.tpot_ms or 0.0, 4)] for result in results
                ],
            }
        if self.args.batches:
            tokens, rounds = (24, 2) if quick else (192, self.args.batches)
            rates = batch_rates(ports.base_url, self.prompts, requests=100, tokens=tokens, rounds=rounds)
            row["batch_tps"] = [round(rate, 1) for rate in rates]
        return row

    @contextlib.contextmanager
    def _server(self, shape: Shape, name: str, *, plugin: bool = True) -> Iterator[tuple[PortBlock, str, float]]:
        """A ready server in a session of its own, ended with all its processes: (ports, token, boot seconds)."""
        ports, token = fresh_ports(), new_token()
        command = self._command(_config(shape), ports, token if plugin else "")
        log_path = Path(self.args.out).with_name(f"{Path(self.args.out).stem}-{name}.log")
        began = time.monotonic()
        with log_path.open("w") as log:
            process = subprocess.Popen(
                command.argv, env=command.environment(os.environ), stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                start_new_session=True,
            )  # fmt: skip
        try:
            while ask_first_token(ports.base_url, timeout_s=60).tokens < 1:
                if process.poll() is not None:
                    raise RuntimeError(f"{name} ended with {process.returncode} before it was ready; see {log_path}")
                if time.monotonic() - began > START_S:
                    raise RuntimeError(f"{name} was not ready within {START_S:.0f} s; see {log_path}")
                time.sleep(0.5)
            yield ports, token, round(time.monotonic() - began, 1)
        finally:
            _end(process)

    def _command(self, config: SpecConfig, ports: PortBlock, token: str) -> ServerCommand:
        deployment = self._deployment()
        command = server_command(
            config, deployment, for_release(self.args.release), ports=ports, tag=f"shapes-{ports.http}"
        )
        if not token:
            return command
        extra = shapes_environment(token, os.environ, deployment)
        extra |= {"SPEC_SEARCH_SHAPES_CAP": str(self.args.cap)}
        return ServerCommand(command.argv, {**command.env, **extra}, command.files)

    def _deployment(self) -> Deployment:
        args = self.args
        flags: dict[str, Any] = {}
        if not args.fake:
            flags = {
                "attention-backend": args.attention_backend, "sampling-backend": "pytorch", "grammar-backend": "none",
                "mem-fraction-static": args.mem_fraction, "page-size": args.page_size,
                "cuda-graph-bs-decode": GRAPH_SIZES, "cuda-graph-backend-prefill": args.prefill_graphs,
            }  # fmt: skip
        env = {"PYTHONPATH": f"{self.site}:{os.environ.get('PYTHONPATH', '')}"} if self.site else {}
        env |= {"FAKE_SGLANG_SPEED": "3"} if args.fake else {}
        return Deployment(
            args.model, args.draft, args.algorithm, args.tp, Hardware(args.gpu, args.sm, 141.0, "nvlink"), args.release,
            env=env, server_args=flags, max_running_requests=128,
        )  # fmt: skip

    def _time_for(self, seconds: float) -> bool:
        limit_s: float = self.args.limit_s
        return time.monotonic() - self.began + seconds < limit_s

    def _add(self, where: str, row: dict[str, Any]) -> None:
        self.results[where].append(row)
        print(json.dumps(row), flush=True)
        self._write()

    def _failed(self, what: str, why: str) -> None:
        self.results["failures"].append({"what": what, "why": why})
        print("FAILED", what, why, flush=True)
        self._write()

    def _write(self) -> None:
        path = Path(self.args.out)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(self.results, indent=1) + "\n", encoding="utf-8")


def _greedy_text(ports: PortBlock, prompts: Sequence[Prompt], tokens: int) -> str:
    """A hash of greedy answers, one request at a time."""
    texts = []
    for prompt in prompts:
        sampling = {"temperature": 0, "max_new_tokens": tokens, "ignore_eos": True}
        body = json.dumps({"text": prompt.text, "sampling_params": sampling}).encode()
        request = urllib.request.Request(f"{ports.base_url}/generate", body, {"Content-Type": "application/json"})
        with urllib.request.urlopen(request, timeout=120) as answer:
            texts.append(json.load(answer)["text"])
    return hashlib.sha256("\0".join(texts).encode()).hexdigest()[:12]


def _mean_accept(results: Sequence[PhaseResult]) -> float | None:
    known = [result.accept_length for result in results if result.accept_length is not None]
    return round(sum(known) / len(known), 4) if known else None


def _end(process: subprocess.Popen[bytes]) -> None:
    """End the whole session that the server was started in."""
    for sign in (signal.SIGTERM, signal.SIGKILL):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, sign)
        deadline = time.monotonic() + STOP_S
        while time.monotonic() < deadline:
            process.poll()
            try:
                os.killpg(process.pid, 0)
            except ProcessLookupError:
                return
            time.sleep(0.2)


def _config(shape: Shape) -> SpecConfig:
    return SpecConfig(SpecVersion.V2, *shape.numbers)


def _shape(word: str) -> Shape:
    match = re.fullmatch(r"k(\d+)-s(\d+)-d(\d+)", word)
    if match is None:
        raise SystemExit(f"A shape reads like `k2-s2-d7`, but got {word!r}.")
    return Shape(*map(int, match.groups()))


def _arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="/tmp/models/target")
    parser.add_argument("--draft", default="/tmp/models/draft")
    parser.add_argument("--algorithm", default="STANDALONE", choices=("STANDALONE", "EAGLE", "EAGLE3"))
    parser.add_argument("--release", default="0.5.16")
    parser.add_argument("--prompts", help="JSON lines or ShareGPT; those shipped with the project where left out")
    parser.add_argument(
        "--shapes", default=SHAPES, help="the first one is the anchor: measured at both ends and in the middle"
    )
    parser.add_argument("--apart", default=APART, help="shapes started apart, after the one start")
    parser.add_argument("--apart-only", action="store_true", help="leave the one start out")
    parser.add_argument("--start", type=int, default=0, help="number of the start: odd ones walk backwards")
    parser.add_argument("--repeats", type=int, default=2, help="at C=1 and C=100")
    parser.add_argument("--batches", type=int, default=0, help="of 100 requests, without streams, per visit")
    parser.add_argument("--tp", type=int, default=1)
    parser.add_argument("--attention-backend", default="triton")
    parser.add_argument("--page-size", type=int, default=1)
    parser.add_argument(
        "--prefill-graphs", default="disabled", choices=("disabled", "breakable", "tc_piecewise", "full")
    )
    parser.add_argument("--mem-fraction", type=float, default=0.5)
    parser.add_argument("--cap", type=int, default=16, help="shapes the plugin keeps")
    parser.add_argument("--gpu", default="NVIDIA H200")
    parser.add_argument("--sm", type=int, default=90)
    parser.add_argument("--out", default="shapes.json", help="JSON, renewed after every shape; logs lie beside it")
    parser.add_argument("--limit-s", type=float, default=560.0, help="begin nothing that may not end before this")
    parser.add_argument("--switch-s", type=float, default=120.0, help="longest switch")
    parser.add_argument("--shape-s", type=float, default=30.0, help="expected for one shape")
    parser.add_argument("--boot-s", type=float, default=60.0, help="expected for one start")
    parser.add_argument("--quick", action="store_true", help="a few short requests: is the way through, no numbers")
    parser.add_argument("--fake", action="store_true", help="the fake server of `search.testing`")
    parser.add_argument("--dry-run", action="store_true")
    return parser.parse_args(argv)


if __name__ == "__main__":
    sys.exit(main())
