"""Whole models on nxrt-ep-cpu in either host: ONNX's light models, rapidocr's and magika's.

Each host has a process of its own, since each brings threads that spin for a while after a run; the two are
asked in turns. Their outputs are compared before anything is timed. Most of the time is the plugin's, or is
spent in what it leaves to the host's own operators: in onnxruntime its CPU provider, here the reference
operators, which are made to be right and not to be quick.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
from side_by_side import HOSTS, PAUSE, SOURCE, Row, arguments, package_models, report, temporary_folder

DIMENSIONS = {  # for dimensions that a model leaves open
    "ch_PP-OCRv4_det_infer": (1, 3, 320, 320),
    "ch_PP-OCRv4_rec_infer": (1, 3, 48, 320),
    "ch_ppocr_mobile_v2.0_cls_infer": (1, 3, 48, 192),
    "model": (1, 2048),  # magika
}
_DTYPES = {"tensor(float)": np.float32, "tensor(int32)": np.int32, "tensor(int64)": np.int64}


def feed_for(session: Any, name: str) -> dict[str, np.ndarray]:
    """The same random input in either host."""
    random = np.random.default_rng(0)
    feed = {}
    for value in session.get_inputs():
        given = DIMENSIONS.get(name, tuple(value.shape))
        shape = [d if isinstance(d, int) else given[at] for at, d in enumerate(value.shape)]
        dtype = _DTYPES[value.type]
        if dtype is np.float32:
            feed[value.name] = random.random(shape, dtype=np.float32)
        else:
            feed[value.name] = random.integers(0, 256, shape).astype(dtype)
    return feed


def work(host: str, model: str, output: str) -> None:
    """One host's process: opens, writes its outputs to a file, then answers each line with a run's time."""
    import importlib

    import nxrt_ep_cpu

    module = importlib.import_module(host)
    module.register_execution_provider_library("nxrt", nxrt_ep_cpu.get_library_path())
    options = module.SessionOptions()
    options.add_provider_for_devices([d for d in module.get_ep_devices() if d.ep_name == "cpu_ep"], {})
    session = module.InferenceSession(model, options)
    feed = feed_for(session, Path(model).stem)
    np.savez(output, *session.run(None, feed))
    print("ready", flush=True)
    for _ in sys.stdin:
        start = time.perf_counter()
        session.run(None, feed)
        print(time.perf_counter() - start, flush=True)


def measure(model: str, folder: Path, rounds: int) -> dict[str, float]:
    """Median seconds of a run in each host."""
    workers, outputs = {}, {}
    for host in HOSTS:
        outputs[host] = folder / f"{host}.npz"
        command = [sys.executable, __file__, "--worker", json.dumps([host, model, str(outputs[host])])]
        workers[host] = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    samples: dict[str, list[float]] = {host: [] for host in HOSTS}
    try:
        for host, worker in workers.items():
            assert worker.stdout is not None
            if worker.stdout.readline() != "ready\n":
                raise RuntimeError(f"{host} cannot run {model}")
        expected, actual = (np.load(outputs[host]) for host in HOSTS)
        for name in expected.files:
            np.testing.assert_allclose(actual[name], expected[name], rtol=1e-3, atol=1e-4)
        order = list(HOSTS)
        for at in range(-2, rounds):
            for host in order:
                time.sleep(PAUSE)
                stdin, stdout = workers[host].stdin, workers[host].stdout
                assert stdin is not None and stdout is not None
                print(file=stdin, flush=True)
                elapsed = float(stdout.readline())
                if at >= 0:
                    samples[host].append(elapsed)
            order.reverse()
    finally:
        for worker in workers.values():
            worker.communicate()
    return {host: median(times) for host, times in samples.items()}


def main() -> int:
    """Measure and report."""
    options = arguments(__doc__, rounds=5)
    models = {
        **{name: path for name, path in package_models("onnx").items() if name.startswith("light_")},
        **package_models("rapidocr_onnxruntime"),
        **{f"magika {name}": path for name, path in package_models("magika").items()},
    }
    rows = []
    with temporary_folder() as folder:
        for name, path in models.items():
            if options.only in name:
                print(name, "...", file=sys.stderr, flush=True)
                rows.append(Row(name, **measure(path, folder, options.rounds)))
    return report(rows, options)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--worker"]:
        sys.path.insert(0, str(SOURCE))
        work(*json.loads(sys.argv[2]))
    else:
        sys.exit(main())
