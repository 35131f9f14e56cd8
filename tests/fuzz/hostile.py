"""Values that operators may stumble over: numbers, texts, shapes, attributes. What both fuzzers draw from."""

# ruff: noqa: E501 - tables
from __future__ import annotations

from random import Random

import numpy as np
import onnx
from onnx import AttributeProto, numpy_helper

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
DTYPES = [np.dtype(name) for name in ("f4", "f8", "f2", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "?")]


class Hostile:
    """Draws values with a generator of random numbers."""

    def __init__(self, random: Random) -> None:
        self.random = random

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

    def attribute_of(self, name: str, kind: int, old: onnx.AttributeProto | None) -> onnx.AttributeProto:
        """Another value of an attribute."""
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
                    numpy_helper.from_array(self.elements(self.array(dims, random.choice(DTYPES))))
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
