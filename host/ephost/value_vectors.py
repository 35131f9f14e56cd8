"""OrtValueVector: a list of values under onnxruntime's name."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from ephost.devices import OrtDevice
from ephost.values import OrtValue, over_memory


class OrtValueVector(list[OrtValue]):
    """A list of values, with the methods of onnxruntime's native vector."""

    def push_back(self, value: Any, is_bool_tensor: bool = False) -> None:
        """Append an OrtValue, or the tensor of a DLPack capsule."""
        self.append(value if isinstance(value, OrtValue) else OrtValue.from_dlpack(value, is_bool_tensor))

    def push_back_batch(
        self,
        torch_tensors: Sequence[Any],
        data_ptrs: Sequence[int],
        element_types: Sequence[Any],
        shapes: Sequence[Sequence[int]],
        devices: Sequence[OrtDevice],
    ) -> None:
        """Append tensors over memory of others; ``torch_tensors`` own it and are kept alive.

        Raises:
            NotImplemented: no registered execution provider has memory on one of the devices.
        """
        rows = zip(torch_tensors, data_ptrs, element_types, shapes, devices, strict=True)
        for owner, pointer, element_type, shape, device in rows:
            value = over_memory(pointer, element_type, shape, device)
            self.append(OrtValue(value, owner))

    def reserve(self, count: int) -> None:
        """Nothing to do: a list grows by itself."""

    def shrink_to_fit(self) -> None:
        """Nothing to do."""

    def bool_tensor_indices(self) -> list[int]:
        """Which of the values are tensors of booleans."""
        return [at for at, value in enumerate(self) if value.data_type() == "tensor(bool)"]

    def element_type_at(self, idx: int) -> int:
        """The ``onnx.TensorProto.DataType`` of a value's elements."""
        return self[idx].element_type()

    def dlpack_at(self, idx: int) -> Any:
        """A value's DLPack capsule."""
        return self[idx].to_dlpack()

    def to_dlpacks(self, to_tensor: Callable[[Any], Any] | None) -> list[Any]:
        """The capsules of all values, or what ``to_tensor`` makes of them."""
        capsules: Iterable[Any] = (value.to_dlpack() for value in self)
        return [to_tensor(capsule) if to_tensor else capsule for capsule in capsules]
