"""Every command of README and docs is understood; those that need no GPU and no network are run, in a folder of their own."""

import re
import shlex
import shutil
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from search.cli.app import app, run_app

ROOT = Path(__file__).parent.parent
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


RUN = {
    "README.md": [
        ("search", 'whatif --study kimi-k25 "topk=2 num_steps=2"'),
        ("search.run", "--study kimi-k25 --simulate"),
        ("search.run", "--replay recordings/h200-codelm-two-slots"),
        ("search", "report --study kimi-k25"),
    ],
    "guide.md": [
        ("search", 'init --model Qwen/Qwen3-8B --draft Tengyunw/qwen3_8b_eagle3 --gpus "1x H100"'),
        ("search", "plan --study qwen3-8b"),
        ("search", 'whatif --study qwen3-8b --brief "topk=1 num_steps=3"'),
        ("search.run", "--study qwen3-8b --simulate"),
    ],
}
"""In order: what a stranger without a GPU can type."""


@pytest.mark.slow
@pytest.mark.timeout(400)
@pytest.mark.parametrize("page", RUN)
def test_commands_of_a_page_run_in_their_order(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    shutil.copytree(ROOT / "recordings", tmp_path / "recordings")
    shown = {(program, tuple(words)) for name, program, words in COMMANDS if name == page}
    for program, line in RUN[page]:
        words = shlex.split(line)
        assert (program, tuple(words)) in shown, f"{page} no longer shows {line}"
        quick = ["--launches", "3"] if program == "search.run" and "--simulate" in words else []
        done = CliRunner().invoke(run_app if program == "search.run" else app, [*words, *quick])
        assert done.exit_code == 0, (line, done.output)
    if page == "guide.md":
        assert "REHEARSAL" in done.output
