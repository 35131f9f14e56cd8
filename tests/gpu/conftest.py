"""Fixtures for the tests that need an NVIDIA GPU: without one they are skipped, and say why."""

from __future__ import annotations

from collections.abc import Iterator

import ephost
import pytest
from ephost.plugins import cuda


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if "gpu" in item.path.parts:
            item.add_marker(pytest.mark.gpu)


@pytest.fixture(scope="session")
def gpus() -> Iterator[list[ephost.OrtEpDevice]]:
    """The plugin's devices."""
    try:
        library = cuda.get_library_path()
    except FileNotFoundError as error:
        pytest.skip(str(error))
    ephost.register_execution_provider_library("cuda", library)
    devices = [device for device in ephost.get_ep_devices() if device.ep_name == "cuda"]
    if not devices:
        ask = ephost.get_hardware_device_ep_incompatibility_details
        notes = {ask("cuda", hardware)["notes"] for hardware in ephost.get_hardware_devices()}
        ephost.unregister_execution_provider_library("cuda")
        pytest.skip("; ".join(sorted({note for note in notes if note})))
    yield devices
    ephost.unregister_execution_provider_library("cuda")
