"""Hold the CPU plugin's elementwise formulas to being compiled as vectors, for each instruction set.

    python tools/vector_formulas.py BUILD

BUILD has a compile_commands.json. A choice that the compiler cannot make without branches leaves a loop that
takes one number at a time, several times as long, and nothing else says so. Prints each formula whose
code has no arithmetic of vectors, and ends with status 1 if there is one. Those that call a function for each
number, as few of float64 do, are left out. Only x86-64's names of instructions are known.
"""

import json
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

SOURCES = ("cpu/simd/functions.cc", "cpu/simd/elements.cc")
_FUNCTION = re.compile(r"^(_Z\w+):$")
_ARITHMETIC = re.compile(r"^\tv?(?:mul|add|sub|div|sqrt|min|max|fn?m(?:add|sub)\d+)(?P<form>[ps][sd])\t")
_CALL = re.compile(r"^\t(?:call|jmp)\t\*?[A-Za-z_]")
_TILE = re.compile(r"(?:unary|binary)_tile<(?P<formula>[^,]+), (?P<type>float|double), ")


def assembly(command: list[str], folder: str) -> dict[str, list[str]]:
    """The instructions of each function that a compiler's command makes, by its name as in C++."""
    at = command.index("-o")
    options = [each for each in command[:at] + command[at + 2 :] if each != "-c"]
    text = subprocess.run(
        [*options, "-S", "-o", "-"], cwd=folder, check=True, capture_output=True, text=True
    ).stdout
    functions: dict[str, list[str]] = {}
    lines: list[str] = []
    for line in text.splitlines():
        if found := _FUNCTION.match(line):
            lines = functions.setdefault(found[1], [])
        lines.append(line)
    names = subprocess.run(
        ["c++filt"], input="\n".join(functions), check=True, capture_output=True, text=True
    ).stdout.splitlines()
    return dict(zip(names, functions.values(), strict=True))


def _tile(name: str) -> re.Match[str] | None:
    """The formula, and its type, that a function computes, if it is one of those."""
    return _TILE.search(re.sub(r"ephost::cpu::isa_\w+::", "", name))


def faults(functions: dict[str, list[str]]) -> Iterator[str]:
    """The formulas of floating-point numbers that are computed one by one."""
    for name, lines in functions.items():
        tile = _tile(name)
        if tile is None or any(_CALL.match(line) for line in lines):
            continue
        forms = {found["form"] for line in lines if (found := _ARITHMETIC.match(line))}
        one_by_one = {"float": "ss", "double": "sd"}[tile["type"]]
        if one_by_one in forms and one_by_one.replace("s", "p", 1) not in forms:
            yield f"{tile['formula']} of {tile['type']}"


def main() -> int:
    """Look at every instruction set of a build."""
    commands = json.loads(Path(sys.argv[1], "compile_commands.json").read_text())
    seen, status = 0, 0
    for entry in commands:
        if not entry["file"].endswith(SOURCES) or "-march=x86-64" not in entry["command"]:
            continue
        command = shlex.split(entry["command"])
        functions = assembly(command, entry["directory"])
        march = next(each for each in command if each.startswith("-march="))
        seen += sum(_tile(name) is not None for name in functions)
        for fault in faults(functions):
            print(f"{entry['file']}: {fault} is computed one by one with {march}")
            status = 1
    if seen == 0:
        print(f"{sys.argv[1]}: no formula is compiled there for x86-64", file=sys.stderr)
        return 1
    return status


if __name__ == "__main__":
    raise SystemExit(main())
