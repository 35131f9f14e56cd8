"""Stage 3: what can be known when the session opens is computed then.

Nodes whose inputs are all constants are run once on the reference operators, and ``Shape`` of values whose
shape is known becomes a constant. Plugins see weights and shapes as initializers, as they do in
onnxruntime.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import cached_property, lru_cache
from typing import Any

import numpy as np

from ephost.host_log import HostLog
from ephost.message_helpers import numpy_dtype, to_array
from ephost.messages import TensorProto
from ephost.model.eliminate import eliminate
from ephost.model.graph import Graph, Model, Node, TensorType, Value, all_graphs
from ephost.model.infer import infer_again
from ephost.model.inline import inline_decided_ifs
from ephost.model.rules import rewrite
from ephost.model.rules.shapes import CAST_CHAINS

_LOG = HostLog("ephost.fold")
_LARGE = 1 << 30  # bytes above which a result is left to be computed in the run
_GROWTH = 1 << 30  # bytes by which all results may be more than what they are made of
_SECONDS = 30.0  # after which the rest is left to the runs: a model is to open
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
# What asks how its input is stored; the rest computes with 16-bit floats as with float32.
_AS_STORED = {"BitCast", "CastLike", "EyeLike", "IsInf", "IsNaN"}
# What only moves elements: it is rounded like the inputs that it has.
_MOVES = {
    *("Compress", "Concat", "Expand", "Flatten", "Gather", "GatherElements", "GatherND", "Identity", "Pad"),
    *("Reshape", "Slice", "Split", "Squeeze", "Tile", "Transpose", "Unsqueeze"),
}
# What chooses among elements, or compares them: it sees what a Cast before it has rounded.
_CHOOSES = {
    *("ArgMax", "ArgMin", "DepthToSpace", "Dropout", "Equal", "Greater", "GreaterOrEqual", "Hardmax", "Less"),
    *("LessOrEqual", "Max", "Min", "NonZero", "OneHot", "ReverseSequence", "Scatter", "ScatterElements"),
    *("ScatterND", "SpaceToDepth", "TensorScatter", "TopK", "Trilu", "Unique", "Where"),
}
_HALVES = (int(TensorProto.FLOAT16), int(TensorProto.BFLOAT16))
_Constant = tuple[np.ndarray, int]  # data and element type
# Operators of ONNX whose output's shape depends on the data of an input of floats.
_SHAPED_BY_FLOATS = {"Resize", "Upsample", "Range"}


def simplify(model: Model, disabled: Collection[str] = (), *, leave_transposed: bool = False) -> None:
    """Compute what is known, take the branches that are decided by it, infer what follows from that, and
    rewrite what can be written shorter.

    Args:
        model: to change in place.
        disabled: what is not wanted, by onnxruntime's names: those of :mod:`ephost.model.rules` and
            :mod:`ephost.model.eliminate`, and ``ConstantFolding``.
        leave_transposed: do not transpose large matrices in memory that a MatMul alone reads: see
            :data:`TAKES_TRANSPOSED`.
    """
    for graph in all_graphs(model.graph):
        eliminate(graph, disabled)  # folded, an Identity of weights would be a copy of them
    is_eliminated = True
    while True:
        nodes = len(model.graph.nodes)
        informs = "ConstantFolding" not in disabled and fold(model, leave_transposed=leave_transposed)
        decided = inline_decided_ifs(model)
        if informs or decided:
            infer_again(model)
        graphs = list(all_graphs(model.graph))
        if informs or decided or len(model.graph.nodes) != nodes or not is_eliminated:
            for graph in graphs:
                eliminate(graph, disabled)
        if decided:
            continue
        informs = False
        for graph in graphs:
            changed, shapes_known = rewrite(model, graph, disabled)
            if changed:
                eliminate(graph, disabled)
            informs = informs or shapes_known
        if not informs:
            return
        infer_again(model)
        is_eliminated = False  # more types may be known


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
    informs = False
    budget = _Budget(graph)
    evaluator = _Evaluator(model)
    for node in graph.nodes:
        made = _known_shape(node) if node.op_type == "Shape" else None
        if (
            made is None
            and _is_foldable(node)
            and not (leave_transposed and _is_left_to_a_product(node))
            and budget.is_left(node)
        ):
            made = _filled(node) or evaluator.outcome(node)
        if made is None:
            continue
        types = [value and value.type for value in node.outputs]
        for value, constant in zip(node.outputs, made, strict=True):
            if value is not None and constant is not None:
                graph.make_constant(value, *constant)
        graph.drop(node)
        budget.spend([value.initializer for value in node.outputs if value is not None])
        informs = informs or any(
            v and _informs(v, v.type != t) for v, t in zip(node.outputs, types, strict=True)
        )
    if graph.dropped:
        graph.sweep()
        drop_unused_initializers(graph)
    return informs


def fill(model: Model) -> None:
    """Replace what ``ConstantOfShape`` makes of constants by initializers, ahead of inference.

    Where all weights are made so, inference then has half of the nodes to go through. What contradicts the
    model's declarations, or is not plain, is left for inference to see.
    """
    graph = model.graph
    nodes = [
        node
        for node in graph.nodes
        if node.op_type == "ConstantOfShape" and not node.domain and node.custom is None
    ]
    if not nodes:
        return
    budget = _Budget(graph)
    for node in nodes:
        out = node.outputs[0]
        if out is None or out.is_output or budget.is_spent or (made := _filled(node)) is None:
            continue
        constant = made[0]
        assert constant is not None
        array, element_type = constant
        if element_type in _FILLABLE and _allows(out.type, element_type, array.shape):
            graph.make_constant(out, array, element_type)
            graph.drop(node)
            budget.spend([array])
    if graph.dropped:
        graph.sweep()
        drop_unused_initializers(graph)


# What each version of ConstantOfShape makes; what else newer ones make is inferred and checked as usual.
_FILLABLE = frozenset(
    (*range(TensorProto.FLOAT, TensorProto.STRING), *range(TensorProto.BOOL, TensorProto.UINT64 + 1))
)


def _allows(declared: Any, element_type: int, dims: tuple[int, ...]) -> bool:
    """Whether a tensor is of the type that is declared."""
    if declared is None:
        return True
    if not isinstance(declared, TensorType) or declared.element_type not in (0, element_type):
        return False
    known = declared.dims
    return known is None or (
        len(known) == len(dims)
        and all(not isinstance(k, int) or k == d for k, d in zip(known, dims, strict=True))
    )


class _Budget:
    """How much folding may still add to a model, in bytes and time: a few nodes can ask for any amount."""

    def __init__(self, graph: Graph) -> None:
        self._graph = graph
        self._end = time.monotonic() + _SECONDS

    @cached_property
    def _bytes(self) -> int:
        held = sum(v.initializer.nbytes for v in self._graph.values.values() if v.initializer is not None)
        return held + _GROWTH  # weights may double: a Cast of all of them from 16 bits to 32

    @property
    def is_spent(self) -> bool:
        return self._bytes <= 0 or time.monotonic() > self._end

    def is_left(self, node: Node) -> bool:
        if self.is_spent or _result_bytes(node) > _LARGE:
            _LOG.warning("node %s, of constants, is not folded: too large, or it takes too long", node.label)
            return False
        return True

    def spend(self, made: Sequence[np.ndarray | None]) -> None:
        for array in made:
            if array is not None:
                self._bytes -= array.nbytes


def _result_bytes(node: Node) -> float:
    """The least that a node's output takes, of nodes whose inputs say how large it is; 0 for others."""
    data = [value.initializer if value is not None else None for value in node.inputs]
    by = data[0 if node.op_type in ("ConstantOfShape", "Range") else 1 if len(data) > 1 else 0]
    if node.domain or by is None or node.op_type not in _SIZED or by.dtype.kind not in "iuf":
        return 0
    held = data[0]
    size = held.size if held is not None and node.op_type in ("Tile", "OneHot") else 1
    if by.dtype.kind != "f" and by.size <= _FEW and node.op_type != "Range":
        return math.prod([abs(float(number)) for number in by.ravel().tolist()]) * size
    with np.errstate(all="ignore"):
        if node.op_type == "Range":
            first, limit, step = (float(a.item()) if a is not None and a.size == 1 else 1.0 for a in data[:3])
            return abs((limit - first) / step) * 4 if step else math.inf
        return float(np.prod(np.abs(by.astype(np.float64)))) * size


_FEW = 16  # numbers that Python multiplies sooner than numpy
_SIZED = {"ConstantOfShape", "Expand", "OneHot", "Range", "Tile"}


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


def _known_shape(node: Node) -> list[_Constant | None] | None:
    """What Shape makes of a tensor whose shape is known."""
    if node.domain or len(node.outputs) != 1 or node.ep_name or node.custom is not None:
        return None
    source, out = node.inputs[0], node.outputs[0]
    if source is None or out is None or out.is_output or not isinstance(source.type, TensorType):
        return None
    dims = source.type.static_dims
    if dims is None or (source.is_input and source.initializer is not None):
        return None
    array = np.asarray(dims[node.attribute("start", 0) : node.attribute("end", len(dims))], dtype=np.int64)
    return [(array, int(TensorProto.INT64))]


def _is_left_to_a_product(node: Node) -> bool:
    """Whether it transposes a large matrix that one MatMul alone reads, as output layers do which share their
    weights with an embedding.
    """
    if node.domain or node.op_type != "Transpose":
        return False
    data = node.inputs[0].initializer if node.inputs[0] is not None else None
    reader = node.outputs[0].only_reader if node.outputs[0] is not None else None
    return (
        data is not None
        and data.ndim == 2
        and data.dtype == np.float32
        and data.nbytes >= _WORTH_LEAVING
        and node.attribute("perm") == [1, 0]
        and reader is not None
        and (reader.domain, reader.op_type) == ("", "MatMul")
        and reader.inputs[1] is node.outputs[0]
    )


def _filled(node: Node) -> list[_Constant | None] | None:
    """What ConstantOfShape makes, on a short way for models whose weights are all made so; None where it does
    not lead to the end.
    """
    if node.domain or node.op_type != "ConstantOfShape" or len(node.inputs) != 1 or len(node.outputs) != 1:
        return None
    shape = node.inputs[0].initializer if node.inputs[0] is not None else None
    if shape is None or shape.dtype != np.int64 or shape.ndim != 1:
        return None
    dims = shape.tolist()
    if min(dims, default=0) < 0:
        return None
    fill, element_type = np.zeros((), np.float32), int(TensorProto.FLOAT)
    tensor = node.attribute("value")
    if tensor is not None:
        element_type = tensor.data_type
        found = _only_element(tensor.SerializeToString())
        if found is None:
            return None
        fill = found
    if math.prod(dims) * fill.itemsize > _LARGE:
        return None
    array = np.empty(dims, fill.dtype)
    array[...] = fill  # half of the time of np.full
    return [(array, element_type)]


@lru_cache(maxsize=64)
def _only_element(tensor: bytes) -> np.ndarray | None:
    """The element of a tensor that has one, and is no string."""
    try:
        data = to_array(TensorProto.FromString(tensor))
    except (ValueError, TypeError):
        return None
    return data.reshape(()) if data.size == 1 and not data.dtype.hasobject else None


def _is_foldable(node: Node) -> bool:
    for value in node.inputs:
        if value is not None and not (value.is_constant and value.initializer is not None):
            return False
    if node.subgraphs or node.op_type in _KEPT or not node.inputs or node.ep_name or node.custom is not None:
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


def _is_half(value: Value | None) -> bool:
    return value is not None and isinstance(value.type, TensorType) and value.type.element_type in _HALVES


class _Evaluator:
    """Has the reference operators compute nodes of constants.

    Between nodes 16-bit floats are float32, as kernels keep them: what a chain of nodes makes of weights is
    rounded once, at its end.
    """

    def __init__(self, model: Model) -> None:
        self._model = model
        # To make one takes longer than to run it, and arithmetic of shapes is the same few operators.
        self._kernels: dict[Any, Callable[[list[Any]], list[Any]]] = {}
        # What was rounded to 16 bits, before it was: by a node that computes, and by a Cast in the model.
        self._wide: dict[Value, np.ndarray] = {}
        self._cast: dict[Value, np.ndarray] = {}

    def outcome(self, node: Node) -> list[_Constant | None] | None:
        """What they make of the node's inputs; None where it is left to the run."""
        try:
            inputs = self._inputs(node)
            results = self._kernel(node)(inputs)
        except Exception as error:  # whatever is wrong shows again, with its place, when the node runs
            _LOG.debug("node %s is not folded: %s", node.label, error)
            return None
        made: list[_Constant | None] = []
        for value, array in zip(node.outputs, results[: len(node.outputs)], strict=True):
            if value is None:
                made.append(None)
                continue
            if not isinstance(array, np.ndarray) or array.nbytes > _LARGE:
                return None
            assert isinstance(value.type, TensorType)
            made.append((self._rounded(value, array), value.type.element_type))
        if node.op_type == "Cast" and not node.domain:
            self._remember_cast(node, inputs[0])
        return made

    def _inputs(self, node: Node) -> list[np.ndarray | None]:
        """The inputs' data, in float32 in place of 16 bits where the node computes or continues a chain.

        What computes takes what a Cast had before it rounded, as kernels do: converters count in float16,
        where 16,001 is none. What moves or compares elements, and another Cast, take what the model rounded.
        """
        stored = [None if v is None else v.initializer for v in node.inputs]
        if node.domain or node.op_type in _AS_STORED or not any(map(_is_half, node.inputs)):
            return stored
        moves = node.op_type in _MOVES or node.op_type == "Cast"
        if moves and not any(v in self._wide for v in node.inputs):
            return stored
        taken = []
        for value, array in zip(node.inputs, stored, strict=True):
            if value is not None and array is not None and _is_half(value):
                wide = self._wide.get(value)
                if wide is None and not moves and node.op_type not in _CHOOSES:
                    wide = self._cast.get(value)
                array = array.astype(np.float32) if wide is None else wide
            taken.append(array)
        return taken

    def _remember_cast(self, node: Node, data: np.ndarray | None) -> None:
        value = node.outputs[0]
        if value is None or data is None or not _is_half(value) or _is_half(node.inputs[0]):
            return
        if data.dtype.kind in "iufb":
            self._cast[value] = data.astype(np.float32)

    def _rounded(self, value: Value, array: np.ndarray) -> np.ndarray:
        """A node's result as the model stores it."""
        assert isinstance(value.type, TensorType)
        if array.dtype == np.float32 and _is_half(value):
            self._wide[value] = array
            with np.errstate(over="ignore"):
                array = array.astype(numpy_dtype(value.type.element_type))
        return np.ascontiguousarray(array).reshape(array.shape)

    def _kernel(self, node: Node) -> Callable[[list[Any]], list[Any]]:
        outputs = tuple([value is not None for value in node.outputs])
        key = (
            node.op_type,
            node.domain,
            node.message.overload,
            len(node.inputs),
            outputs,
            node.attributes_key(),
        )
        kernel = self._kernels.get(key)
        if kernel is None:
            from ephost.reference import create_kernel

            made = create_kernel(node.proto, self._model.opsets, self._model.functions)
            kernel = self._kernels[key] = made
        return kernel


def drop_unused_initializers(graph: Graph) -> None:
    """Forget the data that nobody reads any more.

    Before IR version 4 all constants were listed as inputs: of the model's those go with it.
    """
    unlisted = []
    for value in list(graph.values.values()):
        if value.initializer is None or value.consumers or value.is_output:
            continue
        if not value.is_input:
            graph.remove_value(value)
        elif value.is_constant and graph.parent is None:  # a body has as many inputs as its node gives it
            unlisted.append(value)
    if unlisted:
        graph.remove_inputs(unlisted)
