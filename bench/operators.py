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
from typing import Any

import numpy as np
from harness.busy import others_computing
from harness.nodes import Feed, conv, network, prepare, random, single, some
from harness.report import Row, arguments, note, report, temporary_folder, wanted
from harness.results import begin
from harness.sides import Host, in_turns, sides
from onnx import TensorProto, helper

OTHERS = 2  # Processes on a busy machine.
LIMIT = 1.0
CALL = 2e-3  # Seconds or so of calls that are timed together.


def _tagger(words: int) -> tuple[bytes, Feed]:
    """Embeddings, two LSTMs in both directions, and the best of 20 tags for each word."""
    wide, hidden = 100, 128
    constants = {
        "e": some(5000, wide),
        "last": some(2 * hidden, 20),
        "flat": np.array([0, 0, -1]),
    }
    nodes = [helper.make_node("Gather", ["e", "x"], ["c"])]
    at = "c"
    for i, width in enumerate((wide, 2 * hidden)):
        constants |= {
            f"w{i}": some(2, 4 * hidden, width),
            f"r{i}": some(2, 4 * hidden, hidden),
            f"b{i}": some(2, 8 * hidden),
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
    return network(nodes, feed, constants), feed


def _signals() -> tuple[bytes, Feed]:
    """EEG: kernels along time, then along electrodes, then along time again."""
    constants = {
        "time": some(8, 1, 1, 64),
        "place": some(16, 1, 22, 1),
        "again": some(16, 1, 1, 16),
        "mix": some(16, 16, 1, 1),
        "last": some(512, 2),
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
    feed = {"x": some(1, 1, 22, 1024)}
    return network(nodes, feed, constants), feed


def _collecting(runs: int) -> tuple[bytes, Feed]:
    """A recurrent cell in a Loop, which collects what it makes in a sequence."""
    wide = 64
    floats = helper.make_tensor_type_proto(TensorProto.FLOAT, [1, wide])
    number, flag = (helper.make_tensor_type_proto(kind, []) for kind in (TensorProto.INT64, TensorProto.BOOL))
    sequence = helper.make_sequence_type_proto(floats)
    node = helper.make_node
    body = helper.make_graph(
        [
            node("Identity", ["going"], ["on"]),
            node("MatMul", ["h", "w"], ["m"]),
            node("Add", ["m", "x"], ["a"]),
            node("Tanh", ["a"], ["next"]),
            node("SequenceInsert", ["s", "next"], ["more"]),
        ],
        "cell",
        [
            helper.make_value_info(*each)
            for each in (("i", number), ("going", flag), ("h", floats), ("s", sequence))
        ],
        [helper.make_value_info(*each) for each in (("on", flag), ("next", floats), ("more", sequence))],
    )
    nodes = [
        node("SequenceEmpty", [], ["none"], dtype=TensorProto.FLOAT),
        node("Loop", ["runs", "", "x", "none"], ["last", "all"], body=body),
        node("ConcatFromSequence", ["all"], ["y"], axis=0),
    ]
    feed = {"x": some(1, wide)}
    return network(nodes, feed, {"runs": np.array(runs), "w": some(wide, wide) / wide}), feed


def _apart_and_together() -> tuple[bytes, Feed]:
    feed = {"x": some(1000, 64)}
    nodes = [
        helper.make_node("SplitToSequence", ["x"], ["s"]),
        helper.make_node("ConcatFromSequence", ["s"], ["y"], axis=0),
    ]
    return network(nodes, feed, {}), feed


def _transposed(shape: tuple[int, ...], outputs: int, *kernel: int, **more: Any) -> tuple[bytes, Feed]:
    return single("ConvTranspose", {"x": some(*shape)}, {"w": some(shape[1], outputs, *kernel)}, **more)


def _resized(x: np.ndarray, *size: int, **more: Any) -> tuple[bytes, Feed]:
    none = np.zeros(0, np.float32)
    constants = {"roi": none, "scales": none, "sizes": np.array([*x.shape[:2], *size])}
    return single("Resize", {"x": x}, constants, mode="linear", **more)


def cases() -> dict[str, Any]:
    """By name what makes a model and its feed."""
    pixels = {"x": some(1, 32, 64, 64), "g": random.uniform(-1, 1, (1, 64, 64, 2)).astype(np.float32)}
    angles = {"x": some(1, 64, 1024) * 100}
    return {
        "Conv, 1 channel, 41 x 11 taps": lambda: conv((1, 1, 161, 300), 32, 41, 11, strides=[2, 2]),
        "Conv, 2 channels, 41 x 11 taps": lambda: conv((1, 2, 161, 300), 32, 41, 11, strides=[2, 2]),
        "Conv, 32 channels, 21 x 11 taps": lambda: conv((1, 32, 81, 150), 32, 21, 11, strides=[2, 1]),
        "Conv, 1 channel, 1 x 64 taps": lambda: conv((1, 1, 22, 1024), 8, 1, 64),
        "a network for EEG": _signals,
        "Sin, 64 x 1024": lambda: single("Sin", angles),
        "Cos, 64 x 1024": lambda: single("Cos", angles),
        "GridSample, linear": lambda: single("GridSample", pixels, mode="bilinear"),
        "GridSample, cubic": lambda: single("GridSample", pixels, mode="bicubic"),
        "MatMul, a row by a fed 768 x 768": lambda: single(
            "MatMul", {"x": some(1, 768), "z": some(768, 768)}
        ),
        "MatMul, 12 rows by fed 512 x 64": lambda: single(
            "MatMul", {"x": some(12, 1, 512), "z": some(12, 512, 64)}
        ),
        "MatMul, a fed 768 x 768 by a column": lambda: single(
            "MatMul", {"x": some(768, 768), "z": some(768, 1)}
        ),
        "MatMulInteger, 128 x 768 x 3072": lambda: single(
            "MatMulInteger",
            {"x": random.integers(0, 256, (128, 768), dtype=np.uint8)},
            {"w": random.integers(-64, 64, (768, 3072), dtype=np.int8)},
        ),
        "ArgMax, 21 x 256 x 256 along channels": lambda: single(
            "ArgMax", {"x": some(1, 21, 256, 256)}, axis=1
        ),
        "ArgMax, 512 x 1000 along rows": lambda: single("ArgMax", {"x": some(512, 1000)}, axis=-1),
        "MaxPool, 3 x 3, 64 x 111 x 111": lambda: single(
            "MaxPool", {"x": some(1, 64, 111, 111)}, kernel_shape=[3, 3], strides=[2, 2]
        ),
        "Conv, 3 x 3 x 3, depthwise": lambda: conv((1, 32, 8, 28, 28), 32, 3, 3, 3, group=32),
        "Conv, 5 x 1 x 1, depthwise": lambda: conv((1, 54, 16, 56, 56), 54, 5, 1, 1, group=54),
        "ConvTranspose, 1 channel, 3 x 3": lambda: _transposed((1, 1, 64, 64), 1, 3, 3, pads=[1] * 4),
        "ConvTranspose, 16 channels to 3, 2 x 2": lambda: _transposed(
            (1, 16, 64, 64), 3, 2, 2, strides=[2, 2]
        ),
        "ConvTranspose, 2 x 2 x 2": lambda: _transposed((1, 16, 16, 16, 16), 8, 2, 2, 2, strides=[2] * 3),
        "ConvTranspose, 12 taps, depthwise": lambda: _transposed(
            (1, 512, 500), 1, 12, strides=[2], group=512
        ),
        "Resize, linear, 1080 x 1920 to 224 x 224": lambda: _resized(some(1, 3, 1080, 1920), 224, 224),
        "Resize, antialiased, 1080 x 1920 to 224 x 224": lambda: _resized(
            some(1, 3, 1080, 1920), 224, 224, antialias=1
        ),
        "Resize, linear, 1080 x 1920 to 32 x 32": lambda: _resized(some(1, 3, 1080, 1920), 32, 32),
        "Resize, linear, to twice 28 x 28": lambda: _resized(some(1, 64, 28, 28), 56, 56),
        "a tagger of 2 LSTMs, 30 words": lambda: _tagger(30),
        "a tagger of 2 LSTMs, 200 words": lambda: _tagger(200),
        "a Loop that collects a sequence of 200": lambda: _collecting(200),
        "1,000 rows as a sequence, and together again": _apart_and_together,
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
        for name, make in cases().items():
            if not wanted(name, options):
                continue
            note(f"{name} ...")
            prepare(hosts, folder, name, *make())
            calls = max(1, round(CALL / hosts[0]("run", calls=1)))
            with others_computing(OTHERS if options.busy else 0):
                times = in_turns(hosts, "run", rounds=options.rounds, calls=calls)
            rows.append(Row(name, *times, limit=LIMIT))
    return report(kept, rows, both, options)


if __name__ == "__main__":
    sys.exit(main())
