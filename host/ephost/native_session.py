"""What programs reach for inside onnxruntime's ``InferenceSession``: its attributes with an underscore.

optimum, sentence-transformers, kokoro-onnx and others read them. Nothing of ephost does.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

from ephost.options import RunOptions, SessionOptions
from ephost.value_vectors import OrtValueVector
from ephost.values import OrtValue


class NativeSession:
    """``session._sess``: the methods of onnxruntime's native session, whose arguments come in another order.
    All else is the session's.
    """

    def __init__(self, session: Any) -> None:
        self._session = session

    def __getattr__(self, name: str) -> Any:
        return getattr(self._session, name)

    @property
    def inputs_meta(self) -> list[Any]:
        """The inputs that every run must feed."""
        return list(self._session.get_inputs())

    @property
    def outputs_meta(self) -> list[Any]:
        """The outputs."""
        return list(self._session.get_outputs())

    @property
    def overridable_initializers(self) -> list[Any]:
        """The inputs that have a default."""
        return list(self._session.get_overridable_initializers())

    @property
    def model_meta(self) -> Any:
        """What the model says of itself."""
        return self._session.get_modelmeta()

    @property
    def session_options(self) -> SessionOptions:
        """The options that the session was made with."""
        options: SessionOptions = self._session._options
        return options

    @property
    def get_profiling_start_time_ns(self) -> int:
        """When profiling began."""
        return int(self._session.get_profiling_start_time_ns())

    @property
    def input_meminfos(self) -> list[Any]:
        """Where a feed for each input should lie."""
        return list(self._session.get_input_memory_infos())

    @property
    def output_meminfos(self) -> list[Any]:
        """Where each output is made."""
        return list(self._session.get_output_memory_infos())

    @property
    def input_epdevices(self) -> list[Any]:
        """For each input the device of the execution provider that reads it first."""
        return list(self._session.get_input_epdevices())

    def create_ortvalue_from_shape_and_onnx_type(self, *arguments: Any) -> OrtValue:
        """An uninitialised tensor that keeps the session alive."""
        made: OrtValue = self._session.create_ortvalue_from_shape_and_type(*arguments)
        return made

    def is_webgpu_graph_capture_enabled(self) -> bool:
        """Never: that provider is part of onnxruntime."""
        return False

    def run_with_ort_values(
        self,
        input_dict_ort_values: Mapping[str, OrtValue],
        output_names: Sequence[str],
        run_options: RunOptions | None = None,
    ) -> OrtValueVector:
        """Run the model once on OrtValues."""
        return OrtValueVector(
            self._session.run_with_ort_values(output_names, input_dict_ort_values, run_options)
        )

    def run_with_ortvaluevector(
        self,
        run_options: RunOptions | None,
        feed_names: Sequence[str],
        feeds: Sequence[OrtValue],
        fetch_names: Sequence[str],
        fetches: list[OrtValue],
        fetch_devices: Sequence[Any],
    ) -> None:
        """Run the model once on OrtValues by position."""
        self._session.run_with_ortvaluevector(
            run_options, feed_names, feeds, fetch_names, fetches, fetch_devices
        )

    def run_with_iobinding(self, iobinding: Any, run_options: RunOptions | None = None) -> None:
        """Run the model once on what is bound to a native binding."""
        iobinding._run(run_options)


class NativeNames:
    """The attributes with an underscore that onnxruntime's ``InferenceSession`` has, for the session that has
    this as a base.
    """

    _source: Any
    _options: SessionOptions
    _from_model_package = False

    @property
    def _sess(self) -> NativeSession:
        return NativeSession(self)

    @property
    def _model_path(self) -> str | None:
        if self._from_model_package or not isinstance(self._source, (str, os.PathLike)):
            return None
        return os.fspath(self._source)

    @property
    def _model_bytes(self) -> bytes | None:
        return self._source if isinstance(self._source, bytes) else None

    @property
    def _sess_options(self) -> SessionOptions:
        return self._options

    @property
    def _sess_options_initial(self) -> SessionOptions:
        return self._options

    @property
    def _providers(self) -> list[str]:
        found: list[str] = self._sess.get_providers()
        return found

    @property
    def _provider_options(self) -> dict[str, dict[str, str]]:
        found: dict[str, dict[str, str]] = self._sess.get_provider_options()
        return found

    @property
    def _inputs_meta(self) -> list[Any]:
        return self._sess.inputs_meta

    @property
    def _outputs_meta(self) -> list[Any]:
        return self._sess.outputs_meta

    @property
    def _overridable_initializers(self) -> list[Any]:
        return self._sess.overridable_initializers

    @property
    def _model_meta(self) -> Any:
        return self._sess.model_meta

    @property
    def _enable_fallback(self) -> bool:
        enabled: bool = self._sess._fallback
        return enabled
