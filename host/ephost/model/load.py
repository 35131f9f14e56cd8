"""Stage 1: a file, bytes or a ModelProto becomes a linked :class:`~ephost.model.graph.Model`.

Data in external files is mapped, not read: a model of many gigabytes opens at the cost of the pages that are
touched.
"""

from __future__ import annotations

import functools
import math
import os
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ephost import schema_table
from ephost._bindings import call, dtype_of
from ephost.arguments import file_path
from ephost.errors import Fail, InvalidArgument, InvalidData, InvalidGraph, InvalidProtobuf, NoSuchFile
from ephost.host_log import HostLog
from ephost.message_helpers import PACKED, to_array
from ephost.messages import (
    AttributeProto,
    DecodeError,
    Dimension,
    GraphProto,
    ModelProto,
    NodeProto,
    SparseTensorProto,
    TensorProto,
    TypeProto,
)
from ephost.model.check import check_functions, check_node, plain_counts
from ephost.model.contrib import DOMAIN as CONTRIB_DOMAIN
from ephost.model.contrib import ML_DOMAIN
from ephost.model.data_files import DataFiles, mapped
from ephost.model.graph import (
    NO_VERSION,
    Dim,
    External,
    Graph,
    Metadata,
    Model,
    Node,
    TensorType,
    Value,
    captured_values,
    since_version,
    tensor_type,
    topological_order,
)
from ephost.onnx_library import newest_ir_version, version
from ephost.onnx_schema import newest_opset
from ephost.reading import refuse_special, shown

if TYPE_CHECKING:
    from mmap import mmap

_LOG = HostLog("ephost.load")
Scopes = tuple[dict[str, Value], ...]  # values by name of graphs, the innermost first
_GRAPHS = (AttributeProto.GRAPH, AttributeProto.GRAPHS)
_EXTERNAL = TensorProto.EXTERNAL
_STRING = TensorProto.STRING
_ELEMENT_TYPES = frozenset(TensorProto.DataType.values())
_SMALLEST_MODEL = 1 << 20  # bytes; a file that is smaller is read, and nothing of it stays where it is
_SMALLEST_TENSOR = 1 << 12
_LARGEST_MESSAGE = (1 << 31) - 1
_MAX_RANK = 32  # a tensor's on its way through numpy
_MOST = 1 << 58  # elements of an array, those of its parts without any included
_LAST_OPSET = (1 << 31) - 1  # that onnx can look for
# Of these domains a model need not say which opset it means: onnxruntime has their operators.
_IMPLIED: dict[str, Callable[[], int]] = {
    ML_DOMAIN: lambda: newest_opset(ML_DOMAIN),
    CONTRIB_DOMAIN: lambda: 1,
}
_LONG_DOMAIN = "ai.onnx"  # the other name of the domain ""
_ORT_FORMAT = b"ORTM"  # behind the first four bytes of a model in ONNX Runtime's own format


def load(
    source: Any,
    *,
    external_data_folder: str | None = None,
    free_dimensions: Mapping[str, int] | None = None,
    free_denotations: Mapping[str, int] | None = None,
    initializers: Mapping[str, np.ndarray] | None = None,
    files_in_memory: Mapping[str, np.ndarray] | None = None,
    wanted_format: str = "",
) -> Model:
    """Read and link a model.

    Args:
        source: a path, a serialised model, or a ``ModelProto`` of onnx's.
        external_data_folder: where external data lies; by default the model's own folder, and when the model
            is a link also that of the file it leads to.
        free_dimensions: values for named dimensions of the inputs.
        free_denotations: values for dimensions of the inputs by their denotation.
        initializers: arrays to take in place of the main graph's initializers of these names.
        files_in_memory: bytes to take in place of the files of external data of these names.
        wanted_format: "ORT", or "ONNX" and whatever else, where the model has to be in that format.

    Raises:
        Fail: it is not in ONNX Runtime's format, which it has to be in.
        InvalidArgument: the model is empty or has no graph, or an array that replaces an initializer has
            another type or shape.
        NoSuchFile: the model's file, or a file of external data, does not exist.
        InvalidProtobuf: the file or buffer holds no ONNX model.
        InvalidGraph: a link is broken, a name is defined twice, there is a cycle, or external data is short.
    """
    proto, path, mapped = _parse(source, wanted_format)
    if not proto.HasField("graph"):
        raise InvalidArgument(
            f"{path or 'the buffer'} holds no graph: it is no ONNX model, or it is cut short"
        )
    opsets: dict[str, int] = {}
    for entry in proto.opset_import:
        domain = "" if entry.domain == _LONG_DOMAIN else entry.domain
        opsets[domain] = entry.version
    if proto.ir_version > newest_ir_version(proto.ir_version):
        raise InvalidGraph(
            f"the model is of IR version {proto.ir_version}; the installed onnx {version()} knows up "
            f"to {newest_ir_version(proto.ir_version)}"
        )
    if not opsets and proto.ir_version < 3:
        opsets[""] = 1  # there was nothing to say yet
    for domain, opset in opsets.items():
        if not 1 <= opset <= _LAST_OPSET:
            limit = "they count from 1" if opset < 1 else f"{_LAST_OPSET} is the last that there can be"
            raise InvalidGraph(f"the model uses opset {opset} of {domain or 'ai.onnx'}: {limit}")
    if not proto.graph.output:
        raise InvalidGraph(f"the graph '{proto.graph.name}' of {path or 'the buffer'} has no output")
    if opsets and "" not in opsets:
        opsets[""] = newest_opset()  # models of other domains' operators: onnxruntime takes them
    if not schema_table.has("", opsets.get("", 1)) and opsets.get("", 1) > (known := newest_opset()):
        raise InvalidGraph(
            f"the model uses opset {opsets['']} of ai.onnx; the installed onnx {version()} knows up "
            f"to {known}"
        )
    graph = proto.graph
    model = Model(
        graph=Graph(graph.name, [], [], [], {}),
        opsets=opsets,
        ir_version=proto.ir_version,
        functions={
            ("" if f.domain == _LONG_DOMAIN else f.domain, f.name, f.overload): f for f in proto.functions
        },
        path=path,
        metadata=Metadata(
            producer_name=proto.producer_name,
            producer_version=proto.producer_version,
            graph_name=graph.name,
            domain=proto.domain,
            description=proto.doc_string,
            graph_description=graph.doc_string,
            version=proto.model_version if proto.HasField("model_version") else NO_VERSION,
            custom={entry.key: entry.value for entry in proto.metadata_props},
        ),
        is_mapped=mapped,
    )
    for function in model.functions.values():
        _shorten_domains(function.node)
    if model.functions:
        check_functions(model.functions)
    linker = Linker(model, external_data_folder, initializers, files_in_memory)
    overrides = _dimension_override(free_dimensions or {}, free_denotations or {})
    model.graph = linker.graph(graph, None, (), overrides)
    model.sparse_outputs = frozenset(
        info.name for info in graph.output if info.type.WhichOneof("value") == "sparse_tensor_type"
    )
    return model


def parse(source: Any) -> tuple[ModelProto, str | None]:
    """The message of a path, bytes or a ModelProto, with the absolute path; errors as :func:`load`."""
    proto, path, _ = _parse(source)
    return proto, path


def _parse(source: Any, wanted_format: str = "") -> tuple[ModelProto, str | None, bool]:
    """As :func:`parse`, and whether large initializers lie in the file, mapped."""
    data, path = _read(source)
    is_ort = data[4:8] == _ORT_FORMAT
    if wanted_format == "ORT" and not is_ort:
        raise Fail(
            f"{path or 'the buffer'} is no model in ONNX Runtime's format, as session.load_model_format says "
            "that it is"
        )
    if is_ort and wanted_format in ("", "ORT"):
        from ephost.model import ort_format

        return ort_format.read(data, path or "the buffer"), path, not isinstance(data, bytes)
    # The raw data of large tensors stays where it is.
    smallest_view = _SMALLEST_TENSOR if len(data) >= _SMALLEST_MODEL else 0
    try:
        proto = ModelProto.FromString(data, smallest_view)
    except DecodeError as error:
        raise InvalidProtobuf(
            f"{path or 'the buffer'} is no ONNX model, or it is cut short ({error})"
        ) from None
    return proto, path, not isinstance(data, bytes)


def _read(source: Any) -> tuple[bytes | mmap, str | None]:
    """The bytes of a model, those of a large file mapped; and its absolute path."""
    path: str | None = None
    data: bytes | mmap
    if isinstance(source, (str, os.PathLike)):
        path = os.path.abspath(file_path("the model", source))
        refuse_special(path, "the model")
        try:
            with open(path, "rb", buffering=0) as file:
                large = os.fstat(file.fileno()).st_size >= _SMALLEST_MODEL
                data = mapped(file) if large else file.readall()
        except OSError as error:
            if os.path.isdir(path):
                raise InvalidProtobuf(f"{shown(path)} is a folder, not an ONNX model") from None
            if not os.path.exists(path):
                raise NoSuchFile(f"the model {shown(path)} does not exist") from None
            raise Fail(f"the model {shown(path)} cannot be read: {error}") from error
    elif isinstance(source, (bytes, bytearray, memoryview)):
        data = bytes(source)
    elif is_onnx_model(source):
        data = _serialized(source)
    else:
        raise TypeError(f"a model is a path, bytes or a ModelProto, not {type(source).__name__}")
    if not data:
        raise InvalidArgument(f"{path or 'the buffer'} is empty: it holds no ONNX model")
    return data, path


def _serialized(model: Any) -> bytes:
    """A ``ModelProto`` of onnx's as bytes. protobuf writes no 2 GB: what is larger is written in parts."""
    if model.ByteSize() < _LARGEST_MESSAGE:
        data: bytes = model.SerializeToString()
        return data
    rest, graph = type(model)(), type(model.graph)()
    for target, source, apart in ((rest, model, "graph"), (graph, model.graph, "initializer")):
        for field, value in source.ListFields():
            if field.name == apart:
                continue
            if isinstance(value, (str, int)):
                setattr(target, field.name, value)
            else:
                getattr(target, field.name).MergeFrom(value)
    pieces = [graph.SerializeToString()]
    for tensor in model.graph.initializer:
        content = tensor.SerializeToString()
        pieces += (_head(graph.DESCRIPTOR, "initializer", len(content)), content)
    head = _head(model.DESCRIPTOR, "graph", sum(map(len, pieces)))
    return b"".join((rest.SerializeToString(), head, *pieces))


def _head(message: Any, field: str, length: int) -> bytes:
    """What stands before a message in a message: its field's number, and its length."""
    out = bytearray()
    for number in (message.fields_by_name[field].number << 3 | 2, length):
        while number > 0x7F:
            out.append(number & 0x7F | 0x80)
            number >>= 7
        out.append(number)
    return bytes(out)


def is_onnx_model(source: object) -> bool:
    """Whether it is a ``ModelProto`` of onnx's: there is none before onnx was imported."""
    onnx = sys.modules.get("onnx")
    return onnx is not None and isinstance(source, onnx.ModelProto)


_DimensionOverride = Callable[[Dimension], int | None]


def _dimension_override(
    names: Mapping[str, int], denotations: Mapping[str, int]
) -> _DimensionOverride | None:
    if not names and not denotations:
        return None

    def override(dim: Dimension) -> int | None:
        named = names.get(dim.dim_param)
        denoted = denotations.get(dim.denotation) if dim.denotation else None
        if named is not None and denoted is not None and named != denoted:
            raise InvalidArgument(
                f"the dimension '{dim.dim_param}' is to be {named} by its name, and {denoted} by its "
                f"denotation '{dim.denotation}'"
            )
        return denoted if named is None else named

    return override


def _shorten_domains(nodes: Iterable[NodeProto]) -> None:
    """Name ONNX's own domain in one way, in bodies, too: onnx's inference looks for opsets by it."""
    for node in nodes:
        if node.domain == _LONG_DOMAIN:
            node.domain = ""
        for attribute in node.attribute:
            if attribute.type in _GRAPHS:
                for body in (attribute.g, *attribute.graphs):
                    _shorten_domains(body.node)


def value_type(proto: TypeProto, override: _DimensionOverride | None = None) -> TensorType | TypeProto | None:
    """The type as the pipeline keeps it; None when the proto says nothing."""
    kind = proto.WhichOneof("value")
    if kind is None:
        return None
    if kind != "tensor_type":
        return proto
    tensor = proto.tensor_type
    if not tensor.HasField("shape"):
        return tensor_type(tensor.elem_type, None)
    dims: list[Dim] = []
    for dim in tensor.shape.dim:
        if override is not None and (value := override(dim)) is not None:
            dims.append(value)
            continue
        if dim.HasField("dim_value"):
            dims.append(dim.dim_value if dim.dim_value >= 0 else None)
        else:
            dims.append(dim.dim_param or None)
    return tensor_type(tensor.elem_type, tuple(dims))


def _existing(kind: TensorType | TypeProto | None, name: str, where: str) -> TensorType | TypeProto | None:
    """A type that a model declares; None for one that does not say what it is made of.

    Raises:
        InvalidGraph: it is of elements that there are not.
    """
    if kind is None or (isinstance(kind, TensorType) and kind.element_type in _ELEMENT_TYPES):
        return kind
    found = {kind.element_type} if isinstance(kind, TensorType) else element_types(kind)
    if None in found:
        return None  # a list of nothing that is said: as much as no type
    for unknown in found - _ELEMENT_TYPES:
        raise InvalidGraph(f"{where} has '{name}' of the element type {unknown}: there is none")
    return kind


def element_types(kind: TypeProto) -> set[int | None]:
    """All that a type is made of; None for a part that says nothing."""
    match kind.WhichOneof("value"):
        case "tensor_type":
            return {kind.tensor_type.elem_type}
        case "sparse_tensor_type":
            return {kind.sparse_tensor_type.elem_type}
        case "sequence_type":
            return element_types(kind.sequence_type.elem_type)
        case "optional_type":
            return element_types(kind.optional_type.elem_type)
        case "map_type":
            return {kind.map_type.key_type, *element_types(kind.map_type.value_type)}
        case None:
            return {None}
        case _:
            return set()


@functools.lru_cache(4096)
def listed_type(encoded: bytes) -> TensorType | TypeProto | None:
    """The type of a ``ListedInfo``, as :func:`value_type` has it: one for all who ask, and not to be changed.

    Raises:
        DecodeError: the bytes hold none.
    """
    return value_type(TypeProto.FromString(encoded))


def define(values: dict[str, Value], name: str, where: str) -> Value:
    """A new value of a graph; for a function's body a value that is there and waits for its producer.

    Raises:
        InvalidGraph: the graph has a value of that name already.
    """
    value = values.get(name)
    if value is not None:
        if value.awaits_producer:
            value.awaits_producer = False
            return value
        raise InvalidGraph(f"{where} defines '{name}' twice")
    value = values[name] = Value(name)
    return value


def define_constant(values: dict[str, Value], name: str, where: str, constants: set[str]) -> Value:
    """A value for an initializer or a Constant node: a new one, or an input or constant that is there.

    `constants` are the names of those that the graph has.

    A later constant takes the place of an earlier one. That is against ONNX's rules, but exporters wrote such
    models, and onnxruntime reads them this way.
    """
    if name not in constants:
        constants.add(name)
        return define(values, name, where)
    value = values[name]
    if value.initializer is not None:
        _LOG.warning(
            "%s has several constants '%s'; the last one counts, and nodes come after initializers",
            where,
            name,
        )
    return value


class Linker:
    """Makes graphs of protos: names become links, initializers become arrays."""

    def __init__(
        self,
        model: Model,
        folder: str | None,
        initializers: Mapping[str, np.ndarray] | None = None,
        files: Mapping[str, np.ndarray] | None = None,
    ) -> None:
        self.model = model
        self.folder = folder  # where external data lies; None: beside the model
        self.initializers = initializers or {}
        self.files = {os.path.normpath(name): data for name, data in (files or {}).items()}
        self._operators: dict[str, dict[str, tuple[Any, ...] | None]] = {}  # by domain and name

    def graph(
        self,
        proto: GraphProto,
        parent: Node | None,
        outer: Scopes,
        override: _DimensionOverride | None = None,
    ) -> Graph:
        """The graph of a proto, and those of its nodes' attributes; `parent` is the node that carries it."""
        where = f"the graph '{proto.name}'"
        values: dict[str, Value] = {}

        inputs = []
        for info in proto.input:
            value = define(values, info.name, where)
            value.type = _existing(value_type(info.type, override), info.name, where)
            value.is_input = True
            inputs.append(value)
        constants = set(values)

        def hold(tensor: TensorProto, array: np.ndarray, external: Any) -> None:
            held = define_constant(values, tensor.name, where, constants)
            # Before IR version 4 every initializer had to be listed as an input, which said nothing.
            held.is_constant = not held.is_input or self.model.ir_version < 4
            declared = held.type
            self._set_initializer(held, array, tensor.data_type, external)
            if not held.is_constant and _allows(declared, tensor.data_type, array.ndim):
                held.type = declared  # runs may feed another shape than that of the default

        replaced = self.initializers if parent is None else {}
        for tensor in proto.initializer:
            name = tensor.name
            if not name:
                raise InvalidGraph(f"{where} has an initializer without a name")
            if name in replaced:
                hold(tensor, self._replacement(tensor, tensor.dims), None)
            else:
                hold(tensor, *self.tensor(tensor))
        for sparse in proto.sparse_initializer:
            is_replaced = sparse.values.name in replaced
            dense = self._replacement(sparse.values, sparse.dims) if is_replaced else _dense(sparse)
            hold(sparse.values, dense, None)
        nodes = self.nodes(proto.node, values, outer, where, constants)
        for entry in proto.value_info:
            try:
                # Also of names that are no values: what cannot be read is refused.
                kind = listed_type(entry.type)
            except DecodeError as error:
                raise InvalidProtobuf(
                    f"the type of '{entry.name}' in {where} cannot be read ({error})"
                ) from None
            listed = values.get(entry.name)
            if listed is None:
                continue
            listed.is_listed = True
            if listed.type is None:
                listed.type = _existing(kind, entry.name, where)
        outputs = []
        for info in proto.output:
            output = values.get(info.name)
            if output is None:
                output = next((found for scope in outer if (found := scope.get(info.name))), None)
            if output is None:
                raise InvalidGraph(
                    f"the output '{info.name}' of {where} is made by no node, input or initializer"
                )
            if values.get(info.name) is output:
                output.is_output = True
                declared = _existing(value_type(info.type), info.name, where)
                passed_on = (
                    output.producer is None
                )  # an input or an initializer, which says itself what it is
                output.type = _first_of(*((output.type, declared) if passed_on else (declared, output.type)))
            outputs.append(output)
        return Graph(proto.name, topological_order(nodes), inputs, outputs, values, parent)

    def nodes(
        self,
        protos: list[NodeProto],
        values: dict[str, Value],
        outer: Scopes,
        where: str,
        constants: set[str] | None = None,
    ) -> list[Node]:
        """Nodes for protos, linked to each other, to `values` (which gets their outputs) and to `outer`: the
        values of the graphs around, the next one first.

        `constants` are names of a graph's inputs and initializers.
        """
        constants = set() if constants is None else constants
        model = self.model
        made: list[Node]
        made, carriers = call.make_nodes(
            protos,
            values,
            model.next_index,
            self._operators,
            self._operator,
            lambda proto: self._define_constant(proto, values, where, constants),
            lambda name: define(values, name, where),
            self._check,
        )
        model.next_index += len(made)
        if _LONG_DOMAIN in self._operators:
            _shorten_domains(protos)
        scopes = (values, *outer)
        if (missing := call.link_inputs(made, scopes)) is not None:
            node, name = missing
            raise InvalidGraph(
                f"node {node.label} of {where} reads '{name}', "
                "which is no input, no initializer and no node's output"
            )
        if model.custom_ops is not None:
            model.custom_ops.attach(model, made)
        for node in carriers:
            for attribute in node.message.attribute:
                if attribute.type in _GRAPHS:
                    self._subgraphs(node, attribute, scopes)
                elif attribute.type == AttributeProto.TENSOR and isinstance(
                    raw := attribute.t.raw_data, memoryview
                ):
                    attribute.t.raw_data = bytes(raw)  # it may be read as long as there is the node
            for value in node.implicit_inputs:
                if not outer or values.get(value.name) is value:
                    value.note_reader(node)
        return made

    def _check(self, node: Node) -> None:
        model = self.model
        if not check_node(node, model.opsets.get(node.domain), model.functions):
            model.unknown.append(node)

    def _operator(self, domain: str, op_type: str) -> tuple[Any, ...] | None:
        """What ``call.make_nodes`` asks of an operator, by its domain and name in messages."""
        own = "" if domain == _LONG_DOMAIN else domain
        row: tuple[Any, ...] | None = None
        if own or op_type != "Constant":
            opset = self._opset(own)
            version = since_version(op_type, own, 1 if opset is None else opset)
            row = own, version, *plain_counts(op_type, own, opset)
        self._operators.setdefault(domain, {})[op_type] = row
        return row

    def _opset(self, domain: str) -> int | None:
        """The opset of a domain; None if nobody says it."""
        opsets = self.model.opsets
        if domain not in opsets and domain in _IMPLIED:
            opsets[domain] = _IMPLIED[domain]()
        return opsets.get(domain)

    def _define_constant(
        self, proto: NodeProto, values: dict[str, Value], where: str, constants: set[str]
    ) -> None:
        if len(proto.output) != 1 or not proto.output[0]:
            raise InvalidGraph(f"the Constant node '{proto.name}' of {where} has not one output")
        constant = define_constant(values, proto.output[0], where, constants)
        self._set_initializer(constant, *self._constant(proto))
        constant.is_constant = not constant.is_input

    def _subgraphs(self, node: Node, attribute: AttributeProto, scopes: Scopes) -> None:
        protos: Iterable[GraphProto] = (
            [attribute.g] if attribute.type == AttributeProto.GRAPH else attribute.graphs
        )
        for proto in protos:
            graph = self.graph(proto, node, scopes)
            node.subgraphs[attribute.name] = graph
            # In the order in which they are first read; a value is equal to itself alone.
            node.implicit_inputs = list(dict.fromkeys([*node.implicit_inputs, *captured_values(graph)]))

    def _set_initializer(
        self, value: Value, array: np.ndarray, element_type: int, external: External | None
    ) -> None:
        value.initializer = array
        value.external = external
        kind = value.type
        if not isinstance(kind, TensorType) or kind.static_dims != array.shape:
            value.type = tensor_type(element_type, array.shape)

    def _constant(self, proto: NodeProto) -> tuple[np.ndarray, int, External | None]:
        what = f"the constant '{proto.output[0]}'"
        for attribute in proto.attribute:
            if attribute.type == AttributeProto.SPARSE_TENSOR:
                return _dense(attribute.sparse_tensor, what), attribute.sparse_tensor.values.data_type, None
            if attribute.name == "value":
                array, external = self.tensor(attribute.t, what)
                return array, attribute.t.data_type, external
            if attribute.name == "value_float":
                return np.asarray(attribute.f, dtype=np.float32), TensorProto.FLOAT, None
            if attribute.name == "value_floats":
                return np.asarray(attribute.floats, dtype=np.float32), TensorProto.FLOAT, None
            if attribute.name == "value_int":
                return np.asarray(attribute.i, dtype=np.int64), TensorProto.INT64, None
            if attribute.name == "value_ints":
                return np.asarray(attribute.ints, dtype=np.int64), TensorProto.INT64, None
            if attribute.name == "value_string":
                return np.asarray(_text(attribute.s), dtype=object), _STRING, None
            if attribute.name == "value_strings":
                return np.asarray([_text(s) for s in attribute.strings], dtype=object), _STRING, None
        raise InvalidGraph(f"{what} has no value")

    def tensor(self, proto: TensorProto, what: str = "") -> tuple[np.ndarray, External | None]:
        """The data of an initializer, or of `what`: a view of its raw bytes, or of the mapped file."""
        what = what or f"the initializer '{proto.name}'"
        shape = tuple(proto.dims)
        if min(shape, default=0) < 0:
            raise InvalidGraph(f"{what} has a negative dimension: {list(shape)}")
        if len(shape) > _MAX_RANK:
            raise InvalidGraph(f"{what} has {len(shape)} dimensions: the highest rank is {_MAX_RANK}")
        if 0 in shape and math.prod(dim or 1 for dim in shape) >= _MOST:
            raise InvalidGraph(f"{what} is of shape {list(shape)}, which no array can have")
        if proto.data_location == _EXTERNAL:
            return self._external(proto, shape, what)
        if proto.HasField("raw_data") and proto.data_type not in PACKED and proto.data_type != _STRING:
            dtype = dtype_of(proto.data_type)
            if dtype is None:
                raise InvalidGraph(f"{what} has the unknown element type {proto.data_type}")
            raw = proto.raw_data
            expected = math.prod(shape) * dtype.itemsize
            if len(raw) != expected:
                raise InvalidGraph(
                    f"{what} of shape {list(shape)} has {len(raw)} bytes instead of {expected}"
                )
            external = None
            if self.model.is_mapped and isinstance(raw, memoryview):
                external = External(self.model.path or "", proto.place, expected, in_model=True)
            return np.ndarray(shape, dtype, raw), external
        try:
            return to_array(proto).reshape(shape), None
        except (ValueError, TypeError, KeyError, IndexError) as error:
            raise InvalidGraph(f"{what} cannot be read: {error}") from error

    def _replacement(self, proto: TensorProto, dims: Sequence[int]) -> np.ndarray:
        array = self.initializers[proto.name]
        dtype = np.dtype(object) if proto.data_type == _STRING else dtype_of(proto.data_type)
        if array.dtype != dtype or array.shape != tuple(dims):
            raise InvalidArgument(
                f"the initializer '{proto.name}' is {dtype} of shape {list(dims)}; what was given for it is "
                f"{array.dtype} of shape {list(array.shape)}"
            )
        return array

    def _external(
        self, proto: TensorProto, shape: tuple[int, ...], what: str
    ) -> tuple[np.ndarray, External | None]:
        info = {entry.key: entry.value for entry in proto.external_data}
        location = info.get("location", "")
        what = f"the external data of {what}"
        memory = self.files.get(os.path.normpath(location)) if location else None
        if "\0" in location and memory is None:
            raise InvalidData(f"{what} is in {location!r}, which is no path")
        if not location:
            raise InvalidData(f"{what} names no file")
        path = f"{location} (in memory)" if memory is not None else self._data.path(location, what)
        if not all(_is_number(info[key]) for key in ("offset", "length") if key in info):
            raise InvalidData(f"{what} has an offset or length that is no number")
        offset = int(info.get("offset", "0"))
        length = int(info["length"]) if "length" in info else None
        dtype = dtype_of(proto.data_type)
        if dtype is None:
            raise InvalidData(f"{what}: element type {proto.data_type} cannot be external")
        count = math.prod(shape)
        bits = PACKED.get(proto.data_type, dtype.itemsize * 8)
        expected = (count * bits + 7) // 8
        content = self._data.content(path) if memory is None else memory
        size = content.size
        if offset < 0 or offset + expected > size or (length is not None and length < expected):
            raise InvalidData(
                f"{what} needs {expected} bytes at offset {offset} of {path}, which has {size}"
                + (f" (its length is given as {length})" if length is not None else "")
            )
        if length is not None and length != expected:
            raise InvalidData(f"{what} is given as {length} bytes; its type and shape need {expected}")
        block = content[offset : offset + expected]
        external = None
        if memory is None:
            external = External(path, offset, expected, file_id=self._data.file_id(path))
        if proto.data_type in PACKED:
            raw = TensorProto(dims=list(shape), data_type=proto.data_type, raw_data=block.tobytes())
            return to_array(raw), external
        return block.view(dtype).reshape(shape), external

    @functools.cached_property
    def _data(self) -> DataFiles:
        """Where external data may lie."""
        path = self.model.path
        if self.folder or not path:
            return DataFiles([self.folder or os.getcwd()])
        # A cache of downloads has the model as a link, to a folder where its data is too.
        return DataFiles([os.path.dirname(path), os.path.dirname(os.path.realpath(path))])


def _text(content: bytes) -> str:
    """Text of a tensor; what is no UTF-8 is carried as it is in inputs."""
    return content.decode("utf-8", "surrogateescape")


def _is_number(text: str) -> bool:
    """Whether it is one as onnxruntime reads them: no blanks, no underscores, no digits but ASCII's."""
    return text.removeprefix("-").isdecimal() and text.isascii() and len(text) < 20


def _first_of(
    declared: TensorType | TypeProto | None, listed: TensorType | TypeProto | None
) -> TensorType | TypeProto | None:
    """A graph's output is as it is declared there; what that leaves open may be listed with other values."""
    if not isinstance(declared, TensorType) or not isinstance(listed, TensorType):
        return declared or listed
    if declared.dims is None:
        return tensor_type(declared.element_type, listed.dims)
    if listed.dims is None or len(listed.dims) != len(declared.dims):
        return declared
    dims = [other if dim is None else dim for dim, other in zip(declared.dims, listed.dims, strict=True)]
    return tensor_type(declared.element_type, tuple(dims))


def _allows(declared: TensorType | TypeProto | None, element_type: int, rank: int) -> bool:
    """Whether an input's declaration says no less than its default does, but for the sizes."""
    return (
        isinstance(declared, TensorType)
        and declared.element_type == element_type
        and declared.dims is not None
        and len(declared.dims) == rank
    )


def _dense(sparse: SparseTensorProto, what: str = "") -> np.ndarray:
    what = what or f"the sparse initializer '{sparse.values.name}'"
    shape = tuple(sparse.dims)
    try:
        values, indices = to_array(sparse.values), to_array(sparse.indices)
        dense = np.zeros(shape, dtype=values.dtype)
        if dense.dtype == object:
            dense[...] = ""
        # numpy counts a negative index from the end.
        if (indices < 0).any():
            raise IndexError(f"it has {indices.min()}")
        if indices.ndim == 1:
            dense.reshape(-1)[indices] = values
        else:
            dense[tuple(indices.T)] = values
    except IndexError as error:
        raise InvalidGraph(f"{what} has an index out of range: {error}") from error
    except KeyError as error:
        raise InvalidGraph(f"{what} is of the element type {error}: there is none") from error
    except (TypeError, ValueError) as error:
        raise InvalidGraph(f"{what} of shape {list(shape)} cannot be read: {error}") from error
    except MemoryError as error:
        raise Fail(f"no memory for {what} of shape {list(shape)}") from error
    return dense
