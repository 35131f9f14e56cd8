"""Nodes with bodies (If, Loop, Scan, calls of functions) replaced by what is in them: smaller models."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np
import onnx
from onnx import helper, inliner, numpy_helper

from ephost.bisection.slicing import rename_reads

_SCAN_OF_TODAY = 9  # the opset since which Scan has no axis for a batch


def opened(model: onnx.ModelProto) -> Iterator[tuple[str, onnx.ModelProto]]:
    """Models with one body opened, each with what that was.

    Of an If there is one for each branch; of a Loop and a Scan the one of the first time around. They need
    not compute the same as the model: whoever takes one looks whether it serves.
    """
    if any((each.domain, each.name) in _calls(model) for each in model.functions):
        yield "functions' calls", inliner.inline_local_functions(model)
    for at, node in enumerate(model.graph.node):
        bodies = {a.name: a.g for a in node.attribute if a.type == onnx.AttributeProto.GRAPH}
        if node.domain not in ("", "ai.onnx") or not bodies:
            continue
        if node.op_type == "If":
            for name, body in bodies.items():
                yield f"the If around its {name}", _with_body(model, at, body, {}, [])
        elif node.op_type == "Loop":
            yield "the Loop around its body", _first_of_loop(model, at, bodies["body"])
        elif node.op_type == "Scan" and _opset(model) >= _SCAN_OF_TODAY:
            yield "the Scan around its body", _first_of_scan(model, at, bodies["body"])


def _calls(model: onnx.ModelProto) -> set[tuple[str, str]]:
    return {(node.domain, node.op_type) for node in model.graph.node}


def _opset(model: onnx.ModelProto) -> int:
    return next((each.version for each in model.opset_import if each.domain in ("", "ai.onnx")), 1)


def _first_of_loop(model: onnx.ModelProto, at: int, body: onnx.GraphProto) -> onnx.ModelProto:
    node = model.graph.node[at]
    constants = [numpy_helper.from_array(np.array(0, np.int64), f"{node.name}__first")]
    given = {body.input[0].name: constants[0].name}
    if len(node.input) > 1 and node.input[1]:
        given[body.input[1].name] = node.input[1]
    else:
        constants.append(numpy_helper.from_array(np.array(True), f"{node.name}__going_on"))
        given[body.input[1].name] = constants[1].name
    given.update((v.name, name) for v, name in zip(body.input[2:], node.input[2:], strict=False))
    made = _with_body(model, at, body, given, [], first_output=1)
    made.graph.initializer.extend(constants)
    return made


def _first_of_scan(model: onnx.ModelProto, at: int, body: onnx.GraphProto) -> onnx.ModelProto:
    node = model.graph.node[at]
    attributes = {a.name: helper.get_attribute_value(a) for a in node.attribute}
    scanned = attributes["num_scan_inputs"]
    states = len(node.input) - scanned
    given = {v.name: name for v, name in zip(body.input[:states], node.input[:states], strict=False)}
    first = f"{node.name}__first"
    axes = attributes.get("scan_input_axes", [0] * scanned)
    gathers = []
    for value, name, axis in zip(body.input[states:], node.input[states:], axes, strict=False):
        given[value.name] = f"{value.name}__first"
        gathers.append(helper.make_node("Gather", [name, first], [given[value.name]], axis=axis))
    made = _with_body(model, at, body, given, gathers)
    made.graph.initializer.append(numpy_helper.from_array(np.array(0, np.int64), first))
    return made


def _with_body(
    model: onnx.ModelProto,
    at: int,
    body: onnx.GraphProto,
    given: Mapping[str, str],
    before: list[onnx.NodeProto],
    first_output: int = 0,
) -> onnx.ModelProto:
    """The nodes of a body in the place of the node that has it.

    Args:
        model: with the node.
        at: its number.
        body: one of its graphs.
        given: for the body's inputs the values that stand for them.
        before: nodes that make these.
        first_output: of the body, which the node's first output is.
    """
    made = onnx.ModelProto()
    made.CopyFrom(model)
    node = model.graph.node[at]
    names = dict(given)
    passed = []
    produced = {name for inner in body.node for name in inner.output}
    for value, name in zip(body.output[first_output:], node.output, strict=False):
        if value.name in produced and value.name not in names:
            names[value.name] = name
        else:  # it hands on what it was given, or the same once more
            passed.append(helper.make_node("Identity", [names.get(value.name, value.name)], [name]))
    inside = []
    for inner in body.node:
        copied = onnx.NodeProto()
        copied.CopyFrom(inner)
        rename_reads(copied, names)
        for place, output in enumerate(copied.output):
            copied.output[place] = names.get(output, output)
        inside.append(copied)
    nodes = [*model.graph.node[:at], *before, *inside, *passed, *model.graph.node[at + 1 :]]
    del made.graph.node[:]
    made.graph.node.extend(nodes)
    made.graph.initializer.extend(body.initializer)
    made.graph.sparse_initializer.extend(body.sparse_initializer)
    del made.graph.value_info[:]
    return made
