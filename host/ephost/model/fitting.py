"""Attributes that ONNX gives a meaning only where they fit each other, or the node's inputs and outputs.

Kernels and reference operators read such lists as they come, each in its own way: what does not fit is
refused once, for all of them, when a model is opened.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping

from ephost.messages import AttributeProto, NodeProto

Given = Mapping[str, AttributeProto]


def misfit(node: NodeProto) -> str:
    """What does not fit in the node's attributes, in words, or "".

    Args:
        node: with attributes of the types that its operator has. Those of functions that are values of the
            call's are not looked at.
    """
    rule = _RULES.get((node.domain, node.op_type))
    if rule is None or any(attribute.ref_attr_name for attribute in node.attribute):
        return ""
    return rule(node, {attribute.name: attribute for attribute in node.attribute})


def _count(given: Given, name: str) -> int:
    return len(given[name].ints) + len(given[name].floats) if name in given else 0


def _exclusive(given: Given, *names: str) -> str:
    """What is wrong where exactly one of two lists must have entries: nothing says so of none."""
    if all(name in given and (given[name].ints or given[name].strings) for name in names):
        return f"{' and '.join(names)} are both given"
    return ""


def _classes(node: NodeProto, given: Given) -> str:
    labels = sum(len(given[n].ints) + len(given[n].strings) for n in _LABELS if n in given)
    if (sizes := _count(given, "vectors_per_class")) and sizes != labels:
        return f"vectors_per_class has {sizes} entries for {labels} labels of classes"
    return _machine(node, given)


def _machine(node: NodeProto, given: Given) -> str:
    if (found := _count(given, "kernel_params")) not in (0, 3):
        return f"kernel_params has {found} entries: gamma, coef0 and degree are three"
    if "n_supports" in given and given["n_supports"].i < 0:
        return f"n_supports is {given['n_supports'].i}"
    if (a := _count(given, "prob_a")) != (b := _count(given, "prob_b")):
        return f"prob_a has {a} entries and prob_b {b}"
    return ""


def _labels(node: NodeProto, given: Given) -> str:
    return _exclusive(given, *_LABELS)


def _mapped(node: NodeProto, given: Given) -> str:
    return _exclusive(given, "classlabels_int64s", "classlabels_strings")


def _scaled(node: NodeProto, given: Given) -> str:
    offsets, scales = _count(given, "offset"), _count(given, "scale")
    return f"offset has {offsets} entries and scale {scales}" if offsets != scales else ""


def _categories(node: NodeProto, given: Given) -> str:
    return _exclusive(given, "cats_int64s", "cats_strings")


def _widths(node: NodeProto, given: Given) -> str:
    widths = list(given["inputdimensions"].ints) if "inputdimensions" in given else []
    if len(widths) != len(node.input):
        return f"inputdimensions has {len(widths)} entries for {len(node.input)} inputs"
    return f"inputdimensions has an input of {min(widths)} features" if min(widths, default=0) < 0 else ""


def _imputed(node: NodeProto, given: Given) -> str:
    floats, integers = (_count(given, f"imputed_value_{kind}") for kind in ("floats", "int64s"))
    if bool(floats) == bool(integers):
        return "it needs one of imputed_value_floats and imputed_value_int64s"
    return ""


def _directions(given: Given) -> str:
    for name in ("directions", "scan_input_directions", "scan_output_directions"):
        if name in given and (wrong := set(given[name].ints) - {0, 1}):
            return f"{name} has the entry {min(wrong)}: 0 is forward and 1 backward"
    return ""


def _scales(node: NodeProto, given: Given) -> str:
    below = [scale for scale in given["scales"].floats if not scale >= 1] if "scales" in given else []
    return f"scales has the entry {below[0]:g}: it makes nothing smaller" if below else ""


def _clip(node: NodeProto, given: Given) -> str:
    return f"clip is {given['clip'].f:g}" if "clip" in given and not given["clip"].f > 0 else ""


def _grams(node: NodeProto, given: Given) -> str:
    least, most = given["min_gram_length"].i, given["max_gram_length"].i
    counts = len(given["ngram_counts"].ints)
    if not 0 < least <= most:
        return f"min_gram_length is {least} and max_gram_length {most}"
    weights, grams = _count(given, "weights"), _count(given, "ngram_indexes")
    if weights not in (0, grams):
        return f"weights has {weights} of {grams} entries, one for each gram"
    return f"max_gram_length is {most}, and ngram_counts has {counts} entries" if most > counts else ""


def _at_least(least: int, *names: str) -> Callable[[NodeProto, Given], str]:
    def check(node: NodeProto, given: Given) -> str:
        for name in names:
            if name in given and given[name].i < least:
                return f"{name} is {given[name].i}"
        return ""

    return check


def _of_one(node: NodeProto, given: Given) -> str:
    for what, listed in (("inputs", node.input), ("outputs", node.output)):
        if len(listed) != 1:
            return f"it has {len(listed)} {what} in place of one"
    return ""


def _makes_one(node: NodeProto, given: Given) -> str:
    return f"it has {len(node.output)} outputs in place of one" if len(node.output) != 1 else ""


def _sizes_of_grams(node: NodeProto, given: Given) -> str:
    least, most = (given[n].i if n in given else usual for n, usual in _GRAM_SIZES)
    return "" if 0 < least <= most else f"min_ngram_size is {least} and max_ngram_size {most}"


def _window(node: NodeProto, given: Given) -> str:
    kernel = list(given["kernel_shape"].ints) if "kernel_shape" in given else []
    return f"kernel_shape has the entry {min(kernel)}" if min(kernel, default=1) < 1 else ""


def _groups(node: NodeProto, given: Given) -> str:
    count = given["num_groups"].i if "num_groups" in given else 1
    return f"num_groups is {count}" if count < 1 else ""


def _bodies(given: Given, inputs: range, outputs: range) -> str:
    """Whether bodies take as many values as their node hands over, and make as many as it needs."""
    for name, attribute in given.items():
        if attribute.type != AttributeProto.GRAPH:
            continue
        body = attribute.g
        # Up to IR version 3 initializers are among the inputs; nobody hands those over.
        own = {tensor.name for tensor in body.initializer}
        taken = sum(entry.name not in own for entry in body.input)
        if taken not in inputs:
            return f"its {name} has {taken} inputs, and {inputs[-1]} values are handed over"
        if len(body.output) not in outputs:
            return f"its {name} has {len(body.output)} outputs, and {outputs[0]} are needed"
    return ""


def _branches(node: NodeProto, given: Given) -> str:
    return _bodies(given, range(1), range(len(node.output), len(node.output) + 1))


def _iterations(node: NodeProto, given: Given) -> str:
    carried = max(0, len(node.input) - 2)  # after the count and the condition, which each iteration is told
    # A node need not name those of its last outputs that nobody reads.
    least = 1 + max(carried, len(node.output))
    return _bodies(given, range(2 + carried, 3 + carried), range(least, sys.maxsize))


def _steps(node: NodeProto, given: Given) -> str:
    inputs = len(node.input)
    # The first input of version 8 is the lengths of the sequences, which the body does not see.
    handed = range(inputs - 1, inputs + 1)
    made = range(len(node.output), len(node.output) + 1)
    return _directions(given) or _bodies(given, handed, made)


_LABELS = ("classlabels_ints", "classlabels_strings")
_GRAM_SIZES = (("min_ngram_size", 1), ("max_ngram_size", 3))
_RULES: Mapping[tuple[str, str], Callable[[NodeProto, Given], str]] = {
    # onnx has no definitions of what it had on trial.
    **{("", name): _of_one for name in ("Affine", "Crop", "ImageScaler", "ParametricSoftplus")},
    **{("", name): _of_one for name in ("Scale", "ScaledTanh")},
    ("", "DynamicSlice"): _makes_one,
    ("", "GRU"): _clip,
    ("", "GroupNormalization"): _groups,
    ("", "If"): _branches,
    ("", "LSTM"): _clip,
    ("", "Loop"): _iterations,
    ("", "RNN"): _clip,
    ("", "RotaryEmbedding"): _at_least(0, "num_heads", "rotary_embedding_dim"),
    ("", "Scan"): _steps,
    ("", "TfIdfVectorizer"): _grams,
    ("", "Upsample"): _scales,
    ("ai.onnx.ml", "FeatureVectorizer"): _widths,
    ("ai.onnx.ml", "Imputer"): _imputed,
    ("ai.onnx.ml", "LinearClassifier"): _labels,
    ("ai.onnx.ml", "OneHotEncoder"): _categories,
    ("ai.onnx.ml", "Scaler"): _scaled,
    ("ai.onnx.ml", "SVMClassifier"): _classes,
    ("ai.onnx.ml", "SVMRegressor"): _machine,
    ("ai.onnx.ml", "ZipMap"): _mapped,
    ("com.microsoft", "BifurcationDetector"): _sizes_of_grams,
    ("com.microsoft", "MaxpoolWithMask"): _window,
    ("com.microsoft", "RotaryEmbedding"): _at_least(0, "num_heads", "rotary_embedding_dim"),
    ("com.microsoft", "SparseAttention"): _at_least(1, "num_heads", "kv_num_heads"),
}
