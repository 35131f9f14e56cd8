"""Changes of the models' fuzzer that put a part of a graph elsewhere: into bodies and functions, beside
another model's. They keep what a model computes, unless something else has been changed.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from tests.fuzz.model_draft import Draft, Place, bodies, renamed

MOST = 6  # nodes in a part


def _reads(nodes: Any) -> list[str]:
    """What nodes read that none of them makes, in bodies, too."""
    found: dict[str, None] = {}
    made: set[str] = set()
    for node in nodes:
        names = list(node.input)
        for graph in bodies(node):
            own = {i.name for i in graph.input} | {t.name for t in graph.initializer}
            names += [
                name for name in [*_reads(graph.node), *(o.name for o in graph.output)] if name not in own
            ]
            made |= {name for inner in graph.node for name in inner.output}
        found.update(dict.fromkeys(name for name in names if name and name not in made))
        made |= set(node.output)
    return list(found)


def _part(draft: Draft) -> tuple[Place, int, list[onnx.NodeProto], list[str]] | None:
    """Neighbouring nodes, copied, and what of them others read; they are gone from where they were."""
    place = draft.place(0.3)
    if not place.nodes:
        return None
    first = draft.random.randrange(len(place.nodes))
    last = min(len(place.nodes), first + draft.random.randint(1, MOST))
    part = [onnx.NodeProto.FromString(node.SerializeToString()) for node in place.nodes[first:last]]
    del place.nodes[first:last]
    after = set(_reads(place.nodes)) | {o if isinstance(o, str) else o.name for o in place.outputs}
    made = [name for node in part for name in node.output if name in after]
    if not made:
        place.nodes.extend(part)
        return None
    return place, first, part, made


def _body(part: list[onnx.NodeProto], made: list[str], suffix: str, name: str) -> onnx.GraphProto:
    """A graph of the nodes, whose values have other names; its outputs have no type."""
    nodes = [onnx.NodeProto.FromString(node.SerializeToString()) for node in part]
    if suffix:
        renamed(nodes, {output: output + suffix for node in part for output in node.output if output})
    graph = helper.make_graph(nodes, name, [], [])
    for output in made:
        graph.output.add(name=output + suffix)
    return graph


def wrap_in_if(draft: Draft) -> str:
    found = _part(draft)
    if found is None:
        return ""
    place, at, part, made = found
    condition = f"wrapped{len(draft.changes)}"
    suffix = "" if draft.random.random() < 0.2 else "_w"  # "" shadows what the If makes itself
    node = helper.make_node(
        "If",
        [condition],
        made,
        "wrapping",
        then_branch=_body(part, made, suffix, "then"),
        else_branch=_body(part, made, suffix, "else"),
    )
    place.nodes.insert(at, node)
    value = np.array(draft.random.random() < 0.5)
    if place.graph is draft.model.graph and draft.random.random() < 0.6:
        place.inputs.append(helper.make_tensor_value_info(condition, TensorProto.BOOL, []))
        draft.feeds[condition] = value
    else:
        constant = helper.make_node("Constant", [], [condition], value=numpy_helper.from_array(value))
        place.nodes.insert(at, constant)
    return f"{len(part)} nodes are in an If"


def wrap_in_loop(draft: Draft) -> str:
    """One trip, or a few, whose last one counts; what it makes is collected and taken out again."""
    found = _part(draft)
    if found is None:
        return ""
    place, at, part, made = found
    trips, last = draft.random.choice([1, 1, 2, 3]), f"last{len(draft.changes)}"
    body = _body(part, made, "_l", "body")
    body.input.extend(
        [
            helper.make_tensor_value_info("i_l", TensorProto.INT64, []),
            helper.make_tensor_value_info("going_l", TensorProto.BOOL, []),
        ]
    )
    body.node.append(helper.make_node("Identity", ["going_l"], ["on_l"]))
    body.output.insert(0, helper.make_tensor_value_info("on_l", TensorProto.BOOL, []))
    count = helper.make_node("Constant", [], [f"{last}n"], value=numpy_helper.from_array(np.array(trips)))
    index = helper.make_node("Constant", [], [last], value=numpy_helper.from_array(np.array(trips - 1)))
    loop = helper.make_node("Loop", [f"{last}n", ""], [f"{name}_all" for name in made], "wrapping", body=body)
    taken = [helper.make_node("Gather", [f"{name}_all", last], [name], axis=0) for name in made]
    for node in reversed([count, index, loop, *taken]):
        place.nodes.insert(at, node)
    return f"{len(part)} nodes are in a Loop of {trips}"


def wrap_in_function(draft: Draft) -> str:
    found = _part(draft)
    if found is None:
        return ""
    place, at, part, made = found
    reads = _reads(part)
    name = f"Wrapped{len(draft.changes)}"
    imports = list(draft.model.opset_import)
    made_function = helper.make_function("wrapped", name, reads, made, part, imports)
    draft.model.functions.append(made_function)
    if not any(o.domain == "wrapped" for o in draft.model.opset_import):
        draft.model.opset_import.append(helper.make_opsetid("wrapped", 1))
    if place.function is not None and not any(o.domain == "wrapped" for o in place.function.opset_import):
        place.function.opset_import.append(helper.make_opsetid("wrapped", 1))
    place.nodes.insert(at, helper.make_node(name, reads, made, "wrapping", domain="wrapped"))
    return f"{len(part)} nodes are a function"


def capture(draft: Draft) -> str:
    """A body reads or gives a value of the graph around it."""
    inner = [place for place in draft.places() if place.outer]
    if not inner:
        return ""
    place = draft.random.choice(inner)
    outer = [name for each in place.outer for name in each.given() + each.made() if name]
    if not outer:
        return ""
    name = draft.random.choice(outer)
    if draft.random.random() < 0.5 and place.outputs:
        draft.random.choice(place.outputs).name = name
        return f"a body gives {name[:20]!r} of around it"
    if not place.nodes:
        return ""
    node = draft.random.choice(place.nodes)
    if not node.input:
        return ""
    node.input[draft.random.randrange(len(node.input))] = name
    return f"{node.op_type} in a body reads {name[:20]!r} of around it"


def join(draft: Draft, other: onnx.ModelProto, feeds: dict[str, Any]) -> str:
    """Another model's graph is beside this one's, and may read what this one makes."""
    theirs, ours = other.graph, draft.model.graph
    if len(draft.model.functions) + len(other.functions) > 8 or other.ByteSize() > 1 << 17:
        return ""
    names = [i.name for i in theirs.input] + [t.name for t in theirs.initializer]
    names += [name for node in theirs.node for name in node.output]
    names += [t.values.name for t in theirs.sparse_initializer]
    prefix = f"j{len(draft.changes)}_"
    table = {name: prefix + name for name in names if name}
    renamed(theirs.node, table)
    for each in [*theirs.input, *theirs.output, *theirs.value_info, *theirs.initializer]:
        each.name = table.get(each.name, each.name)
    for sparse in theirs.sparse_initializer:
        sparse.values.name = table.get(sparse.values.name, sparse.values.name)
    if ours.output and theirs.input and draft.random.random() < 0.6:
        # One of its inputs is one of our outputs, of the same type if there is one.
        read = draft.random.choice(theirs.input)
        kind = read.type.tensor_type.elem_type
        fitting = [o for o in ours.output if o.type.tensor_type.elem_type == kind] or list(ours.output)
        renamed(theirs.node, {read.name: draft.random.choice(fitting).name})
        theirs.input.remove(read)
    wanted = {i.name for i in theirs.input}
    for field in ("node", "input", "output", "initializer", "sparse_initializer", "value_info"):
        getattr(ours, field).extend(getattr(theirs, field))
    draft.model.functions.extend(other.functions)
    draft.feeds.update({prefix + name: value for name, value in feeds.items() if prefix + name in wanted})
    have = {o.domain: o for o in draft.model.opset_import}
    for opset in other.opset_import:
        if opset.domain in have:
            have[opset.domain].version = max(have[opset.domain].version, opset.version)
        else:
            draft.model.opset_import.append(opset)
    draft.model.ir_version = max(draft.model.ir_version, other.ir_version)
    return f"{theirs.node[0].op_type if theirs.node else 'nothing'} and more joins"


WRAPPING = [(4, wrap_in_if), (4, wrap_in_loop), (4, wrap_in_function), (3, capture)]
