"""Values for a model's inputs: from files, or random; and outputs back into files."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from google.protobuf.message import DecodeError
from onnx import numpy_helper

from ephost.array_files import load_arrays
from ephost.errors import Fail
from ephost.reading import refuse_special
from ephost.saving import write_bytes, written
from ephost.session import InferenceSession, NodeArg
from ephost.suggestions import did_you_mean

_TENSOR = re.compile(r"tensor\((\w+)\)")


def read_value(path: str, kind: str) -> Any:
    """A value from a ``.npy`` file, or from a ``.pb`` file with a serialised TensorProto.

    Where ``kind`` (onnxruntime's text for the input's type) says so, the latter holds a SequenceProto or an
    OptionalProto.

    Raises:
        Fail: the file holds no such value, or is a pipe or a device. OSError: it cannot be read.
    """
    refuse_special(path, "the file of values")
    if Path(path).suffix == ".npy":
        try:
            loaded = load_arrays(path)
        except ValueError as error:
            raise Fail(f"{path} holds no array{f': {error}' if str(error) else ''}") from None
        if not isinstance(loaded, np.ndarray):
            raise Fail(f"{path} holds arrays by name, where an array is expected, as numpy.save writes")
        return loaded
    data = Path(path).read_bytes()
    try:
        if kind.startswith("seq("):
            return numpy_helper.to_list(onnx.SequenceProto.FromString(data))
        if kind.startswith("optional("):
            return numpy_helper.to_optional(onnx.OptionalProto.FromString(data))
        return numpy_helper.to_array(onnx.TensorProto.FromString(data))
    except (DecodeError, ValueError, TypeError, KeyError) as error:
        raise Fail(f"{path} holds no serialised {kind}: {error}") from None


def file_stems(names: Sequence[str]) -> list[str]:
    """For each output the name of its file without the ending: its own with "_" for every character that is
    not safe in one, and a number where another output has that.
    """
    stems: list[str] = []
    taken: set[str] = set()  # in lower case: not every file system tells a from A
    for name in names:
        plain = stem = re.sub(r"[^\w.-]", "_", name) or "_"
        number = 2
        while stem.lower() in taken:
            stem, number = f"{plain}_{number}", number + 1
        taken.add(stem.lower())
        stems.append(stem)
    return stems


def write_value(folder: Path, stem: str, name: str, value: Any) -> Path:
    """Save an output in a folder, as ``.npy``, or as ``.pb`` where numpy's format has no room for its type.

    Args:
        folder: where.
        stem: of the file's name: see :func:`file_stems`.
        name: of the output.
        value: of the output.

    Returns:
        The file.

    Raises:
        NotImplemented: a value of a type that has no file format here.
    """
    if isinstance(value, np.ndarray) and value.dtype.kind in "biufc" and value.dtype.isbuiltin == 1:
        path = folder / f"{stem}.npy"
        with written(path) as file:
            np.save(file, value, allow_pickle=False)
        return path
    path = folder / f"{stem}.pb"
    if isinstance(value, np.ndarray):
        write_bytes(path, numpy_helper.from_array(value, name).SerializeToString())
    elif isinstance(value, list) and all(isinstance(item, np.ndarray) for item in value):
        write_bytes(path, numpy_helper.from_list(value, name).SerializeToString())
    else:
        raise NotImplementedError(f"the output '{name}' is a {type(value).__name__}, which cannot be saved")
    return path


def random_value(
    argument: NodeArg, axes: dict[int, int], random: np.random.Generator
) -> np.ndarray[Any, Any]:
    """A random array for an input: normal floats, integers 0 and 1 (valid indices almost everywhere), texts.

    Args:
        argument: the input; dimensions that it leaves open are 1.
        axes: sizes of such dimensions by axis.
        random: where the numbers come from.

    Raises:
        Fail: the input takes no tensor, so only a file can say what it is.
    """
    match = _TENSOR.fullmatch(argument.type)
    if match is None:
        raise Fail(
            f"no random value can be made for the input '{argument.name}' ({argument.type}): give a file"
        )
    shape = [axes.get(at, dim if isinstance(dim, int) else 1) for at, dim in enumerate(argument.shape)]
    element = onnx.TensorProto.DataType.Value(match[1].upper())
    if element == onnx.TensorProto.STRING:
        return np.array([f"text {n}" for n in random.integers(0, 10, shape).flat], dtype=object).reshape(
            shape
        )
    dtype = onnx.helper.tensor_dtype_to_np_dtype(element)
    if dtype.kind in "iub" or dtype.name in ("int2", "int4", "uint2", "uint4"):
        return random.integers(0, 2, shape).astype(dtype)
    values = random.standard_normal(shape)
    return np.asarray(values if dtype.kind != "c" else values + 1j * random.standard_normal(shape)).astype(
        dtype
    )


def check_axes(session: InferenceSession, axes: dict[tuple[str, int], int]) -> str | None:
    """What is wrong with sizes of single axes, or None."""
    arguments = {argument.name: argument for argument in session.get_inputs()}
    for (name, axis), size in axes.items():
        if name not in arguments:
            meant = did_you_mean(name, arguments)
            return (
                f"there is no input {name!r}{meant}; the model's inputs are: {', '.join(arguments) or 'none'}"
            )
        shape = arguments[name].shape
        if axis >= len(shape):
            return f"the input {name!r} has {len(shape)} dimensions: none at axis {axis}"
        if isinstance(fixed := shape[axis], int) and fixed != size:
            return f"the input {name!r} has the fixed dimension {fixed} at axis {axis}"
    return None


def describe(value: Any) -> dict[str, Any]:
    """Type, shape and a summary of a value, as JSON can hold it."""
    if value is None:
        return {"type": "none", "shape": None}
    if not isinstance(value, np.ndarray):
        size = len(value) if hasattr(value, "__len__") else None
        return {"type": type(value).__name__, "shape": None if size is None else [size]}
    found: dict[str, Any] = {"type": value.dtype.name, "shape": list(value.shape)}
    if value.dtype.kind == "O":
        found["type"] = "string"
        found["first"] = [str(item) for item in value.flat[:3]]
    elif value.size and value.dtype.kind != "c":
        numbers = value.astype(np.float64)
        finite = numbers[np.isfinite(numbers)]
        if finite.size:
            with np.errstate(over="ignore"):
                mean = float(finite.mean())
            if not np.isfinite(mean):  # their sum is more than a number can be
                mean = float((finite / finite.size).sum())
            found.update(min=float(finite.min()), max=float(finite.max()), mean=mean)
        found["not_finite"] = int(numbers.size - finite.size)
    return found
