"""Which nodes each plugin took, and why one fell back to the host's reference operators.

    python samples/explain_partitions.py [PAGE.html]

With a path, writes a page for a browser as well: the graph by partition.
"""

import sys
from pathlib import Path

import ephost as ort
from ephost.plugins import sample_kernels
from onnx import parser

MODEL = parser.parse_model(
    """<ir_version: 10, opset_import: ["": 20]>
    mixed (float[4] a, string[4] words) => (float[4] y, bool[4] are_hexadecimal) {
        sum = Add(a, a)
        y = Erf(sum)
        are_hexadecimal = RegexFullMatch<pattern = "(?i)[0-9a-f]+">(words)
    }"""
)

ort.register_execution_provider_library("bundled", sample_kernels.get_library_path())
options = ort.SessionOptions()
options.add_session_config_entry("ephost.record_refusals", "1")  # what plugins say of nodes that they leave
devices = [device for device in ort.get_ep_devices() if device.registration_name == "bundled"]
options.add_provider_for_devices(devices, {})
session = ort.InferenceSession(MODEL.SerializeToString(), options)

explanation = ort.explain(session)
print(explanation)  # tables

print("\nThe same from Python:")
for entry in explanation.fallback:
    for refusal in entry.reasons:
        print(f"  {entry.node.op_type}{list(entry.input_types)}: {refusal.ep_name}: {refusal.reason}")

if len(sys.argv) > 1:
    Path(sys.argv[1]).write_text(explanation.to_html(), encoding="utf-8")
    print(f"\nThe graph by partition: {sys.argv[1]}")
