"""A model back into a file: what ``SessionOptions.optimized_model_filepath`` asks for."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from typing import IO, Any

import numpy as np
import onnx

from ephost._bindings import dtype_of
from ephost.errors import Fail, InvalidArgument
from ephost.messages import Message
from ephost.model.graph import NO_VERSION, Graph, Model, Node, TensorType, Value, told, type_proto
from ephost.saving import is_special, write_bytes, written

_LARGEST = (1 << 31) - 1  # bytes that protobuf can hold
# A session's entries: the name of a file beside the optimized model, and the bytes from which an initializer
# is in it.
EXTERNAL_FILE = "session.optimized_model_external_initializers_file_name"
EXTERNAL_SIZE = "session.optimized_model_external_initializers_min_size_in_bytes"
_ALIGNMENT = 64  # of initializers in a file of their own
SAVE_FORMAT = "session.save_model_format"  # ORT or ONNX


def model_proto(
    model: Model, *, graph: bool = True, place: Callable[[Value], onnx.TensorProto] | None = None
) -> onnx.ModelProto:
    """The model, as it is now, as ONNX writes it, weights inside, where ``place`` makes none of another kind
    of the main graph's; with ``graph=False`` all but the graph.
    """
    about = model.metadata
    proto = onnx.ModelProto(
        ir_version=model.ir_version,
        # What is empty is left out: programs compare models as text.
        producer_name=about.producer_name or None,
        producer_version=about.producer_version or None,
        domain=about.domain or None,
        model_version=None if about.version == NO_VERSION else about.version,
        doc_string=about.description or None,
        opset_import=[onnx.OperatorSetIdProto(domain=d, version=v) for d, v in model.opsets.items()],
        functions=[as_onnx(onnx.FunctionProto, f) for f in model.functions.values()],
    )
    onnx.helper.set_model_props(proto, about.custom)
    if graph:
        proto.graph.CopyFrom(graph_proto(model.graph, place))
        if about.graph_description:
            proto.graph.doc_string = about.graph_description
    return proto


def in_utf8(make: Callable[[], onnx.ModelProto]) -> onnx.ModelProto:
    """The model that ``make`` makes.

    Raises:
        Fail: a name or a text in it is not UTF-8: such models are read, but onnx's classes do not take them.
    """
    try:
        return make()
    except UnicodeEncodeError as error:
        raise Fail(
            f"the model cannot be written, since it holds '{error.object}', which is not UTF-8"
        ) from None


def as_onnx(kind: Any, message: Message) -> Any:
    """A message as onnx has it; ``kind`` is its class there."""
    return kind.FromString(message.SerializeToString())


def graph_proto(graph: Graph, place: Callable[[Value], onnx.TensorProto] | None = None) -> onnx.GraphProto:
    """A graph with its nodes and initializers, and the types of the inner values that the model lists, as
    onnxruntime writes it.
    """
    held = {id(value) for value in (*graph.inputs, *graph.outputs)}
    return onnx.GraphProto(
        name=graph.name,
        node=[node_proto(node, graph_proto) for node in graph.nodes],
        initializer=[(place or initializer_proto)(value) for value in graph.initializers],
        input=[value_info(value) for value in graph.inputs],
        output=[value_info(value) for value in graph.outputs],
        value_info=[
            value_info(value)
            for value in graph.values.values()
            if value.is_listed
            and value.type is not None
            and value.initializer is None
            and id(value) not in held
        ],
    )


def node_proto(node: Node, body: Callable[[Graph], onnx.GraphProto]) -> onnx.NodeProto:
    """A node as it is linked now; ``body`` makes the protos of its subgraphs."""
    proto: onnx.NodeProto = as_onnx(onnx.NodeProto, node.proto)
    del proto.input[:], proto.output[:]
    proto.input.extend(value.name if value else "" for value in node.inputs)
    proto.output.extend(value.name if value else "" for value in node.outputs)
    for attribute in proto.attribute:
        if attribute.name in node.subgraphs:
            attribute.g.CopyFrom(body(node.subgraphs[attribute.name]))
    return proto


def value_info(value: Value) -> onnx.ValueInfoProto:
    """A value's name and type."""
    info = onnx.ValueInfoProto(name=value.name)
    if isinstance(value.type, TensorType):
        dims = None if value.type.dims is None else tuple(told(value.type.dims))
        info.type.CopyFrom(as_onnx(onnx.TypeProto, type_proto(value.type.element_type, dims)))
    elif value.type is not None:
        info.type.CopyFrom(as_onnx(onnx.TypeProto, value.type))
    return info


def initializer_proto(value: Value) -> onnx.TensorProto:
    """An initializer with its data."""
    array = value.initializer
    assert array is not None
    return onnx.numpy_helper.from_array(np.asarray(array), value.name)


def external_size(value: Value) -> int:
    """The bytes of an initializer that may be in a file; 0 for text, which may not."""
    array = value.initializer
    assert array is not None
    if (
        not isinstance(value.type, TensorType)
        or dtype_of(value.type.element_type) is None
        or array.dtype == object
    ):
        return 0
    return int(array.nbytes)


def external_proto(value: Value, location: str, offset: int, size: int) -> onnx.TensorProto:
    """An initializer whose data lies in a file."""
    assert isinstance(value.type, TensorType) and value.initializer is not None
    proto = onnx.TensorProto(
        name=value.name,
        data_type=value.type.element_type,
        dims=value.initializer.shape,
        data_location=onnx.TensorProto.EXTERNAL,
    )
    for key, content in (("location", location), ("offset", str(offset)), ("length", str(size))):
        proto.external_data.add(key=key, value=content)
    return proto


def appended(file: IO[bytes], value: Value, location: str) -> onnx.TensorProto:
    """Write an initializer's data to the end of a file; the initializer of a model that names it so."""
    file.write(b"\0" * (-file.tell() % _ALIGNMENT))
    offset, raw = file.tell(), initializer_proto(value).raw_data
    file.write(raw)
    return external_proto(value, location, offset, len(raw))


def save(model: Model, path: str, config: Mapping[str, str] | None = None) -> None:
    """Write the model.

    Args:
        model: the model.
        path: the file.
        config: the session's entries, of which two may put large initializers into a file beside the model,
            and one names the format, which the file's name does otherwise.

    Raises:
        InvalidArgument: ONNX Runtime's own format is asked for, the folder does not exist, or the file for
            initializers would not be in it.
        Fail: the model is too large for one file, or has names that are not UTF-8.
    """
    named = (config or {}).get(SAVE_FORMAT, "")
    if named == "ORT" or (not named and path.lower().endswith(".ort")):
        raise InvalidArgument(f"{path}: ONNX Runtime's own format is not written ({SAVE_FORMAT}=ONNX is)")
    folder = os.path.dirname(os.path.abspath(path))
    if not os.path.isdir(folder):
        raise InvalidArgument(f"the optimized model cannot be written to {path}: there is no folder {folder}")
    weights = sum(int(v.initializer.nbytes) for v in model.graph.initializers if v.initializer is not None)
    if location := (config or {}).get(EXTERNAL_FILE):
        _save_apart(model, path, location, (config or {}).get(EXTERNAL_SIZE, "1024"))
        return
    if weights > _LARGEST:
        raise Fail(
            f"the optimized model has {weights} bytes of weights: too large for {path}, unless "
            f"{EXTERNAL_FILE} puts them into a file of their own"
        )
    write_bytes(path, in_utf8(lambda: model_proto(model)).SerializeToString())


def _save_apart(model: Model, path: str, location: str, smallest: str) -> None:
    folder = os.path.dirname(os.path.abspath(path))
    data = os.path.normpath(os.path.join(folder, location))
    if os.path.isabs(location) or os.path.commonpath([folder, data]) != folder or data == folder:
        raise InvalidArgument(f"{EXTERNAL_FILE}: '{location}' is not in the folder of the model, {folder}")
    if not smallest.isdecimal():
        raise InvalidArgument(f"{EXTERNAL_SIZE} is a number of bytes, not '{smallest}'")
    if is_special(data):
        raise InvalidArgument(f"{EXTERNAL_FILE}: {data} is no file")
    if not os.path.isdir(os.path.dirname(data)):
        raise InvalidArgument(f"{EXTERNAL_FILE}: there is no folder {os.path.dirname(data)}")
    if os.path.realpath(data) == os.path.realpath(path):
        raise InvalidArgument(f"{EXTERNAL_FILE}: the optimized model itself goes to {path}")
    least = max(int(smallest), 1)
    if all(external_size(value) < least for value in model.graph.initializers):
        write_bytes(path, in_utf8(lambda: model_proto(model)).SerializeToString())
        return
    # The arrays may lie in the very file that is written: what is made anew takes its place at the end.
    with ExitStack() as stack:
        weights = stack.enter_context(written(data))

        def place(value: Value) -> onnx.TensorProto:
            if external_size(value) < least:
                return initializer_proto(value)
            return appended(weights, value, location)

        serialized = in_utf8(lambda: model_proto(model, place=place)).SerializeToString()
        with written(path) as file:
            file.write(serialized)
            file.flush()  # a full disk is told here
            stack.close()  # the weights take their place first: the model names them
