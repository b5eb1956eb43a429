"""Record what one SGLang release itself says of argument sets: `python record.py --tree DIR --release X`.

Run with the Python of an environment that has the release's imports (README.md lists them); the
release itself may be an unpacked wheel. For each GPU kind one process imports it once, and every case
runs in a forked child of that, so that no case sees another's environment or caches.
"""

from __future__ import annotations

import argparse
import contextlib
import datetime
import gc
import gzip
import hashlib
import io
import json
import logging
import os
import platform
import re
import subprocess
import sys
import tempfile
import traceback
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final

import architectures
import cases as case_sets
import machine
import models
import spelling

RESOLVED: Final = [
    "speculative_algorithm",
    "speculative_num_steps",
    "speculative_eagle_topk",
    "speculative_num_draft_tokens",
    "disable_overlap_schedule",
    "max_running_requests",
    "attention_backend",
    "prefill_attention_backend",
    "decode_attention_backend",
    "speculative_draft_attention_backend",
    "speculative_attention_mode",
    "page_size",
    "enable_flashinfer_allreduce_fusion",
    "flashinfer_allreduce_fusion_backend",
    "enforce_disable_flashinfer_allreduce_fusion",
    "disable_custom_all_reduce",
    "enable_torch_symm_mem",
    "enable_symm_mem",
    "enable_mscclpp",
    "enable_nccl_nvls",
    "mem_fraction_static",
    "cuda_graph_max_bs",
    "disable_cuda_graph",
    "disable_piecewise_cuda_graph",
    "enable_piecewise_cuda_graph",
    "enable_mixed_chunk",
    "chunked_prefill_size",
    "disable_radix_cache",
    "kv_cache_dtype",
    "sampling_backend",
    "speculative_adaptive",
    "speculative_use_rejection_sampling",
    "speculative_use_block_verification",
    "speculative_dflash_block_size",
    "speculative_draft_window_size",
    "speculative_draft_model_path",
    "speculative_ngram_max_bfs_breadth",
    "moe_runner_backend",
    "speculative_moe_runner_backend",
    "enable_multi_layer_eagle",
    "tp_size",
    "pp_size",
    "dp_size",
    "attn_dp_size",
    "enable_dp_attention",
    "enable_deterministic_inference",
]
"""Fields of the resolved arguments that a verdict keeps; null ones and ones the release lacks are left out."""

_TELLS: Final = re.compile(
    r"specul|overlap|spec v|adjust|reset to|overrid|disabl|fall(ing)? ?back|page.?size|attention backend|fusion|topk|MTP",
    re.IGNORECASE,
)
"""Warnings worth keeping: those that name a rewrite."""


def main() -> None:
    """Record all cases, or with `--gpu` the cases of one GPU kind, for the main process."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--release", required=True)
    parser.add_argument("--tree", type=Path, required=True, help="folder that holds `sglang/` and its dist-info")
    parser.add_argument("--out", type=Path, help="verdict file; default: <release>.jsonl.gz beside this script")
    parser.add_argument("--architectures", action="store_true", help="the cases of many architectures instead")
    parser.add_argument("--seed", type=int)
    parser.add_argument("--count", type=int, help="generated cases")
    parser.add_argument("--only-generated", action="store_true")
    parser.add_argument("--gpu", choices=machine.GPUS, help=argparse.SUPPRESS)
    asked = parser.parse_args()
    asked.tree = asked.tree.resolve()
    cases = architectures if asked.architectures else case_sets
    asked.seed = cases.SEED if asked.seed is None else asked.seed
    asked.count = cases.COUNT if asked.count is None else asked.count
    if asked.gpu:
        _record_gpu(asked)
        return
    folder = Path(__file__).parent / ("architectures" if asked.architectures else "")
    out: Path = (asked.out or folder / f"{asked.release}.jsonl.gz").resolve()
    lines: list[dict[str, Any]] = []
    headers: list[dict[str, Any]] = []
    for gpu in machine.GPUS:
        done = subprocess.run([sys.executable, *sys.argv, "--gpu", gpu], stdout=subprocess.PIPE, text=True, check=True)
        header, *verdicts = map(json.loads, done.stdout.splitlines())
        headers.append(header)
        lines += verdicts
    order = {case.case_id: place for place, case in enumerate(_cases(asked))}
    lines.sort(key=lambda line: order[line["id"]])
    header = headers[0] | {"stand_ins": sorted({name for each in headers for name in each["stand_ins"]})}
    header |= {"cases": len(lines), "accepted": sum(line["verdict"] == "accepted" for line in lines)}
    text = "".join(json.dumps(line, separators=(",", ":")) + "\n" for line in [header, *lines])
    if out.suffix == ".gz":  # no time inside, so that equal verdicts are equal bytes
        out.write_bytes(gzip.compress(text.encode(), 9, mtime=0))
    else:
        out.write_text(text)
    sys.stdout.write(f"{asked.release}: {len(lines)} verdicts, {header['accepted']} accepted -> {out}\n")


def _cases(asked: argparse.Namespace) -> list[case_sets.Case]:
    if asked.architectures:
        chosen = [] if asked.only_generated else list(architectures.all_cases())
        return [*chosen, *architectures.generated(asked.seed, asked.count)]
    chosen = [] if asked.only_generated else case_sets.chosen()
    return [*chosen, *case_sets.generated(asked.seed, asked.count)]


def _record_gpu(asked: argparse.Namespace) -> None:
    out = sys.stdout
    # Whatever the imports print must not mix with the verdicts.
    sys.stdout = sys.stderr
    with tempfile.TemporaryDirectory() as scratch:
        models.write(Path(scratch) / "models")
        case_sets.write_files(Path(scratch))
        os.chdir(scratch)
        os.environ.update(HF_HUB_OFFLINE="1", TRANSFORMERS_OFFLINE="1", OMP_NUM_THREADS="1", PYTHONWARNINGS="ignore")
        os.environ.pop("SGLANG_ENABLE_SPEC_V2", None)
        release = Release(asked.release, asked.tree, machine.GPUS[asked.gpu], Path(scratch))
        release.warm_up(models.SHAPES if asked.architectures else models.TARGETS)
        out.write(json.dumps(release.header(asked.seed)) + "\n")
        for case in _cases(asked):
            if case.gpu == asked.gpu and (verdict := release.verdict(case)) is not None:
                out.write(json.dumps(verdict) + "\n")
                out.flush()


class Release:
    """One release, imported on a machine that pretends to have `gpu`."""

    def __init__(self, name: str, tree: Path, gpu: machine.Gpu, folder: Path) -> None:
        """Import it.

        Raises:
            ImportError: The environment lacks a module of the release.
        """
        self.name, self.tree = name, tree
        # CUDA 12.9 wheels end at 0.5.10.
        old = spelling.place(name) < spelling.place("0.5.11")
        machine.pretend(gpu, cuda="12.9" if old else "13.0", folder=folder)
        self._stand_ins = machine.install_stand_ins()
        sys.path.insert(0, str(tree))
        from sglang.srt import server_args

        if not Path(server_args.__file__).is_relative_to(tree):
            raise ImportError(f"`sglang` must come from {tree}, but it is {server_args.__file__}.")
        self._server_args = server_args
        parser = argparse.ArgumentParser()
        server_args.ServerArgs.add_cli_args(parser)
        self._flags = set(parser._option_string_actions)

    def header(self, seed: int) -> dict[str, Any]:
        """What the verdicts were recorded with."""
        import torch
        import transformers

        (record,) = self.tree.glob("sglang-*.dist-info/RECORD")
        return {
            "release": self.name,
            "wheel": record.parent.name.removesuffix(".dist-info"),
            # RECORD holds the hash of every file of the wheel.
            "source_sha256": hashlib.sha256(record.read_bytes()).hexdigest(),
            "python": platform.python_version(),
            "torch": torch.__version__,
            "transformers": transformers.__version__,
            "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
            "seed": seed,
            "gpus": {name: gpu.name for name, gpu in machine.GPUS.items()},
            "stand_ins": sorted(self._stand_ins.used),
        }

    def warm_up(self, targets: Iterable[str]) -> None:
        """Resolve ordinary arguments here, so that what they import is not imported again in every child."""
        before = dict(os.environ)
        for more in (
            [],
            ["--speculative-algorithm", "EAGLE3", "--speculative-draft-model-path", "models/eagle3_llama"],
        ):
            for model in targets:
                trusted = ["--trust-remote-code", *more]
                self._resolve(["--model-path", f"models/{model}", *trusted], {}, 8)
        os.environ.clear()
        os.environ.update(before)
        gc.freeze()  # children then copy fewer pages

    def verdict(self, case: case_sets.Case) -> dict[str, Any] | None:
        """The release's answer; None where a generated case has no words in it."""
        try:
            argv, env = spelling.spell(case.knobs, self.name)
        except spelling.Inexpressible:
            return None
        argv = ["--model-path", f"models/{case.model}", "--tp-size", str(case.tp), *argv]
        if case.draft:
            argv += ["--speculative-draft-model-path", f"models/{case.draft}"]
        if not case.chosen and any(word.startswith("--") and word not in self._flags for word in argv):
            return None
        asked = {**case.as_dict(), "argv": argv, "env": env}
        return asked | _in_child(lambda: self._resolve(argv, env, case.gpus))

    def _resolve(self, argv: list[str], env: Mapping[str, str], gpus: int) -> dict[str, Any]:
        os.environ.update(env)
        machine.set_count(gpus)
        said = _Said()
        # Not on the root logger: some releases configure that anew and drop its handlers.
        logging.getLogger("sglang").addHandler(said)
        stderr = io.StringIO()
        with contextlib.redirect_stderr(stderr):
            try:
                args = self._server_args.prepare_server_args(argv)
                if hasattr(args, "resolve_once"):  # 0.5.20+ resolve apart from parsing
                    args.resolve_once()
                args.check_server_args()
            except SystemExit:
                refusal = stderr.getvalue().strip().splitlines()[-1].partition("error: ")[2]
                return {"verdict": "refused", "refusal": refusal, "error": "usage", "where": "argparse"}
            except Exception as error:  # noqa: BLE001 - any of them ends a real launch; kept with type and place
                return {
                    "verdict": "refused",
                    "refusal": (str(error).strip().splitlines() or [""])[0],
                    "error": type(error).__name__,
                    "where": self._place(error),
                    "says": said.lines,
                }
            resolved = args.resolved_dict() if hasattr(args, "resolved_dict") else vars(args)
            return {"verdict": "accepted", "resolved": self._kept(args, resolved), "says": said.lines}

    def _kept(self, args: Any, resolved: Mapping[str, Any]) -> dict[str, Any]:
        kept = {name: resolved[name] for name in RESOLVED if resolved.get(name) is not None}
        graphs = resolved.get("cuda_graph_config")
        if graphs is not None:  # 0.5.14+: one record for both phases
            decode, prefill = _part(graphs, "decode"), _part(graphs, "prefill")
            kept["cuda_graph_max_bs"] = _part(decode, "max_bs")
            kept["cuda_graph_backend_decode"] = str(_part(decode, "backend"))
            kept["cuda_graph_backend_prefill"] = str(_part(prefill, "backend"))
        kept["worker"] = self._worker(args, resolved)
        kept["SGLANG_ENABLE_SPEC_V2"] = os.environ.get("SGLANG_ENABLE_SPEC_V2")
        return {name: value for name, value in kept.items() if value is not None}

    def _worker(self, args: Any, resolved: Mapping[str, Any]) -> str | None:
        """The worker class that the scheduler would build; its own module is not needed for the name."""
        from sglang.srt.speculative.spec_info import SpeculativeAlgorithm

        algorithm = SpeculativeAlgorithm.from_string(resolved["speculative_algorithm"])
        if algorithm.is_none():
            return None
        sys.meta_path.insert(0, _Workers(()))
        view = argparse.Namespace(**{**vars(args), **resolved})
        return str(algorithm.create_worker(view)._mock_name)

    def _place(self, error: BaseException) -> str:
        """Innermost line of the release in the traceback, as `srt/server_args.py:2381`."""
        frames = traceback.extract_tb(error.__traceback__)
        inside = [frame for frame in frames if frame.filename.startswith(f"{self.tree}/sglang/")]
        if not inside:
            return "outside"
        return f"{Path(inside[-1].filename).relative_to(self.tree / 'sglang')}:{inside[-1].lineno}"


class _Workers(machine.StandIns):
    """Stand-ins for the modules of the speculative workers, which import kernels."""

    def find_spec(self, fullname: str, path: Any, target: Any = None) -> Any:  # noqa: ARG002 - the protocol's signature
        """A spec for worker modules only."""
        import importlib.machinery

        if fullname.startswith("sglang.srt.speculative.") and "worker" in fullname.rpartition(".")[2]:
            sys.modules.pop(fullname, None)
            return importlib.machinery.ModuleSpec(fullname, self, is_package=True)
        return None


class _Said(logging.Handler):
    """Keeps the first lines of warnings that name a rewrite, once each."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        line = re.sub(r"\x1b\[[0-9;]*m", "", (record.getMessage().strip().splitlines() or [""])[0])[:240]
        if _TELLS.search(line) and line not in self.lines:
            self.lines.append(line)


def _part(record: Any, name: str) -> Any:
    value = record.get(name) if isinstance(record, Mapping) else getattr(record, name)
    return getattr(value, "value", value)


def _in_child(work: Any) -> dict[str, Any]:
    """Run `work` in a forked child and hand back its dictionary.

    Raises:
        RuntimeError: The child ended without an answer: a fault of this script, never a verdict.
    """
    read, write = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(read)
        status = 1
        try:
            with os.fdopen(write, "w") as pipe:
                json.dump(work(), pipe, default=str)
            status = 0
        finally:
            if status:
                traceback.print_exc()
            os._exit(status)
    os.close(write)
    with os.fdopen(read) as pipe:
        text = pipe.read()
    if os.waitpid(pid, 0)[1] != 0 or not text:
        raise RuntimeError("A case ended without a verdict; the traceback stands above.")
    answer: dict[str, Any] = json.loads(text)
    return answer


def read(path: Path) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """Header and verdicts of a file."""
    text = gzip.decompress(path.read_bytes()).decode() if path.suffix == ".gz" else path.read_text()
    header, *lines = _objects(text.splitlines())
    return header, lines


def _objects(lines: Iterable[str]) -> list[dict[str, Any]]:
    return [json.loads(line) for line in lines]


if __name__ == "__main__":
    main()
