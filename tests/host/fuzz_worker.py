"""Opens and runs mutated models with mutated options; hypothesis chooses. A crash takes this process down.

usage: fuzz_worker.py TRIES FOLDER {none|kernels|compiler} SEED

Before each try FOLDER/model.onnx and FOLDER/options.json say what is tried. Prints how they ended, as JSON.
"""

from __future__ import annotations

import json
import os
import resource
import sys
import traceback
from collections import Counter
from pathlib import Path

import ephost
import hypothesis
import numpy as np
import onnx
from ephost.errors import OnnxRuntimeException
from ephost.plugins import sample_compiler, sample_kernels
from host_state import adds_model, live_handles
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from onnx import TensorProto, helper, numpy_helper

ALLOWED = (OnnxRuntimeException, TypeError, ValueError, MemoryError)
LIMIT = 8 << 30  # bytes of address space: what asks for more must fail cleanly
FLOAT = TensorProto.FLOAT


def layered_model() -> onnx.ModelProto:
    """Weights, constants, an If, a function and several operators."""
    value = helper.make_tensor_value_info

    def branch(name: str, op_type: str) -> onnx.GraphProto:
        node = helper.make_node(op_type, ["h", "b"], [name])
        return helper.make_graph([node], name, [], [value(name, FLOAT, None)])

    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["m"], name="matmul"),
        helper.make_node("Relu", ["m"], ["h"], name="relu"),
        helper.make_node("If", ["c"], ["i"], then_branch=branch("t", "Add"), else_branch=branch("e", "Mul")),
        helper.make_node("Twice", ["i"], ["d"], domain="my"),
        helper.make_node("Transpose", ["d"], ["p"], perm=[1, 0]),
        helper.make_node("Constant", [], ["s"], value=numpy_helper.from_array(np.array([-1, 2]))),
        helper.make_node("Reshape", ["p", "s"], ["r"]),
        helper.make_node("Cast", ["r"], ["y"], to=TensorProto.INT32),
    ]
    inputs = [value("x", FLOAT, ["n", 3]), value("c", TensorProto.BOOL, [])]
    weights = [
        numpy_helper.from_array(np.ones((3, 4), np.float32), "w"),
        numpy_helper.from_array(np.ones(4, np.float32), "b"),
    ]
    graph = helper.make_graph(nodes, "layered", inputs, [value("y", TensorProto.INT32, None)], weights)
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("my", 1)]
    twice = helper.make_function(
        "my", "Twice", ["a"], ["b"], [helper.make_node("Add", ["a", "a"], ["b"])], opsets
    )
    return helper.make_model(graph, opset_imports=opsets, ir_version=8, functions=[twice])


BASES = [adds_model(), layered_model()]
NAMES = ["", "x", "y", "w", "h", "c", "t", "nowhere", "a\0b", "\U0001f600"]
OPERATORS = [
    "Add",
    "Neg",
    "MatMul",
    "If",
    "Loop",
    "Cast",
    "Reshape",
    "Transpose",
    "Twice",
    "Constant",
    "Nope",
]
NUMBERS = st.sampled_from([0, 1, -1, 2, 3, 7, 1 << 20, 1 << 31, 1 << 62, -(1 << 63)])


def mutate_structure(draw, model: onnx.ModelProto) -> None:
    """One change to the proto that a byte flip would hardly make."""
    node = draw(st.sampled_from(list(model.graph.node)))
    tensor = draw(st.sampled_from([*model.graph.initializer] or [TensorProto()]))
    info = draw(st.sampled_from([*model.graph.input, *model.graph.output]))
    names = draw(st.sampled_from([node.input, node.output]))
    match draw(st.integers(0, 13)):
        case 0 if names:
            names[draw(st.integers(0, len(names) - 1))] = draw(st.sampled_from(NAMES))
        case 1:
            names.append(draw(st.sampled_from(NAMES)))
        case 2 if names:
            del names[draw(st.integers(0, len(names) - 1))]
        case 3:
            node.op_type = draw(st.sampled_from(OPERATORS))
        case 4 if node.attribute:
            del node.attribute[draw(st.integers(0, len(node.attribute) - 1))]
        case 5 if node.attribute:
            node.attribute[0].type = draw(st.integers(0, 14))
        case 6:
            node.attribute.append(
                helper.make_attribute(draw(st.sampled_from(["to", "perm", "axis"])), draw(NUMBERS))
            )
        case 7:
            info.type.tensor_type.elem_type = (
                draw(st.integers(0, 30)) if info.type.HasField("tensor_type") else 1
            )
        case 8:
            info.type.tensor_type.shape.dim.add(dim_value=draw(NUMBERS))
        case 9:
            tensor.dims.append(draw(NUMBERS))
        case 10:
            tensor.data_type = draw(st.integers(0, 30))
        case 11:
            tensor.raw_data = draw(st.binary(max_size=64))
        case 12:
            model.graph.node.append(node)
        case _:
            info.name = draw(st.sampled_from(NAMES))


@st.composite
def mutated(draw) -> bytes:
    """A serialised model with a few structural changes, then a few changes of bytes."""
    model = onnx.ModelProto()
    model.CopyFrom(draw(st.sampled_from(BASES)))
    for _ in range(draw(st.integers(0, 3))):
        mutate_structure(draw, model)
    data = bytearray(model.SerializeToString())
    for _ in range(draw(st.sampled_from([0, 0, 0, 1, 2, 3]))):
        at = draw(st.integers(0, max(0, len(data) - 1)))
        match draw(st.integers(0, 2)):
            case 0 if data:
                data[at] = draw(st.integers(0, 255))
            case 1:
                del data[at : at + draw(st.integers(1, 8))]
            case _:
                data[at:at] = draw(st.binary(min_size=1, max_size=8))
    return bytes(data)


TEXTS = st.sampled_from(["", "0", "1", "-1", "true", "\0", "x" * 300, "1e99", "é\udcff"]) | st.text(
    max_size=8
)
KEYS = st.sampled_from(["session.disable_cpu_ep_fallback", "session.disable_prepacking", "ep.a.b"]) | TEXTS
FEW = st.dictionaries(KEYS, TEXTS | st.integers() | st.none(), max_size=3)
OPTIONS = st.integers(0, 9).flatmap(lambda n: FEW if n == 0 else st.just({}))  # most reach the model


unexpected: dict[str, str] = {}  # what -> the first model that had it


def attempt(model: bytes, config: dict, ep_options: dict, devices: list) -> str:
    """How it ended: "ran" or the name of the exception, which must be one that is allowed."""
    try:
        options = ephost.SessionOptions()
        for key, value in config.items():
            options.add_session_config_entry(key, value)
        if devices:
            options.add_provider_for_devices(devices, ep_options)
        session = ephost.InferenceSession(model, options)
        feeds = {}
        for value in session.get_inputs():
            shape = [d if isinstance(d, int) and 0 <= d < 100 else 3 for d in value.shape]
            kind = {"tensor(bool)": np.bool_, "tensor(int64)": np.int64}.get(value.type, np.float32)
            feeds[value.name] = np.ones(shape, kind)
        session.run(None, feeds)
    except ALLOWED as error:
        return type(error).__name__
    except Exception as error:  # a defect: told, with its place and model, and on to the next
        frame = traceback.extract_tb(error.__traceback__)[-1]
        unexpected.setdefault(
            f"{type(error).__name__} at {frame.filename}:{frame.lineno}: {error}"[:300], model.hex()
        )
        return "unexpected"
    return "ran"


def main() -> None:
    """See the module's docstring."""
    tries, folder, plugin, seed = int(sys.argv[1]), Path(sys.argv[2]), sys.argv[3], int(sys.argv[4])
    if "asan" not in os.environ.get("LD_PRELOAD", ""):  # which reserves terabytes, and has a limit of its own
        resource.setrlimit(resource.RLIMIT_AS, (LIMIT, LIMIT))
    devices: list = []
    if plugin != "none":
        package = sample_kernels if plugin == "kernels" else sample_compiler
        # What an isolated plugin shares by default is more addresses than there are below the limit.
        isolated = (
            {"shared_bytes": 1 << 30} if os.environ.get("EPHOST_ISOLATED", "0") not in ("", "0") else False
        )
        ephost.register_execution_provider_library(plugin, package.get_library_path(), isolated=isolated)
        devices = ephost.get_ep_devices()
    ended: Counter[str] = Counter()
    attempt(BASES[1].SerializeToString(), {}, {}, devices)
    before = live_handles()

    @hypothesis.seed(seed)
    @settings(
        max_examples=tries,
        database=None,
        deadline=None,
        suppress_health_check=list(HealthCheck),
        print_blob=False,
    )
    @hypothesis.given(mutated(), OPTIONS, OPTIONS)
    def one(model: bytes, config: dict, ep_options: dict) -> None:
        (folder / "model.onnx").write_bytes(model)
        (folder / "options.json").write_text(json.dumps([config, ep_options]))
        ended[attempt(model, config, ep_options, devices)] += 1

    one()
    after = live_handles()
    print(
        json.dumps(
            {
                "ended": ended,
                "unexpected": unexpected,
                "leaked": {k: n for k, n in after.items() if n != before.get(k, 0)},
            }
        )
    )


main()
