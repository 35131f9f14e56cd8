"""What a plan goes by."""

from __future__ import annotations

import numpy as np
from ephost.model.graph import tensor_bytes, tensor_type
from onnx import TensorProto, helper


def test_bytes_are_known_where_the_shape_is() -> None:
    assert tensor_bytes(tensor_type(TensorProto.FLOAT, (2, 3))) == 24
    assert tensor_bytes(tensor_type(TensorProto.INT64, ())) == np.dtype(np.int64).itemsize
    assert tensor_bytes(tensor_type(TensorProto.FLOAT, (0, 3))) == 0
    assert tensor_bytes(tensor_type(TensorProto.FLOAT, ("n", 3))) is None
    assert tensor_bytes(tensor_type(TensorProto.FLOAT, None)) is None
    sequence = helper.make_sequence_type_proto(helper.make_tensor_type_proto(TensorProto.FLOAT, [2]))
    assert tensor_bytes(sequence) is None
