"""The standard's backend interface (``onnx.backend.base``) on ephost.

    import ephost.backend as backend

    outputs = backend.prepare(model).run([array])

Models run on all registered execution providers, and the reference fallback.
"""

from ephost.backend.backend import (
    EphostBackend,
    is_compatible,
    prepare,
    run,
    run_model,
    run_node,
    supports_device,
)
from ephost.backend.backend_rep import EphostBackendRep

__all__ = [
    "EphostBackend",
    "EphostBackendRep",
    "is_compatible",
    "prepare",
    "run",
    "run_model",
    "run_node",
    "supports_device",
]
