"""Several plugins in one session: what the first does not claim, the next one is offered."""

import ephost as ort
import numpy as np
from ephost.plugins import sample_compiler, sample_kernels
from onnx import parser

MODEL = parser.parse_model(
    """<ir_version: 8, opset_import: ["": 17]>
    layer (float[n, 4] x, float[4, 4] w) => (float[n, 4] y) {
        product = MatMul(x, w)
        scaled = Mul(product, product)
        sum = Add(scaled, product)
        y = Relu(sum)
    }"""
)

for name, plugin in (("compiler", sample_compiler), ("kernels", sample_kernels)):
    ort.register_execution_provider_library(name, plugin.get_library_path())


def open_on(*names: str) -> ort.InferenceSession:
    """A session on these libraries, in this order of priority. Options for an EP would go into the dict."""
    options = ort.SessionOptions()
    for name in names:
        options.add_provider_for_devices([d for d in ort.get_ep_devices() if d.registration_name == name], {})
    return ort.InferenceSession(MODEL.SerializeToString(), options)


feed = {"x": np.ones((2, 4), np.float32), "w": np.eye(4, dtype=np.float32)}
answers = []
for order in (("compiler", "kernels"), ("kernels", "compiler"), ()):
    session = open_on(*order)
    print(" then ".join(order) or "no plugin")
    for partition in ort.explain(session).partitions:
        print(
            f"  {partition.ep_name}: {', '.join(node.op_type for node in partition.nodes)} ({partition.kind})"
        )
    answers.append(session.run(None, feed)[0])
assert all(np.array_equal(answer, answers[0]) for answer in answers)
