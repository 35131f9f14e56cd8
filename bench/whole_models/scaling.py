"""Time for each image or token, by how many there are."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import Any

from harness.sides import Host, Side, in_turns

from whole_models.catalog import Model
from whole_models.measure import WORKER

# What grows, by model: the input dimensions that a size goes into.
SCALING: dict[str, tuple[str, list[int], dict[str, list[int | str]]]] = {
    "rapidocr_cls": ("images", [1, 2, 4, 8, 16, 32, 64], {"*": ["n", 3, 48, 192]}),
    "vit_b16_dynamic": ("images", [1, 2, 4, 8, 16, 32, 64], {"pixel_values": ["n", 3, 224, 224]}),
    "gpt2_dynamic": (
        "tokens",
        [16, 32, 64, 128, 256, 512, 1024],
        {"input_ids": [1, "n"], "attention_mask": [1, "n"]},
    ),
    "bert_base_dynamic": (
        "tokens",
        [16, 32, 64, 128, 256, 512],
        {"input_ids": [1, "n"], "attention_mask": [1, "n"], "token_type_ids": [1, "n"]},
    ),
}


def scaling(
    models: Sequence[Model], both: Sequence[Side], options: argparse.Namespace
) -> list[dict[str, Any]]:
    """Seconds by image or token at each size, of the models that have a size to vary."""
    found: list[dict[str, Any]] = []
    names = [side.name for side in both]
    for model in models:
        if model.name not in SCALING:
            continue
        unit, sizes, shapes = SCALING[model.name]
        print(f"\n{model.name}: microseconds for each of so many {unit}", flush=True)
        with Host(both[0], WORKER) as one, Host(both[1], WORKER) as two:
            for host in (one, two):
                host("open", model=model.path, threads=options.threads)
            for size in sizes:
                inputs = {name: dict(told) for name, told in model.inputs.items()}
                dimensions: tuple[int, ...] = ()
                for name, shape in shapes.items():
                    now = [size if d == "n" else d for d in shape]
                    if name == "*":
                        dimensions = tuple(int(d) for d in now)
                    else:
                        inputs[name]["shape"] = now
                for host in (one, two):
                    host("inputs", inputs=inputs, dimensions=dimensions)
                    host("run")
                times = in_turns([one, two], "run", seconds=options.seconds, most=50)
                a, b = (each / size for each in times)
                found.append({"name": model.name, "unit": unit, "size": size, names[0]: a, names[1]: b})
                said = f"{names[0]} {a * 1e6:10.1f}  {names[1]} {b * 1e6:10.1f}  ratio {b / a:.2f}"
                print(f"{size:6d}  {said}", flush=True)
    return found
