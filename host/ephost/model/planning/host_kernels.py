"""Nodes that nobody claimed and the host runs in C: what the ABI has no form for, and is worth the speed."""

from __future__ import annotations

from typing import Any

import numpy as np

from ephost._bindings import NULL, abi_element_type, api, call, check, ffi, lib
from ephost.messages import TensorProto, TypeProto
from ephost.model.graph import Node, Value


class HostKernel:
    """What runs such a node; freed with this object unless a plan has it."""

    def __init__(self, pointer: Any) -> None:
        self._pointer = pointer

    def give(self) -> Any:
        """The kernel, which from here on is a plan's."""
        pointer, self._pointer = self._pointer, NULL
        return pointer

    def __del__(self) -> None:
        lib.ephost_host_kernel_free(self._pointer)


def host_kernel(node: Node) -> HostKernel | None:
    """The host's own kernel for a node, or None where the reference operators run it."""
    make = _MAKERS.get((node.domain, node.op_type))
    out = ffi.new("EphostHostKernel**")
    return HostKernel(out[0]) if make is not None and make(node, out) else None


def is_sequence(value: Value | None) -> bool:
    """Whether the graph says that a value is a sequence of tensors."""
    if value is None or not isinstance(value.type, TypeProto) or not value.type.HasField("sequence_type"):
        return False
    return value.type.sequence_type.elem_type.HasField("tensor_type")


def _zip_map(node: Node, out: Any) -> bool:
    texts, numbers = node.attribute("classlabels_strings"), node.attribute("classlabels_int64s")
    if not texts and not numbers:
        return False  # the reference operator says what is missing
    labels = np.array(texts, dtype=object) if texts else np.array(numbers, dtype=np.int64)
    value = ffi.cast("OrtValue*", call.value_from_object(labels))
    try:
        check(lib.ephost_zip_map_new(value, out))
    finally:
        api.ReleaseValue(value)
    return True


def _of_sequences(
    node: Node, out: Any, axis: int = 0, adds_axis: int = 0, element_type: int = TensorProto.FLOAT
) -> bool:
    number = abi_element_type(element_type)
    check(lib.ephost_sequence_kernel_new(node.op_type.encode(), axis, bool(adds_axis), number, out))
    return True


def _identity(node: Node, out: Any) -> bool:
    return is_sequence(node.inputs[0]) and _of_sequences(node, out)


def _empty(node: Node, out: Any) -> bool:
    return _of_sequences(node, out, element_type=node.attribute("dtype", TensorProto.FLOAT))


def _split(node: Node, out: Any) -> bool:
    return _of_sequences(node, out, node.attribute("axis", 0), node.attribute("keepdims", 1))


def _concat(node: Node, out: Any) -> bool:
    axis = node.attribute("axis")
    if axis is None:
        return False  # the reference operator says what is missing
    return _of_sequences(node, out, axis, node.attribute("new_axis", 0))


_MAKERS = {
    ("ai.onnx.ml", "ZipMap"): _zip_map,
    ("", "ConcatFromSequence"): _concat,
    ("", "Identity"): _identity,
    ("", "Optional"): _of_sequences,
    ("", "OptionalGetElement"): _of_sequences,
    ("", "OptionalHasElement"): _of_sequences,
    ("", "SequenceAt"): _of_sequences,
    ("", "SequenceConstruct"): _of_sequences,
    ("", "SequenceEmpty"): _empty,
    ("", "SequenceErase"): _of_sequences,
    ("", "SequenceInsert"): _of_sequences,
    ("", "SequenceLength"): _of_sequences,
    ("", "SplitToSequence"): _split,
}
