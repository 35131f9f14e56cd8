"""The parts of plugins/cuda that need no device: sizes and the books of a pool."""

from __future__ import annotations

import ctypes
import importlib.util
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest
from plugin_harness import ROOT

MOST = 2**64 - 1


@pytest.fixture(scope="module")
def units(tmp_path_factory: pytest.TempPathFactory) -> ctypes.CDLL:
    library = tmp_path_factory.mktemp("units") / "libunits.so"
    sources = [ROOT / "tests/plugins/cuda_units/units.cc", ROOT / "plugins/cuda/pool_account.cc"]
    flags = [
        "-std=c++17",
        "-fPIC",
        "-shared",
        "-Wall",
        "-Wextra",
        "-Wconversion",
        "-Werror",
        f"-I{ROOT}/plugins",
    ]
    done = subprocess.run(
        ["c++", *flags, *map(str, sources), "-o", str(library)], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    opened = ctypes.CDLL(str(library))
    opened.rounded.restype = ctypes.c_size_t
    opened.rounded.argtypes = [ctypes.c_size_t]
    opened.fits.restype = ctypes.c_bool
    opened.fits.argtypes = [ctypes.c_size_t] * 3
    opened.size_of_text.restype = ctypes.c_bool
    opened.text_of_size.restype = ctypes.c_char_p
    opened.text_of_size.argtypes = [ctypes.c_size_t]
    return opened


@pytest.mark.parametrize(
    ("size", "taken"), [(0, 512), (1, 512), (512, 512), (513, 1024), (MOST, 0), (MOST - 511, MOST - 511)]
)
def test_requests_take_whole_units_or_are_refused(units: ctypes.CDLL, size: int, taken: int) -> None:
    assert units.rounded(size) == taken


@pytest.mark.parametrize(
    ("limit", "in_use", "size", "answer"),
    [
        (0, MOST - 5, 1 << 40, True),
        (1024, 0, 1024, True),
        (1024, 512, 512, True),
        (1024, 513, 512, False),
        (1024, 0, MOST, False),
        (1024, 1024, 1, False),
    ],
)
def test_a_limit_holds_without_overflow(
    units: ctypes.CDLL, limit: int, in_use: int, size: int, answer: bool
) -> None:
    assert units.fits(limit, in_use, size) is answer


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("0", 0),
        ("17", 17),
        ("4K", 4096),
        ("512M", 512 << 20),
        ("8G", 8 << 30),
        ("1T", 1 << 40),
        (str(MOST), MOST),
    ],
)
def test_sizes_are_read(units: ctypes.CDLL, text: str, size: int) -> None:
    got = ctypes.c_size_t()
    assert units.size_of_text(text.encode(), ctypes.byref(got)) and got.value == size


@pytest.mark.parametrize("text", ["", "G", "-1", "1.5G", "1GB", " 1", "0x10", str(MOST + 1), "99999999999T"])
def test_other_texts_are_no_sizes(units: ctypes.CDLL, text: str) -> None:
    assert not units.size_of_text(text.encode(), ctypes.byref(ctypes.c_size_t()))


@pytest.mark.parametrize(
    ("size", "text"), [(0, "0 bytes"), (1023, "1023 bytes"), (1536, "1.5 KiB"), (200 << 20, "200 MiB")]
)
def test_sizes_are_told(units: ctypes.CDLL, size: int, text: str) -> None:
    assert units.text_of_size(size).decode() == text


def load_builder() -> ModuleType:
    spec = importlib.util.spec_from_file_location(
        "build_kernels", ROOT / "plugins" / "cuda" / "build_kernels.py"
    )
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["build_kernels"] = module
    spec.loader.exec_module(module)
    return module


LOG = """ptxas info    : 0 bytes gmem
ptxas info    : Compiling entry function 'add_f32' for 'sm_90'
ptxas info    : Function properties for add_f32
    0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Used 24 registers, used 1 barriers, 1024 bytes smem, 400 bytes cmem[0]
ptxas info    : Compiling entry function 'big' for 'sm_75'
ptxas info    : Function properties for big
    96 bytes stack frame, 40 bytes spill stores, 44 bytes spill loads
ptxas info    : Used 255 registers, 400 bytes cmem[0]
"""


def test_what_kernels_take_is_read_from_the_compilers_log() -> None:
    builder = load_builder()
    small, big = builder.read_usage(LOG)
    assert (small.kernel, small.architecture, small.registers, small.shared) == ("add_f32", "sm_90", 24, 1024)
    assert (big.stack, big.spilled, big.registers) == (96, 84, 255)


def test_a_kernel_that_spills_fails_the_build(tmp_path: Path) -> None:
    nvcc = tmp_path / "nvcc"
    nvcc.write_text(f"#!{sys.executable}\nimport sys\nsys.stderr.write({LOG!r})\n")
    nvcc.chmod(0o755)
    out = tmp_path / "image.cc"
    builder = ROOT / "plugins" / "cuda" / "build_kernels.py"
    options = {"nvcc": nvcc, "source": "x.cu", "architectures": "75;90", "name": "x", "out": out}
    options |= {"report": tmp_path / "report.txt", "depfile": tmp_path / "x.d"}
    words = [word for name, value in options.items() for word in (f"--{name}", str(value))]
    done = subprocess.run([sys.executable, str(builder), *words], capture_output=True, text=True)
    assert done.returncode == 1 and "spill" in done.stderr and "big" in done.stderr
    assert "add_f32" not in done.stderr and not out.exists()
    assert "add_f32" in (tmp_path / "report.txt").read_text()
