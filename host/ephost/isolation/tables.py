"""Functions of the ABI's structs, written in Python: what an error becomes, and the tables of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ephost._bindings import NULL, api, ffi
from ephost.errors import OnnxRuntimeException, PluginFault, code_of_fault


def status_of(error: BaseException) -> Any:
    """An ``OrtStatus*`` that says an error."""
    code = code_of_fault(error) if isinstance(error, PluginFault) else getattr(error, "code", 1)
    said = str(error) if isinstance(error, OnnxRuntimeException) else f"{type(error).__name__}: {error}"
    return api.CreateStatus(code, said.encode("utf-8", "backslashreplace"))


def giving_status(function: Callable[..., None]) -> Callable[..., Any]:
    """The function as one that gives an ``OrtStatus*``: NULL, or the error that it raised."""

    def call(*arguments: Any) -> Any:
        try:
            function(*arguments)
        except BaseException as error:  # of Ctrl-C, too: NULL would say that all is done
            return status_of(error)
        return NULL

    return call


def functions_of(structure: str, functions: dict[str, Callable[..., Any]]) -> dict[str, Any]:
    """The members of a struct by name, of functions of Python's: those that give a status may raise."""
    fields = dict(ffi.typeof(structure).fields)
    made = {}
    for name, function in functions.items():
        kind = fields[name].type
        if kind.result.cname.endswith("OrtStatus *"):
            function = giving_status(function)
        made[name] = ffi.callback(kind, function)
    return made
