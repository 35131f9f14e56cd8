"""Operators that ONNX had on trial up to opset 9, which old models have and onnxruntime still runs."""

from __future__ import annotations

import ephost
import numpy as np
import onnx
import pytest
from ephost.errors import Fail, InvalidGraph
from onnx import helper

from tests.plugins.cpu.conftest import Cpu, make_model

IMAGES = np.random.default_rng(0).standard_normal((2, 3, 5, 6)).astype(np.float32)


@pytest.mark.parametrize(
    ("op_type", "attributes", "opset"),
    [
        ("Affine", {"alpha": 2.0, "beta": 3.0}, 7),
        ("Affine", {}, 9),
        ("Crop", {"border": [1, 1, 2, 1]}, 7),
        ("Crop", {"border": [1, 1, 0, 0], "scale": [2, 3]}, 7),
        ("Crop", {"border": [0, 0, 0, 0]}, 9),
        ("ImageScaler", {"scale": 2.0, "bias": [1.0, 2.0, 3.0]}, 7),
        ("ImageScaler", {"bias": [-1.0, 0.0, 1.0]}, 9),
        ("MeanVarianceNormalization", {}, 7),
        ("MeanVarianceNormalization", {"across_channels": 1}, 8),
        ("MeanVarianceNormalization", {"normalize_variance": 0}, 7),
        ("MeanVarianceNormalization", {"across_channels": 1, "normalize_variance": 0}, 7),
        ("ParametricSoftplus", {"alpha": 2.0, "beta": 0.5}, 8),
        ("Scale", {"scale": 3.0}, 7),
        ("Scale", {}, 7),
        ("ScaledTanh", {"alpha": 2.0, "beta": 0.5}, 8),
        ("ThresholdedRelu", {"alpha": 0.5}, 7),
        ("ThresholdedRelu", {}, 9),
    ],
)
def test_it_gives_what_onnxruntime_gives(
    cpu_plugin: Cpu, op_type: str, attributes: dict[str, object], opset: int
) -> None:
    node = helper.make_node(op_type, ["x"], ["y"], **attributes)
    cpu_plugin.check_beside_onnxruntime(node, {"x": IMAGES}, opset=opset, atol=2e-6)


@pytest.mark.parametrize("dtype", [np.int32, np.int64])
@pytest.mark.parametrize("with_axes", [False, True])
def test_slices_by_numbers_that_a_run_brings(cpu_plugin: Cpu, with_axes: bool, dtype: type) -> None:
    feeds = {"x": IMAGES, "from": np.array([1, 0], dtype), "to": np.array([2, 100], dtype)}
    if with_axes:
        feeds["axes"] = np.array([3, 1], dtype)
    cpu_plugin.check_beside_onnxruntime(helper.make_node("DynamicSlice", [*feeds], ["y"]), feeds, opset=7)


@pytest.mark.parametrize("dtype", [np.uint8, np.int16, np.uint32, np.float16, np.float64, np.bool_, object])
def test_slices_are_of_any_type(cpu_plugin: Cpu, dtype: type) -> None:
    x = np.arange(20).reshape(4, 5).astype(str if dtype is object else dtype).astype(dtype)
    feeds = {"x": x, "from": np.array([1, 0]), "to": np.array([3, 4])}
    cpu_plugin.check_beside_onnxruntime(helper.make_node("DynamicSlice", [*feeds], ["y"]), feeds, opset=7)


@pytest.mark.parametrize("open_shapes", [False, True])
@pytest.mark.parametrize(
    ("op_type", "attributes"),
    [
        ("Crop", {"border": [4, 0, 0, 0], "scale": [1, 3]}),
        ("Crop", {"border": [4, 0, 4, 0]}),
        ("ImageScaler", {"bias": [1.0]}),
        ("ImageScaler", {"bias": [1.0, 2.0]}),
    ],
)
def test_images_that_do_not_fit_are_refused(
    op_type: str, attributes: dict[str, object], open_shapes: bool
) -> None:
    node = helper.make_node(op_type, ["x"], ["y"], "the node", **attributes)
    model = make_model([node], {"x": IMAGES}, ["y"], opset=7, open_shapes=open_shapes)
    with pytest.raises(Fail, match=f"the node.*{op_type}"):
        ephost.InferenceSession(model.SerializeToString()).run(None, {"x": IMAGES})


def test_what_comes_behind_has_types_and_shapes(cpu_plugin: Cpu) -> None:
    nodes = [
        helper.make_node("ImageScaler", ["x"], ["scaled"], scale=2.0, bias=[0.0, 1.0, 2.0]),
        helper.make_node("Crop", ["scaled"], ["cropped"], border=[1, 0, 1, 2]),
        helper.make_node("ScaledTanh", ["cropped"], ["y"], alpha=1.0, beta=1.0),
    ]
    model = make_model(nodes, {"x": IMAGES}, ["y"], opset=7)
    assert cpu_plugin.session(model).get_outputs()[0].shape == [2, 3, 3, 4]


@pytest.mark.parametrize(
    ("op_type", "attributes"),
    [
        ("Affine", {"alpha": 2.0}),
        ("Crop", {"border": [1, 0, 1, 0]}),
        ("ImageScaler", {"bias": [1.0, 2.0, 3.0]}),
        ("ParametricSoftplus", {"alpha": 2.0, "beta": 0.5}),
        ("Scale", {"scale": 2.0}),
        ("ScaledTanh", {"alpha": 2.0, "beta": 0.5}),
    ],
)
def test_bodies_may_leave_types_out(cpu_plugin: Cpu, op_type: str, attributes: dict[str, object]) -> None:
    def body(name: str) -> onnx.GraphProto:
        nodes = [
            helper.make_node(op_type, ["x"], [f"{name}_once"], **attributes),
            helper.make_node(op_type, [f"{name}_once"], [name], **attributes),
        ]
        return helper.make_graph(nodes, name, [], [onnx.ValueInfoProto(name=name)])

    node = helper.make_node("If", ["c"], ["y"], then_branch=body("yes"), else_branch=body("no"))
    feeds: dict[str, np.ndarray] = {"c": np.array(True), "x": IMAGES}
    model = make_model([node], feeds, ["y"], opset=7)
    del model.opset_import[1:]  # onnxruntime's own domain
    onnxruntime = pytest.importorskip("onnxruntime")
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    np.testing.assert_allclose(
        cpu_plugin.run(model, feeds)[0], session.run(None, feeds)[0], rtol=1e-5, atol=2e-6
    )


def test_later_opsets_do_not_have_them() -> None:
    model = make_model([helper.make_node("Affine", ["x"], ["y"])], {"x": IMAGES}, ["y"], opset=10)
    with pytest.raises(InvalidGraph, match="ONNX has no operator Affine at opset 10"):
        ephost.InferenceSession(model.SerializeToString())


@pytest.mark.parametrize("attributes", [{}, {"border": [1, 2]}, {"border": [-1, 0, 0, 0]}])
def test_a_border_that_is_none_is_not_claimed(cpu_plugin: Cpu, attributes: dict[str, object]) -> None:
    node = helper.make_node("Crop", ["x"], ["y"], name="cut", **attributes)
    model = make_model([node], {"x": IMAGES}, ["y"], opset=7)
    with pytest.raises(Fail, match="cut"):
        cpu_plugin.session(model)


@pytest.mark.parametrize("op_type", ["LayerNormalization", "SimplifiedLayerNormalization"])
@pytest.mark.parametrize(("of_input", "of_scale"), [(np.float16, np.float32), (np.float32, np.float16)])
def test_a_norm_of_onnxruntimes_has_its_scales_type(
    cpu_plugin: Cpu, of_input: type, of_scale: type, op_type: str
) -> None:
    feeds = {"x": IMAGES.astype(of_input), "scale": np.linspace(-1, 2, 6, dtype=of_scale)}
    node = helper.make_node(op_type, [*feeds], ["y"], axis=-1)
    cpu_plugin.check_beside_onnxruntime(node, feeds, opset=12, rtol=2e-3, atol=2e-3)
