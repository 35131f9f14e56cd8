"""Conv and ConvTranspose on the CPU plugin."""

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from hypothesis import given
from hypothesis import strategies as st
from onnx import helper

from tests.plugins.cpu.conftest import WITH_ONEDNN, Cpu, make_model, traced

CPUINFO = Path("/proc/cpuinfo")
AVX512 = CPUINFO.exists() and " avx512bw " in CPUINFO.read_text()


def random(*shape: int, seed: int = 0, dtype: type = np.float32) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape).astype(dtype)


@pytest.mark.parametrize("weights", ["constant", "input"])
@pytest.mark.parametrize(
    ("x", "w", "attributes"),
    [
        ((1, 3, 17, 19), (16, 3, 7, 7), {"strides": [2, 2], "pads": [3, 3, 3, 3]}),
        ((2, 16, 9, 9), (24, 16, 3, 3), {"pads": [1, 1, 1, 1]}),
        ((2, 13, 9, 9), (11, 13, 3, 3), {"pads": [0, 1, 2, 1]}),
        ((1, 16, 8, 8), (8, 16, 1, 1), {}),
        ((1, 16, 9, 9), (16, 1, 3, 3), {"group": 16, "pads": [1, 1, 1, 1], "strides": [2, 2]}),
        ((1, 12, 9, 9), (12, 1, 5, 5), {"group": 12, "auto_pad": "SAME_UPPER"}),
        ((1, 12, 9, 9), (18, 4, 3, 3), {"group": 3, "auto_pad": "SAME_LOWER", "strides": [2, 2]}),
        ((1, 16, 9, 9), (32, 8, 3, 3), {"group": 2, "dilations": [2, 2]}),
        ((1, 3, 25), (5, 3, 4), {"strides": [3]}),
        ((1, 16, 25), (16, 16, 3), {"pads": [1, 1]}),
        ((1, 3, 5, 6, 7), (8, 3, 2, 3, 2), {"pads": [1, 0, 1, 0, 1, 0]}),
    ],
)
def test_convolution(
    cpu_plugin: Cpu, x: tuple[int, ...], w: tuple[int, ...], attributes: dict[str, Any], weights: str
) -> None:
    node = helper.make_node("Conv", ["x", "w", "b"], ["y"], **attributes)
    feeds, constants = {"x": random(*x)}, {"w": random(*w, seed=1), "b": random(w[0], seed=2)}
    if weights == "input":
        feeds, constants = feeds | constants, {}
    cpu_plugin.check(node, feeds, constants=constants, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("weights", ["constant", "input"])
@pytest.mark.parametrize("operand", [None, (2, 6, 1, 1, 1, 1), (2, 6, 5, 4, 5, 4)])
@pytest.mark.parametrize("groups", [1, 3])
@pytest.mark.parametrize("transposed", [False, True])
def test_images_of_four_dimensions_are_products_of_matrices(
    cpu_plugin: Cpu,
    tmp_path: Path,
    transposed: bool,
    groups: int,
    operand: tuple[int, ...] | None,
    weights: str,
) -> None:
    """oneDNN has nothing for these; by the plain loops of float64 they come out the same."""
    x = random(2, 6, 2, 3, 2, 3) if transposed else random(2, 6, 6, 5, 6, 5)
    w = random(6, 6 // groups, 2, 2, 2, 2, seed=1)
    attributes = {"strides": [3, 1, 3, 1]} if transposed else {"dilations": [1] * 4}
    nodes = [
        helper.make_node(
            "ConvTranspose" if transposed else "Conv", ["x", "w", "b"], ["c"], group=groups, **attributes
        )
    ]
    last = "c"
    feeds, constants = {"x": x}, {"w": w, "b": random(6, seed=2)}
    if operand is not None:
        nodes.append(helper.make_node("Add", ["c", "z"], ["d"]))
        feeds["z"], last = random(*operand, seed=3), "d"
    nodes.append(helper.make_node("Relu", [last], ["y"]))
    if weights == "input":
        feeds, constants = feeds | constants, {}
    model = make_model(nodes, feeds, ["y"], constants)
    (found,) = cpu_plugin.run(model, feeds)
    steps = [a for a in traced(cpu_plugin, model, feeds, tmp_path) if "Conv" in a["op_name"]]
    assert [a.get("method") for a in steps] == ["matrices"]
    wide = [{name: value.astype(np.float64) for name, value in each.items()} for each in (feeds, constants)]
    (expected,) = cpu_plugin.run(make_model(nodes, wide[0], ["y"], wide[1]), wide[0])
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-4)


@given(data=st.data())
def test_convolution_of_any_shape(cpu_plugin: Cpu, data: st.DataObject) -> None:
    rank = data.draw(st.integers(1, 2))
    groups = data.draw(st.sampled_from([1, 1, 2, 3, 8]))
    channels = groups * data.draw(st.integers(1, 9))
    filters = groups * data.draw(st.integers(1, 9))
    kernel = data.draw(st.lists(st.integers(1, 4), min_size=rank, max_size=rank))
    strides = data.draw(st.lists(st.integers(1, 3), min_size=rank, max_size=rank))
    dilations = data.draw(st.lists(st.integers(1, 2), min_size=rank, max_size=rank))
    pads = data.draw(st.lists(st.integers(0, 2), min_size=2 * rank, max_size=2 * rank))
    size = data.draw(st.lists(st.integers(7, 12), min_size=rank, max_size=rank))
    node = helper.make_node(
        "Conv", ["x", "w"], ["y"], group=groups, strides=strides, dilations=dilations, pads=pads
    )
    constants = {"w": random(filters, channels // groups, *kernel, seed=1)}
    cpu_plugin.check(node, {"x": random(2, channels, *size)}, constants=constants, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("dtype", [np.float16, np.float64])
def test_convolution_of_other_types(cpu_plugin: Cpu, dtype: type) -> None:
    node = helper.make_node("Conv", ["x", "w"], ["y"], pads=[1, 1, 1, 1])
    constants = {"w": random(5, 4, 3, 3, seed=1, dtype=dtype) / dtype(6)}
    tolerance = 2e-2 if dtype is np.float16 else 1e-9
    cpu_plugin.check(
        node, {"x": random(1, 4, 6, 6, dtype=dtype)}, constants=constants, rtol=tolerance, atol=tolerance
    )


@pytest.mark.parametrize("dtype", [np.float16, np.float32])
@pytest.mark.parametrize("channels", [1, 8, 16])
@pytest.mark.parametrize("kind", ["Conv", "ConvTranspose"])
def test_an_image_that_is_constant_too(cpu_plugin: Cpu, kind: str, channels: int, dtype: type) -> None:
    """oneDNN asks for it in a layout of its own."""
    nodes = [
        helper.make_node(kind, ["image", "w"], ["c"], strides=[3, 2]),
        helper.make_node("Add", ["c", "x"], ["y"]),
    ]
    shape = (channels, channels, 3, 3)
    constants = {
        "image": random(1, channels, 5, 6, dtype=dtype),
        "w": random(*shape, seed=1, dtype=dtype) / dtype(3 * channels),
    }
    tolerance = 1e-2 if dtype is np.float16 else 1e-4
    cpu_plugin.check(
        nodes, {"x": np.ones(1, dtype)}, constants=constants, rtol=tolerance, atol=tolerance, opset=22
    )


# Channels, groups and kernels of which each goes another way. None transforms tiles: that spreads NaN.
@pytest.mark.parametrize(
    "channels", [(1, 1, 1, 3), (3, 8, 1, 3), (64, 64, 1, 1), (64, 64, 64, 3), (32, 48, 1, 2)]
)
@pytest.mark.parametrize("activation", ["Relu", "Clip", "HardSwish", "Sigmoid", "Add", "MaxPool"])
@pytest.mark.parametrize("fed", [np.nan, np.inf])
def test_what_is_no_number_does_not_become_one(
    cpu_plugin: Cpu, channels: tuple[int, int, int, int], activation: str, fed: float
) -> None:
    """onnxruntime's own maximum of a window is NaN only where all of it is."""
    source, target, groups, size = channels
    x, w = random(1, source, 8, 8), random(target, source // groups, size, size, seed=1)
    x[0, 0, 2, 2] = fed
    attributes = {"kernel_shape": [1, 1]} if activation == "MaxPool" else {}
    inputs, constants = ["c"], {"w": w}
    if activation == "Clip":
        constants |= {"low": np.float32(0), "high": np.float32(6)}
        inputs += ["low", "high"]
    feeds = {"x": x}
    nodes = [helper.make_node("Conv", ["x", "w"], ["c"], group=groups)]
    if activation == "Add":
        feeds["r"] = random(1, target, 9 - size, 9 - size, seed=2)
        nodes += [helper.make_node("Add", ["c", "r"], ["a"]), helper.make_node("Relu", ["a"], ["y"])]
    else:
        nodes.append(helper.make_node(activation, inputs, ["y"], **attributes))
    # onnx's reference has no maximum of NaN, and onnxruntime none of -inf.
    beside_onnxruntime = activation == "MaxPool" and np.isnan(fed)
    check = cpu_plugin.check_beside_onnxruntime if beside_onnxruntime else cpu_plugin.check
    with np.errstate(invalid="ignore"):
        check(nodes, feeds, constants=constants, opset=17, rtol=1e-4, atol=1e-4)
    # A run that is fed numbers alone is as fast as before, and the next one careful again.
    finite = feeds | {"x": random(1, source, 8, 8, seed=3)}
    session = cpu_plugin.session(make_model(nodes, feeds, ["y"], constants, 17))
    whole = [np.isfinite(session.run(None, each)[0]).all() for each in (finite, feeds, finite)]
    assert whole[0] and whole[2] and (not whole[1] or fed == np.inf)


def test_layouts_stay_right_through_a_chain_of_odd_channels(cpu_plugin: Cpu) -> None:
    nodes = [
        helper.make_node("Conv", ["x", "w0"], ["a"], pads=[1, 1, 1, 1]),
        helper.make_node("Relu", ["a"], ["b"]),
        helper.make_node("MaxPool", ["b"], ["c"], kernel_shape=[2, 2], strides=[2, 2]),
        helper.make_node("Conv", ["c", "w1", "b1"], ["d"]),
    ]
    constants = {"w0": random(13, 3, 3, 3), "w1": random(21, 13, 1, 1), "b1": random(21)}
    cpu_plugin.check(
        nodes, {"x": random(2, 3, 10, 10)}, outputs=["d", "b"], constants=constants, rtol=1e-4, atol=1e-4
    )


@pytest.mark.parametrize(
    ("x", "w", "attributes"),
    [
        ((1, 8, 5, 6), (8, 16, 3, 3), {"strides": [2, 2], "pads": [1, 1, 1, 1]}),
        ((1, 5, 5, 6), (5, 7, 2, 2), {"strides": [2, 2]}),
        ((1, 8, 5, 6), (8, 4, 3, 3), {"strides": [2, 2], "output_padding": [1, 1]}),
        ((1, 8, 5, 6), (8, 4, 3, 3), {"group": 2, "strides": [1, 2], "dilations": [2, 1]}),
        ((1, 8, 5, 6), (8, 1, 4, 4), {"group": 8, "strides": [2, 2], "pads": [1, 1, 1, 1]}),
        ((1, 3, 5, 5), (3, 2, 3, 3), {"strides": [3, 3], "output_shape": [15, 16]}),
        ((1, 3, 5, 5), (3, 2, 3, 3), {"strides": [2, 2], "auto_pad": "SAME_LOWER"}),
        ((1, 3, 9), (3, 4, 4), {"strides": [2]}),
    ],
)
def test_transposed_convolution(
    cpu_plugin: Cpu, x: tuple[int, ...], w: tuple[int, ...], attributes: dict[str, Any]
) -> None:
    node = helper.make_node("ConvTranspose", ["x", "w", "b"], ["y"], **attributes)
    constants = {"w": random(*w, seed=1), "b": random(w[1] * attributes.get("group", 1), seed=2)}
    cpu_plugin.check_beside_onnxruntime(node, {"x": random(*x)}, constants=constants, rtol=1e-4, atol=1e-4)


def test_weights_that_do_not_fit_are_refused_in_words(cpu_plugin: Cpu) -> None:
    node = helper.make_node("Conv", ["x", "w"], ["y"], name="odd one")
    feeds = {"x": random(1, 4, 5, 5), "w": random(2, 3, 3, 3)}
    model = make_model([node], feeds, ["y"], open_shapes=True)
    with pytest.raises(Exception, match="odd one"):
        cpu_plugin.run(model, feeds)


@pytest.mark.parametrize("kind", ["Conv", "ConvTranspose"])
@pytest.mark.parametrize("attributes", [{"strides": [2, 3]}, {"dilations": [3, 2]}, {"pads": [2, 0, 1, 0]}])
def test_columns_are_convolved_as_lines(cpu_plugin: Cpu, kind: str, attributes: dict[str, list[int]]) -> None:
    """Images that are one pixel wide, alone and between others; the packed weights serve either."""
    weights = random(16, 16, 5, 1, seed=1)
    node = helper.make_node(kind, ["x", "w"], ["y"], **attributes)
    for shape in [(2, 16, 40, 1), (1, 16, 14, 7)]:
        cpu_plugin.check(node, {"x": random(*shape)}, constants={"w": weights}, rtol=1e-4, atol=1e-4)
    model = make_model([node], {"x": random(1, 16, 40, 1)}, ["y"], {"w": weights}, open_shapes=True)
    session = cpu_plugin.session(model)
    for shape in [(1, 16, 40, 1), (1, 16, 14, 8), (3, 16, 17, 1), (1, 16, 20, 20)]:
        one = make_model([node], {"x": random(*shape), "w": weights}, ["y"])
        (expected,) = cpu_plugin.run(one, {"x": random(*shape), "w": weights})
        np.testing.assert_allclose(
            session.run(None, {"x": random(*shape)})[0], expected, rtol=1e-4, atol=1e-4
        )


@pytest.mark.parametrize("group", [1, 2, 16])
@pytest.mark.parametrize("kind", ["Conv", "ConvTranspose"])
def test_weights_packed_before_any_shape_was_known_serve_all_shapes(
    cpu_plugin: Cpu, kind: str, group: int
) -> None:
    """The original is gone by then: what a shape needs is made from the packed form."""
    weights = random(16, 16 // group, 3, 3, seed=1)
    node = helper.make_node(kind, ["x", "w"], ["y"], group=group)
    shapes = [(1, 16, 9, 9), (3, 16, 40, 5), (1, 16, 120, 130), (1, 16, 3, 3), (0, 16, 5, 5)]
    model = make_model([node], {"x": random(*shapes[0])}, ["y"], {"w": weights}, open_shapes=True)
    one = make_model([node], {"x": random(*shapes[0]), "w": weights}, ["y"], open_shapes=True)
    session, unpacked = cpu_plugin.session(model), cpu_plugin.session(one)
    for shape in shapes:
        x = random(*shape)
        (expected,) = unpacked.run(None, {"x": x, "w": weights})
        # Of outputs up to 50: tiles of Winograd's method are off by up to 1e-5 of that.
        np.testing.assert_allclose(session.run(None, {"x": x})[0], expected, rtol=1e-4, atol=5e-4)


def test_weights_that_two_convolutions_share_are_packed_for_both(cpu_plugin: Cpu) -> None:
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["a"], pads=[1, 1, 1, 1]),
        helper.make_node("ConvTranspose", ["a", "w"], ["b"], pads=[1, 1, 1, 1]),
        helper.make_node("Conv", ["b", "w"], ["c"], pads=[1, 1, 1, 1], strides=[2, 2]),
    ]
    constants = {"w": random(8, 8, 3, 3)}
    cpu_plugin.check_beside_onnxruntime(
        nodes, {"x": random(1, 8, 9, 9)}, ["c"], constants, rtol=1e-3, atol=1e-3
    )


@pytest.mark.parametrize("channels", [(32, 32), (16, 40), (96, 24), (160, 200)])
@pytest.mark.parametrize("size", [(12, 12), (15, 22), (26, 7)])
@pytest.mark.parametrize("pads", [[1, 1, 1, 1], [0, 2, 1, 0]])
def test_tiles_of_a_convolution(
    cpu_plugin: Cpu, channels: tuple[int, int], size: tuple[int, int], pads: list[int]
) -> None:
    """Channels and sizes for which Winograd's method is chosen, with what is fused into it."""
    nodes = [
        helper.make_node("Conv", ["x", "w0"], ["a"]),
        helper.make_node("Conv", ["a", "w", "b"], ["c"], pads=pads),
        helper.make_node("Relu", ["r"], ["s"]),
        helper.make_node("Add", ["c", "s"], ["d"]),
        helper.make_node("HardSwish", ["d"], ["y"]),
    ]
    inputs, outputs = channels
    constants = {"w0": random(inputs, 5, 1, 1), "w": random(outputs, inputs, 3, 3) / 20, "b": random(outputs)}
    height, width = size[0] + pads[0] + pads[2] - 2, size[1] + pads[1] + pads[3] - 2
    feeds = {"x": random(2, 5, *size), "r": random(2, outputs, height, width)}
    for threads in (1, 3):
        cpu_plugin.check_beside_onnxruntime(
            nodes, feeds, constants=constants, rtol=1e-4, atol=1e-4, intra_op_num_threads=threads
        )


def between_others(pads: list[int], dilations: list[int]) -> list[onnx.NodeProto]:
    """A convolution between two others, with what is fused into it."""
    return [
        helper.make_node("Conv", ["x", "w0"], ["a"]),
        helper.make_node("Conv", ["a", "w", "b"], ["c"], pads=pads, dilations=dilations),
        helper.make_node("Relu", ["r"], ["s"]),
        helper.make_node("Add", ["c", "s"], ["d"]),
        helper.make_node("HardSwish", ["d"], ["e"]),
        helper.make_node("Conv", ["e", "w2"], ["y"]),
    ]


# Kernels that Winograd's method takes, and images for them.
LINES_AND_SQUARES = [
    ([3], (50,)),
    ([5], (37,)),
    ([1, 3], (7, 22)),
    ([1, 5], (6, 15)),
    ([3, 1], (22, 7)),
    ([5, 1], (15, 6)),
    ([5, 1], (40, 1)),
    ([5, 5], (12, 15)),
]


@pytest.mark.parametrize(("kernel", "size"), LINES_AND_SQUARES)
@pytest.mark.parametrize("dilation", [1, 2])
@pytest.mark.parametrize("uneven", [False, True])
def test_tiles_of_other_kernels(
    cpu_plugin: Cpu, tmp_path: Path, kernel: list[int], size: tuple[int, ...], dilation: int, uneven: bool
) -> None:
    dilations = [1 if taps == 1 else dilation for taps in kernel]
    half = [taps // 2 * gap for taps, gap in zip(kernel, dilations, strict=True)]
    pads = [*half, *half]
    if uneven:  # Also where a kernel has one tap.
        pads = [0, *half[1:], *(pad + (taps > 1) for pad, taps in zip(half, kernel, strict=True))]
    target = [
        side + pads[d] + pads[d + len(kernel)] - (kernel[d] - 1) * dilations[d] for d, side in enumerate(size)
    ]
    nodes = between_others(pads, dilations)
    one = [1] * len(kernel)
    constants = {
        "w0": random(32, 5, *one),
        "w": random(40, 32, *kernel) / 20,
        "b": random(40),
        "w2": random(40, 40, *one) / 5,
    }
    feeds = {"x": random(2, 5, *size), "r": random(2, 40, *target)}
    for threads in (1, 3):
        cpu_plugin.check_beside_onnxruntime(
            nodes, feeds, constants=constants, rtol=1e-4, atol=1e-4, intra_op_num_threads=threads
        )
    if WITH_ONEDNN and dilation == 1:
        model = make_model(nodes, feeds, ["y"], constants)
        steps = traced(cpu_plugin, model, feeds, tmp_path)
        assert [a.get("method") for a in steps if "Conv" in a["op_name"]][1] == "winograd"


@pytest.mark.parametrize(("kernel", "size"), LINES_AND_SQUARES)
def test_originals_of_other_transformed_kernels(
    cpu_plugin: Cpu, kernel: list[int], size: tuple[int, ...]
) -> None:
    """A sum that is broadcast only in the run: the weights' original is made from the transformed ones."""
    pads = [taps // 2 for taps in kernel] * 2
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["c"], pads=pads),
        helper.make_node("Conv", ["q", "v"], ["r"]),
        helper.make_node("Add", ["c", "r"], ["y"]),
    ]
    feeds = {"x": random(1, 32, *size), "q": random(1, 3, *size)}
    constants = {"w": random(40, 32, *kernel) / 5, "v": random(40, 3, *[1] * len(kernel))}
    model = make_model(nodes, feeds, ["y"], constants, open_shapes=True)
    session, plain = cpu_plugin.session(model), cpu_plugin.session(model, fusion=0)
    for shape in [(1, 3, *size), (1, 3, *[1] * len(size)), (1, 3, *[1] * (len(size) - 1), size[-1])]:
        feeds["q"] = random(*shape)
        found, expected = session.run(None, feeds)[0], plain.run(None, feeds)[0]
        np.testing.assert_allclose(found, expected, rtol=1e-3, atol=1e-3)


def test_long_gaps_leave_an_image_to_others(cpu_plugin: Cpu) -> None:
    """Each phase would be next to nothing, and there would be as many as the gap is long."""
    node = helper.make_node("Conv", ["x", "w"], ["y"], pads=[70, 900] * 2, dilations=[70, 900])
    weights = random(32, 16, 3, 3)
    feeds = {"x": random(1, 16, 9, 9)}
    session = cpu_plugin.session(make_model([node], feeds, ["y"], {"w": weights}, open_shapes=True))
    for side in (9, 3, 12):
        x = random(1, 16, side, side)
        # Only the middle tap meets the image.
        expected = np.einsum("nchw,oc->nohw", x, weights[:, :, 1, 1])
        np.testing.assert_allclose(session.run(None, {"x": x})[0], expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("dilations", [[2, 1], [1, 3], [2, 2], [6, 5]])
@pytest.mark.parametrize("size", [(13, 12), (5, 22), (30, 31)])
@pytest.mark.parametrize("pads", [[1, 1, 1, 1], [0, 7, 12, 3], [6, 5, 6, 5]])
def test_tiles_of_a_convolution_with_gaps_between_its_taps(
    cpu_plugin: Cpu, dilations: list[int], size: tuple[int, int], pads: list[int], tmp_path: Path
) -> None:
    """Every second, third, ... row or column is a convolution without gaps."""
    target = [side + pads[d] + pads[d + 2] - 2 * dilations[d] for d, side in enumerate(size)]
    if min(target) < 1:
        return
    nodes = between_others(pads, dilations)
    constants = {
        "w0": random(24, 5, 1, 1),
        "w": random(32, 24, 3, 3) / 20,
        "b": random(32),
        "w2": random(32, 32, 1, 1) / 5,
    }
    feeds = {"x": random(2, 5, *size), "r": random(2, 32, *target)}
    for threads in (1, 3):
        cpu_plugin.check_beside_onnxruntime(
            nodes, feeds, constants=constants, rtol=1e-4, atol=1e-4, intra_op_num_threads=threads
        )
    if WITH_ONEDNN and size == (30, 31) and dilations != [6, 5]:  # Enough tiles to be worth it.
        model = make_model(nodes, feeds, ["y"], constants)
        steps = traced(cpu_plugin, model, feeds, tmp_path)
        assert [a.get("method") for a in steps if "Conv" in a["op_name"]][1] == "winograd"


@pytest.mark.skipif(not WITH_ONEDNN, reason="other convolutions have other layouts")
def test_few_outputs_are_worth_tiles_where_they_fill_most_of_a_panel(cpu_plugin: Cpu, tmp_path: Path) -> None:
    nodes = [
        helper.make_node("Conv", ["x", "w0"], ["a"]),
        helper.make_node("Conv", ["a", "w"], ["c"], pads=[1, 1, 1, 1]),
        helper.make_node("Conv", ["c", "w2"], ["y"]),
    ]
    constants = {"w0": random(96, 5, 1, 1), "w": random(24, 96, 3, 3) / 20, "w2": random(24, 24, 1, 1)}
    feeds = {"x": random(1, 5, 20, 20)}
    model = make_model(nodes, feeds, ["y"], constants)
    methods = [a.get("method") for a in traced(cpu_plugin, model, feeds, tmp_path) if "Conv" in a["op_name"]]
    assert methods[1] == "winograd"


@pytest.mark.parametrize("channels", [(256, 256), (160, 200)])
@pytest.mark.parametrize("images", [1, 2])
def test_few_tiles_whose_weights_are_many_are_shared_by_their_points(
    cpu_plugin: Cpu, channels: tuple[int, int], images: int, tmp_path: Path
) -> None:
    """On several threads: each reads a part of the weights."""
    inputs, outputs = channels
    nodes = [
        helper.make_node("Conv", ["x", "w", "b"], ["c"], pads=[1, 1, 1, 1], name="conv"),
        helper.make_node("Add", ["c", "r"], ["d"]),
        helper.make_node("Relu", ["d"], ["y"]),
    ]
    constants = {"w": random(outputs, inputs, 3, 3) / 20, "b": random(outputs)}
    feeds = {"x": random(images, inputs, 7, 7), "r": random(images, outputs, 7, 7)}
    for threads in (1, 2, 3):
        cpu_plugin.check_beside_onnxruntime(
            nodes, feeds, constants=constants, rtol=1e-4, atol=1e-4, intra_op_num_threads=threads
        )
    model = make_model(nodes, feeds, ["y"], constants)
    methods = [a.get("method") for a in traced(cpu_plugin, model, feeds, tmp_path) if "Conv" in a["op_name"]]
    assert methods == ["winograd"]


@pytest.mark.parametrize("channels", [32, 200])
def test_transformed_weights_serve_shapes_that_the_method_does_not_fit(
    cpu_plugin: Cpu, channels: int
) -> None:
    """A sum that is broadcast only in the run: the weights' original is made from the transformed ones."""
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["c"], pads=[1, 1, 1, 1]),
        helper.make_node("Conv", ["q", "v"], ["r"]),
        helper.make_node("Add", ["c", "r"], ["y"]),
    ]
    feeds = {"x": random(1, channels, 9, 9), "q": random(1, 3, 9, 9)}
    constants = {"w": random(channels, channels, 3, 3), "v": random(channels, 3, 1, 1)}
    model = make_model(nodes, feeds, ["y"], constants, open_shapes=True)
    session, plain = cpu_plugin.session(model), cpu_plugin.session(model, fusion=0)
    for shape in [(1, 3, 9, 9), (1, 3, 1, 1), (1, 3, 1, 9)]:
        feeds["q"] = random(*shape)
        found, expected = session.run(None, feeds)[0], plain.run(None, feeds)[0]
        np.testing.assert_allclose(found, expected, rtol=1e-3, atol=1e-3)


def few_pixels(side: int = 7, open_shapes: bool = False) -> tuple[onnx.ModelProto, dict[str, np.ndarray]]:
    """A convolution of 1x1 whose weights are more than the second cache has room for, between two others."""
    nodes = [
        helper.make_node("Conv", ["x", "w0"], ["a"], name="before"),
        helper.make_node("Conv", ["a", "w", "b"], ["c"], name="many"),
        helper.make_node("Relu", ["c"], ["d"]),
        helper.make_node("Add", ["d", "a"], ["e"]),
        helper.make_node("Conv", ["e", "w1"], ["y"], name="after", strides=[2, 2]),
    ]
    constants = {
        "w0": random(520, 8, 1, 1),
        "w": random(520, 520, 1, 1, seed=1) / 20,
        "b": random(520, seed=2),
        "w1": random(8, 520, 1, 1, seed=3) / 20,
    }
    feeds = {"x": random(1, 8, side, side, seed=4)}
    return make_model(nodes, feeds, ["y"], constants, open_shapes=open_shapes), feeds


@pytest.mark.parametrize("sides", [(5, 40, 3), (40, 5), (6, 17)])
@pytest.mark.parametrize("threads", [1, 3])
def test_many_weights_serve_few_pixels_and_many(
    cpu_plugin: Cpu, sides: tuple[int, ...], threads: int
) -> None:
    onnxruntime = pytest.importorskip("onnxruntime")
    model, _ = few_pixels(open_shapes=True)
    session = cpu_plugin.session(model, intra_op_num_threads=threads)
    rival = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    for side in sides:
        _, feeds = few_pixels(side)
        (found,), (expected,) = session.run(None, feeds), rival.run(None, feeds)
        np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-4)


@pytest.mark.skipif(not AVX512, reason="oneDNN has channels last on processors with AVX-512 alone")
@pytest.mark.parametrize(("side", "many"), [(3, "matrices"), (5, "matrices"), (6, None)])
def test_many_weights_are_read_once_for_few_pixels(
    cpu_plugin: Cpu, side: int, many: str | None, tmp_path: Path
) -> None:
    """And more pixels are left to oneDNN, in a build that has it."""
    model, feeds = few_pixels(side)
    steps = traced(cpu_plugin, model, feeds, tmp_path)
    methods = [step["method"] for step in steps if "Conv" in step["op_name"]]
    assert methods[1] == (many or methods[2])
    assert not any("Reorder" in step["op_name"] for step in steps[1:-1])


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.float16])
@pytest.mark.parametrize("operator", ["Conv", "ConvTranspose"])
@pytest.mark.parametrize("biased", [False, True])
def test_no_channels_make_the_bias(cpu_plugin: Cpu, operator: str, biased: bool, dtype: type) -> None:
    feeds = {"x": np.ones((1, 0, 6, 6), dtype), "w": np.ones((4, 0, 3, 3), dtype)}
    if operator == "ConvTranspose":
        feeds["w"] = np.ones((0, 4, 3, 3), dtype)
    if biased:
        feeds["b"] = np.arange(1, 5, dtype=dtype)
    node = helper.make_node(operator, list(feeds), ["c"])
    model = make_model([node, helper.make_node("Relu", ["c"], ["y"])], feeds, ["y"])
    for _ in range(2):
        (found,) = cpu_plugin.run(model, feeds)
        expected = np.arange(1, 5).reshape(1, 4, 1, 1) if biased else 0
        np.testing.assert_array_equal(found, np.broadcast_to(expected, found.shape))


@pytest.mark.parametrize(
    ("x", "w", "pads"),
    [
        ((1, 1, 24, 24), (1, 1, 17, 17), 8),
        ((1, 1, 40, 40), (1, 1, 17, 17), 0),
        ((2, 1, 20, 24), (3, 1, 5, 9), 4),
        ((1, 4, 20, 24), (7, 4, 3, 3), 1),
        ((1, 1, 600), (1, 1, 129), 64),
        ((3, 2, 600), (2, 2, 33), 0),
    ],
)
def test_few_channels_make_as_few(
    cpu_plugin: Cpu, tmp_path: Path, x: tuple[int, ...], w: tuple[int, ...], pads: int
) -> None:
    """oneDNN has loops for reference for some of these, and half empty vectors for others."""
    node = helper.make_node("Conv", ["x", "w", "b"], ["y"], pads=[pads] * 2 * (len(x) - 2))
    feeds, constants = {"x": random(*x)}, {"w": random(*w, seed=1), "b": random(w[0], seed=2)}
    cpu_plugin.check_beside_onnxruntime(node, feeds, ["y"], constants, rtol=1e-4, atol=1e-4)
    model = make_model([node], feeds, ["y"], constants)
    assert [step.get("method") for step in traced(cpu_plugin, model, feeds, tmp_path)] == ["planes"]


@pytest.mark.skipif(not WITH_ONEDNN, reason="asks what oneDNN leaves to others")
def test_no_convolution_runs_on_loops_for_reference(cpu_plugin: Cpu, tmp_path: Path) -> None:
    """Of wide padding oneDNN has nothing else, and planes are for strides of one."""
    node = helper.make_node("Conv", ["x", "w"], ["y"], pads=[16] * 4, strides=[1, 2])
    feeds, constants = {"x": random(1, 1, 24, 24)}, {"w": random(1, 1, 33, 33, seed=1)}
    cpu_plugin.check_beside_onnxruntime(node, feeds, ["y"], constants, rtol=1e-4, atol=1e-4)
    model = make_model([node], feeds, ["y"], constants)
    steps = traced(cpu_plugin, model, feeds, tmp_path)
    assert [step.get("method") for step in steps if "Conv" in step["op_name"]] == ["matrices"]


@pytest.mark.parametrize(
    ("first", "second", "w"),
    [
        (("Conv", {"dilations": [64]}), ("ConvTranspose", {"dilations": [64]}), (16, 16, 3)),
        (("Conv", {"dilations": [40]}), ("Conv", {"dilations": [40], "group": 2}), (16, 8, 7)),
        (("Conv", {"dilations": [50, 1]}), ("ConvTranspose", {}), (16, 16, 3, 1)),
    ],
)
def test_weights_that_two_convolutions_share_stay_until_both_have_them(
    cpu_plugin: Cpu, first: tuple[str, Any], second: tuple[str, Any], w: tuple[int, ...]
) -> None:
    """Of an image of open size it was guessed that it has no room for such gaps, and nothing was packed."""
    nodes = [
        helper.make_node(first[0], ["x", "w"], ["a"], **first[1]),
        helper.make_node(second[0], ["a", "w"], ["y"], **second[1]),
    ]
    feeds, constants = {"x": random(1, w[1], 700, *w[3:])}, {"w": random(*w, seed=1) / 5}
    models = [make_model(nodes, feeds, ["y"], constants, open_shapes=is_open) for is_open in (False, True)]
    expected, found = (cpu_plugin.run(model, feeds)[0] for model in models)
    assert np.abs(expected).max() > 1
    np.testing.assert_allclose(found, expected, rtol=1e-3, atol=1e-3)
