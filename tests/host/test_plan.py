"""What a plan goes by."""

from __future__ import annotations

import ephost
import numpy as np
import pytest
from ephost.model.graph import tensor_bytes, tensor_type
from onnx import TensorProto, helper, parser


def test_bytes_are_known_where_the_shape_is() -> None:
    assert tensor_bytes(tensor_type(TensorProto.FLOAT, (2, 3))) == 24
    assert tensor_bytes(tensor_type(TensorProto.INT64, ())) == np.dtype(np.int64).itemsize
    assert tensor_bytes(tensor_type(TensorProto.FLOAT, (0, 3))) == 0
    assert tensor_bytes(tensor_type(TensorProto.FLOAT, ("n", 3))) is None
    assert tensor_bytes(tensor_type(TensorProto.FLOAT, None)) is None
    sequence = helper.make_sequence_type_proto(helper.make_tensor_type_proto(TensorProto.FLOAT, [2]))
    assert tensor_bytes(sequence) is None


@pytest.mark.parametrize(
    ("nodes", "words"),
    [(1, "before node 'n0'"), (2, "before nodes 'n0, n1'"), (9, "before nodes 'n0, n1, n2 and 6 more'")],
)
def test_an_error_says_of_a_group_that_it_is_several_nodes(
    nodes: int, words: str, sample_compiler: list[ephost.OrtEpDevice]
) -> None:
    body = " ".join(f"[n{at}] v{at + 1} = Add(v{at}, v{at})" for at in range(nodes))
    model = parser.parse_model(
        f'<ir_version: 8, opset_import: ["": 17]> g (float[2] v0) => (float[2] v{nodes}) {{ {body} }}'
    )
    options = ephost.SessionOptions()
    options.add_provider_for_devices(sample_compiler, {})
    session = ephost.InferenceSession(model.SerializeToString(), options)
    terminated = ephost.RunOptions()
    terminated.terminate = True
    with pytest.raises(ephost.errors.Fail) as caught:
        session.run(None, {"v0": np.ones(2, np.float32)}, terminated)
    said = str(caught.value)
    del session, caught  # whose traceback holds the session
    assert said.endswith(words)
