"""Changes of the models' fuzzer to nodes, links, inputs and outputs. Each says what it did, "" if nothing."""

# ruff: noqa: E501 - tables
from __future__ import annotations

import onnx
from onnx import AttributeProto, TensorProto, helper

from tests.fuzz.examples import schema_of
from tests.fuzz.model_draft import NAMES, Draft, renamed

OPERATORS = ["Add", "Mul", "MatMul", "Neg", "Relu", "Identity", "Cast", "Reshape", "Transpose", "Concat", "Split",
             "Gather", "Shape", "Constant", "If", "Loop", "Scan", "SequenceAt", "SequenceConstruct", "Optional",
             "Dropout", "ReduceSum", "Squeeze", "Unsqueeze", "Expand", "Where", "Softmax", "Gemm", "Conv", "Nope",
             "QuantizeLinear", "DequantizeLinear", "Pad", "Slice", "Resize", "TopK", "Sum", "Max", ""]  # fmt: skip
DOMAINS = ["", "ai.onnx", "com.microsoft", "ai.onnx.ml", "f", "nowhere", "ai.onnx.preview.training"]


def delete_node(draft: Draft) -> str:
    place, node = draft.node()
    if node is None:
        return ""
    del place.nodes[list(place.nodes).index(node)]
    return f"no {node.op_type}"


def bypass_node(draft: Draft) -> str:
    """Without the node, its readers read what it read."""
    place, node = draft.node()
    if node is None or not node.input or not node.output:
        return ""
    names = {node.output[0]: node.input[0]}
    kind = node.op_type
    del place.nodes[list(place.nodes).index(node)]
    renamed(place.nodes, names)
    if place.graph is not None:
        for info in place.graph.output:
            info.name = names.get(info.name, info.name)
    return f"round {kind}"


def duplicate_node(draft: Draft) -> str:
    place, node = draft.node()
    if node is None:
        return ""
    again = onnx.NodeProto()
    again.CopyFrom(node)
    other = draft.random.random() < 0.6
    if other:
        for at, name in enumerate(again.output):
            again.output[at] = f"{name}_again" if name else ""
        if draft.random.random() < 0.5 and place.graph is not None and again.output:
            place.outputs.add(name=again.output[0])
    place.nodes.insert(draft.random.randint(0, len(place.nodes)), again)
    return f"{node.op_type} twice{', with other outputs' if other else ''}"


def swap_nodes(draft: Draft) -> str:
    place = draft.place()
    nodes = [onnx.NodeProto.FromString(node.SerializeToString()) for node in place.nodes]
    if len(nodes) < 2:
        return ""
    draft.random.shuffle(nodes)
    del place.nodes[:]
    place.nodes.extend(nodes)
    return "nodes in another order"


def move_node(draft: Draft) -> str:
    """Into a body, or out of it."""
    place, node = draft.node()
    other = draft.place(0.7)
    if node is None or other.nodes is place.nodes:
        return ""
    moved = onnx.NodeProto()
    moved.CopyFrom(node)
    if draft.random.random() < 0.5:
        del place.nodes[list(place.nodes).index(node)]
    other.nodes.insert(draft.random.randint(0, len(other.nodes)), moved)
    return f"{moved.op_type} elsewhere"


def rename_node(draft: Draft) -> str:
    place, node = draft.node()
    if node is None:
        return ""
    node.name = draft.random.choice([*NAMES, *(other.name for other in place.nodes)])
    if draft.random.random() < 0.2:
        node.doc_string = draft.random.choice(NAMES)
    if draft.random.random() < 0.1:
        node.overload = draft.random.choice(NAMES)
    return f"{node.op_type} is named {node.name[:20]!r}"


def operator(draft: Draft) -> str:
    _, node = draft.node()
    if node is None:
        return ""
    was = node.op_type
    functions = [f.name for f in draft.model.functions]
    node.op_type = draft.random.choice([*OPERATORS, *functions * 4])
    if node.op_type in functions:
        node.domain = draft.random.choice(draft.model.functions).domain
    return f"{was} is {node.op_type}"


def domain(draft: Draft) -> str:
    _, node = draft.node()
    if node is None:
        return ""
    node.domain = draft.random.choice(DOMAINS)
    if draft.random.random() < 0.5 and node.domain not in {o.domain for o in draft.model.opset_import}:
        draft.model.opset_import.append(helper.make_opsetid(node.domain, draft.random.choice([1, 1, 2, 5])))
    return f"{node.op_type} is of {node.domain!r}"


def link(draft: Draft) -> str:
    """An input of a node is another value, none, or one that is not there."""
    place, node = draft.node()
    if node is None:
        return ""
    name = draft.name(place)
    match draft.random.randrange(6):
        case 0 if node.input:
            node.input.pop()
            return f"{node.op_type} reads one less"
        case 1:
            node.input.append(name)
            return f"{node.op_type} reads {name[:20]!r}, too"
        case 2 if len(node.input) > 1:
            given = list(node.input)
            draft.random.shuffle(given)
            node.input[:] = given
            return f"inputs of {node.op_type} in another order"
        case 3 if node.input and node.output:
            name = draft.random.choice(node.output)
    if not node.input:
        return ""
    at = draft.random.randrange(len(node.input))
    node.input[at] = name
    return f"input {at} of {node.op_type} is {name[:20]!r}"


def give(draft: Draft) -> str:
    """An output of a node has another name, none, or one that there is."""
    place, node = draft.node()
    if node is None:
        return ""
    name = draft.name(place)
    match draft.random.randrange(4):
        case 0 if node.output:
            node.output.pop()
            return f"{node.op_type} makes one less"
        case 1:
            node.output.append(name)
            return f"{node.op_type} makes {name[:20]!r}, too"
        case 2 if len(node.output) > 1:
            made = list(node.output)
            draft.random.shuffle(made)
            node.output[:] = made
            return f"outputs of {node.op_type} in another order"
    if not node.output:
        return ""
    at = draft.random.randrange(len(node.output))
    node.output[at] = name
    return f"output {at} of {node.op_type} is {name[:20]!r}"


def rename_value(draft: Draft) -> str:
    """Everywhere, to what no other has, to what shadows another or to what another has."""
    place = draft.place(0.6)
    names = [name for name in place.given() + place.made() if name]
    if not names:
        return ""
    before, after = draft.random.choice(names), draft.name(place)
    if draft.random.random() < 0.3:
        after = f"{before}_"
    renamed(place.nodes, {before: after})
    for held in (place.inputs, place.outputs):
        for at, each in enumerate(held):
            if isinstance(each, str):
                held[at] = after if each == before else each
            elif each.name == before:
                each.name = after
    if place.graph is not None:
        for tensor in [*place.graph.initializer, *(s.values for s in place.graph.sparse_initializer)]:
            if tensor.name == before:
                tensor.name = after
    if before in draft.feeds and place.graph is draft.model.graph:
        draft.feeds[after] = draft.feeds[before]
    return f"{before[:20]!r} is {after[:20]!r}"


def interface(draft: Draft) -> str:
    """Inputs and outputs of a graph or a function: fewer, more, twice, in another order."""
    random, place = draft.random, draft.place()
    which, held = random.choice([("inputs", place.inputs), ("outputs", place.outputs)])
    match random.randrange(6):
        case 0 if held:
            del held[random.randrange(len(held))]
            return f"one of the {which} less"
        case 1 if held:
            held.append(held[random.randrange(len(held))])
            return f"one of the {which} twice"
        case 2 if len(held) > 1:
            every = [e if isinstance(e, str) else type(e).FromString(e.SerializeToString()) for e in held]
            random.shuffle(every)
            del held[:]
            held.extend(every)
            return f"{which} in another order"
        case 3:
            del held[:]
            return f"none of the {which}"
        case _:
            name = draft.name(place)
            if place.graph is None:
                held.append(name)
            elif which == "outputs" and random.random() < 0.6:
                held.add(name=name)
            else:
                kind, dims = (
                    random.choice([TensorProto.FLOAT, TensorProto.INT64, TensorProto.BOOL]),
                    draft.dims([2]),
                )
                held.append(helper.make_tensor_value_info(name, kind, dims))
            return f"{name[:20]!r} is among the {which}, too"


def attribute(draft: Draft) -> str:
    """A value, a type or a name of an attribute; with and without; several of one name."""
    random = draft.random
    _, node = draft.node()
    if node is None:
        return ""
    version = next((o.version for o in draft.model.opset_import if o.domain == node.domain), 1)
    schema = schema_of(node, version)
    known = {n: a.type.value for n, a in schema.attributes.items()} if schema else {}
    given = {a.name: a for a in node.attribute}
    known.update({name: a.type for name, a in given.items()})
    if not known:
        known = {random.choice(["axis", "to", "perm", "body"]): AttributeProto.INT}
    name = random.choice(sorted(given or known)) if random.random() < 0.5 else random.choice(sorted(known))
    kind, old = known[name], given.get(name)
    match random.randrange(10):
        case 0 if old is not None:
            node.attribute.remove(old)
            return f"{node.op_type} has no {name}"
        case 1 if old is not None:
            node.attribute.append(old)
            return f"{node.op_type} has two {name}"
        case 2 if old is not None:
            old.name = random.choice([*NAMES, *known])
            return f"{name} of {node.op_type} is named {old.name[:20]!r}"
        case 3 if old is not None:
            old.type = random.randrange(15)
            return f"{name} of {node.op_type} is said to be of type {old.type}"
        case 4 if old is not None:
            old.ref_attr_name = random.choice([*NAMES, *known])
            return f"{name} of {node.op_type} is the function's {old.ref_attr_name[:20]!r}"
        case 5:
            kind = random.choice([1, 2, 3, 4, 6, 7, 8, 13])
    if kind in (AttributeProto.GRAPH, AttributeProto.GRAPHS):
        return ""
    if old is not None:
        node.attribute.remove(old)
    made = draft.attribute_of(name, kind, old)
    node.attribute.append(made)
    return f"{name} of {node.op_type} = {str(helper.get_attribute_value(made))[:60]!r}"


def swap_bodies(draft: Draft) -> str:
    """The bodies of a node change places, or one is another node's."""
    held = [
        (node, attribute)
        for place in draft.places()
        for node in place.nodes
        for attribute in node.attribute
        if attribute.type == AttributeProto.GRAPH
    ]
    if len(held) < 2:
        return ""
    (node, one), (_, other) = draft.random.sample(held, 2)
    if len(other.SerializeToString()) + len(one.SerializeToString()) > 1 << 16:
        return ""
    first, second = onnx.GraphProto(), onnx.GraphProto()
    first.CopyFrom(one.g)
    second.CopyFrom(other.g)
    one.g.CopyFrom(second)
    if draft.random.random() < 0.5:
        other.g.CopyFrom(first)
    return f"another body of {node.op_type}"


GRAPH_CHANGES = [
    (6, delete_node),
    (6, bypass_node),
    (8, duplicate_node),
    (6, swap_nodes),
    (4, move_node),
    (3, rename_node),
    (6, operator),
    (4, domain),
    (16, link),
    (8, give),
    (8, rename_value),
    (10, interface),
    (14, attribute),
    (4, swap_bodies),
]
