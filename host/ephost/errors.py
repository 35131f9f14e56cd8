"""The exceptions of the host: one class for each error code of the ABI, with onnxruntime's names.

Each carries ``code`` (the ABI's number), so that an exception raised by a callback of ours comes back to a
plugin as the status it stands for.
"""

from __future__ import annotations

import builtins
import itertools
import os
import sys
import warnings
from collections.abc import Callable


class OnnxRuntimeException(builtins.RuntimeError):
    """Base of all errors that the host or a plugin reports. A RuntimeError, since that is what onnxruntime
    raises for many of them.

    Names that are not UTF-8 are in ``args`` as they came, with surrogates, and readable in the text.
    """

    code: int = 1

    def __str__(self) -> str:
        text = super().__str__()
        try:
            text.encode()
        except UnicodeEncodeError:  # no terminal and no file takes surrogates
            text = text.encode("utf-8", "surrogatepass").decode("utf-8", "replace")
        return text


class Fail(OnnxRuntimeException):
    """Something failed that has no code of its own (ORT_FAIL)."""

    code = 1


class InvalidArgument(OnnxRuntimeException):
    """An argument is not what the function takes (ORT_INVALID_ARGUMENT)."""

    code = 2


class NoSuchFile(OnnxRuntimeException, FileNotFoundError):
    """A file that was named does not exist (ORT_NO_SUCHFILE)."""

    code = 3


class NoSuchLibrary(NoSuchFile, Fail):
    """A plugin's library that does not exist: a Fail, too, which is what onnxruntime makes of it."""


class NoModel(OnnxRuntimeException):
    """There is no model (ORT_NO_MODEL)."""

    code = 4


class EngineError(OnnxRuntimeException):
    """An engine behind an execution provider failed (ORT_ENGINE_ERROR)."""

    code = 5


class RuntimeException(OnnxRuntimeException):
    """Running failed (ORT_RUNTIME_EXCEPTION)."""

    code = 6


class NodeFailed(InvalidArgument, Fail, RuntimeException):
    """A node of the CPU plugin or the fallback cannot compute what it was given, such as shapes that clash.

    It is all three classes, one of which onnxruntime raises, by operator and version. A name of ephost's own.
    """


class InvalidProtobuf(OnnxRuntimeException):
    """A file or a buffer holds no ONNX model (ORT_INVALID_PROTOBUF)."""

    code = 7


class ModelLoaded(OnnxRuntimeException):
    """The model was loaded before (ORT_MODEL_LOADED)."""

    code = 8


class NotImplemented(OnnxRuntimeException, NotImplementedError):
    """A function or an operator has no implementation (ORT_NOT_IMPLEMENTED)."""

    code = 9


class InvalidGraph(OnnxRuntimeException):
    """The model's graph breaks a rule of ONNX (ORT_INVALID_GRAPH)."""

    code = 10


class EPFail(OnnxRuntimeException):
    """An execution provider failed, or broke a rule of the ABI (ORT_EP_FAIL)."""

    code = 11


class ModelLoadCanceled(OnnxRuntimeException):
    """Loading was cancelled (ORT_MODEL_LOAD_CANCELED)."""

    code = 12


class ModelRequiresCompilation(OnnxRuntimeException):
    """The model has to be compiled first, and compiling was forbidden (ORT_MODEL_REQUIRES_COMPILATION)."""

    code = 13


class NotFound(OnnxRuntimeException):
    """Something that was named is not there (ORT_NOT_FOUND)."""

    code = 14


class NoSuchData(NoSuchFile, Fail):
    """A file of external data does not exist: a Fail, too, which is what onnxruntime makes of it."""


class InvalidData(InvalidGraph, Fail):
    """External data that a model has no right to, or that is not what it says: likewise."""


class DeviceReset(OnnxRuntimeException):
    """A device was reset. Never raised: the ABI has no code for it up to API version 30."""


class PluginFault(EPFail):
    """The process of an isolated plugin has ended, or had to be ended. Names of ephost's own from here on.

    ``library`` is the registration name, ``last_call`` the last function of the plugin that was called,
    ``messages`` what it logged last, and ``backtrace`` where it was, as far as that could be found out.
    """

    library: str = ""
    pid: int = 0
    last_call: str = ""
    messages: tuple[str, ...] = ()
    backtrace: str = ""


class PluginCrashed(PluginFault):
    """A signal ended it; ``signal`` is its number."""

    signal: int = 0


class PluginExited(PluginFault):
    """It has ended itself, as by ``exit()``; ``exit_code`` is what it left."""

    exit_code: int = 0


class PluginTimedOut(PluginFault):
    """It did not answer within ``seconds``, and was ended."""

    seconds: float = 0.0


class FallbackWarning(RuntimeWarning):
    """A plugin failed, and the session goes on without it. A name of ephost's own."""


def warn_of_fallback(text: str) -> None:
    """Issue a :class:`FallbackWarning` at the line outside of this package that led here."""
    _warn(text, FallbackWarning)


def warn_of_argument(text: str) -> None:
    """Issue a UserWarning there."""
    _warn(text, UserWarning)


def _warn(text: str, category: type[Warning]) -> None:
    package = os.path.dirname(__file__) + os.sep
    level, frame = 3, sys._getframe(2)
    while frame.f_code.co_filename.startswith(package) and frame.f_back is not None:
        level, frame = level + 1, frame.f_back
    warnings.warn(text, category, stacklevel=level)


BY_CODE: dict[int, type[OnnxRuntimeException]] = {
    kind.code: kind
    for kind in (
        Fail,
        InvalidArgument,
        NoSuchFile,
        NoModel,
        EngineError,
        RuntimeException,
        InvalidProtobuf,
        ModelLoaded,
        NotImplemented,
        InvalidGraph,
        EPFail,
        ModelLoadCanceled,
        ModelRequiresCompilation,
        NotFound,
    )
}


_OF_NODE = 1 << 19  # in the code of a status of which NodeFailed is made
_FIRST_FAULT = 1 << 20  # statuses with codes from there on stand for faults that are kept here
_MOST_FAULTS = 256  # a status may be released without having become an exception
_faults: dict[int, PluginFault] = {}
_fault_codes = itertools.count(_FIRST_FAULT)


def code_of_fault(fault: PluginFault) -> int:
    """A code for a status that becomes this fault again where it is raised."""
    code = next(_fault_codes)
    _faults[code] = fresh(fault)
    while len(_faults) > _MOST_FAULTS:
        _faults.pop(next(iter(_faults)), None)
    return code


def fresh(fault: PluginFault) -> PluginFault:
    """The fault to be raised once more: one that is kept must not keep the frames that it went through."""
    other = worded(fault, str(fault))
    assert isinstance(other, PluginFault)
    return other


def worded(error: OnnxRuntimeException, message: str) -> OnnxRuntimeException:
    """The same error in other words."""
    other = type(error)(message)
    other.__dict__.update(error.__dict__)
    return other


def from_status(code: int, message: str) -> OnnxRuntimeException:
    """The exception for an ABI error code, with the message that came with it."""
    if code >= _FIRST_FAULT and (fault := _faults.pop(code, None)) is not None:
        return worded(fault, message)
    return NodeFailed(message) if code & _OF_NODE else BY_CODE.get(code, Fail)(message)


class naming:  # noqa: N801 - it reads as a statement
    """A context in which the error of a status gets in front who failed, and in what; its class stays. One
    that begins with ``who`` says so already: it comes from a worker, and stays as it is.
    """

    __slots__ = ("_where", "_who")

    def __init__(self, where: Callable[[], str], who: Callable[[], str] | None = None) -> None:
        self._where = where
        self._who = who

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if not isinstance(error, OnnxRuntimeException):
            return
        if self._who is None or not str(error).startswith(self._who()):
            raise worded(error, f"{self._where()}: {error}") from None
