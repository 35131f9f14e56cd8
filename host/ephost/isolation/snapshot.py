"""A model on its way to a worker: the graph as it is now, after the host's rewriting and other EPs' claims,
so that the plugin is shown there what it would be shown here.

Values and nodes go as rows, links as numbers of rows. The data of large initializers goes once for an EP:
what the host has mapped of a file the worker maps as well, all else goes in a file in memory.
"""

from __future__ import annotations

import mmap
import os
import pickle
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from ephost.errors import Fail
from ephost.messages import AttributeProto, NodeProto
from ephost.model.custom_op import CustomOp
from ephost.model.graph import External, Graph, Model, Node, TensorType, Value, tensor_type
from ephost.saving import reason

_SMALL = 4096  # bytes; what is not larger goes with the message
_ALIGNMENT = 64


class Sender:
    """What one EP's worker has been sent of initializers."""

    def __init__(self, number_of: Callable[[CustomOp], int]) -> None:
        """Send nothing yet.

        Args:
            number_of: the number by which the worker knows an operator; -1: it does not.
        """
        self._number_of = number_of
        self._sent: dict[int, tuple[np.ndarray, int]] = {}  # by the id of an array, which is kept

    def pack(self, model: Model) -> tuple[bytes, int | None]:
        """The model, and the descriptor of a file with the data that the worker lacks, for the caller to
        close.
        """
        fresh: list[tuple[int, np.ndarray, External | None]] = []
        rows: list[Any] = []
        numbers: dict[int, int] = {}

        def number(value: Value | None) -> int:
            if value is None:
                return -1
            at = numbers.get(id(value))
            if at is None:
                at = numbers[id(value)] = len(rows)
                rows.append(None)
                rows[at] = self._value(value, fresh)
            return at

        graph = _pack_graph(model.graph, number, self._number_of)
        layout, file = _write(fresh)
        about = (model.opsets, model.ir_version, model.path, model.metadata)
        return pickle.dumps((about, rows, graph, layout), protocol=5), file

    def forget(self) -> None:
        """Let go of what was sent: the EP is asked about no graph any more, or sent all of it again."""
        self._sent.clear()

    def _value(self, value: Value, fresh: list[tuple[int, np.ndarray, External | None]]) -> tuple[Any, ...]:
        kind: Any = value.type
        if isinstance(kind, TensorType):
            kind = (kind.element_type, kind.dims)
        key = -1
        if (array := value.initializer) is not None:
            held = self._sent.get(id(array))
            if held is None:
                held = self._sent[id(array)] = (array, len(self._sent))
                fresh.append((held[1], array, value.external))
            key = held[1]
        external = value.external
        return (
            value.name,
            kind,
            key,
            value.is_constant,
            None
            if external is None
            else (external.path, external.offset, external.nbytes, external.in_model),
            value.is_input,
            value.is_output,
            value.is_disputed,
        )


def _pack_graph(graph: Graph, number: Any, number_of: Callable[[CustomOp], int]) -> tuple[Any, ...]:
    return (
        graph.name,
        [number(value) for value in graph.values.values()],
        [number(value) for value in graph.inputs],
        [number(value) for value in graph.outputs],
        [_pack_node(node, number, number_of) for node in graph.nodes],
    )


def _pack_node(node: Node, number: Any, number_of: Callable[[CustomOp], int]) -> tuple[Any, ...]:
    proto = node.proto
    if node.subgraphs:
        bare = NodeProto(name=proto.name, op_type=proto.op_type, domain=proto.domain)
        bare.input, bare.output = proto.input, proto.output
        for attribute in proto.attribute:
            if attribute.type == AttributeProto.GRAPH:
                empty = AttributeProto()
                empty.name, empty.type = attribute.name, attribute.type
                attribute = empty  # the body goes as a graph of its own
            bare.attribute.append(attribute)
        proto = bare
    return (
        node.index,
        proto,
        node.op_type,
        node.domain,
        node.name,
        node.since_version,
        [number(value) for value in node.inputs],
        [number(value) for value in node.outputs],
        [number(value) for value in node.implicit_inputs],
        node.ep_name,
        node.left_to_host,
        -1 if node.custom is None else number_of(node.custom),
        {name: _pack_graph(body, number, number_of) for name, body in node.subgraphs.items()},
    )


def _mapped_at(array: np.ndarray, external: External | None) -> int | None:
    """Where in its file the data of an array lies that is a part of the file's mapping, and which may change
    as the file does; None for any other, and where the path leads to another file by now.
    """
    if external is None or external.in_model or external.file_id is None or not array.flags.c_contiguous:
        return None
    whole: Any = array
    while isinstance(whole.base, np.ndarray):
        whole = whole.base
    owner = whole.base.obj if isinstance(whole.base, memoryview) else whole.base
    if not isinstance(owner, mmap.mmap):
        return None
    try:
        about = os.stat(external.path)
    except OSError:
        return None
    if (about.st_dev, about.st_ino) != external.file_id:
        return None
    return int(array.ctypes.data - whole.ctypes.data)


def _write(fresh: list[tuple[int, np.ndarray, External | None]]) -> tuple[list[Any], int | None]:
    """Where the data of each array is: in the list itself, in a file that is named, or in one in memory."""
    layout: list[Any] = []
    file: int | None = None
    end = 0
    for key, array, external in fresh:
        if array.nbytes > _SMALL and (start := _mapped_at(array, external)) is not None:
            assert external is not None
            layout.append((key, array.dtype, array.shape, start, (external.path, external.file_id)))
            continue
        array = np.ascontiguousarray(array).reshape(array.shape)
        if array.dtype.hasobject or array.nbytes <= _SMALL:
            layout.append((key, np.array(array), None, 0, None))
            continue
        if file is None:
            file = os.memfd_create("ephost-weights", os.MFD_CLOEXEC)
        _put(file, array.reshape(-1).view(np.uint8).data, end)
        layout.append((key, array.dtype, array.shape, end, None))
        end += (array.nbytes + _ALIGNMENT - 1) // _ALIGNMENT * _ALIGNMENT
    return layout, file


def _put(file: int, data: memoryview, offset: int) -> None:
    """Write all of it at an offset.

    Raises:
        Fail: the system does not want to.
    """
    written = 0
    try:
        while written < len(data):
            written += os.pwrite(file, data[written:], offset + written)
    except OSError as error:
        os.close(file)
        raise Fail(
            f"{len(data)} bytes of weights find no room in a file in memory, which an isolated plugin "
            f"gets them by: {reason(error)}"
        ) from None


def unpack(
    data: bytes | bytearray,
    file: int | None,
    arrays: dict[int, np.ndarray],
    operators: Sequence[CustomOp] = (),
) -> Model:
    """The model again; ``arrays`` has what came before, and gets what came with it. The file is closed.
    ``operators`` are the custom ones of the EP's factory, by number.

    Raises:
        Fail: a file with initializers is not what the host has mapped.
    """
    (opsets, ir_version, path, metadata), rows, packed, layout = pickle.loads(data)
    mapped: Any = None
    if file is not None:
        mapped = mmap.mmap(file, 0, prot=mmap.PROT_READ)
        os.close(file)
    files: dict[str, mmap.mmap] = {}
    for key, kind, shape, offset, named in layout:
        if shape is None:
            arrays[key] = kind
            continue
        whole = mapped if named is None else _map(files, *named)
        count = int(np.prod(shape, dtype=np.int64))
        arrays[key] = np.frombuffer(whole, kind, count, offset).reshape(shape)
    values = [_value(row, arrays) for row in rows]
    model = Model(_graph(packed, values, None, operators), opsets, ir_version, {}, path, metadata)
    model.next_index = 1 + max((node.index for node in _all_nodes(model.graph)), default=-1)
    return model


def _map(files: dict[str, mmap.mmap], path: str, file_id: tuple[int, int]) -> mmap.mmap:
    if path not in files:
        with open(path, "rb") as file:
            about = os.fstat(file.fileno())
            if (about.st_dev, about.st_ino) != file_id:
                raise Fail(f"{path} was replaced while the session was opened")
            files[path] = mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ)
    return files[path]


def _value(row: tuple[Any, ...], arrays: Mapping[int, np.ndarray]) -> Value:
    name, kind, key, is_constant, external, is_input, is_output, is_disputed = row
    value = Value(
        name,
        tensor_type(*kind) if isinstance(kind, tuple) else kind,
        initializer=None if key < 0 else arrays[key],
        external=None if external is None else External(*external),
        is_constant=is_constant,
    )
    value.is_input, value.is_output, value.is_disputed = is_input, is_output, is_disputed
    return value


def _graph(
    packed: tuple[Any, ...], values: list[Value], parent: Node | None, operators: Sequence[CustomOp]
) -> Graph:
    name, own, inputs, outputs, nodes = packed
    graph = Graph(
        name,
        [],
        [values[at] for at in inputs],
        [values[at] for at in outputs],
        {values[at].name: values[at] for at in own},
        parent,
    )
    for row in nodes:
        index, proto, op_type, domain, label, since, reads, makes, implicit, ep_name, left, custom, bodies = (
            row
        )
        node = Node(
            index,
            proto,
            op_type,
            domain,
            label,
            since,
            [None if at < 0 else values[at] for at in reads],
            [None if at < 0 else values[at] for at in makes],
            ep_name,
        )
        node.left_to_host = left
        node.custom = operators[custom] if custom >= 0 else None
        node.implicit_inputs = [values[at] for at in implicit]
        node.subgraphs = {key: _graph(body, values, node, operators) for key, body in bodies.items()}
        graph.append(node)
    return graph


def _all_nodes(graph: Graph) -> Iterator[Node]:
    for node in graph.nodes:
        yield node
        for body in node.subgraphs.values():
            yield from _all_nodes(body)


def path_to(graph: Graph, wanted: Graph) -> list[tuple[int, str]] | None:
    """How to come from a graph to one inside it: nodes' indices, and the names of their attributes."""
    if graph is wanted:
        return []
    for node in graph.nodes:
        for name, body in node.subgraphs.items():
            if (rest := path_to(body, wanted)) is not None:
                return [(node.index, name), *rest]
    return None


def graph_at(graph: Graph, path: list[tuple[int, str]]) -> Graph:
    """The graph at the end of such a path."""
    for index, name in path:
        graph = next(node for node in graph.nodes if node.index == index).subgraphs[name]
    return graph
