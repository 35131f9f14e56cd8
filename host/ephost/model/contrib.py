"""Types and shapes of what operators make that onnx infers nothing of: com.microsoft's, some of ai.onnx.ml.

Exporters write them into models, and optimizers of transformers. For inference, and only there, each such
node is a call of a function of ONNX's own operators whose outputs have the same types and shapes, if another
content, so that one pass of onnx's inference goes through the model.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from ephost.message_helpers import make_node
from ephost.messages import AttributeProto, FunctionProto, NodeProto
from ephost.model import contrib_states
from ephost.model.contrib_call import LONGEST_WINDOW, MOST_HEADS, Call, RankOf, split_heads
from ephost.onnx_library import extension

DOMAIN = "com.microsoft"
ML_DOMAIN = "ai.onnx.ml"
_STAND_INS = "ephost.stand_ins"
# Operators of ONNX's domain that its schemas do not have, up to these opsets: what onnxruntime writes there,
# and what ONNX had on trial at first, which old models and onnxruntime have.
_IN_ONNX = {
    "LayerNormalization": 17,
    "SimplifiedLayerNormalization": 1 << 20,
    "MeanVarianceNormalization": 9,
    **dict.fromkeys(("Affine", "Crop", "DynamicSlice", "ImageScaler", "ParametricSoftplus"), 10),
    **dict.fromkeys(("Scale", "ScaledTanh", "ThresholdedRelu"), 10),
}

_END = (1 << 63) - 1  # of an axis, to Slice


class StandIns:
    """The functions of one model, and nodes that call them."""

    def __init__(self, rank_of: RankOf = lambda name: None, opset: int = 1 << 20):
        """`rank_of` says what is known of the ranks of values before inference; `opset` is ONNX's version."""
        self._opset = opset
        self.functions: list[FunctionProto] = []
        self._rank_of = rank_of
        self.unranked: set[str] = set()  # values whose rank was asked for and is not known

    def replace(self, nodes: Iterable[NodeProto]) -> list[NodeProto]:
        """The nodes, with calls in place of com.microsoft's; those in subgraphs too. Changes none of them."""
        return [self._replace(node) for node in nodes]

    def _replace(self, node: NodeProto) -> NodeProto:
        if has_stand_in(node, self._opset):
            return self._call(node)
        graphs = [a for a in node.attribute if a.type == AttributeProto.GRAPH]
        if not any(need_stand_ins(attribute.g.node, self._opset) for attribute in graphs):
            return node
        replaced = [
            attribute.with_fields(g=attribute.g.with_fields(node=self.replace(attribute.g.node)))
            if attribute.type == AttributeProto.GRAPH
            else attribute
            for attribute in node.attribute
        ]
        return node.with_fields(attribute=replaced)

    def _known_rank(self, name: str) -> int | None:
        rank = self._rank_of(name)
        if rank is None:
            self.unranked.add(name)
        return rank

    def _call(self, node: NodeProto) -> NodeProto:
        bodies = _LEARNED if node.domain == ML_DOMAIN else _BODIES
        write = bodies.get(node.op_type)
        body = write(Call(node, self._known_rank)) if write is not None else None
        if not body:
            return node
        name = f"F{len(self.functions)}"
        inputs = ", ".join(f"i{at}" for at in range(len(node.input)))
        made = [f"o{at}" for at in range(len(node.output)) if f"o{at} =" in body or f"o{at}, " in body]
        wanted = [at for at, output in enumerate(node.output) if output and f"o{at}" in made]
        if not wanted:
            return node
        text = (
            f'<domain: "{_STAND_INS}", opset_import: ["" : 18]> {name} ({inputs}) => '
            f"({', '.join(f'o{at}' for at in wanted)}) {{ {body} }}"
        )
        success, _, function = extension().parser.parse_function(text)
        if not success:  # an attribute of text that is none of its operator's
            return node
        self.functions.append(FunctionProto.FromString(function))
        outputs = [node.output[at] for at in wanted]
        return make_node(name, node.input, outputs, node.name, domain=_STAND_INS)


def is_contrib(node: NodeProto, opset: int) -> bool:
    """Whether a node is one of com.microsoft's, in whatever domain it is written."""
    if node.domain in ("", "ai.onnx"):
        return opset < _IN_ONNX.get(node.op_type, 0)
    return node.domain == DOMAIN


def has_stand_in(node: NodeProto, opset: int) -> bool:
    """Whether a function may stand in for a node: that it does depends on its attributes, too."""
    return is_contrib(node, opset) or (node.domain == ML_DOMAIN and node.op_type in _LEARNED)


def need_stand_ins(nodes: Iterable[NodeProto], opset: int) -> bool:
    """Whether a function may stand in for one of the nodes, or for one in their bodies."""
    return any(
        has_stand_in(node, opset)
        or any(need_stand_ins(a.g.node, opset) for a in node.attribute if a.type == AttributeProto.GRAPH)
        for node in nodes
    )


def _same(call: Call) -> str:
    return "o0 = Identity (i0)"


def _skip_norm(call: Call) -> str:
    return (
        "o0 = Identity (i0) m = ReduceMax <keepdims = 1, axes = [-1]> (i0) o1 = Cast <to = 1> (m) "
        "o2 = Cast <to = 1> (m) o3 = Identity (i0)"
    )


def _norm(call: Call) -> str:
    made = "o0 = CastLike (i0, i1)"  # a scale may be of another type than the input
    if call.number("axis", -1) != -1:
        return made
    return f"{made} m = ReduceMax <keepdims = 1, axes = [-1]> (i0) o1 = Cast <to = 1> (m) o2 = Identity (o1)"


def _embed(call: Call) -> str:
    return (
        "o0 = Gather (i2, i0) s = ReduceMax <keepdims = 0, axes = [-1]> (i0) o1 = Cast <to = 6> (s) "
        "o2 = Identity (o0)"
    )


def _fused_product(call: Call) -> str:
    ranks = [call.rank(at) for at in (0, 1)]
    turned = [bool(call.number(name)) for name in ("transA", "transB")]
    # Where the batch is between the rows and the columns of the matrices.
    moved = [bool(call.number(name)) for name in ("transBatchA", "transBatchB")]
    if any(ranks[at] is None and (turned[at] or moved[at]) for at in (0, 1)):
        return _product_of_any_rank(ranks, turned, moved)
    body, names = "", ["i0", "i1"]
    for at in (0, 1):
        rank = ranks[at]
        if rank is None or not (turned[at] or moved[at]):
            continue
        if rank < 2:
            return ""
        order = [*range(1, rank - 1), 0, rank - 1] if moved[at] else [*range(rank)]
        if turned[at]:
            order[-2:] = order[:-3:-1]
        names[at] = f"t{at}"
        body += f"t{at} = Transpose <perm = {order}> (i{at}) "
    return f"{body}o0 = MatMul ({', '.join(names)})"


def _product_of_any_rank(ranks: list[int | None], turned: list[bool], moved: list[bool]) -> str:
    # "..." stands for as many dimensions in both: what is known to be one matrix has none.
    terms = []
    for at, (row, column) in enumerate((("m", "k"), ("k", "n"))):
        batch = "" if ranks[at] == 2 else "..."
        first, last = (column, row) if turned[at] else (row, column)
        terms.append(first + batch + last if moved[at] else batch + first + last)
    result = "...mn" if "..." in "".join(terms) else "mn"
    return f'o0 = Einsum <equation = "{",".join(terms)}->{result}"> (i0, i1)'


def _n_bits(call: Call) -> str:
    k, n = call.number("K"), call.number("N")
    return (
        f"s = Constant <value_ints = [{k}, {n}]> () w = ConstantOfShape (s) c = CastLike (w, i0) "
        "o0 = MatMul (i0, c)"
    )


def _multi_head(call: Call) -> str:
    heads = call.number("num_heads")
    if not call.has(1):
        return (
            "z = Constant <value_ints = [0]> () u = Constant <value_ints = [1]> () "
            "x = Constant <value_ints = [3]> () t = Slice (i0, z, u, x) "
            "h = Constant <value_ints = [0, 0, -1]> () o0 = Reshape (t, h)"
        )
    if not call.has(2):
        return "o0 = Identity (i0)"
    # From the queries all but the channels, from the values those.
    body = "q = ReduceMax <keepdims = 1, axes = [2]> (i0) "
    if call.rank(2) == 4:
        return body + (
            "t = Transpose <perm = [0, 2, 1, 3]> (i2) w = ReduceMax <keepdims = 1, axes = [1]> (t) "
            "h = Constant <value_ints = [0, 0, -1]> () v = Reshape (w, h) o0 = Add (q, v) "
            + split_heads("i0", heads, "heads")
            + "turned = Transpose <perm = [0, 1, 3, 2]> (i1) o3 = MatMul (heads, turned) "
        )
    if call.rank(2) != 3:
        return "t = Constant <value = bool[1] {1}> () o0 = Compress <axis = 2> (i0, t)"  # of some channels
    body += "v = ReduceMax <keepdims = 1, axes = [1]> (i2) o0 = Add (q, v) "
    if call.has(6) and call.has(8):  # past and present are one buffer, not all of which is used
        return body + "o1 = Identity (i6) o2 = Identity (i7) c = Shape (i6) " + _of_rank("c", "o3")
    for output, new, past in ((1, 1, 6), (2, 2, 7)):
        body += split_heads(f"i{new}", heads, f"n{output}")
        body += (
            f"o{output} = Concat <axis = 2> (i{past}, n{output}) "
            if call.has(past)
            else f"o{output} = Identity (n{output}) "
        )
    # The products: queries by all keys, of each head.
    body += split_heads("i0", heads, "heads")
    return body + "turned = Transpose <perm = [0, 1, 3, 2]> (o1) o3 = MatMul (heads, turned) "


def _decoder_masked(call: Call) -> str:
    heads, new = call.number("num_heads"), ("i1", "i2")
    if call.has(1) and call.rank(1) == 4:
        return _multi_head(call)
    body = ""
    if not call.has(1):
        body, new = "x, k, v = Split <axis = 2, num_outputs = 3> (i0) ", ("k", "v")
    body += f"o0 = Identity ({new[1]}) "  # there is one query, and one new value
    for output, past in ((1, 5), (2, 6)):
        if call.has(past) and call.number("past_present_share_buffer"):
            body += f"o{output} = Identity (i{past}) "
            continue
        body += split_heads(new[output - 1], heads, f"n{output}")
        body += (
            f"o{output} = Concat <axis = 2> (i{past}, n{output}) "
            if call.has(past)
            else f"o{output} = Identity (n{output}) "
        )
    return body


def _packed_attention(call: Call) -> str:
    heads, past = call.number("num_heads"), 8 if call.node.op_type == "QAttention" else 4
    sizes = call.numbers("qkv_hidden_sizes")
    if heads <= 0 or (sizes and len(sizes) != 3):
        return ""
    # Products with the part of the weights that makes values; past and present have keys and values.
    body = "x = Cast <to = 1> (i0) w = Cast <to = 1> (i1) "
    if sizes:
        body += f"s = Constant <value_ints = {sizes}> () wq, wk, wv = Split <axis = 1> (w, s) "
    else:
        body += "wq, wk, wv = Split <axis = 1, num_outputs = 3> (w) "
    body += "f = MatMul (x, wv) o0 = CastLike (f, i2) "
    if call.has(past):
        return body + f"t = Constant <value = bool[1] {{1}}> () o1 = Compress <axis = 3> (i{past}, t) "
    body += "z = Constant <value_ints = [0]> () " + split_heads("o0", heads, "n")
    return body + "u = Unsqueeze (n, z) o1 = Concat <axis = 0> (u, u) "


def _window(call: Call) -> list[str]:
    """The attributes of a convolution's or a pooling's window."""
    texts = [f'auto_pad = "{call.text("auto_pad", "NOTSET")}"']
    for name in ("dilations", "kernel_shape", "pads", "strides"):
        if numbers := call.numbers(name):
            texts.append(f"{name} = {numbers}")
    return texts


def _fused_conv(call: Call) -> str:
    texts = [*_window(call), f"group = {call.number('group', 1)}"]
    bias = ", i2" if call.has(2) else ""
    return f"o0 = Conv <{', '.join(texts)}> (i0, i1{bias})"


def _fused_gemm(call: Call) -> str:
    attributes = f"transA = {call.number('transA')}, transB = {call.number('transB')}"
    return f"o0 = Gemm <{attributes}> (i0, i1)"


def _quantized_lstm(call: Call) -> str:
    # The weights lie transposed.
    body = "".join(
        f"{name}b = Cast <to = 1> (i{at}) {name} = Transpose <perm = [0, 2, 1]> ({name}b) "
        for at, name in ((1, "w"), (2, "r"))
    )
    direction = call.text("direction", "forward")
    attributes = f'hidden_size = {call.number("hidden_size")}, direction = "{direction}"'
    return f"{body} o0, o1, o2 = LSTM <{attributes}> (i0, w, r)"


def _group_query(call: Call) -> str:
    heads, kv_heads = call.number("num_heads"), call.number("kv_num_heads")
    if not (0 < heads <= MOST_HEADS and 0 < kv_heads <= MOST_HEADS):
        return ""
    body, new = "o0 = Identity (i0) ", ("i1", "i2")
    if not call.has(1):
        parts = [f"p{at}" for at in range(heads + 2 * kv_heads)]
        body = (
            f"{', '.join(parts)} = Split <axis = 2, num_outputs = {len(parts)}> (i0) "
            f"o0 = Concat <axis = 2> ({', '.join(parts[:heads])}) "
            f"k = Concat <axis = 2> ({', '.join(parts[heads : heads + kv_heads])}) "
        )
        new = ("k", "k")
    body += "t = Constant <value = bool[1] {1}> () "
    for output, past in ((1, 3), (2, 4)):
        if call.has(past):
            body += f"o{output} = Compress <axis = 2> (i{past}, t) "
        else:
            body += split_heads(new[output - 1], kv_heads, f"n{output}")
            body += f"o{output} = Compress <axis = 2> (n{output}, t) "
    if len(call.node.output) > 3:  # for each query the scores of keys, of which there are i6
        body += split_heads("o0", heads, "n3") + "o3 = Compress <axis = 3> (n3, t) "
    return body


def _quantize(call: Call) -> str:
    return "o0 = CastLike (i0, i2)" if call.has(2) else "o0 = Cast <to = 2> (i0)"


def _two_quantized(call: Call) -> str:
    return "o0 = Add (i0, i3)"


def _concatenated(call: Call) -> str:
    values = ", ".join(f"i{at}" for at in range(2, len(call.node.input), 3))
    return f"o0 = Concat <axis = {call.number('axis')}> ({values})"


def _integer_product(call: Call) -> str:
    return "a = CastLike (i0, i2) b = CastLike (i1, i2) o0 = MatMul (a, b)"


def _dynamic_product(call: Call) -> str:
    return "b = CastLike (i1, i0) o0 = MatMul (i0, b)"


def _quantized_gemm(call: Call) -> str:
    # a, its scale and zero, b, its scale and zero, c, the result's scale and zero.
    attributes = f"transA = {call.number('transA')}, transB = {call.number('transB')}"
    result = "CastLike (g, i8)" if call.has(8) else "Identity (g)"
    return f"a = Cast <to = 1> (i0) b = Cast <to = 1> (i3) g = Gemm <{attributes}> (a, b) o0 = {result}"


def _pool(call: Call) -> str:
    if call.number("channels_last"):
        return ""
    texts = [*_window(call), f"ceil_mode = {call.number('ceil_mode')}"]
    return f"a = Cast <to = 1> (i0) g = AveragePool <{', '.join(texts)}> (a) o0 = CastLike (g, i0)"


def _padded(call: Call) -> str:
    value = ", i2" if call.has(2) else ""
    return f'o0 = Pad <mode = "{call.text("mode", "constant")}"> (i0, i1{value})'


def _global_pool(call: Call) -> str:
    if not call.number("channels_last"):
        return "a = Cast <to = 1> (i0) g = GlobalAveragePool (a) o0 = CastLike (g, i0)"
    if (turned := _turned(call)) is None:
        return "o0 = Identity (i0)"  # of the type, at least
    return (
        f"a = Cast <to = 1> (i0) t = Transpose <perm = {turned[0]}> (a) g = GlobalAveragePool (t) "
        f"l = Transpose <perm = {turned[1]}> (g) o0 = CastLike (l, i0)"
    )


def _split(call: Call) -> str:
    """Strings, of a shape that depends on what they are."""
    return (
        "e = Equal (i0, i0) z = NonZero (e) a = Constant <value_ints = [-1]> () s = Reshape (z, a) "
        "o0 = Reshape (i0, s)"
    )


def _distances(call: Call) -> str:
    return "t = Transpose <perm = [1, 0]> (i1) c = MatMul (i0, t) o0 = CastLike (c, i0)"


def _hashes(call: Call) -> str:
    return f"o0 = Cast <to = {12 if call.number('positive', 1) == 1 else 6}> (i0)"


def _rows_of_blocks(call: Call) -> str:
    """Two elements to a byte of 4-bit ones, where the data are bytes: which they are is said of none."""
    pairs = "d = Concat <axis = -1> (i0, i0) " if call.number("bits", 4) == 4 else "d = Identity (i0) "
    return pairs + "g = Gather <axis = 0> (d, i1) o0 = CastLike (g, i2)"


def _packed_rows(call: Call) -> str:
    length, kind = call.number("K"), call.number("output_dtype", 16)
    if not 0 < length < 1 << 31 or kind not in (1, 10, 16):
        return ""
    return (
        "a = Constant <value_ints = [-1]> () u = Unsqueeze (i1, a) "
        f"s = Constant <value_ints = [{length}]> () "
        f"e = Expand (u, s) o0 = Cast <to = {kind}> (e)"
    )


def _router(call: Call) -> str:
    scores = "m = Flatten <axis = -1> (i0) "
    if call.has(2):
        scores = "t = Transpose <perm = [1, 0]> (i2) m = MatMul (i0, t) "
    return scores + "o0 = Identity (m) o1 = CastLike (m, i1) o2 = CastLike (m, i1)"


def _turned(call: Call) -> tuple[str, str] | None:
    """Permutations of a value whose channels are last, to the second place and back; None of unknown rank."""
    rank = call.rank(0)
    if rank is None or rank < 3:
        return None
    return str([0, rank - 1, *range(1, rank - 1)]), str([0, *range(2, rank), 1])


def _pool_of_last(call: Call) -> str:
    if (turned := _turned(call)) is None:
        return ""
    texts = [*_window(call), f"ceil_mode = {call.number('ceil_mode')}"]
    return (
        f"t = Transpose <perm = {turned[0]}> (i0) p = MaxPool <{', '.join(texts)}> (t) "
        f"o0 = Transpose <perm = {turned[1]}> (p)"
    )


def _quantized_conv(call: Call) -> str:
    texts = [*_window(call), f"group = {call.number('group', 1)}"]
    product = f"w = Cast <to = 1> (i3) c = Conv <{', '.join(texts)}> (x, w) q = CastLike (c, i7) "
    if not call.number("channels_last"):
        return f"x = Cast <to = 1> (i0) {product} o0 = Identity (q)"
    if (turned := _turned(call)) is None:
        return ""
    there, back = turned
    turned_x = f"f = Cast <to = 1> (i0) x = Transpose <perm = {there}> (f)"
    return f"{turned_x} {product} o0 = Transpose <perm = {back}> (q)"


def _one_more(call: Call) -> str:
    return (
        "a = Cast <to = 7> (i1) s = Constant <value_ints = [1]> () r = Reshape (a, s) o0 = Unsqueeze (i0, r)"
    )


def _cropped(call: Call) -> str:
    border, size = call.numbers("border"), call.numbers("scale")
    if len(border) != 4 or len(size) not in (0, 2) or any(abs(n) >> 31 for n in border + size):
        return ""
    left, top, right, bottom = border
    end = [top + size[0], left + size[1]] if size else [-bottom or _END, -right or _END]
    return (
        f"s = Constant <value_ints = {[top, left]}> () e = Constant <value_ints = {end}> () "
        "a = Constant <value_ints = [2, 3]> () o0 = Slice (i0, s, e, a)"
    )


def _texts(call: Call) -> str:
    """Tokens of [batch, longest], and Sampling's scores of [batch, vocabulary]."""
    return (
        "n = Constant <value_ints = [1]> () z = Constant <value_ints = [0]> () s = Shape (i0) "
        "b = Gather (s, z) m = Cast <to = 7> (i1) l = Reshape (m, n) d = Concat <axis = 0> (b, l) "
        "t = ConstantOfShape (d) o0 = Cast <to = 6> (t) k = Abs (d) o1 = ConstantOfShape (k)"
    )


def _beams(call: Call) -> str:
    """Tokens of [batch, returned, longest], their scores, and those of each step: of rank 4."""
    return (
        "n = Constant <value_ints = [1]> () z = Constant <value_ints = [0]> () s = Shape (i0) "
        "b = Gather (s, z) m = Cast <to = 7> (i1) l = Reshape (m, n) p = Cast <to = 7> (i4) "
        "r = Reshape (p, n) e = Concat <axis = 0> (b, r) d = Concat <axis = 0> (e, l) "
        "t = ConstantOfShape (d) o0 = Cast <to = 6> (t) o1 = ConstantOfShape (e) "
        "q = Concat <axis = 0> (d, n) k = Abs (q) o2 = ConstantOfShape (k)"
    )


def _range(call: Call) -> str:
    """The standard's, which takes no numbers with a dimension."""
    of = ["i0", "i1", "i2" if call.has(2) else "step"]
    lines = [] if call.has(2) else ["n = Constant <value_int = 1> () step = CastLike (n, i0)"]
    for at in range(3 if call.has(2) else 2):
        if call.rank(at):
            of[at] = f"s{at}"
            lines.append(f"d{at} = Constant <value_ints = [0]> () s{at} = Squeeze (i{at}, d{at})")
    return " ".join([*lines, f"o0 = Range ({', '.join(of)})"])


def _path(call: Call) -> str:
    """Two rows of integers."""
    return "s = Constant <value_ints = [-1, 1]> () m = Reshape (i0, s) n = NonZero (m) o0 = Cast <to = 6> (n)"


def _unfolded(call: Call) -> str:
    """Slices along a dimension, whose elements are the last dimension of the output."""
    rank = call.rank(0)
    if not rank:
        return ""
    size, step = (max(1, call.number(name, 1)) for name in ("size", "step"))  # others are refused by name
    axis = call.number("dim", -1) % rank
    order = [*range(axis + 1), *range(axis + 2, rank + 1), axis + 1]
    slices = f"g = Gather <axis = {axis}> (i0, which) o0 = Transpose <perm = {order}> (g)"
    if size > LONGEST_WINDOW:  # onnx would write its places out: as many slices of any size
        some = "s = Shape (i0) n = NonZero (s) t = Constant <value = bool[1] {1}> () "
        return f"{some} which = Compress <axis = 0> (n, t) {slices}"
    return (
        f"s = Shape <start = {axis}, end = {axis + 1}> (i0) z = Constant <value_int = 0> () l = Squeeze (s) "
        f"last = Constant <value_int = {size - 1}> () step = Constant <value_int = {step}> () "
        "end = Sub (l, last) r = Range (z, end, step) one = Constant <value_ints = [1]> () "
        f"first = Unsqueeze (r, one) size = Constant <value_int = {size}> () w = Constant <value_int = 1> () "
        f"more = Range (z, size, w) which = Add (first, more) {slices}"
    )


def _crops(call: Call) -> str:
    return (
        "n = Shape (i2) c = Shape <start = 1, end = 2> (i0) s = Cast <to = 7> (i3) "
        "t = Concat <axis = 0> (n, c, s) "
        "z = Constant <value_float = 0.0> () f = CastLike (z, i0) o0 = Expand (f, t)"
    )


def _of_rank(shape: str, output: str) -> str:
    """A value as i0 whose rank alone is known: that of a value with this shape."""
    return (
        f"n{output} = Abs ({shape}) z{output} = ConstantOfShape (n{output}) "
        f"{output} = CastLike (z{output}, i0) "
    )


def _with_no_sizes(call: Call) -> str:
    # DynamicSlice too: onnx's inference of Slice crashes in functions over inputs that do not fit.
    return "s = Shape (i0) " + _of_rank("s", "o0")


def _streams_in_one(call: Call) -> str:
    if not call.number("num_branches"):
        return "a = Constant <value_ints = [-2]> () o0 = ReduceMax <keepdims = 0> (i0, a)"
    return _with_no_sizes(call)


def _hashed(call: Call) -> str:
    """A hash for each head, behind each token; then the last tokens of each row."""
    before, heads = call.number("max_ngram_size") - 1, call.number("n_head_per_ngram")
    if not 0 < before * heads < 1 << 31:
        return ""
    ranks = "1, " * (1 if call.node.op_type.startswith("Varlen") else 2)
    return (
        f"a = Constant <value_ints = [-1]> () u = Unsqueeze (i0, a) "
        f"h = Constant <value_ints = [{ranks}{before * heads}]> () o0 = Expand (u, h) "
        f"z = Constant <value_ints = [1, {before}]> () n = Abs (z) k = ConstantOfShape (n) c = Shape (k) "
        f"m = Abs (c) e = ConstantOfShape (m) o1 = CastLike (e, i0) o2 = Cast <to = 6> (e) "
        f"r = Concat <axis = 0> (c, a) q = Abs (r) g = ConstantOfShape (q) o3 = CastLike (g, i0)"
    )


def _words(call: Call) -> str:
    return (
        "f = CastLike (i0, i2) a = Constant <value_ints = [1]> () m = ReduceMax <keepdims = 1> (f, a) "
        "o0 = Add (m, i2)"
    )


def _merged_tokens(call: Call) -> str:
    return "n = NonZero (i1) z = Constant <value_ints = [0]> () o0 = Squeeze (n, z) o1 = Identity (i2)"


def _attending_lstm(call: Call) -> str:
    return (
        "s = Shape (i0) a = Constant <value_ints = [1]> () t = Concat <axis = 0> (s, a) "
        + _of_rank("t", "o0")
        + _of_rank("s", "o1")
        + _of_rank("s", "o2")
    )


def _sparse_attention(call: Call) -> str:
    output = "o0 = Identity (i0) " if call.has(1) else _with_no_sizes(call)
    return output + "o1 = Identity (i3) o2 = Identity (i4)"


_BODIES: dict[str, Callable[[Call], str]] = {
    **contrib_states.BODIES,
    "GatherPacked": _packed_rows,
    "MoEGroupRouter": _router,
    **dict.fromkeys(
        (
            "Affine",
            "BiasGelu",
            "BranchwiseRMSNorm",
            "FastGelu",
            "GatedAdd",
            "GatedRMSNorm",
            "Gelu",
            "HyperConnectionPostMix",
            "ImageScaler",
            "Inverse",
            "MRotaryEmbedding",
            "MeanVarianceNormalization",
            "MoE",
            "ParametricSoftplus",
            "QLinearLeakyRelu",
            "QLinearSigmoid",
            "QLinearSoftmax",
            "QMoE",
            "QuickGelu",
            "RotaryEmbedding",
            "Scale",
            "ScaledSiLU",
            "ScaledTanh",
            "ThresholdedRelu",
            "Trilu",
        ),
        _same,
    ),
    "LayerNormalization": _norm,
    "SimplifiedLayerNormalization": _norm,
    "SkipLayerNormalization": _skip_norm,
    "SkipSimplifiedLayerNormalization": _skip_norm,
    "Attention": _packed_attention,
    "QAttention": _packed_attention,
    "EmbedLayerNormalization": _embed,
    "FusedConv": _fused_conv,
    "FusedGemm": _fused_gemm,
    "DynamicQuantizeLSTM": _quantized_lstm,
    "FusedMatMul": _fused_product,
    "TransposeMatMul": _fused_product,
    "CDist": _distances,
    "Crop": _cropped,
    "CropAndResize": _crops,
    "DynamicSlice": _with_no_sizes,
    "DynamicTimeWarping": _path,
    "AttnLSTM": _attending_lstm,
    "BifurcationDetector": _merged_tokens,
    "ConvTransposeWithDynamicPads": _with_no_sizes,
    "EngramGate": lambda call: "o0 = Identity (i0) o1 = Identity (i0)",
    "HyperConnectionPreMix": _streams_in_one,
    "MaxpoolWithMask": _with_no_sizes,
    **dict.fromkeys(("NGramHashMapping", "VarlenNGramHashMapping"), _hashed),
    "SparseAttention": _sparse_attention,
    "WordConvEmbedding": _words,
    **dict.fromkeys(("BeamSearch", "WhisperBeamSearch"), _beams),
    **dict.fromkeys(("GreedySearch", "Sampling"), _texts),
    "NGramRepeatBlock": lambda call: "o0 = Identity (i1)",
    "Range": _range,
    "UnfoldTensor": _unfolded,
    "ExpandDims": _one_more,
    "GatherBlockQuantized": _rows_of_blocks,
    "MurmurHash3": _hashes,
    "MatMulNBits": _n_bits,
    "MultiHeadAttention": _multi_head,
    "DecoderMaskedMultiHeadAttention": _decoder_masked,
    "GroupQueryAttention": _group_query,
    "DequantizeLinear": lambda call: "o0 = CastLike (i0, i1)",
    "QuantizeLinear": _quantize,
    "QLinearAdd": _two_quantized,
    "QLinearMul": _two_quantized,
    "QLinearConcat": _concatenated,
    "QLinearAveragePool": _pool,
    "QLinearGlobalAveragePool": _global_pool,
    "GatherND": lambda call: "o0 = GatherND (i0, i1)",
    "GridSample": lambda call: "o0 = GridSample (i0, i1)",
    "Pad": _padded,
    "MatMulIntegerToFloat": _integer_product,
    "DynamicQuantizeMatMul": _dynamic_product,
    "QGemm": _quantized_gemm,
    "Tokenizer": _split,
    "MatMulInteger16": lambda call: "a = Cast <to = 6> (i0) b = Cast <to = 6> (i1) o0 = MatMul (a, b)",
    "NhwcMaxPool": _pool_of_last,
    "QLinearConv": _quantized_conv,
    "Unique": lambda call: "o0, first, o1, o2 = Unique <sorted = 0> (i0)",
}


# CastLike in place of Cast and Identity: onnx propagates data through those, and takes a vector of features
# for a shape, of as many dimensions.
def _float(call: Call) -> str:
    return "t = Constant <value_float = 0.0> () o0 = CastLike (i0, t)"


def _row_of(width: int) -> str:
    """As many floats for each row of features; a vector of features is one row."""
    if not 0 < width < 1 << 31:
        return ""
    return (
        "a = Constant <value_ints = [-1]> () m = ReduceMax <keepdims = 1> (i0, a) "
        "t = Constant <value_float = 0.0> () f = CastLike (m, t) "
        f"s = Constant <value_ints = [1, {width}]> () o0 = Expand (f, s)"
    )


def _labelled(call: Call, scores: str) -> str:
    """Labels of rows of features, strings or integers, and ``scores``, which have the rows' maxima as m."""
    label = "l = Identity (m)"  # of a vector of features
    if call.rank(0) != 1:
        label = f"l = {'Squeeze' if call.rank(0) else 'Reshape'} (m, a)"  # the last axis; all in one
    kind = 'value_string = ""' if call.length("classlabels_strings") else "value_int = 0"
    return scores and f"{scores.replace('o0', 'o1')} {label} k = Constant <{kind}> () o0 = CastLike (l, k)"


def _vector_machine(call: Call) -> str:
    """Labels of rows, and the scores of classes, or of pairs of them where nothing couples these."""
    classes = call.length("classlabels_strings") or call.length("classlabels_ints")
    vectors = any(call.numbers("vectors_per_class"))
    pairs = vectors and not call.length("prob_a") and classes > 2
    return _labelled(call, _row_of(classes * (classes - 1) // 2 if pairs else classes))


def _tree_classifier(call: Call) -> str:
    """Labels of rows, and the scores of classes."""
    classes = call.length("classlabels_strings") or call.length("classlabels_int64s")
    return _labelled(call, _row_of(classes))


# Of ai.onnx.ml.
_LEARNED: dict[str, Callable[[Call], str]] = {
    "FeatureVectorizer": lambda call: _row_of(sum(call.numbers("inputdimensions"))),
    "Imputer": lambda call: "o0 = CastLike (i0, i0)",
    "LinearRegressor": lambda call: _row_of(call.number("targets", 1)),
    "Normalizer": _float,
    "SVMClassifier": _vector_machine,
    "SVMRegressor": lambda call: _row_of(1),
    "Scaler": _float,
    "TreeEnsembleClassifier": _tree_classifier,
    "TreeEnsembleRegressor": lambda call: _row_of(call.number("n_targets", 1)),
}


def operators() -> Sequence[str]:
    """The operators whose outputs' types are known here."""
    return sorted(_BODIES)
