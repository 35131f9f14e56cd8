"""What the host holds in this process: handles, mapped libraries, memory; and small models to test it."""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from ephost._bindings import lib
from ephost.errors import OnnxRuntimeException
from onnx import TensorProto, helper, numpy_helper

HANDLE_KINDS = range(64)


def is_older(package: str, than: str) -> bool:
    """Whether an installed package is of a version before another: "1.23" of what is written "1.9"."""

    def numbers(text: str) -> list[int]:
        return [int(part) for part in text.split(".")[:2]]

    return numbers(version(package)) < numbers(than)


# What holds of onnx' and numpy's newest, where ephost takes older ones, too (.ci/oldest_packages).
needs_newest_onnx = pytest.mark.skipif(
    is_older("onnx", "1.23"), reason="onnx knows this from 1.23 on: an older one is here"
)
needs_numpy_2 = pytest.mark.skipif(
    is_older("numpy", "2.0"), reason="numpy can do this from 2.0 on: an older one is here"
)


def live_handles() -> dict[int, int]:
    """Live native handles by kind, after the garbage is collected."""
    gc.collect()
    counts = {kind: int(lib.ephost_live_handles(kind)) for kind in HANDLE_KINDS}
    return {kind: count for kind, count in counts.items() if count > 0}


def with_failing_allocations(run: Callable[[], Any], counts: Iterable[int]) -> Iterator[tuple[int, Any]]:
    """For each count what a run gives whose allocation after so many fails; None: it said that it failed."""
    for count in counts:
        lib.ephost_trim_cpu_cache()
        lib.ephost_fail_allocation_after(count)
        try:
            found = run()
        except (OnnxRuntimeException, MemoryError):
            found = None
        finally:
            lib.ephost_fail_allocation_after(-1)
        yield count, found


def is_mapped(library: str | os.PathLike[str]) -> bool:
    """Whether a shared library is mapped into this process."""
    if sys.platform == "win32":
        import ctypes

        find = ctypes.windll.kernel32.GetModuleHandleW
        find.argtypes, find.restype = [ctypes.c_wchar_p], ctypes.c_void_p
        return find(os.path.realpath(library)) is not None
    return os.path.realpath(library) in Path("/proc/self/maps").read_text()


def resident_bytes() -> int:
    """Resident memory of this process."""
    if sys.platform == "win32":
        import ctypes

        # PROCESS_MEMORY_COUNTERS: two numbers of 32 bits, and eight sizes; the second is what is resident.
        counters = (ctypes.c_size_t * 9)(9 * 8)
        kernel = ctypes.windll.kernel32
        kernel.GetCurrentProcess.restype = ctypes.c_void_p
        process = ctypes.c_void_p(kernel.GetCurrentProcess())
        assert kernel.K32GetProcessMemoryInfo(process, ctypes.byref(counters), ctypes.sizeof(counters))
        return int(counters[2])
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def adds_model(dims: Sequence[int | str] = (2,)) -> onnx.ModelProto:
    """y = -(x + x) + x: two Adds that the sample plugins and the bad plugin claim, and a Neg between them."""
    graph = helper.make_graph(
        [
            helper.make_node("Add", ["x", "x"], ["a"], name="first"),
            helper.make_node("Neg", ["a"], ["n"], name="middle"),
            helper.make_node("Add", ["n", "x"], ["y"], name="last"),
        ],
        "adds",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, list(dims))],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, list(dims))],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def one_node_model(
    op_type: str,
    inputs: dict[str, tuple[int, Sequence[int | str] | None]],
    outputs: dict[str, int],
    constants: dict[str, np.ndarray] | None = None,
    *,
    domain: str = "",
    opset: int = 21,
    **attributes: object,
) -> onnx.ModelProto:
    """One node, named ``node``, that reads the inputs (name -> element type, dims) and then the constants."""
    constants = constants or {}
    graph = helper.make_graph(
        [
            helper.make_node(
                op_type, [*inputs, *constants], list(outputs), name="node", domain=domain, **attributes
            )
        ],
        "one",
        [helper.make_tensor_value_info(name, kind, dims) for name, (kind, dims) in inputs.items()],
        [helper.make_tensor_value_info(name, kind, None) for name, kind in outputs.items()],
        [numpy_helper.from_array(array, name) for name, array in constants.items()],
    )
    imports = [helper.make_opsetid("", opset)] + ([helper.make_opsetid(domain, 1)] if domain else [])
    return helper.make_model(graph, opset_imports=imports, ir_version=10)
