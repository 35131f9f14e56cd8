"""Compiles one file of kernels for all architectures, and makes C++ source of the result.

usage: build_kernels.py --nvcc NVCC --source FILE.cu --architectures "75;90;120" --name NAME --out OUT.cc
                        --report REPORT.txt --depfile DEPFILE [-- NVCC OPTION...]

The last of the architectures is embedded as PTX too, which newer GPUs translate for themselves. The report
has a line for each kernel and architecture: registers, shared memory, stack and spilled bytes. A kernel that
spills registers to memory fails the build: such a kernel is to be written differently, not shipped.
"""

import argparse
import re
import struct
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

_ENTRY = re.compile(r"Compiling entry function '([^']+)' for '([^']+)'")
_STACK = re.compile(r"(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads")
_USED = re.compile(r"Used (\d+) registers")
_SHARED = re.compile(r"(\d+) bytes smem")


@dataclass
class Usage:
    """What one kernel takes on one architecture."""

    kernel: str
    architecture: str
    registers: int = 0
    shared: int = 0
    stack: int = 0
    spilled: int = 0


def read_usage(log: str) -> list[Usage]:
    """The resources of each kernel, from what ``ptxas -v`` wrote."""
    found: list[Usage] = []
    for line in log.splitlines():
        if entry := _ENTRY.search(line):
            found.append(Usage(entry[1], entry[2]))
        elif not found:
            continue
        elif stack := _STACK.search(line):
            found[-1].stack, found[-1].spilled = int(stack[1]), int(stack[2]) + int(stack[3])
        elif used := _USED.search(line):
            found[-1].registers = int(used[1])
            shared = _SHARED.search(line)
            found[-1].shared = int(shared[1]) if shared else 0
    return found


def describe(usages: list[Usage]) -> str:
    """The report: a table of text."""
    rows = [f"{'kernel':40} {'arch':8} {'registers':>9} {'shared':>7} {'stack':>6} {'spilled':>8}"]
    rows += [
        f"{u.kernel:40} {u.architecture:8} {u.registers:9} {u.shared:7} {u.stack:6} {u.spilled:8}"
        for u in sorted(usages, key=lambda u: (u.kernel, u.architecture))
    ]
    return "\n".join(rows) + "\n"


def embed(image: bytes, name: str) -> str:
    """C++ source of an array with the image, in words of 8 bytes."""
    padded = image + b"\0" * (-len(image) % 8)
    words = struct.unpack(f"<{len(padded) // 8}Q", padded)
    lines = [",".join(f"{word:#x}ull" for word in words[i : i + 6]) for i in range(0, len(words), 6)]
    body = ",\n".join(lines)
    return (
        "#include <cstddef>\n"
        f"extern const unsigned long long {name}_image[];\nextern const std::size_t {name}_image_bytes;\n"
        f"alignas(64) const unsigned long long {name}_image[] = {{\n{body}}};\n"
        f"const std::size_t {name}_image_bytes = {len(image)};\n"
    )


def main() -> int:
    """See the module's docstring; the exit status is 1 when nvcc fails or a kernel spills."""
    parser = argparse.ArgumentParser()
    for option in ("nvcc", "source", "architectures", "name", "out", "report", "depfile"):
        parser.add_argument(f"--{option}", required=True)
    parser.add_argument("options", nargs="*")
    args = parser.parse_args()
    architectures = [word for word in args.architectures.split(";") if word]
    out = Path(args.out)
    fatbin = out.with_suffix(".fatbin")
    targets = [f"-gencode=arch=compute_{a},code=sm_{a}" for a in architectures]
    newest = architectures[-1]
    targets.append(f"-gencode=arch=compute_{newest},code=compute_{newest}")
    command = [
        *(args.nvcc, "-fatbin", "-std=c++17", "-O3", "-Xptxas", "-v", "--threads", "2"),
        *("-Werror", "all-warnings", "--expt-relaxed-constexpr", "-MD", "-MF", args.depfile, "-MT", args.out),
        *targets,
        *args.options,
        *("-o", str(fatbin), args.source),
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        sys.stderr.write(done.stdout + done.stderr)
        return 1
    usages = read_usage(done.stdout + done.stderr)
    if not usages:
        sys.stderr.write(f"nvcc said nothing of the kernels in {args.source}:\n{done.stderr}\n")
        return 1
    Path(args.report).write_text(describe(usages))
    if spilling := [usage for usage in usages if usage.spilled]:
        sys.stderr.write("these kernels spill registers to memory:\n" + describe(spilling))
        return 1
    out.write_text(embed(fatbin.read_bytes(), args.name))
    return 0


if __name__ == "__main__":
    sys.exit(main())
