"""Stand-ins for com.microsoft's operators that carry a state from token to token."""

from __future__ import annotations

from collections.abc import Callable

from ephost.model.contrib_call import LONGEST_WINDOW, MOST_HEADS, Call, split_heads

_MOST_UPDATES = 8  # of states, that an output may keep of a sequence


def _states(call: Call, one: str) -> str:
    """As many of `one` as a window has, for the second output."""
    window = call.number("state_window")
    if not 0 < window <= LONGEST_WINDOW:
        return f"o1 = Identity ({one}) "
    return (
        f"zero = Constant <value_ints = [0]> () u = Unsqueeze ({one}, zero) "
        f"o1 = Concat <axis = 0> ({', '.join(['u'] * window)}) "
    )


def _linear_attention(call: Call) -> str:
    queries, heads = call.number("q_num_heads"), call.number("kv_num_heads")
    if not (0 < heads <= MOST_HEADS and 0 < queries <= MOST_HEADS):
        return ""
    body = f"o0 = Concat <axis = 2> ({', '.join(['i2'] * max(1, queries // heads))}) "
    if call.has(3):
        return body + "o1 = Identity (i3) "
    # The products of keys, as wide as queries, and values.
    body += split_heads("i0", queries, "q") + split_heads("i2", heads, "v")
    body += "k = ReduceMax <keepdims = 1, axes = [1]> (q) t = Transpose <perm = [0, 1, 3, 2]> (k) "
    return body + "m = MatMul (t, v) " + _states(call, "m")


def _causal_conv(call: Call) -> str:
    if call.number("channels_last") and (call.number("input_channels") or call.has_output(2)):
        return _causal_conv_of_some(call)
    if call.has(3):
        return "o0 = Identity (i0) o1 = Identity (i3) "
    axis = 1 if call.number("channels_last") else call.number("ndim", 1) + 1
    some = f"t = Constant <value = bool[1] {{1}}> () c = Compress <axis = {axis}> (i0, t) "
    return "o0 = Identity (i0) " + some + _states(call, "c")


def _causal_conv_of_some(call: Call) -> str:
    """Of some channels only, each row of which may be an output, too."""
    room = call.number("state_update_capacity")
    body = (
        "w = Constant <value_ints = [1, 2]> () k = ReduceMax <keepdims = 0> (i1, w) "
        "z = Constant <value_ints = [-1]> () m = ReduceMax <keepdims = 1> (i0, z) "
        "e = Mul (m, k) o0 = Identity (e) "
    )
    if call.has(3):
        body += "o1 = Identity (i3) "
    if 0 <= room <= _MOST_UPDATES:
        body += (
            f"a = Constant <value_ints = [1]> () r = ReduceMax <keepdims = 1> (e, a) "
            f"c = Constant <value_ints = [1, {room}, 1]> () o2 = Expand (r, c) "
        )
    return body


def _packed_conv(call: Call) -> str:
    """Outputs as tokens and states, and so many tokens of each sequence."""
    room = call.number("state_update_capacity")
    body = "o0 = Identity (i0) o1 = Identity (i4) "
    if not 0 <= room <= _MOST_UPDATES:
        return body
    return body + (
        "a = Constant <value_ints = [2]> () r = ReduceMax <keepdims = 1> (i4, a) "
        f"t = Transpose <perm = [0, 2, 1]> (r) c = Constant <value_ints = [1, {room}, 1]> () "
        "o2 = Expand (t, c) "
    )


def _delta_net(call: Call) -> str:
    """As many outputs as values, which may be packed with the queries; states, one for each sequence."""
    body = "o0 = Identity (i2) "
    if not call.has(2):
        body = (
            "s = Shape <start = 0, end = -1> (i0) h = Shape <start = 1, end = 3> (i6) "
            "c = Concat <axis = 0> (s, h) z = ConstantOfShape (c) o0 = CastLike (z, i0) "
        )
    if call.has(6):
        body += "o1 = Identity (i6) "
    elif call.has(2):
        batch = "b = Shape <start = 0, end = 1> (i2) "
        if call.has(3):
            batch = "n = Shape (i3) one = Constant <value_ints = [1]> () b = Sub (n, one) "
        body += batch + (
            "v = Shape <start = -2> (i2) k = Shape <start = -1> (i0) d = Concat <axis = 0> (b, v, k) "
            "o1 = ConstantOfShape (d) "
        )
    return body + "u = Constant <value_ints = [0, 0]> () w = Abs (u) o2 = ConstantOfShape (w)"


BODIES: dict[str, Callable[[Call], str]] = {
    "CausalConvWithState": _causal_conv,
    "GatedDeltaNet": _delta_net,
    "LinearAttention": _linear_attention,
    "LinearAttentionGate": lambda call: "o0 = Identity (i0) o1 = Identity (i0)",
    "VarlenCausalConvWithState": _packed_conv,
}
