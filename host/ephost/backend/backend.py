"""``onnx.backend.base.Backend`` on ephost."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx
from onnx.backend.base import Backend

from ephost.about import get_device
from ephost.backend.backend_rep import EphostBackendRep
from ephost.environment import get_available_providers
from ephost.errors import InvalidArgument
from ephost.options import SessionOptions
from ephost.session import InferenceSession


class EphostBackend(Backend):
    """Runs models on all registered execution providers, and the reference fallback."""

    @classmethod
    def is_compatible(cls, model: Any, device: str | None = None, **kwargs: Any) -> bool:
        """Whether there is such a device; every model is tried."""
        return device is None or cls.supports_device(device)

    @classmethod
    def supports_device(cls, device: str) -> bool:
        """Whether a model can be run on a device: ``CPU``, or the kind of a registered plugin's (``CUDA``:
        ``GPU``).
        """
        kind = device.split(":")[0].upper()
        return kind in ("CPU", get_device()) or (kind == "CUDA" and get_device() == "GPU")

    @classmethod
    def prepare(cls, model: Any, device: str | None = None, **kwargs: Any) -> EphostBackendRep:
        """Open a model.

        Args:
            model: a path, bytes or ``ModelProto``; or a session, or what this returned before.
            device: ``CPU``, or what :meth:`supports_device` knows; None: any.
            **kwargs: fields of :class:`ephost.SessionOptions`, and ``providers`` as for a session; others are
                ignored, as the interface wants it.

        Raises:
            InvalidArgument: no such device.
            onnx.checker.ValidationError: the model breaks a rule of the standard.
            What opening a session raises.
        """
        if isinstance(model, EphostBackendRep):
            return model
        if isinstance(model, InferenceSession):
            return EphostBackendRep(model)
        if device is not None and not cls.supports_device(device):
            raise InvalidArgument(f"Incompatible device expected '{device}', got '{get_device()}'")
        if isinstance(model, onnx.ModelProto):
            onnx.checker.check_model(model)
        elif not isinstance(model, (str, bytes, os.PathLike)):
            raise TypeError(f"a model is a path, bytes or a ModelProto, not {type(model).__name__}")
        options = SessionOptions()
        for key, value in kwargs.items():
            if key != "providers" and hasattr(options, key):
                setattr(options, key, value)
        providers = kwargs.get("providers", get_available_providers())
        # A test suite asks for these providers: that one fails is what it is to find.
        return EphostBackendRep(InferenceSession(model, options, providers=providers, enable_fallback=0))

    @classmethod
    def run_model(cls, model: Any, inputs: Any, device: str | None = None, **kwargs: Any) -> Any:
        """Open a model and run it once."""
        return cls.prepare(model, device, **kwargs).run(inputs, **kwargs)

    @classmethod
    def run_node(
        cls,
        node: onnx.NodeProto,
        inputs: Any,
        device: str | None = None,
        outputs_info: Sequence[tuple[Any, Sequence[int]]] | None = None,
        **kwargs: Any,
    ) -> Any:
        """Run one node.

        Args:
            node: the node; an input with the name "" is left out.
            inputs: an array for each input that it has.
            device: as for :meth:`prepare`.
            outputs_info: (dtype, shape) of each output.
            **kwargs: ``opset_version`` of the node's domain, by default the newest one; and as for
            :meth:`prepare`.
        """
        names = [name for name in node.input if name]
        arrays = [np.asarray(array) for array in inputs]
        if len(names) != len(arrays):
            raise InvalidArgument(f"the node takes the inputs {names}; {len(arrays)} values are given")
        if outputs_info is not None:
            outputs = [
                onnx.helper.make_tensor_value_info(name, _element_type(dtype), shape)
                for name, (dtype, shape) in zip(node.output, outputs_info, strict=True)
            ]
        else:
            outputs = [onnx.ValueInfoProto(name=name) for name in node.output if name]
        feeds = [
            onnx.helper.make_tensor_value_info(name, _element_type(array.dtype), array.shape)
            for name, array in zip(names, arrays, strict=True)
        ]
        graph = onnx.helper.make_graph([node], "node", feeds, outputs)
        version = kwargs.get("opset_version", onnx.defs.onnx_opset_version())
        opsets = [onnx.helper.make_opsetid(node.domain, version)]
        if node.domain not in ("", "ai.onnx"):
            opsets.append(onnx.helper.make_opsetid("", onnx.defs.onnx_opset_version()))
        model = onnx.helper.make_model(graph, opset_imports=opsets)
        feed = dict(zip(names, arrays, strict=True))
        return cls.prepare(model.SerializeToString(), device, **kwargs).run(feed)


def _element_type(dtype: Any) -> int:
    return int(onnx.helper.np_dtype_to_tensor_dtype(np.dtype(dtype)))


is_compatible = EphostBackend.is_compatible
prepare = EphostBackend.prepare
run = EphostBackend.run_model
run_model = EphostBackend.run_model
run_node = EphostBackend.run_node
supports_device = EphostBackend.supports_device
OnnxRuntimeBackend = EphostBackend  # onnxruntime's name
