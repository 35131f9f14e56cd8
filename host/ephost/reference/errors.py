"""The exception of a node that failed, and how a node is named in messages."""

from __future__ import annotations

from ..messages import NodeProto


class NodeError(RuntimeError):
    """A node failed while it ran, or its attributes make no sense.

    The text names the node and its operator; `__cause__` is what the implementation raised. For a node inside
    a subgraph or a function body the text names the nodes around it too, outermost first.
    """


def describe(node: NodeProto, version: int | None) -> str:
    """`node 'conv1' (Conv, opset 22)`; a domain other than ONNX's own comes before the operator's type."""
    name = f"node {node.name!r}" if node.name else f"unnamed node with outputs {list(node.output)}"
    operator = f"{node.domain}::{node.op_type}" if node.domain not in ("", "ai.onnx") else node.op_type
    return f"{name} ({operator}, opset {version if version is not None else 'unknown'})"
