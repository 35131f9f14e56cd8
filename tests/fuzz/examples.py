"""Valid models of one node for every operator: what the fuzzer starts from.

Most are the standard's own node tests. Tables below add operators that have none there: com.microsoft's, old
versions, ai.onnx.ml's. What is left of the standard's operators gets inputs by its schema, which is a guess.
"""

# ruff: noqa: E501 - tables
from __future__ import annotations

import dataclasses
from collections import defaultdict
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from tests.vendor.compare import node_cases

F = np.float32
ENOUGH = 1 << 14  # elements of an example's inputs: larger ones take time and find no more


@dataclasses.dataclass
class Example:
    """A node with its inputs: arrays, None for one that is left out, else lists and dicts of arrays."""

    node: onnx.NodeProto
    version: int
    inputs: list[Any]
    types: list[onnx.TypeProto | None]  # of inputs that are no plain tensors

    @property
    def operator(self) -> str:
        return f"{self.node.domain}.{self.node.op_type}" if self.node.domain else self.node.op_type


def numbers(*shape: int, dtype: Any = F) -> np.ndarray:
    """An array without repetitions at once, and the same each time."""
    count = int(np.prod(shape, dtype=np.int64))
    values = (np.arange(count) * 7 % 23 - 6).reshape(shape)
    return (values / 8).astype(dtype) if np.dtype(dtype).kind == "f" else np.abs(values).astype(dtype)


def u8(*shape: int) -> np.ndarray:
    return numbers(*shape, dtype=np.uint8)


def i32(*values: Any) -> np.ndarray:
    return np.array(values, np.int32)


def i64(*values: Any) -> np.ndarray:
    return np.array(values, np.int64)


def text(*values: str) -> np.ndarray:
    return np.array(values, object)


f, scale, zero = numbers, np.array(0.1, F), np.array(3, np.uint8)
_ATTENTION = {"num_heads": 2}
_LSTM = {"hidden_size": 4}
_CACHE = [f(2, 1, 8, 8), f(2, 1, 8, 8)]
_CODES = [numbers(2, 1, 8, 8, dtype=np.int8), numbers(2, 1, 8, 8, dtype=np.int8)]
CONTRIB: list[tuple[str, dict[str, Any], list[Any]]] = [
    ("Attention", _ATTENTION, [f(2, 3, 8), f(8, 24), f(24)]),
    ("Attention", {**_ATTENTION, "unidirectional": 1}, [f(2, 3, 8), f(8, 24), f(24), i32(3, 2)]),
    ("Attention", _ATTENTION, [f(2, 3, 8), f(8, 24), f(24), None, f(2, 2, 2, 5, 4)]),
    ("BiasAdd", {}, [f(2, 3, 8), f(8), f(2, 3, 8)]),
    ("AttnLSTM", {"hidden_size": 4, "activations": ["Sigmoid", "Tanh", "Tanh"]},
     [f(3, 2, 3), f(1, 16, 6), f(1, 16, 4), f(1, 32), i32(3, 2), None, None, None,
      f(1, 4, 4), f(1, 3, 4), f(1, 4), f(2, 5, 3), i32(4, 5)]),
    ("BifurcationDetector", {"min_ngram_size": 1, "max_ngram_size": 3},
     [i64(1, 2, 3, 1), i64(1, 2), i64(1), i64(2, 3, 0, 4)]),
    ("BranchwiseRMSNorm", {"num_branches": 3}, [f(2, 6), f(6)]),
    ("ConvTransposeWithDynamicPads", {"strides": [2, 1]}, [f(1, 4, 5, 6), f(4, 3, 3, 2), i64(1, 0, 0, 1), f(3)]),
    ("EngramGate", {}, [f(2, 5, 3, 4), f(2, 5, 3, 4), f(2, 5, 4), f(3, 4), f(3, 4)]),
    ("HyperConnectionPostMix", {}, [f(2, 3, 4), f(2, 4), f(2, 3), f(2, 3, 3)]),
    ("HyperConnectionPreMix", {"num_branches": 3}, [f(2, 12), f(2, 3)]),
    ("MaxpoolWithMask", {"kernel_shape": [2, 2]}, [f(1, 2, 4, 4), np.ones((1, 1, 4, 4), np.int32)]),
    ("NGramHashMapping", {"pad_id": 0, "max_ngram_size": 3, "n_head_per_ngram": 2, "reset_on_eos": 1},
     [i64([1, 2, 3, 4]), i64(3, 5, 7), i64(11, 13, 17, 19), i64([5, 2]), None, np.array(2, np.int64)]),
    ("SparseAttention", {"num_heads": 2, "kv_num_heads": 1, "sparse_block_size": 16},
     [f(1, 1, 32), f(1, 1, 16), f(1, 1, 16), f(1, 1, 32, 16), f(1, 1, 32, 16), i32([0, 1, 3]), i32([0, 0, 1]),
      i32(20), i32(20)]),
    ("VarlenNGramHashMapping", {"pad_id": 0, "max_ngram_size": 3, "n_head_per_ngram": 1},
     [i32(1, 2, 3, 4), i32(3, 5, 7), i32(11, 13), i32(0, 1, 4)]),
    ("VarlenCausalConvWithState", {"activation": "silu"},
     [f(5, 3), f(3, 1, 4), i32(0, 2, 5), f(3), f(2, 3, 3)]),
    ("VarlenCausalConvWithState", {"dilation": 2, "state_update_capacity": 3},
     [f(5, 3), f(3, 1, 2), i32(0, 2, 5), None, f(2, 3, 2), i32(3, 1)]),
    ("WordConvEmbedding", {}, [i32([1, 2, 3], [4, 0, 0]), f(4, 1, 2, 3), f(4), f(9, 3)]),
    ("BiasGelu", {}, [f(2, 3, 8), f(8)]),
    ("BiasSoftmax", {"axis": 1, "is_inner_broadcast": 1}, [f(2, 8), f(2, 8)]),
    ("BiasSplitGelu", {}, [f(2, 3, 8), f(8)]),
    ("CDist", {"metric": "euclidean"}, [f(3, 4), f(2, 4)]),
    ("CDist", {}, [f(40, 24), f(70, 24)]),
    ("CausalConvWithState", {"activation": "silu"}, [f(2, 4, 3), f(4, 1, 3), f(4), f(2, 4, 2)]),
    ("CausalConvWithState", {"channels_last": 1, "dilation": 2}, [f(2, 5, 4), f(4, 1, 3)]),
    ("CropAndResize", {}, [f(2, 3, 5, 6), numbers(3, 4), i32(0, 1, 1), i32(4, 3)]),
    ("CropAndResize", {"mode": "nearest", "extrapolation_value": 7.0}, [f(1, 2, 4, 4), numbers(1, 4), i32(0), i32(1, 5)]),
    ("DequantizeLinear", {}, [u8(3, 4), scale, zero]),
    ("DynamicQuantizeLSTM", _LSTM, [f(3, 2, 4), u8(1, 4, 16), u8(1, 4, 16), f(1, 32), None, None, None, None,
                                    f(1), u8(1), f(1), u8(1)]),
    ("DynamicQuantizeMatMul", {}, [f(3, 4), u8(4, 8), f(8), u8(8), f(8)]),
    ("DynamicTimeWarping", {}, [f(3, 5)]),
    ("DynamicTimeWarping", {}, [f(1, 4, 3)]),
    ("EmbedLayerNormalization", {}, [i32([1, 2], [0, 1]), i32([0, 0], [1, 1]), f(3, 8), f(4, 8), f(2, 8),
                                     f(8), f(8), i32([1, 1], [1, 0])]),
    ("ExpandDims", {}, [f(2, 3), np.array(1, np.int32)]),
    ("FastGelu", {}, [f(2, 3, 8), f(8)]),
    ("FusedConv", {"activation": "Relu"}, [f(1, 3, 6, 6), f(4, 3, 3, 3), f(4)]),
    ("FusedConv", {"activation": "Clip", "activation_params": [0.0, 6.0]}, [f(1, 3, 6, 6), f(4, 3, 3, 3)]),
    ("FusedGemm", {"activation": "LeakyRelu", "activation_alpha": 0.1}, [f(3, 4), f(4, 5), f(5)]),
    ("FusedMatMul", {"transA": 1, "alpha": 0.5}, [f(2, 4, 3), f(2, 4, 5)]),
    ("FusedMatMul", {"transBatchA": 1, "transB": 1}, [f(3, 2, 4), f(2, 5, 4)]),
    ("GatedAdd", {}, [f(2, 3, 8), f(2, 3, 8), f(2, 3, 1)]),
    ("GatedRMSNorm", {}, [f(2, 3, 8), f(4), f(2, 3, 8)]),
    ("GatedDeltaNet", {"qk_l2_norm": 1, "gate_activation": "softplus", "beta_activation": "sigmoid"},
     [f(5, 2, 4), f(5, 2, 4), f(5, 4, 3), i32(0, 2, 5), f(5, 4), f(5, 4), f(2, 4, 3, 4), f(4), f(4)]),
    ("GatedDeltaNet", {"update_rule": "gated", "gate_activation": "kda"},
     [f(2, 3, 22), None, None, None, f(2, 3, 2, 4), None, f(2, 2, 3, 4), f(2), f(2, 4)]),
    ("GatherBlockQuantized", {"block_size": 16, "bits": 8, "quantize_axis": 1}, [u8(4, 32), i64(1, 3),
                                                                                f(4, 2), u8(4, 2)]),
    ("GatherBlockQuantized", {"block_size": 16, "bits": 4, "quantize_axis": 1}, [u8(4, 16), i64(1, 3),
                                                                                f(4, 2), u8(4, 1)]),
    ("GatherND", {}, [f(2, 3), i64([0, 1], [1, 0])]),
    ("GatherPacked", {"packed_type": 8, "K": 64, "output_dtype": 1}, [u8(3, 68), i64([0, 2], [5, -1])]),
    ("GatherPacked", {"packed_type": 22, "K": 256, "output_dtype": 10}, [u8(2, 82), i32(0, 1)]),
    ("Gelu", {}, [f(2, 3)]),
    ("GridSample", {}, [f(1, 2, 4, 4), f(1, 3, 3, 2)]),
    ("GroupQueryAttention", {"num_heads": 2, "kv_num_heads": 1},
     [f(2, 3, 16), f(2, 3, 8), f(2, 3, 8), *_CACHE, i32(4, 7), np.array(8, np.int32)]),
    ("GroupQueryAttention", {"num_heads": 2, "kv_num_heads": 1, "do_rotary": 1},
     [f(2, 1, 32), None, None, *_CACHE, i32(4, 7), np.array(8, np.int32), f(16, 4), f(16, 4)]),
    ("GroupQueryAttention", {"num_heads": 2, "kv_num_heads": 1, "local_window_size": 2, "softcap": 5.0},
     [f(2, 1, 16), f(2, 1, 8), f(2, 1, 8), *_CACHE, i32(4, 7), np.array(8, np.int32)]),
    ("GroupQueryAttention", {"num_heads": 2, "kv_num_heads": 1, "k_quant_type": "PER_TENSOR",
                             "v_quant_type": "PER_TENSOR", "kv_cache_bit_width": 8},
     [f(2, 1, 16), f(2, 1, 8), f(2, 1, 8), *_CODES, i32(4, 7), np.array(8, np.int32), *[None] * 5, scale, scale]),
    ("GroupQueryAttention", {"num_heads": 2, "kv_num_heads": 1, "local_window_size": 3, "sliding_window_cache": 1},
     [f(2, 1, 16), f(2, 1, 8), f(2, 1, 8), *_CACHE, i32(9, 12), np.array(13, np.int32)]),
    ("Inverse", {}, [np.eye(3, dtype=F)]),
    ("LinearAttention", {"q_num_heads": 2, "kv_num_heads": 2},
     [f(2, 3, 8), f(2, 3, 8), f(2, 3, 12), f(2, 2, 4, 6), f(2, 3, 2), f(2, 3, 2)]),
    ("LinearAttention", {"q_num_heads": 4, "kv_num_heads": 2, "update_rule": "gated"},
     [f(1, 2, 16), f(1, 2, 8), f(1, 2, 8), None, f(1, 2, 8)]),
    ("LinearAttentionGate", {}, [f(2, 3, 4), f(4), f(4), f(2, 3, 4)]),
    ("MatMulBnb4", {"K": 16, "N": 3, "block_size": 16, "quant_type": 1}, [f(2, 16), u8(24), f(3)]),
    ("MatMulInteger16", {}, [numbers(2, 3, dtype=np.int16), numbers(3, 4, dtype=np.int16)]),
    ("MatMulIntegerToFloat", {}, [u8(3, 4), u8(4, 8), scale, f(8), zero, u8(8), f(8)]),
    ("MatMulNBits", {"K": 32, "N": 4, "bits": 4, "block_size": 16}, [f(2, 32), u8(4, 2, 8), f(8), u8(4)]),
    (
        "MatMulNBits",
        {"K": 32, "N": 4, "bits": 4, "block_size": 16},
        [f(2, 32), u8(4, 2, 8), f(8), None, i32(*[1, 0] * 16)],
    ),
    ("MatMulNBits", {"K": 64, "N": 16, "bits": 4, "block_size": 32}, [f(5, 64), u8(16, 2, 16), f(32)]),
    ("MatMulNBits", {"K": 32, "N": 4, "bits": 8, "block_size": 16}, [f(2, 32), u8(4, 2, 16), f(8)]),
    ("MoEGroupRouter", {"top_k": 2, "n_group": 3, "topk_group": 2}, [f(2, 5, 6), f(6)]),
    ("MoE", {"k": 2, "activation_type": "silu"}, [f(3, 8), f(3, 4), f(4, 6, 8), f(4, 6), f(4, 8, 6), f(4, 8)]),
    ("MoE", {"activation_type": "swiglu", "swiglu_fusion": 1}, [f(1, 7, 8), f(7, 2), f(2, 12, 8), None, f(2, 8, 6)]),
    ("MRotaryEmbedding", {"num_heads": 2, "mrope_section": [1, 2, 1], "mrope_layout": 1}, [f(1, 2, 16), i64([[0, 1]], [[2, 3]], [[0, 2]]), f(8, 4), f(8, 4)]),
    ("MultiHeadAttention", _ATTENTION, [f(2, 3, 8), f(2, 4, 8), f(2, 4, 8), f(24), i32([1, 1, 1, 0], [1] * 4)]),
    ("MultiHeadAttention", _ATTENTION, [f(2, 3, 8), f(2, 3, 8), f(2, 3, 8), None, None, f(2, 2, 3, 8),
                                        f(2, 2, 5, 4), f(2, 2, 5, 4)]),
    ("MultiHeadAttention", _ATTENTION, [f(2, 3, 2, 3, 4)]),
    ("MurmurHash3", {"seed": 7, "positive": 0}, [i32(0, 1, -1, 1 << 30)]),
    ("NGramRepeatBlock", {"ngram_size": 2}, [i64([3, 1, 3], [0, 2, 4]), f(2, 5)]),
    ("NhwcMaxPool", {"kernel_shape": [2, 2]}, [u8(1, 4, 4, 3)]),
    ("NhwcMaxPool", {"kernel_shape": [3, 2], "strides": [2, 1], "pads": [1, 0, 1, 1]}, [u8(2, 5, 4, 3)]),
    ("Pad", {"mode": "reflect"}, [f(3, 4), i64(1, 0, 0, 1)]),
    ("QAttention", _ATTENTION, [u8(2, 3, 8), u8(8, 24), f(24), scale, scale, None, zero, zero]),
    ("QEmbedLayerNormalization", {}, [i32([1, 2]), i32([0, 1]), u8(3, 8), u8(4, 8), u8(2, 8), u8(8), u8(8),
                                      None, scale, scale, scale, scale, scale, zero, zero, zero, zero, zero]),
    ("QGemm", {"transB": 1}, [u8(3, 4), scale, zero, u8(5, 4), scale, zero, i32(*range(5)), scale, zero]),
    ("QGemm", {"transA": 1, "alpha": 0.5}, [u8(4, 3), scale, zero, u8(4, 5), f(5), u8(5)]),
    ("QGemm", {}, [u8(3, 4), scale, zero, u8(4, 5), f(5), u8(5)]),
    ("QLinearAdd", {}, [u8(2, 3), scale, zero, u8(3), scale, zero, scale, zero]),
    ("QLinearAveragePool", {"kernel_shape": [2, 2]}, [u8(1, 3, 5, 5), scale, zero, scale, zero]),
    ("QLinearConcat", {"axis": 1}, [scale, zero, u8(2, 3), scale, zero, u8(2, 4), scale, zero]),
    ("QLinearConv", {}, [u8(1, 3, 6, 6), scale, zero, u8(4, 3, 3, 3), scale, zero, scale, zero]),
    ("QLinearConv", {"channels_last": 1, "pads": [1, 1, 1, 1], "strides": [2, 1]},
     [u8(2, 6, 5, 3), scale, zero, u8(4, 3, 3, 3), scale, zero, scale, zero, i32(0, 5, -9, 100)]),
    ("QLinearGlobalAveragePool", {}, [u8(1, 3, 5, 5), scale, zero, scale, zero]),
    ("QLinearGlobalAveragePool", {"channels_last": 1}, [u8(1, 5, 5, 3), scale, zero, scale, zero]),
    ("QLinearLeakyRelu", {"alpha": 0.1}, [u8(2, 3), scale, zero, scale, zero]),
    ("QLinearMul", {}, [u8(2, 3), scale, zero, u8(2, 1), scale, zero, scale, zero]),
    ("QLinearSigmoid", {}, [u8(2, 3), scale, zero, scale, zero]),
    ("QLinearSoftmax", {"axis": 1, "opset": 13}, [u8(2, 5), scale, zero, scale, zero]),
    ("QLinearWhere", {}, [np.array([[True, False]]), u8(2, 2), scale, zero, u8(2), scale, zero, scale, zero]),
    ("QMoE", {"k": 2, "block_size": 16}, [f(3, 16), f(3, 2), u8(2, 16, 8), f(2, 16, 1), None, u8(2, 16, 8), f(2, 16, 1)]),
    ("QMoE", {"expert_weight_bits": 8}, [f(2, 16), f(2, 2), u8(2, 16, 16), f(2, 16), f(2, 16), u8(2, 16, 16), f(2, 16)]),
    ("QuantizeLinear", {}, [f(3, 4), scale, zero]),
    ("QuickGelu", {"alpha": 1.702}, [f(2, 3)]),
    ("Range", {}, [i64(2), i64(9), i64(3)]),
    ("Range", {}, [f(1), f(1)]),
    ("RotaryEmbedding", {"interleaved": 0}, [f(2, 3, 16), i64([0, 1, 2], [1, 2, 3]), f(8, 4), f(8, 4)]),
    ("RotaryEmbedding", {"interleaved": 1}, [f(2, 2, 3, 8), i64(2), f(8, 4), f(8, 4)]),
    ("RotaryEmbedding", {"num_heads": 2, "rotary_embedding_dim": 4}, [f(2, 3, 16), i64(1), f(8, 2), f(8, 2)]),
    ("ScaledSiLU", {"alpha": 0.5}, [f(2, 3)]),
    ("ScaledSiLU", {}, [f(2, 3), np.array(2, F)]),
    ("SkipLayerNormalization", {}, [f(2, 3, 8), f(2, 3, 8), f(8), f(8), f(8)]),
    ("SkipSimplifiedLayerNormalization", {}, [f(2, 3, 8), f(2, 3, 8), f(8), f(8)]),
    ("Trilu", {}, [f(3, 4), np.array(1, np.int64)]),
    ("TransposeMatMul", {"transB": 1, "alpha": 2.0}, [f(2, 3, 4), f(2, 5, 4)]),
    ("UnfoldTensor", {"size": 3, "step": 2, "dim": 1}, [f(2, 8, 3)]),
    ("UnfoldTensor", {"size": 2}, [i32(5, 4, 3)]),
    ("Unique", {}, [f(6)]),
]  # fmt: skip

_SQUARE = {"kernel_shape": [2, 2]}
OLD: list[tuple[int, str, dict[str, Any], list[Any]]] = [
    (7, "Affine", {"alpha": 2.0, "beta": 0.5}, [f(2, 3)]),
    (7, "Crop", {"border": [1, 0, 2, 1]}, [f(1, 2, 5, 6)]),
    (7, "Crop", {"border": [1, 0, 0, 0], "scale": [2, 3]}, [f(1, 2, 5, 6)]),
    (7, "DynamicSlice", {}, [f(4, 5), np.array([1, 0]), np.array([3, 9]), np.array([1, 0])]),
    (7, "ImageScaler", {"scale": 2.0, "bias": [0.5, 1.0]}, [f(1, 2, 3, 4)]),
    (7, "MeanVarianceNormalization", {"across_channels": 1, "normalize_variance": 0}, [f(2, 2, 3, 4)]),
    (7, "ParametricSoftplus", {"alpha": 2.0, "beta": 0.5}, [f(2, 3)]),
    (7, "Scale", {"scale": 2.0}, [f(2, 3)]),
    (7, "ScaledTanh", {"alpha": 2.0, "beta": 0.5}, [f(2, 3)]),
    (7, "ThresholdedRelu", {"alpha": 0.5}, [f(2, 3)]),
    (8, "Cast", {"to": 1}, [np.array(["1.5", " 7", "nan"], object)]),
    (8, "Cast", {"to": 8}, [f(2, 3)]),
    (9, "BatchNormalization", {}, [f(2, 3, 4), f(3), f(3), f(3), abs(f(3)) + 1]),
    (6, "Clip", {"min": 0.0, "max": 1.0}, [f(2, 3)]),
    (7, "Dropout", {"ratio": 0.5}, [f(2, 3)]),
    (5, "Reshape", {}, [f(2, 3), i64(3, -1)]),
    (9, "ConstantOfShape", {"value": numpy_helper.from_array(i64(3))}, [i64(2, 3)]),
    (9, "OneHot", {"axis": -1}, [i64(1, 2), i64(3), f(2)]),
    (2, "Pad", {"pads": [1, 0, 0, 1], "mode": "edge"}, [f(3, 4)]),
    (1, "ReduceSum", {"axes": [1], "keepdims": 0}, [f(2, 3, 4)]),
    (11, "ReduceMax", {"axes": [-1]}, [f(2, 3, 4)]),
    (13, "ReduceMean", {"axes": [0, 2]}, [f(2, 3, 4)]),
    (10, "Resize", {"mode": "nearest"}, [f(1, 1, 3, 3), f(4) * 0 + 2]),
    (11, "Resize", {"mode": "linear", "coordinate_transformation_mode": "tf_crop_and_resize"},
     [f(1, 1, 3, 3), np.array([0, 0, 0, 0, 1, 1, 1, 1], F), np.zeros(0, F), i64(1, 1, 5, 5)]),
    (9, "Scatter", {"axis": 1}, [f(3, 3), i64([1, 0], [0, 2]), f(2, 2)]),
    (1, "Slice", {"axes": [1], "starts": [1], "ends": [-1]}, [f(3, 4)]),
    (11, "Softmax", {"axis": 1}, [f(2, 3, 4)]),
    (2, "Split", {"axis": 1, "split": [1, 3]}, [f(2, 4)]),
    (1, "Squeeze", {"axes": [0]}, [f(1, 3)]),
    (1, "TopK", {"k": 2}, [f(3, 4)]),
    (1, "Unsqueeze", {"axes": [0, 2]}, [f(3)]),
    (9, "Upsample", {"mode": "nearest"}, [f(1, 1, 3, 3), f(4) * 0 + 2]),
    (7, "Upsample", {"mode": "linear", "scales": [1.0, 1.0, 2.0, 2.0]}, [f(1, 1, 3, 3)]),
    (16, "GroupNormalization", {"num_groups": 2}, [f(2, 4, 3), f(2), f(2)]),
    (15, "RandomNormalLike", {}, [f(2, 3)]),
    (15, "RandomUniformLike", {}, [f(2, 3)]),
    (15, "RandomNormal", {"shape": [2, 3]}, []),
    (15, "RandomUniform", {"shape": [2, 3]}, []),
    (15, "Multinomial", {"sample_size": 3}, [f(2, 3)]),
    (15, "Bernoulli", {}, [abs(f(2, 3))]),
    (21, "Conv", {"pads": [1, 1, 1, 1]}, [f(1, 16, 9, 9), f(16, 1, 3, 3), f(16)]),
    (21, "Conv", {"group": 16, "strides": [2, 2]}, [f(1, 16, 9, 9), f(16, 1, 3, 3), f(16)]),
    (21, "Conv", {"group": 2, "dilations": [2, 1]}, [f(2, 8, 9, 9), f(32, 4, 3, 1)]),
    (21, "Conv", {"auto_pad": "SAME_UPPER"}, [f(1, 4, 5, 5, 5), f(3, 4, 2, 3, 1)]),
    (21, "ConvTranspose", {"group": 2, "output_padding": [1, 1], "strides": [2, 2]}, [f(1, 4, 5, 5), f(4, 3, 3, 3)]),
    (21, "MatMul", {}, [f(2, 3, 4, 8), f(3, 8, 16)]),
    (21, "Gemm", {"transA": 1, "transB": 1}, [f(9, 17), f(33, 9), f(33)]),
    (21, "LSTM", {"hidden_size": 2, "direction": "bidirectional"}, [f(3, 2, 4), f(2, 8, 4), f(2, 8, 2), f(2, 16), i32(3, 2)]),
    (21, "GRU", {"hidden_size": 2, "linear_before_reset": 1}, [f(3, 2, 4), f(1, 6, 4), f(1, 6, 2), f(1, 12), i32(3, 1), f(1, 2, 2)]),
    (21, "RNN", {"hidden_size": 2, "direction": "reverse"}, [f(3, 2, 4), f(1, 2, 4), f(1, 2, 2)]),
    (21, "Einsum", {"equation": "bij,bjk->bik"}, [f(2, 3, 4), f(2, 4, 5)]),
    (21, "Einsum", {"equation": "...ii->...i"}, [f(2, 3, 3)]),
    (21, "AveragePool", {**_SQUARE, "ceil_mode": 1, "strides": [2, 2]}, [f(1, 16, 5, 5)]),
    (21, "MaxPool", {**_SQUARE, "dilations": [2, 2]}, [f(1, 3, 5, 5)]),
    (21, "LpPool", _SQUARE, [f(1, 3, 5, 5)]),
    (21, "QuantizeLinear", {"axis": 1, "block_size": 2}, [f(3, 4), f(3, 2), u8(3, 2)]),
    (21, "DequantizeLinear", {"axis": 0}, [u8(3, 4), f(3), u8(3)]),
    (21, "QLinearConv", {"pads": [1, 1, 1, 1]}, [u8(1, 16, 6, 6), scale, zero, u8(16, 16, 3, 3), f(16), u8(16) * 0, scale, zero, i32(*range(16))]),
    (21, "ConvInteger", {}, [u8(1, 16, 6, 6), u8(16, 16, 3, 3), zero]),
    (21, "MatMulInteger", {}, [u8(5, 40), u8(40, 24), zero, u8(24)]),
    (21, "QLinearMatMul", {}, [u8(5, 8), scale, zero, u8(8, 9), scale, zero, scale, zero]),
    (21, "LayerNormalization", {"axis": -2}, [f(2, 3, 4), f(3, 4), f(3, 4)]),
    (21, "NonMaxSuppression", {}, [abs(f(1, 6, 4)), abs(f(1, 2, 6)), i64(3), f(1) + 1, f(1)]),
    (21, "StringNormalizer", {"case_change_action": "UPPER"}, [text("ab", "cd")]),
    (21, "Where", {}, [np.array([True, False]), f(3, 2), f(3, 1)]),
]  # fmt: skip

_TREE: dict[str, Any] = {
    "nodes_treeids": [0, 0, 0], "nodes_nodeids": [0, 1, 2], "nodes_featureids": [0, 0, 0],
    "nodes_modes": ["BRANCH_LEQ", "LEAF", "LEAF"], "nodes_values": [0.5, 0.0, 0.0],
    "nodes_truenodeids": [1, 0, 0], "nodes_falsenodeids": [2, 0, 0],
    "nodes_missing_value_tracks_true": [0, 0, 0],
}  # fmt: skip
_SVM: dict[str, Any] = {"kernel_type": "RBF", "kernel_params": [0.5, 0.0, 3.0], "rho": [0.1]}
LEARNED: list[tuple[str, dict[str, Any], list[Any]]] = [
    ("ArrayFeatureExtractor", {}, [f(3, 4), i64(1, 3)]),
    ("Binarizer", {"threshold": 0.1}, [f(2, 3)]),
    ("CategoryMapper", {"cats_int64s": [1, 2], "cats_strings": ["a", "b"], "default_string": "?"}, [i64(1, 2, 3)]),
    ("FeatureVectorizer", {"inputdimensions": [2, 3]}, [f(2, 2), f(2, 3)]),
    ("Imputer", {"imputed_value_floats": [1.0], "replaced_value_float": 0.0}, [f(2, 3)]),
    ("LabelEncoder", {"keys_strings": ["a", "b"], "values_int64s": [3, 4]}, [text("a", "c")]),
    ("LabelEncoder", {"keys_int64s": [1, 2], "values_floats": [0.5, 1.5]}, [i64(1, 7)]),
    ("LinearClassifier", {"coefficients": [0.1, 0.2, 0.3, 0.4, 0.5, 0.6], "intercepts": [0.0, 0.1, 0.2],
                          "classlabels_ints": [0, 1, 2], "post_transform": "SOFTMAX"}, [f(4, 2)]),
    ("LinearClassifier", {"coefficients": [0.1, 0.2], "intercepts": [0.1], "classlabels_strings": ["a", "b"]}, [f(4, 2)]),
    ("LinearRegressor", {"coefficients": [0.1, 0.2], "intercepts": [0.1]}, [f(4, 2)]),
    ("Normalizer", {"norm": "L2"}, [f(3, 4)]),
    ("OneHotEncoder", {"cats_int64s": [0, 1, 2]}, [i64(0, 2)]),
    ("Scaler", {"offset": [0.5], "scale": [2.0]}, [f(3, 4)]),
    ("SVMRegressor", {**_SVM, "n_supports": 2, "support_vectors": [0.1, 0.2, 0.3, 0.4], "coefficients": [0.5, -0.5]}, [f(3, 2)]),
    ("SVMClassifier", {**_SVM, "vectors_per_class": [1, 1], "support_vectors": [0.1, 0.2, 0.3, 0.4],
                       "coefficients": [0.5, -0.5], "classlabels_ints": [0, 1]}, [f(3, 2)]),
    ("TreeEnsembleRegressor", {**_TREE, "n_targets": 1, "target_ids": [0, 0], "target_nodeids": [1, 2],
                               "target_treeids": [0, 0], "target_weights": [1.0, 2.0]}, [f(5, 2)]),
    ("TreeEnsembleClassifier", {**_TREE, "class_ids": [0, 1], "class_nodeids": [1, 2], "class_treeids": [0, 0],
                                "class_weights": [1.0, 2.0], "classlabels_int64s": [0, 1]}, [f(5, 2)]),
]  # fmt: skip

_SEQUENCE = helper.make_sequence_type_proto(helper.make_tensor_type_proto(TensorProto.FLOAT, None))
_MAP = helper.make_map_type_proto(TensorProto.INT64, helper.make_tensor_type_proto(TensorProto.FLOAT, None))
_WORDS = helper.make_map_type_proto(
    TensorProto.STRING, helper.make_tensor_type_proto(TensorProto.FLOAT, None)
)
# The first input is of this type.
TYPED: list[tuple[str, int, str, dict[str, Any], onnx.TypeProto, list[Any]]] = [
    ("", 21, "SequenceAt", {}, _SEQUENCE, [[f(2, 3), f(4)], np.array(-1)]),
    ("", 21, "SequenceErase", {}, _SEQUENCE, [[f(2, 3), f(4)], np.array(0)]),
    ("", 21, "SequenceLength", {}, _SEQUENCE, [[f(2, 3), f(4)]]),
    ("", 21, "SequenceInsert", {}, _SEQUENCE, [[f(2, 3)], f(2, 3), np.array(0)]),
    ("", 21, "ConcatFromSequence", {"axis": 0}, _SEQUENCE, [[f(2, 3), f(4, 3)]]),
    ("", 21, "ConcatFromSequence", {"axis": -1, "new_axis": 1}, _SEQUENCE, [[f(2, 3), f(2, 3)]]),
    ("ai.onnx.ml", 1, "CastMap", {"map_form": "SPARSE", "max_map": 9}, _MAP, [{1: 0.5, 4: 2.0}]),
    ("ai.onnx.ml", 1, "DictVectorizer", {"string_vocabulary": ["a", "b"]}, _WORDS, [{"a": 1.0, "c": 2.0}]),
]  # fmt: skip


def _made(
    domain: str, version: int, kind: str, attributes: dict[str, Any], inputs: list[Any], outputs: int
) -> Example:
    names = ["" if value is None else f"i{at}" for at, value in enumerate(inputs)]
    node = helper.make_node(kind, names, [f"o{at}" for at in range(outputs)], domain=domain, **attributes)
    return Example(node, version, inputs, [None] * len(inputs))


def _tabled() -> list[Example]:
    """Of the tables, with the outputs that an operator cannot do without."""
    more = {"BatchNormalization": 1, "DynamicQuantizeLSTM": 3, "EmbedLayerNormalization": 2, "QEmbedLayerNormalization": 2,
            "GroupQueryAttention": 3, "LSTM": 3, "AttnLSTM": 3, "BifurcationDetector": 2, "SparseAttention": 3,
            "GatedDeltaNet": 2, "VarlenCausalConvWithState": 2,
            "GRU": 2, "RNN": 2, "Split": 2, "TopK": 2, "LinearClassifier": 2,
            "SVMClassifier": 2, "TreeEnsembleClassifier": 2}  # fmt: skip
    made = [_made("com.microsoft", 1, kind, *rest, more.get(kind, 1)) for kind, *rest in CONTRIB]
    made += [_made("", version, kind, *rest, more.get(kind, 1)) for version, kind, *rest in OLD]
    made += [_made("ai.onnx.ml", 2, kind, *rest, more.get(kind, 1)) for kind, *rest in LEARNED]
    for domain, version, kind, attributes, first, inputs in TYPED:
        made.append(_made(domain, version, kind, attributes, inputs, 1))
        made[-1].types[0] = first
    return made


def _standard() -> list[Example]:
    """The standard's node tests that are one node."""
    made = []
    for case in node_cases().values():
        model = case.model
        if model is None or len(model.graph.node) != 1 or model.functions or not case.data_sets:
            continue
        node = model.graph.node[0]
        values = dict(zip([i.name for i in model.graph.input], case.data_sets[0][0], strict=False))
        values.update((t.name, numpy_helper.to_array(t)) for t in model.graph.initializer)
        types = {i.name: i.type for i in model.graph.input}
        inputs = [values.get(name) for name in node.input]
        inputs = [np.asarray(v) if isinstance(v, np.generic | int | float | bool) else v for v in inputs]
        if any(isinstance(v, np.ndarray) and v.size > ENOUGH for v in inputs):
            continue
        if any(isinstance(v, onnx.SequenceProto | onnx.OptionalProto | onnx.TensorProto) for v in inputs):
            continue
        version = next((o.version for o in model.opset_import if o.domain == node.domain), 1)
        if node.domain in ("", "ai.onnx"):
            version = min(version, 26)
        plain = [
            types.get(n) if not isinstance(v, np.ndarray) else None
            for n, v in zip(node.input, inputs, strict=True)
        ]
        made.append(Example(node, version, inputs, plain))
    return made


def _guessed(have: set[str]) -> list[Example]:
    """An example by the schema alone, of every operator and version that no other has."""
    made = []
    kinds = {"float": F, "double": np.float64, "int64": np.int64, "int32": np.int32, "bool": np.bool_,
             "uint8": np.uint8, "float16": np.float16}  # fmt: skip
    for schema in onnx.defs.get_all_schemas():
        name = f"{schema.domain}.{schema.name}" if schema.domain else schema.name
        if name in have or schema.deprecated:
            continue
        constraints = {c.type_param_str: c.allowed_type_strs for c in schema.type_constraints}
        inputs: list[Any] = []
        for formal in schema.inputs:
            allowed = constraints.get(formal.type_str, [formal.type_str])
            dtype = next((d for t, d in kinds.items() if f"tensor({t})" in allowed), None)
            if dtype is None and "tensor(string)" not in allowed:
                break
            inputs.append(text("a", "b", "c") if dtype is None else numbers(2, 3, dtype=dtype))
        else:
            attributes = {
                a.name: {"INT": 1, "FLOAT": 0.5, "STRING": "a", "INTS": [1, 1], "FLOATS": [0.5], "STRINGS": ["a"]}.get(a.type.name)
                for a in schema.attributes.values()
                if a.required
            }  # fmt: skip
            attributes = {key: value for key, value in attributes.items() if value is not None}
            made.append(
                _made(
                    schema.domain,
                    schema.since_version,
                    schema.name,
                    attributes,
                    inputs,
                    max(1, schema.min_output),
                )
            )
    return made


def examples() -> dict[str, list[Example]]:
    """By operator, in a fixed order."""
    found: dict[str, list[Example]] = defaultdict(list)
    for example in [*_standard(), *_tabled()]:
        found[example.operator].append(example)
    for example in _guessed(set(found)):
        found[example.operator].append(example)
    return dict(sorted(found.items()))


def schema_of(node: onnx.NodeProto, version: int) -> onnx.defs.OpSchema | None:
    """What onnx knows of the operator, if it knows it."""
    try:
        return onnx.defs.get_schema(node.op_type, version, node.domain)
    except (onnx.defs.SchemaError, TypeError):  # TypeError: a version that is no int of C
        return None
