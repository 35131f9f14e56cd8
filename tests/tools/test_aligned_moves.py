"""The check of CI that looks for instructions that Windows' stack is not aligned for."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
AS, OBJDUMP = "x86_64-w64-mingw32-as", "x86_64-w64-mingw32-objdump"
pytestmark = pytest.mark.skipif(
    not shutil.which(AS) or not shutil.which(OBJDUMP), reason=f"needs {AS} and {OBJDUMP}"
)
MOVES = """
to_stack: vmovaps %ymm0, 32(%rsp)
to_heap: vmovdqa64 %zmm1, (%rcx)
past: vmovntdq %ymm2, (%rcx)
fine: vmovups %ymm0, (%rcx)
short: vmovaps %xmm0, (%rcx)
between: vmovaps %ymm0, %ymm1
"""


def checked(folder: Path, text: str, *flags: str, registers: str = "ymm,zmm") -> tuple[int, str]:
    """What the check says of assembled text."""
    (folder / "made.s").write_text(text)
    subprocess.run([AS, *flags, str(folder / "made.s"), "-o", str(folder / "made.dll")], check=True)
    script = ROOT / ".ci" / "mingw" / "aligned_moves.py"
    command = [sys.executable, str(script), OBJDUMP, registers, str(folder / "made.dll")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return done.returncode, done.stdout + done.stderr


def test_moves_that_want_aligned_memory_are_found(tmp_path: Path) -> None:
    status, said = checked(tmp_path, MOVES)
    assert status == 1 and "3 moves want aligned memory" in said
    assert [name for name in ("to_stack", "to_heap", "past", "fine", "short", "between") if name in said] == [
        "to_stack",
        "to_heap",
        "past",
    ]


def test_the_assembler_writes_the_other_form(tmp_path: Path) -> None:
    status, said = checked(tmp_path, MOVES, "-muse-unaligned-vector-move")
    assert status == 1 and "1 moves want aligned memory" in said and "past" in said  # no other form is there
    assert checked(tmp_path, MOVES.replace("vmovntdq", "vmovdqa"), "-muse-unaligned-vector-move")[0] == 0


def test_a_library_without_vectors_proves_nothing(tmp_path: Path) -> None:
    status, said = checked(tmp_path, "fine: vmovups %ymm0, (%rcx)\n")
    assert status == 1 and "does not use zmm" in said
