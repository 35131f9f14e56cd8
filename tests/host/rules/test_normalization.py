"""Normalisations, factors and shifts for each channel go into the weights before them."""

from __future__ import annotations

import numpy as np
import pytest
from ephost.model.fold import simplify
from graphs import evaluate, model_of
from rewriting import CONV, IMAGE, NORM, W, kinds, rewritten


@pytest.mark.parametrize(
    ("constants", "body", "left"),
    [
        (f"{W}, {NORM}", "c = Conv(x, w)  y = BatchNormalization(c, s, b, m, v)", ["Conv"]),
        (
            f"{W}, {NORM}, float[4] d = {{1, 2, 3, 4}}",
            "c = Conv(x, w, d)  n = BatchNormalization<epsilon = 0.1>(c, s, b, m, v)  y = Relu(n)",
            ["Conv", "Relu"],
        ),
        (f"{W}, float[4,1,1] f = {{1, 2, 3, 4}}", "c = Conv(x, w)  y = Mul(c, f)", ["Conv"]),
        (f"{W}, float[1,4,1,1] f = {{1, 2, 3, 4}}", "c = Conv(x, w)  y = Add(f, c)", ["Conv"]),
        (f"{W}, float f = {{3}}", "c = Conv(x, w)  d = Mul(f, c)  y = Add(d, f)", ["Conv"]),
        (
            f"{W}, {NORM}, float[4,1,1] f = {{1, 2, 3, 4}}",
            "c = Conv(x, w)  n = BatchNormalization(c, s, b, m, v)  d = Mul(n, f)  y = Add(d, f)",
            ["Conv"],
        ),
        # along another axis than the channels'
        (f"{W}, float[4] f = {{1, 2, 3, 4}}", "c = Conv(x, w)  y = Mul(c, f)", ["Conv", "Mul"]),
        (f"{W}, float[2,1,1,1] f = {{1, 2}}", "c = Conv(x, w)  y = Mul(c, f)", ["Conv", "Mul"]),
        # somebody else reads what is between
        (
            f"{W}, {NORM}",
            "c = Conv(x, w)  n = BatchNormalization(c, s, b, m, v)  r = Relu(c)  y = Sub(n, r)",
            ["Conv", "BatchNormalization", "Relu", "Sub"],
        ),
    ],
)
def test_a_convolution_takes_scales_and_shifts_into_its_weights(
    constants: str, body: str, left: list[str]
) -> None:
    assert kinds(rewritten(f"{CONV} <{constants}> {{ {body} }}", IMAGE)) == left


@pytest.mark.parametrize("bias", ["", ", d"])
@pytest.mark.parametrize("group", [1, 2])
def test_a_transposed_convolution_takes_a_normalisation_into_its_weights(group: int, bias: str) -> None:
    inputs, per_group = 2 * group, 4 // group
    numbers = ", ".join(str(at % 7 - 3) for at in range(inputs * per_group * 6))
    text = (
        f"g (float[2,{inputs},5,4] x) => (float[2,4,11,10] y) "
        f"<float[{inputs},{per_group},3,2] w = {{{numbers}}}, float[4] d = {{1, 2, 3, 4}}, {NORM}> "
        f"{{ c = ConvTranspose<group = {group}, strides = [2, 2], output_padding = [0, 1], "
        f"pads = [0, 0, 0, 0]>(x, w{bias})  n = BatchNormalization<epsilon = 0.1>(c, s, b, m, v) "
        " y = Relu(n) }"
    )
    feeds = {"x": np.random.default_rng(3).standard_normal((2, inputs, 5, 4)).astype(np.float32)}
    assert kinds(rewritten(text, feeds)) == ["ConvTranspose", "Relu"]
    assert kinds(rewritten(text, feeds, "ConvBNFusion")) == ["ConvTranspose", "BatchNormalization", "Relu"]


TRANSPOSED = "c = ConvTranspose(x, w)"


@pytest.mark.parametrize(
    ("constants", "body", "left"),
    [
        # onnxruntime leaves these to plugins as well
        ("float[4,1,1] f = {1, 2, 3, 4}", f"{TRANSPOSED}  y = Mul(c, f)", ["ConvTranspose", "Mul"]),
        ("float[4,1,1] f = {1, 2, 3, 4}", f"{TRANSPOSED}  y = Add(c, f)", ["ConvTranspose", "Add"]),
        # somebody else reads what is between
        (
            NORM,
            f"{TRANSPOSED}  n = BatchNormalization(c, s, b, m, v)  y = Sub(n, c)",
            ["ConvTranspose", "BatchNormalization", "Sub"],
        ),
    ],
)
def test_a_transposed_convolution_is_left_alone(constants: str, body: str, left: list[str]) -> None:
    text = (
        "g (float[2,3,5,4] x) => (float[2,4,5,4] y) "
        f"<float[3,4,1,1] w = {{1, 2, 3, -1, 0.5, 2, 3, 1, -2, 0.25, 1, 1}}, {constants}> {{ {body} }}"
    )
    assert kinds(rewritten(text, IMAGE)) == left


def test_weights_that_do_not_go_with_their_groups_are_left_alone() -> None:
    text = (
        "g (float[2,3,5,4] x) => (float[2,4,5,4] y) "
        f"<float[3,2,1,1] w = {{1, 2, 3, 4, 5, 6}}, {NORM}> "
        "{ c = ConvTranspose<group = 2>(x, w)  y = BatchNormalization(c, s, b, m, v) }"
    )
    model = model_of(text, inferred=False)
    simplify(model)
    assert kinds(model) == ["ConvTranspose", "BatchNormalization"]


def test_a_normalisation_takes_scales_and_shifts_into_its_own() -> None:
    text = (
        f"g (float[2,4,5] x) => (float[2,4,5] y) <{NORM}, float[4,1] f = {{1, 2, 3, 4}}> "
        "{ n = BatchNormalization(x, s, b, m, v)  d = Mul(n, f)  e = Add(f, d)  y = Neg(e) }"
    )
    x = np.random.default_rng(1).standard_normal((2, 4, 5)).astype(np.float32)
    assert kinds(rewritten(text, {"x": x})) == ["BatchNormalization", "Neg"]
    assert kinds(rewritten(text, {"x": x}, "BatchNormalizationAddFusion")) == [
        "BatchNormalization",
        "Add",
        "Neg",
    ]


def test_weights_that_two_convolutions_share_are_not_changed_for_both() -> None:
    text = (
        f"g (float[2,3,5,4] x) => (float[2,4,5,4] y, float[2,4,5,4] z) <{W}, {NORM}> "
        "{ c = Conv(x, w)  n = Neg(x)  z = Conv(n, w)  y = BatchNormalization(c, s, b, m, v) }"
    )
    assert kinds(rewritten(text, IMAGE)) == ["Conv", "Neg", "Conv"]


def test_half_precision_weights_stay_half() -> None:
    text = (
        "g (float16[2,3,5,4] x) => (float16[2,1,5,4] y) <float16[1,3,1,1] w = {1, 2, 3}, float16 f = {3}> "
        "{ c = Conv(x, w)  y = Mul(c, f) }"
    )
    before = model_of(text)
    x = np.round(IMAGE["x"] * 4).astype(np.float16)  # so that no number is rounded
    model = model_of(text)
    simplify(model)
    assert kinds(model) == ["Conv"]
    (mine,), (theirs,) = evaluate(model, x=x), evaluate(before, x=x)
    assert mine.dtype == np.float16
    assert mine.tolist() == theirs.tolist()


@pytest.mark.parametrize("opset", [7, 9, 13])
def test_a_normalisation_that_trains_is_left_alone(opset: int) -> None:
    """Before opset 14 it does where it has more outputs, whether somebody reads them or not."""
    body = "c = Conv(x, w)  y, m2, v2, m3, v3 = BatchNormalization(c, s, b, m, v)"
    model = model_of(f"{CONV} <{W}, {NORM}> {{ {body} }}", opset=opset)
    simplify(model)
    assert kinds(model) == ["Conv", "BatchNormalization"]
