"""Other tools' clients on the null server: `sglang.bench_serving` and guidellm, where they are at hand.

bench_serving is one file inside SGLang's wheel. What sends and reads one request in it needs
aiohttp alone, so the rest it imports (tokenizers, data sets, progress bars, SGLang itself) is
stood in for, and its own function is driven as its own `benchmark` drives it: one task per
request, a semaphore for the concurrency, asyncio's default loop.
"""

from __future__ import annotations

import argparse
import asyncio
import importlib.util
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from types import ModuleType
from typing import Any

from benchmarks.null_server import MODEL, null_server

_STOOD_IN = (
    "tqdm",
    "tqdm.asyncio",
    "transformers",
    "requests",
    "sglang",
    "sglang.benchmark",
    "sglang.benchmark.datasets",
    "sglang.benchmark.datasets.mooncake",
    "sglang.benchmark.utils",
    "sglang.srt",
    "sglang.srt.disaggregation",
    "sglang.srt.disaggregation.utils",
    "sglang.srt.utils",
    "sglang.srt.utils.network",
)


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a client reported: tokens, its whole-run rate in tokens per second, its processor seconds.

    `processor_s` is None where it cannot be distinguished from the program's start-up.
    """

    tokens: int
    reported_tps: float
    processor_s: float | None


class Missing(Exception):
    """A rival is not at hand; the text says what is."""


class _StandIn(ModuleType):
    """A module in which every name exists."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        if name == "remove_prefix":
            return lambda text, prefix: text.removeprefix(prefix)
        return type(name, (), {})


def bench_serving(path: Path, url: str, *, concurrency: int, requests: int, tokens: int) -> Outcome:
    """Send `requests` with the client of the `bench_serving.py` at `path`, as its `benchmark` does.

    Raises:
        Missing: There is no such file, or it is laid out otherwise (the code moved in 0.5.15).
    """
    module = _load(path)
    module.args = argparse.Namespace(  # type: ignore[attr-defined]
        disable_ignore_eos=False,
        disable_stream=False,
        return_logprob=False,
        return_routed_experts=False,
        logprob_start_len=-1,
        top_logprobs_num=0,
        token_ids_logprob=None,
        header=None,
    )

    async def run() -> list[Any]:
        gate = asyncio.Semaphore(concurrency)

        async def one(n: int) -> Any:
            asked = module.RequestFuncInput(
                prompt=f"question number {n}",
                api_url=f"{url}/generate",
                prompt_len=64,
                output_len=tokens,
                model="null",
                lora_name=None,
                image_data=None,
                extra_request_body={},
            )
            async with gate:
                return await module.async_request_sglang_generate(asked)

        return list(await asyncio.gather(*(asyncio.create_task(one(n)) for n in range(requests))))

    spent, began = time.process_time(), time.perf_counter()
    outputs = asyncio.run(run())
    took, spent = time.perf_counter() - began, time.process_time() - spent
    if failed := [output.error for output in outputs if not output.success]:
        raise Missing(f"{len(failed)} of its {requests} requests failed: {failed[0][-200:]}")
    total = sum(output.output_len for output in outputs)
    return Outcome(total, total / took, spent)


def _load(path: Path) -> ModuleType:
    if not path.is_file():
        raise Missing(f"no file {path}; give `--bench-serving` the one of a wheel up to 0.5.14")
    before = {name: sys.modules.get(name) for name in _STOOD_IN}
    try:
        for name in _STOOD_IN:
            sys.modules[name] = _StandIn(name)
        spec = importlib.util.spec_from_file_location("bench_serving", path)
        assert spec is not None and spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        sys.modules["bench_serving"] = module  # its dataclasses look themselves up
        spec.loader.exec_module(module)
    finally:
        for name, was in before.items():
            if was is None:
                del sys.modules[name]
            else:
                sys.modules[name] = was
    if not hasattr(module, "async_request_sglang_generate"):
        raise Missing(f"{path} has no `async_request_sglang_generate`")
    return module


def guidellm(program: Path, url: str, *, concurrency: int, requests: int, tokens: int) -> Outcome:
    """Run guidellm's command on `/v1/completions`; its processor time is that of all its processes.

    Its start-up (imports) is measured with a run of one request and taken off; two start-ups differ
    by some percent, so work of less than a fifth of one is not reported.

    Raises:
        Missing: It is not installed, or does not get through.
    """
    if not program.is_file():
        raise Missing(f"no program {program}; install guidellm into an environment of its own and name it")
    start_up = _start_up_s(program)
    reported, spent = _guidellm(program, url, concurrency=concurrency, requests=requests, tokens=tokens)
    work = spent - start_up
    return Outcome(requests * tokens, reported, work if work > start_up / 5 else None)


@lru_cache
def _start_up_s(program: Path) -> float:
    with null_server(16, 0.01) as server:
        for _ in range(2):  # the first one after an installation compiles its modules
            _, spent = _guidellm(program, server.url, concurrency=1, requests=1, tokens=16)
    return spent


def _guidellm(program: Path, url: str, *, concurrency: int, requests: int, tokens: int) -> tuple[float, float]:
    """Tokens per second as it reports them, and the processor seconds of all its processes."""
    with tempfile.TemporaryDirectory() as folder:
        data, out = Path(folder, "prompts.jsonl"), Path(folder, "out.json")
        lines = ({"prompt": f"question number {n}", "output_tokens_count": tokens} for n in range(requests))
        data.write_text("".join(json.dumps(line) + "\n" for line in lines))
        command = [str(program), "run", "--disable-console"]
        command += ["--backend", f"kind=openai_http,target={url},model={MODEL},request_format=/v1/completions"]
        command += ["--profile", f"kind=concurrent,streams={concurrency}"]
        command += ["--constraint", f"kind=max_requests,count={requests}"]
        command += ["--data", f"kind=json_file,path={data}", "--output", f"kind=json,path={out}"]
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        env = {**os.environ, "HF_HUB_OFFLINE": "1", "TRANSFORMERS_OFFLINE": "1"}
        ran = subprocess.run(command, capture_output=True, text=True, env=env, check=False)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        if ran.returncode or not out.is_file():
            raise Missing(f"it ended with {ran.returncode}: {(ran.stderr or ran.stdout).strip()[-200:]}")
        metrics = json.loads(out.read_text())["benchmarks"][0]["metrics"]
        spent = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
        return float(metrics["output_tokens_per_second"]["successful"]["mean"]), spent
