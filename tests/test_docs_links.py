"""Every link of README and docs leads to a file that is there, and to a heading of it where it names one."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *(ROOT / "recordings").rglob("*.md")])
FENCED = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\[[^\]\n]*\]\(([^)\s]+)\)")
MENTION = re.compile(r"`(docs/[\w/.-]+\.(?:md|png))`")


def links(page):
    """Targets in the repository that a page links to."""
    text = FENCED.sub("", page.read_text(encoding="utf-8"))
    return [target for target in LINK.findall(text) if "://" not in target and not target.startswith("mailto:")]


def anchors(page):
    """Anchors of a page's headings, as GitHub makes them."""
    text = FENCED.sub("", page.read_text(encoding="utf-8"))
    heads = re.findall(r"^#+ (.*)$", text, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", head.lower()).replace(" ", "-") for head in heads}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_of_a_page_lead_somewhere(page):
    for target in links(page):
        path, _, anchor = target.partition("#")
        there = (page.parent / path).resolve() if path else page
        assert there.exists(), f"{page.name} links to {target}, which is not there"
        assert not anchor or anchor in anchors(there), f"{page.name} links to {target}, which has no such heading"


def test_every_page_of_the_docs_is_reached_from_the_readme():
    reached, left = set(), [ROOT / "README.md"]
    while left:
        page = left.pop()
        if page in reached or page.suffix != ".md" or not page.is_file():
            continue
        reached.add(page)
        left += [(page.parent / target.partition("#")[0]).resolve() for target in links(page)]
    assert [str(page) for page in (ROOT / "docs").rglob("*.md") if page not in reached] == []


def test_code_names_pages_of_the_docs_that_are_there():
    sources = [path for room in ("search", "benchmarks", "plugin") for path in (ROOT / room).rglob("*.py")]
    missing = {
        (path.name, named)
        for path in sources
        for named in MENTION.findall(path.read_text(encoding="utf-8"))
        if not (ROOT / named).exists()
    }
    assert missing == set()
