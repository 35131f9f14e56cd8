"""The page of a search: the faults, the error along the model, the nodes, and the graph around one."""

from __future__ import annotations

from pathlib import Path

from ephost.bisection.measuring import Measure
from ephost.bisection.results import Bisection, NodeError
from ephost.pages import Grid, Network, Page, Part, Plot, Text


def page_of(result: Bisection) -> Page:
    """What a browser shows of a search."""
    blamed = {name for fault in result.faults for name in fault.nodes}
    marked = [at for at, node in enumerate(result.nodes) if node.name in blamed]
    parts: list[Part] = [Text([result.headline()], "bad" if result.found else "good")]
    for fault in result.faults:
        lines = [fault.headline()]
        if fault.repro is not None:
            size = f"{fault.repro.nodes} node{'s'[: fault.repro.nodes != 1]}"
            lines.append(f"Reduced to {size}; shows in {', '.join(fault.repro.hosts)}")
            if fault.repro.folder is not None:
                lines.append(f"python {fault.repro.folder / 'repro.py'}")
        parts.append(Text(lines, "code"))
    parts.append(Text(result.footer()[0].splitlines()))
    if any(node.own is not None for node in result.nodes):
        parts.append(_plot(result, marked))
    if result.nodes:
        parts.append(_table(result.nodes, marked))
        parts.append(
            Network(
                "The graph around a node",
                [f"{node.op_type} {node.name}" for node in result.nodes],
                [_details(node) for node in result.nodes],
                result.edges,
                marked,
                marked[0] if marked else _most(result.nodes),
            )
        )
    if result.outputs:
        parts.append(_outputs(result.outputs))
    return Page(f"ephost bisect: {Path(result.model).name}", parts)


def _most(nodes: list[NodeError]) -> int:
    """The node with the largest error of its own."""
    return max(range(len(nodes)), key=lambda at: _ratio(nodes[at].own) or -1)


def _plot(result: Bisection, marked: list[int]) -> Plot:
    return Plot(
        "Error along the model, in parts of what is tolerated",
        "nodes, in the order of the model",
        {
            "own error": [_ratio(node.own) for node in result.nodes],
            "error in all": [_ratio(node.total) for node in result.nodes],
        },
        [f"{node.op_type} {node.name}" for node in result.nodes],
        1.0,
        marked=marked,
    )


def _ratio(measure: Measure | None) -> float | None:
    return measure.ratio if measure is not None else None


def _table(nodes: list[NodeError], marked: list[int]) -> Grid:
    numbers = ("own error", "of what is tolerated", "in all", "of that")
    shown = [at for at, node in enumerate(nodes) if node.op_type != "Constant"]
    order = sorted(shown, key=lambda at: -(_ratio(nodes[at].own) or -1))
    rows = [
        (
            node.name,
            node.op_type,
            node.ep_name,
            node.own.relative if node.own else None,
            _ratio(node.own),
            node.total.relative if node.total else None,
            _ratio(node.total),
            node.note or (node.own.why if node.own else ""),
        )
        for node in (nodes[at] for at in order)
    ]
    columns = ("node", "operator", "EP", *numbers, "why so much is tolerated")
    return Grid("Nodes", columns, rows, numbers, [order.index(at) for at in marked if at in shown], order)


def _details(node: NodeError) -> str:
    told = [f"on {node.ep_name}"] if node.ep_name else []
    for what, measure in (("own error", node.own), ("in all", node.total)):
        if measure is not None:
            told.append(f"{what} {measure.relative:.2g}, {measure.ratio:.2g} of what is tolerated")
    return "; ".join([*told, node.note] if node.note else told)


def _outputs(outputs: list[Measure]) -> Grid:
    numbers = ("largest error", "mean", "cosine")
    rows = [(each.name, each.relative, each.mean, each.cosine) for each in outputs]
    return Grid("Outputs of the model", ("output", *numbers), rows, numbers)
