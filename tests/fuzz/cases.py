"""Cases of the fuzzer: an example with a few of its attributes, inputs, types and versions made hostile."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from random import Random
from typing import Any

import numpy as np
import onnx
from onnx import AttributeProto, TensorProto, helper, numpy_helper

from tests.fuzz.examples import Example, schema_of
from tests.fuzz.hostile import DTYPES, Hostile

NEIGHBOURS = ["Relu", "Neg", "Abs", "Sigmoid", "Identity", "Exp", "Clip", "Not"]


@dataclasses.dataclass
class Case:
    """What one try opens and runs."""

    name: str
    model: bytes
    feeds: list[dict[str, Any]]  # of one run after the other
    optimised: bool
    changes: list[str]  # none: the example as it is
    files: dict[str, bytes] = dataclasses.field(default_factory=dict)  # beside the model, by their names


class _Draft(Hostile):
    """An example on its way to a case."""

    def __init__(self, random: Random, example: Example) -> None:
        super().__init__(random)
        self.node = onnx.NodeProto()
        self.node.CopyFrom(example.node)
        self.node.name = "node"
        self.version = example.version
        self.inputs = list(example.inputs)
        self.types = list(example.types)
        # What a shape or an axis says is mostly constant in models; weights are, too.
        self.constant = [
            isinstance(value, np.ndarray)
            and random.random() < (0.5 if value.dtype.kind in "iu" and value.ndim < 2 else 0.25)
            for value in self.inputs
        ]
        self.before: list[str | None] = [None] * len(self.inputs)
        self.after: list[str] = []
        self.declared: dict[int, list[Any]] = {}
        self.changes: list[str] = []

    def tensors(self) -> list[int]:
        return [at for at, value in enumerate(self.inputs) if isinstance(value, np.ndarray)]

    # ---- changes. Each says what it did, or "" if there was nothing to do.

    def value(self) -> str:
        if not (at := self.tensors()):
            return ""
        where = self.random.choice(at)
        # Integers of few dimensions say what is to be done.
        if told := [i for i in at if self.inputs[i].dtype.kind in "iu" and self.inputs[i].ndim < 2]:
            where = self.random.choice([*told, where])
        self.inputs[where] = self.elements(self.inputs[where])
        return f"elements of input {where}"

    def shape(self) -> str:
        if not (at := self.tensors()):
            return ""
        where = self.random.choice(at)
        was = self.inputs[where]
        dims = self.dims(list(was.shape))
        # Alone, or with all that had this shape.
        together = self.random.random() < 0.3
        same = [i for i in at if self.inputs[i].shape == was.shape] if together else [where]
        for i in same:
            old = self.inputs[i]
            self.inputs[i] = np.resize(old, dims) if old.size and dims else self.array(dims, old.dtype)
        return f"shape of input {where}: {dims}"

    def kind(self) -> str:
        if not (at := self.tensors()):
            return ""
        where = self.random.choice(at)
        was = self.inputs[where].dtype
        schema = schema_of(self.node, self.version)
        wanted = self.random.choice(DTYPES)
        every = self.random.random() < 0.7
        if schema is not None and every and where < len(schema.inputs):
            allowed = {c.type_param_str: c.allowed_type_strs for c in schema.type_constraints}
            names = allowed.get(schema.inputs[where].type_str, ())
            fitting = [d for d in DTYPES if f"tensor({_name_of(d)})" in names]
            wanted = self.random.choice(fitting or [wanted])
        for i in at:
            if i == where or (every and self.inputs[i].dtype == was):
                old = self.inputs[i]
                if old.dtype.kind in "OUS":
                    self.inputs[i] = self.array(list(old.shape), wanted)
                    continue
                with np.errstate(all="ignore"):
                    self.inputs[i] = np.asarray(np.asarray(old, np.float64).astype(wanted))
        return f"type of input {where}: {wanted}"

    def presence(self) -> str:
        match self.random.randrange(4):
            case 0 if self.inputs:
                at = self.random.randrange(len(self.inputs))
                self.inputs[at] = None
                return f"no input {at}"
            case 1 if self.inputs:
                self._pop()
                return "an input fewer"
            case 2:
                self._push(self.elements(self.array(self.dims([2, 3]), self.random.choice(DTYPES))))
                return "an input more"
            case _:
                # An input that the schema has and the example has not.
                schema = schema_of(self.node, self.version)
                if schema is None or len(self.inputs) >= len(schema.inputs):
                    return ""
                self._push(self.array(self.dims([2, 3]), self.random.choice(DTYPES)))
                return "an optional input more"

    def _pop(self) -> None:
        for held in (self.inputs, self.types, self.constant, self.before):
            held.pop()

    def _push(self, value: np.ndarray) -> None:
        self.inputs.append(value)
        self.types.append(None)
        self.constant.append(self.random.random() < 0.5)
        self.before.append(None)

    def outputs(self) -> str:
        names = list(self.node.output)
        match self.random.randrange(3):
            case 0:
                names.append(f"extra{len(names)}")
            case 1 if len(names) > 1:
                names.pop()
            case _:
                names[self.random.randrange(len(names))] = ""
        if not any(names):
            return ""
        del self.node.output[:]
        self.node.output.extend(names)
        return f"outputs {names}"

    def attribute(self) -> str:
        random = self.random
        schema = schema_of(self.node, self.version)
        given = {a.name: a for a in self.node.attribute}
        known = {name: a.type.value for name, a in schema.attributes.items()} if schema else {}
        known.update((name, a.type) for name, a in given.items())
        known = {n: t for n, t in known.items() if t not in (AttributeProto.GRAPH, AttributeProto.GRAPHS)}
        if not known:
            return ""
        name = (
            random.choice(sorted(given.keys() & known.keys()) or sorted(known))
            if random.random() < 0.4
            else random.choice(sorted(known))
        )
        old, kind = given.get(name), known[name]
        if old is not None:
            self.node.attribute.remove(old)
        what = random.random()
        if what < 0.06:
            return f"no {name}"
        if what < 0.1:
            kind = random.choice([1, 2, 3, 4, 6, 7, 8])
        made = self.attribute_of(name, kind, old)
        self.node.attribute.append(made)
        return f"{name} = {str(helper.get_attribute_value(made))[:60]!r}"

    def opset(self) -> str:
        if self.node.domain:
            self.version = self.random.choice([1, 2, 3, 4, 5])
        else:
            self.version = self.random.randint(6, 26)
        return f"opset {self.version}"

    def declaration(self) -> str:
        """What the model says of an input's shape is not what is fed."""
        if not (at := self.tensors()):
            return ""
        where = self.random.choice(at)
        dims: list[Any] = list(self.inputs[where].shape)
        if dims:
            dims[self.random.randrange(len(dims))] = self.random.choice(
                [0, 1, 2, 5, 2**31, 2**62, -1, "n", "m"]
            )
        else:
            dims = ["n"]
        self.declared[where] = dims
        self.constant[where] = False
        return f"input {where} is declared {dims}"

    def company(self) -> str:
        """Nodes before and after, for what is fused."""
        if (at := self.tensors()) and self.random.random() < 0.5:
            self.before[self.random.choice(at)] = self.random.choice(NEIGHBOURS)
        self.after += [
            self.random.choice([*NEIGHBOURS, "Add", "Mul"]) for _ in range(self.random.randrange(3))
        ]
        return "neighbours"

    # ---- the model

    def model(self) -> tuple[onnx.ModelProto, dict[str, Any]]:
        random = self.random
        inputs, feeds, weights, nodes, names = [], {}, [], [], []
        open_shapes = random.random() < 0.4
        for at, value in enumerate(self.inputs):
            if value is None and self.types[at] is None:
                names.append("")
                continue
            name = f"i{at}"
            names.append(name)
            if self.before[at]:
                nodes.append(helper.make_node(self.before[at], [name], [f"{name}b"], f"before{at}"))
                names[-1] = f"{name}b"
            if self.types[at] is not None:
                inputs.append(onnx.ValueInfoProto(name=name, type=self.types[at]))
                feeds[name] = value
            elif self.constant[at] and value.dtype.kind not in "US":
                weights.append(numpy_helper.from_array(np.asarray(value), name))
            else:
                element = (
                    TensorProto.STRING
                    if value.dtype.kind in "OUS"
                    else helper.np_dtype_to_tensor_dtype(value.dtype)
                )
                dims = self.declared.get(
                    at, [f"{name}d{i}" for i in range(value.ndim)] if open_shapes else value.shape
                )
                inputs.append(helper.make_tensor_value_info(name, element, dims))
                feeds[name] = value
        del self.node.input[:]
        self.node.input.extend(names)
        nodes.append(self.node)
        outputs = [name for name in self.node.output if name]
        for at, kind in enumerate(self.after):
            made, last = f"after{at}", outputs[0]
            nodes.append(helper.make_node(kind, [last] * (2 if kind in ("Add", "Mul") else 1), [made], made))
            outputs[0] = made
        graph = helper.make_graph(
            nodes, "case", inputs, [onnx.ValueInfoProto(name=n) for n in outputs], weights
        )
        imports = {"": 21, self.node.domain: self.version}
        if self.node.domain == "ai.onnx":
            imports = {"ai.onnx": self.version}
        opsets = [helper.make_opsetid(domain, version) for domain, version in imports.items()]
        return helper.make_model(graph, opset_imports=opsets, ir_version=10), feeds


def _name_of(dtype: np.dtype) -> str:
    return {"float32": "float", "float64": "double"}.get(dtype.name, dtype.name)


_CHANGES: list[tuple[int, Callable[[_Draft], str]]] = [
    (30, _Draft.attribute),
    (25, _Draft.value),
    (20, _Draft.shape),
    (7, _Draft.kind),
    (5, _Draft.presence),
    (3, _Draft.outputs),
    (3, _Draft.opset),
    (5, _Draft.declaration),
    (8, _Draft.company),
]


def plain_model(example: Example) -> tuple[onnx.ModelProto, dict[str, Any]]:
    """The model of an example as it is, and what it is fed."""
    return _Draft(Random(0), example).model()


def make_case(seed: int, operator: str, number: int, examples: dict[str, list[Example]]) -> Case:
    """The case of this name; the same each time for the same seed and examples."""
    name = f"{operator}/{number}"
    random = Random(f"{seed} {name}")
    draft = _Draft(random, random.choice(examples[operator]))
    for _ in range(random.choice([0, 1, 1, 1, 1, 2, 2, 2, 3, 4])):
        (change,) = random.choices([c for _, c in _CHANGES], [w for w, _ in _CHANGES])
        if said := change(draft):
            draft.changes.append(said)
    model, feeds = draft.model()
    runs = [feeds]
    if random.random() < 0.3:
        # Again, with other content or other shapes.
        again = dict(feeds)
        for key, value in feeds.items():
            if isinstance(value, np.ndarray) and random.random() < 0.5:
                at = key.removeprefix("i")
                if random.random() < 0.5:
                    again[key] = draft.elements(value)
                    draft.changes.append(f"elements of input {at}, again")
                else:
                    again[key] = draft.array(draft.dims(list(value.shape)), value.dtype)
                    draft.changes.append(f"shape of input {at}, again: {list(again[key].shape)}")
        runs.append(again)
    return Case(name, model.SerializeToString(), runs, random.random() < 0.5, draft.changes)
