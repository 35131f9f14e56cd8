"""Runs of which each has another shape, as no two lines of text or pictures have the same size.

Text recognizers get lines of other widths, detectors pictures of other sizes: rapidocr's, and with --packages
those that bench/collect_models.py has collected. On the host's own provider, all cores. The time of a run is
the mean of runs whose shapes came before in none of the last hundred. Results are held to each other first.
filters_16 and filters_64 are small models that drop rows by their content so often, as detectors drop boxes;
growing is a loop whose states get longer by a row in each of its trips, as a decoder's cache does.

    python bench/shapes.py [--packages FOLDER] [--save]     beside onnxruntime
    python bench/shapes.py --against CHECKOUT               beside another commit of ephost
"""

from __future__ import annotations

import argparse
import random
import sys
from pathlib import Path

import numpy as np
import onnx
from harness.models import package_models
from harness.report import Row, arguments, note, report, temporary_folder, wanted
from harness.results import begin
from harness.sides import Host, in_turns, sides
from onnx import helper

LIMIT = 1.0
RUNS = 24  # of a measurement
FILTERS = (16, 64)
LAYERS, TRIPS = 6, 50  # of the loop
ROWS = range(64, 512, 4)
WIDTHS = range(64, 960, 8)
SIDES = range(128, 480, 32)


def shapes_of(path: str) -> list[list[int]]:
    """Shapes in the order in which they are asked for; empty where the model has one, or is no such model."""
    inputs = onnx.load(path, load_external_data=False).graph.input
    if len(inputs) != 1:
        return []
    dims = [d.dim_value if d.HasField("dim_value") else 0 for d in inputs[0].type.tensor_type.shape.dim]
    if len(dims) != 4 or dims[1] not in (1, 3) or dims[3] > 0:
        return []
    name = Path(path).stem.lower()
    if "rec" in name:
        made = [[1, dims[1], dims[2] if dims[2] > 0 else 48, width] for width in WIDTHS]
    elif "det" in name:
        made = [[1, dims[1], height, width] for height in SIDES for width in SIDES]
    else:
        return []
    return shuffled(made)


def shuffled(shapes: list[list[int]]) -> list[list[int]]:
    """In an order that is the same each time."""
    random.Random(0).shuffle(shapes)
    return shapes


def filters(folder: Path, count: int) -> str:
    """A model that drops rows of eight numbers so many times, with three products between the times."""
    values = np.random.default_rng(0)
    constants = {"column": np.array([3]), "last": np.array([-1]), "flat": np.array([-1, 8])}
    constants["limit"] = np.array(-0.5, np.float32)
    nodes = [helper.make_node("Reshape", ["x", "flat"], [value := "rows"])]
    for i in range(count):
        for k in range(3):
            constants[f"w{i}{k}"] = np.linalg.qr(values.standard_normal((8, 8)))[0].astype(np.float32)
            nodes.append(helper.make_node("MatMul", [value, f"w{i}{k}"], [f"p{i}{k}"]))
            nodes.append(helper.make_node("Tanh", [f"p{i}{k}"], [value := f"t{i}{k}"]))
        nodes += [
            helper.make_node("Gather", [value, "column"], [f"a{i}"], axis=1),
            helper.make_node("Squeeze", [f"a{i}", "last"], [f"b{i}"]),
            helper.make_node("Greater", [f"b{i}", "limit"], [f"c{i}"]),
            helper.make_node("Compress", [value, f"c{i}"], [value := f"d{i}"], axis=0),
        ]
    return saved(folder / f"filters_{count}.onnx", nodes, value, constants)


def saved(path: Path, nodes: list[onnx.NodeProto], output: str, constants: dict[str, np.ndarray]) -> str:
    """The path of a model of rows of eight numbers, which make others."""
    dims = [helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, [1, 1, "rows", 8])]
    made = [helper.make_tensor_value_info(output, onnx.TensorProto.FLOAT, [None, 8])]
    weights = [onnx.numpy_helper.from_array(array, name) for name, array in constants.items()]
    graph = helper.make_graph(nodes, path.stem, dims, made, weights)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10), path)
    return str(path)


def growing(folder: Path) -> str:
    """A loop of attention in layers, each of which keeps the rows that it has seen."""
    values = np.random.default_rng(0)
    tensor, info = onnx.TensorProto, helper.make_tensor_value_info
    constants = {"flat": np.array([-1, 8]), "first": np.ones((1, 8), np.float32), "trips": np.array(TRIPS)}
    body = [helper.make_node("Identity", ["go"], ["goes_on"])]
    inputs, outputs = [info("trip", tensor.INT64, []), info("go", tensor.BOOL, [])], []
    inputs.append(info(token := "token", tensor.FLOAT, [1, 8]))
    for i in range(LAYERS):
        constants[f"w{i}"] = np.linalg.qr(values.standard_normal((8, 8)))[0].astype(np.float32)
        body += [
            helper.make_node("MatMul", [token, f"w{i}"], [f"k{i}"]),
            helper.make_node("Concat", [f"seen{i}", f"k{i}"], [f"see{i}"], axis=0),
            helper.make_node("Transpose", [f"see{i}"], [f"t{i}"], perm=[1, 0]),
            helper.make_node("MatMul", [f"k{i}", f"t{i}"], [f"a{i}"]),
            helper.make_node("Softmax", [f"a{i}"], [f"p{i}"]),
            helper.make_node("MatMul", [f"p{i}", f"see{i}"], [f"v{i}"]),
            helper.make_node("Add", [f"v{i}", token], [f"r{i}"]),
            helper.make_node("Tanh", [f"r{i}"], [token := f"y{i}"]),
        ]
        inputs.append(info(f"seen{i}", tensor.FLOAT, [None, 8]))
        outputs.append(info(f"see{i}", tensor.FLOAT, [None, 8]))
    outputs = [info("goes_on", tensor.BOOL, []), info(token, tensor.FLOAT, [1, 8]), *outputs]
    loop = helper.make_node(
        "Loop",
        ["trips", "", "first"] + ["rows"] * LAYERS,
        ["last"] + [f"all{i}" for i in range(LAYERS)],
        body=helper.make_graph(body, "body", inputs, outputs),
    )
    nodes = [helper.make_node("Reshape", ["x", "flat"], ["rows"]), loop]
    return saved(folder / "growing.onnx", nodes, "last", constants)


def more(parser: argparse.ArgumentParser) -> None:
    """The option of this benchmark."""
    parser.add_argument(
        "--packages", metavar="FOLDER", type=Path, help="models of bench/collect_models.py, too"
    )


def main() -> int:
    """Measure and report."""
    options = arguments(__doc__, 5, more)
    both = sides(options.against)
    kept = begin("shapes")
    models = {
        f"rapidocr_{Path(name).stem}": str(path)
        for name, path in package_models("rapidocr_onnxruntime").items()
    }
    if options.packages:
        models |= {path.stem: str(path) for path in sorted(options.packages.glob("*.onnx"))}
    rows = []
    with temporary_folder() as folder:
        cases = [
            (name, path, shapes_of(path) if wanted(name, options) else []) for name, path in models.items()
        ]
        shapes = shuffled([[1, 1, count, 8] for count in ROWS])
        for count in FILTERS:
            if wanted(name := f"filters_{count}", options):
                cases.append((name, filters(folder, count), shapes))
        if wanted("growing", options):
            cases.append(("growing", growing(folder), shapes))
        for name, path, shapes in cases:
            if not shapes:
                continue
            note(f"{name} ...")
            with Host(both[0]) as one, Host(both[1]) as other:
                hosts = (one, other)
                first, second = (
                    np.array(host("prepare_shapes", model=path, shapes=shapes)) for host in hosts
                )
                if not np.allclose(first, second, rtol=1e-2, atol=1e-2):
                    raise SystemExit(f"{name}: the hosts do not agree")
                times = in_turns(hosts, "run_next_shapes", rounds=options.rounds, runs=RUNS)
            rows.append(Row(name, *times, limit=LIMIT))
    return report(kept, rows, both, options)


if __name__ == "__main__":
    sys.exit(main())
