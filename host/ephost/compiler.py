"""ModelCompiler, and the file formats around it that belong to ONNX Runtime: named, and refused with the
reason.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

from ephost.enums import GraphOptimizationLevel, OrtCompileApiFlags
from ephost.errors import NotImplemented
from ephost.options import SessionOptions
from ephost.values import OrtValue


class OrtExternalInitializerInfo:
    """Where an initializer of a model lies: a file, an offset and a size."""

    def __init__(self, filepath: str, file_offset: int, byte_size: int) -> None:
        self._values = (filepath, int(file_offset), int(byte_size))

    @property
    def filepath(self) -> str:
        """The file, relative to the model's folder."""
        return self._values[0]

    @property
    def file_offset(self) -> int:
        """Where in the file the data begins."""
        return self._values[1]

    @property
    def byte_size(self) -> int:
        """How many bytes it has."""
        return self._values[2]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, OrtExternalInitializerInfo) and self._values == other._values

    def __hash__(self) -> int:
        return hash(self._values)


class ModelCompiler:
    """Compiling a model ahead of time to EPContext nodes. Its arguments are checked; compiling is not
    implemented.
    """

    def __init__(
        self,
        sess_options: SessionOptions,
        input_model_path_or_bytes: str | os.PathLike[str] | bytes,
        embed_compiled_data_into_model: bool = False,
        external_initializers_file_path: str | os.PathLike[str] | None = None,
        external_initializers_size_threshold: int = 1024,
        flags: int = OrtCompileApiFlags.NONE,
        graph_optimization_level: GraphOptimizationLevel = GraphOptimizationLevel.ORT_DISABLE_ALL,
        get_initializer_location_func: Callable[..., Any] | None = None,
    ) -> None:
        """Take the options of a compilation.

        Raises:
            ValueError: an empty model, or two ways of placing initializers.
            TypeError: a model that is neither path nor bytes.
        """
        if not isinstance(input_model_path_or_bytes, (str, os.PathLike, bytes)):
            raise TypeError(f"Unable to load from type '{type(input_model_path_or_bytes)}'")
        if not isinstance(input_model_path_or_bytes, os.PathLike) and not input_model_path_or_bytes:
            raise ValueError("the input model is empty")
        if external_initializers_file_path and get_initializer_location_func is not None:
            raise ValueError(
                "Cannot initialize ModelCompiler with both `external_initializers_file_path` and "
                "`get_initializer_location_func`"
            )

    def _refuse(self) -> NotImplemented:
        return NotImplemented("compiling a model ahead of time (EPContext nodes) is not implemented")

    def compile_to_file(self, output_model_path: str | None = None) -> None:
        """Refused.

        Raises:
            NotImplemented: always.
        """
        raise self._refuse()

    def compile_to_bytes(self) -> bytes:
        """Refused.

        Raises:
            NotImplemented: always.
        """
        raise self._refuse()

    def compile_to_stream(self, write_function: Callable[[bytes], None]) -> None:
        """Refused.

        Raises:
            NotImplemented: always.
        """
        raise self._refuse()

    def set_ep_context_data_write_func(self, write_func: Callable[[str, Any], None]) -> None:
        """Refused.

        Raises:
            NotImplemented: always.
        """
        raise self._refuse()

    def clear_ep_context_data_write_func(self) -> None:
        """Nothing to do: there is never such a function."""


class LoraAdapter:
    """Adapters in ONNX Runtime's own file format."""

    def Load(self, file_path: str) -> None:  # noqa: N802 - onnxruntime's name
        """Refused.

        Raises:
            NotImplemented: always.
        """
        raise NotImplemented(f"LoRA adapters are not implemented ({file_path}): feed their tensors as inputs")


class AdapterFormat:
    """Adapter files: their contents can be set and read back, but not written to a file or read from one."""

    def __init__(self, adapter: AdapterFormat | None = None) -> None:
        self._adapter_version: int = 0 if adapter is None else adapter._adapter_version
        self._model_version: int = 0 if adapter is None else adapter._model_version
        self._parameters: dict[str, OrtValue] = {} if adapter is None else dict(adapter._parameters)

    @staticmethod
    def read_adapter(file_path: os.PathLike[str]) -> AdapterFormat:
        """Refused.

        Raises:
            NotImplemented: always.
        """
        raise NotImplemented(f"LoRA adapter files are not implemented ({os.fspath(file_path)})")

    def export_adapter(self, file_path: os.PathLike[str]) -> None:
        """Refused.

        Raises:
            NotImplemented: always.
        """
        raise NotImplemented(f"LoRA adapter files are not implemented ({os.fspath(file_path)})")

    def get_format_version(self) -> int:
        """The version of the file format: none was read."""
        return 0

    def set_adapter_version(self, adapter_version: int) -> None:
        """Set the adapter's version."""
        self._adapter_version = adapter_version

    def get_adapter_version(self) -> int:
        """The adapter's version."""
        return self._adapter_version

    def set_model_version(self, model_version: int) -> None:
        """Set the version of the model that the adapter is for."""
        self._model_version = model_version

    def get_model_version(self) -> int:
        """The version of the model that the adapter is for."""
        return self._model_version

    def set_parameters(self, params: dict[str, OrtValue]) -> None:
        """Set the adapter's tensors."""
        self._parameters = dict(params)

    def get_parameters(self) -> dict[str, OrtValue]:
        """The adapter's tensors."""
        return dict(self._parameters)
