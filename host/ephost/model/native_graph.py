"""A graph of the pipeline as the ``OrtGraph`` that plugins read.

Built anew for each EP that is asked, since what earlier EPs claimed is fused by then. It must outlive every
call into a plugin that got it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cache
from typing import Any

import onnx

from ephost._bindings import NULL, abi_element_type, api, call, check, dtype_of, ffi, lib
from ephost.environment import DEFAULT_PROVIDER
from ephost.errors import InvalidGraph
from ephost.model.graph import Graph, Model, Node, TensorType, Value, schema_of

_editor = lib.ephost_model_editor_api


class Constants:
    """The native values of a session's initializers, made when first asked for, sharing numpy's memory."""

    def __init__(self) -> None:
        self._values: dict[int, tuple[Value, Any]] = {}

    def get(self, value: Value) -> Any:
        """The ``OrtValue*`` of an initializer; owned by this object."""
        held = self._values.get(id(value))
        if held is None:
            assert value.initializer is not None
            if isinstance(value.type, TensorType):
                dtype_of(
                    value.type.element_type
                )  # teaches the C half ml_dtypes' types before the first one comes
            pointer = ffi.cast("OrtValue*", call.value_from_object(value.initializer))
            held = self._values[id(value)] = (value, pointer)
        return held[1]

    def share(self, value: Value) -> Any:
        """A second ``OrtValue*`` over the same memory, for an owner of its own."""
        out = ffi.new("OrtValue**")
        check(lib.ephost_value_share(self.get(value), out))
        return out[0]

    def release(self) -> None:
        """Release every value."""
        for _, pointer in self._values.values():
            api.ReleaseValue(pointer)
        self._values.clear()


class NativeGraph:
    """An ``OrtGraph``, its subgraphs included, with the way back from its nodes to ours."""

    def __init__(self, model: Model, graph: Graph, constants: Constants) -> None:
        self.nodes: dict[int, Node] = {}
        self.node_pointers: dict[int, Any] = {}
        self.graphs: dict[int, tuple[Any, dict[int, Any]]] = {}  # id of a Graph -> its OrtGraph*, its values
        self._views: list[Any] = []
        self.pointer = _root(model, graph)
        try:
            _Builder(model, constants, self).fill(self.pointer, graph, None)
        except BaseException:
            self.release()
            raise

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
        node_list = [self.node_pointers[node.index] for node in nodes]
        input_list = [values[id(value)] for value in inputs]
        output_list = [values[id(value)] for value in outputs]
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
        return out[0]

    def release_views(self) -> None:
        """Free the views; a plugin may use one only while the call lasts that got it."""
        for view in reversed(self._views):
            lib.ephost_graph_free(view)
        self._views.clear()

    def release(self) -> None:
        """Free the graph and its views."""
        self.release_views()
        if self.pointer:
            lib.ephost_graph_free(self.pointer)
            self.pointer = NULL


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")


def _no_memory(done: Any) -> Any:
    if not done:
        raise MemoryError("no memory for the graph that plugins read")
    return done


def _root(model: Model, graph: Graph) -> Any:
    pointer = _no_memory(lib.ephost_graph_new(_bytes(graph.name), model.ir_version, _bytes(model.path or "")))
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
    for key, value in about.custom.items():
        _no_memory(lib.ephost_graph_add_metadata(pointer, _bytes(key), _bytes(value)))
    return pointer


class _Builder:
    def __init__(self, model: Model, constants: Constants, into: NativeGraph) -> None:
        self.model = model
        self.constants = constants
        self.into = into

    def fill(self, pointer: Any, graph: Graph, outer: dict[int, Any] | None) -> None:
        """Add everything of `graph`; for a subgraph `outer` has the values that it may read from outside."""
        known: dict[int, Any] = {}
        self.into.graphs[id(graph)] = (pointer, known)
        for value in graph.values.values():
            known[id(value)] = self.value(pointer, value)
        if outer is not None:
            for value in _captured(graph):
                info = self.value(pointer, value, outer_scope=True)
                known[id(value)] = info
        for value in graph.inputs:
            _no_memory(lib.ephost_graph_add_input(pointer, known[id(value)]))
        for value in graph.outputs:
            _no_memory(lib.ephost_graph_add_output(pointer, known[id(value)]))
        for node in depth_first_order(graph.nodes):
            self.node(pointer, node, known)
        check(lib.ephost_graph_finish(pointer))

    def value(self, graph: Any, value: Value, *, outer_scope: bool = False) -> Any:
        name = _bytes(value.name)
        kind = value.type
        if isinstance(kind, TensorType):
            element_type = abi_element_type(kind.element_type)
            if kind.dims is None:
                info = lib.ephost_graph_add_tensor(graph, name, element_type, -1, NULL, NULL)
            else:
                dims = [d if isinstance(d, int) else -1 for d in kind.dims]
                symbols: Any = NULL
                if any(isinstance(d, str) for d in kind.dims):
                    texts = [ffi.new("char[]", _bytes(d) if isinstance(d, str) else b"") for d in kind.dims]
                    symbols = ffi.new("char*[]", texts)
                info = lib.ephost_graph_add_tensor(graph, name, element_type, len(dims), dims, symbols)
        else:
            info = lib.ephost_graph_add_value(graph, name, NULL if kind is None else type_info(kind))
        _no_memory(info)
        if outer_scope:
            lib.ephost_value_set_outer_scope(info)
        if value.initializer is not None:
            data = self.constants.get(value)
            _no_memory(lib.ephost_value_set_initializer(info, data, False, value.is_constant))
            if value.external is not None:
                external = value.external
                _no_memory(
                    lib.ephost_value_set_external(
                        info, _bytes(external.path), external.offset, external.nbytes
                    )
                )
        return info

    def node(self, graph: Any, node: Node, known: dict[int, Any]) -> None:
        inputs = [NULL if v is None else known[id(v)] for v in node.inputs]
        outputs = [NULL if v is None else known[id(v)] for v in node.outputs]
        while inputs and not inputs[-1]:
            inputs.pop()
        while outputs and not outputs[-1]:
            outputs.pop()
        pointer = _no_memory(
            lib.ephost_graph_add_node(
                graph,
                node.index,
                _bytes(node.name),
                _bytes(node.op_type),
                _bytes(node.domain),
                node.since_version,
                _bytes(node.ep_name or (DEFAULT_PROVIDER if node.left_to_host else "")),
                inputs,
                len(inputs),
                outputs,
                len(outputs),
            )
        )
        self.into.nodes[node.index] = node
        self.into.node_pointers[node.index] = pointer
        for value in node.implicit_inputs:
            _no_memory(lib.ephost_node_add_implicit_input(pointer, known[id(value)]))
        opset = self.model.opsets.get(node.domain, 1)
        described = schema_arrays(node.op_type, node.domain, opset, len(inputs), len(outputs))
        if described is not None:
            lib.ephost_node_set_schema(pointer, *described)
        given = set()
        for attribute in node.proto.attribute:
            given.add(attribute.name)
            self.attribute(pointer, node, attribute, known)
        for default in schema_defaults(node.op_type, node.domain, opset):
            if default.name not in given:
                self.attribute(pointer, node, default, known)

    def attribute(self, node: Any, owner: Node, proto: onnx.AttributeProto, known: dict[int, Any]) -> None:
        kinds = onnx.AttributeProto
        name = _bytes(proto.name)
        if proto.type == kinds.INT:
            done = lib.ephost_node_add_int(node, name, proto.i)
        elif proto.type == kinds.FLOAT:
            done = lib.ephost_node_add_float(node, name, proto.f)
        elif proto.type == kinds.INTS:
            done = lib.ephost_node_add_ints(node, name, list(proto.ints), len(proto.ints))
        elif proto.type == kinds.FLOATS:
            done = lib.ephost_node_add_floats(node, name, list(proto.floats), len(proto.floats))
        elif proto.type == kinds.STRING:
            done = lib.ephost_node_add_string(node, name, proto.s, len(proto.s))
        elif proto.type == kinds.STRINGS:
            texts = [ffi.new("char[]", text) for text in proto.strings]
            lengths = [len(text) for text in proto.strings]
            done = lib.ephost_node_add_strings(node, name, texts, lengths, len(texts))
        elif proto.type == kinds.TENSOR:
            array = onnx.numpy_helper.to_array(proto.t)
            dtype_of(proto.t.data_type)
            value = ffi.cast("OrtValue*", call.value_from_object(array))
            done = lib.ephost_node_add_tensor(node, name, value)
            if not done:
                api.ReleaseValue(value)
        elif proto.type == kinds.GRAPH:
            body = owner.subgraphs[proto.name]
            subgraph = _no_memory(lib.ephost_graph_new(_bytes(body.name), self.model.ir_version, b""))
            lib.ephost_graph_set_parent(subgraph, node)
            try:
                self.fill(subgraph, body, known)
            except BaseException:
                lib.ephost_graph_free(subgraph)
                raise
            done = lib.ephost_node_add_graph(node, name, subgraph)
        else:
            # Type protos, sparse tensors and lists of tensors have no place in the ABI: plugins do without.
            return
        _no_memory(done)


def depth_first_order(nodes: Sequence[Node]) -> list[Node]:
    """The topological order in which plugins see nodes: what a node depends on comes right before it.

    EPs that grow groups from neighbours in the list come out with the groups that they find in onnxruntime,
    which walks the graph the same way: from the last node that nobody reads, up its inputs, the newest
    producer first.
    """
    own = {node.index for node in nodes}
    stack = [
        (node, False)
        for node in sorted(nodes, key=lambda n: n.index)
        if not any(c.index in own for v in node.outputs if v is not None for c in v.consumers)
    ]
    visited: set[int] = set()
    ordered: list[Node] = []
    while stack:
        node, leave = stack.pop()
        if leave:
            ordered.append(node)
            continue
        if node.index in visited:
            continue
        visited.add(node.index)
        stack.append((node, True))
        producers = {v.producer.index: v.producer for v in node.reads() if v.producer is not None}
        for index in sorted(producers):
            if index in own and index not in visited:
                stack.append((producers[index], False))
    return ordered


def _captured(graph: Graph) -> Iterable[Value]:
    from ephost.model.load import captured_values

    return captured_values(graph)


def type_info(proto: onnx.TypeProto) -> Any:
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


@cache
def schema_defaults(op_type: str, domain: str, opset: int) -> tuple[onnx.AttributeProto, ...]:
    """The attributes with a default in the operator's schema: plugins see them, as in onnxruntime."""
    schema = schema_of(op_type, domain, opset)
    if schema is None:
        return ()
    return tuple(a.default_value for a in schema.attributes.values() if a.default_value.name)


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


@cache
def schema_arrays(op_type: str, domain: str, opset: int, inputs: int, outputs: int) -> tuple[Any, ...] | None:
    """What ``ephost_node_set_schema`` takes, made once for each operator and number of inputs and outputs."""
    schema = schema_of(op_type, domain, opset)
    if schema is None:
        return None
    arrays = []
    for texts in (*_formals(schema.inputs, inputs), *_formals(schema.outputs, outputs)):
        strings = [ffi.new("char[]", text) for text in texts]
        array = ffi.new("char*[]", strings or [NULL])
        _keep.append(strings)
        arrays.append(array)
    names = [ffi.new("char[]", name.encode()) for name in schema.attributes]
    attributes = ffi.new("char*[]", names or [NULL])
    _keep.append(names)
    return (*arrays, attributes, len(names))


_keep: list[Any] = []  # strings that the cached arrays point to
