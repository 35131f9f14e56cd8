"""Reductions, and what picks elements out."""

from __future__ import annotations

from ephost.messages import TensorProto
from ephost.model.graph import Dim, Node, tensor_type
from ephost.model.type_rules.registry import (
    Knowledge,
    Made,
    Types,
    Unsure,
    axes_of,
    axis_of,
    dims_of,
    given,
    input_at,
    rule,
    same,
)


def _reduced(dims: tuple[Dim, ...], axes: set[int], keeps: bool) -> tuple[Dim, ...]:
    if keeps:
        return tuple([1 if at in axes else dim for at, dim in enumerate(dims)])
    return tuple([dim for at, dim in enumerate(dims) if at not in axes])


@rule(
    "ReduceL1",
    "ReduceL2",
    "ReduceLogSum",
    "ReduceLogSumExp",
    "ReduceMax",
    "ReduceMean",
    "ReduceMin",
    of_first=True,
)
@rule("ReduceProd", "ReduceSum", "ReduceSumSquare", of_first=True)
def _reduce(node: Node, types: Types, known: Knowledge) -> Made:
    kind, dims = given(types, 0), dims_of(types, 0)
    axes = axes_of(node, known, 1, input_since=13 if node.op_type == "ReduceSum" else 18)
    if not axes:
        if node.attribute("noop_with_empty_axes", 0):
            return [kind]
        axes = list(range(len(dims)))
    chosen = {axis_of(axis, len(dims)) for axis in axes}
    return [same(kind, _reduced(dims, chosen, node.attribute("keepdims", 1) != 0))]


@rule("ArgMax", "ArgMin")
def _arg(node: Node, types: Types, known: Knowledge) -> Made:
    dims = dims_of(types, 0)
    chosen = {axis_of(node.attribute("axis", 0), len(dims))}
    return [tensor_type(TensorProto.INT64, _reduced(dims, chosen, node.attribute("keepdims", 1) != 0))]


@rule("TopK", since=10)
def _top_k(node: Node, types: Types, known: Knowledge) -> Made:
    dims = list(dims_of(types, 0))
    axis = axis_of(node.attribute("axis", -1), len(dims))
    numbers = known.numbers(input_at(node, 1))
    count: Dim = numbers[0] if numbers is not None and len(numbers) == 1 else None
    there = dims[axis]
    if isinstance(count, int) and (count < 0 or (isinstance(there, int) and count > there)):
        raise Unsure
    dims[axis] = count
    # Both outputs' lengths are the same, whatever it is.
    return [same(given(types, 0), dims), tensor_type(TensorProto.INT64, tuple(dims))]


@rule("NonZero")
def _non_zero(node: Node, types: Types, known: Knowledge) -> Made:
    return [tensor_type(TensorProto.INT64, (len(dims_of(types, 0)), None))]
