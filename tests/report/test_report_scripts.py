"""The folder of launch scripts: ours are renewed and go, a person's own stay, through links too; all are sound shell."""

import json
import os
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from search.report.files import MANIFEST, write_report, write_tables
from search.server.command import ServerCommand

MINE = "#!/bin/sh\necho mine\n"


def ours(folder):
    return sorted(path.name for path in (folder / "launch").glob("*.sh"))


def without_picks(content):
    return replace(content, judgement=replace(content.judgement, picks=()))


def test_persons_own_script_is_neither_deleted_nor_overwritten(content, tmp_path):
    write_tables(tmp_path, content)
    made = ours(tmp_path)
    assert made
    (tmp_path / "launch" / "mine.sh").write_text(MINE)
    changed = tmp_path / "launch" / made[0]
    changed.write_text(changed.read_text() + "echo changed\n")
    write_tables(tmp_path, content)
    assert (tmp_path / "launch" / "mine.sh").read_text() == MINE and changed.read_text().endswith("echo changed\n")
    write_tables(tmp_path, without_picks(content))
    assert ours(tmp_path) == sorted(["mine.sh", made[0]])


def test_scripts_of_earlier_picks_go(content, tmp_path):
    write_tables(tmp_path, content)
    assert set(ours(tmp_path)) == set(json.loads((tmp_path / "launch" / MANIFEST).read_text()))
    write_tables(tmp_path, without_picks(content))
    assert ours(tmp_path) == []


def test_scripts_of_before_the_manifest_go_and_a_persons_own_stays(content, tmp_path):
    write_tables(tmp_path, content)
    (tmp_path / "launch" / MANIFEST).unlink()
    (tmp_path / "launch" / "mine.sh").write_text(MINE)
    write_tables(tmp_path, without_picks(content))
    assert ours(tmp_path) == ["mine.sh"]


@pytest.mark.parametrize("of", ["folder", "script"])
def test_nothing_is_written_or_deleted_through_a_link(content, tmp_path, of):
    theirs, reports = tmp_path / "theirs", tmp_path / "reports"
    theirs.mkdir()
    write_tables(reports, content)
    name = ours(reports)[0]
    (theirs / name).write_text(MINE)
    if of == "folder":
        for path in (reports / "launch").iterdir():
            path.unlink()
        (reports / "launch").rmdir()
        (reports / "launch").symlink_to(theirs)
    else:
        (reports / "launch" / name).unlink()
        (reports / "launch" / name).symlink_to(theirs / name)
    for told in (content, without_picks(content)):
        write_report(reports, told)
        assert (theirs / name).read_text() == MINE and len(list(theirs.iterdir())) == 1


@pytest.mark.parametrize("names", [{"../../x.sh": "0"}, [], {"/etc/passwd": "0"}])
def test_manifest_that_lies_deletes_nothing_elsewhere(content, tmp_path, names):
    (tmp_path / "x.sh").write_text(MINE)
    folder = tmp_path / "reports" / "lab"
    write_tables(folder, content)
    (folder / "launch" / MANIFEST).write_text(json.dumps(names))
    write_tables(folder, without_picks(content))
    assert (tmp_path / "x.sh").read_text() == MINE


def shellcheck(*paths):
    program = shutil.which("shellcheck", path=f"{Path(sys.executable).parent}:{os.environ['PATH']}")
    if program is None:
        pytest.skip("shellcheck is not installed (it comes with the `dev` extra)")
    # Below warnings it only remarks that single quotes keep what is inside, which is what they are for.
    subprocess.run([program, "--severity=warning", *paths], check=True)


def test_scripts_are_sound_for_shellcheck(content, tmp_path):
    write_tables(tmp_path, content)
    shellcheck(*(tmp_path / "launch").glob("*.sh"))


HOSTILE = (
    "$(touch hit)", "`touch hit`", "'; touch hit; '", '"; touch hit; "', "a b", "\\", "&& touch hit", "| touch hit", "*", "~",
    "$HOME", "${IFS}touch${IFS}hit", "-x", "--help", "#", "!", "é\u202e", "\t", "%s%n", "=", "",
)  # fmt: skip


def test_script_of_a_launch_starts_its_server_alone_whatever_its_words_and_values(tmp_path):
    """The server gets every word and value as it was; nothing else runs."""
    server = tmp_path / "server"
    server.write_text(
        '#!/bin/sh\nfor word in "$@"; do printf "%s\\0" "$word"; done\nprintf "%s\\0" "$CUDA_A" "$MY_B"\n'
    )
    server.chmod(0o755)
    for number, value in enumerate(HOSTILE):
        words = (str(server), value, f"--flag={value}", "--flag", value, f"NAME={value}")
        env = {"CUDA_A": value, "MY_B": value, "GONE": None}
        command = ServerCommand(words, env, {tmp_path / f"a file {number}": value})
        script = tmp_path / f"{number}.sh"
        script.write_text(command.script())
        given = {"PATH": os.environ["PATH"], "MY_B": value, "NAME": value, "CUDA_A": value, "GONE": "1"}
        done = subprocess.run(["sh", script], env=given, cwd=tmp_path, capture_output=True, text=True, check=False)
        if value == "":  # what is not saved must be set, and an empty one is not
            assert done.returncode != 0 or done.stdout
            continue
        assert done.returncode == 0, (value, done.stderr)
        assert done.stdout.split("\0")[:-1] == [*words[1:], value, value]
        assert (tmp_path / f"a file {number}").read_text() == value
    assert not (tmp_path / "hit").exists()
    shellcheck(*tmp_path.glob("*.sh"))
