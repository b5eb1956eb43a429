"""What is written, how, and what is taken away again."""

import json
import os
import subprocess
from dataclasses import replace

import pytest

from search.report.content import ServingCommand
from search.report.files import write_file, write_report, write_tables


def test_write_report_makes_every_file(tmp_path, content):
    write_report(tmp_path / "r", content)
    made = {path.relative_to(tmp_path / "r").as_posix() for path in (tmp_path / "r").rglob("*") if path.is_file()}
    assert made == {
        *("front.csv", "front.json", "schedule.json", "trials.csv", "summary.md", "index.html"),
        *("launch/off.sh", "launch/v2-k1-s2-d3.sh", "launch/.made-by-search.json", ".made-by-search.json"),
        *("launch/off.measuring.sh", "launch/v2-k1-s2-d3.measuring.sh"),
    }
    assert json.loads((tmp_path / "r/front.json").read_text())["study"] == "kimi-k25.simulated"


def test_write_file_when_it_fails_keeps_the_old_one_and_leaves_nothing(tmp_path):
    path = tmp_path / "front.csv"
    write_file(path, "old\n")
    with pytest.raises(UnicodeEncodeError):
        write_file(path, "\udc80")
    assert path.read_text() == "old\n"
    assert list(tmp_path.iterdir()) == [path]


def test_write_file_on_a_symbolic_link_replaces_the_link(tmp_path):
    target, link = tmp_path / "target", tmp_path / "link"
    target.write_text("mine")
    link.symlink_to(target)
    write_file(link, "new")
    assert (target.read_text(), link.is_symlink()) == ("mine", False)


def test_script_runs_and_carries_its_numbers_and_label(tmp_path, content):
    commands = {"v2-k1-s2-d3": "exec env \\\n  A=1 \\\n  printf \\\n  '%s|' 'a b' \"$A\"\n"}
    write_tables(tmp_path, replace(content, commands=commands, serving={}))
    script = tmp_path / "launch/v2-k1-s2-d3.measuring.sh"
    text = script.read_text()
    assert text.startswith("#!/usr/bin/env bash\n# v2-k1-s2-d3: highest throughput, best at C=30\n")
    assert "# SIMULATED: " in text
    assert "# concurrency 30: 759 [752, 767] tok/s (+10.1% against off)\n" in text
    assert "\nset -euo pipefail\n" in text
    assert "\n# To measure: " in text
    done = subprocess.run([script], capture_output=True, text=True, env={**os.environ, "A": "0"}, check=True)
    assert done.stdout == "a b|0|"


def test_script_header_cannot_be_left_by_text_with_line_breaks(tmp_path, content):
    study = replace(content.study, name="x\necho owned")
    write_tables(tmp_path, replace(content, study=study))
    assert "\necho owned" not in (tmp_path / "launch/off.sh").read_text()
    changes = ServingCommand("exec true", ("port 1\necho owned",))
    write_tables(tmp_path, replace(content, serving={"off": changes}))
    assert "\necho owned" not in (tmp_path / "launch/off.sh").read_text()


def test_serving_script_names_each_measured_setting_that_it_changes(tmp_path, content):
    command = ServingCommand(
        "exec env \\\n  true\n", ("prefix cache on; measured off", "port 8000; measured elsewhere")
    )
    write_tables(tmp_path, replace(content, serving={"off": command}))
    text = (tmp_path / "launch/off.sh").read_text()
    assert (
        "# To serve. Not as it was measured:\n# - prefix cache on; measured off\n# - port 8000; measured elsewhere\n"
        in text
    )
    assert text.endswith("exec env \\\n  true\n")


def test_scripts_of_former_picks_go(tmp_path, content):
    write_tables(tmp_path, content)
    (tmp_path / "launch/mine.txt").write_text("kept")
    picks = content.judgement.picks[:1]
    write_tables(tmp_path, replace(content, judgement=replace(content.judgement, picks=picks)))
    assert sorted(path.name for path in (tmp_path / "launch").glob("[!.]*")) == [
        "mine.txt",
        "off.measuring.sh",
        "off.sh",
    ]


def test_summary_tells_label_headlines_front_and_failures(tmp_path, content):
    write_tables(tmp_path, content)
    text = (tmp_path / "summary.md").read_text()
    assert text.startswith("# Kimi-K2.5 on eight RTX PRO 6000\n\n**SIMULATED.** ")
    plain = text.replace("\\", "")
    assert "| v2-k1-s2-d3 | 86.8 [85.9, 87.7] (-6.4%) | 759 [752, 767] (+10.1%) | 775 [767, 783] (+0.2%) | " in plain
    assert "| off | 92.7 [91.8, 93.6] | 689 [683, 696] | 773 [765, 781] | 718 [711, 725] | 1.000 | - |" in plain
    assert "| 4 | v1-k2-s2-d7 | OOM_GRAPH | config | CUDA out of memory in graph capture |" in text


def test_summary_text_cannot_open_a_tag_or_a_cell(tmp_path, content):
    judgement = replace(content.judgement, headlines=("<b>|[a](b)",))
    write_tables(tmp_path, replace(content, judgement=judgement))
    assert "- \\<b\\>\\|\\[a\\](b)\n" in (tmp_path / "summary.md").read_text()
