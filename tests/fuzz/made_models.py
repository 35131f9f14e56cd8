"""Models made by hand for the models' fuzzer: of what hardly any node test of the standard has.

Control flow, functions of the model, sequences, optionals, maps, sparse and external weights, old formats.
"""

# ruff: noqa: E501 - models
from __future__ import annotations

from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper, parser

F = np.float32
X = np.arange(6, dtype=F).reshape(2, 3) - 2
_HEAD = '<ir_version: 10, opset_import: ["": 20]> g '

# By name the text and what it is fed.
TEXTS: dict[str, tuple[str, dict[str, Any]]] = {
    "if": (_HEAD + """(bool c, float[n,3] x) => (float[a,3] y) <float[3] w = {1, -2, 3}> {
        outer = Mul(x, w)
        z = If(c) <then_branch = t () => (float[a,3] s) { s = Add(outer, x) },
                   else_branch = e () => (float[a,3] d) { i = Neg(outer) d = Concat<axis = 0>(i, x) }>
        y = Relu(z) }""", {"c": np.array(True), "x": X}),
    "nested": (_HEAD + """(bool c, bool d, float[n,3] x) => (float[n,3] y, float[n,3] q) {
        y, q = If(c) <then_branch = t () => (float[n,3] s, float[n,3] s2) {
            s = If(d) <then_branch = tt () => (float[n,3] u) { u = Add(x, x) }, else_branch = te () => (float[n,3] u) { k = Abs(x) u = Sqrt(k) }>
            s2 = Neg(s) },
          else_branch = e () => (float[n,3] s, float[n,3] s2) { s = Exp(x) s2 = Identity(x) }> }""",
        {"c": np.array(True), "d": np.array(False), "x": X}),
    "loop": (_HEAD + """(int64 n, bool c, float[a,3] x) => (float[a,3] y, float[k,a,3] all) {
        by = Constant<value_float = 0.5>()
        y, all = Loop(n, c, x) <body = b (int64 i, bool going, float[a,3] v) => (bool on, float[a,3] next, float[a,3] seen) {
            next = Add(v, by) seen = Mul(v, x) four = Constant<value_int = 4>() on = Less(i, four) }> }""",
        {"n": np.array(3), "c": np.array(True), "x": X}),
    "loop of a sequence": (_HEAD + """(int64 n, float[2] x) => (seq(float[k]) s, int64 count) {
        none = SequenceEmpty<dtype = 1>()
        s = Loop(n, "", none) <body = b (int64 i, bool going, seq(float[k]) v) => (bool on, seq(float[k]) next) {
            next = SequenceInsert(v, x) on = Identity(going) }>
        count = SequenceLength(s) }""", {"n": np.array(3), "x": X[0, :2]}),
    "scan": (_HEAD + """(float[3] start, float[n,3] rows) => (float[3] sum, float[n,3] sums) {
        sum, sums = Scan<num_scan_inputs = 1, body = b (float[3] s, float[3] r) => (float[3] t, float[3] o) {
            t = Add(s, r) o = Mul(t, r) }>(start, rows) }""", {"start": X[0], "rows": X}),
    "sequences": (_HEAD + """(float[n,3] x, int64 at) => (float[k,3] y, seq(float[n,3]) s, float[a,b] one) {
        b = Neg(x)
        s = SequenceConstruct(x, b, x)
        y = ConcatFromSequence<axis = 0>(s)
        one = SequenceAt(s, at) }""", {"x": X, "at": np.array(1)}),
    "split": (_HEAD + """(float[n,6] x, int64[k] lengths) => (seq(float[n,m]) s, float[n,m] last) {
        s = SplitToSequence<axis = 1>(x, lengths)
        minus = Constant<value_int = -1>()
        last = SequenceAt(s, minus) }""", {"x": np.tile(X, 2), "lengths": np.array([1, 2, 3])}),
    "split in twos": (_HEAD + """(float[n,6] x) => (seq(float[n,m]) s) <int64[2] lengths = {4, 2}> {
        s = SplitToSequence<axis = 1, keepdims = 0>(x, lengths) }""", {"x": np.tile(X, 2)}),
    "map": (_HEAD + """(seq(float[n,3]) s, float[3] w) => (seq(float[n,3]) r) {
        r = SequenceMap(s, w) <body = b (float[n,3] v, float[3] u) => (float[n,3] o) { o = Mul(v, u) }> }""",
        {"s": [X, -X], "w": X[0]}),
    "optional": (_HEAD + """(optional(float[n,3]) o, float[n,3] x) => (float[n,3] y, bool has) {
        has = OptionalHasElement(o)
        y = If(has) <then_branch = t () => (float[n,3] u) { u = OptionalGetElement(o) }, else_branch = e () => (float[n,3] u) { u = Neg(x) }> }""",
        {"o": X, "x": X}),
    "optional of a sequence": (_HEAD + """(seq(float[n]) s) => (optional(seq(float[n])) o, bool has, seq(float[n]) t) {
        o = Optional(s) has = OptionalHasElement(o) t = OptionalGetElement(o) }""", {"s": [X[0], X[1]]}),
    "maps": ("""<ir_version: 8, opset_import: ["": 17, "ai.onnx.ml": 2]> g (float[n,2] x) => (seq(map(string, float)) y) {
        y = ai.onnx.ml.ZipMap<classlabels_strings = ["no", "yes"]>(x) }""", {"x": X[:, :2]}),
    "words": ("""<ir_version: 8, opset_import: ["": 17, "ai.onnx.ml": 2]> g (string[n] x) => (int64[n] y, string[2,n] two) {
        y = ai.onnx.ml.LabelEncoder<keys_strings = ["a", "ä", ""], values_int64s = [1, -2, 3]>(x)
        axes = Constant<value_ints = [0]>()
        row = Unsqueeze(x, axes)
        two = Concat<axis = 0>(row, row) }""", {"x": np.array(["a", "ä", "b"], object)}),
    "functions": ("""<ir_version: 10, opset_import: ["": 20, "f": 1]> g (float[n,3] x) => (float[n,3] y, float[n,3] z) {
        y = f.outer<alpha = 0.25>(x, x)
        z = f.inner(y) }
        <domain: "f", opset_import: ["": 20]> inner (v) => (w) { two = Constant<value_float = 2.0>() w = Mul(v, two) }
        <domain: "f", opset_import: ["": 20, "f": 1]> outer<alpha>(a, b) => (c) {
            d = f.inner(a) e = LeakyRelu<alpha: float = @alpha>(d) c = Add(e, b) }""", {"x": X}),
    "function with a body": ("""<ir_version: 10, opset_import: ["": 20, "f": 1]> g (bool c, float[n,3] x) => (float[n,3] y) {
        y = f.choose(c, x) }
        <domain: "f", opset_import: ["": 20]> choose (b, v) => (w) {
            w = If(b) <then_branch = t () => (float[n,3] s) { s = Exp(v) }, else_branch = e () => (float[n,3] s) { s = Neg(v) }> }""",
        {"c": np.array(False), "x": X}),
    "function of a map": ("""<ir_version: 10, opset_import: ["": 20, "f": 1, "ai.onnx.ml": 3]> g (map(string, float) m) => (float[1,k] y) {
        y = f.vector(m) }
        <domain: "f", opset_import: ["": 20, "ai.onnx.ml": 3]> vector (m) => (v) {
            v = ai.onnx.ml.DictVectorizer<string_vocabulary = ["a", "b", "c"]>(m) }""", {"m": {"a": 1.5, "c": -2.0}}),
    "shapes": (_HEAD + """(float[n,3] x) => (float[a,b] y, int64[2] s) {
        s = Shape(x)
        one = Constant<value_ints = [1]>()
        n = Gather<axis = 0>(s, one)
        rest = Constant<value_ints = [-1]>()
        to = Concat<axis = 0>(n, rest)
        y = Reshape(x, to) }""", {"x": X}),
    "quantized": (_HEAD + """(float[n,3] x) => (float[n,2] y) <float s = {0.05}, uint8 z = {3}, int8[3,2] w = {1,-2,3,-4,5,-6}, float[2] ws = {0.1, 0.2}, int8[2] wz = {0, 0}> {
        q = QuantizeLinear(x, s, z) d = DequantizeLinear(q, s, z)
        wd = DequantizeLinear<axis = 1>(w, ws, wz)
        y = MatMul(d, wd) }""", {"x": X}),
    "network": (_HEAD + """(float[n,2,6,6] x) => (float[n,3] y) <float[4,2,3,3] w = {1,-2,3,4,5,-6,7,8,9,1,2,3,-4,5,6,7,-8,9,1,2,3,4,5,6,7,8,9,1,-2,3,4,5,-6,7,8,9,1,2,3,-4,5,6,7,-8,9,1,2,3,4,5,6,7,8,9,1,-2,3,4,5,-6,7,8,9,1,2,3,-4,5,6,7,-8,9}, float[4] b = {1, 2, 3, 4}, float[3,4] v = {1,-2,3,-4,5,-6,1,2,3,4,5,6}> {
        a = Conv<pads = [1, 1, 1, 1]>(x, w, b) r = Relu(a) p = MaxPool<kernel_shape = [2, 2], strides = [2, 2]>(r)
        m = GlobalAveragePool(p) k = Flatten(m) y = Gemm<transB = 1>(k, v) }""",
        {"x": np.linspace(-1, 1, 72, dtype=F).reshape(1, 2, 6, 6)}),
    "attention": ("""<ir_version: 10, opset_import: ["": 23]> g (float[b,h,s,k] q, float[b,s,c] t, float[b,h,s,k] v) => (float[b,h,s,k] y) {
        to = Constant<value_ints = [0, 0, 3, 2]>()
        r = Reshape(t, to)
        kt = Transpose<perm = [0, 2, 1, 3]>(r)
        y = Attention(q, kt, v) }""",
        {"q": np.ones((1, 3, 4, 2), F), "t": np.linspace(-1, 1, 24, dtype=F).reshape(1, 4, 6), "v": np.linspace(0, 1, 24, dtype=F).reshape(1, 3, 4, 2)}),
    "attention of columns": ("""<ir_version: 10, opset_import: ["": 23]> g (float[b,s,6] q, float[b,6,s] t, float[b,s,6] v) => (float[b,s,6] y) {
        k = Transpose<perm = [0, 2, 1]>(t)
        y = Attention<q_num_heads = 3, kv_num_heads = 3>(q, k, v) }""",
        {"q": np.ones((1, 4, 6), F), "t": np.linspace(-1, 1, 24, dtype=F).reshape(1, 6, 4), "v": np.linspace(0, 1, 24, dtype=F).reshape(1, 4, 6)}),
    "sums": (_HEAD + """(float[n,3] x, int64[k] axes) => (float[a,b] y, float[c] z) <int64[1] last = {-1}> {
        y = ReduceSum<keepdims = 1>(x, axes)
        z = ReduceMean<keepdims = 0>(x, last) }""", {"x": X, "axes": np.array([1])}),
    "before opset 13": ("""<ir_version: 3, opset_import: ["": 9]> g (float[1,3] x) => (float[a] y) {
        s = Softmax<axis = 1>(x) u = Squeeze<axes = [0]>(x) c = Clip<min = -1.0, max = 1.0>(s)
        p = Pad<pads = [0, 1, 0, 1]>(c) y = ReduceSum<axes = [0], keepdims = 0>(p) }""", {"x": X[:1]}),
    "recurrent": (_HEAD + """(float[t,b,2] x) => (float[t,1,b,2] y, float[1,b,2] h) <float[1,2,2] w = {1,-1,0.5,2}, float[1,2,2] r = {0.1,0.2,-0.3,0.4}> {
        y, h = RNN<hidden_size = 2>(x, w, r) }""", {"x": X.reshape(3, 1, 2)}),
    "dead ends": (_HEAD + """(float[n,3] x, float[n,3] unused) => (float[n,3] y, float[n,3] x2, float[2] w) <float[2] w = {1, 2}, float[1] idle = {0}> {
        gone = Exp(x) y = Dropout(x) x2 = Identity(y) }""", {"x": X, "unused": X}),
}  # fmt: skip


def _sparse() -> onnx.ModelProto:
    model = parser.parse_model(
        _HEAD + "(float[2,6] x) => (float[2,3] y, float[6,3] z) { y = MatMul(x, w) z = Identity(w) }"
    )
    values = numpy_helper.from_array(np.array([1.5, -2, 4], F), "w")
    weight = model.graph.sparse_initializer.add(dims=[6, 3])
    weight.values.CopyFrom(values)
    weight.indices.CopyFrom(numpy_helper.from_array(np.array([1, 5, 16])))
    constant = helper.make_node("Constant", [], ["c"])
    held = onnx.SparseTensorProto(dims=[2, 3])
    held.values.CopyFrom(numpy_helper.from_array(np.array([1, 2], F)))
    held.indices.CopyFrom(numpy_helper.from_array(np.array([[0, 1], [1, 2]])))
    constant.attribute.add(
        name="sparse_value", type=onnx.AttributeProto.SPARSE_TENSOR
    ).sparse_tensor.CopyFrom(held)
    model.graph.node.append(constant)
    model.graph.output.append(helper.make_tensor_value_info("c", TensorProto.FLOAT, [2, 3]))
    return model


def _external() -> onnx.ModelProto:
    model = parser.parse_model(_HEAD + "(float[2,3] x) => (float[2,4] y) { m = MatMul(x, w) y = Add(m, b) }")
    for name, dims, offset in (("w", [3, 4], 0), ("b", [4], 64)):
        tensor = model.graph.initializer.add(name=name, data_type=TensorProto.FLOAT, dims=dims)
        tensor.data_location = TensorProto.EXTERNAL
        length = 4 * int(np.prod(dims))
        for key, value in (("location", DATA_FILE), ("offset", offset), ("length", length)):
            tensor.external_data.add(key=key, value=str(value))
    return model


def _narrow() -> onnx.ModelProto:
    """Weights of element types that share a byte, and of all ways to write numbers."""
    model = parser.parse_model(
        _HEAD.replace("20", "21")
        + "(float[2,4] x) => (float[2,4] y) { d = DequantizeLinear(w, s) y = Mul(x, d) }"
    )
    model.graph.initializer.append(helper.make_tensor("w", TensorProto.INT4, [2, 4], list(range(-4, 4))))
    model.graph.initializer.append(helper.make_tensor("s", TensorProto.FLOAT, [], [0.5]))
    for at, kind in enumerate((TensorProto.FLOAT16, TensorProto.BFLOAT16, TensorProto.DOUBLE, TensorProto.BOOL, TensorProto.UINT8,
                               TensorProto.INT64, TensorProto.UINT64)):  # fmt: skip
        name = f"more{at}"
        model.graph.initializer.append(helper.make_tensor(name, kind, [3], [1, 0, 1]))
        model.graph.node.append(helper.make_node("Identity", [name], [f"{name}y"]))
        model.graph.output.append(helper.make_tensor_value_info(f"{name}y", kind, [3]))
    return model


DATA_FILE = "weights.data"
FILES = {"external": {DATA_FILE: np.linspace(-1, 1, 20, dtype=F).tobytes()}}


def made_models() -> dict[str, tuple[onnx.ModelProto, dict[str, Any], dict[str, bytes]]]:
    """By name each model, what it is fed and the files beside it."""
    made = {name: (parser.parse_model(text), feeds, {}) for name, (text, feeds) in TEXTS.items()}
    made["sparse"] = (_sparse(), {"x": np.tile(X, 2)}, {})
    made["external"] = (_external(), {"x": X}, FILES["external"])
    made["narrow"] = (_narrow(), {"x": np.ones((2, 4), F)}, {})
    return made
