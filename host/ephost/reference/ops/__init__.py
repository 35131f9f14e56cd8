"""This project's own operators: where the onnx package has none, one that departs from the specification, or
one that is too slow for a real model. Everything else is the package's.

An operator is a function of an `OperatorNode` and the node's inputs (None for an absent one) that returns the
tuple of outputs. Its module's comment or docstring says what the package's version lacks.
"""

from .registry import OperatorNode, find_operator

__all__ = ["OperatorNode", "find_operator"]
