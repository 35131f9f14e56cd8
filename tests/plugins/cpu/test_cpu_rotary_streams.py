"""com.microsoft.MRotaryEmbedding: rotations by places in time, height and width."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from ephost.errors import InvalidArgument
from onnx import helper

from tests.plugins.cpu.conftest import Cpu, make_model

PLACES = 20


def _node(feeds: dict[str, np.ndarray], **attributes: Any) -> onnx.NodeProto:
    return helper.make_node("MRotaryEmbedding", list(feeds), ["y"], domain="com.microsoft", **attributes)


def _feeds(
    half: int, shape: tuple[int, ...], tokens: tuple[int, int], dtype: Any = np.float32
) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(0)
    angles = rng.standard_normal((PLACES, half))
    return {
        "x": rng.standard_normal(shape).astype(dtype),
        "places": rng.integers(0, PLACES, (3, *tokens)),
        "cosines": np.cos(angles).astype(dtype),
        "sines": np.sin(angles).astype(dtype),
    }


@pytest.mark.parametrize("layout", [0, 1])
@pytest.mark.parametrize("sections", [[8, 0, 0], [2, 3, 3], [4, 2, 2], [3, 3, 2], [0, 8, 0], [1, 1, 6]])
@pytest.mark.parametrize("interleaved", [0, 1])
@pytest.mark.parametrize("four", [False, True])
def test_each_pair_of_channels_has_its_stream(
    cpu_plugin: Cpu, four: bool, interleaved: int, sections: list[int], layout: int
) -> None:
    feeds = _feeds(8, (2, 3, 5, 16) if four else (2, 5, 3 * 16), (2, 5))
    heads = {} if four else {"num_heads": 3}
    node = _node(feeds, mrope_section=sections, mrope_layout=layout, interleaved=interleaved, **heads)
    cpu_plugin.check_beside_onnxruntime(node, feeds)


def test_a_part_of_the_channels(cpu_plugin: Cpu) -> None:
    feeds = _feeds(4, (1, 5, 3 * 16), (1, 5))
    node = _node(feeds, mrope_section=[1, 2, 1], num_heads=3, rotary_embedding_dim=8)
    cpu_plugin.check_beside_onnxruntime(node, feeds)


def test_halves(cpu_plugin: Cpu) -> None:
    feeds = _feeds(8, (1, 5, 3 * 16), (1, 5), np.float16)
    node = _node(feeds, mrope_section=[2, 3, 3], num_heads=3)
    cpu_plugin.check_beside_onnxruntime(node, feeds, rtol=2e-3, atol=2e-3)


def test_no_token(cpu_plugin: Cpu) -> None:
    feeds = _feeds(8, (2, 0, 16), (2, 0))
    (y,) = cpu_plugin.run(make_model([_node(feeds, mrope_section=[2, 3, 3])], feeds, ["y"]), feeds)
    assert y.shape == (2, 0, 16)


def test_what_does_not_fit_is_named(cpu_plugin: Cpu) -> None:
    feeds = _feeds(8, (2, 5, 16), (2, 5))
    with pytest.raises(InvalidArgument, match="the sections of mrope_section"):
        cpu_plugin.run(make_model([_node(feeds, mrope_section=[2, 3, 4])], feeds, ["y"]), feeds)
    for at in (-1, PLACES):
        wrong = feeds | {"places": np.full((3, 2, 5), at)}
        with pytest.raises(InvalidArgument, match="a position without an angle"):
            cpu_plugin.run(make_model([_node(wrong, mrope_section=[2, 3, 3])], wrong, ["y"]), wrong)
    flat = feeds | {"places": np.zeros((2, 5), np.int64)}
    with pytest.raises(InvalidArgument, match="three int64 for each token"):
        cpu_plugin.run(make_model([_node(flat, mrope_section=[2, 3, 3])], flat, ["y"]), flat)
