"""Whether onnx may propagate data while it infers shapes.

That propagation keeps a list entry of about a hundred bytes for each element of each list of numbers that an
operator on shapes reads, and asks nobody how long such a list may be: ``Tile`` of one number by 2^40, then
``Size``, or 25 times a ``Concat`` of a list with itself, take all the memory there is. It also mixes up lists
of one name in several graphs. Without propagation inference is bounded, and knows a little less.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from ephost.model.graph import Graph, Model, Node, TensorType, Value, all_graphs, schema_of

LONGEST = (
    1 << 20
)  # elements of a list; shapes have a few, and what else is computed with shapes some thousands
_FEW = 16  # numbers that Python multiplies sooner than numpy
_KNOWN_CONSTANTS = 1024  # elements up to which the data of a constant is looked at
# Operators whose output is as large as numbers in an input say: which inputs.
_SIZED_BY = {
    "ConstantOfShape": (0,),
    "Expand": (1,),
    "OneHot": (1,),
    "Pad": (1,),
    "Range": (0, 1, 2),
    "Reshape": (1,),
    "Resize": (2, 3),
    "Tile": (1,),
    "Upsample": (1,),
}
_KEEP_NUMBERS = {"Cast", "Gather", "Identity", "Slice", "Squeeze", "Unsqueeze"}
_COMBINE_NUMBERS = {"Add", "Concat", "Mul", "Sub"}
_NUMBERS_FROM_NUMBERS = _KEEP_NUMBERS | _COMBINE_NUMBERS
_PROPAGATE = {"Size"} | _NUMBERS_FROM_NUMBERS
_MAKE_LISTS = {"Shape"} | _PROPAGATE
# Operators that make one dimension of several, or one as large as numbers say.
_REARRANGE = {"Flatten", *_SIZED_BY}


def is_bounded(model: Model, graph: Graph) -> bool:
    """Whether no list that onnx would propagate gets longer than LONGEST, as far as what is known tells.

    Args:
        model: the model.
        graph: its graph, or the part of it that onnx is going to see.
    """
    graphs = list(all_graphs(graph))
    sizes: dict[Value | None, float] = {}  # of values: elements at most; 1 for one that is left out
    products = _products_of_sizes(graphs)  # of values: of their numbers at most
    if not all(_is_bounded(graph, sizes, products) for graph in graphs):
        return False
    if max(sizes.values(), default=1) <= LONGEST:
        return True  # no dimension is longer than there are elements
    extents: dict[Value | None, float] = {}  # of values: the largest dimension at most
    return all(_bodies_are_bounded(graph, model, sizes, extents) for graph in graphs)


def is_unambiguous(graph: Graph) -> bool:
    """Whether no list that onnx would propagate has the name of another value in a graph around or beside its
    own: onnx keeps them by name alone, and takes the one for the other.
    """
    graphs = list(all_graphs(graph))
    if len(graphs) == 1:
        return True
    lists = {
        made.name
        for part in graphs
        for node in part.nodes
        if node.op_type in _MAKE_LISTS
        for made in node.outputs
        if made is not None
    }
    seen: set[str] = set()
    for part in graphs:
        named = lists.intersection(part.values)
        if not named.isdisjoint(seen):
            return False
        seen |= named
    return True


def _products_of_sizes(graphs: Sequence[Graph]) -> dict[int, float]:
    """Of the values whose numbers come to say how large an output is, the product of them at most: of
    constants as it is, of others, which are made of those, 1 until it is known. A model has thousands more.
    """
    products: dict[int, float] = {}
    left = [
        node.inputs[at]
        for graph in graphs
        for node in graph.nodes
        for at in _SIZED_BY.get(node.op_type, ())
        if at < len(node.inputs)
    ]
    while left:
        value = left.pop()
        if value is None or id(value) in products:
            continue
        products[id(value)] = _product_of(value.initializer)
        if value.producer is not None and value.producer.op_type in _NUMBERS_FROM_NUMBERS:
            left += value.producer.inputs
    return products


def _is_bounded(graph: Graph, sizes: dict[Value | None, float], products: dict[int, float]) -> bool:
    for value in _given(graph):
        size = sizes[value] = _size_of(value) or 1
        if size > LONGEST and _is_list(value):
            return False
    for node in graph.nodes:
        most = _made_by(node, sizes, products)
        for made in node.outputs:
            if made is None:
                continue
            known = _size_of(made)
            size = sizes[made] = most if known is None or known > most else known
            if id(made) in products:
                products[id(made)] = _numbers_of(node, sizes, products)
            if size > LONGEST and _is_list(made):
                return False
    return True


def _bodies_are_bounded(
    graph: Graph, model: Model, sizes: dict[Value | None, float], extents: dict[Value | None, float]
) -> bool:
    """The same for what happens inside of nodes that onnx infers by a function.

    Nobody here sees its values. A list among them is hardly longer than the longest dimension that goes in.
    """
    for value in _given(graph):
        extents[value] = _extent_of(value) or 1
    for node in graph.nodes:
        given = [extents.get(value, 1) for value in node.inputs]
        largest = max(given, default=1.0)
        if largest > LONGEST and _has_body(node, model):
            return False
        if node.op_type == "Concat":
            largest = sum(given)
        for made in node.outputs:
            if made is not None:
                known = _extent_of(made)
                most = sizes.get(made, 1) if node.op_type in _REARRANGE else largest
                extents[made] = most if known is None else min(most, known)
    return True


def _given(graph: Graph) -> Iterator[Value]:
    """The values that none of its nodes makes. The inputs of a part may be made elsewhere."""
    yield from graph.inputs
    for value in graph.values.values():
        if value.producer is None:
            yield value


def _has_body(node: Node, model: Model) -> bool:
    if node.domain:
        return True  # a function of the model's, or one that stands in for com.microsoft's operator
    schema: Any = schema_of(node.op_type, "", model.opsets.get("", 1))
    return bool(schema and (schema.has_function or schema.has_context_dependent_function))


def _made_by(node: Node, sizes: dict[Value | None, float], products: dict[int, float]) -> float:
    """How many elements an output of a node has at most."""
    given = [sizes.get(value, 1) for value in node.inputs]
    op_type = node.op_type
    if op_type == "Concat":
        return sum(given)
    if op_type == "Shape":
        return 64
    if op_type in ("RandomNormal", "RandomUniform"):
        return math.prod(float(size) for size in node.attribute("shape", ()))
    size = max(given, default=1.0)
    if op_type in _SIZED_BY:
        for at in _SIZED_BY[op_type]:
            by = node.inputs[at] if at < len(node.inputs) else None
            if by is not None:
                size *= products.get(id(by), 1)
    return size


def _numbers_of(node: Node, sizes: dict[Value | None, float], products: dict[int, float]) -> float:
    """The product of the numbers of a node's output at most, of those that onnx would know."""
    first = next((value for value in node.inputs if value is not None), None)
    if first is None:
        return 1
    if node.op_type in ("Shape", "Size"):
        return sizes.get(first, 1)
    if node.op_type in _KEEP_NUMBERS:
        return products.get(id(first), 1)
    if node.op_type in _COMBINE_NUMBERS:
        return min(math.prod(products.get(id(value), 1) for value in node.inputs) * 2, 1e300)
    return 1


def _is_list(value: Value) -> bool:
    """Whether it may have one dimension, and an operator reads it that onnx propagates data through."""
    if isinstance(value.type, TensorType) and value.type.dims is not None and len(value.type.dims) != 1:
        return False
    return any(node.domain or node.op_type in _PROPAGATE for node in value.consumers)


def _size_of(value: Value) -> float | None:
    """Elements; of a tensor without any, as if those dimensions were left out that have none."""
    dims = value.type.static_dims if isinstance(value.type, TensorType) else None
    return None if dims is None else float(math.prod(dims) or math.prod(filter(None, dims)))


def _extent_of(value: Value) -> float | None:
    dims = value.type.static_dims if isinstance(value.type, TensorType) else None
    return None if dims is None else float(max(dims, default=1))


def _product_of(array: np.ndarray | None) -> float:
    if array is None or array.dtype.kind not in "iuf" or not 0 < array.size <= _KNOWN_CONSTANTS:
        return 1
    if array.dtype.kind != "f" and array.size <= _FEW:
        product = math.prod([max(abs(float(number)), 1.0) for number in array.ravel().tolist()])
        return product if product < 1e300 else 1e300
    with np.errstate(all="ignore"):
        product = float(np.prod(np.maximum(np.abs(array.astype(np.float64)), 1)))
    return product if product < 1e300 else 1e300
