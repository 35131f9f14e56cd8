"""Models for other processes: as bytes, or as files where one message cannot hold them."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from google.protobuf.message import Message
from onnx import numpy_helper

LIMIT = 2**31 - 2**24  # bytes that a message may have, with some left for what is not counted
_SHARE = 2048  # a tensor larger than this part of the limit gets a file of its own


def size_of(tensor: onnx.TensorProto) -> int:
    """The bytes of a tensor's elements; of texts a guess."""
    count = 1
    for size in tensor.dims:
        count *= size
    if tensor.data_type in (onnx.TensorProto.STRING, onnx.TensorProto.UNDEFINED):
        return count * 16
    return count * onnx.helper.tensor_dtype_to_np_dtype(tensor.data_type).itemsize


def without_large(model: onnx.ModelProto, smallest: int) -> tuple[onnx.ModelProto, list[onnx.TensorProto]]:
    """A model without its initializers of more than so many bytes, and these."""
    made = onnx.ModelProto()
    _merge(made, model, "graph")
    _merge(made.graph, model.graph, "initializer")
    large = []
    for tensor in model.graph.initializer:
        if size_of(tensor) > smallest and tensor.data_type != onnx.TensorProto.STRING:
            large.append(tensor)
        else:
            made.graph.initializer.add().CopyFrom(tensor)
    return made, large


def _merge(made: Any, given: Any, omitted: str) -> None:
    """Copy the fields of a message but for one."""
    for field, value in given.ListFields():
        if field.name == omitted:
            continue
        # By what the value is: what a field says of itself depends on protobuf's version.
        if isinstance(value, Message):
            getattr(made, field.name).CopyFrom(value)
        elif hasattr(value, "MergeFrom"):
            getattr(made, field.name).MergeFrom(value)
        else:
            setattr(made, field.name, value)


class Packer:
    """Makes what another process can open of models.

    Args:
        folder: for models that are too large for a message, and their tensors.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def pack(self, model: onnx.ModelProto) -> bytes | str:
        """A model's bytes, or the path of a file whose large tensors lie in files beside it.

        The same model gives the same bytes, or a file of the same name.
        """
        if sum(map(size_of, model.graph.initializer)) <= LIMIT:
            whole: bytes = model.SerializeToString(deterministic=True)
            return whole
        self.folder.mkdir(parents=True, exist_ok=True)
        made, large = without_large(model, LIMIT // _SHARE)
        for tensor in large:
            data = tensor.raw_data or np.ascontiguousarray(numpy_helper.to_array(tensor)).tobytes()
            name = hashlib.blake2b(data, digest_size=16).hexdigest()
            if not (self.folder / name).exists():
                (self.folder / "being-written").write_bytes(data)
                (self.folder / "being-written").rename(self.folder / name)
            elsewhere = made.graph.initializer.add(
                name=tensor.name,
                dims=tensor.dims,
                data_type=tensor.data_type,
                data_location=onnx.TensorProto.EXTERNAL,
            )
            for key, value in (("location", name), ("offset", "0"), ("length", str(len(data)))):
                elsewhere.external_data.add(key=key, value=value)
        message = made.SerializeToString(deterministic=True)
        path = self.folder / f"{hashlib.blake2b(message, digest_size=16).hexdigest()}.onnx"
        path.write_bytes(message)
        return str(path)


def identity(packed: bytes | str) -> bytes:
    """What is the same for the same model, wherever it was packed."""
    return packed if isinstance(packed, bytes) else Path(packed).name.encode()


def save(model: onnx.ModelProto, path: Path) -> None:
    """Write a model, a large one with its data in a file beside it."""
    large = sum(map(size_of, model.graph.initializer)) > LIMIT
    onnx.save(
        model, path, save_as_external_data=large, location=f"{path.stem}.data", size_threshold=LIMIT // _SHARE
    )
