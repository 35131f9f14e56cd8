"""From a wrong answer to the node that makes it: a published plugin forgets an attribute.

nxrt-ep-cpu 0.1.0.dev6 fills what ConstantOfShape makes with zeros, whatever value the node has.
"""

import subprocess
import sys
import tempfile
from pathlib import Path

import ephost
import numpy as np
import nxrt_ep_cpu
from onnx import helper, numpy_helper, parser

MODEL = parser.parse_model(
    """<ir_version: 8, opset_import: ["": 17]>
    biased (float[N, 4] x) => (float[N, 4] y) {
        scaled = Mul(x, x)
        size = Shape(scaled)
        bias = ConstantOfShape(size)
        sum = Add(scaled, bias)
        y = Tanh(sum)
    }"""
)
HALF = numpy_helper.from_array(np.array([0.5], np.float32))
MODEL.graph.node[2].attribute.append(helper.make_attribute("value", HALF))

if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        result = ephost.bisect(
            MODEL,
            nxrt_ep_cpu.get_library_path(),
            dimensions={"N": 3},
            output=folder,  # result.json, index.html, and a folder for each fault
        )
        print(result.headline())
        for fault in result.faults:
            print("  who:    ", fault.headline())
            if fault.repro is not None:
                print("  least:  ", ", ".join(fault.repro.operators), "in", ", ".join(fault.repro.hosts))
                print("  files:  ", ", ".join(sorted(p.name for p in Path(folder, "fault1").iterdir())))
                done = subprocess.run(
                    [sys.executable, Path(folder, "fault1", "repro.py")],
                    capture_output=True,
                    text=True,
                    check=False,
                )
                print("  repro:  ", done.stdout.splitlines()[-1])
