"""Padding goes into the operators behind it."""

from __future__ import annotations

import pytest
from rewriting import IMAGE, kinds, rewritten

NUMBERS = ",".join(str(n % 5) for n in range(24))
PADS = (
    "int64[8] p = {0, 0, 1, 0, 0, 0, 2, 1}, int64[8] n = {0, 0, -1, 0, 0, 0, 0, 0}, float one = {1}, "
    "int64[1,8] row = {0, 0, 1, 0, 0, 0, 2, 1}, "
    f"float zero = {{0}}, float[2,3,2,2] k = {{{NUMBERS}}}"
)


@pytest.mark.parametrize(
    ("body", "left"),
    [
        ("a = Pad(x, p)  y = Conv(a, k)", ["Conv"]),
        ('a = Pad(x, p)  y = Conv<auto_pad = "VALID">(a, k)', ["Conv"]),
        ("a = Pad(x, p)  y = Conv<pads = [1, 1, 0, 0], strides = [2, 1]>(a, k)", ["Conv"]),
        ("a = Pad(x, p, one)  y = Conv(a, k)", ["Pad", "Conv"]),
        ("a = Pad(x, n)  y = Conv(a, k)", ["Pad", "Conv"]),
        ("a = Pad(x, row)  y = Conv(a, k)", ["Conv"]),
        ('a = Pad<mode = "reflect">(x, p)  y = Conv(a, k)', ["Pad", "Conv"]),
        ("a = Pad(x, p)  y = AveragePool<kernel_shape = [3, 2], count_include_pad = 1>(a)", ["AveragePool"]),
        ("a = Pad(x, p)  y = AveragePool<kernel_shape = [3, 2]>(a)", ["Pad", "AveragePool"]),
        ("a = Pad(x, p, inf)  y = MaxPool<kernel_shape = [3, 2]>(a)", ["MaxPool"]),
        ("a = Pad(x, p, inf)  y = MaxPool<kernel_shape = [2, 2]>(a)", ["Pad", "MaxPool"]),
        ("a = Pad(x, p)  y = MaxPool<kernel_shape = [3, 2]>(a)", ["Pad", "MaxPool"]),
        ("a = Pad(x, p)  b = Conv(a, k)  d = Conv(a, k)  e = Neg(d)  y = Add(b, e)", ["Conv", "Neg", "Add"]),
        (
            "a = Pad(x, p)  b = Conv(a, k)  d = ReduceSum(a)  y = Add(b, d)",
            ["Pad", "Conv", "ReduceSum", "Add"],
        ),
    ],
)
def test_padding_goes_into_what_can_pad_itself(body: str, left: list[str]) -> None:
    head = "g (float[2,3,5,4] x) => (float[a0,b0,c0,d0] y)"
    text = f"{head} <{PADS}> {{ {body} }}"
    if "inf" in body:
        text = text.replace(" { a = ", " { l = Log(zero)  a = ").replace("p, inf", "p, l")
    assert kinds(rewritten(text, IMAGE)) == left
