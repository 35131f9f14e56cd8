"""A prepared model of the backend interface."""

from __future__ import annotations

from typing import Any

from onnx.backend.base import BackendRep

from ephost.options import RunOptions
from ephost.session import InferenceSession


class EphostBackendRep(BackendRep):
    """A session that takes its inputs by position."""

    def __init__(self, session: InferenceSession) -> None:
        self._session = session

    def run(self, inputs: Any, **kwargs: Any) -> Any:
        """Run the model.

        Args:
            inputs: a list or tuple with a value for each input, a dict by name, or the value of the only
            input. **kwargs: fields of :class:`ephost.RunOptions`; others are ignored, as the interface wants
            it.

        Returns:
            A list with a value for each output.

        Raises:
            What ``InferenceSession.run`` raises.
        """
        options = RunOptions()
        for key, value in kwargs.items():
            if hasattr(options, key):
                setattr(options, key, value)
        names = [value.name for value in self._session.get_inputs()]
        if isinstance(inputs, dict) and not (len(names) == 1 and inputs and names[0] not in inputs):
            feed = inputs  # and not the map that is the only input's value
        elif isinstance(inputs, (list, tuple)) and not (len(names) == 1 and len(inputs) != 1):
            names += [value.name for value in self._session.get_overridable_initializers()]
            feed = dict(zip(names, inputs, strict=False))
        else:
            feed = dict(zip(names, [inputs], strict=False))
        return self._session.run(None, feed, options)


OnnxRuntimeBackendRep = EphostBackendRep  # onnxruntime's name
