"""Which nodes a plugin took, and why the others fell back to the host."""

import ephost as ort
from ephost.plugins import sample_kernels
from onnx import parser

MODEL = parser.parse_model(
    """<ir_version: 8, opset_import: ["": 17]>
    mixed (float[4] a, double[4] b) => (float[4] y, double[4] z) {
        sum = Add(a, a)
        y = Erf(sum)
        z = Add(b, b)
    }"""
)

ort.register_execution_provider_library("bundled", sample_kernels.get_library_path())
options = ort.SessionOptions()
devices = [device for device in ort.get_ep_devices() if device.registration_name == "bundled"]
options.add_provider_for_devices(devices, {})
session = ort.InferenceSession(MODEL.SerializeToString(), options)

explanation = ort.explain(session)
print(explanation)  # tables

print("\nThe same from Python:")
for entry in explanation.fallback:
    for refusal in entry.reasons:
        print(f"  {entry.node.op_type}{list(entry.input_types)}: {refusal.ep_name}: {refusal.reason}")
