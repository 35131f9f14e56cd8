"""A plugin in a process of its own: what would end the program is an exception.

The next session works.
"""

import os
import signal

import ephost as ort
import numpy as np
from ephost.plugins import sample_kernels
from onnx import parser

MODEL = parser.parse_model(
    """<ir_version: 8, opset_import: ["": 17]> g (float[2] x) => (float[2] y) { y = Add(x, x) }"""
).SerializeToString()
FEED = {"x": np.array([1, 2], np.float32)}

ort.register_execution_provider_library(
    "vendor", sample_kernels.get_library_path(), isolated={"run_timeout_seconds": 10}
)


def open_session() -> ort.InferenceSession:
    """A session on the plugin, with a worker process of its own."""
    options = ort.SessionOptions()
    options.add_provider_for_devices(
        [device for device in ort.get_ep_devices() if device.registration_name == "vendor"], {}
    )
    return ort.InferenceSession(MODEL, options)


def workers() -> set[int]:
    """The processes that this one has started."""
    with open(f"/proc/self/task/{os.getpid()}/children", encoding="ascii") as children:
        return set(map(int, children.read().split()))


session = open_session()
print("it runs:      ", session.run(None, FEED)[0])

for worker in workers():  # stands for a plugin that crashes
    os.kill(worker, signal.SIGSEGV)
try:
    while True:  # a signal may take a moment
        session.run(None, FEED)
except ort.PluginCrashed as error:
    print("it crashed:   ", signal.Signals(error.signal).name, "in", error.last_call)

print("the next one: ", open_session().run(None, FEED)[0])
