"""The page of a search in a real browser: nodes are selected, the table is searched and sorted."""

from __future__ import annotations

import html
import json
import re
import sys
from pathlib import Path

from ephost.bisection.judging import Mode, Symptom
from ephost.bisection.measuring import Measure
from ephost.bisection.page import page_of
from ephost.bisection.results import Bisection, Fault, NodeError, Repro

sys.path.insert(0, str(Path(__file__).parents[1] / "host"))
from browsing import browsed

NODES = 1200


def found() -> Bisection:
    """A search in a row of nodes, one of them wrong; two that stand side by side read what it gives."""
    result = Bisection("/models/row.onnx", "some plugin", "the CPU plugin", Symptom("numbers"))
    for at in range(NODES):
        own = Measure(f"v{at}", ratio=at / NODES, relative=at * 1e-9, elements=4)
        if at == 700:
            own = Measure("v700", "numbers", 5000.0, 1.0, 0.5, wrong=4, elements=4, got="1", expected="2")
        name = "</script><b>n3" if at == 3 else f"n{at}"
        total = Measure(f"v{at}", ratio=50.0 if at >= 700 else 0.5, relative=0.1)
        result.nodes.append(NodeError(at, name, "Constant" if at == 0 else "Conv", "some_ep", own, total))
    result.edges = [(at, at + 1) for at in range(NODES - 1)] + [(700, 702)]
    repro = Repro(1, ("Conv",), Path("found", "fault1"), ("ephost", "onnxruntime"), ("3 nodes",), ())
    result.faults = [
        Fault(
            result.symptom or Symptom("numbers"), ("n700",), ("Conv",), "some_ep", False, Mode(),
            result.nodes[700].own, repro=repro,
        )
    ]  # fmt: skip
    result.outputs = [Measure("v1199", ratio=50.0, relative=0.1, cosine=0.9)]
    return result


USE = """<script>
const told = {};
const [table] = document.querySelectorAll("table"), search = document.querySelector("input[type=search]");
const rows = () => [...table.querySelectorAll("tbody tr")];
const first = () => rows()[0].cells[0].textContent;
const status = () => document.querySelector("h2 + p[role=status]").textContent;
const middle = () => document.querySelector("svg .node.middle").getAttribute("aria-label");
const press = (element, key) =>
  element.dispatchEvent(new KeyboardEvent("keydown", { key, bubbles: true, cancelable: true }));
const head = (name) => [...table.querySelectorAll("th button")].find((button) => button.textContent === name);
told.start = [middle(), status(), document.querySelectorAll("svg .node").length];
told.rows = [first(), rows()[0].className, document.querySelector(".tools [role=status]").textContent];
head("node").click();
told.sorted = [first(), head("node").parentElement.getAttribute("aria-sort")];
head("own error").click();
told.by_error = [first(), rows()[1].cells[0].textContent];
head("own error").click();
told.upward = [first(), head("own error").parentElement.getAttribute("aria-sort")];
press(document.body, "/");
told.focused = document.activeElement === search;
search.value = "N119";
search.dispatchEvent(new Event("input"));
told.searched = [rows().length, document.querySelector(".tools [role=status]").textContent];
rows()[0].focus();
press(document.activeElement, "ArrowDown");
told.second = document.activeElement === rows()[1];
press(document.activeElement, "Enter");
told.opened = [middle(), rows()[1].classList.contains("open"), rows()[1].cells[0].textContent];
rows()[0].click();
told.clicked = middle();
const walked = (key) => {
  press(document.querySelector("svg .node.middle"), key);
  return [middle(), document.activeElement === document.querySelector("svg .node.middle")];
};
told.walked = ["ArrowUp", "ArrowUp", "ArrowDown"].map(walked);
search.value = "n701";
search.dispatchEvent(new Event("input"));
rows()[0].click();
const drawn = (name) => document.querySelector(`svg .node[aria-label="${name}"]`);
drawn("Conv n700").dispatchEvent(new MouseEvent("click", { bubbles: true }));
told.back = middle();
press(drawn("Conv n701"), "ArrowRight");
told.beside = middle();
const root = document.documentElement, before = getComputedStyle(document.body).backgroundColor;
document.getElementById("theme").click();
told.theme = [root.dataset.theme !== undefined, getComputedStyle(document.body).backgroundColor !== before];
told.wide = root.scrollWidth <= root.clientWidth;
told.bold = document.querySelectorAll("b").length;
document.body.setAttribute("data-told", JSON.stringify(told));
</script></body>"""


def test_nodes_are_selected_and_the_table_searched_and_sorted(tmp_path: Path) -> None:
    dom = browsed(page_of(found()).html().replace("</body>", USE), tmp_path)
    body = re.search(r'<body[^>]* data-told="([^"]*)"', dom)
    assert body is not None
    told = json.loads(html.unescape(body[1]))
    assert told["start"][0] == "Conv n700"
    assert told["start"][1].startswith("Conv n700: on some_ep; own error 0.5, 5e+03 of what is tolerated")
    assert 5 <= told["start"][2] <= 9
    assert told["rows"] == ["n700", "marked", f"{NODES - 1} of {NODES - 1}"]  # without the constant
    assert told["sorted"][1] == "ascending" and told["sorted"][0] == "</script><b>n3"
    assert told["by_error"] == ["n700", "n1199"]
    assert told["upward"] == ["n1", "ascending"]
    assert told["focused"]
    assert told["searched"] == [11, f"11 of {NODES - 1}"]  # n119 and n1190 to n1199
    assert told["second"]
    assert told["opened"] == [f"Conv {told['opened'][2]}", True, "n1190"]
    assert told["clicked"] == "Conv n119"
    assert told["walked"] == [["Conv n118", True], ["Conv n117", True], ["Conv n118", True]]
    assert told["back"] == "Conv n700"
    assert told["beside"] == "Conv n702"
    assert told["theme"] == [True, True]
    assert told["wide"] and told["bold"] == 0
    assert "<h1>ephost bisect: row.onnx</h1>" in dom
    assert "python found/fault1/repro.py" in dom


def test_a_long_message_is_told_whole_below_the_table() -> None:
    result = found()
    message = "it failed:\n" + "because of this, " * 20 + "and that"
    result.faults[0].measure = None
    result.faults[0].symptom = Symptom("error", "run 1", message)
    table = result.tables()[0].plain()
    assert "and that" not in table and "... (below)" in table
    assert f"Fault 1: an error at run 1: it failed: {'because of this, ' * 20}and that" in str(result)
