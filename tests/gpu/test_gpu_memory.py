"""Memory, copies and streams on a real GPU."""

from __future__ import annotations

import ephost
import numpy as np
import pytest


@pytest.mark.parametrize("dtype", [np.float32, np.float16, np.int64, np.bool_])
def test_values_go_there_and_back(gpus: list[ephost.OrtEpDevice], dtype: type) -> None:
    x = (np.arange(1_000_003) % 7).astype(dtype)
    for number in range(len(gpus)):
        value = ephost.OrtValue.ortvalue_from_numpy(x, "gpu", number, 0x10DE)
        assert np.array_equal(value.numpy(), x)


def test_queued_copies_are_in_order(gpus: list[ephost.OrtEpDevice]) -> None:
    stream = gpus[0].create_sync_stream()
    target = ephost.OrtValue.ortvalue_from_numpy(np.zeros(1 << 20, np.float32), "gpu", 0, 0x10DE)
    for i in range(50):
        source = ephost.OrtValue.ortvalue_from_numpy(np.full(1 << 20, i, np.float32), "gpu", 0, 0x10DE)
        ephost.copy_tensors([source], [target], stream)
        del source  # while the copy may still be queued
    assert (target.numpy() == 49).all()


def test_metadata_describe_the_gpu(gpus: list[ephost.OrtEpDevice]) -> None:
    for device in gpus:
        metadata = device.ep_metadata
        assert int(metadata["memory"]) > 1 << 30
        assert float(metadata["compute_capability"]) >= 7.5
        assert metadata["name"] and metadata["uuid"].startswith("GPU-")
