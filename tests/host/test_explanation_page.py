"""The page of an explanation: what is in it, and how a real browser lets people use it."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import ephost as ort
import numpy as np
import pytest
from browsing import Browser
from ephost.explanation import Explanation, start_profile
from ephost.explanation_page import page_of
from ephost.pages import Graph, Grid
from ephost.plugins import cpu, sample_compiler, sample_kernels
from onnx import TensorProto, helper, parser

PLUGINS = {"compiler": sample_compiler, "kernels": sample_kernels}
HEAD = '<ir_version: 8, opset_import: ["": 17]>'
HOSTILE = "</script><img src=x onerror=document.title='broken'>"
MIXED = """g (float[2, 3] x, float[3, 4] w) => (float[2, 4] y, string[2, 4] z)
<float[4] bias = {1, 2, 3, 4}> {
    product = MatMul(x, w)
    [strange] strange = Erf(product)
    [sum] sum = Add(strange, bias)
    [hostile] out = Relu(sum)
    [words] z = Cast<to = 8>(out)
    [last] y = Mul(out, sum)
}"""
BODIES = """g (bool c, float[4] x) => (float[4] y) {
    a = Relu(x)
    [choice] b = If (c) <
        then_branch = t () => (float[4] o) { [inner] p = Relu(a) [deep] o = Erf(p) },
        else_branch = e () => (float[4] q) { [other] q = Erf(a) }
    >
    [end] y = Add(b, x)
}"""


@pytest.fixture(autouse=True)
def plugins() -> Iterator[None]:
    for name, plugin in PLUGINS.items():
        ort.register_execution_provider_library(name, plugin.get_library_path())
    yield
    for name in PLUGINS:
        ort.unregister_execution_provider_library(name)


def opened(model: Any, *libraries: str) -> ort.InferenceSession:
    options = ort.SessionOptions()
    for name in libraries:
        devices = [d for d in ort.get_ep_devices() if d.registration_name == name]
        options.add_provider_for_devices(devices, {})
    if isinstance(model, str):
        model = parser.parse_model(HEAD + model)
        for node in model.graph.node:
            if node.name == "hostile":
                node.name = HOSTILE
    return ort.InferenceSession(model.SerializeToString(), options)


def mixed(runs: int = 0) -> Explanation:
    session = opened(MIXED, "compiler", "kernels")
    feed = {"x": np.ones((2, 3), np.float32), "w": np.ones((3, 4), np.float32)}
    if runs:
        start_profile(session)
    for _ in range(runs):
        session.run(None, feed)
    return ort.explain(session)


def chain(count: int) -> Explanation:
    operators = ["Relu", "Add", "Mul", "Sigmoid", *["Relu"] * 96, "Erf"]
    nodes, names = [], ["x"]
    for at in range(count):
        operator = operators[at % len(operators)]
        reads = [names[-1], names[max(len(names) - 3, 0)]][: 2 if operator in ("Add", "Mul") else 1]
        nodes.append(helper.make_node(operator, reads, [f"v{at}"], name=f"/layer.{at // 50}/{operator}_{at}"))
        names.append(f"v{at}")
    given = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [8]) for name in ("x", names[-1])]
    graph = helper.make_graph(nodes, "chain", given[:1], given[1:])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    return ort.explain(opened(model, "kernels"))


def part(told: Explanation, title: str) -> Any:
    return next(p for p in page_of(told).parts if getattr(p, "title", "").startswith(title))


def drawn(told: Explanation) -> Graph:
    found = part(told, "The graph")
    assert isinstance(found, Graph)
    return found


def said(graph: Graph, label: str) -> list[str]:
    return [graph.texts[at] for at in graph.notes[list(graph.labels).index(label)]]


def test_the_graphs_of_a_model_are_told_with_the_bodies_of_its_nodes() -> None:
    told = ort.explain(opened(BODIES, "kernels"))
    main_graph, *bodies = told.graphs
    assert (main_graph.name, main_graph.owner) == ("", None)
    assert [node.op_type for node in main_graph.nodes] == ["Relu", "If", "Add"]
    choice = next(node.index for node in main_graph.nodes if node.name == "choice")
    assert [(body.name, body.owner) for body in bodies] == [("then_branch", choice), ("else_branch", choice)]
    assert [[node.name for node in body.nodes] for body in bodies] == [["inner", "deep"], ["other"]]
    own = [at for graph in told.graphs for at in graph.partitions]
    assert sorted(own) == list(range(len(told.partitions)))
    values = {value.name: value for value in main_graph.values}
    relu = main_graph.nodes[0].index
    assert (values["a"].producer, values["a"].consumers, values["a"].bytes) == (relu, (choice,), 16)
    assert values["y"].is_output and not values["y"].consumers
    (captured,) = [value for value in bodies[0].values if value.name == "a"]
    assert captured.producer is None and not captured.is_constant


@pytest.mark.in_process("kernels run in groups")
def test_a_node_says_who_took_it_and_why_not_the_others() -> None:
    graph = drawn(mixed())
    assert said(graph, "words") == [
        "the fallback runs it",
        "not sample_compiler: it did not claim the node",
        "not sample_kernels: its registry has no kernel for Cast",
        *[text for text in said(graph, "words") if "CPUExecutionProvider" in text],
    ]
    assert said(graph, "sum")[:2] == [
        "sample_compiler compiled it with its partition",
        "not sample_kernels: it comes behind sample_compiler, which took it",
    ]
    product = said(graph, "#0")
    assert product[:2] == [
        "sample_kernels runs it by a kernel of its own",
        "not sample_compiler: it did not claim the node",
    ]


@pytest.mark.in_process("kernels run in groups")
def test_what_went_to_a_later_ep_is_a_table_whose_rows_open_the_first_of_its_nodes() -> None:
    told = mixed()
    page = page_of(told)
    (grid,) = (p for p in page.parts if isinstance(p, Grid) and p.title.startswith("Left to later"))
    (row,) = told.passed_on()
    assert list(grid.rows) == [
        ("MatMul", 1, row.nodes[0].label, "sample_kernels", "sample_compiler: it did not claim the node")
    ]
    (graph,) = (part for part in page.parts if isinstance(part, Graph))
    assert graph.labels[grid.opens[0]] == row.nodes[0].label


def test_nodes_lie_in_the_boxes_of_their_partitions() -> None:
    told = mixed()
    graph = drawn(told)
    for node, box in enumerate(graph.node_boxes):
        (x, y), (left, top, width, height) = graph.places[node], graph.box_places[box]
        assert left < x and x + 160 < left + width and top < y and y + 38 < top + height
    assert len(graph.box_titles) == len(told.partitions) + 2  # and what comes from and goes outside
    assert [graph.labels[at] for at, name in enumerate(graph.operators) if not name] == ["x", "w", "y", "z"]


def test_a_body_that_runs_with_its_node_is_shown_as_that_nodes() -> None:
    ort.register_execution_provider_library("compiled", cpu.get_library_path())
    try:
        told = ort.explain(opened(BODIES, "compiled"))
    finally:
        ort.unregister_execution_provider_library("compiled")
    assert [graph.partitions for graph in told.graphs] == [(0,), (), ()]
    graph = drawn(told)
    assert "runs as a part of choice" in said(graph, "deep")
    box = graph.node_boxes[list(graph.labels).index("deep")]
    assert graph.box_titles[box].endswith("with the whole of choice")
    assert [sheet.title for sheet in graph.sheets[1:]] == ["then_branch of choice", "else_branch of choice"]


def test_what_crosses_borders_is_listed_with_its_bytes() -> None:
    table = part(mixed(), "Values that cross borders")
    assert isinstance(table, Grid)
    rows = {row[0]: row[1:] for row in table.rows}
    assert rows["product"][:2] == ("float[2,4]", 32)
    assert "sample_kernels" in rows["product"][2] and "bias" not in rows
    assert rows["x"][2] == "outside" and rows["z"][3] == "outside"
    assert rows["z"][1] is None


def test_a_profiled_run_gives_times_to_nodes_and_partitions() -> None:
    untimed, told = mixed(), mixed(runs=3)
    assert untimed.profiled_runs == 0 and all(p.seconds is None for p in untimed.partitions)
    assert told.profiled_runs == 3
    assert all(p.seconds is not None and p.seconds > 0 for p in told.partitions)
    words = next(entry.node.index for entry in told.fallback if entry.node.name == "words")
    fused = next(p for p in told.partitions if p.kind == "compiled" and len(p.nodes) > 1)
    assert told.node_seconds[words] > 0
    assert not {node.index for node in fused.nodes} & set(told.node_seconds)
    slowest = part(told, "Where the time goes")
    assert sum(row[4] for row in slowest.rows) == pytest.approx(100)
    assert told.tables()[1].columns[-1] == "a run" != untimed.tables()[1].columns[-1]


def test_bodies_of_a_profiled_run_have_times_and_are_not_counted_twice() -> None:
    session = opened(BODIES, "kernels")
    start_profile(session)
    for _ in range(2):
        session.run(None, {"c": np.array(True), "x": np.ones(4, np.float32)})
    told = ort.explain(session)
    inner = next(n.index for graph in told.graphs for n in graph.nodes if n.name == "inner")
    other = next(n.index for graph in told.graphs for n in graph.nodes if n.name == "other")
    assert told.node_seconds[inner] > 0 and other not in told.node_seconds
    whole = sum(p.seconds or 0 for p in told.partitions if not p.in_body)
    shown = sum(row[-1] or 0 for row in part(told, "Execution providers").rows)
    assert shown == pytest.approx(whole)


def test_nodes_inside_of_a_group_have_the_times_that_the_profiler_of_their_ep_told() -> None:
    nodes = [helper.make_node("MatMul", ["x", "x"], ["p"], name="first")]
    nodes += [
        helper.make_node("MatMul", ["p", "x"], ["q"], name="second"),
        helper.make_node("Neg", ["q"], ["y"]),
    ]
    given = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [512, 512]) for name in "xy"]
    graph = helper.make_graph(nodes, "g", given[:1], given[1:])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    ort.register_execution_provider_library("profiled", cpu.get_library_path())
    try:
        session = opened(model, "profiled")
        assert not ort.explain(session).node_seconds
        start_profile(session)
        start_profile(session)  # once more is no error
        for _ in range(3):
            session.run(None, {"x": np.ones((512, 512), np.float32)})
        told = ort.explain(session)
        del session
    finally:
        ort.unregister_execution_provider_library("profiled")
    (partition,) = told.partitions
    seconds = {node.name: told.node_seconds.get(node.index, 0.0) for node in partition.nodes}
    assert seconds["first"] > 0 and seconds["second"] > 0
    assert sum(seconds.values()) <= (partition.seconds or 0) * 1.01
    steps = [row[0] for row in part(told, "Where the time goes").rows]
    assert "first, in partition 0" in steps and steps[0] == "partition 0: 3 nodes"
    assert "what the profiler of" in page_of(told).parts[1].lines[0]


def test_the_page_is_one_file_without_names_as_markup() -> None:
    text = mixed().to_html()
    assert "default-src 'none'" in text and "<img" not in text
    addresses = set(re.findall(r"https?://[^\"' ]+", text))
    assert addresses == {"http://www.w3.org/2000/svg"}
    json.dumps(mixed().to_dict())


def test_the_command_writes_the_page_with_the_times_of_runs(tmp_path: Path) -> None:
    model, page = tmp_path / "m.onnx", tmp_path / "page.html"
    model.write_bytes(parser.parse_model(HEAD + MIXED).SerializeToString())

    def explained(*arguments: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "ephost", "explain", str(model), *arguments]
        return subprocess.run(command, capture_output=True, text=True, check=False)

    done = explained("--ep", "sample_kernels", "--html", str(page), "--profile", "--repeat", "2")
    assert done.returncode == 0, done.stderr
    assert "a run" in done.stdout
    assert "Times are means of 2 runs" in page.read_text(encoding="utf-8")
    done = explained("--ep", "sample_kernels", "--html", str(page), "--input", f"x={model}")
    assert done.returncode == 2 and "--profile" in done.stderr


# ---- in a browser ----


def written(told: Explanation, folder: Path) -> Path:
    path = folder / "page.html"
    path.write_text(told.to_html(), encoding="utf-8")
    return path


def middle(browser: Browser) -> tuple[float, float]:
    x, y = browser.js(
        """(() => {
            const box = document.querySelector("canvas").getBoundingClientRect();
            return [box.left + box.width / 2, box.top + box.height / 2];
        })()"""
    )
    return x, y


def pixel(browser: Browser, x: float, y: float) -> list[int]:
    return list(
        browser.js(
            f"""(() => {{
                const canvas = document.querySelector("canvas"), box = canvas.getBoundingClientRect();
                const copy = document.createElement("canvas").getContext("2d");
                copy.drawImage(canvas, {x} - box.left, {y} - box.top, 1, 1, 0, 0, 1, 1);
                return [...copy.getImageData(0, 0, 1, 1).data];
            }})()"""
        )
    )


def test_people_walk_through_the_graph_by_keyboard_and_click_on_nodes(tmp_path: Path) -> None:
    with Browser(written(mixed(), tmp_path), tmp_path) as browser:
        browser.press("/", "ArrowDown")
        assert browser.js("document.activeElement.matches('canvas:focus-visible')")
        browser.press("ArrowDown")
        assert browser.text(".pane h3") == "x"
        browser.press("ArrowDown")
        assert browser.text(".pane h3") == "MatMul #0"
        browser.press("ArrowDown", "ArrowDown")
        assert browser.text(".pane h3") == "Add sum"
        assert "constants" not in browser.text(".pane h3") and "bias" in browser.text(".pane")
        browser.press("Enter", "Escape")
        assert "Choose one" in browser.text(".pane")
        browser.click_at(*middle(browser))
        assert browser.text(".pane h3") == "Add sum"
        browser.click(".pane .link", "Erf")
        assert browser.text(".pane h3") == "Erf strange"
        browser.js("document.querySelector('canvas').focus()")
        browser.press("PageDown")
        assert re.match(r"\d · sample_compiler · ", browser.text(".pane h3"))
        browser.press("PageUp", "PageUp")
        assert browser.text(".pane h3").startswith("0 · sample_kernels")
        browser.press("ArrowLeft")
        assert browser.text(".pane h3") == "MatMul #0"
        assert browser.js("document.title").startswith("ephost explain")


def test_people_search_and_filter(tmp_path: Path) -> None:
    with Browser(written(mixed(), tmp_path), tmp_path) as browser:
        browser.press("/")
        browser.type("<IMG")
        assert browser.text(".found") == "1 found"
        browser.press("Enter")
        assert browser.text(".pane h3") == f"Relu {HOSTILE}"
        browser.press("Escape")
        assert browser.text(".found") == ""
        assert browser.js("document.activeElement.tagName") == "CANVAS"
        browser.click(".filters button", "Mul")
        assert browser.text(".found") == "1 found"
        assert browser.js("document.querySelectorAll('.filters [aria-pressed=true]').length") == 1
        browser.click(".filters button", "Relu")
        assert browser.text(".found") == "2 found"
        browser.click(".filters button", "the fallback")
        assert browser.text(".found") == "0 found"
        browser.click(".filters button", "Mul")
        browser.click(".filters button", "Relu")
        assert browser.text(".found") == "2 found"
        browser.click("button[aria-label='next found']")
        assert browser.text(".pane h3") == "Erf strange"
        browser.click("button[aria-label='next found']")
        assert browser.text(".pane h3") == "Cast words"


def test_people_zoom_and_drag_and_change_between_light_and_dark(tmp_path: Path) -> None:
    with Browser(written(mixed(), tmp_path), tmp_path) as browser:
        browser.js("document.querySelector('canvas').focus()")
        browser.press("ArrowDown", "ArrowDown", "Enter", "Escape")
        browser.js("document.querySelector('canvas').scrollIntoView({ block: 'center' })")
        x, y = middle(browser)
        browser.wheel(x, y, -200)
        browser.click_at(x, y)
        assert browser.text(".pane h3") == "MatMul #0"  # zooming keeps what the pointer is at
        browser.press("Escape")
        browser.drag(x, y, x + 60, y + 20)
        assert "Choose one" in browser.text(".pane")  # a drag is no click
        browser.click_at(x + 60, y + 20)
        assert browser.text(".pane h3") == "MatMul #0"
        light = pixel(browser, x - 300, y)
        browser.click("#theme")
        dark = pixel(browser, x - 300, y)
        assert sum(light[:3]) > 600 and sum(dark[:3]) < 150


def test_a_body_is_opened_and_left(tmp_path: Path) -> None:
    told = ort.explain(opened(BODIES, "kernels"))
    with Browser(written(told, tmp_path), tmp_path, dark=True) as browser:
        browser.press("/")
        browser.type("choice")
        browser.press("Enter", "ArrowDown")
        assert browser.text(".pane h3") == "If choice"
        browser.press("Enter")
        assert browser.text(".pane h3") == "then_branch of choice"
        assert "2 nodes" in browser.text(".pane")
        browser.press("Escape")
        assert browser.text(".pane h3") == "If choice"
        browser.click(".pane button", "open else_branch")
        assert "1 node." in browser.text(".pane")
        assert browser.js("document.querySelector('.views select').value") == "2"
        browser.click(".views button", "↑")
        assert browser.text(".pane h3") == "If choice"


@pytest.mark.in_process("a group of a worker takes longer than the node that is looked at")
def test_colours_show_the_time_of_a_profiled_run(tmp_path: Path) -> None:
    with Browser(written(mixed(), tmp_path), tmp_path) as browser:
        assert browser.js("document.querySelector('select[aria-label=colours]')") is None
    with Browser(written(mixed(runs=2), tmp_path), tmp_path) as browser:
        browser.press("/")
        browser.type("words")
        browser.press("Enter", "ArrowDown", "Escape")  # the slowest, and its box around it
        browser.js("document.querySelector('canvas').scrollIntoView({ block: 'center' })")
        x, y = middle(browser)
        before = pixel(browser, x + 40, y + 12)
        browser.js(
            """(() => {
                const colours = document.querySelector("select[aria-label=colours]");
                colours.value = "time";
                colours.dispatchEvent(new Event("change"));
            })()"""
        )
        browser.painted()
        red, green, blue = pixel(browser, x + 40, y + 12)[:3]
        assert red > 1.5 * max(green, blue) and before[:3] != [red, green, blue]


def test_a_double_click_opens_a_body(tmp_path: Path) -> None:
    with Browser(written(ort.explain(opened(BODIES, "kernels")), tmp_path), tmp_path) as browser:
        browser.press("/")
        browser.type("choice")
        browser.press("Enter", "ArrowDown", "Escape")
        browser.js("document.querySelector('canvas').scrollIntoView({ block: 'center' })")
        browser.click_at(*middle(browser), count=2)
        assert browser.text(".pane h3") == "then_branch of choice"


def test_a_row_of_a_table_shows_its_node_in_the_graph(tmp_path: Path) -> None:
    with Browser(written(mixed(runs=1), tmp_path), tmp_path) as browser:
        browser.click("tr[tabindex]", "words")
        assert browser.text(".pane h3") == "Cast words"
        assert "of a run" in browser.text(".pane")
        browser.js("document.querySelectorAll('tr.open')[0].focus()")
        browser.press("Enter")
        assert browser.text(".pane h3") == "Cast words"


@pytest.mark.parametrize("dark", [False, True])
def test_5000_nodes_are_shown_and_searched(tmp_path: Path, dark: bool) -> None:
    with Browser(written(chain(5000), tmp_path), tmp_path, dark=dark) as browser:
        assert "5000 nodes" in browser.text(".pane")
        browser.press("/")
        browser.type("layer.77/")
        assert browser.text(".found") == "50 found"
        browser.press("Enter")
        assert browser.text(".pane h3").endswith("_3850")
        browser.press("Enter")
        assert browser.text(".pane h3").endswith("_3851")
        x, y = middle(browser)
        for _ in range(6):
            browser.wheel(x, y, 240)
        browser.drag(x, y, x - 100, y)
        assert browser.js("document.querySelectorAll('canvas').length") == 1
