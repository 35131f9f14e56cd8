"""tools/vector_formulas.py finds formulas that a compiler has made no vectors of."""

import importlib.util
import platform
import shutil
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
_spec = importlib.util.spec_from_file_location("vector_formulas", ROOT / "tools" / "vector_formulas.py")
assert _spec is not None and _spec.loader is not None
vector_formulas = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(vector_formulas)

VECTORS = ["\tmulps\t%xmm0, %xmm1", "\tvfmadd231ps\t%ymm0, %ymm1, %ymm2", "\tmulss\t%xmm0, %xmm1"]
SINGLE = ["\tmulss\t%xmm0, %xmm1", "\tvfmadd132ss\t%xmm0, %xmm1, %xmm2"]


@pytest.mark.parametrize(
    ("lines", "found"),
    [
        (VECTORS, []),
        (SINGLE, ["Erf of float"]),
        ([*SINGLE, "\tcall\terff@PLT"], []),
        (["\tmovups\t(%rdi), %xmm0"], []),
    ],
)
def test_a_formula_without_arithmetic_of_vectors_is_found(lines: list[str], found: list[str]) -> None:
    name = "void ephost::cpu::isa_x86_64::unary_tile<ephost::cpu::isa_x86_64::Erf, float, float>(void*)"
    assert list(vector_formulas.faults({name: lines, "other()": SINGLE})) == found


@pytest.mark.skipif(
    platform.machine() not in ("x86_64", "AMD64") or shutil.which("g++") is None,
    reason="needs g++ for x86-64",
)
@pytest.mark.parametrize(
    ("step", "found"), [("x[i] * 2.5f", []), ("x[i] > y[0] ? x[i - 1] / 3 : 1", ["Erf of float"])]
)
def test_what_a_compiler_makes_is_read(tmp_path: Path, step: str, found: list[str]) -> None:
    source = tmp_path / "formulas.cc"
    source.write_text(
        f"""namespace ephost::cpu::isa_any {{
struct Erf {{}};
template <typename F, typename X, typename Y> void unary_tile(const X* x, Y* y) {{
  for (int i = 1; i < 4096; ++i) y[i] = {step};
}}
template void unary_tile<Erf, float, float>(const float*, float*);
}}
"""
    )
    command = ["g++", "-O3", "-march=x86-64", "-o", "formulas.o", "-c", str(source)]
    functions = vector_formulas.assembly(command, str(tmp_path))
    assert len(functions) == 1
    assert list(vector_formulas.faults(functions)) == found
