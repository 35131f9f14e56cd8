"""One session, many threads: runs overlap without the GIL, and a run can be stopped from outside."""

from concurrent.futures import ThreadPoolExecutor

import ephost as ort
import numpy as np
from ephost import errors
from ephost.plugins import sample_kernels
from onnx import parser

MODEL = parser.parse_model(
    """<ir_version: 8, opset_import: ["": 17]>
    g (float[256, 256] x) => (float[256, 256] y) { a = MatMul(x, x)  b = MatMul(a, a)  y = Relu(b) }"""
)

ort.register_execution_provider_library("bundled", sample_kernels.get_library_path())
options = ort.SessionOptions()
devices = [device for device in ort.get_ep_devices() if device.registration_name == "bundled"]
options.add_provider_for_devices(devices, {})
session = ort.InferenceSession(MODEL.SerializeToString(), options)


def run(seed: int) -> float:
    """One run on random numbers: what comes out belongs to the caller alone."""
    x = np.random.default_rng(seed).standard_normal((256, 256), dtype=np.float32)
    (y,) = session.run(None, {"x": x})
    return float(y.sum())


with ThreadPoolExecutor(max_workers=4) as pool:
    together = list(pool.map(run, range(16)))
assert together == [run(seed) for seed in range(16)]
print(f"16 runs on 4 threads gave what 16 runs in a row give: {together[0]:.4g}, {together[1]:.4g}, ...")

# `terminate` stops the runs that use these options before their next node.
stop = ort.RunOptions()
stop.terminate = True
try:
    session.run(None, {"x": np.zeros((256, 256), np.float32)}, stop)
except errors.OnnxRuntimeException as error:
    print("stopped:", error)
