"""A graph of the pipeline as the ``OrtGraph`` that plugins read.

Built anew for each EP that is asked, since what earlier EPs claimed is fused by then. It must outlive every
call into a plugin that got it.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterable, Sequence
from functools import cache
from itertools import chain
from typing import Any

import numpy as np

from ephost._bindings import (
    NULL,
    abi_element_type,
    address,
    api,
    c_strings,
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
from ephost.model.graph import Graph, Model, Node, Value, captured_values, schema_of
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
        # The addresses of those in memory, and of those that may lie in the model's file.
        self.held: dict[Value, int] = {}
        self.in_file: dict[Value, int] | None = None if all_in_memory else {}

    def get(self, value: Value, *, in_file: bool = False) -> Any:
        """The ``OrtValue*`` of an initializer; owned by this object.

        Args:
            value: with an initializer.
            in_file: it is copied at once, and so may lie in the model's file.
        """
        return ffi.cast("OrtValue*", call.initializer_value(self.held, self.in_file, value, in_file))

    def share(self, value: Value) -> Any:
        """A second ``OrtValue*`` over the same memory, for an owner of its own."""
        out = ffi.new("OrtValue**")
        check(lib.ephost_value_share(self.get(value), out))
        return out[0]

    def forget(self, value: Value) -> None:
        """Release the value of an initializer that nobody needs any more."""
        for values in (self.held, self.in_file or {}):
            if (held := values.pop(value, None)) is not None:
                api.ReleaseValue(ffi.cast("OrtValue*", held))

    def drop_unread(self, nodes: list[Node]) -> None:
        """Take the data of constants that these nodes read, which are in the graph no more, and no other."""
        call.drop_unread(nodes, self.held, self.in_file)

    def release(self) -> None:
        """Release every value."""
        for values in (self.held, self.in_file or {}):
            for pointer in values.values():
                api.ReleaseValue(ffi.cast("OrtValue*", pointer))
            values.clear()


class View(Record, frozen=True):
    """A group of nodes that is shown as a graph of its own, for Compile."""

    name: str
    nodes: Sequence[Node]
    inputs: Sequence[Value]
    outputs: Sequence[Value]


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
        self.pointers: dict[int, int] = {}  # the address of an OrtNode by its index
        # id of a Graph -> its OrtGraph*, and the addresses of its values' OrtValueInfo
        self.graphs: dict[int, tuple[Any, dict[Value, int]]] = {}
        self._views: list[Any] = []
        self.shown: dict[int, tuple[Graph, View | None]] = {}  # by the address of an OrtGraph
        self.pointer = _new_graph(model, graph.name, model.path or "")
        try:
            _describe(self.pointer, model)
            _Builder(model, constants, self).fill(self.pointer, graph)
        except BaseException:
            self.release()
            raise
        _living.add(self)

    def pointer_of(self, node: Node) -> Any:
        """The ``OrtNode*`` of a node."""
        return ffi.cast("OrtNode*", self.pointers[node.index])

    def view(
        self,
        graph: Graph,
        name: str,
        nodes: Iterable[Node],
        inputs: Iterable[Value],
        outputs: Iterable[Value],
    ) -> Any:
        """The ``OrtGraph`` of a group of nodes of the graph or of one of its subgraphs, for Compile."""
        pointer, infos = self.graphs[id(graph)]
        view = View(name, list(nodes), list(inputs), list(outputs))
        made = call.graph_view(
            address(pointer), name, view.nodes, view.inputs, view.outputs, self.pointers, infos
        )
        self._views.append(ffi.cast("OrtGraph*", made))
        self.shown[made] = (graph, view)
        return self._views[-1]

    def release_views(self) -> None:
        """Free the views; a plugin may use one only while the call lasts that got it."""
        for view in reversed(self._views):
            self.shown.pop(address(view), None)
            lib.ephost_graph_free(view)
        self._views.clear()

    def forget(self, value: Value) -> None:
        """Take the data of an initializer from it, which is about to go."""
        for _, infos in self.graphs.values():
            if (info := infos.get(value)) is not None:
                info = ffi.cast("OrtValueInfo*", info)
                lib.ephost_value_set_initializer(info, NULL, False, value.is_constant)

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


def _new_graph(model: Model, name: str, path: str) -> Any:
    return _no_memory(lib.ephost_graph_new(_bytes(name), model.ir_version, path_text(path)))


def _describe(pointer: Any, model: Model) -> None:
    """Give the root graph what the model says of itself."""
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


class _Builder:
    def __init__(self, model: Model, constants: Constants, into: NativeGraph) -> None:
        self.model = model
        self.constants = constants
        self.into = into
        self.schemas: dict[tuple[str, str, int, int], _NodeSchema] = {}

    def fill(self, pointer: Any, graph: Graph, *, is_body: bool = False) -> None:
        """Add everything of `graph`; for a subgraph also the values that it reads from outside."""
        infos: dict[Value, int] = {}
        self.add_values(pointer, list(graph.values.values()), infos)
        if is_body:
            self.add_values(pointer, captured_values(graph), infos, are_outer=True)
        self.into.graphs[id(graph)] = (pointer, infos)
        self.into.shown[address(pointer)] = (graph, None)
        for value in graph.inputs:
            _no_memory(lib.ephost_graph_add_input(pointer, ffi.cast("OrtValueInfo*", infos[value])))
        for value in graph.outputs:
            _no_memory(lib.ephost_graph_add_output(pointer, ffi.cast("OrtValueInfo*", infos[value])))
        self.add_nodes(pointer, depth_first_order(graph.nodes), infos)
        check(lib.ephost_graph_finish(pointer))

    def add_values(
        self, graph: Any, values: list[Value], infos: dict[Value, int], *, are_outer: bool = False
    ) -> None:
        held, in_file, reads_files = self.constants.held, self.constants.in_file, self.into.reads_files
        at = address(graph)
        call.graph_add_values(at, values, are_outer, infos, _type_address, held, in_file, reads_files)

    def add_nodes(self, graph: Any, nodes: list[Node], infos: dict[Value, int]) -> None:
        into, at = self.into, address(graph)
        schemas = call.graph_add_nodes(
            at, nodes, infos, self.schemas, self.schema_of, DEFAULT_PROVIDER, into.nodes, into.pointers
        )
        call.graph_add_attributes(nodes, schemas, into.pointers, self.attribute)

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
        """Add an attribute that is neither a number nor text, nor a list of these, to an ``OrtNode``.

        Raises:
            InvalidGraph: it is a tensor whose data does not fit it.
        """
        kinds = AttributeProto
        name, node = _bytes(proto.name), ffi.cast("OrtNode*", pointer)
        if proto.type == kinds.TENSOR:
            try:
                array = to_array(proto.t)
            except (TypeError, ValueError) as error:
                raise InvalidGraph(
                    f"the attribute '{proto.name}' of node {owner.label} cannot be read: {error}"
                ) from error
            value = ffi.cast("OrtValue*", call.value_from_object(array))
            done = lib.ephost_node_add_tensor(node, name, value)
            if not done:
                api.ReleaseValue(value)
        elif proto.type == kinds.GRAPH:
            body = owner.subgraphs[proto.name]
            subgraph = _new_graph(self.model, body.name, "")
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
            c_strings([_bytes(name) for name in proto.input]),
            c_strings([_bytes(name) for name in proto.output]),
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


def _type_address(proto: TypeProto) -> int:
    return address(type_info(proto))


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
    parts = [c_strings(texts) for texts in (*formals, names)]
    pointer = ffi.new("EphostSchema*", (*(array for array, _ in parts), len(names)))
    return _NodeSchema(address(pointer), (pointer, *parts), defaults)


@cache
def _custom_schema(inputs: tuple[str, ...], outputs: tuple[str, ...]) -> _NodeSchema:
    """That of a custom operator: its type parameters are called as its inputs and outputs."""
    named = [name.encode() for name in inputs], [name.encode() for name in outputs]
    parts = [c_strings(texts) for texts in (named[0], named[0], named[1], named[1], [])]
    pointer = ffi.new("EphostSchema*", (*(array for array, _ in parts), 0))
    return _NodeSchema(address(pointer), (pointer, *parts), ())
