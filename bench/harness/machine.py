"""Where a measurement is taken, and of what: processor, instruction sets, commit, versions."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import re
import subprocess
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]

# What a result names of a processor's flags: those that decide which kernels run.
INSTRUCTION_SETS = {
    "avx2": ("avx2", "fma"),
    "avx512": ("avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl"),
    "avx512_vnni": ("avx512_vnni",),
    "avx_vnni": ("avx_vnni",),
    "avx512_bf16": ("avx512_bf16",),
    "avx512_fp16": ("avx512_fp16",),
    "amx": ("amx_tile", "amx_int8"),
}
SOURCES = ("host", "plugins", "include")
COMPARED = (
    "onnxruntime",
    "numpy",
    "onnx",
    "scikit-learn",
    "skl2onnx",
    "lightgbm",
    "xgboost",
    "nxrt-ep-cpu",
    "onnxruntime-ggml",
    "onnxruntime-qnn",
    "onnxruntime-ep-openvino",
    "onnxruntime-ep-webgpu",
    "onnxruntime-gpu",
    "torch",
)


def machine() -> dict[str, Any]:
    """The processor, its instruction sets and cores, memory, and the system."""
    told = _cpuinfo()
    flags = set(told.get("flags", told.get("Features", "")).split())
    found: dict[str, Any] = {
        "processor": told.get("model name") or platform.processor() or platform.machine(),
        "family": [int(told[key]) for key in ("cpu family", "model") if key in told],
        "instruction_sets": [name for name, needs in INSTRUCTION_SETS.items() if flags.issuperset(needs)],
        "cores": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count(),
        "system": f"{platform.system()} {platform.machine()}, Python {platform.python_version()}",
    }
    if lowered := os.environ.get("EPHOST_CPU_ISA"):
        found["lowered_to"] = lowered
    return found


def folder_name(described: dict[str, Any]) -> str:
    """Where results of a machine are kept: its processor, the widest vectors that it has, its cores.

    Or the accelerator, where one was measured.

    The family and model are part of it, where they are known: a virtual machine says "AMD EPYC" of processors
    of several generations, whose figures are not to be mixed.
    """
    if "accelerator" in described:
        return re.sub(r"[^a-z0-9]+", "-", described["accelerator"].lower()).strip("-")
    words = re.sub(r"\((r|tm)\)|\bcpu\b|@.*|[0-9]+-core|processor", "", described["processor"].lower())
    sets = described["instruction_sets"]
    wide = next((name for name in ("amx", "avx512", "avx2") if name in sets), "baseline")
    family = map(str, described.get("family", ()))
    parts = [re.sub(r"[^a-z0-9]+", "-", words).strip("-"), *family, wide, f"{described['cores']}-cores"]
    if "lowered_to" in described:
        parts.append("as-" + described["lowered_to"])
    return "-".join(parts)


def commit(root: Path = ROOT) -> str:
    """The commit of a checkout; with a plus sign if its sources are not what was committed."""
    try:
        head = _git(root, "rev-parse", "--short=12", "HEAD")
        changed = _git(root, "status", "--porcelain", "--untracked-files=no", "--", *SOURCES)
    except (OSError, subprocess.CalledProcessError):
        return "unknown"
    return head + ("+" if changed else "")


def versions() -> dict[str, str]:
    """What is compared, and what both stand on."""
    found = {}
    for name in COMPARED:
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return found


def load() -> float:
    """How many threads of all processes want to compute, in the mean of the last minute."""
    return round(os.getloadavg()[0], 1) if hasattr(os, "getloadavg") else 0.0


def _cpuinfo() -> dict[str, str]:
    path = Path("/proc/cpuinfo")
    first = path.read_text().split("\n\n")[0] if path.exists() else ""
    pairs = (line.split(":", 1) for line in first.splitlines() if ":" in line)
    return {key.strip(): value.strip() for key, value in pairs}


def _git(root: Path, *arguments: str) -> str:
    command = ["git", "-C", str(root), *arguments]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()
