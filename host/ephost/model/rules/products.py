"""Products, and what is added, transposed or divided around them."""

from __future__ import annotations

from typing import Any

from ephost.model.graph import Node, Value, permutation_of
from ephost.model.rules.matching import FLOATS, Rewriting, Rule, data_of, dims_of, element_type_of, input_at


def _fuse_matmul_add(r: Rewriting, node: Node) -> bool:
    """Add of a product of two matrices and what can be added to its rows: Gemm."""
    if node.since_version < 7 or len(node.inputs) != 2:
        return False
    for at in (0, 1):
        product = r.maker(node.inputs[at], "MatMul")
        if product is None or r.only_reader(node.inputs[at]) is not node or node.inputs[1 - at] is None:
            continue
        left, right = dims_of(product.inputs[0]), dims_of(product.inputs[1])
        if left is None or right is None or len(left) != 2 or len(right) != 2:
            continue
        kind = element_type_of(product.inputs[0])
        if kind not in FLOATS or not _fits_rows(node.inputs[1 - at], left[0], right[1]):
            continue
        inputs = [*product.inputs, node.inputs[1 - at]]
        if product.name:
            r.graph.rename_node(node, product.name)
        r.retype(node, "Gemm")
        r.set_inputs(node, inputs)
        return True
    return False


def _fits_rows(value: Value | None, rows: Any, columns: Any) -> bool:
    """Whether a Gemm of that many rows and columns may add the value and keep its shape."""
    dims = dims_of(value)
    if dims is None or len(dims) > 2 or columns is None:
        return False
    dims = (1,) * (2 - len(dims)) + tuple(dims)
    return dims[1] in (1, columns) and (dims[0] == 1 or (dims[0] is not None and dims[0] == rows))


def _fuse_gemm_sum(r: Rewriting, node: Node) -> bool:
    """What is added to a Gemm that adds nothing yet is its third input."""
    if len(node.inputs) != 2 or node.since_version < 7:
        return False
    for at in (0, 1):
        product, other = r.maker(node.inputs[at], "Gemm"), node.inputs[1 - at]
        if product is None or product.since_version < 7 or other is None or input_at(product, 2) is not None:
            continue
        if r.only_reader(node.inputs[at]) is not node or element_type_of(other) not in FLOATS:
            continue
        dims = dims_of(product.outputs[0])
        if dims is None or len(dims) != 2 or not _fits_rows(other, *dims):
            continue
        attributes = [a for a in product.message.attribute if a.name != "beta"]
        inputs = [product.inputs[0], product.inputs[1], other]
        if product.name:
            r.graph.rename_node(node, product.name)
        r.retype(node, "Gemm", *attributes)
        r.set_inputs(node, inputs)
        return True
    return False


def _fuse_gemm_transpose(r: Rewriting, node: Node) -> bool:
    """A Gemm can transpose what it reads itself."""
    if element_type_of(node.inputs[0]) not in FLOATS:
        return False
    moved = False
    for at, name in enumerate(("transA", "transB")):
        turned = r.maker(node.inputs[at], "Transpose")
        if turned is None or permutation_of(turned) != [1, 0] or turned.inputs[0] is None:
            continue
        if not r.graph.owns(turned.inputs[0]):
            continue
        inputs = list(node.inputs)
        inputs[at] = turned.inputs[0]
        r.graph.set_attribute(node, name, 1 - int(node.attribute(name, 0)))
        r.set_inputs(node, inputs)
        moved = True
    return moved


def _divide(r: Rewriting, node: Node) -> bool:
    """``(1 / a) * b`` is ``b / a``."""
    if node.since_version < 7 or len(node.inputs) != 2:
        return False
    for at in (0, 1):
        inverse, other = r.maker(node.inputs[at], "Div"), node.inputs[1 - at]
        if inverse is None or other is None or r.only_reader(node.inputs[at]) is not node:
            continue
        one = data_of(inverse.inputs[0])
        if one is None or one.size != 1 or one.reshape(-1)[0] != 1 or element_type_of(other) not in FLOATS:
            continue
        below = inverse.inputs[1]
        dims = dims_of(below)
        if dims is None or one.ndim > len(dims):
            continue  # the 1 gives the quotient more axes
        r.retype(node, "Div")
        r.set_inputs(node, [other, below])
        return True
    return False


RULES = {
    "Add": (
        Rule("MatMulAddFusion", _fuse_matmul_add, ("MatMul",)),
        Rule("GemmSumFusion", _fuse_gemm_sum, ("Gemm",)),
    ),
    "Gemm": (Rule("GemmTransposeFusion", _fuse_gemm_transpose, ("Transpose",)),),
    "Mul": (Rule("DivMulFusion", _divide, ("Div",)),),
    "Sum": (Rule("GemmSumFusion", _fuse_gemm_sum, ("Gemm",)),),
}
