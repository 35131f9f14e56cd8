"""EPs that record a run and repeat it from then on ("graph capture"): who does, and whether the graph allows
it. The protocol of the runs is in ``plan.c``.
"""

from __future__ import annotations

from collections.abc import Sequence

from ephost.errors import Fail
from ephost.host_log import HostLog
from ephost.model.graph import Model
from ephost.model.partition import Assignment
from ephost.model.planning.steps import Plan
from ephost.providers import DEFAULT_PROVIDER

_LOG = HostLog("ephost.capture")
_ALLOW_CPU_FOR_SHAPES = 1  # OrtGraphCaptureNodeAssignmentPolicy


def recorder(model: Model, assignments: Sequence[Assignment]) -> int | None:
    """The place of the EP that wants to record runs; None when none does.

    Raises:
        Fail: one does, but a recorded run would lack the nodes that it did not get.
    """
    for at, assignment in enumerate(assignments):
        ep = assignment.ep
        if ep.member("IsGraphCaptureEnabled") is None or not ep.ask("IsGraphCaptureEnabled"):
            continue
        if ep.member("IsGraphCaptured") is None or ep.member("ReplayGraph") is None:
            _LOG.warning("%s wants to record runs, but cannot replay them: each run is run", ep.label)
            continue
        nodes = model.graph.nodes
        if bodies := [node for node in nodes if node.subgraphs]:
            raise Fail(f"{ep.label} records runs, which control flow does not allow: {bodies[0].label}")
        policy = "GetGraphCaptureNodeAssignmentPolicy"
        shapes_on_cpu = ep.member(policy) is not None and ep.ask(policy) == _ALLOW_CPU_FOR_SHAPES
        allowed = (ep.name, "", DEFAULT_PROVIDER) if shapes_on_cpu else (ep.name,)
        if others := [node for node in nodes if node.ep_name not in allowed]:
            owner = others[0].ep_name or "the host"
            raise Fail(
                f"{ep.label} records runs, but not all nodes are assigned to it: {others[0].label} and "
                f"{len(others) - 1} more run on {owner}"
            )
        return at
    return None


def check_copies(plan: Plan, model: Model, assignment: Assignment) -> None:
    """See that a recorded run would lack no copy between devices but those of the model's inputs and outputs.

    Raises:
        Fail: it would; the message names the value.
    """
    outside = {id(value) for value in (*model.graph.inputs, *model.graph.outputs)}
    for copy in plan.copies:
        for value in copy.values:
            if id(value) not in outside:
                raise Fail(
                    f"{assignment.ep.label} records runs, but the value '{value.name}' has to cross from one "
                    f"device to the other: {copy.way}"
                )
