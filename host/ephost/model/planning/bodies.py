"""Nodes whose bodies have plans of their own, as the host runs them in C: If, Loop, Scan and SequenceMap."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ephost._bindings import abi_element_type, check, ffi, lib
from ephost.messages import TensorProto, TypeProto
from ephost.model.graph import Graph, Node, TensorType, Value, is_of_numbers
from ephost.model.planning.homes import BodyHomes
from ephost.model.planning.host_kernels import HostKernel
from ephost.model.planning.steps import Plan

_BODIES = {
    "If": ("then_branch", "else_branch"),
    "Loop": ("body",),
    "Scan": ("body",),
    "SequenceMap": ("body",),
}
# Several of these elements share a byte: C does not put them together.
_PACKED = frozenset(
    getattr(TensorProto, name)
    for name in ("UINT4", "INT4", "FLOAT4E2M1", "UINT2", "INT2")
    if hasattr(TensorProto, name)
)


def bodies_kernel(node: Node, plans: Mapping[str, Plan], homes: BodyHomes | None) -> HostKernel | None:
    """What runs such a node; None where the reference operators do, on the same plans of its bodies, or say
    what is wrong with it. ``homes``: what :func:`body_homes` says of it.
    """
    parts = _parts(node, plans)
    if parts is None:
        return None
    keep: list[Any] = []  # what C reads until it has copied it
    bodies = []
    for name in _BODIES[node.op_type]:
        plan = plans[name]
        on_device = [False] * len(plan.outputs)
        if homes is not None:
            first = 1 if node.op_type == "Loop" else 0  # the condition
            for at, memory in enumerate(homes.outputs[: len(on_device) - first]):
                on_device[first + at] = memory > 0
            plan.resident = _resident(node, node.subgraphs[name], plan, homes, on_device)
        bodies.append(_body(node, node.subgraphs[name], plan, on_device, keep))
    scanned, collected = (_tracks(tracks, keep) for tracks in (parts.scanned, parts.collected))
    what = ffi.new(
        "EphostBodies*",
        {
            "op_type": _text(node.op_type, keep),
            "bodies": _array("EphostBody[]", bodies, keep),
            "body_count": len(bodies),
            "state_count": parts.states,
            "scanned": scanned,
            "scanned_count": len(parts.scanned),
            "collected": collected,
            "collected_count": len(parts.collected),
            "counter_ranks": parts.counter_ranks,
        },
    )
    out = ffi.new("EphostHostKernel**")
    check(lib.ephost_bodies_new(what, out))
    return HostKernel(out[0])


class _Track:
    """What runs of a body are given parts of, or make parts of: along which axis, in which order."""

    __slots__ = ("axis", "backwards", "value")

    def __init__(self, value: Value, axis: int = 0, backwards: int = 0) -> None:
        self.value = value
        self.axis = axis
        self.backwards = bool(backwards)


class _Parts:
    """What of a node's values goes from run to run, is scanned, and is collected."""

    __slots__ = ("collected", "counter_ranks", "scanned", "states")

    def __init__(self, states: int, scanned: Sequence[_Track], collected: Sequence[_Track]) -> None:
        self.states = states
        self.scanned = scanned
        self.collected = collected
        self.counter_ranks = [0, 0]


def _parts(node: Node, plans: Mapping[str, Plan]) -> _Parts | None:
    """None where C does not run the node: another operator, or one that does not fit its bodies."""
    names = _BODIES.get(node.op_type)
    if node.domain or names is None or not all(name in plans for name in names):
        return None
    body = node.subgraphs[names[0]]
    given, made = len(node.inputs), len(body.outputs)
    if node.op_type == "If":
        fits = all(len(branch.outputs) >= len(node.outputs) for branch in node.subgraphs.values())
        return _Parts(0, [], []) if fits else None
    if node.op_type == "SequenceMap":
        return _Parts(0, [], [_Track(value) for value in body.outputs]) if given == len(body.inputs) else None
    if node.op_type == "Loop":
        states = max(given - 2, 0)
        if len(body.inputs) != 2 + states or made < 1 + states or given < 2:
            return None
        parts = _Parts(states, [], [_Track(value) for value in body.outputs[1 + states :]])
        parts.counter_ranks = [_rank(value) for value in body.inputs[:2]]
        return None if _has_packed(parts) else parts
    scans = int(node.attribute("num_scan_inputs", 0))
    states = given - scans
    if node.since_version < 9 or scans < 1 or states < 0 or len(body.inputs) != given or made < states:
        return None
    scanned = _per_item(node, body.inputs[states:], "scan_input_axes", "scan_input_directions")
    collected = _per_item(node, body.outputs[states:], "scan_output_axes", "scan_output_directions")
    if scanned is None or collected is None:
        return None
    parts = _Parts(states, scanned, collected)
    return None if _has_packed(parts) else parts


def _per_item(node: Node, values: Sequence[Value], axes: str, directions: str) -> list[_Track] | None:
    numbers = [list(node.attribute(name) or [0] * len(values)) for name in (axes, directions)]
    if any(len(each) != len(values) for each in numbers):
        return None
    return [_Track(*each) for each in zip(values, *numbers, strict=True)]


def _has_packed(parts: _Parts) -> bool:
    kinds = [track.value.type for track in (*parts.scanned, *parts.collected)]
    return any(isinstance(kind, TensorType) and kind.element_type in _PACKED for kind in kinds)


def _rank(value: Value) -> int:
    """Exporters declare the numbers that a loop gives its body as scalars, or as tensors of one element."""
    kind = value.type
    return min(len(kind.dims), 1) if isinstance(kind, TensorType) and kind.dims is not None else 0


def body_homes(node: Node, plans: Mapping[str, Plan]) -> BodyHomes | None:
    """Where a node's bodies want its inputs, and what they capture, and where they make its outputs; None
    where that is the CPU's memory throughout.
    """
    parts = _parts(node, plans)
    bodies = [plans[name] for name in _BODIES[node.op_type]] if parts is not None else []
    if parts is None or not all(body.input_homes or body.output_homes for body in bodies):
        return None
    inputs, outputs = [0] * len(node.inputs), [0] * len(node.outputs)
    if node.op_type == "If":
        made = [body.output_homes for body in bodies]
        outputs = [_common([homes[at] for homes in made]) for at in range(len(outputs))]
    elif node.op_type != "SequenceMap":
        first, condition = (2, 1) if node.op_type == "Loop" else (0, 0)
        for at in range(min(parts.states, len(outputs))):
            # One memory for all runs: where a run makes it, and the next one reads it.
            memory = _common([bodies[0].output_homes[condition + at], bodies[0].input_homes[first + at]])
            inputs[first + at] = outputs[at] = memory
    wanted: dict[str, list[int | None]] = {}
    for name, body in zip(_BODIES[node.op_type], bodies, strict=True):
        own = len(node.subgraphs[name].inputs)
        for value, home in zip(body.inputs[own:], body.input_homes[own:], strict=True):
            wanted.setdefault(value.name, []).append(home)
    for value in node.implicit_inputs:
        inputs.append(_common(wanted.get(value.name, ())) if is_of_numbers(value) else 0)
    return BodyHomes(inputs, outputs)


def _resident(node: Node, body: Graph, plan: Plan, homes: BodyHomes, on_device: Sequence[bool]) -> set[Value]:
    """What goes into a body, and out of it, on a device, and is not copied there."""
    own = len(body.inputs)
    names = [value.name for value in node.implicit_inputs]
    memories = dict(zip(names, homes.inputs[len(node.inputs) :], strict=True))
    found = {value for value in plan.inputs[own:] if memories.get(value.name)}
    # If has a condition, and no body inputs.
    found |= {value for value, memory in zip(body.inputs, homes.inputs, strict=False) if memory}
    made = {value for value, is_there in zip(plan.outputs, on_device, strict=True) if is_there}
    fetched = {value for value, is_there in zip(plan.outputs, on_device, strict=True) if not is_there}
    return found | (made - fetched - set(plan.read_on_cpu))


def _common(memories: Sequence[int | None]) -> int:
    """The memory that all of them are that are one; else the CPU's."""
    known = {memory for memory in memories if memory is not None}
    return next(iter(known)) if len(known) == 1 else 0


def _body(node: Node, body: Graph, plan: Plan, on_device: Sequence[bool], keep: list[Any]) -> dict[str, Any]:
    own = len(body.inputs)
    places = {value.name: len(node.inputs) + at for at, value in enumerate(node.implicit_inputs)}
    captured = [places[value.name] for value in plan.inputs[own:]]
    return {
        "plan": plan.pointer,
        "own_count": own,
        "captured": _array("size_t[]", captured, keep),
        "on_device": _array("bool[]", on_device, keep),
    }


def _tracks(tracks: Sequence[_Track], keep: list[Any]) -> Any:
    rows = []
    for track in tracks:
        element_type, dims = _declared(track.value)
        rows.append(
            {
                "axis": track.axis,
                "backwards": track.backwards,
                "name": _text(track.value.name, keep),
                "element_type": element_type,
                "rank": len(dims),
                "dims": _array("int64_t[]", dims, keep),
            }
        )
    return _array("EphostTrack[]", rows, keep)


def _declared(value: Value) -> tuple[int, list[int]]:
    """Element type and dimensions of a tensor that no run makes: as in onnxruntime, those not known are 0."""
    kind = value.type
    if isinstance(kind, TypeProto) or kind is None:
        return 0, []
    return abi_element_type(kind.element_type), [
        dim if isinstance(dim, int) else 0 for dim in kind.dims or ()
    ]


def _text(text: str, keep: list[Any]) -> Any:
    keep.append(ffi.new("char[]", text.encode()))
    return keep[-1]


def _array(kind: str, items: Sequence[Any], keep: list[Any]) -> Any:
    keep.append(ffi.new(kind, list(items)))
    return keep[-1]
