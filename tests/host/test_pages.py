"""Pages for browsers: one file, which fetches nothing, and which a real browser shows as told."""

from __future__ import annotations

import math
import re
from pathlib import Path

import pytest
from browsing import Browser, browsed
from ephost.pages import Entries, Grid, Network, Page, Plot, Text, Timeline

HOSTILE = "</script><img src=x onerror=document.title='broken'>"


def page(nodes: int = 12) -> Page:
    labels = [f"Add {HOSTILE if at == 3 else f'n{at}'}" for at in range(nodes)]
    return Page(
        f"What was found: {HOSTILE}",
        [
            Text(["a sentence"], "bad"),
            Plot("The error", "nodes", {"own": [0.0, None, math.inf, *[1e-7] * (nodes - 3)]}, labels, 1.0),
            Grid(
                "Nodes", ("node", "error"), [(label, 1.0 / (at + 1)) for at, label in enumerate(labels)],
                ("error",), [3], range(nodes),
            ),
            Network("Around", labels, labels, [(at, at + 1) for at in range(nodes - 1)], [3], 3),
        ],
    )  # fmt: skip


def test_a_page_is_one_file_that_fetches_nothing() -> None:
    text = page().html()
    assert "default-src 'none'" in text
    assert re.findall(r"""(?:src|href)=["'](?!data:)""", text.split("<script")[0]) == []
    addresses = set(re.findall(r"https?://[^\"' ]+", text))
    assert addresses == {"http://www.w3.org/2000/svg"}
    assert "<img" not in text


@pytest.mark.parametrize("nodes", [12, 5000])
def test_a_browser_shows_it_without_an_error(nodes: int, tmp_path: Path) -> None:
    dom = browsed(page(nodes).html(), tmp_path)
    shown = dom.split('<script type="application/json"')[0]
    assert shown.count("<tr") == min(nodes, 400) + 1
    assert 'class="level"' in shown and shown.count('class="node') == 5
    assert "<title>broken" not in shown


USE = """<script>
const canvas = document.querySelector("canvas"), search = document.querySelector("input[type=search]");
const told = () => document.querySelector("p.code[role=status]");
const say = (name, value) => document.body.setAttribute("data-" + name, value);
const press = (element, key) => element.dispatchEvent(new KeyboardEvent("keydown", { key, bubbles: true }));
say("before", told().hidden);
search.value = "inner";
search.dispatchEvent(new Event("input"));
say("count", document.querySelector(".tools [role=status]").textContent);
press(search, "Enter");
say("found", told().textContent);
press(search, "Enter");
say("next", told().textContent);
search.value = "";
search.dispatchEvent(new Event("input"));
for (const key of ["Home", "+", "ArrowRight", "ArrowLeft", "-", "Home"]) press(canvas, key);
const box = canvas.getBoundingClientRect();
const at = { clientX: box.left + 0.95 * box.width, clientY: box.top + 24 + 22 + 5, pointerId: 1 };
canvas.setPointerCapture = () => {};
canvas.dispatchEvent(new PointerEvent("pointerdown", at));
canvas.dispatchEvent(new PointerEvent("pointerup", at));
say("clicked", told().textContent);
document.getElementById("theme").click();
say("painted", canvas.getContext("2d").getImageData(box.width * 0.95, 24 + 22 + 5, 1, 1).data[3]);
</script></body>"""


def test_a_timeline_is_searched_moved_and_opened(tmp_path: Path) -> None:
    spans = [(0, 0, 0, 600, 0, 0), (0, 1, 100, 50, 1, 1), (0, 1, 300, 20, 1, 2), (0, 0, 800, 200, 2, 0)]
    details = ["the first", HOSTILE, "failed", "the last"]
    made = Page("calls", [Timeline("Calls", ["thread 1"], ["outer", "inner", "last"], spans, details)])
    dom = browsed(made.html().replace("</body>", USE), tmp_path)
    body = re.search(r"<body[^>]*(?:data-clicked=\"[^\"]*\")[^>]*>", dom)
    assert body is not None
    assert 'data-before="true"' in body[0]
    assert 'data-count="2 found"' in body[0]
    assert "100 ns + 50 ns" in body[0]
    assert 'data-next="300 ns + 20 ns: failed"' in body[0]
    assert 'data-clicked="800 ns + 200 ns: the last"' in body[0]
    assert 'data-painted="255"' in body[0]


def written(made: Page, folder: Path) -> Path:
    path = folder / "page.html"
    path.write_text(made.html(), encoding="utf-8")
    return path


def focused(browser: Browser) -> str:
    return str(browser.js("document.activeElement.textContent"))


def test_a_table_and_the_graph_around_a_node_are_used_by_keyboard(tmp_path: Path) -> None:
    with Browser(written(page(), tmp_path), tmp_path, dark=True) as browser:
        browser.press("/")
        browser.type("n1")
        assert browser.text(".tools [role=status]") == "3 of 12"
        browser.press("Escape")
        assert browser.text(".tools [role=status]") == "12 of 12"
        browser.press("ArrowDown")
        assert focused(browser).startswith("Add n0")
        assert browser.js("document.activeElement.matches(':focus-visible')")
        browser.press("End", "Enter")
        assert focused(browser).startswith("Add n11")
        assert browser.text("svg ~ p, h2 + p[role=status]").startswith("Add n11")
        browser.press("Home", "ArrowDown", "Enter")
        assert browser.text("h2 + p[role=status]").startswith("Add n1:")
        browser.press("ArrowUp", "ArrowUp")
        assert browser.js("document.activeElement.type") == "search"
        browser.js("document.querySelector('svg .middle').focus()")
        browser.press("ArrowDown")
        assert browser.text("h2 + p[role=status]").startswith("Add n2:")


def test_numbers_of_a_table_are_told_in_their_units_and_whole_ones_exactly(tmp_path: Path) -> None:
    rows = [("a", 4961, 3 * 1024**2, 0.0123), ("b", None, 17, 2.5)]
    columns = ("name", "nodes", "size", "time")
    units = {"size": "bytes", "time": "seconds"}
    with Browser(
        written(Page("units", [Grid("Units", columns, rows, columns[1:], units=units)]), tmp_path), tmp_path
    ) as browser:
        cells = browser.js("[...document.querySelectorAll('td')].map((each) => each.textContent)")
    assert cells == ["a", "4961", "3.0 MiB", "12.30 ms", "b", "-", "17 B", "2.500 s"]


def test_the_calls_of_a_timeline_are_followed_by_keyboard(tmp_path: Path) -> None:
    spans = [(0, 0, 800, 200, 2, 0), (0, 0, 0, 600, 0, 0), (0, 1, 100, 50, 1, 1), (0, 1, 300, 20, 1, 2)]
    made = Page("calls", [Timeline("Calls", ["t"], ["outer", "inner", "last"], spans, ["d", "a", "b", "c"])])
    told = "p.code[role=status]"
    with Browser(written(made, tmp_path), tmp_path) as browser:
        browser.press("/", "ArrowDown")
        assert browser.js("document.activeElement.tagName") == "CANVAS"
        browser.press("ArrowDown")
        assert browser.text(told) == "0 ns + 600 ns: a"
        browser.press("ArrowDown", "ArrowDown", "ArrowDown", "ArrowDown")
        assert browser.text(told) == "800 ns + 200 ns: d"
        browser.press("ArrowUp")
        assert browser.text(told) == "300 ns + 20 ns: c"
        browser.press("Escape")
        assert browser.js(f"document.querySelector('{told}').hidden")


def test_entries_are_filtered_opened_and_closed_by_keyboard(tmp_path: Path) -> None:
    rows = [(f"check {at}", "pass" if at % 3 else "failed", "", "text") for at in range(12)]
    levels = [str((at * 7) % 11) for at in range(12)]
    made = Entries(
        "Checks",
        rows,
        {"verdict": [row[1] for row in rows], "level": levels},
        ["good" if row[1] == "pass" else "bad" for row in rows],
        [[("log", f"what {at} said {HOSTILE}")] for at in range(12)],
    )
    with Browser(written(Page("checks", [made]), tmp_path), tmp_path) as browser:
        bars = browser.js("[...document.querySelectorAll('.filters')].map((each) => each.textContent)")
        assert bars[1].startswith("level0 ") and bars[1].index("2 ") < bars[1].index("10 ")
        browser.click(".filters button", "failed")
        assert browser.text(".tools [role=status]") == "4 of 12"
        browser.press("/")
        browser.type("what 9")
        browser.press("ArrowDown")
        assert focused(browser).startswith("check 9")
        browser.press("Enter")
        assert "what 9 said" in browser.text(".opened:not([hidden])")
        browser.press("Escape")
        assert browser.js("document.querySelectorAll('.opened:not([hidden])').length") == 0
        browser.press("ArrowUp", "Escape")
        assert browser.text(".tools [role=status]") == "4 of 12"
        browser.press("ArrowDown", "End")
        assert focused(browser).startswith("check 9")
        colours = browser.js(
            "(() => { const c = (s) => getComputedStyle(document.querySelector(s)).color;"
            " return [c('.entry.bad'), c('body')]; })()"
        )
        assert colours[0] != colours[1]
