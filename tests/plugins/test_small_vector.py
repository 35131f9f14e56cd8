"""The plugins' vector with room inside does what std::vector does."""

import subprocess
from pathlib import Path

from plugin_harness import ROOT


def test_it_agrees_with_the_standard_one_after_any_calls(tmp_path: Path) -> None:
    program = tmp_path / "small_vector"
    words = ["c++", "-std=c++20", "-O1", "-g", "-Wall", "-Wextra", "-Werror", f"-I{ROOT}/plugins"]
    words += ["-fsanitize=address,undefined", "-fno-sanitize-recover"]
    source = ROOT / "tests/plugins/toolkit_units/small_vector.cc"
    done = subprocess.run([*words, str(source), "-o", str(program)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    done = subprocess.run([str(program)], capture_output=True, text=True, env={})
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
