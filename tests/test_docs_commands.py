"""Every command of README and docs is understood; those that need no GPU and no network are run, in a folder of their own."""

import re
import shlex
import shutil
from dataclasses import dataclass
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from search.cli.app import app, run_app

ROOT = Path(__file__).parent.parent
CHECKPOINTS = ROOT / "tests" / "data" / "checkpoints"
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
BLOCK = re.compile(r"^```\w*\n(.*?)^```", re.MULTILINE | re.DOTALL)
INLINE = re.compile(r"`(python -m search[^`\n]+)`")
COMMAND = re.compile(r"(?:\S*/)?python -m (search(?:\.run)?)(\s.*)?$")


def commands():
    """(page, program, words) of every command of ours, in the order of the pages."""
    for page in PAGES:
        text = page.read_text(encoding="utf-8")
        lines = [line for block in BLOCK.findall(text) for line in block.splitlines()]
        for line in (*lines, *INLINE.findall(text)):
            found = COMMAND.match(line.strip().removeprefix("$ "))
            if found:
                # Brackets in prose mark what may be left out; here it is not.
                words = shlex.split((found[2] or "").translate({91: None, 93: None}), comments=True)
                redirected = words.index("<") if "<" in words else len(words)
                yield page.name, found[1], words[:redirected]


COMMANDS = list(commands())
NAMES = [f"{page}: {program} {' '.join(words)}" for page, program, words in COMMANDS]


def test_docs_show_commands():
    assert len(COMMANDS) > 20


@pytest.mark.parametrize(("page", "program", "words"), COMMANDS, ids=NAMES)
def test_command_of_the_docs_is_understood(page, program, words):
    group = typer.main.get_command(run_app if program == "search.run" else app)
    if any(word in ("...", "…") for word in words):
        words = [word for word in words if word not in ("...", "…")]
    command = group
    if hasattr(group, "commands"):
        assert words and words[0] in group.commands, f"{page} names no command of ours: {words}"
        command, words = group.commands[words[0]], words[1:]
    if words or program == "search.run":  # else it is named in prose, not shown
        command.make_context("search", list(words), resilient_parsing=False)


SERVE = (
    "python -m sglang.launch_server --model-path Qwen/Qwen3-8B --speculative-algorithm EAGLE3 "
    "--speculative-draft-model-path Tengyunw/qwen3_8b_eagle3 --speculative-num-steps 3 --speculative-eagle-topk 1 "
    "--speculative-num-draft-tokens 4"
)
THREE = [f"recordings/h200-codelm-{name}" for name in ("0.5.11", "mixed", "two-slots")]
TABLE = "Throughput:\n\n| config | C=1 | C=32 |\n|---|---|---|\n| off | 100 | 900 |\n| v1-k1-s2-d3 | 130 | 950 |\n"


@dataclass(frozen=True)
class Shown:
    """A command as the pages show it, and how it is run here."""

    line: str
    typed: list[str] | None = None
    """In its place, where it holds a name of the reader's own."""
    program: str = "search"
    ends: int = 0
    says: str = ""


RUN = {
    "a model of one's own": [
        Shown(
            'init --model Qwen/Qwen3-8B --draft Tengyunw/qwen3_8b_eagle3 --gpus "1x H100"', says="spaces/qwen3-8b.yaml"
        ),
        Shown("plan --study qwen3-8b", says="launches"),
        Shown('whatif --study qwen3-8b --brief "topk=1 num_steps=3"', says="Expect:"),
        Shown("doctor --study qwen3-8b", says="target weights", ends=3),
        Shown("--study qwen3-8b --simulate", program="search.run", says="REHEARSAL"),
        Shown("plan --study NAME", ["plan", "--study", "qwen3-8b"]),
        Shown("plan", ["plan", "--study", "qwen3-8b"]),
        Shown("doctor --study NAME", ["doctor", "--study", "qwen3-8b"], ends=3),
        Shown("doctor --study X", ["doctor", "--study", "qwen3-8b"], ends=3),
        Shown(
            "init --model PATH --draft PATH",
            ["init", "--model", "weights/target", "--draft", "weights/draft", "--gpus", "8x H200", "--name", "mine"],
            says="spaces/mine.yaml",
        ),
        Shown(
            "init --command TEXT|FILE --release X.Y.Z",
            ["init", "--command", SERVE, "--release", "0.5.16", "--gpus", "1x H100", "--name", "pasted"],
            says="spaces/pasted.yaml",
        ),
        Shown("whatif --command TEXT", ["whatif", "--command", SERVE, "--gpus", "1x H100"], says="v2-k1-s3-d4"),
    ],
    "the shipped study": [
        Shown('whatif --study kimi-k25 "topk=2 num_steps=2"', says="Legal:"),
        Shown("--study kimi-k25 --simulate", program="search.run", says="SIMULATED"),
        Shown("report --study kimi-k25", says="by the cost model"),
        Shown(
            "ab CONFIG_A CONFIG_B --study NAME --simulate",
            ["ab", "v2-k1-s2-d3", "v2-k2-s2-d7", "--study", "kimi-k25-switching", "--simulate"],
        ),
        Shown(
            "report --study X --traffic 1:60%,30:40%", ["report", "--study", "kimi-k25", "--traffic", "1:60%,30:40%"]
        ),
        Shown('whatif --study NAME "topk=2 num_steps=2"', ["whatif", "--study", "kimi-k25", "topk=2 num_steps=2"]),
        Shown(
            "record --study NAME --to recordings/NAME",
            ["record", "--study", "kimi-k25.simulated", "--to", "recordings/told"],
        ),
        Shown(
            "record --study qwen3-8b --to recordings/qwen3-8b",
            ["record", "--study", "kimi-k25.simulated", "--to", "recordings/again"],
        ),
        Shown("--replay recordings/NAME", ["--replay", "recordings/told"], program="search.run", says="recording"),
        Shown("clean", ["clean", "--dry-run"]),
        Shown("clean --scrub", says="no secrets found"),
    ],
    "tables": [
        Shown("--replay recordings/h200-codelm-two-slots", program="search.run", says="of a recording"),
        Shown("compare recordings/h200-codelm-0.5.11 recordings/h200-codelm-mixed", says="decision at C=1"),
        Shown("compare A B C", ["compare", *THREE], says="decision at C=1"),
        Shown("compare kimi-k25-0.5.11 kimi-k25-0.5.13 kimi-k25-0.5.16", ["compare", *THREE]),
        Shown(
            "import TABLE.md --to recordings/mine --source LINK",
            [
                "import",
                "table.md",
                "--to",
                "recordings/mine",
                "--source",
                "https://example.org/1",
                "--spec-version",
                "v1",
            ],
        ),
        Shown(
            "import - --to recordings/mine --source https://github.com/…/issues/339 --spec-version v1",
            ["import", "-", "--to", "recordings/mine2", "--source", "https://example.org/2", "--spec-version", "v1"],
        ),
        Shown(
            'whatif --recording recordings/mine --release 0.5.11 "topk=1 num_steps=2"',
            ["whatif", "--recording", "recordings/mine", "--release", "0.5.11", "topk=1 num_steps=2"],
            says="Legal:",
        ),
    ],
}
"""In order, each list in a folder of its own: all that needs no GPU, no cluster and no SGLang."""

NOT_RUN = {
    "--study NAME": "servers on GPUs",
    "--study qwen3-8b": "servers on GPUs",
    "--study qwen3-8b --ray-address FIRST_NODE:6379": "a Ray cluster; tests/cluster runs one",
    "try --study qwen3-8b off": "a server on a GPU; tests/e2e runs one on the fake server",
    "try": "named in prose",
    "import": "named in prose",
    "dashboard": "answers until it is interrupted; tests/cli/test_cli_dashboard_browser.py starts it",
    "dialect --from ENVIRONMENT": "an installed SGLang; tests/cli/test_cli_dialect.py has a made-up one",
    "links --study kimi-k25": "GPUs; tests/study/test_study_links.py has made-up ones",
}
"""What is parsed only, and why."""


def shown_lines():
    return {tuple(word for word in words if word not in ("...", "…")) for _, _, words in COMMANDS}


def test_every_command_of_the_docs_is_run_or_said_why_not():
    told = [tuple(shlex.split(one.line)) for steps in RUN.values() for one in steps]
    told += [tuple(shlex.split(line)) for line in NOT_RUN]
    assert set(told) == shown_lines(), "RUN and NOT_RUN name each shown command once"
    assert len(told) == len(set(told))


@pytest.mark.slow
@pytest.mark.timeout(400)
@pytest.mark.parametrize("about", RUN)
def test_commands_of_the_docs_run_in_their_order(about, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    shutil.copytree(ROOT / "recordings", tmp_path / "recordings")
    shutil.copytree(CHECKPOINTS / "target-glm52", tmp_path / "weights" / "target")
    shutil.copytree(CHECKPOINTS / "draft-llama-eagle3-kimi", tmp_path / "weights" / "draft")
    (tmp_path / "table.md").write_text(TABLE)
    for one in RUN[about]:
        words = one.typed or shlex.split(one.line)
        quick = ["--launches", "3"] if "--simulate" in words and words[0] != "ab" else []
        piped = TABLE if "-" in words else None
        done = CliRunner().invoke(run_app if one.program == "search.run" else app, [*words, *quick], input=piped)
        assert done.exit_code == one.ends, (one.line, done.output)
        assert one.says in done.output, (one.line, done.output)
