"""What runs the nodes that nobody claimed: the reference operators, on Python's side of a run."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from ephost import errors
from ephost._bindings import address, call, dtype_of
from ephost.errors import InvalidGraph
from ephost.messages import FunctionProto
from ephost.model import contrib
from ephost.model.graph import Graph, Model, Node, TensorType, Value, captured_values, schema_of
from ephost.model.planning.bodies import bodies_kernel, body_homes
from ephost.model.planning.homes import BodyHomes
from ephost.model.planning.host_kernels import HostKernel, host_kernel
from ephost.model.planning.steps import Plan

Functions = Mapping[tuple[str, str, str], FunctionProto]
# Plans a body, given what is fed to it.
BodyPlanner = Callable[[Graph, Sequence[Value]], Plan]
# Operators, or all of a domain, whose constants only the kernels of some onnxruntime can read.
_OF_ONE_MACHINE = {
    ("com.microsoft.nchwc", ""): (
        "onnxruntime has laid the model's weights out for the processor on which it was optimized: save it "
        "with the optimization level ORT_ENABLE_EXTENDED or below"
    ),
    ("com.microsoft", "MatMulFpQ4"): (
        "its weights are in a form of onnxruntime's own kernels: MatMulNBits has one for all"
    ),
}


def plan_bodies(nodes: Sequence[Node], plan_body: BodyPlanner) -> dict[int, dict[str, Plan]]:
    """Of nodes that nobody claimed, by index, the plans of their bodies. The caller releases them."""
    plans: dict[int, dict[str, Plan]] = {}
    try:
        for node in nodes:
            if not node.subgraphs:
                continue
            made = plans[node.index] = {}
            for name, body in node.subgraphs.items():
                captured = captured_values(body)
                fed = [*body.inputs, *(v for v in captured if v.initializer is None or not v.is_constant)]
                made[name] = plan_body(body, fed)
    except BaseException:
        for bodies in plans.values():
            for plan in bodies.values():
                plan.release()
        raise
    return plans


def homes_of_bodies(graph: Graph, bodies: Mapping[int, Mapping[str, Plan]]) -> dict[int, BodyHomes]:
    """By node where its bodies want what goes in and out of them, if that is not the CPU's memory alone."""
    found = {node.index: body_homes(node, bodies[node.index]) for node in graph.nodes if node.index in bodies}
    return {index: homes for index, homes in found.items() if homes is not None}


def create_kernels(
    model: Model,
    nodes: Sequence[Node | None],
    bodies: Mapping[int, Mapping[str, Plan]],
    homes: Mapping[int, BodyHomes],
) -> list[Any]:
    """What runs each of the nodes; None for None.

    Args:
        model: theirs.
        nodes: what nobody claimed.
        bodies: the plans of their bodies, by node, which must outlive what is made.
        homes: what :func:`homes_of_bodies` says of these.

    Raises:
        InvalidGraph, NotImplemented: a node that nobody can run.
    """
    functions = model.functions
    if model.is_mapped and any(node is not None for node in nodes):
        # The reference operators read constants of functions there, which may lie in the model's file.
        functions = {key: function.copied() for key, function in functions.items()}
    return [
        None
        if node is None
        else _create_kernel(model, functions, node, bodies.get(node.index), homes.get(node.index))
        for node in nodes
    ]


def _create_kernel(
    model: Model,
    functions: Functions,
    node: Node,
    plans: Mapping[str, Plan] | None,
    homes: BodyHomes | None,
) -> HostKernel | Callable[[list[Any]], list[Any]]:
    kernel = host_kernel(node)
    if kernel is None and plans is not None:
        kernel = bodies_kernel(node, plans, homes)
    if kernel is not None:
        return kernel
    if plans is None:
        return _reference_kernel(model, functions, node, None)
    runners = {name: _BodyRunner(plan) for name, plan in plans.items()}
    return _reference_kernel(
        model, functions, node, lambda name, values, implicit: runners[name](values, implicit)
    )


def _is_known(node: Node) -> bool:
    """Whether it is known what the operator does; where it is not, onnxruntime's error is another too."""
    if node.domain == contrib.DOMAIN:
        return node.op_type in contrib.operators()
    return schema_of(node.op_type, node.domain, node.since_version) is not None


def _reference_kernel(
    model: Model, functions: Functions, node: Node, run_subgraph: Callable[..., list[Any]] | None
) -> Callable[[list[Any]], list[Any]]:
    """What runs a node on the reference operators: a function of its inputs, then of its captured values.

    ``run_subgraph`` runs its bodies when it has any.

    Raises:
        InvalidGraph: ONNX has no such operator at the model's opset.
        Fail: nobody knows the operator.
        NotImplemented: nobody implements it: no plugin claimed it, the fallback lacks it.
    """
    from ephost.reference import create_kernel
    from ephost.reference.errors import NodeError

    declared = [_declared_dtype(value) for value in node.outputs]
    try:
        kernel = create_kernel(
            node.proto, model.opsets, functions, run_subgraph=run_subgraph, declared=declared
        )
    except NotImplementedError as error:
        opset = model.opsets.get("", 1)
        unknown = node.domain == "" and schema_of(node.op_type, "", opset) is None
        if unknown and not contrib.is_contrib(node.proto, opset):
            raise InvalidGraph(
                f"node {node.label}: ONNX has no operator {node.op_type} at opset {opset}"
            ) from None
        refusal = f"no execution provider claims the node {node.label}, and the fallback cannot: {error}"
        if why := _OF_ONE_MACHINE.get((node.domain, node.op_type)) or _OF_ONE_MACHINE.get((node.domain, "")):
            raise errors.NotImplemented(f"{refusal}. {why}") from None
        if node.domain and node.custom is None and not _is_known(node):
            raise errors.Fail(
                f"{node.domain}:{node.op_type}(-1) is not a registered function/op: {refusal}"
            ) from None
        raise errors.NotImplemented(refusal) from None
    except NodeError as error:
        raise InvalidGraph(str(error)) from error
    explicit = len(node.inputs)
    names = [value.name for value in node.implicit_inputs]

    def with_captured(inputs: list[Any]) -> list[Any]:
        return kernel(inputs[:explicit], dict(zip(names, inputs[explicit:], strict=True)))

    return with_captured if names else kernel


def _declared_dtype(value: Value | None) -> np.dtype | None:
    known = value is not None and isinstance(value.type, TensorType) and value.type.element_type
    return dtype_of(known) if known else None


class _BodyRunner:
    """Runs the plan of a subgraph for a reference operator."""

    def __init__(self, plan: Plan) -> None:
        self._names = [value.name for value in plan.inputs]
        # Values come from operators, not from users: what they are is what they are.
        inputs = tuple((name, 0, None, True, False) for name in self._names)
        outputs = tuple(f"{at}:{value.name}" for at, value in enumerate(plan.outputs))
        self._run = call.Runner(address(plan.pointer), None, _as_is, KeyError, inputs, outputs).run

    def __call__(self, values: Sequence[Any], implicit: Mapping[str, Any]) -> list[Any]:
        feed = dict(zip(self._names, values, strict=False))
        for name in self._names[len(values) :]:
            feed[name] = implicit[name]
        results: list[Any] = self._run(None, feed, None)
        return results


def _as_is(_: int, value: Any) -> Any:
    return value
