"""Products of matrices, and recurrent networks."""

from __future__ import annotations

from ephost.messages import TensorProto
from ephost.model.graph import Dim, Node, tensor_type
from ephost.model.type_rules.registry import (
    Knowledge,
    Made,
    Types,
    Unsure,
    attribute_text,
    broadcast,
    dims_of,
    given,
    joined,
    rule,
    same,
)


def _multiplied(one: tuple[Dim, ...], other: tuple[Dim, ...]) -> tuple[Dim, ...]:
    if not one or not other:
        raise Unsure
    rows = one if len(one) > 1 else (1, *one)
    columns = other if len(other) > 1 else (*other, 1)
    inner = rows[-1], columns[-2]
    if isinstance(inner[0], int) and isinstance(inner[1], int) and inner[0] != inner[1]:
        raise Unsure
    made = broadcast([rows[:-2], columns[:-2]])
    if len(one) > 1:
        made = (*made, rows[-2])
    return (*made, columns[-1]) if len(other) > 1 else made


@rule("MatMul", of_first=True)
def _matmul(node: Node, types: Types, known: Knowledge) -> Made:
    kind = given(types, 0)
    if kind.element_type != given(types, 1).element_type:
        raise Unsure
    return [same(kind, _multiplied(dims_of(types, 0), dims_of(types, 1)))]


@rule("MatMulInteger")
def _matmul_integer(node: Node, types: Types, known: Knowledge) -> Made:
    return [tensor_type(TensorProto.INT32, _multiplied(dims_of(types, 0), dims_of(types, 1)))]


@rule("QLinearMatMul")
def _quantized_matmul(node: Node, types: Types, known: Knowledge) -> Made:
    return [tensor_type(given(types, 7).element_type, _multiplied(dims_of(types, 0), dims_of(types, 3)))]


@rule("Gemm", since=7, of_first=True)
def _gemm(node: Node, types: Types, known: Knowledge) -> Made:
    one, other = dims_of(types, 0), dims_of(types, 1)
    if len(one) != 2 or len(other) != 2:
        raise Unsure
    rows, columns = node.attribute("transA", 0) != 0, node.attribute("transB", 0) == 0
    return [same(given(types, 0), (one[rows], other[columns]))]


@rule("Einsum", of_first=True)
def _einsum(node: Node, types: Types, known: Knowledge) -> Made:
    terms, arrow, result = attribute_text(node, "equation", "").replace(" ", "").partition("->")
    letters = terms.split(",")
    if (
        len(letters) != len(types)
        or not terms.replace(",", "").isalpha()
        or not (result.isalpha() or not result)
    ):
        raise Unsure  # an ellipsis, among others
    if not arrow:
        result = "".join(letter for letter in sorted(set(terms) - {","}) if terms.count(letter) == 1)
    sizes: dict[str, Dim] = {}
    for at, term in enumerate(letters):
        dims = dims_of(types, at)
        if len(dims) != len(term):
            raise Unsure
        for letter, dim in zip(term, dims, strict=True):
            sizes[letter] = joined(sizes.get(letter), dim)
    if not set(result) <= set(sizes):
        raise Unsure
    return [same(given(types, 0), [sizes[letter] for letter in result])]


@rule("GRU", "LSTM", "RNN", since=7)
def _recurrent(node: Node, types: Types, known: Knowledge) -> Made:
    kind, hidden = given(types, 0), node.attribute("hidden_size")
    dims: tuple[Dim, ...] = (None,) * 3 if kind.dims is None else kind.dims
    if len(dims) != 3 or node.attribute("layout", 0) or hidden is None:
        raise Unsure
    directions = 2 if attribute_text(node, "direction", "forward") == "bidirectional" else 1
    steps, batch = dims[:2]
    state = same(kind, (directions, batch, hidden))
    return [same(kind, (steps, directions, batch, hidden)), state, state]
