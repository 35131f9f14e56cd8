"""Operators of the host that kernels call (CreateOp, InvokeOp of OrtApi): for each a session of one node.

C imports this module when the first kernel asks for one.
"""

from __future__ import annotations

import atexit
from collections.abc import Mapping, Sequence
from itertools import count
from typing import Any

from ephost._bindings import NULL, address, api, call, check, ffi, lib, onnx_element_type, text
from ephost.device_memory import is_cpus
from ephost.errors import InvalidArgument, NotImplemented
from ephost.isolation.tables import functions_of
from ephost.message_helpers import make_node, tensor_type_proto
from ephost.messages import (
    AttributeProto,
    GraphProto,
    ModelProto,
    OperatorSetIdProto,
    TensorProto,
    TypeProto,
    ValueInfoProto,
)
from ephost.model.graph import schema_of
from ephost.model.native_graph import read_attribute
from ephost.onnx_schema import VARIADIC
from ephost.session import InferenceSession

_IR_VERSION = 10
# By number: what the operator is called, what its inputs are, and who runs it.
_sessions: dict[int, tuple[str, list[str], InferenceSession]] = {}
_numbers = count(1)


def model_of(
    op_type: str,
    domain: str,
    version: int,
    types: Mapping[str, int],
    attributes: Sequence[AttributeProto],
    inputs: int,
    outputs: int,
) -> ModelProto:
    """A model of one node, whose inputs and outputs are x0, x1, ... and y0, y1, ...

    Args:
        op_type: the operator.
        domain: "" or "ai.onnx" for ONNX's own.
        version: an opset version of the domain.
        types: an ``onnx.TensorProto.DataType`` for each of the operator's type parameters. Of an operator
            that has no schema, one says what all values are.
        attributes: the node's.
        inputs: how many inputs the node has.
        outputs: how many outputs.

    Raises:
        InvalidArgument: the operator has no such opset or parameter, or not as many inputs or outputs, or one
            of its parameters is missing.
        NotImplemented: nobody knows what types its values have.
    """
    domain = "" if domain == "ai.onnx" else domain
    label = f"the operator {domain or 'ai.onnx'}.{op_type} of opset {version}"
    schema: Any = schema_of(op_type, domain, version) if version > 0 else None
    if schema is None:
        if not domain:
            raise InvalidArgument(f"{label}: there is none")
        if len(set(types.values())) != 1:
            raise NotImplemented(
                f"{label} has no schema: its values have to be of one type, and that has to be given"
            )
        one = tensor_type_proto(next(iter(types.values())), None)
        given, made = [one] * inputs, [one] * outputs
    else:
        known = {constraint.type_param_str for constraint in schema.type_constraints}
        if strange := sorted(set(types) - known):
            raise InvalidArgument(
                f"{label} has no type parameter '{strange[0]}': it has {', '.join(sorted(known))}"
            )
        given = _types(schema.inputs, inputs, types, label, "input")
        made = _types(schema.outputs, outputs, types, label, "output")
    read, written = [f"x{at}" for at in range(inputs)], [f"y{at}" for at in range(outputs)]
    node = make_node(op_type, read, written, name=op_type, domain=domain)
    node.attribute.extend(attributes)
    return ModelProto(
        ir_version=_IR_VERSION,
        opset_import=[OperatorSetIdProto(domain=domain, version=version)],
        graph=GraphProto(
            name=op_type,
            node=[node],
            input=[ValueInfoProto(name=n, type=t) for n, t in zip(read, given, strict=True)],
            output=[ValueInfoProto(name=n, type=t) for n, t in zip(written, made, strict=True)],
        ),
    )


def _types(
    formals: Sequence[Any], number: int, types: Mapping[str, int], label: str, what: str
) -> list[TypeProto]:
    """The types of so many inputs or outputs."""
    if number > len(formals) and not (formals and formals[-1].option.value == VARIADIC):
        raise InvalidArgument(f"{label} has {len(formals)} {what}s, not {number}")
    made = []
    for at in range(number):
        kind = formals[min(at, len(formals) - 1)].type_str
        name = kind.removeprefix("tensor(").removesuffix(")")
        if kind in types:
            made.append(tensor_type_proto(types[kind], None))
        elif kind == f"tensor({name})":
            made.append(tensor_type_proto(int(getattr(TensorProto, name.upper())), None))
        else:
            raise InvalidArgument(
                f"{label}: its type parameter '{kind}', which its {what} {at} has, is missing"
            )
    return made


def _create(
    name: Any,
    domain: Any,
    version: int,
    constraints: Any,
    types: Any,
    constraint_count: int,
    attributes: Any,
    attribute_count: int,
    inputs: int,
    outputs: int,
    made: Any,
) -> None:
    model = model_of(
        text(name),
        text(domain),
        version,
        {text(constraints[at]): onnx_element_type(int(types[at])) for at in range(constraint_count)},
        [read_attribute(attributes[at]) for at in range(attribute_count)],
        inputs,
        outputs,
    )
    session = InferenceSession(model.SerializeToString())
    number = next(_numbers)
    names = [each.name for each in model.graph.input]
    _sessions[number] = (f"{text(domain) or 'ai.onnx'}.{text(name)}", names, session)
    made[0] = number


def _invoke(number: int, inputs: Any, outputs: Any) -> None:
    label, names, session = _sessions[number]
    feed = {name: call.value_to_object(address(inputs[at])) for at, name in enumerate(names)}
    for at, result in enumerate(session.run(None, feed)):
        _write(outputs[at], result, f"the output {at} of {label}")


def _described(value: Any) -> tuple[str, list[int]]:
    """A tensor's element type and shape."""
    kind, dims, rank = ffi.new("ONNXTensorElementDataType*"), ffi.new("int64_t**"), ffi.new("size_t*")
    check(api.GetTensorElementTypeAndShapeDataReference(value, kind, dims, rank))
    name = TensorProto.DataType.Name(onnx_element_type(int(kind[0]))).lower()
    return name, list(ffi.unpack(dims[0], int(rank[0]))) if rank[0] else []


def _write(value: Any, result: Any, what: str) -> None:
    """Put a result into the memory of a kernel's value, which has its type and shape."""
    source = ffi.gc(ffi.cast("OrtValue*", call.value_from_object(result)), api.ReleaseValue)
    made, there = _described(source), _described(value)
    if made != there:
        raise InvalidArgument(
            f"{what} is {made[0]} {made[1]}, and what was given for it {there[0]} {there[1]}"
        )
    if not is_cpus(value):
        raise InvalidArgument(f"{what} is on the CPU, and what was given for it on a device")
    if made[0] == "string":
        texts = [ffi.new("char[]", each.encode("utf-8", "surrogateescape")) for each in result.ravel()]
        check(api.FillStringTensor(value, ffi.new("char*[]", texts) if texts else NULL, len(texts)))
        return
    size, data = ffi.new("size_t*"), ffi.new("void*[2]")
    check(api.GetTensorSizeInBytes(source, size))
    for at, each in enumerate((source, value)):
        check(api.GetTensorMutableData(each, data + at))
    if size[0]:
        ffi.memmove(data[1], data[0], size[0])


def _release(number: int) -> None:
    _sessions.pop(number, None)


_calls = ffi.new(
    "EphostOpCalls*",
    _functions := functions_of("EphostOpCalls", {"create": _create, "invoke": _invoke, "release": _release}),
)
lib.ephost_set_op_calls(_calls)
atexit.register(lib.ephost_set_op_calls, NULL)
