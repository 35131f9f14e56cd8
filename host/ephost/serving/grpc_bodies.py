"""Requests and responses of the gRPC half, and tensors in them: raw bytes, or lists of numbers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ephost.serving.core import Result
from ephost.serving.datatypes import check_shape, from_bytes, from_numbers, from_texts, to_bytes
from ephost.serving.errors import BadRequest
from ephost.serving.grpc_messages import MESSAGES
from ephost.serving.signature import Signature

# The list that has a datatype's elements. FP16 and BF16 have none: they are raw.
_CONTENTS = {
    "BOOL": "bool_contents",
    "INT8": "int_contents",
    "INT16": "int_contents",
    "INT32": "int_contents",
    "INT64": "int64_contents",
    "UINT8": "uint_contents",
    "UINT16": "uint_contents",
    "UINT32": "uint_contents",
    "UINT64": "uint64_contents",
    "FP32": "fp32_contents",
    "FP64": "fp64_contents",
    "BYTES": "bytes_contents",
}
_LISTS = sorted(set(_CONTENTS.values()))


@dataclass(frozen=True)
class Request:
    """A request for inference, held against the model's signature."""

    inputs: dict[str, np.ndarray]
    outputs: Sequence[str]  # none: all
    timeout: float | None  # seconds


def parse(kind: str, data: bytes) -> Any:
    """The message of a kind.

    Raises:
        BadRequest: the bytes are none.
    """
    from google.protobuf.message import DecodeError

    try:
        return MESSAGES[kind].FromString(data)
    except DecodeError as error:
        raise BadRequest(f"the request is no {kind}: {error}") from None


def read_request(message: Any, signature: Signature) -> Request:
    """The inputs and what else a ``ModelInferRequest`` says. The arrays borrow its bytes.

    Raises:
        BadRequest: it is not what the protocol says, or not what the model takes.
    """
    raw = message.raw_input_contents
    signature.check_names([item.name for item in message.inputs])
    if raw and len(raw) != len(message.inputs):
        raise BadRequest(f"there are {len(message.inputs)} inputs, but raw_input_contents has {len(raw)}")
    inputs = {}
    for at, item in enumerate(message.inputs):
        shape = check_shape(item.name, item.shape)
        signature.check_input(item.name, item.datatype, shape)
        if "shared_memory_region" in item.parameters:
            raise BadRequest(f"input '{item.name}' asks for an extension that this server does not have")
        if raw and item.HasField("contents"):
            raise BadRequest(f"input '{item.name}' has contents beside raw_input_contents")
        if raw:
            inputs[item.name] = from_bytes(item.name, item.datatype, shape, raw[at])
        else:
            inputs[item.name] = _listed(item.name, item.datatype, shape, item.contents)
    names = [output.name for output in message.outputs]
    signature.check_outputs(names)
    for output in message.outputs:
        if "shared_memory_region" in output.parameters or "classification" in output.parameters:
            raise BadRequest(f"output '{output.name}' asks for an extension that this server does not have")
    return Request(inputs, names, _timeout(message))


def _listed(name: str, datatype: str, shape: tuple[int, ...], contents: Any) -> np.ndarray:
    wanted = _CONTENTS.get(datatype)
    if wanted is None:
        raise BadRequest(f"input '{name}' is {datatype}, which has to be in raw_input_contents")
    if others := [each for each in _LISTS if each != wanted and len(getattr(contents, each))]:
        raise BadRequest(f"input '{name}' of {datatype} is in {wanted}, not in {others[0]}")
    items = getattr(contents, wanted)
    if datatype == "BYTES":
        return from_texts(name, shape, items)
    return from_numbers(name, datatype, shape, items)


def _timeout(message: Any) -> float | None:
    """The parameter ``timeout``, in microseconds as Triton's, in seconds."""
    if "timeout" not in message.parameters:
        return None
    parameter = message.parameters["timeout"]
    kind = parameter.WhichOneof("parameter_choice")
    if kind not in ("int64_param", "uint64_param") or getattr(parameter, kind) < 0:
        raise BadRequest("the parameter timeout is a whole number of microseconds")
    return min(getattr(parameter, kind), 1 << 50) / 1e6 or None


def write_response(request_id: str, result: Result) -> Any:
    """The ``ModelInferResponse`` with raw tensors."""
    response = MESSAGES["ModelInferResponse"](
        model_name=result.model, model_version=result.version, id=request_id
    )
    for output in result.outputs:
        response.outputs.add(name=output.name, datatype=output.datatype, shape=output.array.shape)
        response.raw_output_contents.append(to_bytes(output.array))
    return response
