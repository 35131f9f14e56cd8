"""What ONNX says a node may be: its operator, attributes, how many inputs and outputs, and of which types.

Asked once for each operator (or operator with input types), so that a node costs two or three look-ups.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from typing import Any

from ephost.errors import InvalidGraph
from ephost.messages import AttributeProto, FunctionProto, NodeProto, TensorProto, TypeProto
from ephost.model.choices import CHOICES, Choices
from ephost.model.contrib import is_contrib
from ephost.model.fitting import misfit
from ephost.model.graph import Graph, Node, TensorType, schema_of
from ephost.onnx_schema import SINGLE, VARIADIC
from ephost.records import Record

MOST_NODES_OF_A_FUNCTION = 1_000_000  # with those of the functions that it calls
_NO_TENSOR = -1  # the type of a sequence, a map or an optional value
Functions = Mapping[tuple[str, str, str], FunctionProto]
_MOST_DIMENSIONS = 255  # of a tensor: onnx's inference reads beyond its list for others
# The attributes that are looked at besides, whatever the operator.
_CHECKED_BY_NAME = frozenset(("axis", "batch_dims", "equation", "num_outputs"))
# What an Einsum may say, without its blanks. onnx's inference never ends on other characters.
_TERM = rb"[A-Za-z]*(?:\.\.\.)?[A-Za-z]*"
_EQUATION = rb"%b(?:,%b)*(?:->%b)?" % (_TERM, _TERM, _TERM)


class _Rules(Record, frozen=True):
    inputs: tuple[int, int]
    outputs: tuple[int, int]
    needed: tuple[str, ...]  # the names of the inputs, "" for those that may be left out
    rest: str  # the name of those that may be any number, "" where there are none
    attributes: Mapping[str, int]  # name -> AttributeProto.AttributeType
    required: frozenset[str]


@cache
def _rules(op_type: str, domain: str, version: int) -> _Rules | None:
    schema = schema_of(op_type, domain, version)
    if schema is None:
        return None
    attributes, inputs = schema.attributes, schema.inputs
    return _Rules(
        (schema.min_input, schema.max_input),
        (schema.min_output, schema.max_output),
        tuple(p.name if p.option.value == SINGLE else "" for p in inputs),
        inputs[-1].name if inputs and inputs[-1].option.value == VARIADIC else "",
        {name: int(attribute.type.value) for name, attribute in attributes.items()},
        frozenset(name for name, attribute in attributes.items() if attribute.required),
    )


def plain_counts(op_type: str, domain: str, opset: int | None) -> tuple[int, int, int, int]:
    """How many inputs and outputs a node of an operator has at least and at most against which
    :func:`check_node` has nothing to say, as long as it leaves out no input and has no attributes; there are
    no such numbers where it is to be asked in any case.
    """
    rules = _rules(op_type, domain, opset) if opset is not None else None
    return (1, 0, 1, 0) if rules is None or rules.required else (*rules.inputs, *rules.outputs)


def unknown_operator(node: Node, opset: int | None) -> InvalidGraph:
    """The error over a node in ONNX's domain that is of none of ONNX's operators."""
    return InvalidGraph(f"node {node.label}: ONNX has no operator {node.op_type} at opset {opset}")


def check_node(node: Node, opset: int | None, functions: Functions) -> bool:
    """Look at one node's operator, attributes and counts.

    Args:
        node: before its inputs are linked.
        opset: the version of its domain that the model imports; None when it imports none.
        functions: the model's own, which stand for operators.

    Returns:
        False where it has to be a custom operator: it is in ONNX's domain, and ONNX has none of that name.

    Raises:
        InvalidGraph: naming the node and what is wrong.
    """
    if functions and (called := functions.get((node.domain, node.op_type, node.message.overload))):
        _check_call(node, called)
    if len(names := [attribute.name for attribute in node.message.attribute]) != len(set(names)):
        twice = Counter(names).most_common(1)[0][0]
        raise InvalidGraph(f"node {node.label} has the attribute '{twice}' more than once")
    rules = _rules(node.op_type, node.domain, opset) if opset is not None else None
    if rules is None:
        if opset is not None and is_contrib(node.proto, opset):
            _check_values(node)
            return True
        if node.domain or any((d, n) == ("", node.op_type) for d, n, _ in functions):
            return True
        if opset is None:
            raise InvalidGraph(f"node {node.label}: the model imports no opset of ai.onnx")
        return False
    proto = node.message
    if not rules.inputs[0] <= len(proto.input) <= rules.inputs[1]:
        raise _wrong_count(node, "input", len(proto.input), rules.inputs)
    if not rules.outputs[0] <= len(proto.output) <= rules.outputs[1]:
        raise _wrong_count(node, "output", len(proto.output), rules.outputs)
    if "" in proto.input:
        for name, needed in zip(proto.input, rules.needed, strict=False):
            if needed and not name:
                raise InvalidGraph(
                    f"node {node.label} leaves out its input '{needed}', which is not optional"
                )
        if rules.rest and "" in proto.input[len(rules.needed) - 1 :]:
            raise InvalidGraph(
                f"node {node.label} leaves out one of its inputs '{rules.rest}', none of which is optional"
            )
    if proto.attribute or rules.required:
        _check_attributes(node, rules)
    return True


def _check_call(node: Node, function: FunctionProto) -> None:
    """What a function has no name for would be passed over, and what it does not make would be nothing."""
    message = node.message
    for what, given, known in (
        ("inputs", message.input, function.input),
        ("outputs", message.output, function.output),
    ):
        if any(given[len(known) :]):
            raise InvalidGraph(f"node {node.label} has {len(given)} {what}, its function {len(known)}")


def _wrong_count(node: Node, what: str, count: int, allowed: tuple[int, int]) -> InvalidGraph:
    return InvalidGraph(f"node {node.label} has {count} {what}s: {allowed[0]} to {allowed[1]} are allowed")


def _check_attributes(node: Node, rules: _Rules) -> None:
    proto, op_type = node.proto, node.op_type
    missing = set(rules.required)
    choices = CHOICES.get(node.domain, {})
    for attribute in proto.attribute:
        name, given = attribute.name, attribute.type
        kind = rules.attributes.get(name)
        if kind is None:
            if name.startswith("_"):  # onnxruntime's private ones
                continue
            raise InvalidGraph(f"node {node.label} has an attribute '{name}': its operator has none")
        if given != kind or attribute.ref_attr_name:
            _check_form(attribute, node.label)
            names = AttributeProto.AttributeType
            raise InvalidGraph(
                f"the attribute '{name}' of node {node.label} is of type "
                f"{names.Name(given)} instead of {names.Name(kind)}"
            )
        missing.discard(name)
        if kind == AttributeProto.STRINGS and b"\0" in b"".join(attribute.strings):
            node.is_hosts = True  # plugins get each text of a list with a zero byte for its end
        if (allowed := choices.get((op_type, name))) is not None:
            _check_choice(attribute, allowed, node.label)
        if name in _CHECKED_BY_NAME:
            _check_equation(attribute, node.label)
            _check_parts(attribute, proto, node.label)
            _check_axes(attribute, kind, node)
    if missing:
        raise InvalidGraph(f"node {node.label} lacks the attribute '{min(missing)}'")
    if node.op_type == "TfIdfVectorizer" and not node.domain:
        _check_grams(node)
    if problem := misfit(proto):
        raise InvalidGraph(f"node {node.label}: {problem}")


def _check_form(attribute: AttributeProto, label: str) -> None:
    """Whether it has a value of its own, as all have once calls of functions are written out."""
    if attribute.ref_attr_name:
        raise InvalidGraph(
            f"the attribute '{attribute.name}' of node {label} stands for a function's attribute "
            f"'{attribute.ref_attr_name}', and the node is not in a function"
        )
    if attribute.type == AttributeProto.UNDEFINED:
        raise InvalidGraph(f"the attribute '{attribute.name}' of node {label} has no type")


def _check_axes(attribute: AttributeProto, kind: int, node: Node) -> None:
    if attribute.name == "batch_dims" and not 0 <= attribute.i <= _MOST_DIMENSIONS:
        raise InvalidGraph(f"the attribute 'batch_dims' of node {node.label} is {attribute.i}")
    # numpy takes the lowest number of 32 bits for no axis at all. With one scale it says nothing.
    if (
        attribute.name == "axis"
        and kind == AttributeProto.INT
        and abs(attribute.i) > _MOST_DIMENSIONS
        and node.op_type not in ("DequantizeLinear", "QuantizeLinear")
    ):
        raise InvalidGraph(
            f"the axis {attribute.i} of node {node.label}: such an axis is not one of the input"
        )


def _check_values(node: Node) -> None:
    """Of an operator that onnx has no schema of, what `choices` and `fitting` know."""
    choices = CHOICES.get(node.domain, {})
    for attribute in node.proto.attribute:
        _check_form(attribute, node.label)
        if (allowed := choices.get((node.op_type, attribute.name))) is not None:
            _check_choice(attribute, allowed, node.label)
    if problem := misfit(node.proto):
        raise InvalidGraph(f"node {node.label}: {problem}")


def _check_grams(node: Node) -> None:
    # onnx's reference operator goes through as many as there would be.
    given = {a.name: a for a in node.proto.attribute}
    pools = [given[name] for name in ("pool_int64s", "pool_strings") if name in given]
    sizes = [size for pool in pools if (size := len(pool.ints) + len(pool.strings))]
    if len(sizes) > 1:
        raise InvalidGraph(f"node {node.label} has both pool_int64s and pool_strings")
    size = sum(sizes)
    counts = list(given["ngram_counts"].ints)
    if counts != sorted(counts) or any(not 0 <= count <= size for count in counts):
        raise InvalidGraph(
            f"the ngram_counts {counts} of node {node.label} do not cut its pool of {size} items"
        )
    ends = [*counts[1:], size]
    for length, (start, end) in enumerate(zip(counts, ends, strict=False), 1):
        if (end - start) % length:
            raise InvalidGraph(
                f"the ngram_counts {counts} of node {node.label} cut its pool of {size} items "
                f"within a gram of {length}"
            )
    if given["max_skip_count"].i < 0:
        raise InvalidGraph(f"the max_skip_count of node {node.label} is {given['max_skip_count'].i}")


def _check_choice(attribute: AttributeProto, allowed: Choices, label: str) -> None:
    value = attribute.s if attribute.type == AttributeProto.STRING else attribute.i
    if value not in allowed:
        known = ", ".join(c.decode() if isinstance(c, bytes) else str(c) for c in sorted(allowed) if c != b"")
        shown = repr(value.decode("utf-8", "replace")) if isinstance(value, bytes) else value
        raise InvalidGraph(
            f"the attribute '{attribute.name}' of node {label} is {shown}: its operator knows {known}"
        )


def _check_equation(attribute: AttributeProto, label: str) -> None:
    if attribute.name == "equation" and not re.fullmatch(_EQUATION, attribute.s.replace(b" ", b"")):
        text = attribute.s.decode("utf-8", "replace")
        raise InvalidGraph(f"the equation {text!r} of node {label} is none that Einsum knows")


def _check_parts(attribute: AttributeProto, node: NodeProto, label: str) -> None:
    # onnx's inference writes beyond its list for others.
    if (
        attribute.name == "num_outputs"
        and not attribute.ref_attr_name
        and node.op_type == "Split"
        and attribute.i != len(node.output)
    ):
        raise InvalidGraph(f"node {label} has num_outputs {attribute.i} and {len(node.output)} outputs")


def check_functions(functions: Functions) -> None:
    """Look for functions that call themselves, directly or through others, for values that nobody makes, and
    for what onnx's inference never ends on or reads beyond its lists for.

    Raises:
        InvalidGraph: naming the functions of the circle, or the function and the value.
    """
    for (domain, name, _), function in functions.items():
        made = {"", *function.input}
        for node in function.node:
            if found := next(_unmade([node], made), None):
                reader, value = found
                raise InvalidGraph(
                    f"the node '{reader.name}' ({reader.op_type}) of the function {domain}.{name} reads "
                    f"'{value}', which is no input and no output of a node before it"
                )
            made.update(node.output)
        for node in _all_nodes(function.node):
            for attribute in node.attribute if node.op_type in ("Einsum", "Split") else ():
                label = f"'{node.name}' of the function {domain}.{name}"
                _check_equation(attribute, label)
                _check_parts(attribute, node, label)
        if lacking := [value for value in function.output if value not in made]:
            raise InvalidGraph(
                f"the output '{lacking[0]}' of the function {domain}.{name} is made by no node"
            )
    calls = {
        key: [
            (("" if node.domain == "ai.onnx" else node.domain), node.op_type, node.overload)
            for node in _all_nodes(function.node)
        ]
        for key, function in functions.items()
    }
    done: set[tuple[str, str, str]] = set()
    for start in functions:
        path = [(start, iter(calls[start]))] if start not in done else []
        while path:
            called = next((c for c in path[-1][1] if c in calls and c not in done), None)
            if called is None:
                done.add(path.pop()[0])
                continue
            above = [key for key, _ in path]
            if called in above:
                way = " -> ".join(f"{d}.{n}" for d, n, _ in [*above[above.index(called) :], called])
                raise InvalidGraph(f"the model's functions call themselves: {way}")
            path.append((called, iter(calls[called])))
    _check_expansion(calls)


def _check_expansion(calls: Mapping[tuple[str, str, str], Sequence[tuple[str, str, str]]]) -> None:
    """Look for functions that are a multitude of nodes: one that calls another twice, which calls another
    twice, and so on. None calls itself.
    """
    nodes: dict[tuple[str, str, str], int] = {}
    left = list(calls)
    while left:
        key = left[-1]
        if waiting := [called for called in calls[key] if called in calls and called not in nodes]:
            left.extend(dict.fromkeys(waiting))
            continue
        left.pop()
        nodes[key] = len(calls[key]) + sum(nodes.get(called, 0) for called in calls[key])
        if nodes[key] > MOST_NODES_OF_A_FUNCTION:
            raise InvalidGraph(
                f"the function {key[0]}.{key[1]} calls functions that call functions: {nodes[key]} nodes in "
                f"all, where {MOST_NODES_OF_A_FUNCTION} are the most that are inlined"
            )


def _unmade(nodes: Iterable[NodeProto], *made: set[str]) -> Iterator[tuple[NodeProto, str]]:
    """What nodes read that is in none of the sets, in bodies too, each with its reader. The caller's values
    would take the place of what a body lacks once it is in the call's place.
    """
    for node in nodes:
        yield from ((node, name) for name in node.input if not any(name in each for each in made))
        for attribute in node.attribute:
            for graph in attribute.bodies():
                own = {name for inner in graph.node for name in inner.output}
                own |= {each.name for each in (*graph.input, *graph.initializer)}
                own |= {each.values.name for each in graph.sparse_initializer}
                yield from _unmade(graph.node, own, *made)
                given = [output.name for output in graph.output]
                yield from ((node, name) for name in given if not any(name in each for each in (own, *made)))


def _all_nodes(nodes: Iterable[NodeProto]) -> list[NodeProto]:
    found: list[NodeProto] = []
    for node in nodes:
        found.append(node)
        for attribute in node.attribute:
            for graph in attribute.bodies():
                found += _all_nodes(graph.node)
    return found


def check_types(graph: Graph) -> None:
    """Look at the types of the inputs of all nodes, subgraphs included, once they are inferred.

    Raises:
        InvalidGraph: a node gets a type that its operator does not take, or two where it takes one.
    """
    right: set[tuple[Any, ...]] = set()  # most nodes are as others are
    for node in graph.nodes:
        what = (node.op_type, node.domain, node.since_version, *[v and id(v.type) for v in node.inputs])
        if what not in right or node.custom is not None:
            if error := _error_of(node):
                raise InvalidGraph(f"node {node.label}: {error}")
            right.add(what)
        for body in node.subgraphs.values():
            check_types(body)


def _error_of(node: Node) -> str | None:
    kinds = tuple(0 if v is None else _kind(v.type) for v in node.inputs)
    if node.custom is not None:
        return node.custom.type_error([max(kind, 0) for kind in kinds])
    return _type_error(node.op_type, node.domain, node.since_version, kinds)


def _kind(kind: TensorType | TypeProto | None) -> int:
    """A tensor's element type, 0 for one that is not known, or :data:`_NO_TENSOR`."""
    if kind is None:
        return 0
    return kind.element_type if isinstance(kind, TensorType) else _NO_TENSOR


@cache
def _type_error(op_type: str, domain: str, version: int, kinds: tuple[int, ...]) -> str | None:
    schema = schema_of(op_type, domain, version)
    if schema is None or not schema.inputs:
        return None
    allowed = {c.type_param_str: set(c.allowed_type_strs) for c in schema.type_constraints}
    bound: dict[str, tuple[str, str]] = {}
    for at, kind in enumerate(kinds):
        formal = schema.inputs[min(at, len(schema.inputs) - 1)]
        if kind == 0:
            continue
        takes = allowed.get(formal.type_str, {formal.type_str})
        if kind == _NO_TENSOR:  # of which kind it has to be is the operator's to say, where it takes any
            if all(each.startswith("tensor(") for each in takes):
                return f"its input '{formal.name}' is no tensor, and its operator takes nothing else"
            continue
        found = f"tensor({TensorProto.DataType.Name(kind).lower()})"
        if found not in takes:
            # As onnxruntime begins, which programs look for.
            return f"Type Error: Type '{found}' of its input '{formal.name}' is none that its operator takes"
        if formal.type_str not in allowed or (formal.option.value == VARIADIC and not formal.is_homogeneous):
            continue
        name, first = bound.setdefault(formal.type_str, (formal.name, found))
        if first != found:
            return (
                f"Type Error: Type parameter ({formal.type_str}) bound to different types: "
                f"its input '{name}' is {first}, '{formal.name}' {found}"
            )
    return None
