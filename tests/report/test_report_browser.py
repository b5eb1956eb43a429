"""The page in a real browser: it draws, sorts, filters, copies, folds and stays within its width; without a network."""

import html
import json
import re
import subprocess
from dataclasses import replace

import pytest
from browsers import CHROMIUM, WITHOUT

from search.config import SpecConfig
from search.report.page import page

pytestmark = [
    pytest.mark.skipif(CHROMIUM is None, reason=WITHOUT),
    pytest.mark.slow,
    pytest.mark.timeout(300),
]

PROBE = """
<script>
window.faults = [];
addEventListener("error", (event) => faults.push(event.message));
addEventListener("unhandledrejection", (event) => faults.push(String(event.reason)));
addEventListener("securitypolicyviolation", (event) => faults.push(event.violatedDirective));
for (const name of ["error", "warn"]) { const old = console[name]; console[name] = (...all) => { faults.push(all.join(" ")); old(...all); }; }
</script>
"""
ASK = """
<script>
(async () => {
  for (let waited = 0; waited < 200 && document.querySelector(".plot") && !document.querySelector(".plot .main-svg"); waited++)
    await new Promise((done) => setTimeout(done, 50));
  const told = {};
  try { %s } catch (error) { faults.push(String(error)); }
  const place = document.createElement("pre");
  place.id = "told";
  place.textContent = JSON.stringify({ ...told, faults });
  document.body.append(place);
})();
</script>
"""


def in_browser(tmp_path, text, script, *, width=1400, dark=False):
    """What a script, run after the page has drawn, puts into `told`."""
    path = tmp_path / "page.html"
    text = text.replace('<meta charset="utf-8">', '<meta charset="utf-8">' + PROBE, 1)
    path.write_text(text.replace("</body>", ASK % script + "</body>"), encoding="utf-8")
    command = [
        CHROMIUM, "--headless=new", "--no-sandbox", "--disable-gpu", "--host-resolver-rules=MAP * ~NOTFOUND",
        f"--user-data-dir={tmp_path / 'profile'}", f"--window-size={width},1000", "--virtual-time-budget=20000",
        *(["--blink-settings=preferredColorScheme=0"] if dark else []), "--dump-dom", path.as_uri(),
    ]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True, timeout=240, check=True)
    return json.loads(html.unescape(re.search(r'<pre id="told">(.*?)</pre>', done.stdout, re.DOTALL)[1]))


@pytest.fixture
def many(content):
    """Enough configs for a filter, with names as long as they come."""
    results = content.judgement.results
    more = tuple(
        replace(results[1], config=SpecConfig.from_id(f"v2-k1-s{steps}-d{steps + 1}+arf=auto"), score=0.5 + steps / 100)
        for steps in range(1, 12)
    )
    return replace(content, judgement=replace(content.judgement, results=(*results, *more)))


def test_page_draws_without_a_network_and_its_console_is_clean(tmp_path, many):
    told = in_browser(tmp_path, page(many), 'told.drawn = document.querySelectorAll(".plot .main-svg").length;')
    assert told["drawn"] >= 2 and told["faults"] == []


def test_heading_sorts_by_number_and_filter_hides_rows(tmp_path, many):
    told = in_browser(
        tmp_path,
        page(many),
        """
        const table = document.getElementById("configs");
        const heads = [...table.tHead.rows[0].cells];
        const score = heads.findIndex((head) => head.textContent === "score");
        const column = (place) => [...table.tBodies[0].rows].filter((row) => !row.hidden).map((row) => row.cells[place].firstChild.textContent);
        heads[score].querySelector("button").click(); told.down = column(score);
        heads[score].querySelector("button").click(); told.up = column(score);
        const filter = table.previousElementSibling.querySelector("input");
        filter.value = "s11 arf"; filter.dispatchEvent(new Event("input")); told.left = column(0);
        """,
    )
    down = list(map(float, told["down"]))
    assert down == sorted(down, reverse=True) and list(map(float, told["up"])) == sorted(down)
    assert told["left"] == ["v2-k1-s11-d12+arf=auto"] and told["faults"] == []


def test_copy_takes_the_whole_command(tmp_path, content):
    told = in_browser(
        tmp_path,
        page(content),
        """
        Object.defineProperty(navigator, "clipboard", { value: { writeText: async (text) => { told.copied = text; } } });
        document.querySelector(".decision .copy").click();
        await new Promise((done) => setTimeout(done, 50));
        told.button = document.querySelector(".decision .copy").textContent;
        """,
    )
    assert told["copied"] == content.serving["v2-k1-s2-d3"].text.strip() and told["button"] == "copied"


@pytest.mark.parametrize("width", [500, 800, 1400, 1900])
def test_nothing_is_wider_than_the_page(tmp_path, many, width):
    told = in_browser(
        tmp_path,
        page(many),
        """
        for (const one of document.querySelectorAll("details")) one.open = true;
        const wide = document.documentElement.clientWidth;
        told.scrolls = document.documentElement.scrollWidth > wide;
        told.wider = [...document.querySelectorAll("table")].filter((one) => one.getBoundingClientRect().right > wide + 1).length;
        told.sticky = getComputedStyle(document.querySelector("#configs th")).position;
        told.card = getComputedStyle(document.querySelector("#configs tbody tr")).display;
        told.head = getComputedStyle(document.querySelector("#configs td")).position;
        """,
        width=width,
    )
    assert (told["scrolls"], told["wider"], told["faults"]) == (False, 0, [])
    if told["card"] == "grid":
        assert told["head"] == "sticky"
    else:
        assert told["sticky"] == "sticky"
    if width == 500:
        assert told["card"] == "grid"
    if width == 1900:
        assert told["card"] == "table-row"


def test_dark_page_has_light_ink_on_dark_paper_in_its_charts_too(tmp_path, content):
    script = """
        told.paper = getComputedStyle(document.body).backgroundColor;
        told.ink = getComputedStyle(document.querySelector(".plot .xtick text")).fill;
    """
    told = in_browser(tmp_path, page(content), script, dark=True)
    light = in_browser(tmp_path, page(content), script)
    assert (told["paper"], light["paper"]) == ("rgb(21, 24, 28)", "rgb(255, 255, 255)")
    assert told["ink"] != light["ink"] and told["faults"] == []


def test_hostile_text_runs_nothing(tmp_path, content):
    evil = "<img src=x onerror=\"faults.push('ran')\"><script>faults.push('ran')</script>"
    spec = content.spec.model_copy(update={"title": evil})
    failures = tuple(replace(one, root_line=evil, log_path=evil) for one in content.judgement.failures)
    hostile = replace(content, spec=spec, judgement=replace(content.judgement, failures=failures, cautions=(evil,)))
    told = in_browser(tmp_path, page(hostile), 'told.title = document.querySelector("h1").textContent;')
    assert told["title"] == evil and told["faults"] == []
