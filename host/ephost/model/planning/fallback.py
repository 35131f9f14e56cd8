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
from ephost.model.planning.host_kernels import host_kernel, is_sequence
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
# Operators that only hand on what their bodies are given and make.
_HANDING_ON = ("If", "Loop")


def create_kernels(
    model: Model, nodes: Sequence[Node | None], plan: Plan, plan_body: BodyPlanner
) -> list[Any]:
    """What runs each of the nodes; None for None. The plan gets to own the plans of their bodies.

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
        else host_kernel(node) or _create_kernel(model, functions, node, _body_runner(node, plan, plan_body))
        for node in nodes
    ]


def _body_runner(node: Node, plan: Plan, plan_body: BodyPlanner) -> Callable[..., list[Any]] | None:
    """What runs a node's bodies where an EP has claimed a part of one; None: the reference operators do."""
    if not any(_has_claims(body) for body in node.subgraphs.values()) and not _hands_on_sequences(node):
        return None
    from ephost.reference.values import Opaque

    opaque = Opaque if node.op_type in _HANDING_ON else None
    bodies = {}
    for name, body in node.subgraphs.items():
        captured = captured_values(body)
        fed = [*body.inputs, *(v for v in captured if v.initializer is None or not v.is_constant)]
        made = plan_body(body, fed)
        plan.bodies.append(made)
        bodies[name] = _BodyRunner(made, opaque, node.op_type == "If")
    return lambda name, values, implicit: bodies[name](values, implicit)


def _hands_on_sequences(node: Node) -> bool:
    """Whether sequences go through a node into its bodies, or out of them: on plans of their own these grow
    in their place, where the reference operators would copy a list each time.
    """
    return node.op_type in _HANDING_ON and any(
        is_sequence(value) for value in (*node.inputs, *node.implicit_inputs, *node.outputs)
    )


class BodiesKernel:
    """What runs a node that hands sequences on: it gets and gives them as C passes them."""

    def __init__(self, run: Callable[[list[Any]], list[Any]]) -> None:
        from ephost.reference.values import Opaque

        self._run, self._opaque = run, Opaque

    def __call__(self, inputs: list[Any]) -> list[Any]:
        """Run the node once."""
        opaque = self._opaque
        given = [opaque(value) if type(value) is call.Passed else value for value in inputs]
        return [value.held if type(value) is opaque else value for value in self._run(given)]


def _is_known(node: Node) -> bool:
    """Whether it is known what the operator does; where it is not, onnxruntime's error is another too."""
    if node.domain == contrib.DOMAIN:
        return node.op_type in contrib.operators()
    return schema_of(node.op_type, node.domain, node.since_version) is not None


def _create_kernel(
    model: Model, functions: Functions, node: Node, run_subgraph: Callable[..., list[Any]] | None
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
    # The same holds for the weights of bodies.
    proto = node.proto.copied() if node.subgraphs and run_subgraph is None else node.proto
    try:
        kernel = create_kernel(proto, model.opsets, functions, run_subgraph=run_subgraph, declared=declared)
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

    run = with_captured if names else kernel
    return BodiesKernel(run) if run_subgraph is not None and node.op_type in _HANDING_ON else run


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
    """Runs a subgraph on a plan of its own: an EP has claimed a part of it, or sequences go through it."""

    def __init__(self, plan: Plan, opaque: Any, once: bool) -> None:
        """Make it.

        Args:
            plan: of the subgraph.
            opaque: the class of values that the node's operator hands on; None: it looks at them.
            once: whether a node's body runs at most once in a run of the node, so that nobody reads after it
                what it captures.
        """
        self._opaque, self._once = opaque, once
        self._names = [value.name for value in plan.inputs]
        self._outputs = len(plan.outputs)
        # Values come from operators, not from users: what they are is what they are.
        inputs = tuple((name, 0, None, True, False) for name in self._names)
        outputs = tuple(f"{at}:{value.name}" for at, value in enumerate(plan.outputs))
        self._run = call.Runner(address(plan.pointer), None, _as_is, KeyError, inputs, outputs).run

    def __call__(self, values: Sequence[Any], implicit: Mapping[str, Any]) -> list[Any]:
        # What a body is given is the state of a loop, which this iteration is the last to read.
        feed = {name: self._held(value, True) for name, value in zip(self._names, values, strict=False)}
        for name in self._names[len(values) :]:
            feed[name] = self._held(implicit[name], self._once)
        return [self._given(made) for made in self._run(None, feed, None)]

    def _held(self, value: Any, is_last: bool) -> Any:
        if self._opaque is None or type(value) is not self._opaque:
            return value
        return value.held.for_its_last() if is_last else value.held

    def _given(self, made: Any) -> Any:
        if type(made) is not call.Passed:
            return made
        return made.objects() if self._opaque is None else self._opaque(made)


def _as_is(_: int, value: Any) -> Any:
    return value
