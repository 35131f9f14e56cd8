"""Stage 5: an ordered list of steps, with the memory and the slot of each value decided, handed to C.

How long each value is needed, and which memory is used again, C finds itself (``host/native/lifetimes.c``).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ephost._bindings import NULL, check, ffi, lib
from ephost.model.graph import Graph, Model, Value
from ephost.model.kernels import Kernel
from ephost.model.native_graph import Constants
from ephost.model.partition import Assignment
from ephost.model.planning import fallback, handover
from ephost.model.planning.homes import Homes
from ephost.model.planning.runners import Runners
from ephost.model.planning.steps import Copy, Plan


def make_plan(
    model: Model,
    assignments: Sequence[Assignment],
    constants: Constants,
    *,
    threads: Any,
    logger: Any,
    exclusive: bool,
    inputs: Sequence[Value],
    host_kernels: Sequence[Kernel] = (),
    graph: Graph | None = None,
    runners: Runners | None = None,
) -> Plan:
    """Decide the steps of a run and hand them to C.

    Args:
        model: after partitioning.
        assignments: what each EP runs, in order of priority.
        constants: the values of initializers.
        threads: ``ThreadPool*``, or NULL for none.
        logger: ``OrtLogger*`` that kernels get.
        exclusive: whether runs must not overlap.
        inputs: what a caller may feed, in order.
        host_kernels: what runs the custom operators that are the host's.
        graph: a subgraph, to be run as a part of the whole model's run; by default the model's graph.
        runners: what runs the claimed nodes, of who makes several plans of the same assignments.

    Raises:
        InvalidGraph, NotImplemented: a node that nobody can run.
    """

    def plan_body(body: Graph, fed: Sequence[Value]) -> Plan:
        return make_plan(
            model,
            assignments,
            constants,
            threads=threads,
            logger=logger,
            exclusive=False,
            inputs=fed,
            graph=body,
            runners=runners,
        )

    whole = graph or model.graph
    if runners is None:
        runners = Runners(assignments, host_kernels)
    bodies = fallback.plan_bodies([node for node in whole.nodes if runners.of(node) is None], plan_body)
    plan = Plan(NULL, [], runners.members, list(inputs), list(whole.outputs), 0, 0)
    plan.bodies = [body for bodies_of_node in bodies.values() for body in bodies_of_node.values()]
    try:
        wanted = fallback.homes_of_bodies(whole, bodies) if runners.has_memories else {}
        homes = Homes(runners, whole, inputs, wanted, is_body=graph is not None)
        pointer = plan.pointer = lib.ephost_plan_new(len(homes.values), threads, logger, exclusive)
        if not pointer:
            raise MemoryError("no memory for the plan")
        plan.ran = [
            step.node or Copy(step.copy, [homes.values[slot][0] for slot in step.inputs])
            for step in homes.steps
        ]
        if graph is not None:
            lib.ephost_plan_set_body(pointer)
        handover.add_eps(plan, assignments)
        pools = _shared_memory(homes, assignments)
        handover.set_slots(plan, homes.values, constants, runners, pools)
        if pools:
            lib.ephost_plan_set_pool(pointer, next(iter(pools.values())))
        unclaimed = [step.node if step.runner is None else None for step in homes.steps]
        plan.fallback = [node for node in unclaimed if node is not None]
        kernels = fallback.create_kernels(model, unclaimed, bodies, wanted)
        handover.add_steps(plan, homes.steps, runners, kernels)
        plan.input_memories = homes.memories(homes.interface.device_inputs)
        plan.output_memories = homes.memories(homes.interface.device_outputs)
        plan.input_homes, plan.output_homes = homes.interface.input_homes, homes.interface.output_homes
        plan.read_on_cpu = homes.interface.read_on_cpu
        handover.set_interface(plan, homes.interface)
        arena_bytes, planned_bytes = ffi.new("size_t*"), ffi.new("size_t*")
        check(lib.ephost_plan_share_memory(pointer, arena_bytes, planned_bytes))
        plan.arena_bytes, plan.planned_bytes = int(arena_bytes[0]), int(planned_bytes[0])
    except BaseException:
        plan.release()
        raise
    return plan


def _shared_memory(homes: Homes, assignments: Sequence[Assignment]) -> dict[int, Any]:
    """Of each slot that an isolated plugin reads or writes, the memory that its worker sees."""
    pools = [assignment.ep.shared_pool for assignment in assignments]
    if not any(pools):
        return {}
    found: dict[int, Any] = {}
    for step in homes.steps:
        if step.runner is None or step.runner.ep < 0 or (pool := pools[step.runner.ep]) is None:
            continue
        for slot in step.outputs:
            found[slot] = pool
        for slot in step.inputs:
            found.setdefault(slot, pool)
    found.pop(-1, None)
    return found
