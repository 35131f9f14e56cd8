"""A plan on its way to C: a few calls, however many steps it has."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ephost._bindings import NULL, abi_element_type, call, check, ffi, lib, packed
from ephost.device_memory import Transport
from ephost.messages import TypeProto
from ephost.model.graph import TensorType, Value
from ephost.model.native_graph import Constants
from ephost.model.partition import Assignment
from ephost.model.planning.homes import Interface, SlotStep
from ephost.model.planning.host_kernels import HostKernel
from ephost.model.planning.runners import HOST, PYTHON, Runners
from ephost.model.planning.steps import Plan
from ephost.providers import DEFAULT_PROVIDER


def add_eps(plan: Plan, assignments: Sequence[Assignment]) -> None:
    """Tell the plan of its EPs, in order.

    Each hears of runs, but for the CPU EP where nothing was left for it.
    """
    for assignment in assignments:
        ep, memory = assignment.ep, assignment.memory
        where = (NULL, NULL, NULL)
        if memory is not None:
            where = (memory.info, memory.allocator, memory.stream_factory)
        hears = ep.name != DEFAULT_PROVIDER or bool(assignment.groups or assignment.kernels)
        check(lib.ephost_plan_add_ep(plan.pointer, ep.pointer, ep.name.encode(), *where, hears))


def set_slots(
    plan: Plan,
    values: Sequence[tuple[Value, int]],
    constants: Constants,
    runners: Runners,
    pools: Mapping[int, Any],
) -> None:
    """Tell the plan what each slot holds and in which memory, and give it the constants, uploaded where that
    is a device's. ``pools``: of slots of the CPU's memory, what is shared with a worker that reads or writes
    them.
    """
    rows: list[tuple[Any, ...]] = []
    by_type: dict[tuple[int, int], tuple[Any, ...]] = {}
    for value, memory in values:
        row = by_type.get((id(value.type), memory))
        if row is None:
            row = _slot_type(value.type, runners.transport(memory))
            by_type[id(value.type), memory] = row
        if not memory and (pool := pools.get(len(rows))) is not None:
            row = (*row[:3], NULL, lib.ephost_pool_allocator(pool))
        rows.append(row)
    check(lib.ephost_plan_set_slots(plan.pointer, rows))
    replaceable = {id(value) for value in plan.inputs}
    for index, (value, memory) in enumerate(values):
        if memory < 0:
            continue  # a constant that a worker's device is to have is made by a run
        if value.initializer is not None and not (memory and id(value) in replaceable):
            device = runners.memory(memory)
            held = constants.get(value, in_file=device is not None)
            if device is not None:
                held = device.upload(value, held)
            out = ffi.new("OrtValue**")
            check(lib.ephost_value_share(held, out))
            check(lib.ephost_plan_set_constant(plan.pointer, index, out[0]))


def _slot_type(kind: TensorType | TypeProto | None, memory: Transport | None) -> tuple[Any, ...]:
    where = (NULL, NULL) if memory is None else (memory.info, memory.allocator)
    if not isinstance(kind, TensorType):
        return (0, -1, NULL, *where)
    dims = kind.static_dims
    element_type = abi_element_type(kind.element_type)
    if dims is None:
        return (element_type, -1, NULL, *where)
    return (element_type, len(dims), ffi.new("int64_t[]", dims), *where)


def add_steps(plan: Plan, steps: Sequence[SlotStep], runners: Runners, kernels: Sequence[Any]) -> None:
    """Hand the steps over in their order; ``kernels`` has for each what the host runs, or None."""
    rows: list[tuple[Any, ...]] = []
    slots: list[int] = []
    names: list[str] = []
    for step, kernel in zip(steps, kernels, strict=True):
        runner = step.runner
        if isinstance(kernel, HostKernel):
            what: tuple[Any, ...] = (HOST, -1, kernel.give(), NULL, NULL)
        elif runner is None:
            what = (PYTHON, -1, ffi.cast("void*", call.object_address(kernel)), NULL, NULL)
        else:
            what = (runner.kind, runner.ep, runner.target, runner.state, runner.definition)
        members = runners.members.get(step.node.index) if step.node is not None else None
        rows.append((*what, len(step.inputs), len(step.outputs), members is not None and len(members) > 1))
        slots += step.inputs
        slots += step.outputs
        if step.node is None:
            names += (step.copy, "copy")
            continue
        if members is None:
            names += (step.node.name or f"#{step.node.index}", step.node.op_type)
            continue
        names += (_listed([m.name or f"#{m.index}" for m in members]), _listed([m.op_type for m in members]))
    check(lib.ephost_plan_add_steps(plan.pointer, rows, len(rows), slots, packed(names)))


def _listed(names: Sequence[str]) -> str:
    """What errors call a step: the names of the model's nodes in it, as far as they are few."""
    return ", ".join(names) if len(names) <= 4 else f"{', '.join(names[:3])} and {len(names) - 3} more"


def set_interface(plan: Plan, interface: Interface) -> None:
    """Tell the plan which slots a caller feeds and gets, on the CPU and on devices."""
    check(
        lib.ephost_plan_set_interface(
            plan.pointer,
            interface.inputs,
            interface.device_inputs,
            len(interface.inputs),
            interface.outputs,
            interface.device_outputs,
            len(interface.outputs),
        )
    )
    for slot, remote in interface.remote.items():
        check(lib.ephost_plan_set_remote_slot(plan.pointer, slot, remote))
