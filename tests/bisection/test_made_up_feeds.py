"""What a search feeds where it was given a part of it, or nothing."""

from __future__ import annotations

import numpy as np
import pytest
from ephost.bisection.feeds import complete
from ephost.bisection.slicing import Sliced
from ephost.errors import Fail
from onnx import parser

MODEL = """<ir_version: 9, opset_import: ["": 17]> g (seq(float[n]) s, optional(float[n]) o, float[n] x)
    => (bool there) { there = OptionalHasElement(o) }"""


def test_an_optional_may_be_given_without_a_value() -> None:
    given = {"s": [np.ones(2, np.float32)], "o": None}
    feed = complete(Sliced(parser.parse_model(MODEL)), given, {"n": 2}, 0)
    assert (feed["s"], feed["o"], feed["x"].shape) == (given["s"], None, (2,))


def test_what_is_no_tensor_has_to_be_given_in_a_program() -> None:
    with pytest.raises(Fail, match=r"the input 's'.*ephost\.bisect"):
        complete(Sliced(parser.parse_model(MODEL)), {"o": None}, {}, 0)
