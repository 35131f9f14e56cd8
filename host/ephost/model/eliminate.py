"""Nodes that change nothing go: ``Identity``, ``Dropout`` in inference, additions of 0, and the like.

Plugins are shown the graph without them, as in onnxruntime: such nodes cut groups in two, and cost a step and
a buffer.
"""

from __future__ import annotations

from collections.abc import Collection

from ephost.model.graph import Graph, Node, TensorType, Value

# The number that changes nothing, and whether it may be the first operand too.
_NEUTRAL = {"Add": (0, True), "Sub": (0, False), "Mul": (1, True), "Div": (1, False)}
# onnxruntime's names for what goes.
_RULES = {
    "Identity": "EliminateIdentity",
    "Dropout": "EliminateDropout",
    "Cast": "CastElimination",
    "Expand": "ExpandElimination",
    "Transpose": "TransposeOptimizer",
    **dict.fromkeys(_NEUTRAL, "NoopElimination"),
}
RULE_NAMES = frozenset(_RULES.values())


def eliminate(graph: Graph, disabled: Collection[str] = ()) -> bool:
    """Remove the graph's nodes that hand their input on; True when there was one.

    Args:
        graph: to change in place.
        disabled: onnxruntime's names of eliminations that are not wanted.
    """
    for node in graph.nodes:
        if node.op_type not in _RULES:
            continue
        source = passes_on(node)
        out = node.outputs[0] if node.outputs else None
        if source is None or out is None or (disabled and _RULES[node.op_type] in disabled):
            continue
        if not graph.owns(source):
            continue  # of an outer graph: nothing here can take its place
        if out.is_replaceable:
            _read_instead(graph, out, source)
        elif not _make_instead(graph, source, out):
            continue
        read = node.reads()
        graph.drop(node)
        for value in read:
            if value is not source:
                graph.remove_if_unread(value)
    found = bool(graph.dropped)
    graph.sweep()
    return found


def passes_on(node: Node) -> Value | None:
    """The input that the node gives on unchanged, or None."""
    if node.domain or not node.inputs or node.inputs[0] is None or node.ep_name or node.custom is not None:
        return None
    if node.op_type == "Identity":
        return node.inputs[0]
    if node.op_type in _NEUTRAL:
        return _other_than_neutral(node)
    if node.op_type == "Cast":
        return node.inputs[0] if _same_element_type(node.inputs[0], node.outputs[0]) else None
    if node.op_type == "Expand":
        return node.inputs[0] if _same_static_type(node.inputs[0], node.outputs[0]) else None
    if node.op_type == "Transpose":
        order = node.attribute("perm")
        return node.inputs[0] if order is not None and order == list(range(len(order))) else None
    if node.op_type == "Dropout":
        if any(out is not None and (out.consumers or out.is_output) for out in node.outputs[1:]):
            return None
        if node.attribute("is_test", 1) == 0 or node.since_version < 7:
            return None
        training = node.inputs[2] if len(node.inputs) > 2 else None
        if training is None:
            return node.inputs[0]
        data = training.initializer
        if training.is_constant and data is not None and data.size == 1 and not data.reshape(-1)[0]:
            return node.inputs[0]
    return None


def _same_element_type(source: Value, out: Value | None) -> bool:
    if out is None or not isinstance(source.type, TensorType) or not isinstance(out.type, TensorType):
        return False
    return source.type.element_type == out.type.element_type != 0


def _same_static_type(source: Value, out: Value | None) -> bool:
    """Whether both are tensors of the same element type and the same known shape."""
    if out is None or not isinstance(source.type, TensorType) or not isinstance(out.type, TensorType):
        return False
    dims = source.type.static_dims
    same = dims is not None and dims == out.type.static_dims
    return same and source.type.element_type == out.type.element_type


def _other_than_neutral(node: Node) -> Value | None:
    """The operand that an addition of 0 or a multiplication by 1 gives back, shape and all."""
    number, either_side = _NEUTRAL[node.op_type]
    for at in (1, 0) if either_side else (1,):
        neutral, other = node.inputs[at], node.inputs[1 - at]
        if neutral is None or other is None or not neutral.is_constant or neutral.initializer is None:
            continue
        data = neutral.initializer
        if data.size != 1 or data.dtype.kind not in "fiu" or data.reshape(-1)[0] != number:
            continue
        dims = other.type.dims if isinstance(other.type, TensorType) else None
        if dims is not None and data.ndim <= len(dims):
            return other
    return None


def _read_instead(graph: Graph, old: Value, new: Value) -> None:
    graph.read_instead(old, new)
    if new.type is None or (isinstance(new.type, TensorType) and new.type.dims is None):
        new.type = old.type or new.type


def _make_instead(graph: Graph, source: Value, out: Value) -> bool:
    """Let the source's producer make a value that keeps its name, where nobody else reads the source."""
    producer = source.producer
    if producer is None or source.initializer is not None or producer.ep_name or producer.subgraphs:
        return False
    if len(source.consumers) > 1 or not source.is_replaceable:
        return False
    graph.set_output(producer, source.producer_output, out)
    graph.remove_value(source)
    return True
