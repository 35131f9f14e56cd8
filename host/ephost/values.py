"""OrtValue: a tensor or other value in the host's own form, under onnxruntime's name."""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from typing import Any, Self

import numpy as np

from ephost import environment, interchange
from ephost._bindings import (
    NULL,
    abi_element_type,
    address,
    api,
    call,
    check,
    dtype_of,
    ffi,
    lib,
    onnx_element_type,
    text,
)
from ephost.arguments import dimensions, element_dtype, integer, of_type, several
from ephost.device_memory import Lease, Owner, SharedMemory, Transport, device_numbers, is_cpus
from ephost.devices import OrtDevice, OrtMemoryInfo, OrtSyncStream, cpu_device, device_name
from ephost.enums import OrtDeviceVendorId
from ephost.errors import InvalidArgument, NotImplemented
from ephost.messages import TensorProto
from ephost.sparse import SparseTensor

_KINDS = {0: "unknown", 1: "tensor", 2: "sequence", 3: "map", 4: "opaque", 5: "sparse", 6: "optional"}
_TENSOR, _SEQUENCE, _MAP = 1, 2, 3
_UINT8, _BOOL = 2, 9  # the ABI's element types
_PACKED = {21, 22, 23, 25, 26}  # onnx's element types of less than a byte


def type_name(element_type: int) -> str:
    """What onnxruntime calls an ``onnx.TensorProto.DataType``: ``float``, ``int64``, ``string``, ..."""
    return str(TensorProto.DataType.Name(element_type)).lower()


class _Capsule:
    """A raw DLPack capsule as an object that numpy takes."""

    def __init__(self, capsule: Any) -> None:
        self._capsule = capsule

    def __dlpack__(self, **_: Any) -> Any:
        return self._capsule

    def __dlpack_device__(self) -> tuple[int, int]:
        return 1, 0


class OrtValue:
    """A value that sessions take and give without a conversion. It owns its memory, or shares an array's."""

    def __init__(self, ortvalue: Any, numpy_obj: np.ndarray | None = None, session: Any = None) -> None:
        """Wrap a value; the class methods make values from data.

        Args:
            ortvalue: an OrtValue, whose data is shared; or a native value, which is taken over.
            numpy_obj: kept alive with the value.
            session: kept alive with the value.
        """
        self._memory: Transport | None = None  # where the value is, when that is a device's memory
        self._sparse: SparseTensor | None = None  # what the value stands for, when that is one
        self._is_read_only = False  # it shares the memory of an array that is
        if isinstance(ortvalue, OrtValue):
            self._pointer: Any = ortvalue._pointer
            self._memory = ortvalue._memory
            self._sparse = ortvalue._sparse
            self._is_read_only = ortvalue._is_read_only
        elif isinstance(ortvalue, ffi.CData):
            self._pointer = ffi.gc(ortvalue, api.ReleaseValue)
        else:
            raise ValueError(f"OrtValue wraps an OrtValue, not {type(ortvalue).__name__}")
        self._address = address(self._pointer)
        self._keeps = (numpy_obj, session)

    @classmethod
    def _from_address(cls, value: int) -> Self:
        return cls(ffi.cast("OrtValue*", value))

    @classmethod
    def _from_object(cls, value: Any) -> Self:
        made = cls._from_address(call.value_from_object(interchange.in_native_order(value)))
        if isinstance(value, np.ndarray) and not value.flags.writeable and value.dtype.kind not in "OUST":
            made._is_read_only = np.may_share_memory(call.value_to_object(made._address), value)
        return made

    @classmethod
    def _on_device(cls, pointer: Any, memory: Transport, owner: Owner, keeps: Any = None) -> Self:
        """A native value, which is taken over, in a device's memory; its owner keeps that until it goes."""
        made = cls(pointer)
        call.value_keep(made._address, Lease(owner, keeps))
        if not memory.is_on_host:
            made._memory = memory
        return made

    @classmethod
    def _over(
        cls,
        pointer: int,
        element_type: int,
        shape: Sequence[int],
        device: OrtDevice,
        keeps: Any,
        nbytes: int = 2**63 - 1,
    ) -> Self:
        """A tensor over memory at an address of a device; ``element_type`` is the ABI's. ``nbytes`` says how
        much is there, where that is known to others than the caller.
        """
        found = None if device._is_cpu() else memory_on(device)
        info = lib.ephost_get_cpu_memory_info() if found is None else found[0].info
        out, dims = ffi.new("OrtValue**"), [int(d) for d in shape]
        data = ffi.cast("void*", pointer)
        if found is not None and found[0].is_elsewhere and not lib.ephost_remote_knows(data):
            raise NotImplemented(
                f"the address {pointer:#x} is in no memory of {found[0].label}, which is isolated: what "
                "others have on its device is out of its process' reach"
            )
        check(api.CreateTensorWithDataAsOrtValue(info, data, nbytes, dims, len(dims), element_type, out))
        if found is not None:
            return cls._on_device(out[0], found[0], found[1], keeps)
        made = cls(out[0])
        call.value_keep(made._address, keeps)
        return made

    def _on_cpu(self) -> OrtValue:
        """The value itself, or a copy of one that is on a device."""
        if self._memory is None:
            return self
        made = OrtValue.ortvalue_from_shape_and_type(self.shape(), self.element_type())
        if self.tensor_size_in_bytes():
            self._memory.copy(self._pointer, made._pointer)
        return made

    def _get_c_value(self) -> Self:
        return self

    @property
    def _ortvalue(self) -> Self:
        # onnxruntime keeps its native value under this name, and programs pass it back.
        return self

    # ---- making ----

    @classmethod
    def ortvalue_from_numpy(
        cls,
        numpy_obj: np.ndarray,
        /,
        device_type: str | OrtDevice = "cpu",
        device_id: int = 0,
        vendor_id: int | OrtDeviceVendorId = -1,
    ) -> Self:
        """A tensor over an array's memory, which it keeps alive; a copy only when the array is not
        contiguous or its bytes are in another order than the machine's, or the tensor is to be on a device.
        Over an array that is read-only nothing writes to it.

        Raises:
            NotImplemented: a device that no registered execution provider has memory on.
            TypeError: an array of a dtype that ONNX has no type for.
            ValueError: lists of different lengths, which are no array.
        """
        device = _device(device_type, device_id, vendor_id)
        try:
            array = np.asarray(numpy_obj)
        except ValueError as error:
            raise ValueError(f"numpy_obj is no array: {error}") from None
        value = cls._from_object(array)
        return value if device._is_cpu() else value._to(device)

    @classmethod
    def ortvalue_from_numpy_with_onnx_type(cls, data: np.ndarray, /, onnx_element_type: int) -> Self:
        """A tensor over an array's memory whose bytes are read as another type of the same size (bfloat16 in
        uint16).

        Raises:
            TypeError: no array, or a type that is no number.
            InvalidArgument: no such type, or one of another size, or an array of objects.
        """
        of_type("the data", data, np.ndarray)
        number = integer("the onnx_element_type", onnx_element_type)
        dtype = dtype_of(number)
        if (
            dtype is None
            or data.dtype.hasobject
            or number in _PACKED
            or dtype.itemsize != data.dtype.itemsize
        ):
            raise InvalidArgument(
                f"an array of {data.dtype} ({data.dtype.itemsize} bytes an element) cannot be read as the "
                f"ONNX type {onnx_element_type}"
            )
        data = interchange.in_native_order(data)
        return cls.ortvalue_from_numpy(np.asarray(data, order="C").view(dtype))

    @classmethod
    def ortvalue_from_shape_and_type(
        cls,
        shape: Sequence[int],
        element_type: Any,
        device_type: str | OrtDevice = "cpu",
        device_id: int = 0,
        vendor_id: int | OrtDeviceVendorId = -1,
        memory_info: OrtMemoryInfo | None = None,
    ) -> Self:
        """An uninitialised tensor; ``element_type`` is a numpy dtype or an ``onnx.TensorProto.DataType``.

        Args:
            shape: the dimensions.
            element_type: what the elements are. Strings start empty.
            device_type: with ``device_id`` and ``vendor_id``, where the memory is.
            device_id: which device of that type.
            vendor_id: the vendor's PCI number, for ``gpu`` and ``npu``.
            memory_info: where the memory is, in place of these three.

        Raises:
            TypeError: a shape that is no list of ints, or a type that is neither of the two.
            InvalidArgument: an impossible shape or type.
            NotImplemented: a device that no registered execution provider has memory on.
        """
        if memory_info is not None:
            if (device_type, device_id, vendor_id) != ("cpu", 0, -1):
                warnings.warn(
                    "device_type, device_id and vendor_id are ignored when memory_info is given.",
                    stacklevel=2,
                )
            device = OrtDevice(
                int(memory_info.device_type),
                int(memory_info.device_mem_type),
                memory_info.device_vendor_id,
                memory_info.device_id,
            )
        else:
            device = _device(device_type, device_id, vendor_id)
        kind, dims = element_dtype("the element type", element_type), dimensions("the dimensions", shape)
        is_string = kind.kind in "OUST"
        if min(dims, default=0) < 0 or math.prod(d or 1 for d in dims) * kind.itemsize >= 1 << 63:
            raise InvalidArgument(f"there is no tensor of type {element_type!r} and shape {dims}")
        if not device._is_cpu():
            example = cls.ortvalue_from_numpy(np.empty(0, kind))
            return cls._allocate(dims, example.element_type(), device)
        made = np.full(dims, "", dtype=object) if is_string else np.empty(dims, dtype=kind)
        return cls.ortvalue_from_numpy(made)

    @classmethod
    def _allocate(cls, shape: Sequence[int], element_type: int, device: OrtDevice) -> Self:
        if element_type == TensorProto.STRING:
            raise InvalidArgument(
                "tensors of strings are only on the CPU: other memory takes non-string numpy arrays"
            )
        memory, registration = memory_on(device)
        made = memory.allocate([int(d) for d in shape], abi_element_type(element_type))
        return cls._on_device(made, memory, registration)

    def _moved(self, device: OrtDevice) -> OrtValue:
        """The value itself when it is on that device, else a copy there."""
        if device._is_cpu():
            return self._on_cpu()
        return self if self._memory is not None and self._memory.is_on(device._values) else self._to(device)

    def _to(self, device: OrtDevice) -> Self:
        made = self._allocate(self.shape(), self.element_type(), device)
        copy_tensors([self], [made])
        return made

    # The names that onnxruntime's native class has for the same.
    ortvalue_from_shape_and_onnx_type = ortvalue_from_shape_and_type

    @classmethod
    def ortvalue_from_shape_and_type_for_memory_info(
        cls, shape: Sequence[int], element_type: Any, memory_info: OrtMemoryInfo
    ) -> Self:
        """As :meth:`ortvalue_from_shape_and_type` with ``memory_info``."""
        return cls.ortvalue_from_shape_and_type(shape, element_type, memory_info=memory_info)

    ortvalue_from_shape_and_onnx_type_for_memory_info = ortvalue_from_shape_and_type_for_memory_info

    @classmethod
    def from_python(cls, value: Any) -> Self:
        """A value: an array makes a tensor, a list a sequence, a dict a map, None an empty optional.

        Raises:
            TypeError: something that ONNX has no type for.
        """
        return cls._from_object(value)

    @classmethod
    def ort_value_from_sparse_tensor(cls, sparse_tensor: SparseTensor) -> Self:
        """A value for a model's input of that sparse type. Sessions get it with its zeros filled in.

        Raises:
            TypeError: it is no SparseTensor.
        """
        if not isinstance(sparse_tensor, SparseTensor):
            raise TypeError(f"a SparseTensor is wanted, not {type(sparse_tensor).__name__}")
        made = cls.from_python(sparse_tensor._dense())
        made._sparse = sparse_tensor
        return made

    def as_sparse_tensor(self) -> SparseTensor:
        """The sparse tensor that it holds.

        Raises:
            InvalidArgument: it holds none.
        """
        if self._sparse is None:
            raise InvalidArgument(f"the value is {self.data_type()}, no sparse tensor")
        return self._sparse

    @classmethod
    def _sparse_again(cls, name: str, value: OrtValue) -> Self:
        """A dense output of a session as what its model says it is."""
        return cls.ort_value_from_sparse_tensor(SparseTensor._from_dense(name, value.numpy()))

    # ---- what it is ----

    def _view(self) -> Any:
        return _view_of(self._pointer)

    def _tensor_view(self, what: str) -> Any:
        view = self._view()
        if int(view.type) != _TENSOR:
            raise InvalidArgument(f"a value of kind {_KINDS[int(view.type)]} has no {what}")
        return view

    def has_value(self) -> bool:
        """False for an optional that holds nothing."""
        return int(self._view().type) not in (0, 6)

    def is_tensor(self) -> bool:
        """Whether it is a tensor, and no sparse one."""
        return int(self._view().type) == _TENSOR and self._sparse is None

    def is_tensor_sequence(self) -> bool:
        """Whether it is a sequence of tensors."""
        view = self._view()
        return int(view.type) == _SEQUENCE and not view.key_type

    def is_sparse_tensor(self) -> bool:
        """Whether it is a sparse tensor."""
        return self._sparse is not None

    def shape(self) -> list[int]:
        """The dimensions of a tensor.

        Raises:
            InvalidArgument: it is no tensor.
        """
        view = self._tensor_view("shape")
        return [int(view.dims[i]) for i in range(view.rank)]

    def element_type(self) -> int:
        """The ``onnx.TensorProto.DataType`` of the elements of a tensor, or of those of a sequence's tensors.

        Raises:
            InvalidArgument: it is neither.
        """
        view = self._view()
        if int(view.type) == _SEQUENCE:
            if view.key_type:
                raise InvalidArgument("a sequence of maps has no element type")
            if view.item_count:
                view = _view_of(lib.ephost_value_item(self._pointer, 0))
            return onnx_element_type(int(view.element_type))
        return onnx_element_type(int(self._tensor_view("element type").element_type))

    def data_type(self) -> str:
        """The type as onnxruntime writes it: ``tensor(float)``, ``seq(tensor(int64))``,
        ``map(string,tensor(float))``, ``seq(map(int64,tensor(float)))``.
        """
        return self._sparse.data_type() if self._sparse is not None else _type_text(self._pointer)

    def data_ptr(self) -> int:
        """The address of the first element.

        Raises:
            InvalidArgument: it is no tensor, or one of strings.
        """
        view = self._tensor_view("address")
        if onnx_element_type(int(view.element_type)) == TensorProto.STRING:
            raise InvalidArgument("a tensor of strings has no address")
        return address(view.data)

    def tensor_size_in_bytes(self) -> int:
        """Bytes of the elements.

        Raises:
            InvalidArgument: it is no tensor.
        """
        return int(self._tensor_view("size").nbytes)

    def device_name(self) -> str:
        """Where the memory is, in onnxruntime's words: ``cpu``, ``npu``, ``fpga``, or for a GPU what goes
        with its vendor, see :data:`ephost.devices.GPU_NAMES`.
        """
        info = self._view().memory_info
        if info == NULL:
            return "cpu"
        kind, _, vendor, _ = device_numbers(info)
        return device_name(kind, vendor)

    def memory_name(self) -> str:
        """The name of the memory as its allocator gives it, such as ``Cpu``."""
        info = self._view().memory_info
        out = ffi.new("char**")
        if info == NULL:
            return ""
        check(api.MemoryInfoGetName(info, out))
        return text(out[0])

    # ---- to and from others ----

    def numpy(self) -> Any:
        """The value as numpy has it: an array, a list, a dict, or None. An array shares memory on the CPU,
        and is a copy of what is on a device. Over an array that is read-only it is read-only.

        Raises:
            InvalidArgument: it is a sparse tensor.
        """
        if self._sparse is not None:
            raise InvalidArgument("a sparse tensor is no array: take as_sparse_tensor()")
        here = self._on_cpu()  # alive until its memory is shared
        found = call.value_to_object(here._address)
        if self._is_read_only:
            found = found.view()
            found.flags.writeable = False
        return found

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        if not self.is_tensor():
            raise InvalidArgument(f"a value of type {self.data_type()} is no array")
        array: np.ndarray = self.numpy()
        if copy is not None:
            return np.array(array, dtype=dtype, copy=copy)
        return np.asarray(array, dtype=dtype)

    def _device(self) -> OrtDevice:
        info = self._view().memory_info
        return cpu_device() if info == NULL else OrtDevice(*device_numbers(info))

    def __dlpack__(
        self,
        *,
        stream: Any = None,
        max_version: tuple[int, int] | None = None,
        dl_device: tuple[int, int] | None = None,
        copy: bool | None = None,
    ) -> Any:
        # Whatever the consumer's stream is: when the value is at hand, what made it has ended.
        here = self.__dlpack_device__()
        if self._memory is not None and self._memory.is_elsewhere:
            raise NotImplemented(
                f"__dlpack__: the value is in the memory of {self._memory.label}, which is isolated: nobody "
                "in this process can read it there. Take numpy()"
            )
        value: OrtValue = self
        if dl_device is not None and tuple(dl_device) != here:
            if copy is False or tuple(dl_device) != (interchange.CPU, 0):
                raise BufferError(f"the value is on DLPack's device {here}, not on {tuple(dl_device)}")
            value, here = self._on_cpu(), (interchange.CPU, 0)
        elif copy:
            value = OrtValue.ortvalue_from_shape_and_type(self.shape(), self.element_type(), self._device())
            copy_tensors([self], [value])
        return interchange.give(value, here, max_version is not None and max_version[0] >= 1)

    def __dlpack_device__(self) -> tuple[int, int]:
        self._tensor_view("DLPack form")
        return interchange.dlpack_device(self._device())

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        """The memory of a tensor on an NVIDIA GPU, for CuPy, Numba, torch and others. Only such a tensor has
        this.
        """
        is_elsewhere = self._memory is not None and self._memory.is_elsewhere
        if self.is_tensor() and not is_elsewhere and self.__dlpack_device__()[0] == interchange.CUDA:
            dtype = dtype_of(self.element_type())
            if dtype is not None and dtype.kind in "biufc" and self.element_type() not in _PACKED:
                pointer = self.data_ptr() if self.tensor_size_in_bytes() else 0
                shape = tuple(self.shape())
                return {
                    "shape": shape,
                    "typestr": dtype.str,
                    "data": (pointer, False),
                    "version": 3,
                    "strides": None,
                    "stream": None,  # whoever made the value has ended
                }
        raise AttributeError("only a tensor on an NVIDIA GPU has a CUDA array interface")

    def to_dlpack(self) -> Any:
        """A DLPack capsule over the tensor's memory, which it keeps alive.

        Raises:
            InvalidArgument: it is no tensor.
            NotImplemented: elements that DLPack has no type for.
        """
        return self.__dlpack__()

    @classmethod
    def from_dlpack(cls, data: Any, /, is_bool_tensor: bool = False) -> Self:
        """A tensor over the memory of an object with ``__dlpack__``, or of a raw capsule. Nothing is copied,
        except what is not contiguous.

        On a device the elements must be there already: the host waits for no stream of the producer's.

        Args:
            data: from numpy, torch, jax, CuPy...
            is_bool_tensor: a raw capsule of uint8 holds booleans.

        Raises:
            TypeError: it is neither.
            NotImplemented: no registered execution provider has memory on its device, ONNX has no type for
                its elements, or it is not contiguous there.
        """
        is_capsule = interchange.is_capsule(data)
        if not is_capsule and not (hasattr(data, "__dlpack__") and hasattr(data, "__dlpack_device__")):
            kind = type(data).__name__
            raise TypeError(f"from_dlpack takes an object with __dlpack__, or a capsule, not {kind}")
        where = call.dlpack_device(data) if is_capsule else data.__dlpack_device__()
        if where[0] in interchange.REACHABLE:
            try:
                is_read_only = is_capsule and call.dlpack_is_read_only(data)
                array = np.from_dlpack(_Capsule(data) if is_capsule else data)
            except (BufferError, RuntimeError, ValueError):
                pass  # numpy has no type for it (bfloat16 and its like), or knows no versions of DLPack
            else:
                is_bool = is_bool_tensor and array.dtype == np.uint8
                made = cls.ortvalue_from_numpy(array.view(np.bool_) if is_bool else array)
                if not is_read_only and not isinstance(data, (np.ndarray, OrtValue)):
                    made._is_read_only = False  # numpy made it up
                return made
        try:
            taken = interchange.take(data)
        except BufferError as error:
            raise NotImplemented(f"there is no tensor over this DLPack tensor: {error}") from error
        return cls._taken(taken, is_bool_tensor)

    @classmethod
    def _taken(cls, taken: interchange.Taken, is_bool_tensor: bool = False) -> Self:
        element_type = _BOOL if is_bool_tensor and taken.element_type == _UINT8 else taken.element_type
        made = cls._over(taken.address, element_type, taken.shape, taken.device, taken.owner)
        made._is_read_only = taken.is_read_only
        return made

    @classmethod
    def from_cuda_array_interface(cls, data: Any, device_id: int = 0) -> Self:
        """A tensor over the memory of an object with ``__cuda_array_interface__``. Nothing is copied. A name
        of ephost's own.

        The elements must be there already: the host waits for no stream.

        Args:
            data: from CuPy, Numba, torch...
            device_id: the number of the GPU, which the interface does not say; ``from_dlpack`` knows it.

        Raises:
            InvalidArgument: it is masked, not contiguous, or ONNX has no type for its elements.
            NotImplemented: no registered execution provider has memory on that GPU.
        """
        return cls._taken(interchange.cuda_array(data, device_id))

    @classmethod
    def _of_device(cls, data: Any) -> Self | None:
        """A tensor over what somebody else has on a device; None for what is not on one."""
        if hasattr(data, "__dlpack__") and hasattr(data, "__dlpack_device__"):
            return cls.from_dlpack(data) if data.__dlpack_device__()[0] not in interchange.REACHABLE else None
        return cls.from_cuda_array_interface(data) if hasattr(data, "__cuda_array_interface__") else None

    def update_inplace(self, data: np.ndarray | OrtValue) -> None:
        """Overwrite a tensor's elements; its memory stays where it is.

        Raises:
            InvalidArgument: another dtype or shape (of an array: another number of elements), or the value is
                over an array that is read-only.
            TypeError: neither an array nor an OrtValue.
        """
        if isinstance(data, np.ndarray):
            fits = self.is_tensor() and data.size == math.prod(self.shape())
            data = OrtValue.ortvalue_from_numpy(data.reshape(self.shape()) if fits else data)
        elif not isinstance(data, OrtValue):
            raise TypeError("data must be a numpy.ndarray or an OrtValue.")
        if not (self.is_tensor() and data.is_tensor() and _alike(self, data)):
            raise InvalidArgument(f"the value is {self._described()}; the data is {data._described()}")
        if self.element_type() in {TensorProto.STRING, *_PACKED}:
            raise NotImplemented(f"{self.data_type()} cannot be updated in place")
        _copy(data, self, NULL)

    def _described(self) -> str:
        return self.data_type() + (f" of shape {self.shape()}" if self.is_tensor() else "")

    def __repr__(self) -> str:
        return f"OrtValue({self.data_type()}{f', shape={self.shape()}' if self.is_tensor() else ''})"


call.set_value_type(OrtValue)


def _view_of(pointer: Any) -> Any:
    """What the host tells of a value at an address: ``EphostValueView``."""
    out = ffi.new("EphostValueView*")
    lib.ephost_value_view(pointer, out)
    return out


def _type_text(pointer: Any) -> str:
    """The type of a value at an address as onnxruntime writes it."""
    view = _view_of(pointer)
    kind = int(view.type)
    if view.key_type:
        key, mapped = (type_name(onnx_element_type(int(each))) for each in (view.key_type, view.mapped_type))
        return f"map({key},tensor({mapped}))" if kind == _MAP else f"seq(map({key},tensor({mapped})))"
    if kind == _SEQUENCE:
        if view.item_count:
            return f"seq({_type_text(lib.ephost_value_item(pointer, 0))})"
        element_type = onnx_element_type(int(view.element_type))
        return f"seq(tensor({type_name(element_type)}))" if element_type else "seq"
    if kind == _TENSOR:
        return f"tensor({type_name(onnx_element_type(int(view.element_type)))})"
    return _KINDS[kind]


def _device(device: str | OrtDevice, device_id: int, vendor_id: int) -> OrtDevice:
    if isinstance(device, OrtDevice):
        return device
    return OrtDevice.make(of_type("the device's type", device, str).lower(), device_id, vendor_id)


def memory_on(device: OrtDevice) -> tuple[SharedMemory, environment.Registration]:
    """The memory of a device other than the CPU, and what it belongs to.

    Raises:
        NotImplemented: no registered execution provider has memory there.
    """
    found = environment.find_memory(device._values)
    if found is None:
        raise NotImplemented(
            f"No shared allocator found for {device!r}: no registered execution provider has memory there"
        )
    return found


def _alike(one: OrtValue, other: OrtValue) -> bool:
    return one.element_type() == other.element_type() and one.shape() == other.shape()


def _of_cpu(value: OrtValue) -> OrtValue:
    """The value; one in memory that a device shares with the CPU as if the memory were the CPU's alone."""
    return (
        value if value._memory is not None or is_cpus(value._pointer) else OrtValue.from_python(value.numpy())
    )


def writable(value: OrtValue) -> OrtValue:
    """The value, unless it is over an array that is read-only.

    Raises:
        InvalidArgument: it is.
    """
    if value._is_read_only:
        raise InvalidArgument(f"{value!r} is over an array that is read-only: it cannot be written to")
    return value


def _copy(source: OrtValue, target: OrtValue, stream: Any) -> None:
    source, target = _of_cpu(source), _of_cpu(writable(target))
    here, there = source._memory, target._memory
    if not source.tensor_size_in_bytes():
        return
    if here is None and there is None:
        target.numpy()[...] = source.numpy()
    elif here is None or (there is not None and there.can_copy(here.info, there.info)):
        assert there is not None
        there.copy(source._pointer, target._pointer, stream)
    elif there is None:
        here.copy(source._pointer, target._pointer, stream)
    else:  # from one execution provider's device to another's
        there.copy(source._on_cpu()._pointer, target._pointer)


def copy_tensors(
    src: Sequence[OrtValue], dst: Sequence[OrtValue], stream: OrtSyncStream | None = None
) -> None:
    """Copy the elements of tensors into others of the same types and shapes, from and to any device.

    Args:
        src: the sources.
        dst: as many destinations.
        stream: where a device's copies are queued; the caller waits for it. None: they are done on return.

    Raises:
        InvalidArgument: not as many of the one as of the other, or a pair that does not fit.
        EPFail and others: the plugin's error.
    """
    src, dst = several("the sources", src), several("the destinations", dst)
    if len(src) != len(dst):
        raise InvalidArgument(f"copy_tensors has {len(src)} sources and {len(dst)} destinations")
    if stream is not None:
        of_type("stream", stream, OrtSyncStream)
    for source, target in zip(src, dst, strict=True):
        of_type("a source", source, OrtValue)
        of_type("a destination", target, OrtValue)
        if stream is None or (source._memory is None and target._memory is None):
            target.update_inplace(source)
        elif _alike(source, target):
            _copy(source, target, stream._pointer)
        else:
            raise InvalidArgument(f"copy_tensors cannot copy {source!r} into {target!r}")


def over_memory(pointer: int, element_type: Any, shape: Sequence[int], device: OrtDevice) -> OrtValue:
    """A tensor over memory of the caller's, which must outlive it.

    Args:
        pointer: the address of the first element, as the device knows it.
        element_type: a numpy dtype or an ``onnx.TensorProto.DataType``.
        shape: the dimensions.
        device: where the memory is.

    Raises:
        InvalidArgument: an impossible type or shape, or NULL for a tensor that has elements.
        NotImplemented: no registered execution provider has memory on that device.
    """
    dtype, shape = element_dtype("the element type", element_type), dimensions("the dimensions", shape)
    if dtype.kind in "OUST" or not all(0 <= d < 1 << 63 for d in shape):
        raise InvalidArgument(f"there is no tensor of type {element_type!r} and shape {shape} over memory")
    if 0 in shape:
        return OrtValue.ortvalue_from_numpy(np.empty(shape, dtype), device)
    if not pointer:
        raise InvalidArgument("the memory of a tensor cannot be at address 0")
    example = OrtValue.ortvalue_from_numpy(np.empty(0, dtype))
    return OrtValue._over(pointer, abi_element_type(example.element_type()), shape, device, None)
