"""Models of a node or a few, with random constants, and what they are fed with."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from harness.sides import Host

Feed = dict[str, np.ndarray]
random = np.random.default_rng(0)


def some(*shape: int) -> np.ndarray:
    """Random float32, of which sums of products stay small."""
    return (random.standard_normal(shape) * 0.1).astype(np.float32)


def network(nodes: Sequence[onnx.NodeProto], feed: Feed, constants: Feed) -> bytes:
    """A model of these nodes; its output is ``y``."""
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


def single(op: str, inputs: Feed, constants: Feed | None = None, **attributes: Any) -> tuple[bytes, Feed]:
    """A model of one node, and its feed."""
    node = helper.make_node(op, [*inputs, *(constants or {})], ["y"], **attributes)
    return network([node], inputs, constants or {}), inputs


def conv(shape: tuple[int, ...], outputs: int, *kernel: int, **more: Any) -> tuple[bytes, Feed]:
    """A convolution with a bias, whose output is as large as its input where there are no strides."""
    pads = [k // 2 for k in kernel] + [(k - 1) // 2 for k in kernel]
    group = more.get("group", 1)
    weights = {"w": some(outputs, shape[1] // group, *kernel), "b": some(outputs)}
    return single("Conv", {"x": some(*shape)}, weights, pads=pads, **more)


def prepare(hosts: Sequence[Host], folder: Path, name: str, content: bytes, feed: Feed) -> None:
    """Get two hosts ready for ``run``, each on its own provider.

    Raises:
        SystemExit: what they give differs by more than a thousandth.
    """
    model, data = folder / "model.onnx", folder / "feed.npz"
    model.write_bytes(content)
    np.savez(data, **feed)
    found = [np.array(host("prepare_feed", model=str(model), feed=str(data))[0]) for host in hosts]
    if not np.allclose(*found, rtol=1e-3, atol=1e-3 * np.abs(found[0]).max()):
        raise SystemExit(f"{name}: the hosts do not agree")
