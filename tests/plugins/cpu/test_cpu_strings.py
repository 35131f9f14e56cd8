"""Tensors of strings: in and out of a compiled group, and through operators that only move elements."""

import threading

import numpy as np
import onnx
import pytest
from onnx import helper

from tests.plugins.cpu.conftest import Cpu, assert_close, make_model

NAMES = ["", "a", "bb", "é", "a long one that no short string holds", "\U0001f600", "a b", "z" * 3000]


def words(*shape: int, seed: int = 0) -> np.ndarray:
    return np.array(
        np.array(NAMES, object)[np.random.default_rng(seed).integers(0, len(NAMES), shape)], object
    )


MOVES: list[tuple[str, dict[str, object], dict[str, np.ndarray]]] = [
    ("Identity", {}, {}),
    ("Transpose", {"perm": [2, 0, 1]}, {}),
    ("Flatten", {"axis": 1}, {}),
    ("Reshape", {}, {"c": np.array([2, -1])}),
    ("Unsqueeze", {}, {"c": np.array([0, 2])}),
    ("Expand", {}, {"c": np.array([2, 1, 1, 1])}),
    ("Tile", {}, {"c": np.array([2, 1, 3])}),
    ("Slice", {}, {"c": np.array([1]), "d": np.array([-1]), "e": np.array([2])}),
    ("Gather", {"axis": 2}, {"c": np.array([[2, 0], [-1, 2]])}),
    ("GatherElements", {"axis": 2}, {"c": np.array([[[3]], [[0]]])}),
    ("GatherND", {}, {"c": np.array([[1, 2], [0, 0]])}),
    ("Compress", {"axis": 2}, {"c": np.array([True, False, True])}),
    ("Shape", {}, {}),
    ("Size", {}, {}),
]


@pytest.mark.parametrize(("op", "attributes", "constants"), MOVES)
def test_what_moves_elements_moves_strings(
    cpu_plugin: Cpu, op: str, attributes: dict[str, object], constants: dict[str, np.ndarray]
) -> None:
    node = helper.make_node(op, ["x", *constants], ["y"], **attributes)
    cpu_plugin.check_beside_onnxruntime(node, {"x": words(2, 3, 4)}, constants=constants)


def test_whole_rows_are_gathered(cpu_plugin: Cpu) -> None:
    """onnxruntime takes the first string of each row and leaves the others empty."""
    x, places = words(2, 3, 4), np.array([[2, 0], [-1, 2]])
    node = helper.make_node("Gather", ["x", "c"], ["y"], axis=1)
    (y,) = cpu_plugin.run(make_model([node], {"x": x}, ["y"], {"c": places}), {"x": x})
    assert_close(y, np.take(x, places, 1), None, None, "y")


def test_squeeze(cpu_plugin: Cpu) -> None:
    cpu_plugin.check_beside_onnxruntime(helper.make_node("Squeeze", ["x"], ["y"]), {"x": words(1, 3, 1)})


def test_parts_are_joined_and_cut(cpu_plugin: Cpu) -> None:
    feeds = {"x": words(3, 2), "z": words(3, 4, seed=1)}
    nodes = [
        helper.make_node("Concat", ["x", "z", "x"], ["all"], axis=1),
        helper.make_node("Split", ["all", "sizes"], ["y0", "y1"], axis=1),
    ]
    cpu_plugin.check_beside_onnxruntime(nodes, feeds, ["y0", "y1"], {"sizes": np.array([3, 5])})


def test_strings_are_scattered(cpu_plugin: Cpu) -> None:
    feeds = {"x": words(5, 2), "u": words(2, 2, seed=1)}
    elements = helper.make_node("ScatterElements", ["x", "i", "u"], ["y"])
    cpu_plugin.check_beside_onnxruntime(elements, feeds, constants={"i": np.array([[4, 0], [1, 1]])})
    slices = helper.make_node("ScatterND", ["x", "i", "u"], ["y"])
    cpu_plugin.check_beside_onnxruntime(slices, feeds, constants={"i": np.array([[4], [0]])})


@pytest.mark.parametrize(
    "shapes", [((3, 4), (3, 4)), ((3, 1), (4,)), ((1, 1), (2, 3)), ((), (5,)), ((0,), (1,))]
)
def test_equal_strings_and_choices_between_them(
    cpu_plugin: Cpu, shapes: tuple[tuple[int, ...], tuple[int, ...]]
) -> None:
    feeds = {"x": words(*shapes[0]), "z": words(*shapes[1], seed=1)}
    nodes = [
        helper.make_node("Equal", ["x", "z"], ["e"]),
        helper.make_node("Where", ["e", "x", "c"], ["y"]),
    ]
    cpu_plugin.check_beside_onnxruntime(nodes, feeds, ["e", "y"], {"c": np.array(["another"], object)})


@pytest.mark.parametrize("shape", [(), (0,), (0, 3), (1,), (3, 2)])
def test_inputs_are_outputs_and_constants_too(cpu_plugin: Cpu, shape: tuple[int, ...]) -> None:
    x = words(*shape)
    nodes = [
        helper.make_node("Identity", ["x"], ["y"]),
        helper.make_node("Identity", ["c"], ["z"]),
        helper.make_node("Constant", [], ["k"], value_strings=["one", "é", ""]),
        helper.make_node("Constant", [], ["s"], value_string="alone"),
    ]
    cpu_plugin.check_beside_onnxruntime(nodes, {"x": x}, ["y", "z", "k", "s"], {"c": words(*shape, seed=2)})


def test_a_zero_character_ends_nothing(cpu_plugin: Cpu) -> None:
    x = np.array(["a\0b", "\0", "c"], object)
    model = make_model([helper.make_node("Concat", ["x", "x"], ["y"], axis=0)], {"x": x}, ["y"])
    (y,) = cpu_plugin.run(model, {"x": x})
    assert_close(y, np.concatenate([x, x]), None, None, "y")


def test_what_only_the_run_knows_may_follow_from_strings(cpu_plugin: Cpu) -> None:
    """A plan that ends at a barrier, and goes on with strings from before it."""
    nodes = [
        helper.make_node("Transpose", ["x"], ["t"]),
        helper.make_node("Equal", ["t", "c"], ["e"]),
        helper.make_node("NonZero", ["e"], ["n"]),
        helper.make_node("Transpose", ["n"], ["p"]),
        helper.make_node("GatherND", ["t", "p"], ["y"]),
    ]
    for seed in range(5):
        feeds = {"x": words(4, 5, seed=seed)}
        cpu_plugin.check_beside_onnxruntime(nodes, feeds, ["y", "t"], {"c": np.array("a", object)})


def control_flow() -> list[onnx.NodeProto]:
    def text(name: str) -> onnx.ValueInfoProto:
        return helper.make_tensor_value_info(name, onnx.TensorProto.STRING, None)

    flag = helper.make_tensor_value_info("go", onnx.TensorProto.BOOL, [])
    turn = helper.make_tensor_value_info("i", onnx.TensorProto.INT64, [])
    body = helper.make_graph(
        [
            helper.make_node("Concat", ["state", "x"], ["next"], axis=0),
            helper.make_node("Gather", ["next", "i"], ["part"]),
            helper.make_node("Identity", ["go_in"], ["go"]),
        ],
        "body",
        [turn, helper.make_tensor_value_info("go_in", onnx.TensorProto.BOOL, []), text("state")],
        [flag, text("next"), text("part")],
    )
    first = helper.make_graph([helper.make_node("Identity", ["x"], ["a"])], "first", [], [text("a")])
    second = helper.make_graph(
        [helper.make_node("Concat", ["x", "x"], ["b"], axis=0)], "second", [], [text("b")]
    )
    return [
        helper.make_node("If", ["which"], ["chosen"], then_branch=first, else_branch=second),
        helper.make_node("Loop", ["turns", "", "chosen"], ["y", "parts"], body=body),
    ]


@pytest.mark.parametrize("which", [True, False])
@pytest.mark.parametrize("turns", [0, 1, 4])
def test_bodies_carry_strings(cpu_plugin: Cpu, which: bool, turns: int) -> None:
    feeds = {"x": words(3), "which": np.array(which), "turns": np.array(turns)}
    cpu_plugin.check_beside_onnxruntime(control_flow(), feeds, ["y", "parts"] if turns else ["y"])


def test_each_node_on_its_own_gives_the_same(cpu_plugin: Cpu) -> None:
    nodes = [
        helper.make_node("Transpose", ["x"], ["t"]),
        helper.make_node("Concat", ["t", "c"], ["k"], axis=0),
        helper.make_node("Equal", ["k", "k"], ["e"]),
        helper.make_node("Where", ["e", "k", "c"], ["y"]),
    ]
    feeds = {"x": words(2, 3)}
    cpu_plugin.check_beside_onnxruntime(
        nodes, feeds, constants={"c": np.array([["one", "two"]], object)}, one_by_one=1
    )


def test_runs_in_parallel_keep_their_strings_apart(cpu_plugin: Cpu) -> None:
    """Shapes differ from run to run, and few plans are kept: plans go while others use their strings."""
    nodes = [
        helper.make_node("LabelEncoder", ["x"], ["l"], domain="ai.onnx.ml", keys_int64s=[0, 1, 2],
                         values_strings=["zero", "one" * 20, "two"]),
        helper.make_node("Concat", ["l", "c"], ["y"], axis=0),
    ]  # fmt: skip
    x = np.arange(4)
    constants = {"c": np.array(["behind"], object)}
    model = make_model(nodes, {"x": x}, ["y"], constants, open_shapes=True)
    session = cpu_plugin.session(model, max_shapes=1)
    wrong: list[object] = []

    def run(seed: int) -> None:
        rng = np.random.default_rng(seed)
        for _ in range(150):
            fed = rng.integers(0, 4, int(rng.integers(0, 30)))
            expected = [*np.array(["zero", "one" * 20, "two", "_Unused"])[fed], "behind"]
            (found,) = session.run(None, {"x": fed})
            if found.tolist() != expected:
                wrong.append((fed, found))

    threads = [threading.Thread(target=run, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_the_plugin_takes_and_gives_strings_in_onnxruntime_too() -> None:
    onnxruntime = pytest.importorskip("onnxruntime")
    from ephost.plugins import cpu

    nodes = [
        helper.make_node("Transpose", ["x"], ["t"]),
        helper.make_node("Concat", ["t", "c"], ["k"], axis=0),
        helper.make_node("LabelEncoder", ["k"], ["n"], domain="ai.onnx.ml", keys_strings=NAMES,
                         values_int64s=list(range(len(NAMES)))),
        helper.make_node("LabelEncoder", ["n"], ["y"], domain="ai.onnx.ml",
                         keys_tensor=onnx.numpy_helper.from_array(np.arange(3)),
                         values_tensor=onnx.numpy_helper.from_array(np.array(["x", "", "é"], object)),
                         default_tensor=onnx.numpy_helper.from_array(np.array(["none"], object))),
    ]  # fmt: skip
    feeds, constants = {"x": words(2, 3)}, {"c": np.array([["one", NAMES[-1]]], object)}
    model = make_model(nodes, feeds, ["k", "n", "y"], constants, open_shapes=True).SerializeToString()
    expected = onnxruntime.InferenceSession(model, providers=["CPUExecutionProvider"]).run(None, feeds)
    onnxruntime.register_execution_provider_library("TextsUnderTest", cpu.get_library_path())
    try:
        device = next(d for d in onnxruntime.get_ep_devices() if d.ep_name == "TextsUnderTest")
        options = onnxruntime.SessionOptions()
        options.add_session_config_entry("session.disable_cpu_ep_fallback", "1")
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
        options.add_provider_for_devices([device], {})
        session = onnxruntime.InferenceSession(model, options)
        for a, b in zip(session.run(None, feeds), expected, strict=True):
            assert_close(a, b, None, None, "in onnxruntime")
        del session
    finally:
        onnxruntime.unregister_execution_provider_library("TextsUnderTest")
