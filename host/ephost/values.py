"""OrtValue: a tensor or other value in the host's own form, under onnxruntime's name."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx

from ephost._bindings import NULL, address, all_dtypes, api, call, check, ffi, lib, onnx_element_type, text
from ephost.errors import InvalidArgument

_KINDS = {0: "unknown", 1: "tensor", 2: "sequence", 3: "map", 4: "opaque", 5: "sparse", 6: "optional"}


def type_name(element_type: int) -> str:
    """What onnxruntime calls an ``onnx.TensorProto.DataType``: ``float``, ``int64``, ``string``, ..."""
    return str(onnx.TensorProto.DataType.Name(element_type)).lower()


class OrtValue:
    """A value that sessions take and give without a conversion. It owns its memory, or shares an array's."""

    def __init__(self, pointer: Any) -> None:
        self._pointer = ffi.gc(pointer, api.ReleaseValue)
        self._address = address(pointer)

    @classmethod
    def _from_address(cls, value: int) -> OrtValue:
        return cls(ffi.cast("OrtValue*", value))

    @classmethod
    def ortvalue_from_numpy(
        cls, numpy_obj: np.ndarray, device_type: str = "cpu", device_id: int = 0
    ) -> OrtValue:
        """A tensor over an array's memory, which it keeps alive; copied only when it is not contiguous.

        Raises:
            NotImplemented: a device other than the CPU.
            TypeError: an array of a dtype that ONNX has no type for.
        """
        if device_type.lower() != "cpu" or device_id != 0:
            raise NotImplementedError(
                f"values on {device_type}:{device_id} are not implemented: only cpu:0 is"
            )
        all_dtypes()
        return cls._from_address(call.value_from_object(np.asarray(numpy_obj)))

    @classmethod
    def ortvalue_from_shape_and_type(
        cls, shape: Sequence[int], element_type: Any, device_type: str = "cpu", device_id: int = 0
    ) -> OrtValue:
        """An uninitialised tensor; ``element_type`` is a numpy dtype or an ``onnx.TensorProto.DataType``.

        Raises:
            InvalidArgument: an impossible shape or type.
        """
        by_number = isinstance(element_type, int)
        kind = all_dtypes().get(element_type) if by_number else np.dtype(element_type)
        if kind is None or any(d < 0 for d in shape):
            raise InvalidArgument(f"there is no tensor of type {element_type!r} and shape {list(shape)}")
        return cls.ortvalue_from_numpy(np.empty(tuple(shape), dtype=kind), device_type, device_id)

    def _view(self) -> Any:
        out = ffi.new("EphostValueView*")
        lib.ephost_value_view(self._pointer, out)
        return out

    def has_value(self) -> bool:
        """False for an optional that holds nothing."""
        return int(self._view().type) not in (0, 6)

    def is_tensor(self) -> bool:
        """Whether it is a tensor."""
        return int(self._view().type) == 1

    def is_tensor_sequence(self) -> bool:
        """Whether it is a sequence of tensors."""
        return int(self._view().type) == 2

    def is_sparse_tensor(self) -> bool:
        """Never: the host has no sparse tensors."""
        return False

    def shape(self) -> list[int]:
        """The dimensions of a tensor.

        Raises:
            InvalidArgument: it is no tensor.
        """
        view = self._view()
        if int(view.type) != 1:
            raise InvalidArgument(f"a value of kind {_KINDS[int(view.type)]} has no shape")
        return [int(view.dims[i]) for i in range(view.rank)]

    def element_type(self) -> int:
        """The ``onnx.TensorProto.DataType`` of a tensor's elements."""
        return onnx_element_type(int(self._view().element_type))

    def data_type(self) -> str:
        """The type as onnxruntime writes it: ``tensor(float)``."""
        view = self._view()
        if int(view.type) == 1:
            return f"tensor({type_name(self.element_type())})"
        if int(view.type) == 2 and view.item_count:
            item = ffi.new("EphostValueView*")
            lib.ephost_value_view(lib.ephost_value_item(self._pointer, 0), item)
            return f"seq(tensor({type_name(onnx_element_type(int(item.element_type)))}))"
        return _KINDS[int(view.type)]

    def data_ptr(self) -> int:
        """The address of the first element."""
        return address(self._view().data)

    def tensor_size_in_bytes(self) -> int:
        """Bytes of the elements."""
        return int(self._view().nbytes)

    def device_name(self) -> str:
        """Where the memory is: ``cpu``, ``gpu`` or ``npu``."""
        info = self._view().memory_info
        out = ffi.new("OrtMemoryInfoDeviceType*")
        if info == NULL:
            return "cpu"
        api.MemoryInfoGetDeviceType(info, out)
        return {0: "cpu", 1: "gpu", 2: "fpga", 3: "npu"}.get(int(out[0]), "?")

    def memory_name(self) -> str:
        """The name of the memory as its allocator gives it, such as ``Cpu``."""
        info = self._view().memory_info
        out = ffi.new("char**")
        if info == NULL:
            return ""
        check(api.MemoryInfoGetName(info, out))
        return text(out[0])

    def numpy(self) -> Any:
        """The value as numpy has it: an array (sharing the memory), a list, a dict, or None."""
        all_dtypes()
        return call.value_to_object(self._address)

    def update_inplace(self, np_arr: np.ndarray) -> None:
        """Overwrite a tensor's elements.

        Raises:
            InvalidArgument: another shape or dtype.
        """
        target = self.numpy()
        if not isinstance(target, np.ndarray) or target.shape != np_arr.shape or target.dtype != np_arr.dtype:
            raise InvalidArgument(
                f"the value is {self.data_type()} of shape {self.shape()}; the array is {np_arr.dtype} of "
                f"shape {list(np_arr.shape)}"
            )
        target[...] = np_arr

    def __repr__(self) -> str:
        return (
            f"OrtValue({self.data_type()}, shape={self.shape()})"
            if self.is_tensor()
            else f"OrtValue({self.data_type()})"
        )
