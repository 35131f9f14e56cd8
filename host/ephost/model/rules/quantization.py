"""What a quantisation makes superfluous before it."""

from __future__ import annotations

from ephost.messages import TensorProto
from ephost.model.graph import Node
from ephost.model.rules.elementwise import bounds_of_clip
from ephost.model.rules.matching import Rewriting, Rule, element_type_of, input_at, is_free, scalar_of

_RANGES: dict[int, tuple[int, int]] = {
    TensorProto.UINT8: (0, 255),
    TensorProto.INT8: (-128, 127),
    TensorProto.UINT16: (0, 65535),
    TensorProto.INT16: (-32768, 32767),
}


def _quantisation(node: Node) -> tuple[float, int, int] | None:
    """Scale, zero point and element type of a quantisation of whole tensors by known numbers."""
    scale, zero = scalar_of(input_at(node, 1)), input_at(node, 2)
    if scale is None or (zero is not None and scalar_of(zero) is None) or not scale > 0:
        return None
    made = node.outputs[0] if node.op_type == "QuantizeLinear" else node.inputs[0]
    return float(scale), 0 if zero is None else int(scalar_of(zero)), element_type_of(made)


def _drop_limits_before_quantisation(r: Rewriting, node: Node) -> bool:
    """Limits that the quantised type has anyway need no Relu or Clip."""
    found = _quantisation(node)
    limits = _RANGES.get(found[2]) if found is not None else None
    source = node.inputs[0]
    reader = r.only_reader(source)
    if found is None or limits is None or source is None or reader is not node:
        return False
    scale, zero, _ = found
    # Whatever is rounded to the ends of the range may as well be cut off there.
    lowest, highest = (limits[0] + 0.49 - zero) * scale, (limits[1] - 0.49 - zero) * scale
    limiter = source.producer
    if limiter is None or limiter.domain or not is_free(limiter):
        return False
    if limiter.op_type == "Relu" and "ReluQuantFusion" not in r.disabled:
        fits = zero == limits[0]
    elif limiter.op_type == "Clip" and "ClipQuantFusion" not in r.disabled:
        bounds = bounds_of_clip(limiter)
        if bounds is None:
            return False
        least, most = bounds
        fits = (least is None or float(least) <= lowest) and (most is None or float(most) >= highest)
    else:
        return False
    if not fits or limiter.inputs[0] is None:
        return False
    r.set_inputs(node, [limiter.inputs[0], *node.inputs[1:]])
    return True


def _drop_quantised_pair(r: Rewriting, node: Node) -> bool:
    """DequantizeLinear and QuantizeLinear by the same numbers give back what went in."""
    out = node.outputs[0]
    back = r.maker(node.inputs[0], "DequantizeLinear")
    if back is None or out is None or back.inputs[0] is None:
        return False
    mine, theirs = _quantisation(node), _quantisation(back)
    if mine is None or mine != theirs or mine[2] not in _RANGES:
        return False
    if element_type_of(node.inputs[1]) != TensorProto.FLOAT:
        return False  # in a narrower type the numbers between are not exact
    return r.pass_on(node, back.inputs[0])


RULES = {
    "QuantizeLinear": (
        Rule("DoubleQDQPairsRemover", _drop_quantised_pair, ("DequantizeLinear",)),
        Rule("QuantFusion", _drop_limits_before_quantisation, ("Relu", "Clip")),
    ),
}
PARTS = ("ClipQuantFusion", "ReluQuantFusion")  # of QuantFusion, which can be turned off by themselves
