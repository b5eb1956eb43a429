"""Inputs as careless and as hostile users give them: made by hand, and by a seeded mutation of good ones.

    python tests/e2e/hostile_inputs.py           # counts, and what each kind of input came to
    python tests/e2e/hostile_inputs.py --seed 7  # other mutants

Each is given to the command that reads it, in this process: `plan` for a study file, `run --replay` for a recorded
table, `report` for a database, what reads a server's log, and `import` for a table that somebody brings. It must end in a right answer or a clear error.
"""

from __future__ import annotations

import argparse
import json
import random
import shutil
import signal
import sqlite3
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import chdir, closing
from dataclasses import dataclass
from pathlib import Path

from typer.testing import CliRunner

from search.cli.app import app
from search.engines._decode_log import read_decode_log
from search.masking import Masker
from search.server.classify import classify, classify_stall
from search.server.scrub import scrub

ROOT = Path(__file__).parents[2]
LONGEST_S = 20
"""A case that runs longer hangs; all take a few seconds at most."""

STUDY = """\
study: lab
title: a small study
model: {target: org/target, draft: org/draft, algorithm: EAGLE3, architecture: LlamaForCausalLM, tp: 1}
hardware: {gpus: 2, kind: H200, sm: 90, memory_gib: 141, links: nvlink}
engine:
  release: 0.5.11
  prefix: [numactl, "-N0"]
  env: {NCCL_ALGO: Ring}
  server_args: {attention-backend: triton, mem-fraction-static: 0.8}
  patches: [{name: ours, lifts: [], note: none}]
  max_running_requests: 256
  boot_ceiling_minutes: 60
space: {spec_version: [v1, v2], topk: [1, 2], num_steps: [1, 2], num_draft_tokens: [tree, 4]}
objectives: {latency: 1, throughput: 100}
watch: [30]
known: [v2-k1-s2-d3]
questions: {deeper: {config: v2-k1-s2-d3, against: ["off"], at: [1, 100]}}
measure: {output_tokens: 256, output_spread: 0.5, requests_at_latency: 16, requests_per_worker: 4, repeats: 2, doubt: 0.05}
budget: {launches: 40, hours: 24, failures_in_a_row: 3}
sampler: frontier
seed: 0
simulation: {physics: generic}
assumptions: [none]
"""

VALUES = (
    ".nan", ".inf", "-.inf", "1e308", "1e999", "-1", "0", "0.0", "1e-320", "9" * 400, "null", "~", "''", "[]", "{}", "[[[]]]",
    "true", "off", "2026-01-01", "0x7fffffffffffffff", "1_000", "'\\0'", '"\\0"', '"\\e[2J"', "'../../../etc/passwd'", "'/dev/zero'",
    "'<script>alert(1)</script>'", "'=cmd()'", "'$(touch hit)'", "'%s%n'", "'\u202eabc'", "'" + "x" * 70_000 + "'", "[1, 1]",
    "[.nan, 1]", "{a: b}", "!!binary aGFsbG8=", "!!set {a, b}", "!!python/name:os.system", "*nothing", "&a [*a]", "1:30", "'\ud83d\ude00'",
    "[-1, 0, 1000000000000000000000]", "'off'", "4097", "4096", "1000000",
)  # fmt: skip

BOMB = "a: &a [x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"{new}: &{new} [{', '.join([f'*{old}'] * 9)}]\n" for old, new in zip("abcdefgh", "bcdefghi", strict=True)
)

STUDIES_BY_HAND = {
    "empty": "",
    "nul": "\0",
    "byte order mark": "\ufeff" + STUDY,
    "bomb of aliases": STUDY + BOMB,
    "title is a bomb": BOMB.replace("a: &a", "title: &a") + STUDY.replace("title: a small study\n", ""),
    "nested": "[" * 5_000,
    "nested maps": "".join(" " * n + "a:\n" for n in range(3_000)),
    "merge key": STUDY + "<<: {study: other}\n",
    "two documents": STUDY + "---\n" + STUDY,
    "tabs": STUDY.replace("  ", "\t"),
    "carriage returns": STUDY.replace("\n", "\r"),
    "number as key": STUDY + "1: 2\n",
    "list as key": STUDY + "? [a, b]\n: 2\n",
    "map as key": STUDY + "? {a: b}\n: 2\n",
    "null as key": STUDY + "~: 2\n",
    "huge space": STUDY.replace("topk: [1, 2]", f"topk: {list(range(1, 3000))}").replace(
        "num_steps: [1, 2]", f"num_steps: {list(range(1, 3000))}"
    ),
    "huge tokens": STUDY.replace("num_draft_tokens: [tree, 4]", f"num_draft_tokens: {list(range(2, 20_000))}"),
    "huge flags": STUDY.replace(
        "num_draft_tokens: [tree, 4]}",
        "num_draft_tokens: [tree], flags: {" + ", ".join(f"f{n}: [1, 2, 3, 4]" for n in range(12)) + "}}",
    ),
    "deep tree": STUDY.replace("topk: [1, 2]", "topk: [1, 99999999]").replace("num_steps: [1, 2]", "num_steps: [1, 99999999]"),
    "many known": STUDY.replace("known: [v2-k1-s2-d3]", f"known: [{', '.join(f'v1-k1-s{n}-d{n + 1}' for n in range(1, 3000))}]"),
    "all loads": STUDY.replace("watch: [30]", f"watch: {list(range(1, 257))}"),
    "own argument": STUDY.replace("attention-backend: triton", "port: 1"),
    "own argument as a flag": STUDY.replace("num_draft_tokens: [tree, 4]}", "num_draft_tokens: [tree], flags: {host: [a, b]}}"),
    "newline in a variable": STUDY.replace("NCCL_ALGO: Ring", 'NCCL_ALGO: "a\\nb"'),
    "assignment as a variable": STUDY.replace("NCCL_ALGO: Ring", "'A$(touch hit)B': x"),
    "path as a study": STUDY.replace("study: lab", "study: ../../lab"),
    "path as physics": STUDY.replace("physics: generic", "physics: ../../../../etc/passwd"),
    "device as a draft": STUDY.replace("draft: org/draft", "draft: /dev/zero"),
    "proc as a model": STUDY.replace("target: org/target", "target: /proc/self"),
    "device as an earlier recording": STUDY + "earlier: [{recording: /dev/zero}]\n",
    "tiny numbers": STUDY.replace("hours: 24", "hours: 1e-300").replace("doubt: 0.05", "doubt: 1e-300"),
    "huge hours": STUDY.replace("hours: 24", "hours: 1e300").replace("boot_ceiling_minutes: 60", "boot_ceiling_minutes: 1e300"),
    "huge work": STUDY.replace("output_tokens: 256", "output_tokens: 1000000000000000000000000").replace(
        "requests_per_worker: 4", "requests_per_worker: 1000000000000000000000000"
    ),
    "huge launches": STUDY.replace("launches: 40", "launches: 1000000000000000000000000"),
    "huge gpus": STUDY.replace("gpus: 2", "gpus: 1000000000000000000000000"),
}  # fmt: skip

CELLS = (
    "nan",
    "inf",
    "-inf",
    "1e308",
    "1e309",
    "-1",
    "0",
    "",
    "x",
    "1e-320",
    "9" * 5000,
    "\0",
    '"',
    "=1+1",
    "<b>",
    "../..",
    "1,2",
    "\u0661",
    " 1",
    "NaN",
    "1_0",
)
SQL = (
    "update search_phases set {column} = 9e999", "update search_phases set {column} = -9e999", "update search_phases set {column} = 'x'",
    "update search_phases set {column} = -1", "update search_phases set {column} = 1e308", "update search_phases set {column} = 0",
    "update search_phases set {column} = null", "update search_phases set {column} = x'00ff'", "update search_phases set {column} = 9223372036854775807",
    "update search_launches set {column} = 'x'", "update search_launches set {column} = null", "update search_launches set {column} = -1",
    "update search_launches set {column} = 9e999", "update search_launches set {column} = '[1, {{}}]'", "update search_launches set {column} = x'00ff'",
    "update search_launches set {column} = '../../../etc/passwd'", "update search_launches set {column} = '<script>=1+1'",
    "update search_studies set {column} = '{{}}'", "update search_studies set {column} = 'x'", "update search_studies set {column} = null",
    "update search_studies set {column} = '[NaN]'", "delete from search_{table}", "drop table search_{table}", "alter table search_{table} rename to other",
)  # fmt: skip


@dataclass(frozen=True)
class Case:
    """One hostile input.

    Attributes:
        kind: Of input.
        name: What is wrong with it.
        give: Gives it to what reads it, in the current folder; returns exit code and text, None for no command.
    """

    kind: str
    name: str
    give: Callable[[], tuple[int, str, BaseException | None]]


@dataclass(frozen=True)
class End:
    """What a case came to; `wrong` is empty where all is well."""

    case: Case
    answer: str
    seconds: float
    wrong: str


class Hangs(BaseException):
    """A case took longer than `LONGEST_S`."""


def asked(*words: str) -> tuple[int, str, BaseException | None]:
    done = CliRunner().invoke(app, list(words))
    error = None if isinstance(done.exception, SystemExit) else done.exception
    return done.exit_code, done.output, error


def cases(seed: int, base: Path) -> Iterator[Case]:
    """All cases; `base` holds the good inputs that are mutated, see `good_inputs`."""
    chance = random.Random(seed)
    yield from _studies(chance)
    yield from _tables(chance, base / "table")
    yield from _databases(chance, base / "trials.db")
    yield from _logs(chance)
    yield from _brought(chance)


def good_inputs(base: Path) -> None:
    """A small table and a small database."""
    with chdir(base):
        Path("lab.yaml").write_text(STUDY)
        code, text, error = asked("run", "--study", "./lab.yaml", "--simulate", "--launches", "4", "-q")
        assert code == 0, (text, error)
        code, text, error = asked("record", "--study", "lab", "--to", "table")
        assert code == 0, (text, error)
        with closing(sqlite3.connect("trials.db")) as database:  # a copy of the file must hold it all
            database.execute("pragma wal_checkpoint(truncate)")


def _studies(chance: random.Random) -> Iterator[Case]:
    def given(data: bytes) -> Callable[[], tuple[int, str, BaseException | None]]:
        def give() -> tuple[int, str, BaseException | None]:
            Path("lab.yaml").write_bytes(data)
            return asked("plan", "--study", "./lab.yaml")

        return give

    for name, text in STUDIES_BY_HAND.items():
        yield Case("study file", name, given(text.encode("utf-8", errors="surrogatepass")))
    yield Case("study file", "not UTF-8", given(STUDY.encode() + b"\xff\xfe\x00"))
    values = [*VALUES, *chance.sample(VALUES, 30)]
    spots = list(_scalars(STUDY))
    for value in values:
        start, end = chance.choice(spots)
        text = STUDY[:start] + value + STUDY[end:]
        yield Case(
            "study file", f"{STUDY[start:end]} -> {value[:30]}", given(text.encode("utf-8", errors="surrogatepass"))
        )
    for _ in range(30):
        yield Case("study file", "mutated", given(_mutant(STUDY.encode(), chance)))


def _scalars(text: str) -> Iterator[tuple[int, int]]:
    """Where the values of the study file stand."""
    import re

    for match in re.finditer(r"(?<=: )(?![\[{])[^,\]}\n]+|(?<=[\[ ])[\w./-]+(?=[,\]])", text):
        yield match.span()


def _tables(chance: random.Random, base: Path) -> Iterator[Case]:
    table, meta = (base / "measurements.csv").read_text(), json.loads((base / "meta.json").read_text())

    def given(table: str | bytes, meta: object) -> Callable[[], tuple[int, str, BaseException | None]]:
        def give() -> tuple[int, str, BaseException | None]:
            Path("rec").mkdir(exist_ok=True)
            raw = table if isinstance(table, bytes) else table.encode("utf-8", errors="surrogatepass")
            Path("rec/measurements.csv").write_bytes(raw)
            Path("rec/meta.json").write_text(meta if isinstance(meta, str) else json.dumps(meta))
            return asked("run", "--replay", "rec", "--launches", "6", "--json", "-q")

        return give

    lines = table.splitlines()
    columns = lines[0].split(",")
    for column in columns:
        for cell in chance.sample(CELLS, 3):
            rows = [line.split(",") for line in lines[1:]]
            for row in chance.sample(rows, max(1, len(rows) // 2)):
                if len(row) == len(columns):
                    row[columns.index(column)] = cell
            yield Case(
                "table", f"{column} = {cell[:20]!r}", given("\n".join([lines[0], *map(",".join, rows)]) + "\n", meta)
            )
    bare = {"name": "bare", "concurrencies": [1, 100]}
    for name, value in (
        ("name", "../../evil"), ("name", "\0"), ("name", "x" * 5000), ("name", ""), ("name", None), ("baseline", "v9"), ("baseline", 7),
        ("known", "off"), ("known", [None]), ("objectives", {"c0_output_tps": "maximize"}), ("objectives", 5), ("versions", "x"),
        ("study_file", {}), ("study_file", [1]), ("study_file", None), ("concurrencies", "x"), ("date", {"a": [1]}), ("model", float("inf")),
    ):  # fmt: skip
        yield Case("table", f"meta {name} = {str(value)[:20]}", given(table, {**meta, name: value}))
        yield Case("table", f"bare meta {name} = {str(value)[:20]}", given(table, {**bare, name: value}))
    for text in ("", "null", "[]", "NaN", "{", '{"name": NaN}', "[" * 100_000, '{"name": "a", "name": "b"}'):
        yield Case("table", f"meta is {text[:20]}", given(table, text))
    for name, text in (
        ("empty", ""), ("header alone", lines[0] + "\n"), ("no header", "\n".join(lines[1:])), ("header twice", "\n".join([lines[0], *lines])),
        ("columns twice", "\n".join(f"{line},{line}" for line in lines)), ("huge cell", table + '"' + "x" * 300_000), ("nul", table + "\0"),
    ):  # fmt: skip
        yield Case("table", name, given(text, meta))
    for _ in range(20):
        yield Case("table", "mutated", given(_mutant(table.encode(), chance), meta))


def _databases(chance: random.Random, good: Path) -> Iterator[Case]:
    def given(change: Callable[[Path], None]) -> Callable[[], tuple[int, str, BaseException | None]]:
        def give() -> tuple[int, str, BaseException | None]:
            shutil.copy(good, "trials.db")
            change(Path("trials.db"))
            return asked("report", "--study", "lab")

        return give

    with closing(sqlite3.connect(good)) as database:
        tables = {
            name: [row[1] for row in database.execute(f"pragma table_info({name})")]
            for (name,) in database.execute(
                "select name from sqlite_master where type = 'table' and name like 'search_%'"
            )
        }
    for pattern in SQL:
        table = next((name for name in tables if f" {name} " in pattern), "")
        free = [column for column in tables.get(table, ["-"]) if column not in ("id", "study_id", "launch_id", "name")]
        for column in chance.sample(free, min(3, len(free))):
            other = chance.choice(sorted(tables)).removeprefix("search_")
            statement = pattern.format(column=f'"{column}"', table=other)

            def change(path: Path, statement: str = statement) -> None:
                with closing(sqlite3.connect(path)) as database:
                    try:
                        database.execute("pragma foreign_keys = off")
                        database.execute(statement)
                        database.commit()
                    except sqlite3.Error:
                        pass  # the database itself refuses that

            yield Case("database", statement, given(change))
    for _ in range(25):
        raw = _mutant(good.read_bytes(), chance)
        yield Case("database", "mutated", given(lambda path, raw=raw: path.write_bytes(raw)))
    for name, raw in (
        ("empty", b""),
        ("text", b"hello"),
        ("header alone", good.read_bytes()[:100]),
        ("half", good.read_bytes()[:8192]),
    ):
        yield Case("database", name, given(lambda path, raw=raw: path.write_bytes(raw)))


def _logs(chance: random.Random) -> Iterator[Case]:
    def given(raw: bytes) -> Callable[[], tuple[int, str, BaseException | None]]:
        def give() -> tuple[int, str, BaseException | None]:
            log = Path("server.log")
            log.write_bytes(raw)
            try:
                reason, evidence = classify(log, exit_code=1)
                classify_stall(log, detail="nothing moved", stacks=log)
                read_decode_log(log, 0)
                scrub(log, Masker(["s3cretS3cret"]))
            except Exception as error:  # noqa: BLE001
                return 1, "", error
            return 0, f"{reason}: {evidence.root_line}", None

        return give

    good = [path.read_bytes() for path in sorted((ROOT / "tests" / "data" / "logs").rglob("*")) if path.is_file()]
    for raw in (
        b"", b"\0" * 100_000, b"\xff" * 100_000, b"\n" * 300_000, b"\r" * 300_000, b"x" * 3_000_000, b"A-" * 1_000_000, b"a=" * 500_000,
        b"http://" * 200_000, b"http://a/?" + b"&" * 500_000, b"Traceback (most recent call last):\n" * 20_000, b"[" * 500_000,
        b"[2026-01-01 00:00:00]" * 20_000, b"\x1b[" * 200_000, b"\x1b]0;" * 50_000, b"During handling of the above\n" * 20_000, b"'" * 500_000,
        b"token=" * 100_000, b"Decode batch, #running-req: " + b"9" * 5_000 + b" graph: False\n", b"] Decode batch" * 50_000, b"--a " * 200_000,
    ):  # fmt: skip
        yield Case("log", repr(raw[:20]), given(raw))
    for _ in range(30):
        yield Case("log", "mutated", given(_mutant(chance.choice(good), chance)))


BROUGHT = {
    "markdown": "words\n| bs | steps | topk | num_draft | throughput | acc len |\n| - | - | - | - | - | - |\n| 1 | 0 | 0 | 0 | 222.47 | - |\n"
    "| 64 | 3 | 3 | 8 | 1,172.99 | 2.20 |\n",
    "by load": "Throughput\nConfig | BS=1 | BS=64\n-- | -- | --\nStatic 3_1_4 | **195** | 3555\nbaseline | 90 | -\n",
    "lines": '{"max_concurrency": 4, "output_throughput": 1067.8, "mean_tpot_ms": 3.6, "tag": "v2-k1-s3-d4", "x": {"y": [1]}}\n'
    * 2,
    "curve": "pos;accept_at\n1;80%\n2;0.6\n3;0.5\n",
}


def _brought(chance: random.Random) -> Iterator[Case]:
    """Somebody's table, imported and then asked."""

    def given(raw: bytes, *more: str) -> Callable[[], tuple[int, str, BaseException | None]]:
        def give() -> tuple[int, str, BaseException | None]:
            Path("rec").write_bytes(raw)
            told = asked("import", "rec", "--to", "brought", "--source", "x", "--spec-version", "v2", *more)
            if told[0] or told[2]:
                return told
            after = asked("whatif", "--recording", "brought", "--release", "0.5.16", "v2-k1-s2-d3")
            # A table of one load answers no what-if, and says so.
            return told if after[0] == 2 and after[1].strip() and after[2] is None else after

        return give

    for name, text in BROUGHT.items():
        at = ("--at", "8") if name == "curve" else ()
        yield Case("brought", name, given(text.encode(), *at))
        for _ in range(8):
            yield Case("brought", f"{name}, mutated", given(_mutant(text.encode(), chance), *at))
        for cell in chance.sample(CELLS, 4):
            spoilt = text.replace("64", cell).replace("0.6", cell).replace("3.6", cell)
            yield Case(
                "brought", f"{name} with {cell[:20]!r}", given(spoilt.encode("utf-8", errors="surrogatepass"), *at)
            )
    for more in (
        ("--map", "="),
        ("--map", "a=b=c"),
        ("--where", "="),
        ("--config", "\x1b"),
        ("--gpus", "9" * 400 + "x H100"),
        ("--note", "\n"),
    ):
        yield Case("brought", f"words {more}", given(BROUGHT["markdown"].encode(), *more))


def _mutant(raw: bytes, chance: random.Random) -> bytes:
    """A few bytes flipped, cut out, doubled, swapped or put in."""
    data = bytearray(raw)
    for _ in range(chance.randint(1, 6)):
        if not data:
            break
        start = chance.randrange(len(data))
        end = min(len(data), start + chance.choice((1, 1, 4, 40, 400)))
        match chance.randrange(6):
            case 0:
                data[start] = chance.randrange(256)
            case 1:
                del data[start:end]
            case 2:
                data[start:start] = data[start:end] * chance.choice((1, 2, 50))
            case 3:
                data[start:start] = chance.choice(
                    (b"\0", b"\xff", b"nan", b"-", b"9" * 30, b"\n", b": ", b"'", b"inf", b"\r")
                )
            case 4:
                other = chance.randrange(len(data))
                data[start], data[other] = data[other], data[start]
            case 5:
                del data[max(1, start) :]
    return bytes(data)


def tried(case: Case, folder: Path) -> End:
    """Give a case to its reader in a folder of its own."""
    outside = folder.parent / "outside"
    outside.mkdir(exist_ok=True)
    inside = folder / "a" / "b"
    inside.mkdir(parents=True)

    def hang(*_: object) -> None:
        raise Hangs

    before = signal.signal(signal.SIGALRM, hang)
    signal.alarm(LONGEST_S)
    began = time.monotonic()
    try:
        with chdir(inside):
            code, text, error = case.give()
    except Hangs as hung:
        code, text, error = 1, "", hung
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)
    seconds = time.monotonic() - began
    return End(case, "answer" if code == 0 else f"exit {code}", seconds, _wrong(code, text, error, inside, folder))


def _wrong(code: int, text: str, error: BaseException | None, inside: Path, folder: Path) -> str:
    if error is not None:
        return f"{type(error).__name__}: {str(error)[:200]}"
    if code not in (0, 2, 3, 4):
        return f"exit code {code}"
    if "Traceback (most recent call last)" in text and code:
        return "a traceback"
    if code and not text.strip():
        return "an error without words"
    if len(text) > 200_000:
        return f"{len(text)} characters of words"
    allowed = {"lab.yaml", "trials.db", "trials.db-wal", "trials.db-shm", "reports", "rec", "server.log", "brought"}
    odd = [path for path in inside.iterdir() if path.name not in allowed]
    odd += [path for path in folder.rglob("*") if path.is_file() and not path.is_relative_to(inside)]
    odd += [path for path in folder.rglob("*") if path.name == "hit" or path.is_symlink()]
    return f"files outside: {odd[:3]}" if odd else ""


def main() -> None:
    """Print what all came to."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", default="")
    options = parser.parse_args()
    counts: Counter[str] = Counter()
    longest: dict[str, float] = {}
    with tempfile.TemporaryDirectory() as place:
        base = Path(place, "base")
        base.mkdir()
        good_inputs(base)
        for number, case in enumerate(cases(options.seed, base)):
            if options.only not in case.kind:
                continue
            end = tried(case, Path(place, str(number)))
            shutil.rmtree(Path(place, str(number)))
            counts[f"{case.kind}: {end.answer if not end.wrong else 'WRONG'}"] += 1
            longest[case.kind] = max(longest.get(case.kind, 0.0), end.seconds)
            if end.wrong or end.seconds > 3:
                print(f"{case.kind}: {case.name[:110]!r}: {end.wrong or 'slow'} ({end.seconds:.1f} s)", flush=True)
    for name, count in sorted(counts.items()):
        print(f"{count:>5}  {name}")
    print("longest:", ", ".join(f"{kind} {seconds:.1f} s" for kind, seconds in longest.items()))


if __name__ == "__main__":
    main()
