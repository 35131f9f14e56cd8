"""Runs programs on plugins/cuda: on the make-believe driver of tests/plugins/fake_cuda, and on a GPU,
whose driver tests/plugins/spy_cuda takes notes of.
"""

from __future__ import annotations

import ctypes
import functools
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

from plugin_harness import ROOT, python_path

SOURCES = ROOT / "tests" / "plugins" / "fake_cuda"
SPY = ROOT / "tests" / "plugins" / "spy_cuda" / "spy_cuda.cc"
KERNELS = ROOT / "plugins" / "cuda" / "kernels"
PLUGIN = ROOT / "host" / "ephost" / "plugins" / "cuda" / "libephost_cuda.so"


def gpu(bus_id: str) -> dict:
    """A GPU of NVIDIA's as a host sees it."""
    return {"type": "GPU", "vendor_id": 0x10DE, "device_id": 9000, "metadata": {"pci_bus_id": bus_id}}


HARDWARE = [{"type": "CPU"}, gpu("0000:1a:00.0"), gpu("0000:1b:00.0")]


@functools.cache
def toolkit() -> Path | None:
    """The folder with NVIDIA's headers, or None where there is no nvcc."""
    nvcc = shutil.which("nvcc") or shutil.which("nvcc", path="/usr/local/cuda/bin")
    if nvcc is None:
        return None
    said = subprocess.run([nvcc, "--dryrun", "-x", "cu", "/dev/null"], capture_output=True, text=True).stderr
    top = re.search(r"TOP=(\S+)", said)
    include = Path(top[1]) / "include" if top else Path()
    return include if (include / "cuda.h").is_file() else None


def build_fake_driver(target: Path) -> Path:
    """Compiles the driver with our kernels in it; returns the library."""
    library = target / "libfake_cuda.so"
    flags = [
        "-std=c++17",
        "-O1",
        "-g",
        "-fPIC",
        "-fvisibility=hidden",
        "-Wall",
        "-Wextra",
        "-Werror",
        "-pthread",
    ]
    flags.append("-Wno-unknown-pragmas")  # "unroll" is for nvcc
    includes = [f"-I{SOURCES}", "-isystem", str(toolkit())]
    objects = []
    for source in [*sorted(SOURCES.glob("*.cc")), *sorted(KERNELS.glob("*.cu"))]:
        objects.append(str(target / f"{source.name}.o"))
        words = [
            "c++",
            *flags,
            *includes,
            "-DEPHOST_EMULATE",
            "-x",
            "c++",
            "-c",
            str(source),
            "-o",
            objects[-1],
        ]
        done = subprocess.run(words, capture_output=True, text=True)
        assert done.returncode == 0, f"{' '.join(words)}\n{done.stderr}"
    words = ["c++", *flags, "-shared", *objects, "-o", str(library)]
    done = subprocess.run(words, capture_output=True, text=True)
    assert done.returncode == 0, f"{' '.join(words)}\n{done.stderr}"
    return library


def compiled(library: Path, source: Path, *more: str) -> Path:
    """A library of one source, which includes NVIDIA's headers."""
    flags = [
        "-std=c++17",
        "-O1",
        "-g",
        "-fPIC",
        "-shared",
        "-fvisibility=hidden",
        "-Wall",
        "-Wextra",
        "-Werror",
    ]
    words = ["c++", *flags, "-isystem", str(toolkit()), str(source), *more, "-o", str(library)]
    done = subprocess.run(words, capture_output=True, text=True)
    assert done.returncode == 0, f"{' '.join(words)}\n{done.stderr}"
    return library


def build_fake_library(name: str, target: Path, driver: Path) -> Path:
    """Compiles a library of NVIDIA's for that driver, cublaslt or cudnn; returns it."""
    source = ROOT / "tests" / "plugins" / f"fake_{name}" / f"fake_{name}.cc"
    return compiled(target / f"libfake_{name}.so", source, str(driver))


@functools.cache
def no_gpu() -> str:
    """Why nothing can run on a GPU here; empty where it can."""
    program = "import use_cuda; print(len(use_cuda.opened())); print(use_cuda.why_none())"
    done = run_with(program, EPHOST_CUDA_LIBRARY="libcuda.so.1")
    if done.returncode != 0:
        return done.stderr.strip().splitlines()[-1]
    found, _, why = done.stdout.partition("\n")
    return "" if int(found) else why.strip()


def build_spy(target: Path) -> Path:
    """Compiles the library that counts what is asked of the driver; returns it."""
    driver = ctypes.CDLL("libcuda.so.1")
    mapped = Path("/proc/self/maps").read_text().splitlines()
    place = next(line.split()[-1] for line in mapped if "/libcuda.so" in line)
    del driver
    return compiled(target / "libspy_cuda.so", SPY, "-Wl,--no-as-needed", place)


def run_on_fake(
    library: Path, program: str, machine: str = "", hardware: list[dict] | None = None, **env: str
) -> subprocess.CompletedProcess[str]:
    """Runs a Python program in a process whose CUDA driver is the make-believe one."""
    hardware = HARDWARE if hardware is None else hardware
    return run_with(
        program,
        **{
            "EPHOST_CUDA_LIBRARY": str(library),
            "EPHOST_HARDWARE_DEVICES": json.dumps(hardware),
            "FAKE_CUDA": machine,
            **env,
        },
    )


def run_with(program: str, **env: str) -> subprocess.CompletedProcess[str]:
    """Runs a Python program, for which ``use_cuda`` (tests/plugins/use_cuda.py) is imported, in its own
    process.
    """
    return subprocess.run(
        [sys.executable, "-c", f"from use_cuda import *\n{program}"],
        capture_output=True,
        text=True,
        timeout=280,
        check=False,
        env={
            **os.environ,
            "PYTHONPATH": os.pathsep.join([python_path(), str(Path(__file__).parent)]),
            **env,
        },
    )
