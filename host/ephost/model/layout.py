"""Channels last, for the EPs that want it.

Of the nodes that such an EP has claimed, those that depend on the layout are rewritten: the operator
moves to the domain ``com.ms.internal.nhwc``, its first input and output are channels last, and a
``Transpose`` on either side keeps the rest of the graph as it was. Transposes then travel down the graph
through the operators that do not mind, until they meet their inverse, and both go. The EP is asked again
about the outcome; what it does not want is rewritten back.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from ephost._bindings import ffi
from ephost.execution_provider import ExecutionProvider
from ephost.message_helpers import make_attribute, make_node
from ephost.messages import TensorProto
from ephost.model.graph import (
    NHWC_DOMAIN,
    Graph,
    Model,
    Node,
    TensorType,
    Value,
    permutation_of,
    since_version,
    tensor_type,
)

_NHWC = 1  # OrtEpDataLayout_NHWC
# Operators of ONNX whose first input and output have channels second.
LAYOUT_SENSITIVE = {
    "AveragePool",
    "BatchNormalization",
    "Conv",
    "ConvInteger",
    "ConvTranspose",
    "DepthToSpace",
    "GlobalAveragePool",
    "GlobalLpPool",
    "GlobalMaxPool",
    "GridSample",
    "InstanceNormalization",
    "LRN",
    "LpPool",
    "MaxPool",
    "MaxUnpool",
    "QLinearConv",
    "Resize",
    "SpaceToDepth",
}
# Elementwise operators of one tensor; attributes and further inputs, if any, are scalars.
_UNARY = {
    "Abs", "Cast", "Ceil", "Celu", "Clip", "Cos", "DequantizeLinear", "Elu", "Erf", "Exp", "Floor", "Gelu",
    "HardSigmoid", "HardSwish", "Identity", "LeakyRelu", "Log", "Mish", "Neg", "Not", "QuantizeLinear",
    "Reciprocal", "Relu", "Round", "Selu", "Sigmoid", "Sign", "Sin", "Softplus", "Softsign", "Sqrt", "Tanh",
    "ThresholdedRelu",
}  # fmt: skip
_BINARY = {"Add", "Div", "Max", "Min", "Mul", "PRelu", "Pow", "Sub"}


def prefers_nhwc(ep: ExecutionProvider) -> bool:
    """Whether the EP wants channels last."""
    if ep.member("GetPreferredDataLayout") is None:
        return False
    out = ffi.new("OrtEpDataLayout*")
    ep.call("GetPreferredDataLayout", out)
    return int(out[0]) == _NHWC


def wants_converted(ep: ExecutionProvider, node: Node) -> bool:
    """Whether the node is to be converted for the EP: as the EP says, else as ONNX defines the operator."""
    if ep.member("ShouldConvertDataLayoutForOp") is not None:
        out = ffi.new("int*", -1)
        ep.call("ShouldConvertDataLayoutForOp", node.domain.encode(), node.op_type.encode(), _NHWC, out)
        if int(out[0]) >= 0:
            return bool(out[0])
    return node.domain == "" and node.op_type in LAYOUT_SENSITIVE


class LayoutConverter:
    """Rewrites one graph of a model."""

    def __init__(self, model: Model, graph: Graph) -> None:
        self.model = model
        self.graph = graph

    def convert(self, nodes: Iterable[Node], wanted: Callable[[Node], bool]) -> list[Node]:
        """Make nodes channels last; returns those that were changed."""
        changed = []
        for node in nodes:
            rank = _rank(node.inputs[0]) if node.inputs else None
            is_onnxs = node.domain == "" and node.custom is None
            if not is_onnxs or rank is None or rank < 3 or not wanted(node) or not node.outputs:
                continue
            if any(v is not None for v in node.outputs[1:]) and node.op_type != "BatchNormalization":
                continue  # MaxPool's indices count channels second
            if node.op_type == "Resize":
                self._turn_resize(node, to_last(rank))
            self.graph.set_operator(node, node.op_type, NHWC_DOMAIN, node.since_version)
            self._wrap(node, to_last(rank), to_first(rank))
            changed.append(node)
        if changed:
            self.model.opsets.setdefault(NHWC_DOMAIN, self.model.opsets.get("", 1))
            self.tidy()
        return changed

    def convert_back(self, nodes: Iterable[Node]) -> None:
        """Give nodes that nobody wanted channels last their own form again."""
        changed = False
        for node in nodes:
            if node.domain == NHWC_DOMAIN and not node.ep_name:
                rank = _rank(node.inputs[0])
                assert rank is not None
                self.graph.set_operator(node, node.op_type, "", node.since_version)
                if node.op_type == "Resize":
                    self._turn_resize(node, to_first(rank))
                self._wrap(node, to_first(rank), to_last(rank))
                changed = True
        if changed:
            self.tidy()

    def _wrap(self, node: Node, before: Sequence[int], after: Sequence[int]) -> None:
        """Put a Transpose before the node's first input and one behind its first output."""
        source, out = node.inputs[0], node.outputs[0]
        assert source is not None and out is not None
        moved = self._value(source, before)
        self._transpose(source, moved, before)
        self.graph.set_input(node, 0, moved)
        # The output keeps its name behind the second Transpose, so that its readers need not change.
        made = self._value(out, inverse(after))
        self.graph.set_output(node, 0, made)
        self._transpose(made, out, after)

    def _turn_resize(self, node: Node, permutation: Sequence[int]) -> None:
        """Let what Resize says of axes (roi, scales, sizes) speak of the other layout."""
        rank = len(permutation)
        if axes := node.attribute("axes"):
            self.graph.set_attribute(node, "axes", [list(permutation).index(a % rank) for a in axes])
            return
        for at, value in enumerate(node.inputs[1:], 1):
            if value is None or _size(value) == 0:
                continue
            count = 2 if at == 1 and node.since_version > 10 else 1  # roi has starts, then ends
            indices = [part * rank + p for part in range(count) for p in permutation]
            self.graph.set_input(node, at, self._picked(value, indices))

    def _picked(self, value: Value, indices: Sequence[int]) -> Value:
        """A list of numbers in another order: now if it is known, else by a Gather."""
        if value.is_constant and value.initializer is not None and isinstance(value.type, TensorType):
            picked = value.initializer[list(indices)]
            return self.graph.new_constant(f"{value.name}_nhwc", picked, value.type.element_type)
        numbers = np.asarray(indices, dtype=np.int64)
        order = self.graph.new_constant(f"{value.name}_nhwc", numbers, TensorProto.INT64)
        made = self._value(value, [0])
        self._add("Gather", [value, order], made, axis=0)
        return made

    def _value(self, like: Value, permutation: Sequence[int]) -> Value:
        kind = like.type
        if isinstance(kind, TensorType) and kind.dims is not None:
            kind = tensor_type(kind.element_type, tuple(kind.dims[p] for p in permutation))
        return self.graph.new_value(f"{like.name}_nhwc", kind)

    def _transpose(self, source: Value, out: Value, permutation: Sequence[int]) -> Node:
        return self._add("Transpose", [source], out, perm=list(permutation))

    def _add(self, op_type: str, inputs: Sequence[Value], out: Value, **attributes: Any) -> Node:
        name = f"{out.name}_{op_type.lower()}"
        proto = make_node(op_type, [v.name for v in inputs], [out.name], name=name, **attributes)
        version = since_version(op_type, "", self.model.opsets.get("", 1))
        node = Node(self.model.new_index(), proto, op_type, "", name, version, list(inputs), [out])
        node.from_layout = True
        self.graph.append(node)
        return node

    # ---- transposes on their way ----

    def tidy(self) -> None:
        """Let transposes travel and cancel, until nothing moves."""
        self.graph.sort()
        moved = True
        while moved:
            moved = False
            for node in list(self.graph.nodes):
                if not _is_transpose(node) or node.ep_name or node.index in self.graph.dropped:
                    continue
                moved = self._cancel(node) or self._push(node) or moved
            self._drop_dead()
        self.graph.sort()

    def _cancel(self, node: Node) -> bool:
        """Two transposes in a row become one, or none."""
        source, out = node.inputs[0], node.outputs[0]
        first = source.producer if source is not None else None
        if source is None or out is None or first is None or not _is_transpose(first) or first.ep_name:
            return False
        origin = first.inputs[0]
        assert origin is not None
        both = [_order(first)[p] for p in _order(node)]
        if both != list(range(len(both))):
            self.graph.set_input(node, 0, origin)
            self.graph.set_attributes(node, [make_attribute("perm", both)])
            return True
        if not out.is_replaceable:
            return self._take_over(origin, first, node)
        if not self.graph.owns(origin) or not out.consumers:
            return False
        self.graph.read_instead(out, origin)
        return True

    def _take_over(self, origin: Value, first: Node, second: Node) -> bool:
        """Let a value's producer make one that has to keep its name, where two transposes undo each other."""
        producer, out = origin.producer, second.outputs[0]
        assert out is not None
        if producer is None or producer.ep_name or producer.subgraphs or origin.is_output:
            return False
        between = second.inputs[0]
        assert between is not None
        if origin.only_reader is not first or between.only_reader is not second:
            return False
        self.graph.set_output(producer, origin.producer_output, out)
        for node in (second, first):
            self.graph.drop(node)
        self.graph.remove_value(origin)
        return True

    def _push(self, node: Node) -> bool:
        """Let a transpose pass the one operator that reads it."""
        out = node.outputs[0]
        reader = None if out is None or out.is_output else out.only_reader
        if reader is None:
            return False
        permutation = _order(node)
        if reader.ep_name or reader.domain or reader.implicit_inputs or len(reader.outputs) != 1:
            return False
        result = reader.outputs[0]
        if result is None or result.is_output or _rank(result) != len(permutation):
            return False
        if any(c.captures(result) for c in result.consumers):
            return False
        if not any(_is_transpose(c) for c in _ahead(result)):
            return False  # nothing to meet down there
        sources = self._untransposed(reader, permutation)
        if sources is None:
            return False
        for at, value in sources.items():
            self.graph.set_input(reader, at, value)
        if reader.op_type == "Concat":
            axis = permutation[reader.attribute("axis") % len(permutation)]
            self.graph.set_attribute(reader, "axis", axis)
        before = self._value(result, inverse(permutation))
        self.graph.set_output(reader, 0, before)
        self._transpose(before, result, permutation)
        return True

    def _untransposed(self, reader: Node, permutation: Sequence[int]) -> dict[int, Value] | None:
        """What the operator reads when the transpose is behind it: by input; None when it cannot be."""
        rank = len(permutation)
        if reader.op_type in _UNARY:
            if any(v is not None and _size(v) != 1 for v in reader.inputs[1:]):
                return None
            at = 0
            source = reader.inputs[0]
            assert source is not None and source.producer is not None
            origin = source.producer.inputs[0]
            return {at: origin} if origin is not None else None
        if reader.op_type not in _BINARY and reader.op_type not in ("Concat", "Sum"):
            return None
        found: dict[int, Value] = {}
        for at, value in enumerate(reader.inputs):
            if value is None:
                return None
            producer = value.producer
            if producer is not None and _is_transpose(producer) and _order(producer) == list(permutation):
                origin = producer.inputs[0]
                assert origin is not None
                found[at] = origin
            elif reader.op_type != "Concat" and _size(value) == 1:
                continue
            elif value.is_constant and value.initializer is not None and value.initializer.ndim <= rank:
                found[at] = self._transposed_constant(value, inverse(permutation))
            else:
                return None
        return found

    def _transposed_constant(self, value: Value, permutation: Sequence[int]) -> Value:
        assert value.initializer is not None and isinstance(value.type, TensorType)
        array = value.initializer.reshape(
            (1,) * (len(permutation) - value.initializer.ndim) + value.initializer.shape
        )
        return self.graph.new_constant(
            f"{value.name}_nhwc", array.transpose(permutation), value.type.element_type
        )

    def _drop_dead(self) -> None:
        """Remove transposes that nobody reads."""
        self.graph.sweep()
        while dead := [node for node in self.graph.nodes if _is_unread_transpose(node)]:
            for node in dead:
                self.graph.drop(node)
            self.graph.sweep()


def to_last(rank: int) -> list[int]:
    """The permutation from channels second to channels last."""
    return [0, *range(2, rank), 1]


def to_first(rank: int) -> list[int]:
    """The permutation from channels last to channels second."""
    return [0, rank - 1, *range(1, rank - 1)]


def inverse(permutation: Sequence[int]) -> list[int]:
    """The permutation that undoes another."""
    back = [0] * len(permutation)
    for at, p in enumerate(permutation):
        back[p] = at
    return back


def _order(node: Node) -> list[int]:
    """The permutation of a Transpose of known rank."""
    order = permutation_of(node)
    assert order is not None
    return order


def _is_unread_transpose(node: Node) -> bool:
    out = node.outputs[0] if node.outputs else None
    return (
        _is_transpose(node)
        and not node.ep_name
        and out is not None
        and not out.consumers
        and not out.is_output
    )


def _is_transpose(node: Node) -> bool:
    return node.op_type == "Transpose" and node.domain == "" and _rank(node.inputs[0]) is not None


def _rank(value: Value | None) -> int | None:
    if value is None or not isinstance(value.type, TensorType) or value.type.dims is None:
        return None
    return len(value.type.dims)


def _size(value: Value) -> int | None:
    if not isinstance(value.type, TensorType) or value.type.static_dims is None:
        return None
    return int(np.prod(value.type.static_dims, dtype=np.int64))


def _ahead(value: Value) -> Iterable[Node]:
    """The readers of a value, and of what operators make of it through which a transpose could go on."""
    seen: set[int] = set()
    stack = [value]
    while stack:
        for node in stack.pop().consumers:
            if node.index in seen:
                continue
            seen.add(node.index)
            yield node
            if node.op_type in _UNARY or node.op_type in _BINARY or node.op_type in ("Concat", "Sum"):
                stack.extend(v for v in node.outputs if v is not None)
