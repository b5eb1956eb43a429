"""A report's files are renewed, a person's are left as they are, whoever else writes and whenever the writer dies."""

import fcntl
import json
import os
from dataclasses import replace
from multiprocessing import get_context

import pytest

from search.report import manifest
from search.report.files import write_report, write_tables
from search.report.manifest import MANIFEST, FolderBusy, own_files

FILES = ("front.csv", "trials.csv", "front.json", "schedule.json", "summary.md", "index.html")
ANY = {"*": lambda text: False}


def other(content):
    """The same study with other numbers to be told."""
    return replace(content, judgement=replace(content.judgement, headlines=("something else",)))


@pytest.mark.parametrize("name", FILES)
def test_persons_own_file_of_a_reports_name_is_left_as_it_is(content, tmp_path, name, caplog):
    (tmp_path / name).write_text("mine\n")
    write_report(tmp_path, content)
    write_report(tmp_path, other(content))
    assert (tmp_path / name).read_text() == "mine\n"
    assert f"{name} was not written here" in caplog.text
    assert all((tmp_path / rest).stat().st_size > 5 for rest in FILES if rest != name)


@pytest.mark.parametrize("name", ["front.csv", "summary.md"])
def test_file_that_a_person_changed_stays_changed_and_comes_back_once_it_is_moved(content, tmp_path, name):
    write_tables(tmp_path, content)
    path = tmp_path / name
    path.write_text(path.read_text() + "changed\n")
    write_tables(tmp_path, other(content))
    assert path.read_text().endswith("changed\n")
    path.rename(tmp_path / "kept")
    write_tables(tmp_path, other(content))
    assert path.exists() and (tmp_path / "kept").read_text().endswith("changed\n")


def test_files_of_before_the_manifest_are_renewed(content, tmp_path):
    write_report(tmp_path, content)
    (tmp_path / MANIFEST).unlink()
    write_report(tmp_path, other(content))
    assert "something else" in (tmp_path / "summary.md").read_text()


def test_file_through_a_link_is_not_written(content, tmp_path):
    target = tmp_path / "elsewhere"
    target.write_text("mine\n")
    (tmp_path / "front.csv").symlink_to(target)
    write_tables(tmp_path, content)
    assert target.read_text() == "mine\n" and (tmp_path / "front.csv").is_symlink()


@pytest.mark.parametrize("moment", ["before the file", "after the file"])
def test_writer_that_dies_in_between_leaves_nothing_that_looks_like_a_persons(tmp_path, moment):
    with own_files(tmp_path, ANY) as own:
        own.write("a", "first")
    real = manifest.write_file

    def dying(path, text, **more):
        if path.name == "a" and moment == "before the file":
            os._exit(9)
        real(path, text, **more)
        if path.name == "a":
            os._exit(9)

    def write():
        manifest.write_file = dying
        with own_files(tmp_path, ANY) as own:
            own.write("a", "second")

    child = get_context("fork").Process(target=write)
    child.start()
    child.join(60)
    assert child.exitcode == 9
    with own_files(tmp_path, ANY) as own:
        assert own.write("a", "third")
    assert (tmp_path / "a").read_text() == "third"
    assert json.loads((tmp_path / MANIFEST).read_text()).keys() == {"a"}


def _many(folder, word):
    for place in range(60):
        with own_files(folder, ANY) as own:
            assert own.write("front.csv", f"{word} {place}")


def test_two_drivers_that_share_a_folder_take_no_file_of_each_other_for_a_persons(tmp_path):
    context = get_context("fork")
    drivers = [context.Process(target=_many, args=(tmp_path, word)) for word in ("one", "two")]
    for driver in drivers:
        driver.start()
    for driver in drivers:
        driver.join(100)
    assert [driver.exitcode for driver in drivers] == [0, 0]
    assert (tmp_path / "front.csv").read_text() in ("one 59", "two 59")


def test_folder_that_another_program_holds_is_waited_for_and_then_left(tmp_path, content, monkeypatch, caplog):
    monkeypatch.setattr(manifest, "LOCK_S", 0.1)
    held = os.open(tmp_path, os.O_RDONLY)
    fcntl.flock(held, fcntl.LOCK_EX)
    try:
        with pytest.raises(FolderBusy), own_files(tmp_path, ANY):
            pytest.fail("the block must not begin")
        write_tables(tmp_path, content)
        assert "was not renewed" in caplog.text and not (tmp_path / "front.csv").exists()
    finally:
        os.close(held)
    write_tables(tmp_path, content)
    assert (tmp_path / "front.csv").exists()
