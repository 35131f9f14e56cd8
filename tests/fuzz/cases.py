"""Cases of the fuzzer: an example with a few of its attributes, inputs, types and versions made hostile."""

# ruff: noqa: E501 - tables
from __future__ import annotations

import dataclasses
from collections.abc import Callable
from random import Random
from typing import Any

import numpy as np
import onnx
from onnx import AttributeProto, TensorProto, helper, numpy_helper

from tests.fuzz.examples import Example, schema_of

ROOM = 1 << 13  # elements of one input, at most
INTEGERS = [-(2**63), -(2**31), -100, -8, -3, -2, -1, -1, -1, 0, 0, 0, 1, 1, 2, 3, 4, 5, 7, 8, 16, 33, 100, 1000,
            2**31 - 1, 2**31, 2**32, 2**32 + 1, 2**40, 2**62, 2**63 - 1]  # fmt: skip
FLOATS = [0.0, -0.0, 1.0, -1.0, 0.5, 2.0, 1e-45, -1e-40, 1e-7, 1e10, 3.4e38, -3.4e38, float("nan"), float("inf"),
          -float("inf"), 2.0**31, -(2.0**63), 1e300]  # fmt: skip
TEXTS = [b"", b"\xff\xfe", b"a\0b", b"x" * 300, b"linear", b"nearest", b"cubic", b"constant", b"reflect", b"edge",
         b"wrap", b"SAME_UPPER", b"SAME_LOWER", b"VALID", b"NOTSET", b"zeros", b"border", b"none", b"add", b"mul",
         b"min", b"max", b"sum", b"mean", b"forward", b"reverse", b"bidirectional", b"Relu", b"Tanh", b"Sigmoid",
         b"Affine", b"Clip", b"half_pixel", b"align_corners", b"asymmetric", b"pytorch_half_pixel", b"avg",
         b"tf_crop_and_resize", b"floor", b"ceil", b"DCR", b"CRD", b"TF", b"IDF", b"TFIDF", b"LEFT", b"RIGHT",
         b"tanh", b"SOFTMAX", b"PROBIT", b"LOGISTIC", b"->", b"ij->ji", b"ij,jk->ik", b"...i->...", b"ii->i",
         b"i,", b"...,...", b"a..b", b"ij->kl", b"iii", "\u00e9".encode()]  # fmt: skip
SIZES = [0, 1, 1, 1, 2, 2, 3, 4, 5, 7, 8, 9, 16, 17, 33]
NEIGHBOURS = ["Relu", "Neg", "Abs", "Sigmoid", "Identity", "Exp", "Clip", "Not"]
_DTYPES = [np.dtype(name) for name in ("f4", "f8", "f2", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "?")]


@dataclasses.dataclass
class Case:
    """What one try opens and runs."""

    name: str
    model: bytes
    feeds: list[dict[str, Any]]  # of one run after the other
    optimised: bool
    changes: list[str]  # none: the example as it is


class _Draft:
    """An example on its way to a case."""

    def __init__(self, random: Random, example: Example) -> None:
        self.random = random
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

    # ---- values

    def number(self) -> int:
        return self.random.choice(INTEGERS)

    def array(self, dims: list[int], dtype: np.dtype) -> np.ndarray:
        """Harmless content of a shape."""
        values = np.random.default_rng(self.random.randrange(1 << 30)).integers(-4, 9, dims)
        if dtype.kind == "O":
            return values.astype(str).astype(object)
        return (np.abs(values) if dtype.kind in "ub" else values).astype(dtype)

    def elements(self, array: np.ndarray) -> np.ndarray:
        """One element, some, or all of them hostile."""
        random, changed = self.random, array.copy()
        if not changed.size:
            return changed
        count = random.choice([1, 1, 1, 2, changed.size])
        for _ in range(min(count, 16)):
            at = random.randrange(changed.size)
            where = slice(None) if count > 16 else at
            if changed.dtype.kind in "iu":
                info = np.iinfo(changed.dtype)
                number = self.number()
                fitting = number if info.min <= number <= info.max else random.choice([info.min, info.max])
                changed.reshape(-1)[where] = fitting
            elif changed.dtype.kind == "f":
                with np.errstate(all="ignore"):
                    changed.reshape(-1)[where] = np.array(random.choice(FLOATS)).astype(changed.dtype)
            elif changed.dtype.kind == "b":
                changed.reshape(-1)[where] = random.random() < 0.5
            elif changed.dtype.kind in "OUS":
                changed = changed.astype(object)
                changed.reshape(-1)[where] = random.choice(
                    ["", "a", "\u00e9\U0001f600", "x" * 300, "1", "nan", "-5.5e400"]
                )
        return changed

    def dims(self, dims: list[int]) -> list[int]:
        """Another shape, near to the one given or not at all."""
        dims, random = list(dims), self.random
        match random.randrange(9):
            case 0 | 1 | 2 if dims:
                dims[random.randrange(len(dims))] = random.choice(SIZES)
            case 3 if dims:
                del dims[random.randrange(len(dims))]
            case 4:
                dims.insert(random.randint(0, len(dims)), random.choice([1, 1, 2, 3]))
            case 5:
                dims = [random.choice(SIZES) for _ in range(random.randrange(9))]
            case 6 if len(dims) > 1:
                random.shuffle(dims)
            case 7:
                dims = []
            case _:
                dims = [1] * random.choice([1, 6, 9, 20, 64])
        dims = dims[-64:]  # as many as numpy has
        while int(np.prod(dims, dtype=np.float64)) > ROOM:
            dims[dims.index(max(dims))] = 1
        return dims

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
        wanted = self.random.choice(_DTYPES)
        every = self.random.random() < 0.7
        if schema is not None and every and where < len(schema.inputs):
            allowed = {c.type_param_str: c.allowed_type_strs for c in schema.type_constraints}
            names = allowed.get(schema.inputs[where].type_str, ())
            fitting = [d for d in _DTYPES if f"tensor({_name_of(d)})" in names]
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
                self._push(self.elements(self.array(self.dims([2, 3]), self.random.choice(_DTYPES))))
                return "an input more"
            case _:
                # An input that the schema has and the example has not.
                schema = schema_of(self.node, self.version)
                if schema is None or len(self.inputs) >= len(schema.inputs):
                    return ""
                self._push(self.array(self.dims([2, 3]), self.random.choice(_DTYPES)))
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
        made = self._attribute(name, kind, old)
        self.node.attribute.append(made)
        return f"{name} = {str(helper.get_attribute_value(made))[:60]!r}"

    def _attribute(self, name: str, kind: int, old: onnx.AttributeProto | None) -> onnx.AttributeProto:
        random = self.random
        made = onnx.AttributeProto(name=name, type=kind)
        match kind:
            case AttributeProto.INT:
                made.i = self.number()
            case AttributeProto.FLOAT:
                made.f = (
                    np.float32(np.clip(random.choice(FLOATS), -3.4e38, 3.4e38))
                    if random.random() < 0.7
                    else random.choice([float("inf"), float("nan")])
                )
            case AttributeProto.STRING:
                made.s = random.choice(TEXTS)
            case AttributeProto.TENSOR:
                dims = self.dims([2])
                made.t.CopyFrom(
                    numpy_helper.from_array(self.elements(self.array(dims, random.choice(_DTYPES))))
                )
            case AttributeProto.INTS | AttributeProto.FLOATS | AttributeProto.STRINGS:
                field, draw = {
                    AttributeProto.INTS: ("ints", self.number),
                    AttributeProto.FLOATS: ("floats", lambda: float(np.float32(np.clip(random.choice(FLOATS), -3.4e38, 3.4e38)))),
                    AttributeProto.STRINGS: ("strings", lambda: random.choice(TEXTS)),
                }[kind]  # fmt: skip
                values = list(getattr(old, field)) if old is not None and old.type == kind else []
                match random.randrange(5):
                    case 0 | 1 if values:
                        values[random.randrange(len(values))] = draw()
                    case 2 if values:
                        values.pop()
                    case 3:
                        values.append(draw())
                    case _:
                        values = [draw() for _ in range(random.randrange(7))]
                getattr(made, field).extend(values)
            case AttributeProto.TYPE_PROTO:
                made.tp.tensor_type.elem_type = random.randrange(30)
            case _:
                made.type, made.i = AttributeProto.INT, self.number()
        return made

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


def make_case(seed: int, operator: str, number: int, examples: list[Example]) -> Case:
    """The case of this name; the same each time for the same seed and examples."""
    name = f"{operator}/{number}"
    random = Random(f"{seed} {name}")
    draft = _Draft(random, random.choice(examples))
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
