"""ModelCompiler, which compiles models ahead of time."""

from __future__ import annotations

import copy
import os
from collections.abc import Callable
from typing import Any

from ephost.arguments import boolean, file_path, integer, of_type
from ephost.context_data import EMBED_MODE, OrtEpContextData, Writer
from ephost.enums import GraphOptimizationLevel, OrtCompileApiFlags
from ephost.errors import Fail, InvalidArgument
from ephost.model.context import FILE_PATH, ContextTarget, default_path
from ephost.model.graph import Value
from ephost.opening import CONTEXT_ENABLE, DISABLE_COMPILING, EXTERNAL_FOLDER, Opening, effective_options
from ephost.options import SessionOptions
from ephost.values import OrtValue


class OrtExternalInitializerInfo:
    """Where an initializer of a model lies: a file, an offset and a size."""

    def __init__(self, filepath: str, file_offset: int, byte_size: int) -> None:
        self._values = (
            os.fspath(filepath),
            integer("the file_offset", file_offset, 0, 2**63 - 1),
            integer("the byte_size", byte_size, 0, 2**63 - 1),
        )

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


InitializerLocation = Callable[
    [str, OrtValue, OrtExternalInitializerInfo | None], OrtExternalInitializerInfo | None
]


class ModelCompiler:
    """Compiles a model ahead of time: the execution providers of some options compile what they claim, and
    what they made of it is stored as EPContext nodes of a new model, which opens without compiling.
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
        get_initializer_location_func: InitializerLocation | None = None,
    ) -> None:
        """Take the options of a compilation. Each ``compile_to_...`` compiles anew.

        Args:
            sess_options: say which execution providers compile, and with which options. Copied.
            input_model_path_or_bytes: the model to compile.
            embed_compiled_data_into_model: put the compiled code into the model; else the plugin puts it into
                a file beside the model, which has to stay there.
            external_initializers_file_path: a file for the large initializers that the compiled model still
                needs, in the folder of the model or below. When the model goes to bytes: in the working
                directory.
            external_initializers_size_threshold: initializers of more bytes than this are large.
            flags: :class:`ephost.OrtCompileApiFlags`.
            graph_optimization_level: what the host folds before the plugins see the model.
            get_initializer_location_func: called with the name, the value and the present location (None: in
                the model) of each initializer that the compiled model needs; returns where the function has
                put it, or None for one that is to lie in the model.

        Raises:
            ValueError: an empty model, or two ways of placing initializers.
            TypeError: a model that is neither path nor bytes, or another argument of a wrong type.
            InvalidArgument: the model's file does not exist.
        """
        source = input_model_path_or_bytes
        if not isinstance(source, (str, os.PathLike, bytes)):
            raise TypeError(f"Unable to load from type '{type(source)}'")
        if not isinstance(source, bytes):
            source = file_path("the input model", source)
        if not source:
            raise ValueError("the input model is empty")
        if not isinstance(source, bytes) and not os.path.exists(source):
            raise InvalidArgument(f"the input model {source} does not exist")
        if external_initializers_file_path and get_initializer_location_func is not None:
            raise ValueError(
                "Cannot initialize ModelCompiler with both `external_initializers_file_path` and "
                "`get_initializer_location_func`"
            )
        if get_initializer_location_func is not None and not callable(get_initializer_location_func):
            raise TypeError(f"no function to place initializers: {get_initializer_location_func!r}")
        embeds = boolean("embed_compiled_data_into_model", embed_compiled_data_into_model)
        self._source = source
        self._options = copy.copy(of_type("sess_options", sess_options, SessionOptions))
        self._options._config |= {
            CONTEXT_ENABLE: "1",
            EMBED_MODE: "1" if embeds else "0",
            DISABLE_COMPILING: "0",
        }
        self._options.graph_optimization_level = graph_optimization_level
        external = external_initializers_file_path
        self._external = file_path("the external_initializers_file_path", external) if external else None
        self._threshold = integer(
            "the external_initializers_size_threshold", external_initializers_size_threshold, 0, 2**63 - 1
        )
        self._flags = OrtCompileApiFlags(flags)
        self._binaries: str | None = None  # where plugins put their files of a model that goes to no file
        self._locate = get_initializer_location_func

    def _compile(self, path: str | None, write: Callable[[bytes], Any] | None = None) -> None:
        if path is not None:
            self._options._config[FILE_PATH] = path
        elif self._binaries is not None:
            self._options._config[FILE_PATH] = self._binaries
        else:
            self._options._config.pop(FILE_PATH, None)
        target = ContextTarget(
            path,
            write,
            error_if_exists=OrtCompileApiFlags.ERROR_IF_OUTPUT_FILE_EXISTS in self._flags,
            error_if_nothing_compiled=OrtCompileApiFlags.ERROR_IF_NO_NODES_COMPILED in self._flags,
            external_file=self._external,
            external_threshold=self._threshold,
            place=self._place if self._locate is not None else None,
        )
        Opening(self._source, effective_options(self._source, self._options)).compile(target)

    def _place(self, value: Value) -> tuple[str, int, int] | None:
        assert self._locate is not None and value.initializer is not None
        lies = None if value.external is None or value.external.in_model else value.external
        before = None
        if lies is not None:
            before = OrtExternalInitializerInfo(self._named(lies.path), lies.offset, lies.nbytes)
        found = self._locate(value.name, OrtValue.from_python(value.initializer), before)
        if found is None:
            return None
        if not isinstance(found, OrtExternalInitializerInfo):
            raise TypeError(
                f"get_initializer_location_func gives an OrtExternalInitializerInfo or None, not {found!r}"
            )
        return found.filepath, found.file_offset, found.byte_size

    def _named(self, path: str) -> str:
        """A file of weights as the model names it: from the folder where its weights lie."""
        model = self._source if isinstance(self._source, str) else ""
        folder = self._options._config.get(EXTERNAL_FOLDER) or os.path.dirname(model) or "."
        # A model that is a link may have its weights where that leads.
        behind = os.path.dirname(os.path.realpath(model)) if model else folder
        names = [os.path.relpath(path, each) for each in (folder, behind)]
        return next((name for name in names if not name.startswith(os.pardir)), path)

    def set_ep_context_binary_information(
        self, output_directory: str | os.PathLike[str], model_name: str
    ) -> None:
        """Say where plugins put their files beside a model that is compiled to bytes or to a stream.

        Plugins name them by the entry ``ep.context_file_path``, which is the directory with the model's name
        then. A model that is compiled to a file has its files beside it, whatever is said here.

        Args:
            output_directory: need not be there yet. What ends neither in a separator nor in something like a
                file's ending is taken for a file.
            model_name: of the model.

        Raises:
            TypeError: one of the two is no text.
            InvalidArgument: one of the two is empty or has a NUL, or the directory is none.
        """
        directory = file_path("the output_directory", output_directory)
        of_type("the model_name", model_name, str)
        if not directory or not model_name:
            raise InvalidArgument("the directory or the model's name is empty")
        if "\0" in directory + model_name:
            raise InvalidArgument(
                f"{directory!r} or the model's name {model_name!r} has a NUL, as no file has"
            )
        last = os.path.basename(directory)
        if last and not os.path.isdir(directory) and not os.path.splitext(last)[1]:
            raise InvalidArgument(f"'{directory}' is no directory: one that is to be made ends in '{os.sep}'")
        self._binaries = os.path.join(directory, model_name)

    def compile_to_file(self, output_model_path: str | os.PathLike[str] | None = None) -> None:
        """Compile to a file, which appears complete or not at all.

        Args:
            output_model_path: by default that of the model, with ``_ctx.onnx`` in place of its ending.

        Raises:
            TypeError: a path of another type.
            InvalidArgument: no path is given for a model from bytes; the path is a folder, or in none.
            Fail: the file exists, or nothing was compiled, and a flag forbids it; an execution provider
                compiled nodes and gave no EPContext node for them.
            EPFail: a plugin failed.
        """
        if output_model_path is not None and not isinstance(output_model_path, (str, os.PathLike)):
            raise TypeError(f"Output model's filepath is of unexpected type '{type(output_model_path)}'")
        path = os.fspath(output_model_path) if output_model_path else None
        if path is None:
            if isinstance(self._source, bytes):
                raise InvalidArgument("the model is from bytes: say where the compiled model is to go")
            path = default_path(os.fspath(self._source))
        self._compile(path)

    def compile_to_bytes(self) -> bytes:
        """Compile to memory. Without embedding, the plugin chooses where its file goes.

        Raises:
            As :meth:`compile_to_file`.
        """
        parts: list[bytes] = []
        self._compile(None, parts.append)
        return b"".join(parts)

    def compile_to_stream(self, write_function: Callable[[bytes], Any]) -> None:
        """Compile, and give the model's bytes to a function, in one or several calls.

        Raises:
            As :meth:`compile_to_file`.
            Fail: the function raised something, which is the cause.
        """
        if not callable(write_function):
            raise TypeError(f"a write function is a function, not {write_function!r}")

        def write(data: bytes) -> None:
            try:
                write_function(data)
            except Exception as error:
                raise Fail(f"the write function failed: {type(error).__name__}: {error}") from error

        self._compile(None, write)

    def set_ep_context_data_write_func(self, write_func: Callable[[str, OrtEpContextData], Any]) -> None:
        """Have a function take what execution providers compiled, in place of files beside the model.

        Without an effect where the compiled code goes into the model (``embed_compiled_data_into_model``).

        Args:
            write_func: called with the name that the EPContext node will have for the data, and an
                :class:`ephost.OrtEpContextData`. Threads may call it at once.

        Raises:
            TypeError: no function.
            RuntimeException: None.
            In a compilation, Fail: an execution provider gives no data to a function.
        """
        self._options._context_writer = Writer(write_func)

    def clear_ep_context_data_write_func(self) -> None:
        """Have execution providers write files again."""
        self._options._context_writer = None
