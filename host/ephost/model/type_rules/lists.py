"""Lists of numbers that shapes are computed with: what is known of what a node makes of them."""

from __future__ import annotations

from collections.abc import Callable

from ephost.messages import TensorProto
from ephost.model.graph import Dim, Node, TensorType
from ephost.model.type_rules.registry import (
    LONGEST,
    Knowledge,
    List,
    Types,
    axis_of,
    given,
    input_at,
    integers,
    product,
    times,
)

# Of numbers of these element types.
_LARGEST = {TensorProto.INT32: (1 << 31) - 1, TensorProto.INT64: (1 << 63) - 1}
_Propagation = Callable[[Node, Types, Knowledge], List | None]


def propagated(node: Node, types: Types, kind: TensorType, known: Knowledge) -> List | None:
    """The numbers of a list or scalar that a node makes, each known, named or None; None: not known.

    Args:
        node: the node.
        types: of its inputs.
        kind: of its output.
        known: the numbers of other lists.
    """
    propagation = _PROPAGATIONS.get(node.op_type)
    most = _LARGEST.get(kind.element_type)
    made = None if propagation is None or most is None else propagation(node, types, known)
    if (
        made is None
        or most is None
        or len(made) > LONGEST
        or kind.dims is None
        or product(kind.dims) != len(made)
    ):
        return None
    if any(isinstance(number, int) and abs(number) > most for number in made):
        return None  # it overflows
    return made


def _shape(node: Node, types: Types, known: Knowledge) -> List | None:
    dims = given(types, 0).dims
    return None if dims is None else dims[node.attribute("start", 0) : node.attribute("end")]


def _size(node: Node, types: Types, known: Knowledge) -> List | None:
    dims = given(types, 0).dims
    return None if dims is None else (product(dims),)


def _passed(node: Node, types: Types, known: Knowledge) -> List | None:
    return known.numbers(node.inputs[0])


def _concat(node: Node, types: Types, known: Knowledge) -> List | None:
    parts: list[Dim] = []
    for value in node.inputs:
        numbers = known.numbers(value)
        if numbers is None or len(parts) + len(numbers) > LONGEST:
            return None
        parts += numbers
    return tuple(parts)


def _gather(node: Node, types: Types, known: Knowledge) -> List | None:
    numbers, indices = known.numbers(node.inputs[0]), integers(known, input_at(node, 1))
    if numbers is None or indices is None or len(given(types, 0).dims or ()) != 1:
        return None
    if not all(-len(numbers) <= index < len(numbers) for index in indices):
        return None
    return tuple([numbers[index] for index in indices])


def _slice(node: Node, types: Types, known: Knowledge) -> List | None:
    numbers = known.numbers(node.inputs[0])
    if numbers is None or node.since_version < 10:
        return None
    bounds = []
    for at, default in ((1, None), (2, None), (3, 0), (4, 1)):
        value = input_at(node, at)
        found = [default] if value is None else integers(known, value)
        if found is None or len(found) != 1 or found[0] is None:
            return None
        bounds.append(found[0])
    start, end, axis, step = bounds
    if axis_of(axis, 1) != 0 or step <= 0:
        return None
    return numbers[slice(start, end, step)]


def _pairs(node: Node, known: Knowledge) -> list[tuple[Dim, Dim]] | None:
    one, other = (known.numbers(value) for value in node.inputs)
    if one is None or other is None:
        return None
    if len(one) == 1:
        one *= len(other)
    if len(other) == 1:
        other *= len(one)
    return list(zip(one, other, strict=True)) if len(one) == len(other) else None


def _by(combine: Callable[[Dim, Dim], Dim]) -> _Propagation:
    def of_pairs(node: Node, types: Types, known: Knowledge) -> List | None:
        pairs = _pairs(node, known)
        return None if pairs is None else tuple([combine(one, other) for one, other in pairs])

    return of_pairs


def _sum(one: Dim, other: Dim) -> Dim:
    if isinstance(one, int) and isinstance(other, int):
        return one + other
    if one == 0:
        return other
    return one if other == 0 else None


def _difference(one: Dim, other: Dim) -> Dim:
    if isinstance(one, int) and isinstance(other, int):
        return one - other
    return one if other == 0 else None


def _quotient(one: Dim, other: Dim) -> Dim:
    if isinstance(one, int) and isinstance(other, int) and one >= 0 and other > 0:
        return one // other
    return one if other == 1 else None


_PROPAGATIONS: dict[str, _Propagation] = {
    "Add": _by(_sum),
    "Cast": _passed,
    "Concat": _concat,
    "Div": _by(_quotient),
    "Gather": _gather,
    "Identity": _passed,
    "Mul": _by(times),
    "Reshape": _passed,
    "Shape": _shape,
    "Size": _size,
    "Slice": _slice,
    "Squeeze": _passed,
    "Sub": _by(_difference),
    "Unsqueeze": _passed,
}
