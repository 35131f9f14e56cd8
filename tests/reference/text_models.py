"""Small models that generate text: decoders whose next token depends on all that came before."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper, parser

WIDTH = 4
_READ = """
    e = Gather (E, input_ids)
    zero = Constant <value_ints = [0]> ()
    one = Constant <value_ints = [1]> ()
    two = Constant <value_ints = [2]> ()
    three = Constant <value_ints = [3]> ()
"""
# The tokens read here and those before them, in a state of [2, N, 1, length, WIDTH].
_GPT = f"""
decoder (int32[n, s] input_ids, int32[n, s] position_ids, int32[n, t] attention_mask,
         float[2, n, 1, p, {WIDTH}] past_0)
    => (float[n, s, VOCABULARY] logits, float[2, n, 1, t, {WIDTH}] present_0) {{
    {_READ}
    at = Gather (P, position_ids)
    x = Add (e, at)
    x4 = Unsqueeze (x, one)
    x5 = Unsqueeze (x4, zero)
    both = Concat <axis = 0> (x5, x5)
    present_0 = Concat <axis = 3> (past_0, both)
    first = Constant <value_int = 0> ()
    kept = Gather <axis = 0> (present_0, first)
    mask = Cast <to = 1> (attention_mask)
    mask2 = Unsqueeze (mask, one)
    mask3 = Unsqueeze (mask2, three)
    seen = Mul (kept, mask3)
    sum = ReduceSum <keepdims = 0> (seen, two)
    y = Add (x, sum)
    z = Sin (y)
    logits = MatMul (z, W)
}}"""
# Of tokens x, of those before them, and of what the encoder has made.
_SCORED = """
    sum = ReduceSum <keepdims = 0> (present_key_self_0, two)
    y1 = Add (x, sum)
    y2 = Add (y1, far)
    z = Sin (y2)
    logits = MatMul (z, W)
"""
_ENCODED = (
    """
    grown = Unsqueeze (x, one)
    present_key_self_0 = Concat <axis = 2> (past_key_self_0, grown)
    present_value_self_0 = Concat <axis = 2> (past_value_self_0, grown)
    far = ReduceSum <keepdims = 0> (past_key_cross_0, two)
"""
    + _SCORED
)
_STATES = ", ".join(
    f"float[n, 1, {length}, {WIDTH}] past_{kind}_{where}_0"
    for where, length in (("self", "p"), ("cross", "f"))
    for kind in ("key", "value")
)
_GROWN = ", ".join(f"float[n, 1, q, {WIDTH}] present_{kind}_self_0" for kind in ("key", "value"))
_CROSS = ", ".join(f"float[n, 1, f, {WIDTH}] present_{kind}_cross_0" for kind in ("key", "value"))
_DECODER = f"""
decoder (int32[n, 1] input_ids, MASK{_STATES}) => (float[n, 1, VOCABULARY] logits, {_GROWN}) {{
    {_READ}
    x = Identity (e)
    {_ENCODED}
}}"""
_ENCODER = f"""
encoder (ENCODED, int32[n, d] decoder_input_ids)
    => (float[n, d, VOCABULARY] logits, float[n, f, {WIDTH}] encoder_hidden_states, {_GROWN}, {_CROSS}) {{
    zero = Constant <value_ints = [0]> ()
    one = Constant <value_ints = [1]> ()
    two = Constant <value_ints = [2]> ()
    READ
    x = Gather (E, decoder_input_ids)
    present_key_self_0 = Unsqueeze (x, one)
    present_value_self_0 = Unsqueeze (x, one)
    present_key_cross_0 = Unsqueeze (encoder_hidden_states, one)
    present_value_cross_0 = Unsqueeze (encoder_hidden_states, one)
    far = ReduceSum <keepdims = 0> (present_key_cross_0, two)
    {_SCORED}
}}"""
_READ_TEXT = """
    felt = Gather (E, encoder_input_ids)
    mask = Cast <to = 1> (encoder_attention_mask)
    mask2 = Unsqueeze (mask, two)
    encoder_hidden_states = Mul (felt, mask2)
"""
_READ_SOUND = """
    turned = Transpose <perm = [0, 2, 1]> (encoder_input_ids)
    encoder_hidden_states = Identity (turned)
"""


def body(text: str, vocabulary: int, seed: int = 0, **constants: np.ndarray) -> onnx.GraphProto:
    """A subgraph, with random weights: of each token, of each position, and from the state to scores."""
    numbers = np.random.default_rng(seed)
    made = {
        "E": numbers.normal(size=(vocabulary, WIDTH)),
        "P": numbers.normal(size=(64, WIDTH)),
        "W": 2 * numbers.normal(size=(WIDTH, vocabulary)),
        **constants,
    }
    graph = parser.parse_graph(text.replace("VOCABULARY", str(vocabulary)))
    for name, array in made.items():
        if f"{name}," in text or f"{name})" in text or f", {name}" in text:
            graph.initializer.append(numpy_helper.from_array(array.astype(np.float32), name))
    return graph


def gpt(vocabulary: int, seed: int = 0) -> onnx.GraphProto:
    """A decoder with positions, a mask and one state."""
    return body(_GPT, vocabulary, seed)


def encoder_and_decoder(vocabulary: int, sound: bool = False) -> dict[str, onnx.GraphProto]:
    """The subgraphs of a model that reads a text, or a sound of [N, WIDTH, frames]."""
    read = "int32[n, f] encoder_input_ids, int32[n, f] encoder_attention_mask"
    encoder = _ENCODER.replace("ENCODED", f"float[n, {WIDTH}, f] encoder_input_ids" if sound else read)
    decoder = _DECODER.replace("MASK", "" if sound else "int32[n, f] encoder_attention_mask, ")
    return {
        "encoder": body(encoder.replace("READ", _READ_SOUND if sound else _READ_TEXT), vocabulary),
        "decoder": body(decoder, vocabulary),
    }


def text_model(
    op_type: str,
    inputs: Mapping[str, np.ndarray],
    order: Sequence[str],
    outputs: Sequence[str] = ("sequences",),
    **attributes: Any,
) -> onnx.ModelProto:
    """A model of one node; ``order`` names all inputs that the operator may have, in order."""
    last = max(at for at, name in enumerate(order) if name in inputs)
    names = [name if name in inputs else "" for name in order[: last + 1]]
    node = helper.make_node(op_type, names, outputs, "generate", domain="com.microsoft", **attributes)
    graph = helper.make_graph(
        [node],
        "text",
        [
            helper.make_tensor_value_info(
                name, helper.np_dtype_to_tensor_dtype(array.dtype), [None] * array.ndim
            )
            for name, array in inputs.items()
        ],
        [
            helper.make_tensor_value_info(
                name, TensorProto.INT32 if name == "sequences" else TensorProto.FLOAT, None
            )
            for name in outputs
        ],
    )
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=8)
