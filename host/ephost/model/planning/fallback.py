"""What runs the nodes that nobody claimed: the reference operators, on Python's side of a run."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from ephost import errors
from ephost._bindings import address, call, dtype_of
from ephost.errors import InvalidGraph
from ephost.model import contrib
from ephost.model.graph import Graph, Model, Node, TensorType, Value, captured_values, schema_of
from ephost.model.planning.host_kernels import host_kernel
from ephost.model.planning.steps import Plan

# Plans a body, given what is fed to it.
BodyPlanner = Callable[[Graph, Sequence[Value]], Plan]


def create_kernels(
    model: Model, nodes: Sequence[Node | None], plan: Plan, plan_body: BodyPlanner
) -> list[Any]:
    """What runs each of the nodes; None for None. The plan gets to own the plans of their bodies.

    Raises:
        InvalidGraph, NotImplemented: a node that nobody can run.
    """
    return [
        None
        if node is None
        else host_kernel(node) or _create_kernel(model, node, _body_runner(node, plan, plan_body))
        for node in nodes
    ]


def _body_runner(node: Node, plan: Plan, plan_body: BodyPlanner) -> Callable[..., list[Any]] | None:
    """What runs a node's bodies where an EP has claimed a part of one; None: the reference operators do."""
    if not any(_has_claims(body) for body in node.subgraphs.values()):
        return None
    bodies = {}
    for name, body in node.subgraphs.items():
        captured = captured_values(body)
        fed = [*body.inputs, *(v for v in captured if v.initializer is None or not v.is_constant)]
        made = plan_body(body, fed)
        plan.bodies.append(made)
        bodies[name] = _BodyRunner(made)
    return lambda name, values, implicit: bodies[name](values, implicit)


def _is_known(node: Node) -> bool:
    """Whether it is known what the operator does; where it is not, onnxruntime's error is another too."""
    if node.domain == contrib.DOMAIN:
        return node.op_type in contrib.operators()
    return schema_of(node.op_type, node.domain, node.since_version) is not None


def _create_kernel(
    model: Model, node: Node, run_subgraph: Callable[..., list[Any]] | None
) -> Callable[[list[Any]], list[Any]]:
    """What runs a node on the reference operators: a function of its inputs, then of its captured values.

    ``run_subgraph`` runs its bodies when it has any; where it is None the reference operators do.

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
            node.proto, model.opsets, model.functions, run_subgraph=run_subgraph, declared=declared
        )
    except NotImplementedError as error:
        if node.domain == "" and schema_of(node.op_type, "", model.opsets.get("", 1)) is None:
            raise InvalidGraph(
                f"node {node.label}: ONNX has no operator {node.op_type} at opset {model.opsets.get('', 1)}"
            ) from None
        refusal = f"no execution provider claims the node {node.label}, and the fallback cannot: {error}"
        if node.domain and node.custom is None and not _is_known(node):
            raise errors.Fail(
                f"{node.domain}:{node.op_type}(-1) is not a registered function/op: {refusal}"
            ) from None
        raise errors.NotImplemented(refusal) from None
    except NodeError as error:
        raise InvalidGraph(str(error)) from error
    explicit = len(node.inputs)
    names = [value.name for value in node.implicit_inputs]
    if not names:
        return kernel

    def with_captured(inputs: list[Any]) -> list[Any]:
        return kernel(inputs[:explicit], dict(zip(names, inputs[explicit:], strict=True)))

    return with_captured


def _declared_dtype(value: Value | None) -> np.dtype | None:
    known = value is not None and isinstance(value.type, TensorType) and value.type.element_type
    return dtype_of(known) if known else None


def _has_claims(graph: Graph) -> bool:
    """Whether there is a node in it that the reference operators cannot run, or should not."""
    return any(
        n.ep_name or n.custom is not None or any(_has_claims(body) for body in n.subgraphs.values())
        for n in graph.nodes
    )


class _BodyRunner:
    """Runs a subgraph on a plan of its own, where an EP has claimed a part of it."""

    def __init__(self, plan: Plan) -> None:
        self._names = [value.name for value in plan.inputs]
        self._outputs = len(plan.outputs)
        # Values come from operators, not from users: what they are is what they are.
        inputs = tuple((name, 0, None, True) for name in self._names)
        outputs = tuple(f"{at}:{value.name}" for at, value in enumerate(plan.outputs))
        self._run = call.Runner(address(plan.pointer), None, _as_is, KeyError, inputs, outputs).run

    def __call__(self, values: Sequence[Any], implicit: Mapping[str, Any]) -> list[Any]:
        feed = dict(zip(self._names, values, strict=False))
        for name in self._names[len(values) :]:
            feed[name] = implicit[name]
        return list(self._run(None, feed, None))


def _as_is(_: int, value: Any) -> Any:
    return value
