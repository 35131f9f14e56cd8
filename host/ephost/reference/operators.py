"""Finds the implementation of a single operator: this project's own, or the onnx package's."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from importlib import import_module
from typing import Any

import numpy as np

from ..message_helpers import make_attribute
from ..messages import AttributeProto, GraphProto, NodeProto
from .attributes import attribute_value
from .control_flow import Subgraph
from .ops import OperatorNode, find_operator
from .signature import Signature, signature_of
from .values import Value

Implementation = Callable[[Sequence[Value], Mapping[str, Value]], Sequence[Any]]
"""Runs a node: its inputs in order, the outer-scope values by name; returns its outputs, perhaps not yet
normalized.
"""

_PACKAGE_ROOMS = {
    "": "onnx.reference.ops",
    "ai.onnx.ml": "onnx.reference.ops.aionnxml",
    "ai.onnx.preview": "onnx.reference.ops.aionnx_preview",
    "ai.onnx.preview.training": "onnx.reference.ops.aionnx_preview_training",
}

_SINGLE: Mapping[str, tuple[tuple[int, ...], tuple[int, ...]]] = {
    **dict.fromkeys(("BlackmanWindow", "HammingWindow", "HannWindow"), ((0,), ())),
    **dict.fromkeys(("CumProd", "CumSum"), ((1,), ())),
    "DFT": ((1, 2), ()),
    "MelWeightMatrix": ((0, 1, 2, 3, 4), ()),
    "NonMaxSuppression": ((2, 3, 4), (1,)),
    "STFT": ((1, 3), ()),
}
"""Inputs of ONNX's own operators that hold one number, and the shape in which the package takes it.

Models have such a number as a tensor of the shape [] or [1], and onnxruntime's kernels take either.
"""

_UNKNOWN: Mapping[tuple[str, str], str] = {("", "CastLike"): "round_mode"}
"""An attribute that the package's operator does not take, and that says nothing of what is left to it: casts
to float8e8m0, which are rounded by it, are this project's.
"""


def load_package() -> None:
    """Import the onnx package's operators now, rather than with the first that is asked for."""
    for domain in _PACKAGE_ROOMS:
        _package_class(domain, "Abs", 13)


def own_operator(
    node: NodeProto,
    domain: str,
    version: int,
    signature: Signature | None,
    opset_imports: Mapping[str, int],
) -> Implementation | None:
    """This project's implementation of the node, or None where it leaves the operator to the package."""
    function = find_operator(domain, node.op_type, version, node.input)
    if function is None:
        return None
    attributes = (
        {name: attribute_value(default) for name, default in signature.defaults.items()} if signature else {}
    )
    attributes.update((attribute.name, attribute_value(attribute)) for attribute in node.attribute)
    if missing := [name for name in (signature.required if signature else ()) if name not in attributes]:
        raise ValueError(f"the required attribute {missing[0]!r} is missing")

    def package(*inputs: Value) -> tuple[Any, ...]:
        theirs = package_operator(node, domain, version, signature, opset_imports, {})
        if theirs is None:
            raise NotImplementedError(f"the onnx package has no {node.op_type} of opset {version}")
        return tuple(theirs(inputs, {}))

    described = OperatorNode(version, attributes, tuple(bool(name) for name in node.output), package)
    return lambda inputs, implicit: function(described, *inputs)


def package_operator(
    node: NodeProto,
    domain: str,
    version: int,
    signature: Signature | None,
    opset_imports: Mapping[str, int],
    subgraphs: Mapping[str, Subgraph],
) -> Implementation | None:
    """The onnx package's reference operator for the node, or None where the package has none."""
    operator = _package_class(domain, node.op_type, version)
    if operator is None:
        return None
    from onnx import NodeProto as PackageNode

    theirs = PackageNode.FromString(_as_package_knows_it(node, domain, signature).SerializeToString())
    parameters = {
        "log": _no_log,
        "opsets": dict(opset_imports),
        "verbose": 0,
        "new_ops": {},
        "existing_functions": {},
    }
    if subgraphs:
        # Such an operator keeps its bodies as attributes: it is made anew for each call, around that call's
        # captures.
        def run_with_bodies(inputs: Sequence[Value], implicit: Mapping[str, Value]) -> Sequence[Any]:
            def bound(graph: Any, **_: Any) -> _BoundBody:
                own = GraphProto.FromString(graph.SerializeToString())
                return _BoundBody(next(found for found in subgraphs.values() if found.graph == own), implicit)

            results: Sequence[Any] = operator(theirs, {**parameters, "evaluator_cls": bound}).run(*inputs)
            return results

        return run_with_bodies
    prototype = operator(theirs, parameters)
    numbers, shape = _SINGLE.get(node.op_type, ((), ())) if domain == "" else ((), ())

    def run(inputs: Sequence[Value], implicit: Mapping[str, Value]) -> Sequence[Any]:
        given = list(inputs)
        for at in numbers:
            if at < len(given) and isinstance(value := given[at], np.ndarray) and value.size == 1:
                given[at] = value.reshape(shape)
        # Some operators put intermediate results into attributes of theirs: each call gets a copy of its own.
        results: Sequence[Any] = copy.copy(prototype).run(*given)
        return results

    return run


class _BoundBody:
    """A subgraph in the form in which the package's operators call one."""

    has_linked_attribute = False

    def __init__(self, subgraph: Subgraph, implicit: Mapping[str, Value]) -> None:
        self._subgraph = subgraph
        self._implicit = implicit
        self.input_names = [value.name for value in subgraph.graph.input]
        self.output_names = [value.name for value in subgraph.graph.output]

    def run(self, output_names: None, feeds: Mapping[str, Value], **_: Any) -> list[Value]:
        return self._subgraph.run([feeds.get(name) for name in self.input_names], self._implicit)


@cache
def _package_class(domain: str, op_type: str, version: int) -> type | None:
    room = _PACKAGE_ROOMS.get(domain)
    if room is None:
        return None
    from onnx.reference.op_run import OpRun

    extra = {"evaluator_cls": _no_log} if domain == "" else {}
    try:
        found = import_module(room).load_op(domain, op_type, version, **extra)
    # The package's way to say that there is no such operator, no such version, or only a function body; and
    # older ones have no room for a domain that came later.
    except (RuntimeError, ModuleNotFoundError):
        return None
    return found if isinstance(found, type) and issubclass(found, OpRun) else None


def _as_package_knows_it(node: NodeProto, domain: str, signature: Signature | None) -> NodeProto:
    """The node with those defaults written out that the newest opset, which the package knows, changed, and
    without what the package does not know.
    """
    if unknown := _UNKNOWN.get((domain, node.op_type)):
        node = node.with_fields(attribute=[a for a in node.attribute if a.name != unknown])
    if signature is None:
        return node
    given = {attribute.name for attribute in node.attribute}
    old = _old_defaults(domain, node.op_type, signature.since_version)
    added = [default for default in old if default.name not in given]
    if not added:
        return node
    return node.with_fields(attribute=[*node.attribute, *added])


@cache
def _old_defaults(domain: str, op_type: str, since_version: int) -> tuple[AttributeProto, ...]:
    old = signature_of(op_type, domain, since_version)
    newest = signature_of(op_type, domain, _NEWEST)
    if old is None or newest is None or old.since_version == newest.since_version:
        return ()
    changed = tuple(default for name, default in old.defaults.items() if newest.defaults.get(name) != default)
    if (domain, op_type) == ("", "RoiAlign") and old.since_version < 16:
        # What opset 10 did without an attribute is since opset 16 one of two modes, and not the default.
        changed += (make_attribute("coordinate_transformation_mode", "output_half_pixel"),)
    return changed


_NEWEST = 2**31 - 1


def _no_log(*_: Any, **__: Any) -> None:
    """The package's operators log each call; this project logs in its own places."""
