"""The CUDA plugin on a GPU: operators beside PyTorch's, whole models beside onnxruntime's CUDA provider.

    python bench/gpu.py kernels              needs PyTorch
    python bench/gpu.py models               needs onnxruntime-gpu
    python bench/gpu.py models --packages F  and models out of packages of PyPI, from bench/collect_models.py

What is on the GPU stays there. Products and convolutions of float32 are float32 on either side, not TF32.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from pathlib import Path

import numpy as np
from gpu_side.networks import encoder, residual
from harness.report import Row, arguments, note, report, temporary_folder, wanted
from harness.results import begin
from harness.sides import Failed, Host, Side, in_turns
from whole_models.catalog import Model, all_models


def more(parser: argparse.ArgumentParser) -> None:
    """Options of this benchmark alone."""
    parser.add_argument("what", choices=("kernels", "models"))
    parser.add_argument("--packages", type=Path, metavar="FOLDER", help="models of that folder, too")
    parser.add_argument("--bytes", type=int, default=256 << 20, help="of arrays (%(default)s)")


def kernels(options: argparse.Namespace) -> int:
    """Operators beside PyTorch's."""
    from gpu_side import kernels

    gpu = kernels.Gpu()
    kept = begin("gpu-kernels", accelerator=gpu.name)
    rows = kernels.measure(gpu, options.bytes, options.rounds, lambda name: wanted(name, options))
    return report(kept, rows, (Side("PyTorch", "torch"), Side("ephost", "ephost")), options)


def generated(folder: Path) -> list[Model]:
    """Networks that are made here, by batch."""
    found = []
    for dtype in (np.float32, np.float16):
        text, images = encoder(folder, dtype), residual(folder, dtype)
        for batch in (1, 8):
            name = f"{np.dtype(dtype).name}, batch {batch}"
            found.append(Model(f"encoder, {name}", text, {"x": {"shape": [batch, 128, 768]}}))
            found.append(Model(f"residual, {name}", images, {"x": {"shape": [batch, 3, 224, 224]}}))
    return found


def agree(one: Path, other: Path, half: bool) -> bool:
    """Whether two runs gave the same."""
    with np.load(one) as a, np.load(other) as b:
        pairs = [(a[name].astype(np.float64), b[name].astype(np.float64)) for name in a.files]
    tolerance = 5e-2 if half else 1e-3
    return all(
        x.shape == y.shape
        and np.allclose(x, y, tolerance, tolerance * max(1e-3, float(np.abs(x).max(initial=0))))
        for x, y in pairs
    )


def models(options: argparse.Namespace) -> int:
    """Whole models beside onnxruntime's."""
    both = Side("onnxruntime", "onnxruntime"), Side("ephost", "ephost")
    name = "import gpu_side.kernels as k; print(k.Gpu().name)"
    asked = subprocess.run(
        [sys.executable, "-c", name], capture_output=True, text=True, env=both[1].environment()
    )
    if asked.returncode != 0:
        raise SystemExit(asked.stderr.strip().splitlines()[-1])
    kept = begin("gpu-models", accelerator=asked.stdout.strip().splitlines()[-1])
    rows = []
    with temporary_folder() as folder:
        for model in [*generated(folder), *all_models(options.packages)]:
            if not wanted(model.name, options):
                continue
            files = [folder / f"{side.name}.npz" for side in both]
            try:
                with Host(both[0], "gpu_side.worker") as one, Host(both[1], "gpu_side.worker") as other:
                    given = {"model": model.path, "inputs": model.inputs, "dimensions": model.dimensions}
                    for host, file in zip((one, other), files, strict=True):
                        host("prepare", path=str(file), **given)
                    if not agree(*files, half="float16" in model.name):
                        note(f"{model.name}: the hosts do not agree")
                        continue
                    calls = max(1, int(0.05 / max(one("run", calls=1), other("run", calls=1))))
                    times = in_turns((one, other), "run", rounds=options.rounds, calls=calls)
            except Failed as error:
                note(f"{model.name}: {error}")
                continue
            note(f"{model.name}: {times[0] * 1e3:.3f} and {times[1] * 1e3:.3f} ms")
            rows.append(Row(model.name, *times, limit=1.0))
    return report(kept, rows, both, options)


def main() -> int:
    """Measure and report."""
    options = arguments(__doc__, rounds=5, more=more)
    if options.against:
        raise SystemExit("gpu.py has no --against: it measures beside PyTorch and onnxruntime alone")
    return kernels(options) if options.what == "kernels" else models(options)


if __name__ == "__main__":
    sys.exit(main())
