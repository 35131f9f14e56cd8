"""How far a value may be from the reference's, by element type and operator, and how far it is."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

# Operators whose results are elements of their inputs, or exact by definition.
_MOVES = frozenset(
    [
        "Cast",
        "CastLike",
        "Compress",
        "Concat",
        "ConcatFromSequence",
        "Dropout",
        "Constant",
        "ConstantOfShape",
        "DepthToSpace",
        "Expand",
        "EyeLike",
        "Flatten",
        "Gather",
        "GatherElements",
        "GatherND",
        "Identity",
        "If",
        "Loop",
        "MaxPool",
        "MaxUnpool",
        "NonZero",
        "OneHot",
        "Optional",
        "OptionalGetElement",
        "Pad",
        "Range",
        "Reshape",
        "ReverseSequence",
        "Scan",
        "Scatter",
        "ScatterElements",
        "ScatterND",
        "SequenceAt",
        "SequenceConstruct",
        "Shape",
        "Size",
        "Slice",
        "SpaceToDepth",
        "Split",
        "SplitToSequence",
        "Squeeze",
        "Tile",
        "TopK",
        "Transpose",
        "Trilu",
        "Unique",
        "Unsqueeze",
        "Where",
        "Abs",
        "Ceil",
        "Clip",
        "Floor",
        "Max",
        "Min",
        "Neg",
        "Relu",
        "Round",
        "Sign",
        "MaxRoiPool",
        "GlobalMaxPool",
        "ReduceMax",
        "ReduceMin",
        "ArgMax",
        "ArgMin",
    ]
)
# One rounding, or a few.
_ROUNDED = frozenset(
    [
        "Add",
        "Sub",
        "Mul",
        "Div",
        "Sqrt",
        "Reciprocal",
        "Sum",
        "Mean",
        "LeakyRelu",
        "PRelu",
        "HardSigmoid",
        "HardSwish",
        "ThresholdedRelu",
        "Shrink",
        "Softsign",
        "Mod",
        "BitShift",
        "DequantizeLinear",
        "Pow",
    ]
)
# Sums of products: the rounding follows what is summed, and not what is left of it.
_SUMS = frozenset(
    [
        "BatchNormalization",
        "Conv",
        "ConvTranspose",
        "ConvInteger",
        "DeformConv",
        "MatMul",
        "MatMulInteger",
        "Gemm",
        "Einsum",
        "ReduceSum",
        "ReduceMean",
        "ReduceProd",
        "ReduceL1",
        "ReduceL2",
        "ReduceSumSquare",
        "ReduceLogSum",
        "ReduceLogSumExp",
        "AveragePool",
        "GlobalAveragePool",
        "LpPool",
        "GlobalLpPool",
        "CumSum",
        "CumProd",
        "Attention",
        "RNN",
        "GRU",
        "LSTM",
        "LRN",
        "InstanceNormalization",
        "LayerNormalization",
        "GroupNormalization",
        "RMSNormalization",
        "MeanVarianceNormalization",
        "LpNormalization",
        "Softmax",
        "LogSoftmax",
        "Det",
        "DFT",
        "STFT",
        "Resize",
        "Upsample",
        "GridSample",
        "RoiAlign",
        "AffineGrid",
        "Col2Im",
        "MultiHeadAttention",
        "FusedMatMul",
        "SkipLayerNormalization",
    ]
)
_RANDOM = frozenset(
    ["Bernoulli", "Multinomial", "RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike"]
)
# Where results are rounded to integers, a tie may go either way.
_ROUNDS_TO_INTEGERS = frozenset(["QuantizeLinear", "DynamicQuantizeLinear", "QLinearConv", "QLinearMatMul"])


_OWN_TYPES = 256  # numpy's own types have numbers below it


@dataclass(frozen=True)
class Precision:
    """What an execution provider computes in: its unit roundoff."""

    name: str
    roundoff: float


PRECISIONS = (
    Precision("float32", 2.0**-24),
    Precision("tf32 or float16", 2.0**-11),
    Precision("bfloat16", 2.0**-8),
)
_ROUNDOFF = {"float64": 2.0**-53, "float32": 2.0**-24, "float16": 2.0**-11, "bfloat16": 2.0**-8}


def roundoff_of(dtype: str) -> float:
    """The unit of roundoff of a type of floating-point numbers; 0 for what is none."""
    return _ROUNDOFF.get(dtype, 2.0**-4 if "float8" in dtype else 2.0**-3 if "float4" in dtype else 0.0)


@dataclass(frozen=True)
class Tolerance:
    """How far elements may be off: ``relative`` to the element, ``scaled`` to the largest element.

    ``steps`` is for integers. ``why`` says where that comes from.
    """

    relative: float
    scaled: float
    steps: int
    why: str


def draws_random_numbers(op_types: Collection[str]) -> bool:
    """Whether results cannot be compared."""
    return any(op in _RANDOM for op in op_types)


def tolerance(
    op_types: Collection[str],
    dtype: np.dtype[Any],
    terms: int,
    roundoff: float,
    depth: int = 1,
    coarsest: str = "",
) -> Tolerance:
    """How far results of these operators may be off.

    Args:
        op_types: the operators.
        dtype: of the result.
        terms: how many numbers are summed for a result, at most.
        depth: how many operators are one behind the other.
        roundoff: of what the execution provider computes in.
        coarsest: the type with the fewest digits of the results that these follow from.
    """
    if dtype.kind in "iub":
        if any(op in _ROUNDS_TO_INTEGERS for op in op_types) and dtype.kind != "b":
            return Tolerance(0, 0, 1, "rounded to integers, where a tie may go either way")
        return Tolerance(0, 0, 0, "integers are exact")
    unit = max(roundoff, roundoff_of(dtype.name) or 2.0**-3)
    if dtype.name == "float64":
        unit = _ROUNDOFF["float64"]
    unit = max(unit, roundoff_of(coarsest))
    relative, scaled, reasons = 0.0, 0.0, []
    for op in sorted(set(op_types)):
        if op in _MOVES and op not in ("Cast", "CastLike"):
            continue
        if op in _SUMS:
            relative += 16 * unit
            scaled += 4 * unit * math.sqrt(max(terms, 1))
            reasons.append(f"{op}: sums of up to {terms} terms")
        elif op in _ROUNDED or op in ("Cast", "CastLike"):
            relative += 8 * unit
            reasons.append(f"{op}: a few roundings")
        else:
            relative += 128 * unit
            scaled += 16 * unit
            reasons.append(f"{op}: a function that is approximated")
    if not reasons:
        return Tolerance(0, 0, 0, "elements are only moved or chosen")
    if depth > 1:
        factor = math.sqrt(depth)
        relative, scaled = max(relative, 64 * unit) * factor, max(scaled, 16 * unit) * factor
    return Tolerance(relative, scaled, 0, "; ".join(reasons[:4]))


@dataclass
class Measure:
    """How far a value is from the reference's.

    ``ratio`` is the largest error in parts of what is tolerated: above 1 the value is wrong.
    """

    name: str
    kind: str = "right"  # or "numbers", "not finite", "shape", "type"
    ratio: float = 0.0
    largest: float = 0.0  # absolute
    relative: float = 0.0  # the largest error in parts of the largest number
    mean: float = 0.0
    bias: float = 0.0  # how much of the mean error goes one way, from -1 to 1
    wrong: int = 0
    elements: int = 0
    where: tuple[int, ...] = ()
    got: str = ""
    expected: str = ""
    cosine: float = 1.0
    why: str = ""
    roundings: float = 0.0  # the largest error in units of float32's roundoff of the largest number

    def to_dict(self) -> dict[str, Any]:
        """As JSON can hold it."""
        return {key: list(v) if isinstance(v, tuple) else v for key, v in vars(self).items()}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Measure:
        """What :meth:`to_dict` gave."""
        return cls(**{**data, "where": tuple(data["where"])})


def compare(name: str, got: Any, want: Any, allowed: Tolerance, floor: float = 0.0) -> Measure:
    """Compare a value with the reference's.

    Args:
        name: of the value.
        got: the value.
        want: the reference's.
        allowed: how far elements may be off.
        floor: an absolute error that is allowed in any case.
    """
    if isinstance(want, list | tuple) and isinstance(got, list | tuple):
        if len(got) != len(want):
            return Measure(name, "shape", math.inf, got=f"{len(got)} elements", expected=str(len(want)))
        found = [compare(name, a, b, allowed, floor) for a, b in zip(got, want, strict=True)]
        return max(found, key=lambda measure: measure.ratio, default=Measure(name))
    if not isinstance(got, np.ndarray) or not isinstance(want, np.ndarray):
        same = repr(got) == repr(want)
        return Measure(name) if same else Measure(name, "numbers", math.inf, wrong=1, got=repr(got)[:80])
    if got.dtype != want.dtype:
        return Measure(name, "type", math.inf, got=got.dtype.name, expected=want.dtype.name)
    if got.shape != want.shape:
        return Measure(name, "shape", math.inf, got=str(got.shape), expected=str(want.shape))
    made = Measure(name, elements=int(want.size), why=allowed.why)
    if not want.size:
        return made
    if want.dtype.kind in "OSU":
        return _exact(made, got, want)
    return _numbers(made, got, want, allowed, floor)


def _exact(made: Measure, got: np.ndarray, want: np.ndarray) -> Measure:
    return _point_at(made, got != want, got, want, math.inf) if (got != want).any() else made


def _point_at(
    made: Measure, wrong: np.ndarray, got: np.ndarray, want: np.ndarray, ratio: float, kind: str = "numbers"
) -> Measure:
    at = tuple(int(i) for i in np.argwhere(wrong)[0]) if wrong.ndim else ()
    made.kind, made.ratio, made.wrong = kind, ratio, int(np.count_nonzero(wrong))
    made.where, made.got, made.expected = at, str(got[at]), str(want[at])
    return made


def _wide(array: np.ndarray) -> np.ndarray:
    if array.dtype.kind in "iub" and array.dtype.itemsize == 8:
        return array.astype(np.longdouble)
    return array.astype(np.complex128 if array.dtype.kind == "c" else np.float64)


def _numbers(made: Measure, got: np.ndarray, want: np.ndarray, allowed: Tolerance, floor: float) -> Measure:
    a, b = _wide(got), _wide(want)
    finite = np.isfinite(b)
    with np.errstate(all="ignore"):
        # NaN where NaN is due, and the infinity that is due. What is finite there has to be finite here.
        odd = np.where(finite, ~np.isfinite(a), ~((a == b) | (np.isnan(a) & np.isnan(b))))
        if odd.any():
            # The largest finite numbers may round to infinity.
            limit = 0.999 * float(np.finfo(want.dtype).max) if want.dtype.kind == "f" else math.inf
            odd &= ~(finite & np.isinf(a) & (np.abs(b) >= limit))
    if odd.any():
        return _point_at(made, odd, got, want, math.inf, "not finite")
    usable = finite & np.isfinite(a)
    if not usable.any():
        return made
    errors = np.where(usable, np.abs(np.where(usable, a, 0) - np.where(usable, b, 0)), 0.0)
    sizes = np.where(usable, np.abs(np.where(usable, b, 0)), 0.0)
    largest = float(sizes.max())
    tiny = (
        float(np.finfo(want.dtype).tiny) if want.dtype.kind == "f" and want.dtype.num < _OWN_TYPES else 1e-38
    )
    bound = allowed.relative * sizes + allowed.scaled * largest + floor + allowed.steps
    if want.dtype.kind not in "iub" and allowed.relative:
        bound = bound + tiny  # denormal numbers may be flushed to zero
    with np.errstate(all="ignore"):
        ratios = np.where(errors > 0, errors / bound, 0.0)
    made.largest = float(errors.max())
    made.relative = made.largest / largest if largest else (math.inf if made.largest else 0.0)
    made.mean = float(errors.mean())
    made.roundings = made.relative / 2.0**-24
    if made.mean and want.dtype.kind != "c":
        made.bias = float((a - b)[usable].astype(np.float64).sum() / errors.sum())
        with np.errstate(all="ignore"):  # towards or away from zero counts as one way, too
            outward = float(((a - b) * np.sign(b))[usable].astype(np.float64).sum() / errors.sum())
        made.bias = max(made.bias, outward, key=abs)
    norm = float(np.linalg.norm(a[usable].ravel()) * np.linalg.norm(b[usable].ravel()))
    made.cosine = float(np.abs(np.vdot(a[usable].ravel(), b[usable].ravel()))) / norm if norm else 1.0
    made.ratio = float(ratios.max())
    if made.ratio > 1:
        at = tuple(int(i) for i in np.unravel_index(int(np.argmax(ratios)), ratios.shape))
        made.kind, made.wrong, made.where = "numbers", int(np.count_nonzero(ratios > 1)), at
        made.got, made.expected = str(got[at]), str(want[at])
    return made
