"""Layers between a host and a plugin: libraries that see every call of both, in ephost and in onnxruntime.

A layer is registered in the plugin's place and passes on what the host and the plugin say to each other.
:func:`wrap` makes such a library; ``register_execution_provider_library`` with ``layers`` does it in passing.
"""

from __future__ import annotations

import logging
import os
import re
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from ephost.errors import Fail, InvalidArgument, NotImplemented
from ephost.layers.findings import Event, Finding, Handle, read_findings
from ephost.layers.rules import RULES, Rule
from ephost.library_files import check_path
from ephost.saving import write_bytes, write_text
from ephost.suggestions import did_you_mean

__all__ = [
    "ENVIRONMENT",
    "RULES",
    "Event",
    "Finding",
    "Handle",
    "Layer",
    "Rule",
    "Trace",
    "Validate",
    "apart",
    "parse_layer",
    "read_findings",
    "standing_for",
    "wanted",
    "wrap",
]
ENVIRONMENT = "EPHOST_LAYERS"  # layers for each library that is registered, separated by commas
_LIBRARY = Path(__file__).with_name("libephost_layer.so")
_MOST_MEGABYTES = 1024 * 1024
_LOG = logging.getLogger("ephost.layers")


@dataclass(frozen=True)
class Trace:
    """The layer that writes down every call, to be read by ``ephost trace``.

    Args:
        file: what to write; None: ``ephost-NAME-PROCESS.trace`` in the working directory.
        only: patterns of functions such as ``OrtEp*.*`` or ``OrtApi.Graph_*``; () for all.
        graphs: whether each graph that the plugin is shown is written out, with options and devices.
        megabytes: of the file at most; what comes then is counted, and not kept.
    """

    file: str | os.PathLike[str] | None = None
    only: Sequence[str] = ()
    graphs: bool = False
    megabytes: int = 1024

    def in_folder(self, folder: str) -> Trace:
        """The same with its file's path made absolute, for a process that may be in another folder."""
        return self if self.file is None else replace(self, file=os.path.join(folder, self.file))

    def of_process(self, process: int) -> Trace:
        """The same with a process' number in its file's name, which others write as well."""
        if self.file is None:
            return self  # it has the number anyway
        stem, suffix = os.path.splitext(os.fspath(self.file))
        return replace(self, file=f"{stem}-{process}{suffix}")

    def of_library(self, name: str) -> Trace:
        """The same with a library's name in its file's name, which another library writes."""
        if self.file is None:
            return self  # it has the name anyway
        stem, suffix = os.path.splitext(os.fspath(self.file))
        return replace(self, file=f"{stem}-{_in_a_file_name(name)}{suffix}")

    def settings(self, name: str) -> dict[str, str]:
        """What the layer's library is told, for a plugin of that name.

        Raises:
            InvalidArgument: a value that cannot be said to it.
        """
        usual = f"ephost-{_in_a_file_name(name)}-{os.getpid()}.trace"
        file = os.fspath(self.file) if self.file is not None else usual
        patterns = list(self.only)
        if any("," in pattern or not pattern for pattern in patterns):
            raise InvalidArgument(f"a pattern of functions has no comma, and is not empty: {patterns!r}")
        if not 0 < self.megabytes < _MOST_MEGABYTES:
            raise InvalidArgument(f"a trace has 1 to {_MOST_MEGABYTES - 1} megabytes, not {self.megabytes}")
        return {
            "trace": os.path.abspath(file),
            "only": ",".join(patterns),
            "graphs": str(int(self.graphs)),
            "trace_megabytes": str(self.megabytes),
        }


@dataclass(frozen=True)
class Validate:
    """The layer that holds a plugin to the rules of the ABI (docs/rules.md).

    What breaks one goes to the host's log.

    Args:
        file: what to add the findings to as well, a line of JSON each, for :func:`read_findings`; None: none.
        raises: an error is also what the call returns in which it was found, where nothing was made in it.
        bounds: whether each output that a plugin writes lies between guards, and inputs are compared. That
            costs what it takes to copy them.
        reads: whether each input is a copy with pages behind it that cannot be touched. That costs two calls
            of the system for each input of each run, and the copy. Not without ``bounds``.
    """

    file: str | os.PathLike[str] | None = None
    raises: bool = False
    bounds: bool = True
    reads: bool = False

    def in_folder(self, folder: str) -> Validate:
        """The same with its file's path made absolute, for a process that may be in another folder."""
        return self if self.file is None else replace(self, file=os.path.join(folder, self.file))

    def of_process(self, _: int) -> Validate:
        """The same: several processes may add to one file."""
        return self

    def settings(self, name: str) -> dict[str, str]:
        """What the layer's library is told."""
        file = os.path.abspath(self.file) if self.file is not None else ""
        return {
            "validate": "raise" if self.raises else "log",
            "bounds": str(int(self.bounds)),
            "reads": str(int(self.reads)),
            "findings": file,
        }


def _in_a_file_name(name: str) -> str:
    return re.sub(r"[^\w.-]", "_", name)


Layer = Trace | Validate
_NAMES = ("trace", "validate")


def parse_layer(text: str) -> Layer:
    """The layer that a text means: ``trace``, ``trace=FILE``, ``validate``, ``validate=FILE`` or
    ``validate=raise``.

    Raises:
        InvalidArgument: there is no such layer.
    """
    name, separator, file = text.strip().partition("=")
    if name not in _NAMES:
        hint = did_you_mean(name, _NAMES)
        raise InvalidArgument(f"there is no layer {name!r}{hint}; there is: {', '.join(_NAMES)}")
    if separator and not file:
        raise InvalidArgument(f"the layer {text!r} names no file")
    if name == "validate":
        return Validate(raises=True) if file == "raise" else Validate(file or None)
    return Trace(file or None)


def wanted(layers: Iterable[str | Layer] | str | None) -> list[Layer]:
    """The layers that a caller asks for, or where it is None the environment.

    Raises:
        InvalidArgument: one that there is not, or one asked for twice.
    """
    if layers is None:
        layers = [text for text in os.environ.get(ENVIRONMENT, "").split(",") if text.strip()]
    elif isinstance(layers, str):
        raise InvalidArgument(f"layers are a list, such as [{layers!r}], not a text")
    found = [layer if isinstance(layer, Layer) else parse_layer(layer) for layer in layers]
    for kind, name in ((Trace, "trace"), (Validate, "validate")):
        if sum(isinstance(layer, kind) for layer in found) > 1:
            raise InvalidArgument(f"the layer {name!r} is asked for more than once")
    return found


def apart(layers: Iterable[Layer], name: str, others: Mapping[str, Iterable[Layer]]) -> list[Layer]:
    """The layers of a library that is to be registered beside others, whose traces it leaves alone: a file
    that one of them writes is another for it, with its name.

    Args:
        layers: the library's.
        name: that it is registered under.
        others: those of the libraries that are registered, by name; as this function gave them.
    """
    taken = {
        os.path.realpath(layer.file): other
        for other, of in others.items()
        for layer in of
        if isinstance(layer, Trace) and layer.file is not None
    }
    found: list[Layer] = []
    for layer in layers:
        if isinstance(layer, Trace) and layer.file is not None:
            made = layer = layer.in_folder(os.getcwd())
            while os.path.realpath(made.file or "") in taken:
                made = made.of_library(name)
            if made is not layer:
                whose = taken[os.path.realpath(layer.file or "")]
                told = "the trace of '%s' goes to %s: '%s' is traced to the file that was named"
                _LOG.warning(told, name, made.file, whose)
            layer = made
        found.append(layer)
    return found


def wrap(
    plugin: str | os.PathLike[str],
    output: str | os.PathLike[str],
    layers: Iterable[str | Layer] = ("trace",),
) -> None:
    """Write a library that stands for the plugin, to be registered in its place in any host, and beside it a
    file of the same name with ".layer" behind it, which says what the layers do and can be edited.

    Args:
        plugin: the plugin library.
        output: the library to write.
        layers: what it does.

    Raises:
        NoSuchFile, Fail: the plugin is no library of this machine, or the output cannot be written.
        InvalidArgument: see :func:`parse_layer`; something would be written over the plugin.
        NotImplemented: this system has no layers yet.
    """
    path = os.path.abspath(plugin)
    _write(os.path.abspath(output), path, Path(path).stem.removeprefix("lib"), wanted(layers))


def _write(target: str, path: str, name: str, layers: Sequence[Layer]) -> None:
    check_path(path)
    settings = {"plugin": path}
    for layer in layers:
        settings |= layer.settings(name)
    _spare_libraries(target, settings)
    if not _LIBRARY.exists():
        raise NotImplemented("this build of ephost has no layers: they are built on Linux and macOS")
    for key, value in settings.items():
        if "\n" in value or value != value.strip():
            raise InvalidArgument(
                f"a layer cannot be told a {key} with a line's end or blanks around it: {value!r}"
            )
    try:
        lines = [f"{key} = {value}\n" for key, value in settings.items() if value]
        # Paths are the bytes that they are. The library comes last: without the other file it does nothing.
        write_text(f"{target}.layer", "".join(lines), errors="surrogateescape")
        write_bytes(target, _LIBRARY.read_bytes())
    except OSError as error:
        raise Fail(f"the layer cannot be written to {target}: {error.strerror}") from error


def _spare_libraries(target: str, settings: Mapping[str, str]) -> None:
    """Raise InvalidArgument where what is written would replace the plugin or the layer's own files."""
    path = settings["plugin"]
    written = [("layer", target), ("layer's settings", f"{target}.layer")]
    for what, file in written:
        if _is_same_file(file, path):
            raise InvalidArgument(f"the {what} would be written over the plugin {path}, which it stands for")
    for key in ("trace", "findings"):
        for what, file in (("plugin", path), *written):
            if settings.get(key) and _is_same_file(settings[key], file):
                raise InvalidArgument(f"the layer's {key} would be written over the {what} {file}")


def _is_same_file(one: str, other: str) -> bool:
    try:
        return os.path.samefile(one, other)
    except (OSError, ValueError):
        return os.path.realpath(one) == os.path.realpath(other)


@contextmanager
def standing_for(path: str, name: str, layers: Sequence[Layer]) -> Iterator[str]:
    """The library to open in the place of the one at this path, as long as it is being opened.

    Raises:
        As :func:`wrap`.
    """
    if not layers:
        yield path
        return
    with tempfile.TemporaryDirectory(prefix="ephost-layer-") as folder:
        target = str(Path(folder, "libephost_layer.so"))
        _write(target, path, name, layers)
        yield target
