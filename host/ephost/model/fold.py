"""Stage 3: what can be known when the session opens is computed then.

Nodes whose inputs are all constants are run once on the reference operators, and ``Shape`` and ``Size`` of
values whose shape is known become constants. Plugins see weights and shapes as initializers, as they do in
onnxruntime.
"""

from __future__ import annotations

import logging

import numpy as np

from ephost.model.graph import Graph, Model, Node, TensorType

_LOG = logging.getLogger("ephost.fold")
_LARGE = 16 << 20  # bytes above which a result is left to be computed in the run
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


def fold(model: Model) -> int:
    """Replace what can be computed now by initializers; returns how many nodes are gone."""
    graph = model.graph
    kept: list[Node] = []
    folded = 0
    for node in graph.nodes:
        if _fold_shape(node) or (_is_foldable(node) and _evaluate(model, node)):
            folded += 1
            for value in node.inputs:
                if value is not None and node in value.consumers:
                    value.consumers.remove(node)
        else:
            kept.append(node)
    if folded:
        graph.nodes = kept
        drop_unused_initializers(graph)
    return folded


def _replace(node: Node, index: int, array: np.ndarray, element_type: int) -> None:
    value = node.outputs[index]
    if value is None:
        return
    value.producer, value.producer_output = None, -1
    value.initializer = array
    value.is_constant = True
    value.type = TensorType(element_type, tuple(int(d) for d in array.shape))


def _fold_shape(node: Node) -> bool:
    if node.domain or node.op_type not in ("Shape", "Size") or len(node.outputs) != 1:
        return False
    source, out = node.inputs[0], node.outputs[0]
    if source is None or out is None or out.is_output or not isinstance(source.type, TensorType):
        return False
    dims = source.type.static_dims
    if dims is None or (source.is_input and source.initializer is not None):
        return False
    if node.op_type == "Size":
        array = np.asarray(int(np.prod(dims, dtype=np.int64)), dtype=np.int64)
    else:
        limits = {a.name: a.i for a in node.proto.attribute}
        array = np.asarray(dims[limits.get("start", 0) : limits.get("end", len(dims))], dtype=np.int64)
    _replace(node, 0, array, 7)
    return True


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
        if dims is not None and int(np.prod(dims, dtype=np.int64)) * 8 > _LARGE:
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
        if value.initializer is None or value.consumers or value.is_output or value.is_input:
            continue
        if not value.consumers:
            del graph.values[name]
