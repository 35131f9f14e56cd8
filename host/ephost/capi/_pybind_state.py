"""onnxruntime's way to its native module; the same names as in ``onnxruntime_pybind11_state``."""

from ephost.capi.onnxruntime_pybind11_state import *  # noqa: F403
