"""ONNX's operator schemas for plugins that ask for them (OrtEpApi's GetOpSchema)."""

from __future__ import annotations

import atexit
from typing import Any

from ephost._bindings import NULL, ep_api, ffi, lib, text
from ephost.host_log import HostLog

_LOG = HostLog("ephost")


@ffi.callback("EphostSchemaCallback")  # type: ignore[untyped-decorator]
def _get_schema(name: Any, max_version: int, domain: Any) -> Any:
    try:
        return new_op_schema(text(name), max_version, text(domain))
    except Exception:  # nothing may cross into the plugin
        _LOG.exception("the schema of '%s' cannot be given", text(name))
        return NULL


def new_op_schema(name: str, max_version: int, domain: str) -> Any:
    """A new ``OrtOpSchema*`` of an operator as it is at an opset version; NULL where ONNX has none.

    Args:
        name: the operator's type.
        max_version: an opset version of the domain.
        domain: "" or "ai.onnx" for ONNX's own.

    Raises:
        MemoryError: there is no room for it.
    """
    from ephost.model.graph import schema_of

    found: Any = schema_of(name, "" if domain == "ai.onnx" else domain, max_version)
    if found is None:
        return NULL
    constraints = list(found.type_constraints)
    index = {constraint.type_param_str: at for at, constraint in enumerate(constraints)}
    schema = lib.ephost_op_schema_new(found.since_version, len(constraints))
    if not schema:
        raise MemoryError("no memory for an operator's schema")
    for at, constraint in enumerate(constraints):
        types = [ffi.new("char[]", kind.encode()) for kind in constraint.allowed_type_strs]
        param = constraint.type_param_str.encode()
        if not lib.ephost_op_schema_set_constraint(schema, at, param, types, len(types)):
            break
    else:
        formals = [(True, f) for f in found.inputs] + [(False, f) for f in found.outputs]
        if all(
            lib.ephost_op_schema_add_formal(schema, is_input, f.name.encode(), index.get(f.type_str, -1))
            for is_input, f in formals
        ):
            return schema
    ep_api.ReleaseOpSchema(schema)
    raise MemoryError("no memory for an operator's schema")


def offer_schemas() -> None:
    """Answer plugins that ask for schemas, until the process ends."""
    lib.ephost_set_schema_callback(_get_schema)
    atexit.register(lib.ephost_set_schema_callback, NULL)
