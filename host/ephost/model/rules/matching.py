"""What rules have in common: questions about nodes and their neighbours, and changes of the graph.

Graph inputs and outputs keep their names. A value that is a graph's output, or that a subgraph reads, is
neither removed nor given another meaning. Only initializers that no caller can replace count as constants.
Nodes that an EP has, or was offered and did not want, stay.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Any

import numpy as np

from ephost.messages import AttributeProto, TensorProto
from ephost.model.graph import Graph, Model, Node, TensorType, Value, since_version
from ephost.records import Record

_LARGE = 1 << 30  # bytes above which weights stay as they are
FLOATS = {TensorProto.FLOAT, TensorProto.FLOAT16, TensorProto.DOUBLE}


class Rewriting:
    """The rewriting of one graph.

    ``informs`` says afterwards whether inference may find more than it knew: a shape has become known.
    """

    def __init__(self, model: Model, graph: Graph, disabled: Collection[str] = ()) -> None:
        """For one graph of a model, but not its subgraphs; ``disabled`` names rules that are not wanted."""
        self.model = model
        self.graph = graph
        self.disabled = disabled
        self.informs = False

    # ---- what rules ask ----

    def only_reader(self, value: Value | None) -> Node | None:
        """The one node that reads a value which is nothing else: no output, no outer value."""
        if value is None or value.is_output or not self.graph.owns(value):
            return None
        reader = value.only_reader
        return (
            None
            if reader is None or reader.domain or reader.implicit_inputs or not is_free(reader)
            else reader
        )

    def maker(self, value: Value | None, op_type: str) -> Node | None:
        """The node of ONNX's operator that makes a value of this graph."""
        node = value.producer if value is not None else None
        if node is None or node.op_type != op_type or node.domain or not is_free(node):
            return None
        return node if self.graph.owns(value) else None

    # ---- what rules do ----

    def constant(self, like: str, array: np.ndarray, element_type: int) -> Value:
        """A new constant, named after another value."""
        return self.graph.new_constant(f"{like}_rewritten", array, element_type)

    def set_inputs(self, node: Node, values: Sequence[Value | None]) -> None:
        """Let the node read these; what nobody reads any more goes."""
        before = [value for value in node.inputs if value is not None]
        self.graph.set_inputs(node, values)
        self._release(before)

    def take_output(self, node: Node, other: Node) -> None:
        """Let the node make the other one's first output in place of its own, which nobody else reads; the
        other goes.
        """
        old, out = node.outputs[0], other.outputs[0]
        assert old is not None and out is not None
        self.graph.set_output(node, 0, out)
        self.drop(other)
        self.graph.remove_value(old)

    def retype(self, node: Node, op_type: str, *attributes: AttributeProto) -> None:
        """Make the node one of another operator of ONNX; inputs and outputs stay."""
        version = since_version(op_type, "", self.model.opsets.get("", 1))
        self.graph.set_operator(node, op_type, "", version)
        self.graph.set_attributes(node, attributes)

    def pass_on(self, node: Node, source: Value) -> bool:
        """Remove a node whose output is what its readers can find in another value; False if it must stay."""
        out = node.outputs[0]
        if out is None or not out.is_replaceable or not self.graph.owns(out) or not self.graph.owns(source):
            return False
        self.graph.read_instead(out, source)
        self.drop(node)
        return True

    def drop(self, node: Node) -> None:
        """Remove a node, and what was there for it alone."""
        read = [value for value in node.inputs if value is not None]
        self.graph.drop(node)
        self._release(read)

    def _release(self, values: Sequence[Value]) -> None:
        """Forget values that lost their last reader, with what made them for nobody else."""
        for value in values:
            if value.consumers or value.is_output or value.is_input or not self.graph.owns(value):
                continue
            node = value.producer
            if self.graph.remove_if_unread(value) or node is None:
                continue
            if node.index in self.graph.dropped or node.subgraphs or not is_free(node):
                continue
            if all(out is None or not (out.consumers or out.is_output) for out in node.outputs):
                self.drop(node)


class Rule(Record, frozen=True):
    """A rewriting, by onnxruntime's name for it, and operators of which it needs at least one to be there."""

    name: str
    apply: Callable[[Rewriting, Node], bool]  # True: it has changed something
    needs: tuple[str, ...]


def is_free(node: Node) -> bool:
    """Whether the node may still be changed: no EP has it, it has not been left to the host, and its operator
    is none that a library brings under one of ONNX's names.
    """
    return not node.ep_name and not node.left_to_host and node.custom is None


def input_at(node: Node, at: int) -> Value | None:
    """An input; None for one that is left out."""
    return node.inputs[at] if at < len(node.inputs) else None


def data_of(value: Value | None) -> np.ndarray | None:
    """The data of a constant that is not huge."""
    if value is None or not value.is_constant or value.initializer is None:
        return None
    return value.initializer if value.initializer.nbytes <= _LARGE else None


def scalar_of(value: Value | None) -> Any:
    """The element of a constant that has one; None for all else."""
    data = data_of(value)
    return data.reshape(-1)[0] if data is not None and data.size == 1 else None


def element_type_of(value: Value | None) -> int:
    """The element type of a tensor; 0 where it is not known."""
    return value.type.element_type if value is not None and isinstance(value.type, TensorType) else 0


def dims_of(value: Value | None) -> tuple[Any, ...] | None:
    """The dimensions of a tensor; None where its rank is not known."""
    return value.type.dims if value is not None and isinstance(value.type, TensorType) else None


def has_one_output(node: Node) -> bool:
    """Whether nobody wants more than the first output."""
    return node.outputs[0] is not None and all(
        value is None or not (value.consumers or value.is_output) for value in node.outputs[1:]
    )
