"""Stage 2: types and shapes of every value, by onnx's shape inference with data propagation.

What a model declares of its values may be wrong. What follows from inputs and operators is found first, and
where the two contradict each other a dimension stays unknown, as in onnxruntime. onnx's inference alone would
go by what is declared.

Large weights stay out of it: they go in as inputs of known shape, since inference copies the whole model
several times.
"""

from __future__ import annotations

import functools
import math
import re
from collections.abc import Callable, Container, Iterable, Mapping
from functools import partial
from typing import Any, TypeVar

import numpy as np

from ephost._bindings import dtype_of
from ephost.errors import Fail, InvalidGraph
from ephost.message_helpers import from_array
from ephost.messages import (
    AttributeProto,
    FunctionProto,
    GraphProto,
    ListedInfo,
    ModelProto,
    NodeProto,
    OperatorSetIdProto,
    TensorProto,
    TypeProto,
    TypesOfBody,
    TypesOfGraph,
    TypesOfModel,
    TypesWithBodies,
    ValueInfoProto,
)
from ephost.model.contrib import DOMAIN, StandIns, need_stand_ins
from ephost.model.graph import (
    Dim,
    Graph,
    Model,
    Node,
    TensorType,
    Value,
    all_graphs,
    captured_values,
    tensor_type,
    type_proto,
)
from ephost.model.load import element_types, listed_type
from ephost.model.propagation import is_bounded, is_unambiguous
from ephost.model.type_rules import find_types
from ephost.model.unasked import asked_of_function, blind_nodes, carriers, is_blind
from ephost.model.unseen import NamesOfDimensions, forget_readers, is_known, note, unseen
from ephost.onnx_library import extension

# Elements up to which a constant's value may matter to inference: shapes, axes, pads, ...; scales of Resize.
_SMALL_INTEGERS = 1024
_SMALL_OTHERS = 16
_ELEMENT_TYPES = frozenset(TensorProto.DataType.values())
_STANDARD = frozenset(("", "ai.onnx", "ai.onnx.ml"))
# The operators of which onnx looks into the bodies. In others we start from what the bodies' inputs declare.
_WITH_INFERRED_BODIES = frozenset(("If", "Loop", "Scan"))
# How onnx words what is wrong with a node, line by line; what is wrong in a body comes after the body's node.
_REFUSED = r"\(op_type:(\w+)(?:, node name: (.*?))?\): \[(?:Shape|Type)InferenceError\] (.*)"
_IN_A_BODY = r"op_type:.*InferenceError\] (?:Inference error\(s\)|Graph attribute inferencing failed)"
# The last is what onnx says that propagates contents: it takes what Unsqueeze makes for a list.
_UNTOLD = (
    r"existing|already exists|\bis null\b|Type info is expected|to have type info|Inference error\(s\)|"
    r"Invalid rank for \w+ broadcasting"
)
_O = TypeVar("_O", FunctionProto, GraphProto)
Functions = Mapping[tuple[str, str, str], FunctionProto]


def infer(model: Model) -> None:
    """Find the types of all values of a model that was just loaded, subgraphs included.

    Raises:
        InvalidGraph: an operator makes another element type than the model declares.
        Fail: a node cannot have such inputs or attributes.
    """
    declared = [
        (value, value.type)
        for graph in all_graphs(model.graph)
        for value in graph.values.values()
        if value.producer is not None and value.type is not None
    ]
    if declared:
        for value, _ in declared:
            value.type = None
        _infer(model, loaded=True)
        more = False
        for value, kind in declared:
            found = value.type
            if found is kind:
                continue
            value.type = _agreed(value, kind, found)
            is_read = bool(value.consumers) or model.graph.values.get(value.name) is not value
            more = more or (is_read and value.type is not found and _tells_more(value.type, found))
        if not more:
            _infer_custom(model)
            return
        for graph in all_graphs(model.graph):
            for node in graph.nodes:
                if node.op_type == "If" and not node.domain:
                    _take_of_branches(node)
    _infer(model, loaded=not declared)
    _infer_custom(model)


def infer_again(model: Model) -> None:
    """Fill in the types that are not known yet, after the graph was changed."""
    _infer(model)
    _infer_custom(model)


def _infer_custom(model: Model) -> None:
    # What custom operators make is for their own functions to say, and what follows from it for onnx again.
    while model.custom_ops and model.custom_ops.infer(model):
        _infer(model)


def _agreed(value: Value, declared: Any, found: Any) -> Any:
    """What is left of a value's declared type where inference has found another."""
    if not isinstance(declared, TensorType) or not isinstance(found, TensorType):
        return merge(declared, found) if found is not None else declared
    if declared.element_type and found.element_type and declared.element_type != found.element_type:
        assert value.producer is not None
        if not value.producer.domain:
            raise InvalidGraph(
                f"the output '{value.name}' of node {value.producer.label} is declared as {declared}, but "
                f"its operator makes {found}"
            )
        return declared
    known, seen = declared.dims, found.dims
    if known is None or seen is None:
        return merge(declared, found)
    if len(known) != len(seen):
        value.is_disputed = True
        return tensor_type(found.element_type or declared.element_type, None)
    dims: list[Dim] = []
    for k, s in zip(known, seen, strict=True):  # one loop: models declare thousands of values
        if not isinstance(s, int):
            dims.append(s if k is None else k)
        elif not isinstance(k, int) or k == s:
            dims.append(s)
        else:
            dims.append(None)
            value.is_disputed = True
    return tensor_type(found.element_type or declared.element_type, tuple(dims))


def _tells_more(known: Any, found: Any) -> bool:
    """Whether inference may go further from one type than from another."""
    if not isinstance(known, TensorType) or not isinstance(found, TensorType):
        return found is None
    if known.dims is None or found.dims is None:
        return known.dims is not None
    if len(known.dims) != len(found.dims):
        return True
    for k, f in zip(known.dims, found.dims, strict=True):
        if isinstance(k, int) and not isinstance(f, int):
            return True
    return False


def _with_all_outputs(node: NodeProto, functions: Functions) -> NodeProto:
    """The node, with the outputs written out that calls of functions leave out: onnx fails over them."""
    function = functions.get((node.domain, node.op_type, node.overload))
    if function is None or len(node.output) >= len(function.output):
        return node
    return node.with_fields(output=node.output + [""] * (len(function.output) - len(node.output)))


def _infer(model: Model, loaded: bool = False) -> None:
    graph = model.graph
    if all(is_known(value) for value in graph.values.values()) and not any(n.subgraphs for n in graph.nodes):
        return
    if loaded and _infer_part(model, graph, loaded=True):
        return
    onward = False
    while (part := unseen(model, onward=onward)) is not None:
        _infer_part(model, part)
        onward = True


def _infer_part(model: Model, graph: Graph, loaded: bool = False) -> bool:
    """Go through the model's graph, or a part of it. Whether to do it again would tell nothing new."""
    # What is wrong with functions is for onnx's inference to say, once.
    found = None if model.functions and loaded else find_types(graph, model.graph)
    if found is None:
        _ask_onnx(model, graph, loaded)
        return False
    for value, kind in found.items():
        value.type = kind
    note(model, graph.nodes)
    return graph is model.graph


def _ask_onnx(model: Model, graph: Graph, loaded: bool) -> None:
    """Go through the model's graph, or a part of it, with onnx's inference."""
    domains = {**model.opsets, **dict.fromkeys({node.domain for node in graph.nodes} - set(model.opsets), 1)}
    functions = [asked_of_function(_without_large_tensors(f)) for f in model.functions.values()]
    blind = blind_nodes(graph)
    nodes = [_with_known_bodies(node) for node in graph.nodes if not is_blind(node)]
    hidden = _norms_of_unknown_rank(graph)
    ranks = _Ranks(graph)
    nodes = _without_hidden_axes(ranks, nodes)
    opset = model.opsets.get("", 1)
    stand_ins = StandIns(ranks, opset)
    if DOMAIN in model.opsets or need_stand_ins(nodes, opset):
        nodes = stand_ins.replace(nodes)
        functions += stand_ins.functions
        domains.update((function.domain, 1) for function in stand_ins.functions)
    if model.functions:
        nodes = [_with_all_outputs(node, model.functions) for node in nodes]
    told = _shapes_told(graph)
    nodes = [node for node in nodes if not (node.op_type == "Shape" and node.output[0] in told)]
    target = _known(graph, nodes)
    target.initializer.extend(from_array(array, name) for name, array in told.items())
    proto = ModelProto(
        ir_version=max(model.ir_version, 4),
        opset_import=[OperatorSetIdProto(domain=domain, version=at) for domain, at in domains.items()],
        functions=functions,
        graph=target,
    )
    compiled = extension()
    serialized = proto.SerializeToString()
    with_contents = is_bounded(model, graph) and is_unambiguous(graph)
    inferred = None
    if loaded:
        try:
            inferred = compiled.shape_inference.infer_shapes(serialized, False, True, with_contents)
        except compiled.shape_inference.InferenceError as error:
            said_of_outputs = partial(_said_of_outputs, compiled, proto, with_contents)
            _refuse_impossible(graph, str(error), said_of_outputs)
        except (MemoryError, RuntimeError, ValueError, compiled.checker.ValidationError):
            pass  # what more is wrong comes again below
    try:
        if inferred is None:
            inferred = compiled.shape_inference.infer_shapes(serialized, False, False, with_contents)
    except compiled.shape_inference.InferenceError as error:
        raise InvalidGraph(f"shape inference of '{graph.name}' failed: {error}") from error
    except MemoryError as error:
        raise InvalidGraph(f"shape inference of '{graph.name}' takes more memory than there is") from error
    except (RuntimeError, ValueError, compiled.checker.ValidationError) as error:
        raise InvalidGraph(f"the graph '{graph.name}' is not valid: {error}") from error
    has_bodies = any(node.subgraphs for node in graph.nodes)
    names = NamesOfDimensions(model, graph)
    _take(graph, (TypesWithBodies if has_bodies else TypesOfModel).FromString(inferred).graph, names)
    for node in graph.nodes:
        if node.subgraphs and (node.domain or node.op_type not in _WITH_INFERRED_BODIES):
            for body in node.subgraphs.values():
                _infer(_of_body(model, body))
    for node in hidden:
        stash_type = node.attribute("stash_type", TensorProto.FLOAT)
        if stash_type not in _ELEMENT_TYPES:
            raise InvalidGraph(f"node {node.label} has the stash_type {stash_type}: there is no such type")
        for made in node.outputs[1:]:
            if made is not None and made.type is None:
                made.type = tensor_type(stash_type, None)
    note(model, graph.nodes)
    for name in _shapes_told(graph).keys() - told.keys():
        forget_readers(model, graph.values[name])
    asking = carriers(graph, [node for node in blind if not is_blind(node)])
    if stand_ins.unranked:
        ranks = _Ranks(graph)
        ranked = {name for name in stand_ins.unranked if ranks(name) is not None}
        asking += [node for node in graph.nodes if _reads(node, ranked)]
    for node in set(hidden).difference(_norms_of_unknown_rank(graph)).union(asking):
        model.seen.pop(node, None)


def _reads(node: Node, names: Container[str]) -> bool:
    """Whether a node, or one in its bodies, reads one of these values."""
    if any(value is not None and value.name in names for value in node.inputs):
        return True
    return any(_reads(inner, names) for body in node.subgraphs.values() for inner in body.nodes)


def _take_of_branches(node: Node) -> None:
    """Of an If's outputs whose rank inference has not found, take what its branches have in common, of which
    the model has declared more.
    """
    branches = [
        node.subgraphs[key].outputs for key in ("then_branch", "else_branch") if key in node.subgraphs
    ]
    if len(branches) != 2 or any(len(made) != len(node.outputs) for made in branches):
        return
    for value, one, other in zip(node.outputs, *branches, strict=True):
        if value is not None and not _has_rank(value.type) and _has_rank(one.type) and _has_rank(other.type):
            kind, twin = one.type, other.type
            if kind.element_type == twin.element_type and len(kind.dims) == len(twin.dims):
                dims = tuple([a if a == b else None for a, b in zip(kind.dims, twin.dims, strict=True)])
                value.type = tensor_type(kind.element_type, dims)


def _has_rank(kind: Any) -> bool:
    return isinstance(kind, TensorType) and kind.dims is not None


def _with_known_bodies(node: Node) -> NodeProto:
    """The node's message, with bodies that say what is known of their values by now."""
    if not node.subgraphs:
        return node.proto
    attributes = []
    for attribute in node.proto.attribute:
        body = node.subgraphs.get(attribute.name) if attribute.type == AttributeProto.GRAPH else None
        if body is not None:
            known = _known(body, [_with_known_bodies(inner) for inner in body.nodes if not is_blind(inner)])
            attribute = attribute.with_fields(g=known)
        attributes.append(attribute)
    return node.proto.with_fields(attribute=attributes)


def _without_large_tensors(owner: _O) -> _O:
    """A function, or a body in one, whose nodes' large tensors are types and shapes alone."""
    nodes = []
    for node in owner.node:
        parts = []
        for attribute in node.attribute:
            if attribute.HasField("t"):
                attribute = attribute.with_fields(t=_light(attribute.t))
            elif attribute.HasField("g"):
                tensors = [_light(tensor) for tensor in attribute.g.initializer]
                body = _without_large_tensors(attribute.g).with_fields(initializer=tensors)
                attribute = attribute.with_fields(g=body)
            parts.append(attribute)
        nodes.append(node.with_fields(attribute=parts) if parts else node)
    return owner.with_fields(node=nodes)


def _light(tensor: TensorProto) -> TensorProto:
    if math.prod(tensor.dims) <= _SMALL_INTEGERS or tensor.data_location == TensorProto.EXTERNAL:
        return tensor
    return TensorProto(name=tensor.name, data_type=tensor.data_type, dims=tensor.dims)


def _known(graph: Graph, nodes: list[NodeProto]) -> GraphProto:
    """A graph of these nodes, with what is known of its values; of large weights the types alone."""
    proto = GraphProto(name=graph.name or "graph", node=nodes)
    # A body that is gone through alone reads values of the graphs around it, too.
    outer = captured_values(graph) if graph.parent is not None else []
    values = [*graph.values.values(), *outer]
    constants = dict.fromkeys(value for value in values if _may_matter(value))
    # A constant that is listed as an input is none of the model's. A body has as many as its node gives it.
    inputs = graph.inputs if graph.parent is not None else [v for v in graph.inputs if v not in constants]
    proto.initializer = [tensor_of(value) for value in constants]
    proto.input = [value_info_of(value) for value in inputs]
    proto.output = [value_info_of(value) for value in graph.outputs]
    own = {*graph.inputs, *graph.outputs}
    for value in values:
        if value.type is not None and value not in own and value not in constants:
            proto.value_info.append(listed_info_of(value))
    return proto


def _shapes_told(graph: Graph) -> dict[str, np.ndarray]:
    """What nodes make that give the shape of a value whose shape is known: by name, the numbers.

    Inference gets them as constants. onnx propagates them itself, but its older operators (Reshape-13,
    Expand-13, ...) look at constants alone.
    """
    told = {}
    for node in graph.nodes:
        if node.op_type != "Shape" or node.domain not in ("", "ai.onnx") or len(node.inputs) != 1:
            continue
        source, made = node.inputs[0], node.outputs[0] if node.outputs else None
        if (
            source is None
            or made is None
            or made.is_disputed
            or source.is_disputed
            or node.custom is not None
        ):
            continue
        dims = source.type.static_dims if isinstance(source.type, TensorType) else None
        if dims is None:
            continue
        told[made.name] = np.array(dims[node.attribute("start", 0) : node.attribute("end")], np.int64)
        made.type = merge(made.type, tensor_type(TensorProto.INT64, (len(told[made.name]),)))
    return told


def _of_body(model: Model, body: Graph) -> Model:
    """A model of a body alone, in the model's opsets."""
    return Model(body, model.opsets, model.ir_version, model.functions, model.path, model.metadata)


def _said_of_outputs(compiled: Any, proto: ModelProto, with_contents: bool) -> str:
    """What onnx's inference says against a model whose nodes have the names of what they make first."""
    nodes = [node.with_fields(name=next(filter(None, node.output), "")) for node in proto.graph.node]
    named = proto.with_fields(graph=proto.graph.with_fields(node=nodes)).SerializeToString()
    try:
        compiled.shape_inference.infer_shapes(named, False, True, with_contents)
    except compiled.shape_inference.InferenceError as error:
        return str(error)
    return ""


def _refuse_impossible(graph: Graph, said: str, said_of_outputs: Callable[[], str]) -> None:
    """Raise what an operator of ONNX says against its inputs and attributes, among all that inference says.

    The rest is let pass: what the model declares (the caller weighs that against what follows from the
    operators), bodies (a branch that nobody takes may be of shapes that it could not run with), and what
    is not known for an error before.

    Args:
        graph: whose nodes inference went through.
        said: what is wrong with nodes, by their names.
        said_of_outputs: says the same by what nodes make, for those that share a name or have none.

    Raises:
        Fail: a node cannot have such inputs or attributes.
    """
    if re.search(_IN_A_BODY, said):
        return
    nodes: dict[tuple[str, str], list[Node]] = {}
    for node in graph.nodes:
        if node.domain in _STANDARD and not node.subgraphs:
            nodes.setdefault((node.op_type, node.name), []).append(node)
    for kind, name, message in re.findall(_REFUSED, said):
        of_name = nodes.get((kind, name), ())
        if not of_name or re.search(_UNTOLD, message):
            continue
        at_fault = of_name[0]
        if len(of_name) > 1:
            made = {output for _, output, why in re.findall(_REFUSED, said_of_outputs()) if why == message}
            at_fault = next((n for n in of_name if any(v and v.name in made for v in n.outputs)), at_fault)
        raise Fail(f"node {at_fault.label}: {message}")


def _without_hidden_axes(ranks: _Ranks, nodes: Iterable[NodeProto]) -> list[NodeProto]:
    """Leave means and factors of normalisations out where the axis may lie outside of the input: onnx's
    inference writes beyond its list then. Changes nothing but the bodies of :func:`_with_known_bodies`.

    Raises:
        InvalidGraph: it does lie outside.
    """
    made = []
    for node in nodes:
        for attribute in node.attribute:
            if attribute.HasField("g"):
                attribute.g.node = _without_hidden_axes(ranks, attribute.g.node)
            if attribute.name != "axis" or node.op_type != "LayerNormalization" or attribute.i == -1:
                continue
            rank = ranks(node.input[0]) if node.input else None
            if rank is not None and not -rank <= attribute.i < rank:
                raise InvalidGraph(
                    f"the axis {attribute.i} of node '{node.name}' ({node.op_type}) is not one of the {rank} "
                    "of its input"
                )
            if rank is None:
                node = node.with_fields(output=node.output[:1])
        made.append(node)
    return made


def _norms_of_unknown_rank(graph: Graph) -> list[Node]:
    """The nodes whose means and factors :func:`_without_hidden_axes` leaves out."""
    return [
        node
        for node in graph.nodes
        if node.op_type == "LayerNormalization"
        and len(node.outputs) > 1
        and node.attribute("axis", -1) != -1
        and node.inputs
        and node.inputs[0] is not None
        and _rank_of(node.inputs[0]) is None
    ]


class _Ranks:
    """What is known of the ranks of the values of a graph and of the bodies of its nodes, by their names."""

    def __init__(self, graph: Graph) -> None:
        self._graph = graph
        self._of_all: dict[str, int | None] | None = None  # with those of bodies

    def __call__(self, name: str) -> int | None:
        """The rank of the values of that name, of which bodies may have several; None if they disagree."""
        if self._of_all is None:
            self._of_all = {}
            for part in all_graphs(self._graph):
                for value in part.values.values():
                    rank = _rank_of(value)
                    if rank is not None and self._of_all.setdefault(value.name, rank) != rank:
                        self._of_all[value.name] = None
        return self._of_all.get(name)


def _rank_of(value: Value) -> int | None:
    kind = value.type
    return len(kind.dims) if isinstance(kind, TensorType) and kind.dims is not None else None


def _may_matter(value: Value) -> bool:
    """Whether it is a constant whose numbers may tell types and shapes."""
    array = value.initializer
    if array is None or not value.is_constant:
        return False
    return array.size <= (_SMALL_INTEGERS if array.dtype.kind == "i" else _SMALL_OTHERS)


def tensor_of(value: Value) -> TensorProto:
    """The message of a constant."""
    array = value.initializer
    assert array is not None and isinstance(value.type, TensorType)
    if array.dtype.kind in "if" and array.dtype == dtype_of(value.type.element_type):
        return TensorProto(
            name=value.name,
            data_type=value.type.element_type,
            dims=list(array.shape),
            raw_data=array.tobytes(),
        )
    return from_array(array, value.name)


def value_info_of(value: Value) -> ValueInfoProto:
    """A value's name and type."""
    info = ValueInfoProto(name=value.name)
    if isinstance(value.type, TensorType):
        info.type = type_proto(value.type.element_type, value.type.dims)
    elif value.type is not None:
        info.type = value.type
    return info


def listed_info_of(value: Value) -> ListedInfo:
    """A value's name and type, as a graph lists them."""
    if isinstance(value.type, TensorType):
        return ListedInfo(name=value.name, type=_encoded(value.type.element_type, value.type.dims))
    return ListedInfo(name=value.name, type=b"" if value.type is None else value.type.SerializeToString())


@functools.lru_cache(4096)
def _encoded(element_type: int, dims: tuple[Dim, ...] | None) -> bytes:
    return type_proto(element_type, dims).SerializeToString()


def _take(graph: Graph, proto: TypesOfGraph | TypesOfBody, names: NamesOfDimensions) -> None:
    """Take over what inference found, of the bodies inside bodies too."""
    for infos in (proto.value_info, proto.output):
        for info in infos:
            value = graph.values.get(info.name)
            if value is None or value.initializer is not None or value.is_disputed:
                continue
            found = listed_type(info.type)
            if isinstance(found, TensorType) and found.element_type not in _ELEMENT_TYPES:
                by = f"node {value.producer.label} makes" if value.producer is not None else "the model has"
                raise InvalidGraph(
                    f"{by} '{info.name}' of the element type {found.element_type}: there is none"
                )
            if found is not None and not isinstance(found, TensorType) and None in element_types(found):
                continue  # as much as no type
            if found is not None:
                value.type = merge(value.type, names.of_model(found))
    if isinstance(proto, TypesOfGraph):
        return  # no node has a body
    with_bodies = {tuple(node.proto.output): node for node in graph.nodes if node.subgraphs}
    for found_node in proto.node if with_bodies else ():
        if (node := with_bodies.get(tuple(found_node.output))) is not None:
            for attribute in found_node.attribute:
                if attribute.name in node.subgraphs and attribute.HasField("g"):
                    _take(node.subgraphs[attribute.name], attribute.g, names)


def merge(known: TensorType | TypeProto | None, found: TensorType | TypeProto) -> TensorType | TypeProto:
    """The more precise of what was known and what was found; on contradiction what was known."""
    if known is found:
        return found
    if known is None or not isinstance(known, TensorType) or not isinstance(found, TensorType):
        return known or found
    element_type = known.element_type or found.element_type
    if known.dims is None or found.dims is None:
        return tensor_type(element_type, known.dims if known.dims is not None else found.dims)
    if len(known.dims) != len(found.dims):
        return tensor_type(element_type, known.dims)
    dims = tuple(
        f if isinstance(f, int) and not isinstance(k, int) else (k if k is not None else f)
        for k, f in zip(known.dims, found.dims, strict=True)
    )
    return tensor_type(element_type, dims)
