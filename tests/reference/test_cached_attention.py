"""Attention of beams over a cache that past and present share, beside onnxruntime's."""

from __future__ import annotations

from typing import Any

import ephost
import numpy as np
import onnx
import pytest
from ephost.errors import NotImplemented
from onnx import TensorProto, helper

ort = pytest.importorskip("onnxruntime")
FLOAT, INT = np.float32, np.int32
HEADS, SIZE, ROOM, SEEN = 2, 8, 12, 10
MASKED, WHOLE = "DecoderMaskedMultiHeadAttention", "MultiHeadAttention"
ORDER = {
    MASKED: ("q", "k", "v", "mask", "added", "past_k", "past_v", "length", "width", "beams", "bias"),
    WHOLE: ("q", "k", "v", "bias", "mask", "added", "past_k", "past_v", "length", "beams"),
}
Feeds = dict[str, np.ndarray]


def made(op_type: str, feeds: Feeds, outputs: list[str], **attributes: Any) -> bytes:
    names = [name if name in feeds else "" for name in ORDER[op_type]]
    while not names[-1]:
        names.pop()
    node = helper.make_node(
        op_type, names, outputs, "n", domain="com.microsoft", num_heads=HEADS, **attributes
    )
    infos = [
        helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(x.dtype), x.shape)
        for name, x in feeds.items()
    ]
    results = [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in outputs if name]
    graph = helper.make_graph([node], "g", infos, results)
    model: onnx.ModelProto = helper.make_model(
        graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8
    )
    return model.SerializeToString()


def inputs(r: np.random.Generator, op_type: str, cross: bool) -> tuple[Feeds, list[str], dict[str, Any]]:
    batch, width, length = int(r.integers(1, 3)), int(r.integers(1, 4)), int(r.integers(0, ROOM))
    rows, wide = batch * width, HEADS * SIZE

    def normal(*shape: int) -> np.ndarray:
        return r.normal(size=shape).astype(FLOAT)

    feeds = {"q": normal(rows, 1, wide)}
    if cross:
        feeds.update(k=normal(rows, HEADS, SEEN, SIZE), v=normal(rows, HEADS, SEEN, SIZE))
    else:
        feeds.update(k=normal(rows, 1, wide), v=normal(rows, 1, wide))
        feeds.update({name: normal(rows, HEADS, ROOM, SIZE) for name in ("past_k", "past_v")})
    feeds["length"] = np.array([length], INT)
    feeds["beams"] = r.integers(0, width, (batch, width, ROOM)).astype(INT)
    if r.random() < 0.7:
        feeds["bias"] = normal(3 * wide)
    total = SEEN if cross else length + 1
    if r.random() < 0.4:
        feeds["mask"] = (r.random((rows, total)) < 0.7).astype(INT)
        feeds["mask"][:, -1] = 1
    if r.random() < 0.4 and not (cross and op_type == MASKED):
        feeds["added"] = normal(1, HEADS, 1, total)
    attributes: dict[str, Any] = {"scale": 0.4} if r.random() < 0.3 else {}
    if op_type == MASKED:
        feeds["width"] = np.array([width], INT)
        attributes["past_present_share_buffer"] = int(not cross)
        if cross:
            attributes["output_qk"] = 1
    return feeds, ["o", "", "", "qk"] if cross else ["o", "present_k", "present_v"], attributes


def with_onnxruntime(model: bytes, feeds: Feeds, outputs: list[str]) -> list[np.ndarray]:
    """Its present keys and values are written where the past ones are read."""
    session = ort.InferenceSession(model, providers=["CPUExecutionProvider"])
    binding = session.io_binding()
    caches = {
        name: ort.OrtValue.ortvalue_from_numpy(x.copy())
        for name, x in feeds.items()
        if name.startswith("past")
    }
    for name, x in feeds.items():
        if name in caches:
            binding.bind_ortvalue_input(name, caches[name])
        else:
            binding.bind_cpu_input(name, x)
    for name in filter(None, outputs):
        cache = caches.get(name.replace("present", "past"))
        if cache is None:
            binding.bind_output(name)
        else:
            binding.bind_ortvalue_output(name, cache)
    session.run_with_iobinding(binding)
    return [value.numpy().copy() for value in binding.get_outputs()]


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("cross", [False, True], ids=["self", "cross"])
@pytest.mark.parametrize("op_type", [MASKED, WHOLE])
def test_results_are_those_of_onnxruntime(op_type: str, cross: bool, seed: int) -> None:
    feeds, outputs, attributes = inputs(np.random.default_rng(seed), op_type, cross)
    model = made(op_type, feeds, outputs, **attributes)
    session = ephost.InferenceSession(model)
    found = session.run(None, feeds)
    for our, their in zip(found, with_onnxruntime(model, feeds, outputs), strict=True):
        np.testing.assert_allclose(our, their, rtol=1e-3, atol=1e-4)
    for output, value in zip(session.get_outputs(), found, strict=True):
        assert len(output.shape) == value.ndim
        assert all(size in (None, seen) for size, seen in zip(output.shape, value.shape, strict=True))


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"length": np.array([ROOM], INT)}, f"a cache of {ROOM} has no room behind {ROOM}"),
        ({"length": np.array([-1], INT)}, "has no room behind -1"),
        ({"beams": np.full((1, 2, ROOM), 2, INT)}, "names a beam that is none of 2"),
        ({"beams": np.zeros((2, 2, ROOM), INT)}, "cache_indirection of shape"),
        ({"width": np.array([3], INT)}, "beam_width is 3"),
        ({"q": np.ones((2, 2, HEADS * SIZE), FLOAT)}, "it has one token"),
        ({"mask": np.ones((2, 3), INT)}, r"the mask must have shape \[2, 6\] or \[2\], got \[2, 3\]"),
        ({"past_k": np.ones((2, HEADS, ROOM, SIZE + 1), FLOAT)}, "does not fit"),
    ],
)
def test_what_does_not_fit_is_refused(change: Feeds, said: str) -> None:
    ones = np.ones((2, 1, HEADS * SIZE), FLOAT)
    feeds = {"q": ones, "k": ones, "v": ones, "length": np.array([5], INT), "width": np.array([2], INT)}
    feeds.update({name: np.ones((2, HEADS, ROOM, SIZE), FLOAT) for name in ("past_k", "past_v")})
    feeds["beams"] = np.zeros((1, 2, ROOM), INT)
    feeds.update(change)
    model = made(MASKED, feeds, ["o"], past_present_share_buffer=1)
    with pytest.raises(Exception, match=f"'n'.*{said}"):
        ephost.InferenceSession(model).run(None, feeds)


@pytest.mark.parametrize("op_type", [MASKED, WHOLE])
def test_other_forms_are_for_plugins(op_type: str) -> None:
    ones = np.ones((2, 1, HEADS * SIZE), FLOAT)
    feeds = {"q": ones, "k": ones, "v": ones}
    with pytest.raises(NotImplemented, match="no execution provider claims the node 'n'"):
        ephost.InferenceSession(made(op_type, feeds, ["o"]))


@pytest.mark.parametrize(("lengths", "seen"), [([1], 0), ([3], 2), ([2], 2), ([2, 3], 2)])
def test_a_mask_may_be_a_length_for_each_row(lengths: list[int], seen: int) -> None:
    r, rows, wide = np.random.default_rng(0), len(lengths), HEADS * SIZE
    feeds = {name: r.normal(size=(rows, 1, wide)).astype(FLOAT) for name in ("q", "k", "v")}
    feeds |= {name: r.normal(size=(rows, HEADS, 3, SIZE)).astype(FLOAT) for name in ("past_k", "past_v")}
    feeds |= {"bias": r.normal(size=3 * wide).astype(FLOAT), "mask": np.array(lengths, INT)}
    feeds["length"] = np.array([seen], INT)
    model = made(WHOLE, feeds, ["y", "present_k", "present_v"])
    found, wanted = (
        module.InferenceSession(model, providers=["CPUExecutionProvider"]).run(None, feeds)
        for module in (ephost, ort)
    )
    for a, b in zip(found, wanted, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5)
