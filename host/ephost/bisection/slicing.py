"""Parts of a model as models of their own, whose inputs are given values."""

from __future__ import annotations

import contextlib
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import numpy_helper, shape_inference

from ephost.bisection.measuring import roundoff_of
from ephost.bisection.packing import without_large
from ephost.errors import Fail
from ephost.reading import refuse_special

_CUT = "__given"  # the end of the name of a value that a node makes and another is given
_OF_FEW = frozenset(["BatchNormalization", "LRN", "Resize", "Upsample", "GridSample", "RoiAlign"])
_LARGE = 1 << 20  # bytes of an initializer whose values no shape depends on


def inner_graphs(node: onnx.NodeProto) -> Iterator[onnx.GraphProto]:
    """The graphs among a node's attributes."""
    for attribute in node.attribute:
        if attribute.type == onnx.AttributeProto.GRAPH:
            yield attribute.g
        elif attribute.type == onnx.AttributeProto.GRAPHS:
            yield from attribute.graphs


def read_names(node: onnx.NodeProto) -> list[str]:
    """The values that a node reads, those of its subgraphs that come from outside among them."""
    names = [name for name in node.input if name]
    for graph in inner_graphs(node):
        own = {value.name for value in graph.input} | {tensor.name for tensor in graph.initializer}
        for inner in graph.node:
            names += [name for name in read_names(inner) if name not in own]
            own.update(inner.output)
        names += [value.name for value in graph.output if value.name not in own]
    return list(dict.fromkeys(names))


def names_within(
    node: onnx.NodeProto, functions: Mapping[tuple[str, str], onnx.FunctionProto]
) -> Iterator[str]:
    """The names of the nodes in a node's subgraphs, and in its function's body."""
    bodies: list[Iterable[onnx.NodeProto]] = [graph.node for graph in inner_graphs(node)]
    if (function := functions.get((node.domain, node.op_type))) is not None:
        bodies.append(function.node)
    for body in bodies:
        for inner in body:
            yield inner.name
            yield from names_within(inner, functions)


def rename_reads(node: onnx.NodeProto, names: Mapping[str, str]) -> None:
    """Let a node read other values."""
    for at, name in enumerate(node.input):
        if name in names:
            node.input[at] = names[name]
    for graph in inner_graphs(node):
        for inner in graph.node:
            rename_reads(inner, names)
        for value in graph.output:
            value.name = names.get(value.name, value.name)


def _require_types(graph: onnx.GraphProto) -> None:
    """Raise Fail for an input or an initializer of elements that there are not."""
    typed = [(f"input '{i.name}'", i.type.tensor_type.elem_type) for i in graph.input if _is_tensor(i)]
    typed += [(f"initializer '{tensor.name}'", tensor.data_type) for tensor in graph.initializer]
    for who, element in typed:
        if element == onnx.TensorProto.UNDEFINED or element not in onnx.TensorProto.DataType.values():
            raise Fail(f"the {who} has elements of the type {element}: there is none")


def _is_tensor(value: onnx.ValueInfoProto) -> bool:
    return bool(value.type.WhichOneof("value") == "tensor_type")


class Sliced:
    """A model that parts are cut out of. Each of its nodes has a name of its own, and a number."""

    def __init__(self, model: onnx.ModelProto, constant_inputs: bool = True) -> None:
        self.model = model
        graph = model.graph
        taken: set[str] = set()
        for number, node in enumerate(graph.node):
            if not node.name or node.name in taken:
                node.name = f"{node.name or node.op_type}_node{number}"
            taken.add(node.name)
        self.nodes = list(graph.node)
        self.numbers = {node.name: number for number, node in enumerate(self.nodes)}
        self.makers = {name: at for at, node in enumerate(self.nodes) for name in node.output if name}
        self.initializers = {tensor.name: tensor for tensor in graph.initializer}
        self.sparse = {tensor.values.name: tensor for tensor in graph.sparse_initializer}
        stored = {*self.initializers, *self.sparse}
        if constant_inputs:
            kept = [value for value in graph.input if value.name not in stored]
            del graph.input[:]
            graph.input.extend(kept)
            model.ir_version = max(model.ir_version, 4)
        self.inputs = [value.name for value in graph.input if value.name not in stored]
        self.replaceable = {value.name for value in graph.input} & stored
        self.outputs = [value.name for value in graph.output]
        self.reads = [read_names(node) for node in self.nodes]
        self.readers: dict[str, set[int]] = {}
        for at, reads in enumerate(self.reads):
            for name in reads:
                self.readers.setdefault(name, set()).add(at)
        self.types = self._types()
        self.constant = self._constants(stored)
        self.functions = {(each.domain, each.name): each for each in model.functions}
        self.opsets = {each.domain: each.version for each in model.opset_import}

    @classmethod
    def load(cls, model: str | Path | bytes | onnx.ModelProto, constant_inputs: bool = True) -> Sliced:
        """Read a model, the data that lies in files beside it as well.

        Raises:
            Fail: there is no such model, or it holds no nodes.
        """
        if isinstance(model, str | Path):
            refuse_special(model, "the model")
        try:
            if isinstance(model, onnx.ModelProto):
                made = onnx.ModelProto()
                made.CopyFrom(model)
            elif isinstance(model, bytes):
                made = onnx.load_from_string(model)
            else:
                made = onnx.load(model)
        except Exception as error:
            raise Fail(
                f"{model if isinstance(model, str | Path) else 'the model'} cannot be read: {error}"
            ) from None
        if not made.graph.node:
            raise Fail("the model has no nodes: there is nothing to search")
        _require_types(made.graph)
        return cls(made, constant_inputs)

    def _types(self) -> dict[str, onnx.TypeProto]:
        inferred, large = without_large(self.model, _LARGE)
        for tensor in large:
            kind = onnx.helper.make_tensor_value_info(tensor.name, tensor.data_type, tensor.dims)
            inferred.graph.input.append(kind)
        with contextlib.suppress(Exception):
            inferred = shape_inference.infer_shapes(inferred, data_prop=True)
        graph = inferred.graph
        values = (*graph.input, *graph.output, *graph.value_info)
        return {value.name: value.type for value in values if value.type.WhichOneof("value")}

    def _constants(self, stored: Collection[str]) -> set[str]:
        """Values that depend on no input."""
        known = set(stored) - self.replaceable
        known.update(name for name in self.replaceable)
        for node, reads in zip(self.nodes, self.reads, strict=True):
            if all(name in known for name in reads):
                known.update(name for name in node.output if name)
        return known

    def is_tensor(self, name: str) -> bool:
        """Whether a value is a tensor, as far as is known."""
        kind = self.types.get(name)
        return kind is None or kind.WhichOneof("value") == "tensor_type"

    def single_units(self) -> list[list[int]]:
        """Each node by itself, but for those that hand each other what is no tensor; constants are none."""
        owner = list(range(len(self.nodes)))

        def find(at: int) -> int:
            while owner[at] != at:
                owner[at] = owner[owner[at]]
                at = owner[at]
            return at

        for at, reads in enumerate(self.reads):
            for name in reads:
                if name in self.makers and not self.is_tensor(name):
                    owner[find(at)] = find(self.makers[name])
        units: dict[int, list[int]] = {}
        for at in range(len(self.nodes)):
            units.setdefault(find(at), []).append(at)
        return [unit for unit in units.values() if any(self.nodes[at].op_type != "Constant" for at in unit)]

    def produced(self, unit: Collection[int]) -> list[str]:
        """The values that a part gives to others or to the caller."""
        inside = set(unit)
        made = {name for at in inside for name in self.nodes[at].output if name}
        read = {name for name in made if not self.readers.get(name, inside) <= inside}
        wanted = read | made.intersection(self.outputs)
        if not wanted:
            inner = {name for at in inside for name in self.reads[at]}
            wanted = made - inner or made
        return [name for at in sorted(inside) for name in self.nodes[at].output if name in wanted]

    def needed(self, units: Iterable[Collection[int]]) -> set[str]:
        """The values that these parts, each by itself, have to be given."""
        names: set[str] = set()
        for unit in units:
            inside = {name for at in unit for name in self.nodes[at].output}
            names.update(name for at in unit for name in self.reads[at] if name not in inside)
        return names - set(self.initializers) - set(self.sparse)

    def cut(
        self, units: Sequence[Sequence[int]], values: Mapping[str, Any], extra: Collection[str] = ()
    ) -> tuple[onnx.ModelProto, dict[str, Any], dict[str, str]]:
        """A model of these parts, none of which reads what another makes.

        Args:
            units: numbers of nodes, those of each part together.
            values: what stands for values that come from outside of a part.
            extra: values to have as outputs besides those that a part gives to others.

        Returns:
            The model, its feed, and for each value of it that is an output the name of that output.
        """
        made = onnx.ModelProto(ir_version=self.model.ir_version, producer_name="ephost bisect")
        made.opset_import.extend(self.model.opset_import)
        made.functions.extend(self.model.functions)
        graph = made.graph
        graph.name = self.model.graph.name or "part"
        feed: dict[str, Any] = {}
        given: dict[str, str] = {}  # value -> its name as an input
        outputs: dict[str, str] = {}
        present = {name for unit in units for at in unit for name in self.nodes[at].output if name}
        for unit in units:
            inside = {name for at in unit for name in self.nodes[at].output if name}
            for at in sorted(unit):
                node = graph.node.add()
                node.CopyFrom(self.nodes[at])
                renamed = {}
                for name in self.reads[at]:
                    if name in inside:
                        continue
                    if name not in given:
                        given[name] = name + _CUT if name in present else name
                        self._give(graph, name, given[name], values, feed)
                    if given[name] != name:
                        renamed[name] = given[name]
                if renamed:
                    rename_reads(node, renamed)
            for name in dict.fromkeys((*self.produced(unit), *(n for n in extra if n in inside))):
                outputs[name] = name
                graph.output.add(name=name)
                if name in self.types:
                    graph.output[-1].type.CopyFrom(self.types[name])
                elif name in values and isinstance(values[name], np.ndarray):
                    graph.output[-1].type.CopyFrom(_open_type(values[name], name))
        return made, feed, outputs

    def _give(
        self, graph: onnx.GraphProto, name: str, given: str, values: Mapping[str, Any], feed: dict[str, Any]
    ) -> None:
        if name in self.initializers:
            graph.initializer.add().CopyFrom(self.initializers[name])
            if name in self.replaceable:
                graph.input.add(name=name).type.CopyFrom(self.types[name])
            return
        if name in self.sparse:
            graph.sparse_initializer.add().CopyFrom(self.sparse[name])
            return
        if name not in values:
            raise KeyError(name)
        value = values[name]
        if name in self.constant and isinstance(value, np.ndarray):
            graph.initializer.append(numpy_helper.from_array(np.asarray(value), given))
            return
        feed[given] = value
        kind = self.types.get(name)
        if kind is None or (kind.HasField("tensor_type") and not kind.tensor_type.HasField("shape")):
            kind = _open_type(value, name)
        graph.input.add(name=given).type.CopyFrom(kind)


def _open_type(value: Any, name: str) -> onnx.TypeProto:
    """The type of an array whose sizes are not said."""
    array = np.asarray(value)
    element = (
        onnx.TensorProto.STRING
        if array.dtype.kind in "OSU"
        else onnx.helper.np_dtype_to_tensor_dtype(array.dtype)
    )
    return onnx.helper.make_tensor_type_proto(element, [f"{name}_{axis}" for axis in range(array.ndim)])


def operators_of(node: onnx.NodeProto, functions: Mapping[tuple[str, str], onnx.FunctionProto]) -> set[str]:
    """The operators of a node, its subgraphs and its function's body."""
    function = functions.get((node.domain, node.op_type))
    if function is not None:
        return set().union(*(operators_of(inner, functions) for inner in function.node))
    found = {node.op_type}
    for graph in inner_graphs(node):
        for inner in graph.node:
            found |= operators_of(inner, functions)
    return found


def terms(node: onnx.NodeProto, shapes: Mapping[str, Sequence[int]]) -> int:
    """How many numbers are summed for a result of a node, at most."""

    def shape(place: int) -> list[int] | None:
        name = node.input[place].removesuffix(_CUT) if place < len(node.input) else ""
        return list(shapes[name]) if name in shapes else None

    first, second = shape(0), shape(1)
    if node.op_type in ("Conv", "ConvInteger", "ConvTranspose"):
        return max(1, int(np.prod(second[1:], dtype=np.int64))) if second else 1
    if node.op_type == "QLinearConv":
        weights = shape(3)
        return max(1, int(np.prod(weights[1:], dtype=np.int64))) if weights else 1
    if node.op_type in ("MatMul", "Gemm", "MatMulInteger", "QLinearMatMul", "RNN", "GRU", "LSTM"):
        return max(1, max(first or [1]), max(second or [1]))
    if node.op_type in _OF_FEW or not first:
        return 4
    if node.op_type in ("Softmax", "LogSoftmax", "LayerNormalization", "RMSNormalization"):
        return max(1, first[-1])
    return max(1, int(np.prod(first, dtype=np.int64)))


def _type_name(element: int) -> str:
    if element in (onnx.TensorProto.UNDEFINED, onnx.TensorProto.STRING):
        return ""
    return onnx.helper.tensor_dtype_to_np_dtype(element).name


@dataclass(frozen=True)
class Lineage:
    """What a value was made by, inside of a model.

    ``dtype`` is its type, as far as inputs and casts tell; ``coarsest`` the one with the fewest digits among
    the results that it follows from, "" where it follows from none.
    """

    operators: frozenset[str]
    depth: int
    terms: int
    dtype: str = ""
    coarsest: str = ""


def lineages(model: onnx.ModelProto, shapes: Mapping[str, Sequence[int]]) -> dict[str, Lineage]:
    """For each value of a model by which operators it was made."""
    functions = {(f.domain, f.name): f for f in model.functions}
    known = {tensor.name: tuple(tensor.dims) for tensor in model.graph.initializer} | dict(shapes)
    types = {tensor.name: _type_name(tensor.data_type) for tensor in model.graph.initializer}
    types |= {value.name: _type_name(value.type.tensor_type.elem_type) for value in model.graph.input}
    found: dict[str, Lineage] = {}
    for node in model.graph.node:
        names = read_names(node)
        before = [found[name] for name in names if name in found]
        read = [found[name].dtype if name in found else types.get(name, "") for name in names]
        to = next((a.i for a in node.attribute if a.name == "to"), 0) if node.op_type == "Cast" else 0
        made = Lineage(
            frozenset(operators_of(node, functions)).union(*(each.operators for each in before)),
            1 + max((each.depth for each in before), default=0),
            max(terms(node, known), *(each.terms for each in before), 1),
            _type_name(to) if to else max(read, key=roundoff_of, default=""),
            max(
                (text for each in before for text in (each.dtype, each.coarsest)), key=roundoff_of, default=""
            ),
        )
        found.update((name, made) for name in node.output if name)
    return found
