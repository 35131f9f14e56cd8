"""Small rewritings of a graph, as onnxruntime does them before it shows the graph to plugins.

Each rule looks at one node and its neighbours and replaces them by fewer that compute the same: a batch
normalisation goes into the weights of the convolution before it, a product and a sum become one ``Gemm``,
a shape that is put together in the run becomes a constant. Rules carry the names of onnxruntime's optimizers,
by which ``optimization.disable_specified_optimizers`` turns them off.

What holds for all of them: graph inputs and outputs keep their names; a value that is a graph's output or
that a subgraph reads is neither removed nor given another meaning; only initializers that no caller can
replace count as constants; nodes that an EP has, or was offered and did not want, stay.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx

from ephost.model.graph import Graph, Model, Node, TensorType, Value, since_version, tensor_type

_LARGE = 1 << 30  # bytes above which weights stay as they are
_SMALL = 64  # bytes up to which constants are compared by what they hold
_RANDOM = {
    "Bernoulli",
    "Dropout",
    "Multinomial",
    "RandomNormal",
    "RandomNormalLike",
    "RandomUniform",
    "RandomUniformLike",
}
_FLOATS = {onnx.TensorProto.FLOAT, onnx.TensorProto.FLOAT16, onnx.TensorProto.DOUBLE}
_RANGES: dict[int, tuple[int, int]] = {
    onnx.TensorProto.UINT8: (0, 255),
    onnx.TensorProto.INT8: (-128, 127),
    onnx.TensorProto.UINT16: (0, 65535),
    onnx.TensorProto.INT16: (-32768, 32767),
}
_INDICES = {onnx.TensorProto.INT32, onnx.TensorProto.INT64}
_END = (1 << 31) - 1  # a slice's end from which on it means the end of the axis
# Merges casts in a row; off as in onnxruntime, since a narrow type on the way may be meant.
CAST_CHAINS = "CastChainElimination"


class Rewriter:
    """Applies the rules to one graph.

    ``informs`` says afterwards whether inference may find more than it knew: a shape has become known.
    """

    def __init__(self, model: Model, graph: Graph, disabled: Collection[str] = ()) -> None:
        """For one graph of a model, but not its subgraphs; ``disabled`` names rules that are not wanted."""
        self.model = model
        self.graph = graph
        self.disabled = disabled
        self.informs = False
        self._gone: set[int] = set()
        self._made = 0

    def run(self) -> bool:
        """Apply what can be applied, and keep the nodes in order; True when that was anything."""
        changed = False
        while self._apply_rules():
            changed = True
        while "CommonSubexpressionElimination" not in self.disabled and self._merge_equals():
            changed = True  # and readers of what was merged may be equal now
        return changed

    def _apply_rules(self) -> bool:
        rules = self._rules_for({node.op_type for node in self.graph.nodes})
        if not rules:
            return False
        changed = False
        for node in self.graph.nodes:
            for apply in rules.get(node.op_type, ()):
                if node.index in self._gone or node.domain or not _is_free(node):
                    break
                if apply(self, node):
                    changed = True
                    break  # the node may be of another kind now
        self._sweep()
        return changed

    def _rules_for(self, present: set[str]) -> dict[str, list[Callable[[Rewriter, Node], bool]]]:
        """The rules that may find something where these operators are, by the one at which they begin."""
        found = {}
        for op_type in present & _RULES.keys():
            wanted = [
                rule.apply
                for rule in _RULES[op_type]
                if rule.name not in self.disabled and not present.isdisjoint(rule.needs)
            ]
            if wanted:
                found[op_type] = wanted
        return found

    # ---- what rules ask ----

    def only_reader(self, value: Value | None) -> Node | None:
        """The one node that reads a value which is nothing else: no output, no outer value."""
        if value is None or value.is_output or len(value.consumers) != 1:
            return None
        if self.graph.values.get(value.name) is not value:
            return None
        reader = value.consumers[0]
        if reader.domain or reader.implicit_inputs or not _is_free(reader):
            return None
        return reader

    def maker(self, value: Value | None, op_type: str) -> Node | None:
        """The node of ONNX's operator that makes a value of this graph."""
        node = value.producer if value is not None else None
        if node is None or node.op_type != op_type or node.domain or not _is_free(node):
            return None
        return node if self.graph.values.get(value.name) is value else None  # type: ignore[union-attr]

    # ---- what rules do ----

    def constant(self, like: str, array: np.ndarray, element_type: int) -> Value:
        """A new constant, named after another value."""
        while True:
            name = f"{like}_rewritten_{self._made}"
            self._made += 1
            if name not in self.graph.values:
                break
        value = self.graph.values[name] = Value(
            name,
            tensor_type(element_type, tuple(int(d) for d in array.shape)),
            initializer=np.ascontiguousarray(array).reshape(array.shape),
            is_constant=True,
        )
        return value

    def set_inputs(self, node: Node, values: Sequence[Value | None]) -> None:
        """Let the node read these; what nobody reads any more goes."""
        before = [value for value in node.inputs if value is not None]
        for value in before:
            if node in value.consumers:
                value.consumers.remove(node)
        node.inputs = list(values)
        del node.proto.input[:]
        node.proto.input.extend("" if value is None else value.name for value in values)
        for read in values:
            if read is not None and self._is_own(read):
                read.consumers.append(node)
        self._release(before)

    def take_output(self, node: Node, other: Node) -> None:
        """Let the node make the other one's first output in place of its own, which nobody else reads; the
        other goes.
        """
        old, out = node.outputs[0], other.outputs[0]
        assert old is not None and out is not None
        node.outputs[0] = out
        node.proto.output[0] = out.name
        out.producer, out.producer_output = node, 0
        old.producer, old.producer_output = None, -1
        self._drop(other)
        self.graph.values.pop(old.name, None)

    def retype(self, node: Node, op_type: str, *attributes: onnx.AttributeProto) -> None:
        """Make the node one of another operator of ONNX; inputs and outputs stay."""
        node.op_type = node.proto.op_type = op_type
        node.since_version = since_version(op_type, "", self.model.opsets.get("", 1))
        kept = list(attributes)
        del node.proto.attribute[:]
        node.proto.attribute.extend(kept)

    def pass_on(self, node: Node, source: Value) -> bool:
        """Remove a node whose output is what its readers can find in another value; False if it must stay."""
        out = node.outputs[0]
        if out is None or out.is_output or not self._is_own(out) or not self._is_own(source):
            return False
        if any(c.implicit_inputs for c in out.consumers):
            return False
        for reader in list(dict.fromkeys(out.consumers)):
            self.set_inputs(reader, [source if v is out else v for v in reader.inputs])
        self._drop(node)
        return True

    def _is_own(self, value: Value) -> bool:
        return self.graph.values.get(value.name) is value

    def _drop(self, node: Node) -> None:
        self._gone.add(node.index)
        read = [value for value in node.inputs if value is not None]
        for value in read:
            if node in value.consumers:
                value.consumers.remove(node)
        for out in node.outputs:
            if out is not None and out.producer is node and not out.is_output and not out.consumers:
                self.graph.values.pop(out.name, None)
        self._release(read)

    def _release(self, values: Sequence[Value]) -> None:
        """Forget values that lost their last reader, with what made them for nobody else."""
        for value in values:
            if value.consumers or value.is_output or value.is_input or not self._is_own(value):
                continue
            if value.initializer is not None:
                self.graph.values.pop(value.name, None)
                continue
            node = value.producer
            if node is None or node.index in self._gone or node.subgraphs or not _is_free(node):
                continue
            if all(out is None or not (out.consumers or out.is_output) for out in node.outputs):
                self._drop(node)

    def _sweep(self) -> None:
        if self._gone:
            self.graph.nodes = [node for node in self.graph.nodes if node.index not in self._gone]

    # ---- equal nodes ----

    def _merge_equals(self) -> bool:
        """Let nodes that compute the same from the same be one."""
        seen: dict[Any, Node] = {}
        found = False
        for node in self.graph.nodes:
            # Whatever another node could read as well has a second reader.
            first = node.inputs[0] if node.inputs else None
            if first is None or (len(first.consumers) < 2 and first.initializer is None):
                continue
            if node.subgraphs or node.op_type in _RANDOM or not _is_free(node):
                continue
            if self.model.functions and (
                (node.domain, node.op_type, getattr(node.proto, "overload", "")) in self.model.functions
            ):
                continue  # its body may draw random numbers
            if node.domain and node.domain != "ai.onnx.ml":
                continue
            key = self._key(node)
            other = seen.setdefault(key, node)
            if other is not node and self._merge(node, other):
                found = True
        if found:
            self._sweep()
        return found

    @staticmethod
    def _key(node: Node) -> Any:
        inputs = tuple(None if v is None else _identity(v) for v in node.inputs)
        outputs = tuple(v is not None for v in node.outputs)
        attributes: Any = node.proto.attribute
        if attributes:
            attributes = tuple(
                a.SerializeToString(deterministic=True) for a in sorted(attributes, key=lambda a: a.name)
            )
        else:
            attributes = ()
        return node.op_type, node.domain, node.since_version, inputs, outputs, attributes

    def _merge(self, node: Node, other: Node) -> bool:
        pairs = [(a, b) for a, b in zip(node.outputs, other.outputs, strict=True) if a and b]
        for mine, theirs in pairs:
            if mine.is_output or not self._is_own(mine) or not self._is_own(theirs):
                return False
            if any(c.implicit_inputs for c in mine.consumers):
                return False
        for mine, theirs in pairs:
            for reader in list(dict.fromkeys(mine.consumers)):
                self.set_inputs(reader, [theirs if v is mine else v for v in reader.inputs])
            self.graph.values.pop(mine.name, None)
        self._drop(node)
        return True


# ---- small questions ----


def _is_free(node: Node) -> bool:
    return not node.ep_name and not node.left_to_host


def _identity(value: Value) -> Any:
    data = value.initializer
    if data is None or not value.is_constant or data.dtype == object or data.nbytes > _SMALL:
        return id(value)
    assert isinstance(value.type, TensorType)
    return value.type.element_type, data.shape, data.tobytes()


def _attribute(node: Node, name: str, default: Any = None) -> Any:
    for attribute in node.proto.attribute:
        if attribute.name == name:
            return onnx.helper.get_attribute_value(attribute)
    return default


def _set_attribute(node: Node, name: str, value: Any) -> None:
    kept = [a for a in node.proto.attribute if a.name != name]
    del node.proto.attribute[:]
    node.proto.attribute.extend(kept)
    if value is not None:
        node.proto.attribute.append(onnx.helper.make_attribute(name, value))


def _input(node: Node, at: int) -> Value | None:
    return node.inputs[at] if at < len(node.inputs) else None


def _data(value: Value | None) -> np.ndarray | None:
    """The data of a constant that is not huge."""
    if value is None or not value.is_constant or value.initializer is None:
        return None
    return value.initializer if value.initializer.nbytes <= _LARGE else None


def _element_type(value: Value | None) -> int:
    return value.type.element_type if value is not None and isinstance(value.type, TensorType) else 0


def _dims(value: Value | None) -> tuple[Any, ...] | None:
    return value.type.dims if value is not None and isinstance(value.type, TensorType) else None


def _scalar(value: Value | None) -> Any:
    data = _data(value)
    return data.reshape(-1)[0] if data is not None and data.size == 1 else None


def _one_output(node: Node) -> bool:
    return node.outputs[0] is not None and all(
        v is None or not (v.consumers or v.is_output) for v in node.outputs[1:]
    )


def _spatial(node: Node, which: str, count: int) -> list[int]:
    return list(_attribute(node, which, [0] * count))


# ---- weights ----


def _conv_with_constants(r: Rewriter, node: Node) -> tuple[np.ndarray, np.ndarray | None] | None:
    """Weights and bias of a convolution, if both are known; None otherwise."""
    weight, bias = _data(_input(node, 1)), _input(node, 2)
    if weight is None or weight.ndim < 3 or _element_type(_input(node, 1)) not in _FLOATS:
        return None
    if bias is None:
        return weight, None
    known = _data(bias)
    return None if known is None else (weight, known)


def _scale_conv(
    r: Rewriter, node: Node, factor: np.ndarray | None, shift: np.ndarray | None, reader: Node
) -> bool:
    """Let a Conv do what its only reader does: a factor and a shift for each channel."""
    held = _conv_with_constants(r, node)
    if held is None:
        return False
    weight, bias = held
    source, old_weight, old_bias = node.inputs[0], _input(node, 1), _input(node, 2)
    assert old_weight is not None
    kind = _element_type(old_weight)
    new_weight = old_weight
    new_bias = None if bias is None else _wide(bias)
    if factor is not None:
        columns = _wide(factor).reshape(-1, *([1] * (weight.ndim - 1)))
        new_weight = r.constant(old_weight.name, (_wide(weight) * columns).astype(weight.dtype), kind)
        new_bias = None if new_bias is None else new_bias * _wide(factor)
    if shift is not None:
        new_bias = _wide(shift) if new_bias is None else new_bias + _wide(shift)
    made = old_bias
    if new_bias is not None:
        full = np.broadcast_to(new_bias, (weight.shape[0],)).astype(weight.dtype)
        name = old_bias.name if old_bias is not None else f"{old_weight.name}_bias"
        made = r.constant(name, full, kind)
    r.take_output(node, reader)
    r.set_inputs(node, [source, new_weight] if made is None else [source, new_weight, made])
    return True


def _wide(data: np.ndarray) -> Any:
    """Numbers as they are computed with: in float32, or float64 where they are that."""
    return data if data.dtype == np.float64 else data.astype(np.float32)


def _normalisation(node: Node) -> tuple[np.ndarray, np.ndarray] | None:
    """The factor and shift of a batch normalisation in inference, for each channel."""
    if node.since_version < 7 or not _one_output(node):
        return None
    if _attribute(node, "training_mode", 0) or _attribute(node, "spatial", 1) != 1:
        return None
    parts = [_data(_input(node, at)) for at in range(1, 5)]
    if any(part is None or part.ndim != 1 for part in parts):
        return None
    scale, shift, mean, variance = (_wide(part) for part in parts if part is not None)
    factor = scale / np.sqrt(variance + variance.dtype.type(_attribute(node, "epsilon", 1e-5)))
    if not np.isfinite(factor).all():
        return None
    return factor, shift - mean * factor


def _per_channel(data: np.ndarray | None, channels: int, rank: int) -> np.ndarray | None:
    """What is broadcast along all axes but the channels', as one number for each channel."""
    if data is None or data.ndim > rank:
        return None
    dims = (1,) * (rank - data.ndim) + data.shape
    if any(d != 1 for at, d in enumerate(dims) if at != 1) or dims[1] not in (1, channels):
        return None
    return np.broadcast_to(data.reshape(-1), (channels,))


def _fuse_conv_bn(r: Rewriter, node: Node) -> bool:
    reader = r.only_reader(node.outputs[0])
    if reader is None or reader.op_type != "BatchNormalization" or reader.inputs[0] is not node.outputs[0]:
        return False
    found = _normalisation(reader)
    weight = _data(_input(node, 1))
    if found is None or weight is None or found[0].shape != weight.shape[:1]:
        return False
    return _scale_conv(r, node, found[0], found[1], reader)


def _operand(r: Rewriter, node: Node, op_type: str) -> tuple[Node, np.ndarray | None] | None:
    """The only reader of a node's output, an operator of two, and its other, constant, operand."""
    out = node.outputs[0]
    reader = r.only_reader(out)
    if reader is None or reader.op_type != op_type or len(reader.inputs) != 2 or reader.since_version < 7:
        return None
    other = reader.inputs[1 if reader.inputs[0] is out else 0]
    return reader, _data(other)


def _fuse_conv_scale(op_type: str) -> Callable[[Rewriter, Node], bool]:
    def apply(r: Rewriter, node: Node) -> bool:
        found = _operand(r, node, op_type)
        weight = _data(_input(node, 1))
        if found is None or weight is None:
            return False
        numbers = _per_channel(found[1], weight.shape[0], weight.ndim)
        if numbers is None:
            return False
        factor, shift = (numbers, None) if op_type == "Mul" else (None, numbers)
        return _scale_conv(r, node, factor, shift, found[0])

    return apply


def _fuse_bn_scale(op_type: str) -> Callable[[Rewriter, Node], bool]:
    """A factor or shift for each channel behind a batch normalisation goes into that one's own."""

    def apply(r: Rewriter, node: Node) -> bool:
        found = _operand(r, node, op_type)
        dims = _dims(node.inputs[0])
        if found is None or dims is None or len(dims) < 2 or _normalisation(node) is None:
            return False
        scale, shift = _input(node, 1), _input(node, 2)
        own_scale, own_shift = _data(scale), _data(shift)
        assert scale is not None and shift is not None and own_scale is not None and own_shift is not None
        numbers = _per_channel(found[1], own_scale.size, len(dims))
        if numbers is None:
            return False
        if op_type == "Mul":
            scale = r.constant(
                scale.name, (own_scale * numbers).astype(own_scale.dtype), _element_type(scale)
            )
            made = (own_shift * numbers).astype(own_shift.dtype)
        else:
            made = (own_shift + numbers).astype(own_shift.dtype)
        shift = r.constant(shift.name, made, _element_type(shift))
        inputs = [node.inputs[0], scale, shift, *node.inputs[3:]]
        r.take_output(node, found[0])
        r.set_inputs(node, inputs)
        return True

    return apply


def _fuse_matmul_bn(r: Rewriter, node: Node) -> bool:
    """MatMul of rows with a matrix, normalised: one Gemm."""
    reader = r.only_reader(node.outputs[0])
    if reader is None or reader.op_type != "BatchNormalization" or reader.inputs[0] is not node.outputs[0]:
        return False
    matrix, rows = _data(_input(node, 1)), _dims(node.inputs[0])
    found = _normalisation(reader)
    if found is None or matrix is None or matrix.ndim != 2 or rows is None or len(rows) != 2:
        return False
    if matrix.shape[1:] != found[0].shape or _element_type(node.inputs[1]) not in _FLOATS:
        return False
    old = node.inputs[1]
    assert old is not None
    kind = _element_type(old)
    wide = matrix.astype(found[0].dtype) * found[0]
    weight = r.constant(old.name, wide.astype(matrix.dtype), kind)
    bias = r.constant(f"{old.name}_bias", found[1].astype(matrix.dtype), kind)
    source = node.inputs[0]
    r.take_output(node, reader)
    r.retype(node, "Gemm")
    r.set_inputs(node, [source, weight, bias])
    return True


# ---- products and sums ----


def _fuse_matmul_add(r: Rewriter, node: Node) -> bool:
    """Add of a product of two matrices and what can be added to its rows: Gemm."""
    if node.since_version < 7 or len(node.inputs) != 2:
        return False
    for at in (0, 1):
        product = r.maker(node.inputs[at], "MatMul")
        if product is None or r.only_reader(node.inputs[at]) is not node or node.inputs[1 - at] is None:
            continue
        left, right = _dims(product.inputs[0]), _dims(product.inputs[1])
        if left is None or right is None or len(left) != 2 or len(right) != 2:
            continue
        kind = _element_type(product.inputs[0])
        if kind not in _FLOATS or not _fits_rows(node.inputs[1 - at], left[0], right[1]):
            continue
        inputs = [*product.inputs, node.inputs[1 - at]]
        if product.name:
            node.name = node.proto.name = product.name
        r.retype(node, "Gemm")
        r.set_inputs(node, inputs)
        return True
    return False


def _fits_rows(value: Value | None, rows: Any, columns: Any) -> bool:
    """Whether a Gemm of that many rows and columns may add the value and keep its shape."""
    dims = _dims(value)
    if dims is None or len(dims) > 2 or columns is None:
        return False
    dims = (1,) * (2 - len(dims)) + tuple(dims)
    return dims[1] in (1, columns) and (dims[0] == 1 or (dims[0] is not None and dims[0] == rows))


def _fuse_gemm_sum(r: Rewriter, node: Node) -> bool:
    """What is added to a Gemm that adds nothing yet is its third input."""
    if len(node.inputs) != 2 or node.since_version < 7:
        return False
    for at in (0, 1):
        product, other = r.maker(node.inputs[at], "Gemm"), node.inputs[1 - at]
        if product is None or product.since_version < 7 or other is None or _input(product, 2) is not None:
            continue
        if r.only_reader(node.inputs[at]) is not node or _element_type(other) not in _FLOATS:
            continue
        dims = _dims(product.outputs[0])
        if dims is None or len(dims) != 2 or not _fits_rows(other, *dims):
            continue
        attributes = [a for a in product.proto.attribute if a.name != "beta"]
        inputs = [product.inputs[0], product.inputs[1], other]
        if product.name:
            node.name = node.proto.name = product.name
        r.retype(node, "Gemm", *attributes)
        r.set_inputs(node, inputs)
        return True
    return False


def _fuse_gemm_transpose(r: Rewriter, node: Node) -> bool:
    """A Gemm can transpose what it reads itself."""
    if _element_type(node.inputs[0]) not in _FLOATS:
        return False
    moved = False
    for at, name in enumerate(("transA", "transB")):
        turned = r.maker(node.inputs[at], "Transpose")
        if turned is None or _permutation(turned) != [1, 0] or turned.inputs[0] is None:
            continue
        if not r._is_own(turned.inputs[0]):
            continue
        inputs = list(node.inputs)
        inputs[at] = turned.inputs[0]
        _set_attribute(node, name, 1 - int(_attribute(node, name, 0)))
        r.set_inputs(node, inputs)
        moved = True
    return moved


def _divide(r: Rewriter, node: Node) -> bool:
    """``(1 / a) * b`` is ``b / a``."""
    if node.since_version < 7 or len(node.inputs) != 2:
        return False
    for at in (0, 1):
        inverse, other = r.maker(node.inputs[at], "Div"), node.inputs[1 - at]
        if inverse is None or other is None or r.only_reader(node.inputs[at]) is not node:
            continue
        one = _data(inverse.inputs[0])
        if one is None or one.size != 1 or one.reshape(-1)[0] != 1 or _element_type(other) not in _FLOATS:
            continue
        below = inverse.inputs[1]
        dims = _dims(below)
        if dims is None or one.ndim > len(dims):
            continue  # the 1 gives the quotient more axes
        r.retype(node, "Div")
        r.set_inputs(node, [other, below])
        return True
    return False


# ---- elementwise ----


def _bounds(node: Node) -> tuple[Any, Any] | None:
    """The limits of a Clip, None for one that it has not; None when they are not known."""
    if node.since_version < 11:
        return _attribute(node, "min"), _attribute(node, "max")
    found = []
    for at in (1, 2):
        value = _input(node, at)
        number = _scalar(value)
        if value is not None and number is None:
            return None
        found.append(number)
    return found[0], found[1]


def _fuse_relu_clip(r: Rewriter, node: Node) -> bool:
    """A Relu in front of a Clip: the Clip's lower limit is 0 or more."""
    relu = r.maker(node.inputs[0], "Relu")
    if relu is None or r.only_reader(node.inputs[0]) is not node:
        return False
    bounds = _bounds(node)
    if bounds is None:
        return False
    source, lower = relu.inputs[0], bounds[0]
    if node.since_version < 11:
        _set_attribute(node, "min", max(0.0, -math.inf if lower is None else float(lower)))
        r.set_inputs(node, [source])
        return True
    least = _input(node, 1)
    if lower is None or lower < 0:
        like = least.name if least is not None else f"{relu.name or 'clip'}_min"
        made = np.zeros((), np.float32 if lower is None else lower.dtype)
        kind = _element_type(source)
        if lower is None:
            from ephost._bindings import dtype_of

            dtype = dtype_of(kind)
            if dtype is None:
                return False
            made = made.astype(dtype)
        least = r.constant(like, made, kind)
    r.set_inputs(node, [source, least, *node.inputs[2:]])
    return True


def _drop_not(r: Rewriter, node: Node) -> bool:
    """``Where(Not(c), a, b)`` is ``Where(c, b, a)``."""
    inverted = r.maker(node.inputs[0], "Not")
    if inverted is None or inverted.inputs[0] is None or not r._is_own(inverted.inputs[0]):
        return False
    r.set_inputs(node, [inverted.inputs[0], node.inputs[2], node.inputs[1]])
    return True


def _quantisation(node: Node) -> tuple[float, int, int] | None:
    """Scale, zero point and element type of a quantisation of whole tensors by known numbers."""
    scale, zero = _scalar(_input(node, 1)), _input(node, 2)
    if scale is None or (zero is not None and _scalar(zero) is None) or not scale > 0:
        return None
    made = node.outputs[0] if node.op_type == "QuantizeLinear" else node.inputs[0]
    return float(scale), 0 if zero is None else int(_scalar(zero)), _element_type(made)


def _drop_limits_before_quantisation(r: Rewriter, node: Node) -> bool:
    """Limits that the quantised type has anyway need no Relu or Clip."""
    found = _quantisation(node)
    limits = _RANGES.get(found[2]) if found is not None else None
    source = node.inputs[0]
    reader = r.only_reader(source)
    if found is None or limits is None or source is None or reader is not node:
        return False
    scale, zero, _ = found
    # Whatever is rounded to the ends of the range may as well be cut off there.
    lowest, highest = (limits[0] + 0.49 - zero) * scale, (limits[1] - 0.49 - zero) * scale
    limiter = source.producer
    if limiter is None or limiter.domain or not _is_free(limiter):
        return False
    if limiter.op_type == "Relu" and "ReluQuantFusion" not in r.disabled:
        fits = zero == limits[0]
    elif limiter.op_type == "Clip" and "ClipQuantFusion" not in r.disabled:
        bounds = _bounds(limiter)
        if bounds is None:
            return False
        least, most = bounds
        fits = (least is None or float(least) <= lowest) and (most is None or float(most) >= highest)
    else:
        return False
    if not fits or limiter.inputs[0] is None:
        return False
    r.set_inputs(node, [limiter.inputs[0], *node.inputs[1:]])
    return True


def _drop_quantised_pair(r: Rewriter, node: Node) -> bool:
    """DequantizeLinear and QuantizeLinear by the same numbers give back what went in."""
    out = node.outputs[0]
    back = r.maker(node.inputs[0], "DequantizeLinear")
    if back is None or out is None or back.inputs[0] is None:
        return False
    mine, theirs = _quantisation(node), _quantisation(back)
    if mine is None or mine != theirs or mine[2] not in _RANGES:
        return False
    if _element_type(node.inputs[1]) != onnx.TensorProto.FLOAT:
        return False  # in a narrower type the numbers between are not exact
    return r.pass_on(node, back.inputs[0])


# ---- shapes ----


def _permutation(node: Node) -> list[int] | None:
    given = _attribute(node, "perm")
    if given is not None:
        return list(given)
    dims = _dims(node.inputs[0])
    return None if dims is None else list(range(len(dims)))[::-1]


def _join_transposes(r: Rewriter, node: Node) -> bool:
    """Transposes in a row are one, or none."""
    first = r.maker(node.inputs[0], "Transpose")
    inner, outer = (_permutation(first) if first is not None else None), _permutation(node)
    if first is None or inner is None or outer is None or len(inner) != len(outer):
        return False
    source = first.inputs[0]
    if source is None or not r._is_own(source):
        return False
    _set_attribute(node, "perm", [inner[p] for p in outer])
    r.set_inputs(node, [source])
    return True


def _cast_before_shape(r: Rewriter, node: Node) -> bool:
    """What type a tensor has does not matter to its shape."""
    cast = r.maker(node.inputs[0], "Cast")
    if cast is None or cast.inputs[0] is None or not r._is_own(cast.inputs[0]):
        return False
    r.set_inputs(node, [cast.inputs[0]])
    return True


def _join_casts(r: Rewriter, node: Node) -> bool:
    first = r.maker(node.inputs[0], "Cast")
    if first is None or first.inputs[0] is None or not r._is_own(first.inputs[0]):
        return False
    r.set_inputs(node, [first.inputs[0]])
    return True


def _drop_slice(r: Rewriter, node: Node) -> bool:
    """A Slice from the first to the last of each axis is none."""
    if node.since_version < 10:
        starts, ends = _attribute(node, "starts", []), _attribute(node, "ends", [])
        axes, steps = _attribute(node, "axes"), None
    else:
        held = [_data(_input(node, at)) for at in range(1, 5)]
        if any(_input(node, at) is not None and held[at - 1] is None for at in range(1, 5)):
            return False
        starts, ends, axes, steps = (None if d is None else d.reshape(-1).tolist() for d in held)
    dims, source = _dims(node.inputs[0]), node.inputs[0]
    if dims is None or source is None or starts is None or ends is None:
        return False
    if any(start != 0 for start in starts) or any(step != 1 for step in steps or ()):
        return False
    for at, end in zip(range(len(ends)) if axes is None else axes, ends, strict=False):
        size = dims[at] if -len(dims) <= at < len(dims) else None
        if end < (size if isinstance(size, int) else _END):
            return False
    return r.pass_on(node, source)


def _constant_shape(r: Rewriter, node: Node) -> bool:
    """A Reshape to what is put together of its input's own dimensions and numbers: a constant says so."""
    shape, source, out = _input(node, 1), node.inputs[0], node.outputs[0]
    if node.since_version < 5 or shape is None or shape.initializer is not None or source is None:
        return False
    if _attribute(node, "allowzero", 0) or out is None or not r._is_own(shape):
        return False
    parts = _parts_of_shape(r, shape, source)
    if parts is None or any(isinstance(p, int) and (p < -1 or p == 0) for p in parts):
        return False
    made = [p if isinstance(p, int) else 0 if p == ("dim", at) else -1 for at, p in enumerate(parts)]
    if made.count(-1) > 1 or (-1 not in parts and -1 in made and 0 in made):
        return False  # beside a dimension of size 0, -1 is no number
    constant = r.constant(shape.name, np.asarray(made, np.int64), onnx.TensorProto.INT64)
    r.set_inputs(node, [source, constant])
    r.informs = r.informs or not isinstance(out.type, TensorType) or out.type.static_dims is None
    return True


_Part = int | tuple[str, int] | None  # a number, a dimension of the source, or what is not known


def _parts_of_shape(r: Rewriter, value: Value, source: Value) -> list[_Part] | None:
    """What a list of dimensions is put together of, or None when its length is not known."""
    if (data := _data(value)) is not None:
        return [int(n) for n in data.reshape(-1)] if data.dtype.kind == "i" else None
    node = value.producer
    length = _dims(value)
    unknown: list[_Part] | None = None
    if length is not None and len(length) <= 1 and all(isinstance(d, int) for d in length):
        unknown = [None] * (int(length[0]) if length else 1)
    if node is None or node.domain or not r._is_own(value):
        return unknown
    if node.op_type == "Concat":
        joined: list[_Part] = []
        for part in node.inputs:
            found = _parts_of_shape(r, part, source) if part is not None else None
            if found is None:
                return None
            joined.extend(found)
        return joined
    of = node.inputs[0]
    if of is None:
        return unknown
    one = unknown is not None and len(unknown) == 1
    if (node.op_type in ("Unsqueeze", "Squeeze", "Reshape") and one) or (
        node.op_type == "Cast" and _element_type(of) in _INDICES and _element_type(value) in _INDICES
    ):
        return _parts_of_shape(r, of, source)
    if node.op_type == "Shape":
        dims = _dims(of)
        if dims is None:
            return unknown
        whole: list[_Part] = [
            d if isinstance(d, int) else ("dim", at) if of is source else None for at, d in enumerate(dims)
        ]
        return whole[slice(_attribute(node, "start"), _attribute(node, "end"))]
    if node.op_type == "Gather":
        given, picked = _parts_of_shape(r, of, source), _data(_input(node, 1))
        if given is None or picked is None or ((picked < -len(given)) | (picked >= len(given))).any():
            return unknown
        return [given[int(i)] for i in picked.reshape(-1)]
    if node.op_type == "Slice" and node.since_version >= 10:
        given = _parts_of_shape(r, of, source)
        start, end = _scalar(_input(node, 1)), _scalar(_input(node, 2))
        stepped = _input(node, 4) is not None and _scalar(_input(node, 4)) != 1
        if given is None or start is None or end is None or stepped:
            return unknown
        return given[int(start) : int(end)]
    return unknown


def _join_reshapes(r: Rewriter, node: Node) -> bool:
    """Of Reshapes in a row the last one counts, unless it speaks of the dimensions before it."""
    first = r.maker(node.inputs[0], "Reshape")
    target = _data(_input(node, 1))
    if first is None or target is None or first.inputs[0] is None or not r._is_own(first.inputs[0]):
        return False
    if node.since_version < 5 or r.only_reader(node.inputs[0]) is not node or (target == 0).any():
        return False
    r.set_inputs(node, [first.inputs[0], node.inputs[1]])
    return True


# ---- padding ----


def _fuse_pad(r: Rewriter, node: Node) -> bool:
    """Padding in front of convolutions and pools goes into their own."""
    out, source = node.outputs[0], node.inputs[0]
    mode = _attribute(node, "mode", b"constant")
    if out is None or source is None or out.is_output or not out.consumers or mode != b"constant":
        return False
    if node.since_version < 11:
        pads, number = list(_attribute(node, "pads", [])), _attribute(node, "value", 0.0)
    else:
        held = _data(_input(node, 1))
        if held is None or _input(node, 3) is not None:
            return False
        pads = [int(p) for p in held]
        number = 0.0 if _input(node, 2) is None else _scalar(_input(node, 2))
    dims = _dims(source)
    rank = len(pads) // 2
    if number is None or dims is None or len(dims) != rank or rank < 3 or min(pads) < 0:
        return False
    if any(pads[at] for at in (0, 1, rank, rank + 1)) or not r._is_own(source):
        return False
    spatial = pads[2:rank] + pads[rank + 2 :]
    readers = list(dict.fromkeys(out.consumers))
    if not all(_takes_padding(reader, out, float(number), rank, spatial) for reader in readers):
        return False
    for reader in readers:
        before = _spatial(reader, "pads", len(spatial))
        _set_attribute(reader, "pads", [a + b for a, b in zip(before, spatial, strict=True)])
        if _attribute(reader, "auto_pad") is not None:
            _set_attribute(reader, "auto_pad", None)
        r.set_inputs(reader, [source if v is out else v for v in reader.inputs])
    return True


def _takes_padding(reader: Node, value: Value, number: float, rank: int, spatial: Sequence[int]) -> bool:
    """Whether the operator can pad what it reads itself, by as much more and with that number."""
    pads = [a + b for a, b in zip(_spatial(reader, "pads", len(spatial)), spatial, strict=True)]
    if reader.domain or not _is_free(reader) or reader.inputs[0] is not value:
        return False
    if sum(v is value for v in reader.inputs) != 1 or reader.implicit_inputs:
        return False
    if _attribute(reader, "auto_pad", b"NOTSET") not in (b"NOTSET", b"VALID"):
        return False
    if reader.op_type == "Conv":
        return number == 0
    kernel = _attribute(reader, "kernel_shape", [])
    if len(kernel) != rank - 2 or any(p >= kernel[at % len(kernel)] for at, p in enumerate(pads)):
        return False
    if reader.op_type == "AveragePool":
        counts = bool(_attribute(reader, "count_include_pad", 0))
        return number == 0 and counts and not _attribute(reader, "ceil_mode", 0)
    if reader.op_type == "MaxPool":
        return number == -math.inf and not _attribute(reader, "ceil_mode", 0) and _one_output(reader)
    return False


@dataclass(frozen=True)
class Rule:
    """A rewriting, by onnxruntime's name for it, and operators of which it needs at least one to be there."""

    name: str
    apply: Callable[[Rewriter, Node], bool]
    needs: tuple[str, ...]


# By the operator at which each begins.
_RULES: dict[str, tuple[Rule, ...]] = {
    "Add": (
        Rule("MatMulAddFusion", _fuse_matmul_add, ("MatMul",)),
        Rule("GemmSumFusion", _fuse_gemm_sum, ("Gemm",)),
    ),
    "BatchNormalization": (
        Rule("BatchNormalizationMulFusion", _fuse_bn_scale("Mul"), ("Mul",)),
        Rule("BatchNormalizationAddFusion", _fuse_bn_scale("Add"), ("Add",)),
    ),
    "Cast": (Rule(CAST_CHAINS, _join_casts, ("Cast",)),),
    "Clip": (Rule("FuseReluClip", _fuse_relu_clip, ("Relu",)),),
    "Conv": (
        Rule("ConvBNFusion", _fuse_conv_bn, ("BatchNormalization",)),
        Rule("ConvMulFusion", _fuse_conv_scale("Mul"), ("Mul",)),
        Rule("ConvAddFusion", _fuse_conv_scale("Add"), ("Add",)),
    ),
    "Gemm": (Rule("GemmTransposeFusion", _fuse_gemm_transpose, ("Transpose",)),),
    "MatMul": (Rule("MatmulBNFusion", _fuse_matmul_bn, ("BatchNormalization",)),),
    "Mul": (Rule("DivMulFusion", _divide, ("Div",)),),
    "Pad": (Rule("PadFusion", _fuse_pad, ("Conv", "AveragePool", "MaxPool")),),
    "QuantizeLinear": (
        Rule("DoubleQDQPairsRemover", _drop_quantised_pair, ("DequantizeLinear",)),
        Rule("QuantFusion", _drop_limits_before_quantisation, ("Relu", "Clip")),
    ),
    "Reshape": (
        Rule("ReshapeFusion", _join_reshapes, ("Reshape",)),
        Rule("ReshapeFusion", _constant_shape, ("Concat",)),
    ),
    "Shape": (Rule("PreShapeNodeElimination", _cast_before_shape, ("Cast",)),),
    "Slice": (Rule("EliminateSlice", _drop_slice, ("Slice",)),),
    "Sum": (Rule("GemmSumFusion", _fuse_gemm_sum, ("Gemm",)),),
    "Transpose": (Rule("TransposeOptimizer", _join_transposes, ("Transpose",)),),
    "Where": (Rule("NotWhereFusion", _drop_not, ("Not",)),),
}

RULE_NAMES = frozenset(
    {rule.name for rules in _RULES.values() for rule in rules}
    | {"CommonSubexpressionElimination", "ReluQuantFusion", "ClipQuantFusion"}
)
