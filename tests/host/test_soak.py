"""A thousand rounds of registering, opening, running and unregistering leave nothing behind."""

from __future__ import annotations

import json
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path

import ephost.plugins.sample_compiler
import ephost.plugins.sample_kernels
import pytest

pytestmark = pytest.mark.resources
SOAK = str(Path(__file__).with_name("soak.py"))
ROUNDS = 1000
TOLERANCE = 4 << 20  # bytes; one leaked page a round would already show
MEMORY_INFO = "3"  # a HandleKind
PROCESSES = "each round would start a process: tests/plugins/isolated_soak.py does that"


def soak(python: Callable, library: str, ep_name: str) -> dict:
    done = python(SOAK, library, ep_name, str(ROUNDS), "ephost")
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.in_process(PROCESSES)
@pytest.mark.parametrize("plugin", [ephost.plugins.sample_kernels, ephost.plugins.sample_compiler])
def test_memory_stays_flat_and_the_library_goes(python: Callable, plugin) -> None:
    found = soak(python, plugin.get_library_path(), plugin.get_ep_name())
    assert max(found["resident"]) - found["resident"][0] < TOLERANCE, found["resident"]
    assert found["handles"] == {}
    assert not found["mapped"]


@pytest.fixture(scope="module")
def nxrt() -> str:
    """The library of the wheel nxrt-ep-cpu."""
    if find_spec("nxrt_ep_cpu") is None:
        pytest.skip("nxrt-ep-cpu is not installed")
    import nxrt_ep_cpu

    return nxrt_ep_cpu.get_library_path()


@pytest.mark.in_process(PROCESSES)
def test_of_nxrt_only_what_it_keeps_itself_stays(python: Callable, nxrt: str) -> None:
    # nxrt-ep-cpu 0.1.0 loses some 8 KB at each registration, a memory info that it made among them. It opens
    # its own library with RTLD_NODELETE, so that it stays mapped: in onnxruntime, too.
    found = soak(python, nxrt, "cpu_ep")
    assert found["handles"] in ({}, {MEMORY_INFO: ROUNDS})
    lost_by_nxrt = ROUNDS * (10 << 10)
    assert max(found["resident"]) - found["resident"][0] < TOLERANCE + lost_by_nxrt, found["resident"]


def test_nxrt_pins_itself(python: Callable, nxrt: str) -> None:
    program = """
import sys, ephost
ephost.register_execution_provider_library("nxrt", sys.argv[1])
ephost.unregister_execution_provider_library("nxrt")
"""
    done = python("-c", program, nxrt, LD_DEBUG="files")
    assert done.returncode == 0
    opened = done.stderr.count(f"opening file={nxrt}")
    assert opened >= 2, "we open it once: the rest is the plugin"
    assert f"marking {nxrt} [0] as NODELETE" in done.stderr
