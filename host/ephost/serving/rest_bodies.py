"""Bodies of the REST protocol: JSON, and, behind it, tensors in their binary form.

A tensor whose parameters have ``binary_data_size`` lies behind the JSON, whose own length the header
``Inference-Header-Content-Length`` gives. Source: the Open Inference Protocol v2, and Triton's extension for
binary tensor data.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ephost.serving.core import Result
from ephost.serving.datatypes import (
    BINARY_ONLY,
    check_shape,
    from_bytes,
    from_json,
    json_text,
    to_bytes,
    to_json,
)
from ephost.serving.errors import BadRequest
from ephost.serving.signature import Signature

HEADER_LENGTH = "Inference-Header-Content-Length"
# How JSON writes characters beyond the first 65,536: as two halves, of which one alone is none.
_SURROGATE = re.compile(r"\\u[dD][89a-fA-F]")


@dataclass(frozen=True)
class Request:
    """A request for inference, held against the model's signature."""

    id: str | None
    inputs: Mapping[str, np.ndarray]
    outputs: Sequence[str]  # none: all
    binary: Mapping[str, bool]  # of the outputs that say how they are wanted
    binary_by_default: bool
    timeout: float | None  # seconds


def parse_json(data: bytes | memoryview) -> dict[str, Any]:
    """A JSON object.

    Raises:
        BadRequest: it is none.
    """
    try:
        text = bytes(data).decode()
        parsed = json.loads(text, parse_constant=_refuse_constant)
    except (ValueError, RecursionError) as error:
        raise BadRequest(f"the request is no JSON: {error}") from None
    if not isinstance(parsed, dict):
        raise BadRequest("the request is no JSON object")
    if _SURROGATE.search(text):
        try:
            json.dumps(parsed, ensure_ascii=False).encode()
        except UnicodeEncodeError:
            raise BadRequest("the request has half of a surrogate pair, which is no character") from None
    return parsed


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is no number of JSON's")


def parse_request(body: bytes, header_length: str | None, signature: Signature) -> Request:
    """A request for inference.

    Args:
        body: JSON, and binary tensors behind it. The arrays borrow it.
        header_length: the value of the header that says how long the JSON is; None: all of the body.
        signature: the model's.

    Raises:
        BadRequest: the body is not what the protocol says, or not what the model takes.
    """
    length = len(body)
    if header_length is not None:
        if not (header_length.isascii() and header_length.isdigit()) or len(header_length) > 19:
            raise BadRequest(f"{HEADER_LENGTH} is {header_length!r}, which is no length")
        length = int(header_length)
        if length > len(body):
            raise BadRequest(f"{HEADER_LENGTH} is {length}, but the request has {len(body)} bytes")
    request = parse_json(memoryview(body)[:length])
    parameters = parameters_of("the request", request)
    outputs, binary = _outputs(request.get("outputs"), signature)
    return Request(
        _id(request.get("id")),
        _inputs(request.get("inputs"), memoryview(body)[length:], signature),
        outputs,
        binary,
        _flag("binary_data_output", parameters),
        _timeout(parameters.get("timeout")),
    )


def _id(value: Any) -> str | None:
    if value is not None and not isinstance(value, str):
        raise BadRequest("the request's id is no string")
    return value


def _timeout(value: Any) -> float | None:
    """The parameter ``timeout``, in microseconds as Triton's, in seconds."""
    if value is None:
        return None
    if type(value) is not int or value < 0:
        raise BadRequest("the parameter timeout is a whole number of microseconds")
    return min(value, 1 << 50) / 1e6 or None


def parameters_of(owner: str, item: Mapping[str, Any]) -> dict[str, Any]:
    """The parameters that a part of a request has.

    Raises:
        BadRequest: they are no object.
    """
    parameters = item.get("parameters", {})
    if not isinstance(parameters, dict):
        raise BadRequest(f"the parameters of {owner} are no object")
    return parameters


def _flag(key: str, parameters: Mapping[str, Any]) -> bool:
    value = parameters.get(key, False)
    if not isinstance(value, bool):
        raise BadRequest(f"the parameter {key} is true or false")
    return value


def _items(what: str, value: Any) -> list[dict[str, Any]]:
    if not isinstance(value, list):
        raise BadRequest(f"the request's {what}s are no list")
    for item in value:
        if not isinstance(item, dict) or not isinstance(item.get("name"), str):
            raise BadRequest(f"an {what} of the request is no object with a name")
    return value


def _inputs(value: Any, binary: memoryview, signature: Signature) -> dict[str, np.ndarray]:
    items = _items("input", value)
    signature.check_names([item["name"] for item in items])
    found = {}
    at = 0
    for item in items:
        name, datatype = item["name"], item.get("datatype")
        shape = check_shape(name, item.get("shape"))
        signature.check_input(name, datatype, shape)
        assert isinstance(datatype, str)  # the signature's
        size = parameters_of(f"input '{name}'", item).get("binary_data_size")
        if size is None:
            if "data" not in item:
                raise BadRequest(f"input '{name}' has neither data nor a binary_data_size")
            found[name] = from_json(name, datatype, shape, item["data"])
            continue
        if "data" in item:
            raise BadRequest(f"input '{name}' has both data and a binary_data_size")
        if type(size) is not int or not 0 <= size <= len(binary) - at:
            raise BadRequest(
                f"input '{name}' says that it has {size!r} bytes of binary data; {len(binary) - at} are left"
            )
        found[name] = from_bytes(name, datatype, shape, binary[at : at + size])
        at += size
    if at != len(binary):
        raise BadRequest(f"the request has {len(binary) - at} bytes of binary data that are no input's")
    return found


def _outputs(value: Any, signature: Signature) -> tuple[list[str], dict[str, bool]]:
    if value is None:
        return [], {}
    items = _items("output", value)
    names = [item["name"] for item in items]
    signature.check_outputs(names)
    binary = {}
    for item in items:
        parameters = parameters_of(f"output '{item['name']}'", item)
        if "binary_data" in parameters:
            binary[item["name"]] = _flag("binary_data", parameters)
        if parameters.get("classification") or parameters.get("shared_memory_region"):
            raise BadRequest(f"output '{item['name']}' asks for an extension that this server does not have")
    return names, binary


def write_response(request: Request, result: Result) -> tuple[bytes, int | None]:
    """The response's body, and the length of its JSON where binary tensors lie behind it.

    Raises:
        BadRequest: an output is wanted as JSON that has no form there.
            Values that are not finite have none, either.
    """
    outputs: list[str] = []
    parts: list[bytes] = []
    for output in result.outputs:
        item: dict[str, Any] = {
            "name": output.name,
            "datatype": output.datatype,
            "shape": list(output.array.shape),
        }
        # Who says nothing of a datatype without a form in JSON gets the one that it has.
        says_nothing = request.binary_by_default or output.datatype in BINARY_ONLY
        if request.binary.get(output.name, says_nothing):
            data = to_bytes(output.array)
            item["parameters"] = {"binary_data_size": len(data)}
            parts.append(data)
            outputs.append(json_text(item))
        else:
            elements = to_json(output.name, output.datatype, output.array)
            outputs.append(f'{json_text(item)[:-1]},"data":{elements}}}')
    response: dict[str, Any] = {"model_name": result.model, "model_version": result.version}
    if request.id is not None:
        response["id"] = request.id
    text = f'{json_text(response)[:-1]},"outputs":[{",".join(outputs)}]}}'
    header = text.encode("utf-8", "backslashreplace")
    if not parts:
        return header, None
    return b"".join((header, *parts)), len(header)
