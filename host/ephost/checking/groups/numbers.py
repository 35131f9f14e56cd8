"""Results, operator by operator: the standard's cases, and values that are no plain numbers."""

# ruff: noqa: SIM905 - tables of names

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import onnx

from ephost.bisection.measuring import draws_random_numbers
from ephost.checking.cases import Case, read_cases
from ephost.checking.judging import require_equal
from ephost.checking.models import F, make, node
from ephost.checking.registry import SHIP, Check, add
from ephost.checking.subject import Subject, reference
from ephost.checking.verdicts import PARTS, Failure, Skip

_MOST = 12  # cases of an operator up to the level of a plugin that ships; all of them in a check of their own
# Operators of which the standard has no node case.
_WITHOUT = frozenset(
    "CastMap CategoryMapper ConcatFromSequence DictVectorizer FeatureVectorizer GlobalLpPool Gradient Imputer"
    " LinearClassifier LinearRegressor MaxRoiPool Multinomial Normalizer OneHotEncoder Optional RandomNormal"
    " RandomNormalLike RandomUniform RandomUniformLike SVMClassifier SVMRegressor Scaler SequenceAt"
    " SequenceConstruct SequenceEmpty SequenceErase SequenceLength ZipMap".split()
)
_UNARY = (
    "Abs Acos Acosh Asin Asinh Atan Atanh Ceil Celu Cos Cosh Elu Erf Exp Floor Gelu HardSigmoid HardSwish"
    " Identity LeakyRelu Log Mish Neg Reciprocal Relu Round Selu Sigmoid Sign Sin Sinh Softplus Softsign Sqrt"
    " Tan Tanh ThresholdedRelu"
).split()
_BINARY = "Add Div Max Min Mul Pow PRelu Sub".split()
_REDUCTIONS = "ReduceMax ReduceMin ReduceSum ReduceMean ReduceL1 ReduceL2 ReduceSumSquare".split()
_OTHERS = "Softmax ArgMax ArgMin".split()
# What takes part in every pair of them: zeros, denormals, the largest, infinities, NaN.
_PLAIN = (0.0, -0.0, 1.0, -1.0, 0.5, -2.5, 1e-40, -1e-40, 1.4e-45, 1.2e-38, 3.4e38, -3.4e38, 88.7, -104.0)
_SPECIAL = np.array([*_PLAIN, np.inf, -np.inf, np.nan], np.float32)


def _operators() -> list[str]:
    """The operators of the standard that have cases, by name."""
    newest = {(schema.domain, schema.name): schema for schema in onnx.defs.get_all_schemas()}
    return sorted({name for (_, name), schema in newest.items() if not schema.deprecated} - _WITHOUT)


def _compare_cases(subject: Subject, cases: list[Case], operator: str) -> None:
    taken, low, spoilt, parts = 0, set[str](), "", set[str]()
    for case in cases:
        try:
            session = subject.open(case.model)
        except Exception as error:
            if _fails_without(subject, case):
                continue
            if _is_spoilt(error):
                spoilt = f"the host itself makes an invalid graph of {case.name}: {error}"
                continue
            raise Failure(f"{case.name} cannot be opened: {error}") from None
        claimed = subject.claimed(session)
        if not claimed:
            continue
        taken += 1
        op_types = sorted({op for _, op in claimed})
        parts.update(op_types)
        names = [value.name for value in session.get_inputs()]
        for given, due in case.sets:
            feeds = dict(zip(names, given, strict=False))
            subject.stage(f"running {case.name}")
            try:
                got = session.run(None, feeds)
            except Exception as error:
                if _fails_without(subject, case, feeds):
                    break
                raise Failure(f"{case.name} cannot be run: {error}") from None
            if draws_random_numbers(op_types) or "dropout" in case.name:
                _require_shapes(got, due, case.name)
            elif not _near(got, due, case):
                low.update(require_equal(got, due, case.name, op_types))
        del session
    subject.numbers["cases"] = taken
    if parts and operator not in parts:
        subject.numbers[PARTS] = sorted(parts)
    if not taken:
        raise Skip(spoilt or f"the plugin takes none of its {len(cases)} cases")
    if low:
        subject.warn(f"results are as exact as {' and '.join(sorted(low))} allows, and not float32")


def _fails_without(subject: Subject, case: Case, feeds: dict[str, Any] | None = None) -> bool:
    """Whether the host cannot open the model at all, or not take these feeds, whatever the plugin does."""
    try:
        session = subject.host.InferenceSession(case.model)
        if feeds is not None:
            session.run(None, feeds)
    except Exception:
        return True
    return False


def _is_spoilt(error: Exception) -> bool:
    """Whether the host itself has made an invalid graph. onnxruntime does of some functions whose nodes it
    inlines, such as SequenceMap's, when a plugin has claimed a part of the body.
    """
    return type(error).__name__ == "InvalidGraph" and "_inlfunc_" in str(error)


def _near(got: list[object], due: list[object], case: Case) -> bool:
    """Whether results are as near as the standard asks for."""
    for mine, theirs in zip(got, due, strict=False):
        if not isinstance(mine, np.ndarray) or not isinstance(theirs, np.ndarray):
            return False
        if mine.dtype != theirs.dtype or mine.shape != theirs.shape or mine.dtype.kind not in "fiub":
            return False
        if not np.allclose(mine, theirs, rtol=case.relative, atol=case.absolute, equal_nan=True):
            return False
    return len(got) == len(due)


def _require_shapes(got: list[object], due: list[object], name: str) -> None:
    for mine, theirs in zip(got, due, strict=True):
        if not isinstance(mine, np.ndarray) or not isinstance(theirs, np.ndarray):
            continue
        if mine.shape != theirs.shape or mine.dtype != theirs.dtype:
            raise Failure(f"{name}: {mine.dtype}{mine.shape} where {theirs.dtype}{theirs.shape} is due")


def _standard(operator: str) -> None:
    def some(subject: Subject) -> None:
        cases = read_cases(subject.cases, operator)
        step = max(1, -(-len(cases) // _MOST))
        _compare_cases(subject, cases[::step], operator)

    def every(subject: Subject) -> None:
        _compare_cases(subject, read_cases(subject.cases, operator), operator)

    text = f"{operator} gives what the standard's cases ask for, up to {_MOST} of them."
    add(Check(f"numbers.{operator}", text, SHIP, some, "devices", cases=operator))
    text = f"{operator} gives what all of the standard's cases ask for."
    add(Check(f"numbers.{operator}-all", text, 8, every, "devices", cases=operator))


def _special(operator: str, build: Callable[[int], bytes], feeds: dict[str, np.ndarray]) -> None:
    def values(subject: Subject) -> None:
        model = build(next(iter(feeds.values())).shape[0])
        session = subject.open(model)
        if not subject.claimed(session):
            raise Skip(f"the plugin does not take {operator}")
        (got,), (want,) = subject.run(session, feeds), reference(model, feeds)
        if got.shape == want.shape == next(iter(feeds.values())).shape:
            # Where no input is NaN the reference's NaN is of its formula (0 times infinity), and no rule.
            odd = np.isnan(want) & ~np.any([np.isnan(array) for array in feeds.values()], axis=0)
            got, want = np.where(odd, np.float32(0), got), np.where(odd, np.float32(0), want)
        require_equal([got], [want], operator, [operator])

    text = f"{operator} of NaN, infinities, zeros, denormal and very large numbers is right."
    add(Check(f"numbers.{operator}-special", text, 6, values, "devices"))


def _one(operator: str, **attributes: object) -> Callable[[int], bytes]:
    def build(n: int) -> bytes:
        kind = onnx.TensorProto.INT64 if operator.startswith("Arg") else F
        made = node(operator, "x", "y", **attributes)
        return make([made], {"x": (F, (n, 17))}, {"y": (kind, None)}, opset=20)

    return build


def _two(operator: str) -> Callable[[int], bytes]:
    def build(n: int) -> bytes:
        inputs = {"x": (F, (n, 17)), "z": (F, (n, 17))}
        return make([node(operator, "x z", "y")], inputs, {"y": (F, (n, 17))}, opset=20)

    return build


for _operator in _operators():
    _standard(_operator)
_rows = np.stack([np.roll(_SPECIAL, at) for at in range(17)])
for _operator in _UNARY:
    _special(_operator, _one(_operator), {"x": _rows[:4]})
for _operator in _BINARY:
    _special(_operator, _two(_operator), {"x": _rows, "z": np.tile(_SPECIAL, (17, 1))})
# Rows without NaN, and one in which it stands among others.
_mixed = np.stack([_rows[0], np.nan_to_num(_rows[1], nan=2.0), np.abs(np.nan_to_num(_rows[2], posinf=1e10))])
for _operator in _REDUCTIONS:
    _special(_operator, _one(_operator, keepdims=0), {"x": _mixed})
for _operator in _OTHERS:
    _special(_operator, _one(_operator, axis=1), {"x": _mixed[1:]})
