"""Groups of nodes that become one: what goes in and out, whether they can, and the graph afterwards."""

from __future__ import annotations

from collections.abc import Sequence

from ephost._bindings import call
from ephost.model.graph import Graph, Node, Value, topological_order


def group_order(nodes: Sequence[Node]) -> list[Node]:
    """The nodes of a group in the order in which its inputs and outputs are found: Kahn's algorithm with a
    queue, the sources and each node's consumers by index, as onnxruntime does it.
    """
    ordered: list[Node] = call.group_order(list(nodes))
    return ordered


def group_interface(nodes: Sequence[Node], drop_constants: bool) -> tuple[list[Value], list[Value]]:
    """The inputs and outputs of a group as a fused node has them.

    Inputs are in the order of first use, those that only subgraphs read at the end; constants are among them
    unless the EP drops them. Outputs are, node by node, those of the graph and then those that other nodes
    read.
    """
    inputs, outputs = call.group_interface(list(nodes), drop_constants)
    return inputs, outputs


class Fusing:
    """Puts single nodes in the place of groups of a graph, one group after the other.

    Each costs what its nodes and their neighbours do: the graph's list of nodes is brought up to date by
    :meth:`settle`, once for all, and until then nobody is to read it.
    """

    def __init__(self, graph: Graph) -> None:
        self._graph = graph
        self._look()

    def _look(self) -> None:
        # Where each node is on the list; a fused one is where the last of its nodes was.
        self._position = {node.index: at for at, node in enumerate(self._graph.nodes)}
        self._fused: dict[int, Node] = {}  # by position
        self._gone: set[int] = set()

    def cycle_through(self, nodes: Sequence[Node]) -> list[Node] | None:
        """A way out of the group and back into it, which forbids to fuse it; None when there is none."""
        if len(nodes) == 1:
            return None
        inside = {node.index for node in nodes}
        position = self._position
        last = max(position[node.index] for node in nodes)
        before: dict[int, Node] = {}
        stack: list[Node] = []
        for node in nodes:
            for value in node.outputs:
                for consumer in value.consumers if value is not None else ():
                    if consumer.index not in inside and consumer.index not in before:
                        before[consumer.index] = node
                        stack.append(consumer)
        while stack:
            node = stack.pop()
            if position[node.index] > last:
                continue
            for value in node.outputs:
                for consumer in value.consumers if value is not None else ():
                    if consumer.index in inside:
                        way = [consumer, node]
                        while way[-1].index not in inside:
                            way.append(before[way[-1].index])
                        return way[::-1]
                    if consumer.index not in before:
                        before[consumer.index] = node
                        stack.append(consumer)
        return None

    def replace(self, nodes: Sequence[Node], fused: Node) -> None:
        """Put one node in the place of several, and forget the values that were only theirs."""
        kept = {id(v) for v in (*fused.inputs, *fused.outputs)}
        for node in nodes:
            self._graph.detach(node)
        for node in nodes:
            for value in node.outputs:
                if value is not None and id(value) not in kept:
                    self._graph.remove_value(value)
        self._graph.attach(fused)
        last = max(self._position[node.index] for node in nodes)
        for node in nodes:
            self._gone.add(node.index)
            at = self._position[node.index]
            if self._fused.get(at) is node:
                del self._fused[at]
        self._position[fused.index] = last
        self._fused[last] = fused
        # Who reads an early node of the group may be in front of its last: then positions say nothing of the
        # order any more, and ways back are looked for by them.
        readers = (reader for value in fused.outputs if value is not None for reader in value.consumers)
        if any(self._position[reader.index] < last for reader in readers):
            self.settle()

    def settle(self) -> None:
        """Bring the graph's list of nodes up to date, in topological order."""
        if not self._gone:
            return
        nodes = []
        for at, node in enumerate(self._graph.nodes):
            if at in self._fused:
                nodes.append(self._fused[at])
            elif node.index not in self._gone:
                nodes.append(node)
        self._graph.nodes = topological_order(nodes)
        self._look()
