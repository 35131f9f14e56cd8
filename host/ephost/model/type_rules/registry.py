"""What rules are: functions of a node and the types that it reads, by the operator's name."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

import numpy as np

from ephost._bindings import call
from ephost.messages import TypeProto
from ephost.model.graph import Dim, Node, TensorType, Value, tensor_type

Types = list[TensorType | None]  # of a node's inputs; None: left out
# Of its outputs; None: none that a rule knows. A TypeProto is that of what is no tensor.
Made = Sequence[TensorType | TypeProto | None]
LONGEST = 64  # numbers of a list that is propagated: shapes have a few
List = tuple[Dim, ...]  # the numbers of a list, or of a scalar


class Unsure(Exception):
    """No rule says what a node makes: onnx's inference has to."""


class UnknownRank(Unsure):
    """A rule would have to know how many dimensions an input has."""


class Knowledge(Protocol):
    """What rules may ask for besides types."""

    def numbers(self, value: Value | None) -> List | None:
        """The numbers of a list or scalar of integers, each of them known, named or None; None: not known.

        Raises:
            Unsure: there is no such value.
        """


Rule = Callable[[Node, Types, Knowledge], Made]
ML_DOMAIN = "ai.onnx.ml"
# By the operator's name, behind its domain and a dot if that is ML_DOMAIN: the first version of the operator
# that the rule is right for, and the rule.
RULES: dict[str, tuple[int, Rule]] = {}
# Operators that make one output, of elements of the first input's type.
OF_FIRST: set[str] = set()
# Operators whose one output is their inputs, which are all of one type, broadcast, from these versions on.
# Most nodes of most graphs are theirs: their rule is C (host/native/type_rules.c).
ELEMENTWISE = {
    **dict.fromkeys(("Abs", "Ceil", "Elu", "Exp", "Floor", "HardSigmoid", "LeakyRelu", "Log", "Neg"), 6),
    **dict.fromkeys(("Reciprocal", "Relu", "Selu", "Sigmoid", "Sqrt", "Tanh"), 6),
    **dict.fromkeys(
        ("Acos", "Acosh", "Asin", "Asinh", "Atan", "Atanh", "Cos", "Cosh", "Sin", "Sinh", "Tan"), 1
    ),
    **dict.fromkeys(("BitwiseNot", "Erf", "Identity", "Not", "Round", "Sign", "Softplus", "Softsign"), 1),
    **dict.fromkeys(("Tan", "ThresholdedRelu"), 1),
    **dict.fromkeys(("Add", "And", "Div", "Mul", "Or", "Sub", "Xor"), 7),
    **dict.fromkeys(("Max", "Mean", "Min", "Sum"), 8),
    **dict.fromkeys(("BitShift", "BitwiseAnd", "BitwiseOr", "BitwiseXor", "Mod"), 1),
}


def rule(*names: str, since: int = 1, of_first: bool = False) -> Callable[[Rule], Rule]:
    """Makes a function the rule of operators from a version of theirs on.

    Args:
        names: of the operators.
        since: the version.
        of_first: each output has elements of the first input's type, whatever is known of shapes.
    """

    def add(function: Rule) -> Rule:
        for name in names:
            RULES[name] = since, function
        if of_first:
            OF_FIRST.update(names)
        return function

    return add


def given(types: Types, at: int) -> TensorType:
    """The type of an input.

    Raises:
        Unsure: there is none.
    """
    kind = types[at] if at < len(types) else None
    if kind is None:
        raise Unsure
    return kind


def dims_of(types: Types, at: int) -> tuple[Dim, ...]:
    """The dimensions of an input; UnknownRank where not even their number is known."""
    dims = given(types, at).dims
    if dims is None:
        raise UnknownRank
    return dims


def input_at(node: Node, at: int) -> Value | None:
    """An input; None where it is left out."""
    return node.inputs[at] if at < len(node.inputs) else None


def axis_of(axis: int, rank: int) -> int:
    """An axis counted from the first; Unsure where there is none such."""
    if not -rank <= axis < rank:
        raise Unsure
    return axis + rank if axis < 0 else axis


def integers(known: Knowledge, value: Value | None) -> list[int] | None:
    """The numbers of a list, where all are known."""
    numbers = known.numbers(value)
    if numbers is None:
        return None
    whole = [number for number in numbers if isinstance(number, int)]
    return whole if len(whole) == len(numbers) else None


def axes_of(node: Node, known: Knowledge, at: int, *, input_since: int) -> list[int] | None:
    """The axes that an attribute says, or an input from a version of the operator on; None: left out.

    Raises:
        Unsure: they are not known.
    """
    if node.since_version < input_since:
        axes: list[int] | None = node.attribute("axes")
        return axes
    value = input_at(node, at)
    if value is None:
        return None
    axes = integers(known, value)
    if axes is None:
        raise Unsure
    return axes


def constant(value: Value | None) -> np.ndarray | None:
    """A constant's elements; None where it is none."""
    return value.initializer if value is not None and value.is_constant else None


def rank_of_list(kind: TensorType) -> int:
    """How many numbers a list of this type has; UnknownRank where that is not known."""
    dims = kind.dims
    if dims is not None and len(dims) != 1:
        raise Unsure
    if dims is None or not isinstance(dims[0], int):
        raise UnknownRank
    return dims[0]


def same(kind: TensorType, dims: Sequence[Dim]) -> TensorType:
    """A tensor of the same elements, and another shape."""
    return tensor_type(kind.element_type, tuple(dims))


def times(one: Dim, other: Dim) -> Dim:
    """The product of two dimensions; None where it is not known."""
    if isinstance(one, int) and isinstance(other, int):
        return one * other
    if one == 1:
        return other
    return one if other == 1 else None


def product(dims: Sequence[Dim]) -> Dim:
    """The product of dimensions; None where it is not known."""
    result: Dim = 1
    for dim in dims:
        result = times(result, dim)
    return result


def joined(one: Dim, other: Dim) -> Dim:
    """What is known of a dimension that two say something of; Unsure where they contradict each other."""
    if isinstance(one, int) and isinstance(other, int) and one != other:
        raise Unsure
    if isinstance(one, int) or other is None:
        return one
    return other if isinstance(other, int) or one is None else one


def broadcast(shapes: Sequence[tuple[Dim, ...]]) -> tuple[Dim, ...]:
    """The shape that several are broadcast to; Unsure where they do not fit."""
    made = shapes[0]
    for shape in shapes[1:]:
        both = call.broadcast(made, shape)
        if both is None:
            raise Unsure
        made = both
    return made


def attribute_text(node: Node, name: str, default: str) -> str:
    """An attribute that is a word."""
    word: Any = node.attribute(name)
    return default if word is None else bytes(word).decode("utf-8", "replace")
