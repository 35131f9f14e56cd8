"""Weights of an isolated plugin's models take memory once: both map a file, and what was copied goes."""

from __future__ import annotations

import gc
import os
from collections.abc import Iterator
from pathlib import Path

import ephost
import numpy as np
import onnx
import pytest
from ephost import environment
from ephost.errors import Fail
from ephost.isolation.snapshot import Sender, unpack
from ephost.model.load import load
from ephost.plugins import cpu, sample_kernels
from plugin_models import model, node

W = np.random.default_rng(3).standard_normal((256, 300)).astype(np.float32)
X = np.ones_like(W)
MADE = model([node("Mul", "x w", "a"), node("Add", "a w", "y")], {"x": list(W.shape)}, ["y"], {"w": W})


@pytest.fixture(autouse=True)
def _unregistered() -> Iterator[None]:
    yield
    gc.collect()
    if "apart" in environment.registrations():
        ephost.unregister_execution_provider_library("apart")


@pytest.fixture
def external(tmp_path: Path) -> Path:
    """The model with its weights in a file beside it."""
    made = onnx.ModelProto.FromString(MADE.SerializeToString())
    path = tmp_path / "model.onnx"
    onnx.save(made, path, save_as_external_data=True, location="weights.bin", size_threshold=0)
    return path


def opened(library: str, made: Path | bytes) -> ephost.InferenceSession:
    ephost.register_execution_provider_library("apart", library, isolated=True)
    options = ephost.SessionOptions()
    options.add_provider_for_devices(
        [d for d in ephost.get_ep_devices() if d.registration_name == "apart"][:1], {}
    )
    return ephost.InferenceSession(made, options, enable_fallback=0)


def mapped_by_worker() -> str:
    library = environment.registrations()["apart"].library
    return Path(f"/proc/{library.home().process.pid}/maps").read_text()


def test_the_worker_maps_the_file_that_the_host_has_mapped(external: Path) -> None:
    session = opened(sample_kernels.get_library_path(), external)
    np.testing.assert_array_equal(session.run(None, {"x": X})[0], X * W + W)
    assert str(external.with_name("weights.bin")) in mapped_by_worker()
    assert "ephost-weights" not in mapped_by_worker()


def test_weights_that_the_plugin_keeps_no_hold_of_are_freed_on_both_sides() -> None:
    session = opened(cpu.get_library_path(), MADE.SerializeToString())
    assert "ephost-weights" not in mapped_by_worker()
    constants = session._resources.constants
    assert not constants.held and not constants.in_file
    np.testing.assert_allclose(session.run(None, {"x": X})[0], X * W + W, rtol=1e-6)


def test_weights_that_kernels_read_are_in_the_worker_alone() -> None:
    session = opened(sample_kernels.get_library_path(), MADE.SerializeToString())
    assert "ephost-weights" in mapped_by_worker()
    assert not session._resources.constants.held
    np.testing.assert_array_equal(session.run(None, {"x": X})[0], X * W + W)


def replace_weights(external: Path) -> None:
    """Put another file in the place of the weights', as a download does that is renamed when it is whole."""
    weights = external.with_name("weights.bin")
    fresh = weights.with_suffix(".new")
    fresh.write_bytes(bytes(weights.stat().st_size))
    os.replace(fresh, weights)


def test_a_file_that_was_replaced_is_sent_as_it_was_mapped(external: Path) -> None:
    loaded = load(external)
    replace_weights(external)
    data, file = Sender(lambda _: -1).pack(loaded)
    assert file is not None
    arrived = unpack(data, file, {})
    np.testing.assert_array_equal(arrived.graph.values["w"].initializer, W)


def test_a_file_that_is_replaced_on_the_way_is_refused_by_name(external: Path) -> None:
    data, file = Sender(lambda _: -1).pack(load(external))
    assert file is None
    np.testing.assert_array_equal(unpack(data, None, {}).graph.values["w"].initializer, W)
    replace_weights(external)
    with pytest.raises(Fail, match=r"weights\.bin was replaced"):
        unpack(data, None, {})
