"""The shortest program: a model, a plugin, a run. In place of the bundled plugin, name your own library."""

import ephost as ort
import numpy as np
from ephost.plugins import sample_kernels
from onnx import parser

MODEL = parser.parse_model(
    """<ir_version: 8, opset_import: ["": 17]>
    scores (float[n, 3] x, float[3, 2] w) => (float[n, 2] y) { product = MatMul(x, w)  y = Relu(product) }"""
)

ort.register_execution_provider_library("bundled", sample_kernels.get_library_path())
devices = [device for device in ort.get_ep_devices() if device.ep_name == sample_kernels.get_ep_name()]

options = ort.SessionOptions()
options.add_provider_for_devices(devices, {})
session = ort.InferenceSession(MODEL.SerializeToString(), options)  # or a path

x = np.array([[1, 2, 3], [-1, 0, 1]], dtype=np.float32)
w = np.array([[1, 0], [0, 1], [1, -1]], dtype=np.float32)
(y,) = session.run(None, {"x": x, "w": w})
print(y)

del session  # a library in use cannot be unregistered
ort.unregister_execution_provider_library("bundled")
