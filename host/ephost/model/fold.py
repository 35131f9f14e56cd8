"""Stage 3: what can be known when the session opens is computed then.

Nodes whose inputs are all constants are run once on the reference operators, and ``Shape`` of values whose
shape is known becomes a constant. Plugins see weights and shapes as initializers, as they do in
onnxruntime.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Collection, Mapping
from functools import lru_cache

import numpy as np
import onnx

from ephost.model.eliminate import eliminate
from ephost.model.graph import Graph, Model, Node, TensorType, Value, all_graphs, tensor_type
from ephost.model.infer import infer
from ephost.model.inline import inline_decided_ifs
from ephost.model.rewrite import CAST_CHAINS, Rewriter

_LOG = logging.getLogger("ephost.fold")
_LARGE = 1 << 30  # bytes above which a result is left to be computed in the run
# In an EP device's metadata, "1": the EP multiplies by transposed matrices as well, so that a large constant
# need not be there both ways. Any plugin may say so; see docs/write-your-own-ep.md.
TAKES_TRANSPOSED = "takes_transposed_weights"
_WORTH_LEAVING = 1 << 20  # bytes
# Random; or kept because a plugin fuses them into quantised operators.
_KEPT = {
    "RandomNormal",
    "RandomNormalLike",
    "RandomUniform",
    "RandomUniformLike",
    "Bernoulli",
    "Multinomial",
    "QuantizeLinear",
    "DequantizeLinear",
    "DynamicQuantizeLinear",
}
# Operators of ONNX whose output's shape depends on the data of an input of floats.
_SHAPED_BY_FLOATS = {"Resize", "Upsample", "Range"}


def simplify(model: Model, disabled: Collection[str] = (), *, leave_transposed: bool = False) -> None:
    """Compute what is known, take the branches that are decided by it, infer what follows from that, and
    rewrite what can be written shorter.

    Args:
        model: to change in place.
        disabled: what is not wanted, by onnxruntime's names: those of :mod:`ephost.model.rewrite` and
            :mod:`ephost.model.eliminate`, and ``ConstantFolding``.
        leave_transposed: do not transpose large matrices in memory that a MatMul alone reads: see
            :data:`TAKES_TRANSPOSED`.
    """
    while True:
        informs = "ConstantFolding" not in disabled and fold(model, leave_transposed=leave_transposed)
        decided = inline_decided_ifs(model)
        if informs or decided:
            infer(model)
        graphs = list(all_graphs(model.graph))
        for graph in graphs:
            eliminate(graph, disabled)
        if decided:
            continue
        informs = False
        for graph in graphs:
            rewriter = Rewriter(model, graph, disabled)
            if rewriter.run():
                eliminate(graph, disabled)
            informs = informs or rewriter.informs
        if not informs:
            return
        infer(model)


def unwanted(config: Mapping[str, str], names: Collection[str] = ()) -> set[str]:
    """The names of what a session's config entries, and a list of names, turn off in :func:`simplify`."""
    off = {name.strip() for name in config.get("optimization.disable_specified_optimizers", "").split(";")}
    off.update(names)
    if config.get("optimization.enable_cast_chain_elimination") != "1":
        off.add(CAST_CHAINS)
    if config.get("session.disable_double_qdq_remover") == "1":
        off.add("DoubleQDQPairsRemover")
    if config.get("session.disable_quant_qdq") == "1":
        off.update(("ClipQuantFusion", "ReluQuantFusion"))
    return off


def fold(model: Model, *, leave_transposed: bool = False) -> bool:
    """Replace what can be computed now by initializers; returns whether more types may follow from that."""
    graph = model.graph
    kept: list[Node] = []
    folded = False
    informs = False
    for node in graph.nodes:
        types = [value and value.type for value in node.outputs]
        if _fold_shape(node) or (
            _is_foldable(node)
            and not (leave_transposed and _is_left_to_a_product(node))
            and (_fold_constant_of_shape(node) or _evaluate(model, node))
        ):
            folded = True
            informs = informs or any(
                v and _informs(v, v.type != t) for v, t in zip(node.outputs, types, strict=True)
            )
            for value in node.inputs:
                if value is not None and node in value.consumers:
                    value.consumers.remove(node)
        else:
            kept.append(node)
    if folded:
        graph.nodes = kept
        drop_unused_initializers(graph)
    return informs


def _informs(constant: Value, retyped: bool) -> bool:
    """Whether a consumer's type is not known, and may follow from the constant's data or its new type."""
    data = constant.initializer
    shapes = retyped or (data is not None and data.dtype.kind != "f")
    for node in constant.consumers:
        if node.subgraphs:
            return True
        for value in node.outputs if shapes or node.domain or node.op_type in _SHAPED_BY_FLOATS else ():
            if value is not None and not (
                isinstance(value.type, TensorType) and value.type.static_dims is not None
            ):
                return True
    return False


def _replace(node: Node, index: int, array: np.ndarray, element_type: int) -> None:
    value = node.outputs[index]
    if value is None:
        return
    value.producer, value.producer_output = None, -1
    value.initializer = array
    value.is_constant = True
    value.type = tensor_type(element_type, tuple(int(d) for d in array.shape))


def _fold_shape(node: Node) -> bool:
    if node.domain or node.op_type != "Shape" or len(node.outputs) != 1:
        return False
    source, out = node.inputs[0], node.outputs[0]
    if source is None or out is None or out.is_output or not isinstance(source.type, TensorType):
        return False
    dims = source.type.static_dims
    if dims is None or (source.is_input and source.initializer is not None):
        return False
    limits = {a.name: a.i for a in node.proto.attribute}
    array = np.asarray(dims[limits.get("start", 0) : limits.get("end", len(dims))], dtype=np.int64)
    _replace(node, 0, array, 7)
    return True


def _is_left_to_a_product(node: Node) -> bool:
    """Whether it transposes a large matrix that one MatMul alone reads, as output layers do which share their
    weights with an embedding.
    """
    if node.domain or node.op_type != "Transpose":
        return False
    data = node.inputs[0].initializer if node.inputs[0] is not None else None
    readers = node.outputs[0].consumers if node.outputs[0] is not None else []
    return (
        data is not None
        and data.ndim == 2
        and data.dtype == np.float32
        and data.nbytes >= _WORTH_LEAVING
        and any(list(attribute.ints) == [1, 0] for attribute in node.proto.attribute)
        and len(readers) == 1
        and (readers[0].domain, readers[0].op_type) == ("", "MatMul")
        and readers[0].inputs[1] is node.outputs[0]
    )


def _fold_constant_of_shape(node: Node) -> bool:
    """A short way for models whose weights are all made so; False where it does not lead to the end."""
    if node.domain or node.op_type != "ConstantOfShape" or len(node.inputs) != 1 or len(node.outputs) != 1:
        return False
    shape = node.inputs[0].initializer if node.inputs[0] is not None else None
    if shape is None or shape.dtype != np.int64 or shape.ndim != 1 or (shape < 0).any():
        return False
    fill, element_type = np.zeros((), np.float32), int(onnx.TensorProto.FLOAT)
    for attribute in node.proto.attribute:
        if attribute.name == "value":
            element_type = attribute.t.data_type
            found = _only_element(attribute.t.SerializeToString())
            if found is None:
                return False
            fill = found
    dims = shape.tolist()
    if math.prod(dims) * fill.itemsize > _LARGE:
        return False
    _replace(node, 0, np.full(dims, fill, fill.dtype), element_type)
    return True


@lru_cache(maxsize=64)
def _only_element(tensor: bytes) -> np.ndarray | None:
    """The element of a tensor that has one, and is no string."""
    try:
        data = onnx.numpy_helper.to_array(onnx.TensorProto.FromString(tensor))
    except (ValueError, TypeError):
        return None
    return data.reshape(()) if data.size == 1 and not data.dtype.hasobject else None


def _is_foldable(node: Node) -> bool:
    if node.subgraphs or node.op_type in _KEPT or not node.inputs:
        return False
    for value in node.inputs:
        if value is not None and not (value.is_constant and value.initializer is not None):
            return False
    for value in node.outputs:
        if value is None:
            continue
        if value.is_output or not isinstance(value.type, TensorType):
            return False
        dims = value.type.static_dims
        if dims is not None and math.prod(dims) * 8 > _LARGE:
            return False
    return True


def _evaluate(model: Model, node: Node) -> bool:
    from ephost.reference import create_kernel

    try:
        kernel = create_kernel(node.proto, model.opsets, model.functions)
        results = kernel([None if v is None else v.initializer for v in node.inputs])
    except Exception as error:  # whatever is wrong shows again, with its place, when the node runs
        _LOG.debug("node %s is not folded: %s", node.label, error)
        return False
    arrays = results[: len(node.outputs)]
    for value, array in zip(node.outputs, arrays, strict=True):
        if value is not None and (not isinstance(array, np.ndarray) or array.nbytes > _LARGE):
            return False
    for index, array in enumerate(arrays):
        value = node.outputs[index]
        if value is not None and isinstance(value.type, TensorType) and isinstance(array, np.ndarray):
            _replace(node, index, np.ascontiguousarray(array).reshape(array.shape), value.type.element_type)
    return True


def drop_unused_initializers(graph: Graph) -> None:
    """Forget the data that nobody reads any more."""
    for name, value in list(graph.values.items()):
        if value.initializer is not None and not (value.consumers or value.is_output or value.is_input):
            del graph.values[name]
