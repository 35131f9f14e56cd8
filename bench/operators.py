"""Operators and small networks that are easily slow: wide kernels, sines, samples of grids, taggers, signals.

Synthetic, at the sizes of networks that are in use, on the host's own provider, all cores. Results are held
to each other first. --busy measures while two other processes compute.

    python bench/operators.py [--save]              beside onnxruntime
    python bench/operators.py --busy [--save]       the same on a busy machine
    python bench/operators.py --against CHECKOUT    beside another commit of ephost
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from harness.busy import others_computing
from harness.report import Row, arguments, note, report, temporary_folder, wanted
from harness.results import begin
from harness.sides import Host, in_turns, sides
from onnx import TensorProto, helper, numpy_helper

OTHERS = 2  # Processes on a busy machine.
LIMIT = 1.0
CALL = 2e-3  # Seconds or so of calls that are timed together.

Feed = dict[str, np.ndarray]
random = np.random.default_rng(0)


def _some(*shape: int) -> np.ndarray:
    return (random.standard_normal(shape) * 0.1).astype(np.float32)


def _model(nodes: Sequence[onnx.NodeProto], feed: Feed, constants: Feed) -> bytes:
    kind = helper.np_dtype_to_tensor_dtype
    graph = helper.make_graph(
        nodes,
        "case",
        [helper.make_tensor_value_info(name, kind(x.dtype), x.shape) for name, x in feed.items()],
        [helper.make_tensor_value_info("y", TensorProto.UNDEFINED, None)],
        [numpy_helper.from_array(value, name) for name, value in constants.items()],
    )
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=10)
    content: bytes = onnx.shape_inference.infer_shapes(made, strict_mode=True).SerializeToString()
    return content


def _one(op: str, inputs: Feed, constants: Feed | None = None, **attributes: Any) -> tuple[bytes, Feed]:
    node = helper.make_node(op, [*inputs, *(constants or {})], ["y"], **attributes)
    return _model([node], inputs, constants or {}), inputs


def _conv(shape: tuple[int, ...], outputs: int, *kernel: int, **more: Any) -> tuple[bytes, Feed]:
    pads = [k // 2 for k in kernel] + [(k - 1) // 2 for k in kernel]
    weights = {"w": _some(outputs, shape[1], *kernel), "b": _some(outputs)}
    return _one("Conv", {"x": _some(*shape)}, weights, pads=pads, **more)


def _tagger(words: int) -> tuple[bytes, Feed]:
    """Embeddings, two LSTMs in both directions, and the best of 20 tags for each word."""
    wide, hidden = 100, 128
    constants = {
        "e": _some(5000, wide),
        "last": _some(2 * hidden, 20),
        "flat": np.array([0, 0, -1]),
    }
    nodes = [helper.make_node("Gather", ["e", "x"], ["c"])]
    at = "c"
    for i, width in enumerate((wide, 2 * hidden)):
        constants |= {
            f"w{i}": _some(2, 4 * hidden, width),
            f"r{i}": _some(2, 4 * hidden, hidden),
            f"b{i}": _some(2, 8 * hidden),
        }
        weights = [f"w{i}", f"r{i}", f"b{i}"]
        nodes += [
            helper.make_node(
                "LSTM", [at, *weights], [f"l{i}"], direction="bidirectional", hidden_size=hidden
            ),
            helper.make_node("Transpose", [f"l{i}"], [f"t{i}"], perm=[0, 2, 1, 3]),
            helper.make_node("Reshape", [f"t{i}", "flat"], [f"c{i}"]),
        ]
        at = f"c{i}"
    nodes += [
        helper.make_node("MatMul", [at, "last"], ["s"]),
        helper.make_node("ArgMax", ["s"], ["y"], axis=2),
    ]
    feed = {"x": random.integers(0, 5000, size=(words, 1))}
    return _model(nodes, feed, constants), feed


def _signals() -> tuple[bytes, Feed]:
    """EEG: kernels along time, then along electrodes, then along time again."""
    constants = {
        "time": _some(8, 1, 1, 64),
        "place": _some(16, 1, 22, 1),
        "again": _some(16, 1, 1, 16),
        "mix": _some(16, 16, 1, 1),
        "last": _some(512, 2),
    }
    node = helper.make_node
    nodes = [
        node("Conv", ["x", "time"], ["a"], pads=[0, 32, 0, 31]),
        node("Conv", ["a", "place"], ["b"], group=8),
        node("Elu", ["b"], ["c"]),
        node("AveragePool", ["c"], ["d"], kernel_shape=[1, 4], strides=[1, 4]),
        node("Conv", ["d", "again"], ["e"], group=16, pads=[0, 8, 0, 7]),
        node("Conv", ["e", "mix"], ["f"]),
        node("Elu", ["f"], ["g"]),
        node("AveragePool", ["g"], ["h"], kernel_shape=[1, 8], strides=[1, 8]),
        node("Flatten", ["h"], ["i"]),
        node("MatMul", ["i", "last"], ["j"]),
        node("Softmax", ["j"], ["y"]),
    ]
    feed = {"x": _some(1, 1, 22, 1024)}
    return _model(nodes, feed, constants), feed


def cases() -> dict[str, Any]:
    """By name what makes a model and its feed."""
    pixels = {"x": _some(1, 32, 64, 64), "g": random.uniform(-1, 1, (1, 64, 64, 2)).astype(np.float32)}
    angles = {"x": _some(1, 64, 1024) * 100}
    return {
        "Conv, 1 channel, 41 x 11 taps": lambda: _conv((1, 1, 161, 300), 32, 41, 11, strides=[2, 2]),
        "Conv, 2 channels, 41 x 11 taps": lambda: _conv((1, 2, 161, 300), 32, 41, 11, strides=[2, 2]),
        "Conv, 32 channels, 21 x 11 taps": lambda: _conv((1, 32, 81, 150), 32, 21, 11, strides=[2, 1]),
        "Conv, 1 channel, 1 x 64 taps": lambda: _conv((1, 1, 22, 1024), 8, 1, 64),
        "a network for EEG": _signals,
        "Sin, 64 x 1024": lambda: _one("Sin", angles),
        "Cos, 64 x 1024": lambda: _one("Cos", angles),
        "GridSample, linear": lambda: _one("GridSample", pixels, mode="bilinear"),
        "GridSample, cubic": lambda: _one("GridSample", pixels, mode="bicubic"),
        "MatMul, a row by a fed 768 x 768": lambda: _one(
            "MatMul", {"x": _some(1, 768), "z": _some(768, 768)}
        ),
        "MatMul, 12 rows by fed 512 x 64": lambda: _one(
            "MatMul", {"x": _some(12, 1, 512), "z": _some(12, 512, 64)}
        ),
        "MatMul, a fed 768 x 768 by a column": lambda: _one(
            "MatMul", {"x": _some(768, 768), "z": _some(768, 1)}
        ),
        "MatMulInteger, 128 x 768 x 3072": lambda: _one(
            "MatMulInteger",
            {"x": random.integers(0, 256, (128, 768), dtype=np.uint8)},
            {"w": random.integers(-128, 128, (768, 3072), dtype=np.int8)},
        ),
        "ArgMax, 21 x 256 x 256 along channels": lambda: _one(
            "ArgMax", {"x": _some(1, 21, 256, 256)}, axis=1
        ),
        "ArgMax, 512 x 1000 along rows": lambda: _one("ArgMax", {"x": _some(512, 1000)}, axis=-1),
        "MaxPool, 3 x 3, 64 x 111 x 111": lambda: _one(
            "MaxPool", {"x": _some(1, 64, 111, 111)}, kernel_shape=[3, 3], strides=[2, 2]
        ),
        "a tagger of 2 LSTMs, 30 words": lambda: _tagger(30),
        "a tagger of 2 LSTMs, 200 words": lambda: _tagger(200),
    }


def _more(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--busy", action="store_true", help=f"while {OTHERS} other processes compute")


def main() -> int:
    """Measure and report."""
    options = arguments(__doc__, rounds=9, more=_more)
    both = sides(options.against)
    kept = begin("operators-busy" if options.busy else "operators")
    rows = []
    with temporary_folder() as folder, Host(both[0]) as one, Host(both[1]) as other:
        hosts = (one, other)
        model, data = folder / "model.onnx", folder / "feed.npz"
        for name, make in cases().items():
            if not wanted(name, options):
                continue
            note(f"{name} ...")
            content, feed = make()
            Path(model).write_bytes(content)
            np.savez(data, **feed)
            found = [np.array(host("prepare_feed", model=str(model), feed=str(data))[0]) for host in hosts]
            if not np.allclose(*found, rtol=1e-3, atol=1e-3 * np.abs(found[0]).max()):
                raise SystemExit(f"{name}: the hosts do not agree")
            calls = max(1, round(CALL / hosts[0]("run", calls=1)))
            with others_computing(OTHERS if options.busy else 0):
                times = in_turns(hosts, "run", rounds=options.rounds, calls=calls)
            rows.append(Row(name, *times, limit=LIMIT))
    return report(kept, rows, both, options)


if __name__ == "__main__":
    sys.exit(main())
