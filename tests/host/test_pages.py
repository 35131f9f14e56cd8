"""Pages for browsers: one file, which fetches nothing, and which a real browser shows as told."""

from __future__ import annotations

import math
import re
from pathlib import Path

import pytest
from browsing import browsed
from ephost.pages import Grid, Network, Page, Plot, Text, Timeline

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
