"""Calls of functions that no EP claims give way to the functions' bodies, of which an EP may claim a part.

Functions are the model's own, or those that ONNX's schemas define operators by. A body of which nobody claims
anything is taken back: the reference operators run the call itself, which is quicker and as exact.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from ephost.errors import InvalidGraph
from ephost.message_helpers import make_node
from ephost.messages import AttributeProto, FunctionProto, GraphProto, NodeProto, TypeProto
from ephost.model.graph import (
    Graph,
    Model,
    Node,
    Substituting,
    TensorType,
    Value,
    all_graphs,
    schema_of,
    since_version,
    type_proto,
)
from ephost.model.infer import listed_info_of, tensor_of, value_info_of
from ephost.model.load import Linker
from ephost.onnx_schema import default_of, newest_opset
from ephost.records import Record

_DEPTH = 100  # calls in calls: each asks all EPs once more
# Operators of ONNX that are shorthand for others: hosts know no kernel for them, and EPs rather know what
# they stand for. Other operators with a function body (Softmax, LayerNormalization, ...) stay whole: the
# fallback runs them, and an EP that wants them claims them. Bernoulli is not here because its body in ONNX
# draws with probability 1 - p.
_SHORTHAND = {
    "CastLike",
    "CenterCropPad",
    "GroupNormalization",
    "HardSwish",
    "Mish",
    "NegativeLogLikelihoodLoss",
    "SequenceMap",
    "SoftmaxCrossEntropyLoss",
    "Swish",
}


class Call(Record):
    """A call that was replaced."""

    graph: Graph
    node: Node
    body: list[Node]


def _is_call(model: Model, node: Node) -> bool:
    if (node.domain, node.op_type, node.message.overload) in model.functions:
        return True
    is_onnxs = node.domain == "" and node.custom is None
    return is_onnxs and node.op_type in _SHORTHAND and function_of(model, node) is not None


def inline_calls(model: Model, graph: Graph, depths: dict[int, int]) -> list[Call]:
    """Replace each unclaimed call of a function in the graph and its subgraphs; returns what was replaced.

    Args:
        model: whose functions count.
        graph: to look through.
        depths: node index -> how deep in inlined bodies the node is; kept from one round to the next.

    Raises:
        InvalidGraph: functions call themselves.
    """
    calls: list[Call] = []
    for part in list(all_graphs(graph)):
        substituting = Substituting(part)
        for node in part.nodes:
            if node.ep_name or not _is_call(model, node):
                continue
            function = function_of(model, node)
            if function is None or not _fits(model, function):
                continue
            depth = depths.get(node.index, 0)
            if depth >= _DEPTH:
                raise InvalidGraph(
                    f"the function of node {node.label} calls itself, or is {_DEPTH} calls deep"
                )
            made = _replace(model, part, node, function)
            substituting.put(made, (node.index,))
            for inner in made:
                depths[inner.index] = depth + 1
            calls.append(Call(part, node, made))
        substituting.settle()
    return calls


def restore(calls: Iterable[Call]) -> list[bool]:
    """Take bodies back, one after the other, of which no EP claimed a node; False for those where there is
    something to keep.

    That is also the case when the graph was simplified since, and what is around the call has changed so that
    it does not fit in any more.
    """
    graphs: dict[int, Substituting] = {}
    done = []
    for each in calls:
        key = id(each.graph)
        if key not in graphs:
            graphs[key] = Substituting(each.graph)
        done.append(_restore(each, graphs[key]))
    for substituting in graphs.values():
        substituting.settle()
    return done


def _restore(call: Call, substituting: Substituting) -> bool:
    graph, node = call.graph, call.node
    body = [n for n in call.body if substituting.has(n.index)]
    own = {n.index for n in body}
    if (
        not body
        or any(n.ep_name or n.custom is not None for n in body)
        or len(body) < len(call.body)
        or not _has_same_place(graph, node, own)
    ):
        return False
    outputs = [v for v in node.outputs if v is not None]
    kept = {id(v) for v in outputs}
    for inner in body:
        for made in inner.outputs:
            # Equal nodes may have become one, which others read too.
            if made is not None and id(made) not in kept and _is_read_outside(made, own):
                return False
    read: list[Value] = []
    for inner in body:
        graph.detach(inner)
        read.extend(inner.reads())
        for made in inner.outputs:
            if made is not None and id(made) not in kept:
                graph.remove_value(made)
    for value in node.reads():
        if not _is_outer(graph, value):
            graph.restore_value(value)  # a constant that only calls read has gone in the meantime
    graph.attach(node)
    for value in read:
        if graph.owns(value):
            graph.remove_if_unread(value)  # a constant of the body's own
    substituting.put([node], own)
    return True


def _has_same_place(graph: Graph, node: Node, body: set[int]) -> bool:
    """Whether all that a replaced call reads is at hand, and the nodes in its place make its outputs."""
    for value in node.outputs:
        if value is None:
            continue
        if graph.values.get(value.name) is not value or value.producer is None:
            return False
        if value.producer.index not in body:
            return False
    for value in node.reads():
        here = graph.values.get(value.name)
        if here is value or _is_outer(graph, value):
            continue
        if here is not None or value.initializer is None or not value.is_constant:
            return False
    return True


def _is_outer(graph: Graph, value: Value) -> bool:
    return graph.parent is not None and graph.parent.captures(value)


def _is_read_outside(value: Value, nodes: set[int]) -> bool:
    return value.is_output or any(c.index not in nodes for c in value.consumers)


def function_of(model: Model, node: Node) -> FunctionProto | None:
    """The function that the node calls; None when the node is an operator of its own."""
    overload = node.message.overload
    found = model.functions.get((node.domain, node.op_type, overload))
    if found is not None:
        return found
    opset = model.opsets.get(node.domain)
    schema: Any = schema_of(node.op_type, node.domain, opset) if opset is not None else None
    if schema is None:
        return None
    if schema.has_function:
        from ephost.reference.functions import schema_function

        return schema_function(schema, model.opsets.get("", newest_opset()))
    if schema.has_context_dependent_function:
        return _context_function(model, node, schema)
    return None


def _context_function(model: Model, node: Node, schema: Any) -> FunctionProto | None:
    version = model.opsets.get("", 1)
    versions = [v for v in schema.context_dependent_function_opset_versions if v <= version]
    if not versions:
        return None
    types = []
    for value in node.inputs:
        if value is None:
            types.append(TypeProto().SerializeToString())
        elif isinstance(value.type, TensorType):
            types.append(type_proto(value.type.element_type, value.type.dims).SerializeToString())
        elif value.type is not None:
            types.append(value.type.SerializeToString())
        else:
            return None
    try:
        text = schema.get_context_dependent_function_with_opset_version(
            max(versions), _with_types_of_outputs(node).SerializeToString(), types
        )
    except (RuntimeError, ValueError, IndexError) as error:
        raise InvalidGraph(f"the function of node {node.label} cannot be written out: {error}") from error
    return FunctionProto.FromString(text) if text else None


_NEVER = 1 << 31
# ONNX's operators of which newer versions than these have more types alone, or attributes that change nothing
# unless they are given.
_SAME_FROM = {
    **dict.fromkeys(("Add", "Div", "Mul", "Sub"), 7),
    **dict.fromkeys(("Flatten", "Gather"), 11),
    **dict.fromkeys(("Cast", "Constant", "LogSoftmax", "Softmax", "Squeeze", "Unsqueeze"), 13),
    **dict.fromkeys(("Identity", "Shape", "Size", "Transpose"), 1),
    "NegativeLogLikelihoodLoss": 12,
    "Reshape": 5,
}


def _fits(model: Model, function: FunctionProto) -> bool:
    """Whether the body's operators mean the same under the model's opsets as under the function's."""
    imports = {("" if e.domain == "ai.onnx" else e.domain): e.version for e in function.opset_import}
    for node in function.node:
        domain = "" if node.domain == "ai.onnx" else node.domain
        version = imports.get(domain, model.opsets.get(domain, 1))
        here = model.opsets.get(domain, version)
        versions = {since_version(node.op_type, domain, at) for at in (version, here)}
        same_from = _SAME_FROM.get(node.op_type, _NEVER) if not domain else _NEVER
        if len(versions) > 1 and min(versions) < same_from:
            return False
    return True


def _replace(model: Model, graph: Graph, node: Node, function: FunctionProto) -> list[Node]:
    from ephost.reference.attributes import bind_attributes
    from ephost.reference.functions import body_nodes

    opset = model.opsets.get(node.domain, 1)
    schema: Any = schema_of(node.op_type, node.domain, opset)
    bindings = {}
    if schema is not None:
        defaults = map(default_of, schema.attributes.values())
        bindings.update({a.name: a for a in defaults if a is not None})
    bindings.update({a.name: a for a in function.attribute_proto})
    bindings.update({a.name: a for a in _as_it_is(node).attribute})
    prefix = f"_inlfunc_{node.op_type}_{node.index}_"
    nodes = body_nodes(function, [value is not None for value in node.inputs])
    made = {name for inner in nodes if inner.op_type == "Constant" for name in inner.output}
    names: dict[str, str] = {}
    for at, name in enumerate(function.input):
        value = node.inputs[at] if at < len(node.inputs) else None
        if value is not None or name not in made:
            names[name] = "" if value is None else value.name
    outputs = node.outputs
    passed = []  # outputs that the body does not make: an input, or another output again
    for at, name in enumerate(function.output):
        out = outputs[at] if at < len(outputs) else None
        if name in names:
            if out is not None:
                passed.append((names[name], out.name))
            continue
        names[name] = prefix + name if out is None else out.name
    protos = []
    for inner in nodes:
        protos.append(_renamed_all(bind_attributes(inner, bindings), names, prefix))
    for source, target in passed:
        protos.append(make_node("Identity", [source], [target]))
    for entry in function.opset_import:
        domain = "" if entry.domain == "ai.onnx" else entry.domain
        model.opsets.setdefault(domain, entry.version)
    return _splice(model, graph, node, protos, f"the body of the function of node {node.label}")


def _splice(model: Model, graph: Graph, node: Node, protos: list[NodeProto], where: str) -> list[Node]:
    """Link nodes in the place of one, whose outputs they make; returns them, for the graph's list."""
    graph.detach(node, awaiting=True)
    outer = {value.name: value for value in node.reads() if graph.values.get(value.name) is not value}
    return Linker(model, None).nodes(protos, graph.values, (outer,) if outer else (), where)


def inline_decided_ifs(model: Model) -> bool:
    """Put the branch that will be taken in the place of each If whose condition is known, but for those that
    an EP has claimed, whole or in part; True when there was one.
    """
    changed = False
    for graph in list(all_graphs(model.graph)):
        substituting = Substituting(graph)
        for node in graph.nodes:
            condition = node.inputs[0] if node.op_type == "If" and node.domain == "" and node.inputs else None
            if condition is None or not condition.is_constant or condition.initializer is None:
                continue
            if condition.initializer.size != 1 or node.has_claims:
                continue
            taken = "then_branch" if bool(condition.initializer.reshape(-1)[0]) else "else_branch"
            if taken in node.subgraphs:
                made = _take_branch(model, graph, node, node.subgraphs[taken])
                substituting.put(made, (node.index,))
                changed = True
        substituting.settle()
        for node in graph.nodes if changed else ():
            if node.subgraphs:
                graph.forget_captured(node)  # what only the other branches read
    return changed


def _take_branch(model: Model, graph: Graph, node: Node, branch: Graph) -> list[Node]:
    prefix = f"_if_{node.index}_"
    made_by_nodes = {v.name for n in branch.nodes for v in n.outputs if v is not None}
    names: dict[str, str] = {}
    for name, value in branch.values.items():
        if value.initializer is not None:
            names[name] = prefix + name
            copy = Value(
                prefix + name,
                value.type,
                initializer=value.initializer,
                external=value.external,
                is_constant=value.is_constant,
            )
            graph.restore_value(copy)
    passed = []  # what the branch does not make, or gives twice
    for value, out in zip(branch.outputs, node.outputs, strict=False):
        if out is None:
            continue
        if value.name in made_by_nodes and value.name not in names:
            names[value.name] = out.name
        else:
            passed.append((names.get(value.name, value.name), out.name))
    for name in made_by_nodes:
        names.setdefault(name, prefix + name)
    protos = []
    for inner in branch.nodes:
        protos.append(_renamed(_as_it_is(inner), names, prefix))
    for source, target in passed:
        protos.append(make_node("Identity", [source], [target]))
    return _splice(model, graph, node, protos, f"the branch of node {node.label}")


def _as_it_is(node: Node) -> NodeProto:
    """The node's message with its bodies as they are by now: nodes may have gone from them, and others read
    what the message knows nothing of. Where an EP has claimed a part of them, they are as they were read:
    no message says what it has made of that part.
    """
    message = node.proto
    if not node.subgraphs or node.has_claims:
        return message
    attributes = []
    for attribute in message.attribute:
        body = node.subgraphs.get(attribute.name) if attribute.type == AttributeProto.GRAPH else None
        if body is not None and not _is_as_read(body, attribute.g):
            attribute = attribute.with_fields(g=_message_of(body))
        attributes.append(attribute)
    return message.with_fields(attribute=attributes)


def _with_types_of_outputs(node: Node) -> NodeProto:
    """The node's message with bodies that say what they make: the function of SequenceMap begins with an
    empty sequence of that, and the message may have been read without.
    """
    message = _as_it_is(node)
    attributes = []
    for attribute in message.attribute:
        body = node.subgraphs.get(attribute.name) if attribute.type == AttributeProto.GRAPH else None
        if body is not None:
            told = [
                info if info.type.WhichOneof("value") else info.with_fields(type=value_info_of(value).type)
                for info, value in zip(attribute.g.output, body.outputs, strict=True)
            ]
            attribute = attribute.with_fields(g=attribute.g.with_fields(output=told))
        attributes.append(attribute)
    return message.with_fields(attribute=attributes) if node.subgraphs else message


def _is_as_read(body: Graph, message: GraphProto) -> bool:
    """Whether a body is what its message says, whose nodes are the messages of the body's."""
    constants = {each.name for each in (*message.input, *message.initializer)}
    constants |= {each.values.name for each in message.sparse_initializer}
    read = set()
    for node in message.node:
        if node.op_type == "Constant" and not node.domain:
            constants.update(node.output)
        else:
            read.add(id(node))
    return (
        read == {id(node.message) for node in body.nodes}
        and all(value.name in constants for value in body.initializers)
        and not any(node.is_edited for node in body.nodes)
        and all(
            _is_as_read(inner, attribute.g)
            for node in body.nodes
            for attribute in node.message.attribute
            if (inner := node.subgraphs.get(attribute.name)) is not None
        )
    )


def _message_of(body: Graph) -> GraphProto:
    held = {*body.inputs, *body.outputs}
    return GraphProto(
        name=body.name,
        node=[_as_it_is(node) for node in body.nodes],
        initializer=[tensor_of(value) for value in body.initializers],
        input=[value_info_of(value) for value in body.inputs],
        output=[value_info_of(value) for value in body.outputs],
        value_info=[
            listed_info_of(value)
            for value in body.values.values()
            if value.type is not None and value not in held and value.initializer is None
        ],
    )


def _renamed_all(node: NodeProto, names: dict[str, str], prefix: str) -> NodeProto:
    """A body's node with the names that its values have in the caller's graph; notes those that are new."""
    for name in (*node.input, *node.output):
        if name:
            names.setdefault(name, prefix + name)
    return _renamed(node, names, prefix)


def _renamed(node: NodeProto, names: Mapping[str, str], prefix: str) -> NodeProto:
    """The node with other names of values, in its bodies too; all else, like large tensors, is not copied."""
    return node.with_fields(
        input=[names.get(name, name) for name in node.input],
        output=[names.get(name, name) for name in node.output],
        attribute=[_with_renamed_bodies(attribute, names, prefix) for attribute in node.attribute],
    )


def _with_renamed_bodies(attribute: AttributeProto, names: Mapping[str, str], prefix: str) -> AttributeProto:
    if not attribute.bodies():
        return attribute
    graphs = [_renamed_captured(graph, names, prefix) for graph in attribute.graphs]
    if not attribute.HasField("g"):
        return attribute.with_fields(graphs=graphs)
    return attribute.with_fields(g=_renamed_captured(attribute.g, names, prefix), graphs=graphs)


def _renamed_captured(graph: GraphProto, names: Mapping[str, str], prefix: str) -> GraphProto:
    """A body with the new names of the values of around it that it reads."""
    declared: list[Any] = [
        *graph.input,
        *graph.initializer,
        *(each.values for each in graph.sparse_initializer),
    ]
    own = {value.name for value in declared}
    own |= {name for node in graph.node for name in node.output if name}
    visible = {name: new for name, new in names.items() if name not in own}
    # A value of the body's own would hide one around it that has that name now.
    taken = {*visible.values(), *own}
    for name in sorted(own.intersection(visible.values())):
        new = prefix + name
        while new in taken:
            new += "_"
        taken.add(new)
        visible[name] = new

    def named(value: Any) -> Any:
        return value.with_fields(name=visible[value.name]) if value.name in visible else value

    return graph.with_fields(
        input=[named(value) for value in graph.input],
        output=[named(value) for value in graph.output],
        initializer=[named(tensor) for tensor in graph.initializer],
        sparse_initializer=[each.with_fields(values=named(each.values)) for each in graph.sparse_initializer],
        value_info=[named(value) for value in graph.value_info],
        node=[_renamed(node, visible, prefix) for node in graph.node],
    )
