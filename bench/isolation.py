"""What isolation adds to a run: the same model on the same plugin, in this process and in a worker, in turns.

A process for each model, since plugins keep threads. The outputs of both are compared first. What is not
installed is left out, and named.

    python bench/isolation.py                        one node, and real models, on nxrt and OpenVINO
    python bench/isolation.py --only "one node"      what has this in its name
    chrt -f 10 python bench/isolation.py             on a machine that does other work, too
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
from harness.machine import ROOT
from harness.models import adds

sys.path[:0] = [str(ROOT / "host"), str(ROOT / "tests" / "vendor")]
from real_models import feeds_for, models  # noqa: E402
from vendors import VENDORS  # noqa: E402

_ONE_NODE = "one node"
# nxrt takes none of rapidocr's nodes, but some of the last one's.
_MODELS = (_ONE_NODE, "det", "rec", "cls", "light_inception_v1")
_VENDORS = ("nxrt", "openvino")
_SAMPLE = 0.02  # seconds: what is quicker is run several times for one measurement
_ROUNDS = 41


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


def measure(vendor_name: str, name: str) -> dict[str, Any]:
    """Medians of a run here and apart, in microseconds, and of the differences in turns."""
    path = models().get(name)
    with tempfile.TemporaryDirectory() as folder:
        model = Path(adds(Path(folder), "one", shape=(4, 4))).read_bytes() if path is None else str(path)
    here = opened(vendor_name, model, isolated=False)
    apart = opened(vendor_name, model, isolated=True)
    taken = sum(len(a.nodes) for a in apart._resources.assignments if a.ep.shared_pool is not None)
    if not taken:
        raise SystemExit("the plugin takes none of the model's nodes here")
    if path is None:
        feeds = {given.name: np.ones((4, 4), np.float32) for given in here.get_inputs()}
    else:
        feeds = feeds_for(name, here)
    for one, other in zip(here.run(None, feeds), apart.run(None, feeds), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-3, atol=1e-4)

    def timed(run: Callable[..., Any], count: int) -> float:
        start = time.perf_counter()
        for _ in range(count):
            run(None, feeds)
        return (time.perf_counter() - start) / count * 1e6

    count = max(1, int(_SAMPLE * 1e6 / max(timed(here.run, 3), timed(here.run, 3))))
    timed(apart.run, count)
    pairs = [
        (timed(here.run, count), timed(apart.run, count))
        if at % 2
        else tuple(reversed((timed(apart.run, count), timed(here.run, count))))
        for at in range(_ROUNDS)
    ]
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
    parser.add_argument("--work", nargs=2, metavar=("VENDOR", "MODEL"), help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.work:
        print(json.dumps(measure(*arguments.work)))
        return
    for vendor in _VENDORS:
        for model in _MODELS:
            title = f"{model} on {vendor}"
            if arguments.only not in title:
                continue
            environment = {**os.environ, **VENDORS[vendor].variables()}
            command = [sys.executable, str(Path(__file__)), "--work", vendor, model]
            done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
            if done.returncode != 0:
                print(f"{title}: left out: {(done.stderr.strip().splitlines() or ['?'])[-1][:200]}")
                continue
            told = json.loads(done.stdout.splitlines()[-1])
            print(
                f"{title}: {told['here']:.1f} us here, {told['apart']:.1f} apart, {told['added']:+.1f} us, "
                f"ratio {told['ratio']:.3f} ({told['nodes']} nodes on the plugin)"
            )


if __name__ == "__main__":
    main()
