"""How smooth the page of `ephost explain --html` is: times of frames of a model of 5,000 nodes.

A headless Chromium draws in software, as on a machine without a GPU, and as fast as it can: a frame that
takes less than 16.7 ms is in time for a screen of 60 Hz. *Near* is where names can be read, *all* has every
node in sight. `script` is what the page's own code takes of a frame; the rest is the browser's drawing.

    python bench/pages.py [--nodes N] [--frames N] [--photographs FOLDER] [--save]
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
from pathlib import Path
from typing import Any

import onnx
from harness.machine import ROOT
from harness.results import begin
from onnx import TensorProto, helper

sys.path[:0] = [str(ROOT / "host"), str(ROOT / "tests" / "host")]
import ephost  # noqa: E402
from browsing import Browser  # noqa: E402
from ephost.plugins import sample_kernels  # noqa: E402

LIMIT = 16.7  # milliseconds
UNLIMITED = ("--disable-frame-rate-limit", "--disable-gpu-vsync")
# What one frame is asked for by; the page paints in the next one.
FRAMES = """((count, act) => new Promise((done) => {
    const canvas = document.querySelector("canvas"), times = [], scripts = [];
    const key = (name, shiftKey) =>
        canvas.dispatchEvent(new KeyboardEvent("keydown", { key: name, shiftKey, cancelable: true }));
    const wheel = (deltaY) => {
        const { left, top, width, height } = canvas.getBoundingClientRect();
        canvas.dispatchEvent(new WheelEvent("wheel",
            { deltaY, clientX: left + width / 2, clientY: top + height / 2, cancelable: true }));
    };
    const real = window.requestAnimationFrame.bind(window);
    window.requestAnimationFrame = (paint) => real((now) => {
        const from = performance.now();
        paint(now);
        scripts.push(performance.now() - from);
    });
    let last = performance.now(), at = -3; // the first frames are not counted
    const turn = () => {
        const now = performance.now();
        if (at++ > 0) times.push(now - last);
        last = now;
        if (at > count) {
            window.requestAnimationFrame = real;
            return done([times, scripts.slice(-count)]);
        }
        act(at, key, wheel);
        real(turn);
    };
    real(turn);
}))"""
STAY = "(at, key) => { key('ArrowLeft', true); key('ArrowRight', true); }"
PAN = "(at, key) => key(at % 8 < 4 ? 'ArrowLeft' : 'ArrowRight', true)"
ZOOM = "(at, key, wheel) => wheel(at % 40 < 20 ? -60 : 60)"


def model(nodes: int) -> bytes:
    """A chain with branches, of which every hundredth node is the fallback's."""
    operators = ["Relu", "Add", "Mul", "Sigmoid", *["Relu"] * 95, "Erf"]
    made, names = [], ["x"]
    for at in range(nodes):
        operator = operators[at % len(operators)]
        reads = [names[-1], names[max(len(names) - 3, 0)]][: 2 if operator in ("Add", "Mul") else 1]
        made.append(helper.make_node(operator, reads, [f"v{at}"], name=f"/layer.{at // 50}/{operator}_{at}"))
        names.append(f"v{at}")
    given = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [8]) for name in ("x", names[-1])]
    graph = helper.make_graph(made, "chain", given[:1], given[1:])
    proto: onnx.ModelProto = helper.make_model(
        graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8
    )
    return bytes(proto.SerializeToString())


def measure(browser: Browser, name: str, act: str, count: int) -> dict[str, Any]:
    """Frames while something is done in each of them."""
    times, scripts = browser.js(f"{FRAMES}({count}, {act})")
    ordered = sorted(times)
    return {
        "name": name,
        "frames": len(times),
        "median_ms": statistics.median(times),
        "p95_ms": ordered[int(0.95 * (len(ordered) - 1))],
        "best_ms": ordered[0],
        "script_median_ms": statistics.median(scripts),
    }


def main() -> int:
    """Measure and report."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", maxsplit=1)[0])
    parser.add_argument("--nodes", type=int, default=5000, help="of the model (%(default)s)")
    parser.add_argument("--frames", type=int, default=120, help="of each measurement (%(default)s)")
    parser.add_argument("--photographs", type=Path, metavar="FOLDER", help="write what is to be seen, as PNG")
    parser.add_argument("--save", action="store_true", help="keep the figures in bench/results")
    parser.add_argument("--json", metavar="FILE", help="write the figures there, too")
    parser.add_argument("--check", action="store_true", help="exit with 1 when a median is above 16.7 ms")
    options = parser.parse_args()
    ephost.register_execution_provider_library("bundled", sample_kernels.get_library_path())
    session = ephost.InferenceSession(model(options.nodes), providers=[sample_kernels.get_ep_name()])
    kept = begin("pages")
    with tempfile.TemporaryDirectory() as folder:
        page = Path(folder, "page.html")
        page.write_text(ephost.explain(session).to_html(), encoding="utf-8")
        with Browser(page, Path(folder), flags=UNLIMITED) as browser:
            browser.js("document.querySelector('canvas').focus()")
            for place, keys in {"all": ("0",), "near": ("ArrowDown", "ArrowDown", "Enter", "Escape")}.items():
                browser.press(*keys)
                kept.rows += [
                    measure(browser, f"{place}, painted again", STAY, options.frames),
                    measure(browser, f"{place}, panning", PAN, options.frames),
                ]
            browser.press("0")
            kept.rows.append(measure(browser, "zooming between them", ZOOM, options.frames))
        for dark in (False, True) if options.photographs else ():
            options.photographs.mkdir(parents=True, exist_ok=True)
            with Browser(page, Path(folder, f"profile-{dark}"), dark=dark) as browser:
                for name, keys in (("all", "0"), ("middle", "+" * 6), ("near", "+" * 9)):
                    browser.js("document.querySelector('canvas').focus()")
                    browser.press(*keys)
                    browser.photograph(options.photographs / f"{name}-{'dark' if dark else 'light'}.png")
    for row in kept.rows:
        median, most, best = (f"{row[key]:6.2f} ms" for key in ("median_ms", "p95_ms", "best_ms"))
        print(f"{row['name']:24} a frame: median {median}, 95 % within {most}, best {best}; ", end="")
        print(f"of the median the page's script {row['script_median_ms']:.2f} ms")
    if options.json:
        kept.write(Path(options.json))
    if options.save:
        kept.keep()
    worst = max(row["median_ms"] for row in kept.rows)
    return 1 if options.check and worst > LIMIT else 0


if __name__ == "__main__":
    sys.exit(main())
