"""Convolutions of bytes by Winograd's method: every sum is the one of the plain method."""

import json
import os
import platform
import subprocess
import sys
from pathlib import Path

import ephost
import numpy as np
import onnx
import pytest
from onnx import helper

from tests.plugins.cpu.conftest import FORM_OF_FED_BYTES, Cpu, has_vnni, make_model

RNG = np.random.default_rng(3)


def _bytes(dtype: type, *shape: int) -> np.ndarray:
    info = np.iinfo(dtype)
    return RNG.integers(info.min, info.max + 1, shape).astype(dtype)


# By products of matrices: of 16-bit numbers where the instruction set's of bytes cannot hold the weights.
PRODUCTS = {"bytes", "16-bit"}


# With VNNI the products are as quick as the method.
WINOGRAD = "bytes" if has_vnni() else "winograd"


def _run(
    cpu_plugin: Cpu,
    model: onnx.ModelProto,
    feeds: list[dict[str, np.ndarray]],
    folder: Path,
    threads: int = 1,
) -> tuple[list[np.ndarray], list[str]]:
    """The output for each feed; and for each convolution that ran how it was done."""
    options = ephost.SessionOptions()
    options.enable_profiling = True
    options.profile_file_prefix = str(folder / "trace")
    options.add_session_config_entry("session.disable_cpu_ep_fallback", "1")
    options.add_provider_for_devices([cpu_plugin.device], {"intra_op_num_threads": str(threads)})
    session = ephost.InferenceSession(model.SerializeToString(), options)
    found = [session.run(None, feed)[0] for feed in feeds]
    trace = json.loads(Path(session.end_profiling()).read_text())
    kernels = [event["args"] for event in trace if event.get("cat") == "Kernel"]
    return found, [args.get("method", "") for args in kernels if "Conv" in args["op_name"]]


def _convolve(x: np.ndarray, w: np.ndarray, pads: list[int]) -> np.ndarray:
    x = np.pad(x.astype(np.int64), ((0, 0), (0, 0), (pads[0], pads[2]), (pads[1], pads[3])))
    windows = np.lib.stride_tricks.sliding_window_view(x, (3, 3), axis=(2, 3))
    # In float64, which is exact below 2^53.
    sums = np.tensordot(windows.astype(np.float64), w.astype(np.float64), axes=((1, 4, 5), (1, 2, 3)))
    return sums.transpose(0, 3, 1, 2).astype(np.int64)


def _integer(
    x: np.ndarray, w: np.ndarray, x_zero: int, w_zero: np.ndarray, pads: list[int], open_shapes: bool = False
) -> tuple[onnx.ModelProto, dict[str, np.ndarray]]:
    """A model with these weights as constants, and its feed."""
    node = helper.make_node("ConvInteger", ["x", "w", "xz", "wz"], ["y"], pads=pads)
    constants = {"w": w, "xz": np.asarray(x_zero, x.dtype), "wz": w_zero.astype(w.dtype)}
    return make_model([node], {"x": x}, ["y"], constants, open_shapes=open_shapes), {"x": x}


@pytest.mark.parametrize("channels", [(16, 8), (18, 20), (40, 33), (96, 64)])
@pytest.mark.parametrize(
    ("size", "pads"), [((13, 22), [1, 1, 1, 1]), ((8, 9), [0, 0, 0, 0]), ((11, 7), [2, 0, 0, 1])]
)
@pytest.mark.parametrize(
    ("x_type", "w_type"), [(np.uint8, np.int8), (np.int8, np.int8), (np.uint8, np.uint8)]
)
def test_sums_are_exact(
    cpu_plugin: Cpu,
    tmp_path: Path,
    channels: tuple[int, int],
    size: tuple[int, int],
    pads: list[int],
    x_type: type,
    w_type: type,
) -> None:
    inputs, outputs = channels
    x = _bytes(x_type, 2, inputs, *size)
    # Weights as quantisation gives them: few are large, and zero points lie in the middle.
    middle = 0 if w_type is np.int8 else 128
    w = np.clip(
        np.round(RNG.standard_normal((outputs, inputs, 3, 3)) * 25) + middle, middle - 127, middle + 127
    )
    w = w.astype(w_type)
    for x_zero, w_zero in ((0, np.full(1, middle)), (7, middle + RNG.integers(-9, 9, outputs))):
        model, feed = _integer(x, w, x_zero, w_zero, pads)
        expected = _convolve(
            x.astype(np.int64) - x_zero, w.astype(np.int64) - w_zero.reshape(-1, 1, 1, 1), pads
        )
        for threads in (1, 2):
            (found,), methods = _run(cpu_plugin, model, [feed], tmp_path, threads)
            assert methods == [WINOGRAD]
            assert np.array_equal(found, expected)


@pytest.mark.parametrize("channels", [114, 116])
@pytest.mark.parametrize("weight", [-128, 127])
def test_the_largest_sums_are_exact(cpu_plugin: Cpu, tmp_path: Path, channels: int, weight: int) -> None:
    """With 114 channels 64 times a sum is what 32 bits hold; where it is more, the plain method is used."""
    x = np.zeros((1, channels, 16, 16), np.uint8)
    x[:, :, 4:, 3:] = 255
    w = np.full((16, channels, 3, 3), weight, np.int8)
    w[1] = -w[1] - 1
    w[2, ::2] = 0
    model, feed = _integer(x, w, 0, np.zeros(1), [1, 1, 1, 1])
    (found,), methods = _run(cpu_plugin, model, [feed], tmp_path)
    assert set(methods) <= ({WINOGRAD} if channels == 114 else PRODUCTS)
    assert np.array_equal(found, _convolve(x, w, [1, 1, 1, 1]))


@pytest.mark.parametrize("x_zero", [0, 255])
def test_alternating_extremes_are_exact(cpu_plugin: Cpu, tmp_path: Path, x_zero: int) -> None:
    """Inputs and weights with which the transformed ones are the largest."""
    signs = np.array([1, 0, 0, 0, 1, 1]), np.array([0, 1, 1, 0, 0, 0]), np.array([0, 0, 1, 0, 1, 0])
    for line in signs:
        for flip in (0, 1):
            tile = np.outer(line, line) ^ flip
            x = np.tile(tile[:4, :4], (1, 16, 5, 5)).astype(np.uint8) * 255
            w = np.where(np.outer([1, 0, 1], [1, 0, 1]), -128, 127).astype(np.int8)
            w = np.stack([np.full((3, 3), -128), np.full((3, 3), 127), w, -1 - w]).astype(np.int8)
            w = np.tile(w.reshape(4, 1, 3, 3), (4, 16, 1, 1))
            model, feed = _integer(x, w, x_zero, np.zeros(1), [1, 1, 1, 1])
            (found,), methods = _run(cpu_plugin, model, [feed], tmp_path)
            assert methods == [WINOGRAD]
            assert np.array_equal(found, _convolve(x.astype(np.int64) - x_zero, w, [1, 1, 1, 1]))


@pytest.mark.parametrize(
    ("zero", "allowed"), [(0, PRODUCTS), (27, PRODUCTS), (28, {WINOGRAD}), (228, PRODUCTS)]
)
def test_weights_that_would_not_fit_transformed_are_left_to_the_plain_method(
    cpu_plugin: Cpu, tmp_path: Path, zero: int, allowed: set[str]
) -> None:
    """144 times a weight less its zero point must fit into 16 bits."""
    x, w = _bytes(np.uint8, 1, 16, 12, 12), _bytes(np.uint8, 16, 16, 3, 3)
    w[0, 0, 0, 0], w[0, 0, 0, 1] = 255, 0
    model, feed = _integer(x, w, 100, np.full(1, zero), [1, 1, 1, 1])
    (found,), methods = _run(cpu_plugin, model, [feed], tmp_path)
    assert set(methods) <= allowed
    weights = w.astype(np.int64) - zero
    assert np.array_equal(found, _convolve(x.astype(np.int64) - 100, weights, [1, 1, 1, 1]))


@pytest.mark.parametrize("dtype", [np.uint8, np.int8])
@pytest.mark.parametrize("by_channel", [False, True])
def test_bytes_are_those_of_the_plain_method(
    cpu_plugin: Cpu, tmp_path: Path, dtype: type, by_channel: bool
) -> None:
    """The plain method is what weights take that only the run knows."""
    x, w = _bytes(dtype, 2, 34, 17, 10), np.round(RNG.standard_normal((50, 34, 3, 3)) * 30).astype(np.int8)
    scale = (RNG.random(50 if by_channel else ()) * 0.01 + 0.001).astype(np.float32)
    feeds = {
        "x": x, "xs": np.float32(0.02), "xz": dtype(5),
        "w": w, "ws": scale, "wz": np.zeros_like(scale, np.int8),
        "ys": np.float32(0.1), "yz": dtype(20), "b": RNG.integers(-5000, 5000, 50).astype(np.int32),
    }  # fmt: skip
    node = helper.make_node("QLinearConv", list(feeds), ["y"], pads=[1, 1, 1, 1])
    (expected,), methods = _run(cpu_plugin, make_model([node], feeds, ["y"]), [feeds], tmp_path)
    assert methods == [FORM_OF_FED_BYTES]
    constants = {name: feeds.pop(name) for name in ("w", "ws", "wz", "b")}
    for threads in (1, 2):
        model = make_model([node], feeds, ["y"], constants)
        (found,), methods = _run(cpu_plugin, model, [feeds], tmp_path, threads)
        assert methods == [WINOGRAD]
        assert np.array_equal(found, expected)
        assert len(np.unique(found)) > 100


def test_a_session_takes_each_method_where_it_is_quicker(cpu_plugin: Cpu, tmp_path: Path) -> None:
    """Tiles at the end of a side are computed whole: an image of one tile is not worth it."""
    x, w = _bytes(np.uint8, 1, 32, 24, 24), np.round(RNG.standard_normal((32, 32, 3, 3)) * 30).astype(np.int8)
    model, _ = _integer(x, w, 3, np.zeros(1), [1, 1, 1, 1], open_shapes=True)
    feeds = [{"x": np.ascontiguousarray(x[:, :, :side, :side])} for side in (24, 3, 24, 4)]
    found, methods = _run(cpu_plugin, model, feeds, tmp_path)
    assert methods == [WINOGRAD, "bytes", WINOGRAD, "bytes"]
    for y, feed in zip(found, feeds, strict=True):
        assert np.array_equal(y, _convolve(feed["x"].astype(np.int64) - 3, w, [1, 1, 1, 1]))


SCRIPT = """
import sys
import numpy as np, onnx
import ephost
from ephost.plugins import cpu
ephost.register_execution_provider_library("Isa", cpu.get_library_path())
options = ephost.SessionOptions()
options.add_session_config_entry("session.disable_cpu_ep_fallback", "1")
device = next(d for d in ephost.get_ep_devices() if d.ep_name == "Isa")
options.add_provider_for_devices([device], {})
session = ephost.InferenceSession(sys.argv[1], options)
np.save(sys.argv[3], session.run(None, {"x": np.load(sys.argv[2])})[0])
"""


@pytest.mark.skipif(platform.machine() not in ("x86_64", "AMD64"), reason="one instruction set only")
@pytest.mark.parametrize("dtype", [np.uint8, np.int8])
def test_sums_are_exact_in_the_lowest_instruction_set(tmp_path: Path, dtype: type) -> None:
    x, w = _bytes(dtype, 1, 22, 15, 9), np.round(RNG.standard_normal((21, 22, 3, 3)) * 30).astype(np.int8)
    w_zero = RNG.integers(-9, 9, 21)
    model, _ = _integer(x, w, 9, w_zero, [1, 1, 1, 1])
    onnx.save(model, tmp_path / "model.onnx")
    np.save(tmp_path / "x.npy", x)
    subprocess.run(
        [sys.executable, "-c", SCRIPT, *(str(tmp_path / name) for name in ("model.onnx", "x.npy", "y.npy"))],
        env={**os.environ, "EPHOST_CPU_ISA": "x86-64"},
        check=True,
        timeout=120,
    )
    weights = w.astype(np.int64) - w_zero.reshape(-1, 1, 1, 1)
    assert np.array_equal(
        np.load(tmp_path / "y.npy"), _convolve(x.astype(np.int64) - 9, weights, [1, 1, 1, 1])
    )
