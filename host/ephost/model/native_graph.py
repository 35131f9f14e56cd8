"""A graph of the pipeline as the ``OrtGraph`` that plugins read.

Built anew for each EP that is asked, since what earlier EPs claimed is fused by then. It must outlive every
call into a plugin that got it.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterable, Sequence
from functools import cache, lru_cache
from itertools import chain
from typing import Any

import numpy as np

from ephost._bindings import (
    NULL,
    abi_element_type,
    address,
    api,
    call,
    check,
    ffi,
    lib,
    packed,
    path_text,
    text,
)
from ephost.errors import EPFail, InvalidGraph, NotImplemented
from ephost.message_helpers import from_array, make_attribute, to_array
from ephost.messages import AttributeProto, NodeProto, TypeProto
from ephost.model.graph import Graph, Model, Node, TensorType, Value, captured_values, schema_of, told
from ephost.onnx_schema import default_of
from ephost.providers import DEFAULT_PROVIDER
from ephost.records import Record

_editor = lib.ephost_model_editor_api

# The operator that stands for what a plugin has compiled. It is no part of ONNX; its attributes are those of
# the format that ONNX Runtime and its plugins agreed on.
CONTEXT_OP_TYPE, CONTEXT_DOMAIN = "EPContext", "com.microsoft"
CONTEXT_DEFAULTS = tuple(
    make_attribute(name, value) for name, value in (("main_context", 1), ("embed_mode", 1), ("max_size", 0))
)
_CONTEXT_TEXTS = (
    b"ep_cache_context",
    b"ep_sdk_version",
    b"hardware_architecture",
    b"notes",
    b"onnx_model_filename",
    b"partition_name",
    b"source",
)


class Constants:
    """The native values of a session's initializers, made when first asked for, sharing numpy's memory.

    What the model's own file holds is mapped as it is loaded. Whoever reads it after that gets a copy, since
    the file may be written to or cut short while the session is open; onnxruntime reads the whole file.
    External data stays mapped, as there.
    """

    def __init__(self, *, all_in_memory: bool = False) -> None:
        """Make none yet. ``all_in_memory``: none lies in the model's file, whatever the values say."""
        self._all_in_memory = all_in_memory
        self._values: dict[int, tuple[Value, Any]] = {}
        self._in_file: dict[int, tuple[Value, Any]] = {}

    def get(self, value: Value, *, in_file: bool = False) -> Any:
        """The ``OrtValue*`` of an initializer; owned by this object.

        Args:
            value: with an initializer.
            in_file: it is copied at once, and so may lie in the model's file.
        """
        held = self._values.get(id(value))
        if held is None and in_file and self._is_in_model(value):
            held = self._in_file.get(id(value))
            if held is None:
                held = self._in_file[id(value)] = (value, self._made(value))
        elif held is None:
            if self._is_in_model(value):
                assert value.initializer is not None
                value.initializer = value.initializer.copy()
            held = self._values[id(value)] = (value, self._made(value))
        return held[1]

    def _is_in_model(self, value: Value) -> bool:
        """Whether an initializer still lies in the model's file, mapped."""
        array, external = value.initializer, value.external
        if external is None or not external.in_model or self._all_in_memory:
            return False
        return array is not None and not array.flags.owndata

    @staticmethod
    def _made(value: Value) -> Any:
        assert value.initializer is not None
        pointer = ffi.cast("OrtValue*", call.value_from_object(value.initializer))
        if not value.initializer.dtype.hasobject:
            lib.ephost_value_align_later(pointer, value.external is not None)
        return pointer

    def share(self, value: Value) -> Any:
        """A second ``OrtValue*`` over the same memory, for an owner of its own."""
        out = ffi.new("OrtValue**")
        check(lib.ephost_value_share(self.get(value), out))
        return out[0]

    def forget(self, value: Value) -> None:
        """Release the value of an initializer that nobody needs any more."""
        for values in (self._values, self._in_file):
            if (held := values.pop(id(value), None)) is not None:
                api.ReleaseValue(held[1])

    def release(self) -> None:
        """Release every value."""
        for values in (self._values, self._in_file):
            for _, pointer in values.values():
                api.ReleaseValue(pointer)
            values.clear()


class View(Record, frozen=True):
    """A group of nodes that is shown as a graph of its own, for Compile."""

    name: str
    nodes: Sequence[Node]
    inputs: Sequence[Value]
    outputs: Sequence[Value]


class NativeValues:
    """The ``OrtValueInfo*`` of a graph's values."""

    def __init__(self, values: list[Value], infos: Any) -> None:
        self.all = values
        self.infos = infos  # OrtValueInfo*[], in that order
        self.index = dict(zip(values, range(len(values)), strict=True))

    def __getitem__(self, value: Value) -> Any:
        return self.infos[self.index[value]]


class NativeGraph:
    """An ``OrtGraph``, its subgraphs included, with the way back from its nodes to ours."""

    def __init__(
        self, model: Model, graph: Graph, constants: Constants, *, reads_files: bool = False
    ) -> None:
        """Build it.

        Args:
            model: what the graph belongs to.
            graph: the graph.
            constants: the values of its initializers.
            reads_files: the EP would rather read large constants from the model's file: they are shown to it
                as external data there.
        """
        self.model = model
        self.graph = graph
        self.reads_files = reads_files
        self.nodes: dict[int, Node] = {}
        self.node_pointers: dict[int, Any] = {}
        self.graphs: dict[int, tuple[Any, NativeValues]] = {}  # id of a Graph -> its OrtGraph*, its values
        self._views: list[Any] = []
        self.shown: dict[int, tuple[Graph, View | None]] = {}  # by the address of an OrtGraph
        self.pointer = _root(model, graph)
        try:
            _Builder(model, constants, self).fill(self.pointer, graph)
        except BaseException:
            self.release()
            raise
        _living.add(self)

    def view(
        self,
        graph: Graph,
        name: str,
        nodes: Iterable[Node],
        inputs: Iterable[Value],
        outputs: Iterable[Value],
    ) -> Any:
        """The ``OrtGraph`` of a group of nodes of the graph or of one of its subgraphs, for Compile."""
        pointer, values = self.graphs[id(graph)]
        view = View(name, list(nodes), list(inputs), list(outputs))
        node_list = [self.node_pointers[node.index] for node in view.nodes]
        input_list = [values[value] for value in view.inputs]
        output_list = [values[value] for value in view.outputs]
        out = ffi.new("OrtGraph**")
        check(
            lib.ephost_graph_view(
                pointer,
                name.encode("utf-8", "surrogateescape"),
                node_list,
                len(node_list),
                input_list,
                len(input_list),
                output_list,
                len(output_list),
                out,
            )
        )
        self._views.append(out[0])
        self.shown[address(out[0])] = (graph, view)
        return out[0]

    def release_views(self) -> None:
        """Free the views; a plugin may use one only while the call lasts that got it."""
        for view in reversed(self._views):
            self.shown.pop(address(view), None)
            lib.ephost_graph_free(view)
        self._views.clear()

    def forget(self, value: Value) -> None:
        """Take the data of an initializer from it, which is about to go."""
        for _, values in self.graphs.values():
            if value in values.index:
                lib.ephost_value_set_initializer(values[value], NULL, False, value.is_constant)

    def release(self) -> None:
        """Free the graph and its views."""
        self.release_views()
        _living.discard(self)
        if self.pointer:
            lib.ephost_graph_free(self.pointer)
            self.pointer = NULL


_living: weakref.WeakSet[NativeGraph] = weakref.WeakSet()


def shown_graph(pointer: Any) -> tuple[NativeGraph, Graph, View | None]:
    """What an ``OrtGraph*`` that a plugin was given shows: a graph, or of that a group of nodes."""
    key = address(pointer)
    for native in list(_living):
        if (found := native.shown.get(key)) is not None:
            return native, *found
    raise EPFail("a graph that the host has not shown")


def shown_node(pointer: Any) -> tuple[NativeGraph, Graph, Node]:
    """The node that an ``OrtNode*`` of a shown graph is, with that and the graph or body that has it."""
    out, index = ffi.new("OrtGraph**"), ffi.new("size_t*")
    check(api.Node_GetGraph(pointer, out))
    check(api.Node_GetId(pointer, index))
    native, graph, _ = shown_graph(out[0])
    return native, graph, native.nodes[int(index[0])]


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")


def _no_memory(done: Any) -> Any:
    if not done:
        raise MemoryError("no memory for the graph that plugins read")
    return done


def _root(model: Model, graph: Graph) -> Any:
    pointer = _no_memory(
        lib.ephost_graph_new(_bytes(graph.name), model.ir_version, path_text(model.path or ""))
    )
    for domain, version in model.opsets.items():
        _no_memory(lib.ephost_graph_add_opset(pointer, _bytes(domain), version))
    about = model.metadata
    _no_memory(
        lib.ephost_graph_set_metadata(
            pointer,
            _bytes(about.producer_name),
            _bytes(about.graph_name),
            _bytes(about.domain),
            _bytes(about.description),
            _bytes(about.graph_description),
            about.version,
        )
    )
    texts = packed(list(chain.from_iterable(about.custom.items())))
    _no_memory(lib.ephost_graph_add_metadata(pointer, texts, len(about.custom)))
    return pointer


class _Builder:
    def __init__(self, model: Model, constants: Constants, into: NativeGraph) -> None:
        self.model = model
        self.constants = constants
        self.into = into
        self.types: dict[int, tuple[Any, ...]] = {}  # by the id of a TensorType: EphostTensorType*, its parts

    def fill(self, pointer: Any, graph: Graph, *, is_body: bool = False) -> None:
        """Add everything of `graph`; for a subgraph also the values that it reads from outside."""
        own, captured = list(graph.values.values()), captured_values(graph) if is_body else []
        values = self.values(pointer, [*own, *captured])
        for value in captured:
            lib.ephost_value_set_outer_scope(values[value])
        for value in values.all:
            if value.initializer is not None:
                self.initializer(values[value], value)
        self.into.graphs[id(graph)] = (pointer, values)
        self.into.shown[address(pointer)] = (graph, None)
        for value in graph.inputs:
            _no_memory(lib.ephost_graph_add_input(pointer, values[value]))
        for value in graph.outputs:
            _no_memory(lib.ephost_graph_add_output(pointer, values[value]))
        self.add_nodes(pointer, depth_first_order(graph.nodes), values)
        check(lib.ephost_graph_finish(pointer))

    def values(self, graph: Any, values: list[Value]) -> NativeValues:
        types = []
        infos = ffi.new("OrtValueInfo*[]", len(values))
        for at, value in enumerate(values):
            kind = value.type
            made = self.types.get(id(kind))
            if made is None:
                if not isinstance(kind, TensorType):
                    types.append(NULL)
                    own_type = NULL if kind is None else type_info(kind)
                    infos[at] = _no_memory(lib.ephost_graph_add_value(graph, _bytes(value.name), own_type))
                    continue
                made = self.types[id(kind)] = native_tensor_type(kind)
            types.append(made[0])
        names = packed([value.name for value in values])
        _no_memory(lib.ephost_graph_add_tensors(graph, names, types, len(types), infos))
        return NativeValues(values, infos)

    def initializer(self, info: Any, value: Value) -> None:
        data = self.constants.get(value, in_file=self.into.reads_files)
        _no_memory(lib.ephost_value_set_initializer(info, data, False, value.is_constant))
        external = value.external
        if external is not None and (self.into.reads_files or not external.in_model):
            _no_memory(
                lib.ephost_value_set_external(
                    info, path_text(external.path), external.offset, external.nbytes
                )
            )

    def add_nodes(self, graph: Any, nodes: list[Node], values: NativeValues) -> None:
        pointers = ffi.new("OrtNode*[]", len(nodes))
        infos, out = address(values.infos), address(pointers)
        schemas = call.graph_add_nodes(
            address(graph), nodes, values.index, infos, self.schema_of, DEFAULT_PROVIDER, out
        )
        indices = [node.index for node in nodes]
        self.into.nodes.update(zip(indices, nodes, strict=True))
        self.into.node_pointers.update(zip(indices, pointers, strict=True))
        for node, pointer in zip(nodes, pointers, strict=True):
            for value in node.implicit_inputs:
                _no_memory(lib.ephost_node_add_implicit_input(pointer, values[value]))
        call.graph_add_attributes(nodes, schemas, out, self.attribute)

    def schema_of(self, node: Node, inputs: int, outputs: int) -> _NodeSchema:
        """The schema of a node with so many inputs and outputs."""
        if node.custom is None:
            domain = node.domain
            return _node_schema(node.op_type, domain, self.model.opsets.get(domain, 1), inputs, outputs)
        return _custom_schema(
            tuple(formal.name for formal in node.custom.formals(True, inputs)),
            tuple(formal.name for formal in node.custom.formals(False, outputs)),
        )

    def attribute(self, owner: Node, proto: AttributeProto, pointer: int) -> None:
        """Add an attribute that is neither a number nor text, nor a list of these, to an ``OrtNode``."""
        kinds = AttributeProto
        name, node = _bytes(proto.name), ffi.cast("OrtNode*", pointer)
        if proto.type == kinds.TENSOR:
            array = to_array(proto.t)
            value = ffi.cast("OrtValue*", call.value_from_object(array))
            done = lib.ephost_node_add_tensor(node, name, value)
            if not done:
                api.ReleaseValue(value)
        elif proto.type == kinds.GRAPH:
            body = owner.subgraphs[proto.name]
            subgraph = _no_memory(
                lib.ephost_graph_new(_bytes(body.name), self.model.ir_version, path_text(""))
            )
            lib.ephost_graph_set_parent(subgraph, node)
            try:
                self.fill(subgraph, body, is_body=True)
            except BaseException:
                lib.ephost_graph_free(subgraph)
                raise
            done = lib.ephost_node_add_graph(node, name, subgraph)
        else:
            # Type protos, sparse tensors and lists of tensors have no place in the ABI: plugins do without.
            return
        _no_memory(done)


def read_node(node: Any) -> NodeProto:
    """A node that a plugin has made with the model editor API, as ONNX writes it.

    Args:
        node: ``OrtNode*``; it stays the caller's.

    Raises:
        EPFail: it has an attribute that is no number, text or tensor, or lists of these.
    """
    proto = NodeProto(
        name=text(lib.ephost_node_name(node)),
        op_type=text(lib.ephost_node_op_type(node)),
        domain=text(lib.ephost_node_domain(node)),
        input=[text(lib.ephost_node_input_name(node, i)) for i in range(lib.ephost_node_input_count(node))],
        output=[
            text(lib.ephost_node_output_name(node, i)) for i in range(lib.ephost_node_output_count(node))
        ],
    )
    for at in range(lib.ephost_node_attribute_count(node)):
        proto.attribute.append(read_attribute(lib.ephost_node_attribute(node, at)))
    return proto


def new_node(proto: NodeProto) -> Any:
    """A new ``OrtNode*`` as a plugin makes one; it is the caller's to release, or to hand on.

    Raises:
        NotImplemented: it has an attribute that is no number or text, or list of numbers.
    """
    made = ffi.new("OrtOpAttr*[]", max(len(proto.attribute), 1))
    out = ffi.new("OrtNode**")
    try:
        for at, attribute in enumerate(proto.attribute):
            kind, data, count = _attribute_data(attribute)
            check(api.CreateOpAttr(_bytes(attribute.name), data, count, kind, made + at))
        inputs, outputs = (
            _strings([_bytes(name) for name in proto.input]),
            _strings([_bytes(name) for name in proto.output]),
        )
        check(
            _editor.CreateNode(
                _bytes(proto.op_type),
                _bytes(proto.domain),
                _bytes(proto.name),
                inputs[0],
                len(proto.input),
                outputs[0],
                len(proto.output),
                made,
                len(proto.attribute),
                out,
            )
        )
    finally:
        for attribute in made:
            if attribute:
                api.ReleaseOpAttr(attribute)
    return out[0]


def _attribute_data(attribute: AttributeProto) -> tuple[int, Any, int]:
    """The kind of an attribute for the ABI, its data, and how many elements that has."""
    kinds = AttributeProto
    if attribute.type == kinds.INT:
        return lib.ORT_OP_ATTR_INT, ffi.new("int64_t*", attribute.i), 1
    if attribute.type == kinds.FLOAT:
        return lib.ORT_OP_ATTR_FLOAT, ffi.new("float*", attribute.f), 1
    if attribute.type == kinds.STRING:
        return lib.ORT_OP_ATTR_STRING, ffi.from_buffer(attribute.s) if attribute.s else b"", len(attribute.s)
    if attribute.type == kinds.INTS:
        return lib.ORT_OP_ATTR_INTS, ffi.new("int64_t[]", list(attribute.ints)), len(attribute.ints)
    if attribute.type == kinds.FLOATS:
        return lib.ORT_OP_ATTR_FLOATS, ffi.new("float[]", list(attribute.floats)), len(attribute.floats)
    raise NotImplemented(f"the attribute '{attribute.name}' of type {attribute.type} in a node of a plugin's")


def read_attribute(attribute: Any) -> AttributeProto:
    """The attribute of an ``OrtOpAttr*``; errors as :func:`read_node`."""
    into = AttributeProto()
    into.name = text(lib.ephost_attribute_name(attribute))
    count = int(lib.ephost_attribute_count(attribute))
    kind = int(lib.ephost_attribute_type(attribute))
    if kind in (lib.ORT_OP_ATTR_INT, lib.ORT_OP_ATTR_INTS):
        integers = list(ffi.unpack(lib.ephost_attribute_ints(attribute), count)) if count else []
        if kind == lib.ORT_OP_ATTR_INTS:
            into.type = AttributeProto.INTS
            into.ints = integers
        else:
            into.type, into.i = AttributeProto.INT, integers[0]
    elif kind in (lib.ORT_OP_ATTR_FLOAT, lib.ORT_OP_ATTR_FLOATS):
        floats = list(ffi.unpack(lib.ephost_attribute_floats(attribute), count)) if count else []
        if kind == lib.ORT_OP_ATTR_FLOATS:
            into.type = AttributeProto.FLOATS
            into.floats = floats
        else:
            into.type, into.f = AttributeProto.FLOAT, floats[0]
    elif kind in (lib.ORT_OP_ATTR_STRING, lib.ORT_OP_ATTR_STRINGS):
        length = ffi.new("size_t*")
        texts = []
        for index in range(count):
            content = lib.ephost_attribute_string(attribute, index, length)
            texts.append(bytes(ffi.buffer(content, length[0])))
        if kind == lib.ORT_OP_ATTR_STRINGS:
            into.type = AttributeProto.STRINGS
            into.strings = texts
        else:
            into.type, into.s = AttributeProto.STRING, texts[0]
    elif kind == lib.ORT_OP_ATTR_TENSOR:
        shared = ffi.new("OrtValue**")
        check(lib.ephost_value_share(lib.ephost_attribute_tensor(attribute), shared))
        try:
            array = call.value_to_object(address(shared[0]))
            into.type = AttributeProto.TENSOR
            into.t = from_array(np.asarray(array))
        finally:
            api.ReleaseValue(shared[0])
    else:
        raise EPFail(f"the attribute '{into.name}' is of type {kind}, which no node of a model file has here")
    return into


def depth_first_order(nodes: list[Node]) -> list[Node]:
    """The topological order in which plugins see nodes: what a node depends on comes right before it.

    EPs that grow groups from neighbours in the list come out with the groups that they find in onnxruntime,
    which walks the graph the same way: from the last node that nobody reads, up its inputs, the newest
    producer first.
    """
    ordered: list[Node] = call.depth_first_order(nodes)
    return ordered


def type_info(proto: TypeProto) -> Any:
    """A new ``OrtTypeInfo*`` for a type that is no plain tensor; the caller owns it.

    Raises:
        InvalidGraph: the type is not one of ONNX's.
    """
    kind = proto.WhichOneof("value")
    out = ffi.new("OrtTypeInfo**")
    if kind == "tensor_type":
        tensor = proto.tensor_type
        dims = [d.dim_value if d.HasField("dim_value") else -1 for d in tensor.shape.dim]
        has_shape = tensor.HasField("shape")
        element_type = abi_element_type(tensor.elem_type)
        check(lib.ephost_type_tensor(element_type, has_shape, dims, NULL, len(dims), out))
        return out[0]
    if kind == "sparse_tensor_type":
        info = ffi.new("OrtTensorTypeAndShapeInfo**")
        check(api.CreateTensorTypeAndShapeInfo(info))
        try:
            check(api.SetTensorElementType(info[0], abi_element_type(proto.sparse_tensor_type.elem_type)))
            check(_editor.CreateSparseTensorTypeInfo(info[0], out))
        finally:
            api.ReleaseTensorTypeAndShapeInfo(info[0])
        return out[0]
    if kind == "map_type":
        inner = type_info(proto.map_type.value_type)
        try:
            check(_editor.CreateMapTypeInfo(abi_element_type(proto.map_type.key_type), inner, out))
        finally:
            api.ReleaseTypeInfo(inner)
        return out[0]
    if kind in ("sequence_type", "optional_type"):
        part = proto.sequence_type if kind == "sequence_type" else proto.optional_type
        create = _editor.CreateSequenceTypeInfo if kind == "sequence_type" else _editor.CreateOptionalTypeInfo
        inner = type_info(part.elem_type)
        try:
            check(create(inner, out))
        finally:
            api.ReleaseTypeInfo(inner)
        return out[0]
    raise InvalidGraph(f"the type {kind!r} is not one that plugins know")


def _formals(formals: Sequence[Any], count: int) -> tuple[list[bytes], list[bytes]]:
    params, names = [], []
    for index in range(count):
        if not formals:
            params.append(b"")
            names.append(b"")
            continue
        formal = formals[min(index, len(formals) - 1)]
        params.append(formal.type_str.encode())
        names.append(formal.name.encode())
    return params, names


class _NodeSchema(Record, frozen=True):
    """What plugins are told of an operator's schema."""

    address: int  # of an EphostSchema; 0 where onnx knows no such operator
    parts: tuple[Any, ...]  # that, and what it points to
    defaults: tuple[AttributeProto, ...]  # attributes with a default: plugins see them, as in onnxruntime


@cache
def _node_schema(op_type: str, domain: str, opset: int, inputs: int, outputs: int) -> _NodeSchema:
    """The schema of an operator for nodes of so many inputs and outputs; it lives as long as the process."""
    schema = schema_of(op_type, domain, opset)
    if schema is not None:
        formals = (*_formals(schema.inputs, inputs), *_formals(schema.outputs, outputs))
        names = [name.encode() for name in schema.attributes]
        found = map(default_of, schema.attributes.values())
        defaults = tuple(default for default in found if default is not None)
    elif (op_type, domain) == (CONTEXT_OP_TYPE, CONTEXT_DOMAIN):
        formals = ([b"T"] * inputs, [b"inputs"] * inputs, [b"T"] * outputs, [b"outputs"] * outputs)
        names = [*_CONTEXT_TEXTS, *(default.name.encode() for default in CONTEXT_DEFAULTS)]
        defaults = CONTEXT_DEFAULTS
    else:
        return _NodeSchema(0, (), ())
    parts = [_strings(texts) for texts in (*formals, names)]
    pointer = ffi.new("EphostSchema*", (*(array for array, _ in parts), len(names)))
    return _NodeSchema(address(pointer), (pointer, *parts), defaults)


@cache
def _custom_schema(inputs: tuple[str, ...], outputs: tuple[str, ...]) -> _NodeSchema:
    """That of a custom operator: its type parameters are called as its inputs and outputs."""
    named = [name.encode() for name in inputs], [name.encode() for name in outputs]
    parts = [_strings(texts) for texts in (named[0], named[0], named[1], named[1], [])]
    pointer = ffi.new("EphostSchema*", (*(array for array, _ in parts), 0))
    return _NodeSchema(address(pointer), (pointer, *parts), ())


def _strings(texts: Sequence[bytes]) -> tuple[Any, list[Any]]:
    """A ``char*[]``, and the strings that it points to."""
    strings = [ffi.new("char[]", content) for content in texts]
    return ffi.new("char*[]", strings or [NULL]), strings


@lru_cache(8192)
def native_tensor_type(kind: TensorType) -> tuple[Any, ...]:
    """An ``EphostTensorType*``, and what it points to."""
    element_type = abi_element_type(kind.element_type)
    if kind.dims is None:
        return (ffi.new("EphostTensorType*", (element_type, -1, NULL, NULL)),)
    dims = ffi.new("int64_t[]", [d if isinstance(d, int) else -1 for d in kind.dims])
    symbols: tuple[Any, Any] = (NULL, None)
    names = told(kind.dims)
    if any(isinstance(d, str) for d in names):
        symbols = _strings([_bytes(d) if isinstance(d, str) else b"" for d in names])
    return (ffi.new("EphostTensorType*", (element_type, len(kind.dims), dims, symbols[0])), dims, symbols)
