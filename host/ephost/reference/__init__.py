"""The reference fallback: runs a node that no plugin claims, on the `onnx` package's reference operators.

    kernel = create_kernel(node, {"": 21})
    outputs = kernel([x, w])

The rooms: `kernel` makes and calls one node's kernel; `operators` finds an implementation, `ops` holds this
project's own ones (where the package has none, a wrong one, one too slow for real models, or one that every
session would import); `functions`
expands a function body where an operator has no implementation; `control_flow` and `body` run If, Loop, Scan
and SequenceMap; `signature` knows the types that the ONNX schema demands of a node's outputs.

Nothing here is imported by `import ephost`. `onnx.reference` is imported with the first kernel that needs it:
the operators that constant folding usually meets are in `ops`.
"""

from .errors import NodeError
from .kernel import ReferenceKernel, create_kernel
from .values import Value

__all__ = ["NodeError", "ReferenceKernel", "Value", "create_kernel"]
