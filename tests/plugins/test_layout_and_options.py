"""What else an EP may ask for and be told: a layout of its own, constants early, options later."""

from __future__ import annotations

import numpy as np
import pytest
from plugin_harness import Tracer
from plugin_models import model, node

IMAGE = np.arange(2 * 3 * 4, dtype=np.float32).reshape(1, 2, 3, 4)
OPEN, RUN = ("open", {"model": "m.onnx"}), ("run", {"feeds": "x.npz"})
CHANNELS = {  # of two channels, which a kernel that takes them for something else gets wrong
    "scale": np.array([2, 3], np.float32),
    "bias": np.array([10, 20], np.float32),
    "mean": np.array([1, -1], np.float32),
    "variance": np.array([4, 9], np.float32),
}


def normalised(x: np.ndarray) -> np.ndarray:
    scale, bias, mean, variance = (c.reshape(1, 2, 1, 1) for c in CHANNELS.values())
    return (x - mean) / np.sqrt(variance + 1e-5) * scale + bias


@pytest.mark.parametrize(
    ("answer", "shape", "transposes"), [(1, "3 x 4 x 2", 2), (-1, "3 x 4 x 2", 2), (0, "2 x 3 x 4", 0)]
)
def test_an_ep_gets_the_layout_that_it_asks_for(
    host: str, traced: Tracer, answer: int, shape: str, transposes: int
) -> None:
    """Two normalisations in a row: between them there is nothing to turn."""
    nodes = [
        node("BatchNormalization", "x scale bias mean variance", "a", name="first"),
        node("BatchNormalization", "a scale bias mean variance", "y", name="second"),
    ]
    made = model(nodes, {"x": [1, 2, 3, 4]}, ["y"], CHANNELS)
    files = {"m.onnx": made, "x.npz": {"x": IMAGE}}
    _, opened, ran = traced(host, ["register", OPEN, RUN], f"nhwc={answer}", files)
    assert not opened.error, opened.message
    asked = f"ShouldConvertDataLayoutForOp '' BatchNormalization to NHWC: {answer}"
    assert opened.only("ShouldConvert").count(asked) >= 1
    of_ep = [op for ep, types in opened.value if ep == "trace" for op in types]
    assert of_ep == ["BatchNormalization"] * 2
    assert sum("Transpose" in types for _, types in opened.value) == transposes
    # onnxruntime renames the nodes.
    assert [line.split("' of ")[1] for line in ran.only("Compute")] == [shape] * 2
    np.testing.assert_allclose(ran.value[0], normalised(normalised(IMAGE)), rtol=1e-5)


def test_kernels_see_their_constants_when_they_are_made(host: str, traced: Tracer) -> None:
    nodes = [node("Mul", "x w", "a", name="mul"), node("Add", "a x", "y", name="add")]
    made = model(nodes, {"x": [3]}, ["y"], {"w": np.array([7, 8, 9], np.float32)})
    _, opened = traced(host, ["register", OPEN], "constants", {"m.onnx": made})
    assert not opened.error, opened.message
    assert opened.only("input") == ["input 1 of 'mul' begins with 7"]


def test_dynamic_options_reach_the_ep_and_its_refusal_the_caller(host: str, traced: Tracer) -> None:
    made = model([node("Add", "x x", "y", name="add")], {"x": [3]}, ["y"])
    actions = [
        "register",
        OPEN,
        ("set_dynamic", {"entries": {"power": "low", "speed": "high"}}),
        ("set_dynamic", {"entries": {"colour": "green"}}),
    ]
    *_, told, refused = traced(host, actions, "", {"m.onnx": made})
    assert sorted(told.only("SetDynamicOptions")) == [
        "SetDynamicOptions power=low",
        "SetDynamicOptions speed=high",
    ]
    assert not told.error
    kind = "InvalidArgument" if host == "ephost" else "RuntimeError"
    assert refused.error == kind and "it has no colour" in refused.message


DEFAULTS = {"colour": "blue", "power": "high"}  # with which the plugin made its device
WAYS = {  # of choosing the EP, and the options that this gives it
    "devices": ({}, {}),
    "devices with options": ({"ep_options": {"power": "low"}}, {"power": "low"}),
    "session entries": ({"config": {"ep.trace.power": "low"}}, {"power": "low"}),
    "a name": ({"on": False, "providers": ["trace"]}, {}),
    "a name with options": ({"on": False, "providers": [["trace", {"power": "low"}]]}, {"power": "low"}),
    "a delegate": ({"on": False, "delegate": True}, {}),
    "a delegate and session entries": (
        {"on": False, "delegate": True, "config": {"ep.trace.power": "low"}},
        {"power": "low"},
    ),
}
# onnxruntime overwrites entries by the defaults of devices that are added later, and gives an EP that is
# named without options none.
ELSEWHERE = [WAYS["session entries"][0], WAYS["a name"][0]]


@pytest.mark.parametrize(("how", "given"), WAYS.values(), ids=WAYS)
def test_an_ep_device_brings_default_options(
    host: str, traced: Tracer, how: dict, given: dict[str, str]
) -> None:
    if host == "onnxruntime" and how in ELSEWHERE:
        pytest.skip("there the EP is given other options")
    made = model([node("Add", "x x", "y", name="add")], {"x": [3]}, ["y"])
    actions = ["register", ("open", {"model": "m.onnx", **how}), "provider_options"]
    _, opened, options = traced(host, actions, "options", {"m.onnx": made})
    assert not opened.error, opened.message
    wanted = {**DEFAULTS, **given}
    assert opened.only("colour is", "power is") == [f"{key} is {wanted[key]}" for key in ("colour", "power")]
    assert options.value["trace"] == wanted
