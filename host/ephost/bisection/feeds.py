"""Inputs for a model that nobody gave any."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from math import inf
from typing import Any

import numpy as np
import onnx

from ephost.array_files import load_arrays
from ephost.bisection.slicing import Sliced
from ephost.errors import Fail, InvalidArgument
from ephost.suggestions import did_you_mean


def check_numbers(seed: int, timeout: float) -> None:
    """Refuse a seed or a time limit that can be none.

    Raises:
        InvalidArgument: the text names it.
    """
    if not isinstance(seed, int) or seed < 0:
        raise InvalidArgument(f"the seed is a whole number from 0 on, not {seed!r}")
    if not isinstance(timeout, int | float) or not 0 < timeout < inf:
        raise InvalidArgument(f"the timeout is a number of seconds above 0, not {timeout!r}")


def read_feed(path: str | os.PathLike[str]) -> dict[str, Any]:
    """The arrays of an .npz file.

    Raises:
        Fail: it holds none.
    """
    try:
        loaded = load_arrays(path)
    except ValueError as error:
        why = f": {error}" if str(error) else ""
        raise Fail(f"{path} is no file of arrays by name, as numpy.savez writes{why}") from None
    if isinstance(loaded, np.ndarray):
        raise Fail(f"{path} holds one array without a name: inputs are arrays by name, as numpy.savez writes")
    return loaded


def read_feeds(
    sliced: Sliced, inputs: Iterable[Mapping[str, Any] | str | os.PathLike[str]]
) -> list[dict[str, Any]]:
    """Feeds, those that are files read, and held against what a model takes.

    Raises:
        Fail: a file holds no arrays.
        InvalidArgument: the model does not take what a feed gives.
    """
    found = []
    for number, each in enumerate(inputs, 1):
        if isinstance(each, Mapping):
            feed, where = dict(each), f"feed {number}"
        else:
            feed, where = read_feed(os.fspath(each)), os.fspath(each)
        for name, value in feed.items():
            if wrong := _not_taken(sliced, name, value):
                raise InvalidArgument(f"{where}: {wrong}")
        found.append(feed)
    return found


def _not_taken(sliced: Sliced, name: str, value: Any) -> str:
    """Why a model does not take a value for an input; "" where it may."""
    if name not in sliced.inputs and name not in sliced.initializers:
        known = ", ".join(sliced.inputs) or "none"
        return f"the model has no input {name!r}{did_you_mean(name, sliced.inputs)}; its inputs are: {known}"
    kind = sliced.types.get(name)
    if not isinstance(value, np.ndarray) or kind is None or not kind.HasField("tensor_type"):
        return ""
    element = kind.tensor_type.elem_type
    text = element == onnx.TensorProto.STRING
    if not (value.dtype.kind in "OSU" if text else value.dtype == _dtype(element)):
        wanted = "string" if text else _dtype(element).name
        return f"the input '{name}' takes elements of {wanted}, and these are of {value.dtype.name}"
    dims = kind.tensor_type.shape.dim
    if kind.tensor_type.HasField("shape") and (
        len(dims) != value.ndim
        or any(_is_said(d) and d.dim_value != s for d, s in zip(dims, value.shape, strict=True))
    ):
        wanted = ", ".join(map(_size_text, dims))
        return f"the input '{name}' has the shape [{wanted}], and this one {list(value.shape)}"
    return ""


def _is_said(dim: onnx.TensorShapeProto.Dimension) -> bool:
    """Whether a model gives a size; some write -1 for one that is open."""
    return dim.HasField("dim_value") and dim.dim_value >= 0


def _size_text(dim: onnx.TensorShapeProto.Dimension) -> str:
    return str(dim.dim_value) if _is_said(dim) else dim.dim_param or "?"


def _dtype(element: int) -> np.dtype[Any]:
    return onnx.helper.tensor_dtype_to_np_dtype(element)


def left_open(sliced: Sliced, given: Mapping[str, Any], dimensions: Mapping[str, int]) -> str:
    """Which sizes a made-up feed takes to be 1, in words; "" for none."""
    found = []
    for name in sliced.inputs:
        kind = sliced.types.get(name)
        if name in given or kind is None or not kind.HasField("tensor_type"):
            continue
        dims = kind.tensor_type.shape.dim
        if any(not _is_said(d) and d.dim_param not in dimensions for d in dims):
            found.append(f"{name} [{', '.join(map(_size_text, dims))}]")
    return ", ".join(found)


def require_dimensions(sliced: Sliced, dimensions: Iterable[str]) -> None:
    """Raise InvalidArgument for a dimension that no input of the model has."""
    known = {
        dim.dim_param
        for name in sliced.inputs
        if name in sliced.types
        for dim in sliced.types[name].tensor_type.shape.dim
        if dim.dim_param
    }
    for name in dimensions:
        if name not in known:
            raise InvalidArgument(
                f"no input of the model has a dimension {name!r}{did_you_mean(name, known)}; open are: "
                f"{', '.join(sorted(known)) or 'none'}"
            )


def complete(
    sliced: Sliced, given: Mapping[str, Any], dimensions: Mapping[str, int], seed: int, kind: str = "normal"
) -> dict[str, Any]:
    """A feed with a value for each input: those that are given, the others made up.

    Args:
        sliced: the model.
        given: values by name.
        dimensions: sizes of dimensions with names; others that are open are 1.
        seed: for the made-up ones.
        kind: of numbers: ``normal``, or ``odd``: zeros, denormals, large ones among others.

    Raises:
        Fail: an input takes no tensor, or one that is too large.
    """
    random = np.random.default_rng(seed)
    made: dict[str, Any] = {}
    for name in sliced.inputs:
        try:
            made[name] = given[name] if name in given else _made(sliced, name, dimensions, random, kind)
        except (ValueError, OverflowError, MemoryError) as error:
            raise Fail(f"no value can be made up for the input '{name}': {error}") from None
        if made[name] is None and name not in given:  # None that is given is an optional without a value
            raise Fail(
                f"no value can be made up for the input '{name}', which takes no tensor, nor do .npz files "
                "hold one: give a feed with it to ephost.bisect or ephost.compare"
            )
    return made


def _made(
    sliced: Sliced, name: str, dimensions: Mapping[str, int], random: np.random.Generator, kind: str
) -> Any:
    type_proto = sliced.types.get(name)
    if type_proto is None or type_proto.WhichOneof("value") != "tensor_type":
        return None
    tensor = type_proto.tensor_type
    shape = [dim.dim_value if _is_said(dim) else dimensions.get(dim.dim_param, 1) for dim in tensor.shape.dim]
    if tensor.elem_type == onnx.TensorProto.STRING:
        return np.array([f"text {n}" for n in random.integers(0, 10, shape).flat], dtype=object).reshape(
            shape
        )
    dtype = _dtype(tensor.elem_type)
    if dtype.kind in "iub" or dtype.name in ("int2", "int4", "uint2", "uint4"):
        return random.integers(0, 2, shape).astype(dtype)
    numbers = np.asarray(random.standard_normal(shape))
    if kind == "odd" and numbers.size:
        odd = np.array([0.0, -0.0, 1e-40, -3e-39, 1.0, -1.0, 40.0, -40.0, 0.5, 1e-7, 1e4])
        places = random.random(numbers.shape) < 0.5
        numbers = np.where(places, random.choice(odd, numbers.shape), numbers)
    return np.asarray(numbers + (1j * random.standard_normal(shape) if dtype.kind == "c" else 0)).astype(
        dtype
    )
