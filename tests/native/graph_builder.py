"""What the tests of the C graph share: calling slots as a plugin would, and building small graphs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ephost._native import ffi, lib
from native_objects import api, check, cpu_tensor, out, path_text, view

FLOAT, INT64, DOUBLE = 1, 7, 11


def get(slot: Any, handle: Any, kind: str) -> Any:
    """What a getter with one out-parameter of C type ``kind`` gives."""
    return out(kind, slot, handle)


def text(slot: Any, handle: Any) -> str:
    return ffi.string(get(slot, handle, "const char*")).decode()


def path_of(pointer: Any) -> str:
    found = ffi.string(pointer)
    return found if isinstance(found, str) else found.decode()


def many(count_slot: Any, list_slot: Any, handle: Any, kind: str) -> list[Any]:
    """The handles that a pair of getters (count, list) gives."""
    count = get(count_slot, handle, "size_t")
    handles = ffi.new(f"{kind}[]", count)
    check(list_slot(handle, handles, count))
    return list(handles)


def nodes_of(graph: Any) -> list[Any]:
    return many(api.Graph_GetNumNodes, api.Graph_GetNodes, graph, "const OrtNode*")


def names(values: Sequence[Any]) -> list[str | None]:
    return [None if value == ffi.NULL else text(api.GetValueInfoName, value) for value in values]


def inputs_of(graph: Any) -> list[str | None]:
    return names(many(api.Graph_GetNumInputs, api.Graph_GetInputs, graph, "const OrtValueInfo*"))


def outputs_of(graph: Any) -> list[str | None]:
    return names(many(api.Graph_GetNumOutputs, api.Graph_GetOutputs, graph, "const OrtValueInfo*"))


def initializers_of(graph: Any) -> list[str | None]:
    return names(many(api.Graph_GetNumInitializers, api.Graph_GetInitializers, graph, "const OrtValueInfo*"))


def value_of(graph: Any, name: str) -> Any:
    """The value with that name."""
    for index in range(lib.ephost_graph_value_count(graph)):
        value = lib.ephost_graph_value(graph, index)
        if ffi.string(lib.ephost_value_name(value)).decode() == name:
            return value
    raise KeyError(name)


def producer_of(value: Any) -> tuple[str, int] | None:
    """(node name, output index), or None for a value that no node of the graph makes."""
    node, output = ffi.new("const OrtNode**"), ffi.new("size_t*")
    check(api.ValueInfo_GetValueProducer(value, node, output))
    return None if node[0] == ffi.NULL else (text(api.Node_GetName, node[0]), output[0])


def consumers_of(value: Any) -> list[tuple[str, int]]:
    """(node name, input index) of each."""
    count = get(api.ValueInfo_GetValueNumConsumers, value, "size_t")
    nodes, inputs = ffi.new("const OrtNode*[]", count), ffi.new("int64_t[]", count)
    check(api.ValueInfo_GetValueConsumers(value, nodes, inputs, count))
    return [(text(api.Node_GetName, node), index) for node, index in zip(nodes, inputs, strict=True)]


class Builder:
    """A graph under construction, by names. Node ids count from ``first_id`` in steps of one."""

    def __init__(self, name: str = "g", ir_version: int = 10, path: str = "", first_id: int = 0) -> None:
        self.graph = lib.ephost_graph_new(name.encode(), ir_version, path_text(path))
        self.values: dict[str, Any] = {}
        self.nodes: dict[str, Any] = {}
        self.next_id = first_id

    def value(self, name: str, element_type: int = FLOAT, shape: Sequence[int] | None = (2,)) -> Any:
        if name not in self.values:
            rank, dims = (-1, ffi.NULL) if shape is None else (len(shape), list(shape))
            self.values[name] = lib.ephost_graph_add_tensor(
                self.graph, name.encode(), element_type, rank, dims, ffi.NULL
            )
        return self.values[name]

    def inputs(self, *value_names: str) -> Builder:
        for name in value_names:
            assert lib.ephost_graph_add_input(self.graph, self.value(name))
        return self

    def outputs(self, *value_names: str) -> Builder:
        for name in value_names:
            assert lib.ephost_graph_add_output(self.graph, self.value(name))
        return self

    def initializer(self, name: str, constant: bool = True) -> Builder:
        data = float_tensor([1.0, 2.0])
        assert lib.ephost_value_set_initializer(self.value(name), data, True, constant)
        return self

    def node(
        self,
        name: str,
        inputs: Sequence[str],
        outputs: Sequence[str],
        op_type: str = "Add",
        domain: str = "",
        version: int = 14,
    ) -> Any:
        """Add a node; an empty name among inputs or outputs is one left out."""
        read = [self.value(i) if i else ffi.NULL for i in inputs]
        made = [self.value(o) if o else ffi.NULL for o in outputs]
        self.nodes[name] = lib.ephost_graph_add_node(
            self.graph,
            self.next_id,
            name.encode(),
            op_type.encode(),
            domain.encode(),
            version,
            b"",
            read,
            len(read),
            made,
            len(made),
        )
        self.next_id += 1
        return self.nodes[name]

    def finish(self) -> Any:
        check(lib.ephost_graph_finish(self.graph))
        return self.graph

    def view(self, node_names: Sequence[str]) -> Any:
        """What Graph_GetGraphView gives; release it with ReleaseGraph."""
        chosen = [self.nodes[name] for name in node_names]
        return out("OrtGraph*", api.Graph_GetGraphView, self.graph, chosen, len(chosen))


def float_tensor(values: Sequence[float]) -> Any:
    """A new rank 1 tensor in the CPU's memory; the caller releases it."""
    value = cpu_tensor((len(values),))
    ffi.memmove(view(value).data, ffi.new("float[]", list(values)), 4 * len(values))
    return value


def floats_of(value: Any) -> list[float]:
    """What a tensor of floats holds."""
    shown = view(value)
    return list(ffi.unpack(ffi.cast("float*", shown.data), shown.element_count))
