"""What isolation adds to a run: the same model on the same plugin, in a process and in a worker of one.

In turns, each of the two in a program of its own, since a plugin's threads look for work for a while after
a run, and some put the thread that calls them on a processor. The outputs of both are compared first. Where
the system puts the threads of a program is mostly settled when it starts, so each is measured several times,
in new programs. What is not installed is left out, and named.

    python bench/isolation.py                        one node, and real models, on nxrt and OpenVINO
    python bench/isolation.py --only "one node"      what has this in its name
    chrt -f 10 python bench/isolation.py             on a machine that does other work, too
    python bench/isolation.py --save                 keeps it in bench/results, for `make results`
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import subprocess
import sys
import tempfile
import time
from multiprocessing.connection import Connection
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
from harness.machine import ROOT
from harness.models import adds
from harness.results import begin

sys.path[:0] = [str(ROOT / "host"), str(ROOT / "tests" / "vendor")]
from real_models import feeds_for, models  # noqa: E402
from vendors import VENDORS  # noqa: E402

_ONE_NODE = "one node"
# nxrt takes none of rapidocr's nodes, but some of the last one's.
_MODELS = (_ONE_NODE, "det", "rec", "cls", "light_inception_v1")
_VENDORS = ("nxrt", "openvino")
_SAMPLE = 0.005  # seconds: what is quicker is run several times for one measurement
_ROUNDS = 301
_LIMITS = {"det": 1.03, "rec": 1.03, "cls": 1.03}  # ratios that a release is held to


def opened(vendor_name: str, model: Any, *, isolated: bool) -> Any:
    """A session on the vendor's plugin, in this process or in a worker."""
    import ephost

    vendor = VENDORS[vendor_name]
    name = vendor.registration + ("_apart" if isolated else "")
    ephost.register_execution_provider_library(name, str(vendor.library), isolated=isolated)
    options = ephost.SessionOptions()
    found = [device for device in ephost.get_ep_devices() if device.registration_name == name]
    options.add_provider_for_devices(found[:1], vendor.options)
    return ephost.InferenceSession(model, options, enable_fallback=0)


def serve(connection: Connection, vendor_name: str, name: str, isolated: bool) -> None:
    """A program with the model open: sends how many nodes the plugin has and what the outputs are, then for
    each number that comes the seconds that so many runs take.
    """
    path = models().get(name)
    with tempfile.TemporaryDirectory() as folder:
        model = Path(adds(Path(folder), "one", shape=(4, 4))).read_bytes() if path is None else str(path)
    session = opened(vendor_name, model, isolated=isolated)
    if path is None:
        feeds = {given.name: np.ones((4, 4), np.float32) for given in session.get_inputs()}
    else:
        feeds = feeds_for(name, session)
    taken = sum(len(a.nodes) for a in session._resources.assignments if a.ep.shared_pool is not None)
    connection.send((taken, session.run(None, feeds)))
    while count := connection.recv():
        start = time.perf_counter()
        for _ in range(count):
            session.run(None, feeds)
        connection.send(time.perf_counter() - start)


def measure(vendor_name: str, name: str) -> dict[str, Any]:
    """Medians of a run here and apart, in seconds, and of the differences in turns, or `left_out`."""
    context = multiprocessing.get_context("spawn")
    ends, told = [], []
    for isolated in (False, True):
        end, theirs = context.Pipe()
        context.Process(target=serve, args=(theirs, vendor_name, name, isolated), daemon=True).start()
        theirs.close()
        told.append(end.recv())
        ends.append(end)
    (_, expected), (taken, found) = told
    if not taken:
        return {"left_out": "the plugin takes none of its nodes"}
    for one, other in zip(expected, found, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-3, atol=1e-4)

    def timed(end: Connection, count: int) -> float:
        end.send(count)
        seconds: float = end.recv()
        return seconds / count

    here, apart = ends
    count = max(1, int(_SAMPLE / max(timed(here, 3), timed(here, 3))))
    timed(apart, count)
    pairs = []
    for at in range(_ROUNDS):
        took = {end: timed(end, count) for end in (ends if at % 2 else ends[::-1])}
        pairs.append((took[here], took[apart]))
    for end in ends:
        end.send(0)
    return {
        "here": median(a for a, _ in pairs),
        "apart": median(b for _, b in pairs),
        "added": median(b - a for a, b in pairs),
        "ratio": median(b / a for a, b in pairs),
        "nodes": taken,
    }


def main() -> None:
    """Measure each model in a process of its own, and print what came of it."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", default="", help="what has this in its name")
    parser.add_argument("--times", type=int, default=5, help="how often each is measured")
    parser.add_argument("--save", action="store_true", help="keep what is measured in bench/results")
    parser.add_argument("--work", nargs=2, metavar=("VENDOR", "MODEL"), help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.work:
        print(json.dumps(measure(*arguments.work)))
        return
    kept = begin("isolation")
    for vendor in _VENDORS:
        for model in _MODELS:
            title = f"{model} on {vendor}"
            if arguments.only not in title:
                continue
            row = {"name": title, **measured(vendor, model, arguments.times)}
            if model in _LIMITS:
                row["limit"] = _LIMITS[model]
            kept.rows.append(row)
            print(f"{title}: {said(row)}", flush=True)
    if arguments.save:
        if arguments.only:
            parser.error("--save keeps the whole of it: leave --only out")
        kept.keep()


def measured(vendor: str, model: str, times: int) -> dict[str, Any]:
    """The medians of several measurements, each in processes of its own; why there are none in `left_out`."""
    environment = {**os.environ, **VENDORS[vendor].variables()}
    command = [sys.executable, str(Path(__file__)), "--work", vendor, model]
    found = []
    for _ in range(times):
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            return {"left_out": (done.stderr.strip().splitlines() or ["?"])[-1][:200]}
        found.append(json.loads(done.stdout.splitlines()[-1]))
        if "left_out" in found[-1]:
            return {"left_out": str(found[-1]["left_out"])}
    row: dict[str, Any] = {
        key: median(each[key] for each in found) for key in ("here", "apart", "added", "ratio")
    }
    return {**row, "ratios": [round(each["ratio"], 4) for each in found], "nodes": found[0]["nodes"]}


def said(row: dict[str, Any]) -> str:
    """A measurement in words."""
    if "left_out" in row:
        return f"left out: {row['left_out']}"
    return (
        f"{row['here'] * 1e6:.1f} us here, {row['apart'] * 1e6:.1f} apart, {row['added'] * 1e6:+.1f} us, "
        f"ratio {row['ratio']:.3f} of {row['ratios']} ({row['nodes']} nodes on the plugin)"
    )


if __name__ == "__main__":
    main()
