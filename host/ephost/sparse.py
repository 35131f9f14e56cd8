"""Sparse tensors at the border of a session, under onnxruntime's names.

A session computes on dense tensors: what a caller feeds as a sparse one is filled in, and an output that the
model declares sparse is taken apart again.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Self

import numpy as np

from ephost.arguments import dimensions, integer, of_type, short
from ephost.devices import OrtDevice
from ephost.enums import OrtSparseFormat
from ephost.errors import InvalidArgument, InvalidGraph, NotImplemented
from ephost.message_helpers import element_type_of
from ephost.messages import TensorProto


class SparseCooView:
    """The indices of a sparse tensor in coordinates."""

    def __init__(self, indices: np.ndarray) -> None:
        self._indices = indices

    def indices(self) -> np.ndarray:
        """int64 [N]: positions in the flat dense tensor; or [N, 2]: row and column. Read-only."""
        return self._indices


class SparseCsrView:
    """The indices of a sparse matrix by rows."""

    def __init__(self, inner: np.ndarray, outer: np.ndarray) -> None:
        self._inner, self._outer = inner, outer

    def inner(self) -> np.ndarray:
        """int64 [N]: the column of each value. Read-only."""
        return self._inner

    def outer(self) -> np.ndarray:
        """int64 [rows + 1]: where the values of each row begin. Read-only."""
        return self._outer


class SparseBlockSparseView:
    """The indices of a sparse matrix of blocks."""

    def __init__(self, indices: np.ndarray) -> None:
        self._indices = indices

    def indices(self) -> np.ndarray:
        """int32 [2, N]: the row and the column of each block. Read-only."""
        return self._indices


class SparseTensor:
    """Values of a tensor, and where they are in it; all others are 0. Made by its class methods."""

    _format: OrtSparseFormat
    _shape: tuple[int, ...]
    _values: np.ndarray
    _indices: tuple[np.ndarray, ...]

    def __init__(self, sparse_tensor: SparseTensor) -> None:
        """The same tensor.

        Raises:
            ValueError: it is no SparseTensor.
        """
        if not isinstance(sparse_tensor, SparseTensor):
            raise ValueError(f"SparseTensor wraps a SparseTensor, not {type(sparse_tensor).__name__}")
        self.__dict__.update(sparse_tensor.__dict__)

    def _get_c_tensor(self) -> Self:
        return self

    @classmethod
    def _of(
        cls,
        kind: OrtSparseFormat,
        shape: Sequence[int],
        values: np.ndarray,
        indices: Sequence[np.ndarray],
        device: OrtDevice | None,
    ) -> Self:
        if device is not None and not of_type("ort_device", device, OrtDevice)._is_cpu():
            raise NotImplemented("sparse tensors are only on the CPU")
        made = cls.__new__(cls)
        made._format = kind
        dims = dimensions("the dimensions of a sparse tensor", shape)
        made._shape = tuple(integer("a dimension of a sparse tensor", d, 0, 2**63 - 1) for d in dims)
        made._values = _read_only(_of_elements(values))
        made._indices = tuple(_read_only(array) for array in indices)
        return made

    @classmethod
    def sparse_coo_from_numpy(
        cls, dense_shape: Sequence[int], values: np.ndarray, coo_indices: np.ndarray, ort_device: OrtDevice
    ) -> Self:
        """A tensor of values and their coordinates.

        Args:
            dense_shape: the dimensions.
            values: [N], of any type.
            coo_indices: int64 [N], positions in the flat tensor; or, of a matrix, [N, 2] or flat 2 N, rows
                and columns.
            ort_device: the CPU.

        Raises:
            InvalidArgument: not as many of the one as of the other, or an index beyond the shape.
            NotImplemented: another device.
        """
        indices = _positions("coo_indices", coo_indices)
        made = cls._of(OrtSparseFormat.ORT_SPARSE_COO, dense_shape, values, [indices], ort_device)
        if indices.ndim == 1 and len(made._shape) == 2 and indices.size == 2 * values.size != 0:
            indices = indices.reshape(-1, 2)
            made._indices = (_read_only(indices),)
        if (
            values.ndim != 1
            or not indices.ndim
            or len(indices) != len(values)
            or indices.shape[1:] not in ((), (2,))
        ):
            raise InvalidArgument(f"{values.size} values have the indices {list(indices.shape)}")
        made._check(made._flat_indices(), math.prod(made._shape), "the tensor")
        return made

    @classmethod
    def sparse_csr_from_numpy(
        cls,
        dense_shape: Sequence[int],
        values: np.ndarray,
        inner_indices: np.ndarray,
        outer_indices: np.ndarray,
        ort_device: OrtDevice,
    ) -> Self:
        """A matrix of values by rows.

        Args:
            dense_shape: rows and columns.
            values: [N], of any type.
            inner_indices: int64 [N], the column of each value.
            outer_indices: int64 [rows + 1], where the values of each row begin; or [0], where there are none.
            ort_device: the CPU.

        Raises:
            InvalidArgument: shapes that do not fit each other, or an index beyond the shape.
            NotImplemented: another device.
        """
        inner = _positions("inner_indices", inner_indices)
        outer = _positions("outer_indices", outer_indices)
        made = cls._of(OrtSparseFormat.ORT_SPARSE_CSRC, dense_shape, values, [inner, outer], ort_device)
        is_empty = not values.size and outer.shape == (0,)  # as onnxruntime takes it
        rows = None if len(made._shape) != 2 else made._shape[0]
        if rows is None or inner.shape != values.shape or (outer.shape != (rows + 1,) and not is_empty):
            raise InvalidArgument(
                f"a matrix of shape {list(made._shape)} and {values.size} values has the indices "
                f"{list(inner.shape)} and {list(outer.shape)}"
            )
        if is_empty:
            return made
        made._check(inner, made._shape[1], "a row")
        if outer[0] != 0 or outer[-1] != values.size or (np.diff(outer) < 0).any():
            raise InvalidArgument("the rows of a sparse matrix begin at 0, end with the values, and ascend")
        return made

    @classmethod
    def blocksparse_from_numpy(
        cls,
        dense_shape: Sequence[int],
        values: np.ndarray,
        block_indices: np.ndarray,
        ort_device: OrtDevice,
    ) -> Self:
        """A matrix of blocks.

        Args:
            dense_shape: rows and columns.
            values: [N, block rows, block columns], of any type.
            block_indices: int32 [2, N], rows and columns of blocks.
            ort_device: the CPU.

        Raises:
            InvalidArgument: shapes that do not fit each other.
            NotImplemented: another device.
        """
        indices = _positions("block_indices", block_indices)
        made = cls._of(OrtSparseFormat.ORT_SPARSE_BLOCK_SPARSE, dense_shape, values, [indices], ort_device)
        if len(made._shape) != 2 or values.ndim != 3 or indices.shape != (2, len(values)):
            raise InvalidArgument(
                f"blocks of shape {list(values.shape)} have indices of shape {list(indices.shape)}"
            )
        for axis in range(2):
            made._check(indices[axis], made._shape[axis] // max(values.shape[1 + axis], 1), "the matrix")
        made._indices = (_read_only(indices.astype(np.int32)),)
        return made

    @classmethod
    def _from_dense(cls, name: str, array: Any) -> Self:
        """What a run made of an output that the model declares sparse.

        Raises:
            InvalidGraph: it is no tensor.
        """
        if not isinstance(array, np.ndarray):
            kind = "a map" if isinstance(array, dict) else "nothing" if array is None else "a sequence"
            raise InvalidGraph(f"the output '{name}' is declared a sparse tensor, and its node made {kind}")
        flat = array.reshape(-1)
        indices = np.flatnonzero(flat != ("" if array.dtype == object else 0))
        return cls._of(OrtSparseFormat.ORT_SPARSE_COO, array.shape, flat[indices], [indices], None)

    @staticmethod
    def _check(indices: np.ndarray, limit: int, what: str) -> None:
        if indices.size and not (indices.min() >= 0 and indices.max() < limit):
            raise InvalidArgument(f"an index is outside of {what} ({limit} positions)")

    def _flat_indices(self) -> np.ndarray:
        indices = self._indices[0]
        if indices.ndim == 1:
            return indices
        if len(self._shape) != 2:
            raise InvalidArgument(f"rows and columns are of a matrix, not of the shape {list(self._shape)}")
        rows, columns = indices[:, 0], indices[:, 1]
        self._check(columns, self._shape[-1], "a row")
        return np.asarray(rows * self._shape[-1] + columns)

    def _dense(self) -> np.ndarray:
        """The tensor with all its zeros (of text: empty strings)."""
        is_text = self._values.dtype == object
        dense = np.full(self._shape, "" if is_text else 0, self._values.dtype)
        if self._format == OrtSparseFormat.ORT_SPARSE_COO:
            dense.reshape(-1)[self._flat_indices()] = self._values
        elif self._format == OrtSparseFormat.ORT_SPARSE_CSRC:
            inner, outer = self._indices
            if not inner.size:
                return dense
            dense[np.repeat(np.arange(self._shape[0]), np.diff(outer)), inner] = self._values
        else:
            height, width = self._values.shape[1:]
            for block, row, column in zip(self._values, *self._indices[0], strict=True):
                dense[row * height : (row + 1) * height, column * width : (column + 1) * width] = block
        return dense

    def values(self) -> np.ndarray:
        """The values; read-only."""
        return self._values

    def as_coo_view(self) -> SparseCooView:
        """The indices in coordinates.

        Raises:
            InvalidArgument: it is of another format.
        """
        return SparseCooView(*self._indices_of(OrtSparseFormat.ORT_SPARSE_COO))

    def as_csrc_view(self) -> SparseCsrView:
        """The indices by rows.

        Raises:
            InvalidArgument: it is of another format.
        """
        return SparseCsrView(*self._indices_of(OrtSparseFormat.ORT_SPARSE_CSRC))

    def as_blocksparse_view(self) -> SparseBlockSparseView:
        """The indices of blocks.

        Raises:
            InvalidArgument: it is of another format.
        """
        return SparseBlockSparseView(*self._indices_of(OrtSparseFormat.ORT_SPARSE_BLOCK_SPARSE))

    get_coo_data = as_coo_view  # the names of onnxruntime's native class
    get_csrc_data = as_csrc_view
    get_blocksparse_data = as_blocksparse_view

    def _indices_of(self, kind: OrtSparseFormat) -> tuple[np.ndarray, ...]:
        if self._format != kind:
            raise InvalidArgument(f"the sparse tensor is of the format {self._format.name}, not {kind.name}")
        return self._indices

    def to_cuda(self, ort_device: OrtDevice) -> SparseTensor:
        """Refused: sparse tensors are only on the CPU.

        Raises:
            NotImplemented: always.
        """
        raise NotImplemented("sparse tensors are only on the CPU")

    def format(self) -> OrtSparseFormat:
        """How its indices are written."""
        return self._format

    def dense_shape(self) -> list[int]:
        """The dimensions with all zeros."""
        return list(self._shape)

    def data_type(self) -> str:
        """The type as onnxruntime writes it: ``sparse_tensor(float)``."""
        kind = self._values.dtype
        is_text = kind.kind == "O"
        number = TensorProto.STRING if is_text else element_type_of(kind)
        return f"sparse_tensor({str(TensorProto.DataType.Name(number)).lower()})"

    def device_name(self) -> str:
        """Where its memory is: ``cpu``."""
        return "cpu"

    def __repr__(self) -> str:
        return f"SparseTensor({self.data_type()}, {self._values.size} values of {self.dense_shape()})"


def _of_elements(values: Any) -> np.ndarray:
    """Values of a sparse tensor, of which each is an element of a tensor; texts as objects."""
    array = of_type("the values of a sparse tensor", values, np.ndarray)
    if array.dtype.kind == "S":
        array = array.astype(str)
    if array.dtype.kind in "OUT":
        for text in (array := array.astype(object)).flat:
            of_type("a value of a sparse tensor of objects", text, str)
        return array
    try:
        element_type_of(array.dtype)
    except (KeyError, ValueError):
        raise TypeError(f"ONNX has no type for the values of a sparse tensor of {array.dtype}") from None
    return array


def _positions(what: str, indices: Any) -> np.ndarray:
    """Indices as an array of int64."""
    try:
        return np.asarray(indices, np.int64)
    except (TypeError, ValueError, OverflowError):
        raise TypeError(f"{what} are an array of integers, not {short(indices)}") from None


def _read_only(array: Any) -> np.ndarray:
    view = np.asarray(array).view()
    view.flags.writeable = False
    return view
