"""What the layers `trace` and `validate` cost: runs of the same session with one and without.

`validate` is measured with all of it, and without the guards around outputs and the comparison of inputs.

A kernel EP's chain of Adds is the worst that there can be: each node is a few calls, and next to no work.

    python bench/layers.py [--save]
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

import onnx
from harness.machine import ROOT
from harness.models import adds
from harness.report import Row, arguments, note, report, temporary_folder, wanted
from harness.results import begin
from harness.sides import Host, Side, in_turns

sys.path[:0] = [str(ROOT / "host"), str(ROOT / "tests" / "vendor")]
from ephost import layers  # noqa: E402
from real_models import SHAPES, models  # noqa: E402
from vendors import VENDORS, variables_of  # noqa: E402

MODELS = ("cls", "det", "rec")
KINDS = ("trace", "validate", "validate, no bounds")


def fixed(name: str, path: Path, folder: Path) -> Path:
    """The model with the shape of its input given: some plugins take no other."""
    model = onnx.load(path)
    shape = model.graph.input[0].type.tensor_type.shape
    for dim, size in zip(shape.dim, SHAPES[name], strict=True):
        dim.dim_value = size
    for output in model.graph.output:
        output.type.tensor_type.ClearField("shape")
    target = folder / f"{name}.onnx"
    onnx.save(model, target)
    return target


def main() -> int:
    """Measure and report."""
    options = arguments(__doc__, rounds=15)
    both = Side("plain", "ephost"), Side("layered", "ephost")
    kept = begin("layers")
    # Of the published plugins the one that runs all of rapidocr's models.
    vendors = [name for name in ("openvino",) if not VENDORS[name].missing()]
    os.environ.update(variables_of(VENDORS[name] for name in vendors))
    rows = []
    with temporary_folder() as folder, Host(both[0]) as plain, Host(both[1]) as layered:
        libraries = {name: str(VENDORS[name].library) for name in vendors}
        libraries["sample_kernels"] = both[0].bundled("sample_kernels")
        for name, library in libraries.items():
            given = VENDORS[name].options if name in VENDORS else {}
            plain("register", name=name, path=library, options=given)
            made = layers.Trace(folder / f"{name}.trace"), layers.Validate(), layers.Validate(bounds=False)
            for at, (kind, layer) in enumerate(zip(KINDS, made, strict=True)):
                wrapped = folder / f"lib{name}_{at}.so"
                layers.wrap(library, wrapped, [layer])
                layered("register", name=f"{name} {kind}", path=str(wrapped), options=given)
        cases = [
            (f"{name} on {plugin}", plugin, fixed(name, model, folder), list(SHAPES[name]), 1, 1.1)
            for plugin in vendors
            for name, model in models().items()
            if name in MODELS
        ]
        cases.append(("one node on sample_kernels", "sample_kernels", adds(folder, "kernel"), [1], 100, None))
        chain = adds(folder, "chain", nodes=1000)
        cases.append(("1,000 Adds on sample_kernels", "sample_kernels", chain, [1], 3, None))
        for what, plugin, model, shape, calls, limit in cases:
            for kind in KINDS:
                name = f"{kind}: {what}"
                if not wanted(name, options):
                    continue
                note(f"{name} ...")
                plain("prepare", model=str(model), plugin=plugin, shape=shape)
                layered("prepare", model=str(model), plugin=f"{plugin} {kind}", shape=shape)
                times = in_turns((plain, layered), "run", rounds=options.rounds, calls=calls)
                rows.append(Row(name, *times, limit=limit))
    return report(kept, rows, both, options)


if __name__ == "__main__":
    sys.exit(main())
