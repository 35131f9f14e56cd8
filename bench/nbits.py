"""MatMulNBits: one row (a step of a decoder) and 128 (a prompt) by weights of four and eight bits.

Float32 inputs and symmetric weights in blocks of 32, on the host's own provider, all cores. Accuracy level 4
lets inputs be rounded to 8 bits, as both hosts do; at level 0 they stay float32. Results are held
to each other first.

    python bench/nbits.py [--save]                  beside onnxruntime
    python bench/nbits.py --against CHECKOUT        beside another commit of ephost
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import onnx
from harness.report import Row, arguments, note, report, temporary_folder, wanted
from harness.results import begin
from harness.sides import Host, in_turns, sides
from onnx import TensorProto, helper, numpy_helper

BLOCK = 32
# k x n: an attention's products, an MLP's two, and a vocabulary, of models of 0.1 to 1 billion weights.
SIZES = ((768, 768), (2048, 2048), (2048, 8192), (8192, 2048), (768, 50257))
ROWS = (1, 128)


def product(folder: Path, rows: int, k: int, n: int, bits: int, level: int) -> str:
    """A model of one product with random weights."""
    random = np.random.default_rng(k + n)
    blocks = k // BLOCK
    constants = {
        "w": random.integers(0, 256, size=(n, blocks, BLOCK * bits // 8), dtype=np.uint8),
        "s": random.uniform(0.01, 0.02, size=n * blocks).astype(np.float32),
    }
    node = helper.make_node(
        "MatMulNBits",
        ["x", *constants],
        ["y"],
        domain="com.microsoft",
        K=k,
        N=n,
        bits=bits,
        block_size=BLOCK,
        accuracy_level=level,
    )
    graph = helper.make_graph(
        [node],
        "product",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [rows, k])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [rows, n])],
        [numpy_helper.from_array(value, name) for name, value in constants.items()],
    )
    opsets = [helper.make_opsetid("", 21), helper.make_opsetid("com.microsoft", 1)]
    path = str(folder / "product.onnx")
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=10), path)
    return path


def main() -> int:
    """Measure and report."""
    options = arguments(__doc__, rounds=9)
    both = sides(options.against)
    kept = begin("nbits")
    rows = []
    with temporary_folder() as folder, Host(both[0]) as one, Host(both[1]) as other:
        hosts = (one, other)
        for bits, level in ((4, 4), (4, 0), (8, 4)):
            for m in ROWS:
                for k, n in SIZES:
                    name = f"{m} x {k} x {n}, {bits} bits, level {level}"
                    if not wanted(name, options):
                        continue
                    note(f"{name} ...")
                    model = product(folder, m, k, n, bits, level)
                    first, second = (host("prepare", model=model, shape=[m, k]) for host in hosts)
                    if not np.allclose(first, second, rtol=1e-2, atol=1e-2 * np.abs(first).max()):
                        raise SystemExit(f"{name}: the hosts do not agree")
                    calls = max(1, int(2e7 / (m * k * n)))
                    times = in_turns(hosts, "run", rounds=options.rounds, calls=calls)
                    rows.append(Row(name, *times, limit=1.0))
    return report(kept, rows, both, options)


if __name__ == "__main__":
    sys.exit(main())
