"""com.microsoft's operators in models that say nothing of their outputs' types, as exporters leave them."""

from __future__ import annotations

import numpy as np
import onnx
import pytest

from tests.fuzz.examples import CONTRIB
from tests.plugins.cpu.conftest import Cpu

# What onnxruntime has for the CPU, or elsewhere, and this plugin has not.
MISSING = {
    *("BiasAdd", "BiasSoftmax", "BiasSplitGelu", "MatMulBnb4", "QEmbedLayerNormalization", "QLinearWhere"),
    # tests/reference/test_rare_operators.py has them.
    *("AttnLSTM", "BifurcationDetector", "BranchwiseRMSNorm", "ConvTransposeWithDynamicPads", "EngramGate"),
    *("HyperConnectionPostMix", "HyperConnectionPreMix", "MaxpoolWithMask", "NGramHashMapping"),
    *("SparseAttention", "VarlenNGramHashMapping", "WordConvEmbedding"),
    # tests/reference/test_packed_operators.py has them.
    *("GatherPacked", "MoEGroupRouter"),
}
OUTPUTS = {
    **{"CausalConvWithState": 2, "LinearAttention": 2, "LinearAttentionGate": 2, "Unique": 3},
    **{"GatedDeltaNet": 2, "VarlenCausalConvWithState": 2},
    **{"DynamicQuantizeLSTM": 3, "EmbedLayerNormalization": 2},
}
# Their weights are packed once: constants.
WITH_WEIGHTS = {
    "Attention",
    "DynamicQuantizeLSTM",
    "EmbedLayerNormalization",
    "MatMulNBits",
    "QAttention",
    "QMoE",
}
# onnxruntime's GroupQueryAttention wants larger heads; test_cpu_transformer.py has it.
RUN = [(kind, *rest) for kind, *rest in CONTRIB if kind not in MISSING | {"GroupQueryAttention"}]


@pytest.mark.parametrize("at", range(len(RUN)), ids=[f"{kind}-{at}" for at, (kind, *_) in enumerate(RUN)])
def test_types_of_outputs_are_inferred(cpu_plugin: Cpu, at: int) -> None:
    kind, attributes, inputs = RUN[at]
    names = ["" if value is None else f"i{i}" for i, value in enumerate(inputs)]
    outputs = [f"o{i}" for i in range(OUTPUTS.get(kind, 1))]
    if kind == "MultiHeadAttention" and len(inputs) > 7:
        outputs = ["o0", "o1", "o2"]  # onnxruntime forgets the past where nothing asks for the present
    node = onnx.helper.make_node(kind, names, outputs, domain="com.microsoft", **attributes)
    values = {name: np.asarray(value) for name, value in zip(names, inputs, strict=True) if name}
    weights = kind in WITH_WEIGHTS
    feeds = {name: value for name, value in values.items() if not weights or name == "i0"}
    constants = {name: value for name, value in values.items() if name not in feeds}
    # What lies between two bytes is rounded otherwise, also inside of an LSTM.
    steps = 1 if kind.startswith("QLinear") else 5e-2 if kind == "DynamicQuantizeLSTM" else 1e-4
    try:
        cpu_plugin.check_beside_onnxruntime(node, feeds, outputs, constants, rtol=1e-4, atol=steps)
    except Exception as error:
        if not type(error).__module__.startswith("onnxruntime."):
            raise
        pytest.skip(f"onnxruntime refuses it: {error}")
