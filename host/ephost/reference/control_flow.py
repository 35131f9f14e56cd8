"""If, Loop, Scan and SequenceMap: when a body runs, on what, and how its results are put together."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from ephost.records import Record

from ..message_helpers import numpy_dtype
from ..messages import GraphProto, TensorProto, ValueInfoProto
from .body import RunBody
from .values import Value


class Subgraph(Record, frozen=True):
    """A graph attribute: its declaration and the way to run it."""

    graph: GraphProto
    run: RunBody


class ControlNode(Record, frozen=True):
    """A control-flow node: what its operator needs to know of it."""

    version: int
    subgraphs: Mapping[str, Subgraph]
    attributes: Mapping[str, Any]
    wanted: tuple[bool, ...]  # which outputs somebody reads


Implicit = Mapping[str, Value]


def run_if(node: ControlNode, inputs: Sequence[Value], implicit: Implicit) -> list[Value]:
    """The outputs of the branch that the condition, a tensor of one element, picks."""
    branch = "then_branch" if _condition(inputs[0]) else "else_branch"
    return node.subgraphs[branch].run([], implicit)


def run_loop(node: ControlNode, inputs: Sequence[Value], implicit: Implicit) -> list[Value]:
    """The last loop-carried values, then the scan outputs. Without trip count and condition it never ends.

    Iteration number and condition have the rank that the body declares, 0 or 1, as exporters write either.
    """
    body = node.subgraphs["body"]
    shapes = [(1,) * min(_declared_rank(info), 1) for info in body.graph.input[:2]]
    trips = int(scalar_of(inputs[0], "the trip count")) if inputs and inputs[0] is not None else None
    going = len(inputs) < 2 or inputs[1] is None or _condition(inputs[1])
    state = list(inputs[2:])
    collected: list[list[Value]] = [[] for _ in body.graph.output[1 + len(state) :]]
    iteration = 0
    while going and (trips is None or iteration < trips):
        counted = np.full(shapes[0], iteration, np.int64)
        results = body.run([counted, np.full(shapes[1], True), *state], implicit)
        going = _condition(results[0])
        state = results[1 : 1 + len(state)]
        for values, value in zip(collected, results[1 + len(state) :], strict=True):
            values.append(value)
        iteration += 1
    declared = body.graph.output[1 + len(state) :]
    return state + [_stack(values, info) for values, info in zip(collected, declared, strict=True)]


def run_scan(node: ControlNode, inputs: Sequence[Value], implicit: Implicit) -> list[Value]:
    """The last state variables, then the scan outputs, each stacked along its axis in its direction."""
    body = node.subgraphs["body"]
    scanned = int(node.attributes["num_scan_inputs"])
    axes = _per_item(node, "scan_input_axes", scanned)
    outputs = len(body.graph.output) - len(inputs) + scanned
    if node.version < 9:
        return _scan_batches(node, body, inputs, scanned, implicit)
    return _scan(
        body,
        inputs[: len(inputs) - scanned],
        [tensor_of(value, "a scan input") for value in inputs[len(inputs) - scanned :]],
        implicit,
        axes,
        _per_item(node, "scan_input_directions", scanned),
        _per_item(node, "scan_output_axes", outputs),
        _per_item(node, "scan_output_directions", outputs),
    )


def _scan(
    body: Subgraph,
    initial: Sequence[Value],
    scanned: Sequence[np.ndarray],
    implicit: Implicit,
    axes: Sequence[int],
    directions: Sequence[int],
    output_axes: Sequence[int],
    output_directions: Sequence[int],
) -> list[Value]:
    """One scan: the final states, then for each scan output the stacked values of all iterations."""
    slices = [np.moveaxis(value, axis, 0) for value, axis in zip(scanned, axes, strict=True)]
    lengths = {len(value) for value in slices}
    if len(lengths) != 1:
        raise ValueError(f"the scan inputs have different lengths along their scan axes: {sorted(lengths)}")
    slices = [value[::-1] if reverse else value for value, reverse in zip(slices, directions, strict=True)]
    state = list(initial)
    collected: list[list[Value]] = [[] for _ in body.graph.output[len(state) :]]
    for index in range(lengths.pop()):
        results = body.run([*state, *(np.asarray(value[index]) for value in slices)], implicit)
        state = results[: len(state)]
        for values, value in zip(collected, results[len(state) :], strict=True):
            values.append(value)
    stacked: list[Value] = []
    for position, values in enumerate(collected):
        result = _stack(
            values[::-1] if output_directions[position] else values, body.graph.output[len(state) + position]
        )
        stacked.append(np.moveaxis(result, 0, output_axes[position]))
    return state + stacked


def _scan_batches(
    node: ControlNode, body: Subgraph, inputs: Sequence[Value], scanned: int, implicit: Implicit
) -> list[Value]:
    """Scan of opset 8: every value has a batch axis before the others; each row has a sequence length."""
    states = [tensor_of(value, "a state variable") for value in inputs[1 : len(inputs) - scanned]]
    sequences = [tensor_of(value, "a scan input") for value in inputs[len(inputs) - scanned :]]
    longest = sequences[0].shape[1]
    lengths = (
        [longest] * len(sequences[0]) if inputs[0] is None else tensor_of(inputs[0], "sequence_lens").tolist()
    )
    directions = _per_item(node, "directions", scanned)
    rows: list[list[Value]] = []
    for row, length in enumerate(lengths):
        outputs = len(body.graph.output) - len(states)
        results = _scan(
            body,
            [state[row] for state in states],
            [sequence[row, :length] for sequence in sequences],
            implicit,
            [0] * scanned,
            directions,
            [0] * outputs,
            [0] * outputs,
        )
        for position in range(len(states), len(results)):
            value = tensor_of(results[position], "a scan output")
            results[position] = np.concatenate(
                [value, np.zeros((longest - length, *value.shape[1:]), value.dtype)]
            )
        rows.append(results)
    return [
        np.stack([tensor_of(value, "an output") for value in column]) for column in zip(*rows, strict=True)
    ]


def run_sequence_map(node: ControlNode, inputs: Sequence[Value], implicit: Implicit) -> list[Value]:
    """A sequence of results for each output of the body; tensor inputs are the same for every element."""
    body = node.subgraphs["body"]
    first = inputs[0]
    if not isinstance(first, list):
        raise TypeError("the first input must be a sequence")
    lengths = {len(value) for value in inputs if isinstance(value, list)}
    if len(lengths) != 1:
        raise ValueError(f"the input sequences have different lengths: {sorted(lengths)}")
    collected: list[list[Value]] = [[] for _ in body.graph.output]
    for index in range(len(first)):
        results = body.run([value[index] if isinstance(value, list) else value for value in inputs], implicit)
        for values, value in zip(collected, results, strict=True):
            values.append(value)
    return list(collected)


CONTROL_FLOW: Mapping[str, Callable[[ControlNode, Sequence[Value], Implicit], list[Value]]] = {
    "If": run_if,
    "Loop": run_loop,
    "Scan": run_scan,
    "SequenceMap": run_sequence_map,
}
"""The operators of ONNX's own domain that run subgraphs."""


def tensor_of(value: Value, what: str) -> np.ndarray:
    """The value, which must be a tensor."""
    if not isinstance(value, np.ndarray):
        raise TypeError(f"{what} must be a tensor, got {type(value).__name__}")
    return value


def scalar_of(value: Value, what: str) -> Any:
    """The value's only element."""
    tensor = tensor_of(value, what)
    if tensor.size != 1:
        raise ValueError(f"{what} must have one element, got shape {tensor.shape}")
    return tensor.item()


def _declared_rank(info: ValueInfoProto) -> int:
    """The number of dimensions of a tensor; 0 also where nothing is said."""
    return len(info.type.tensor_type.shape.dim)


def _condition(value: Value) -> bool:
    return bool(scalar_of(value, "the condition"))


def _per_item(node: ControlNode, name: str, count: int) -> list[int]:
    """An optional list attribute with one entry per scan input or output; zeros where it is absent."""
    values = list(node.attributes.get(name) or [0] * count)
    if len(values) != count:
        raise ValueError(f"attribute {name!r} has {len(values)} entries for {count} values")
    return values


def _stack(values: Sequence[Value], declared: ValueInfoProto) -> np.ndarray:
    """The values of all iterations along a new first axis.

    With no iteration the body's declaration gives element type and dimensions; an unknown dimension counts as
    0.
    """
    if values:
        return np.stack([tensor_of(value, f"scan output {declared.name!r}") for value in values])
    kind = declared.type.tensor_type
    if kind.elem_type == TensorProto.UNDEFINED:
        raise ValueError(
            f"no iteration ran and the body does not declare the type of scan output {declared.name!r}"
        )
    return np.zeros((0, *(dim.dim_value for dim in kind.shape.dim)), numpy_dtype(kind.elem_type))
