"""Exports a small model of every architecture that timm and transformers can build, with random weights.

They are for looking at what nobody thought of: `python -m tests.foreign.models FOLDER` compares both hosts'
answers on all of them, `python bench/cpu.py --models FOLDER --only NAME` measures one. A few layers are kept
of each, and large language models are made narrow. What cannot be exported is named, with the reason.

Needs what bench/export_models.py needs with ``--vision``. Nothing is downloaded. All of them take hours and
about 60 GB.

    python bench/export_architectures.py FOLDER [--only PATTERN ...] [--most MILLIONS] [--fixed]

Every ``NAME.onnx`` comes with ``NAME.json``, as those of bench/export_models.py do. Of models of text the
number of texts and their length are left open, unless ``--fixed`` is given. Every second one is traced, as
most models that are around were, the others come from the exporter that is torch's default now.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import sys
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import timm
import torch
import transformers
from torch import Tensor, nn
from transformers.models.auto.configuration_auto import CONFIG_MAPPING_NAMES

LAYERS, WORDS, EXPERTS = 3, 8000, 8  # at most, of a transformer
SHRUNK = {
    "num_hidden_layers": LAYERS, "num_layers": LAYERS, "n_layer": LAYERS, "n_layers": LAYERS,
    "encoder_layers": LAYERS, "decoder_layers": LAYERS, "num_decoder_layers": LAYERS,
    "num_encoder_layers": LAYERS, "vocab_size": WORDS, "num_experts": EXPERTS,
    "num_local_experts": EXPERTS, "n_routed_experts": EXPERTS,
}  # fmt: skip
NARROW = {
    "hidden_size": 1024, "num_attention_heads": 16, "num_key_value_heads": 4, "intermediate_size": 2816,
    "moe_intermediate_size": 704,
}  # fmt: skip


@dataclass
class Model:
    """A module, what it is traced with, and which axes of that stay open."""

    module: nn.Module
    inputs: dict[str, Tensor]
    open_axes: dict[str, dict[int, str]] = field(default_factory=dict)


class Tensors(nn.Module):
    """What a module answers by name, in lists and otherwise nested, as the first tensors of it."""

    MOST = 6

    def __init__(self, module: nn.Module, names: Sequence[str], constants: dict[str, Any]) -> None:
        super().__init__()
        self.module, self.names, self.constants = module, names, constants

    def forward(self, *inputs: Tensor) -> tuple[Tensor, ...]:
        def tensors(value: Any) -> Iterator[Tensor]:
            if isinstance(value, Tensor):
                yield value
            elif isinstance(value, dict):
                for name, each in value.items():
                    if "past" not in name:
                        yield from tensors(each)
            elif isinstance(value, list | tuple):
                for each in value:
                    yield from tensors(each)

        found = self.module(**dict(zip(self.names, inputs, strict=True)), **self.constants)
        return tuple(tensors(found))[: self.MOST]


def _smallest(family: str) -> str:
    """The model of a module of timm with the fewest weights, of those that have some."""
    counts = {}
    for name in timm.list_models(module=family):
        try:
            with torch.device("meta"):
                module = timm.create_model(name, pretrained=False)
        except Exception:  # it counts on real tensors while it is built
            continue
        if (count := sum(weight.numel() for weight in module.parameters())) > 1_000_000:
            counts[name] = count
    return min(counts, key=lambda name: counts[name])


def of_timm(family: str, _: bool) -> Model:
    """The smallest network for images of a family."""
    module = timm.create_model(_smallest(family), pretrained=False)
    size = module.pretrained_cfg.get("input_size", (3, 224, 224))
    return Model(module, {"x": torch.randn(1, *size)})


def _shrink(config: Any) -> None:
    parts = [config, *(value for value in vars(config).values() if hasattr(value, "to_dict"))]
    for part in parts:
        for name, most in SHRUNK.items():
            if isinstance(value := getattr(part, name, None), int) and value > most:
                setattr(part, name, most)
        if isinstance(kinds := vars(part).get("layer_types"), list):
            vars(part)["layer_types"] = kinds[:LAYERS]


def _image(config: Any) -> Tensor:
    size = getattr(config, "image_size", None) or 224
    height, width = size if isinstance(size, list | tuple) else (size, size)
    return torch.randn(1, getattr(config, "num_channels", 3), min(height, 640), min(width, 640))


def of_transformers(kind: str, fixed: bool) -> Model:
    """A model of a type that transformers knows, by the name of its main input."""
    config = transformers.AutoConfig.for_model(kind)
    if getattr(config, "hidden_size", None) and config.hidden_size > 2 * NARROW["hidden_size"]:
        config = transformers.AutoConfig.for_model(kind, **NARROW)
    _shrink(config)
    module = transformers.AutoModel.from_config(config).float()
    main = module.main_input_name
    words = torch.randint(5, min(getattr(config, "vocab_size", None) or WORDS, WORDS), (2, 24))
    by_name: dict[str, Callable[[], Tensor]] = {
        "input_ids": lambda: words,
        "pixel_values": lambda: _image(config),
        "input_values": lambda: torch.randn(1, 16000),
        "input_features": lambda: torch.randn(1, getattr(config, "num_mel_bins", 80), 3000),
    }
    if main not in by_name:
        raise ValueError(f"its main input is {main}")
    inputs = {main: by_name[main]()}
    if main == "input_ids":
        inputs["attention_mask"] = torch.ones_like(words)
    if config.is_encoder_decoder:
        inputs["decoder_input_ids"] = words[: inputs[main].shape[0], :8]
    open_axes = {name: {0: "texts", 1: f"length of {name}"} for name in inputs} if main == "input_ids" else {}
    if "attention_mask" in open_axes:
        open_axes["attention_mask"] = open_axes["input_ids"]
    constants = {"use_cache": False} if hasattr(config, "use_cache") else {}
    return Model(Tensors(module, list(inputs), constants), inputs, {} if fixed else open_axes)


def architectures() -> dict[str, tuple[Callable[[str, bool], Model], str]]:
    """By name: what builds it, of what."""
    found: dict[str, tuple[Callable[[str, bool], Model], str]] = {}
    found.update({f"timm_{family}": (of_timm, family) for family in timm.list_modules()})
    found.update({f"transformers_{kind}": (of_transformers, kind) for kind in CONFIG_MAPPING_NAMES})
    return found


def _write(model: Model, path: Path, traced: bool) -> None:
    args = tuple(model.inputs.values())
    module = model.module.eval()
    with torch.no_grad():
        module(*args)
        if traced:
            torch.onnx.export(
                module, args, str(path), input_names=list(model.inputs), opset_version=17,
                dynamic_axes=model.open_axes, dynamo=False,
            )  # fmt: skip
            return
        shapes = None
        if model.open_axes:
            each = [dict.fromkeys(model.open_axes[name], torch.export.Dim.DYNAMIC) for name in model.inputs]
            shapes = (tuple(each),)
        torch.onnx.export(
            module, args, str(path), input_names=list(model.inputs), opset_version=20,
            dynamic_shapes=shapes, dynamo=True, external_data=False, verbose=False,
        )  # fmt: skip


def export(name: str, folder: Path, most: float, fixed: bool, traced: bool) -> str:
    """Write one, and say what became of it."""
    torch.manual_seed(0)
    build, what = architectures()[name]
    model = build(what, fixed)
    millions = sum(weight.numel() for weight in model.module.parameters()) / 1e6
    if millions > most:
        return f"left out: {millions:.0f} million weights"
    path, problems = folder / f"{name}.onnx", []
    for way in (traced, not traced):
        try:
            _write(model, path, way)
        except Exception as error:
            problems.append(f"{type(error).__name__}: {str(error).strip().splitlines()[0][:120]}")
            continue
        described = {
            each: {
                "dtype": str(value.dtype).removeprefix("torch."),
                "shape": list(value.shape),
                "high": 0 if value.is_floating_point() else int(value.max()) + 1,
                "ones": each == "attention_mask",
            }
            for each, value in model.inputs.items()
        }
        (folder / f"{name}.json").write_text(json.dumps(described, indent=2) + "\n")
        return f"{millions:.1f} million weights, {'traced' if way else 'exported'}"
    return "cannot be exported: " + "; ".join(problems)


def _apart(name: str, options: argparse.Namespace, traced: bool) -> str:
    """The same in a child: torch may crash, take all memory, or never end."""
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        signal.alarm(options.limit)
        warnings.simplefilter("ignore")
        for stream in (1, 2):
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream)
        try:
            said = export(name, options.folder, options.most, options.fixed, traced)
        except BaseException as error:
            said = f"cannot be built: {type(error).__name__}: {' '.join(str(error).split())[:160]}"
        os.write(write, said.encode())
        os._exit(0)
    os.close(write)
    with open(read, "rb") as said_here:
        said = said_here.read().decode()
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    return said or f"ended with status {status}"


def main() -> int:
    """Export all of them, or those that match."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--only", nargs="*", default=(), metavar="PATTERN", help="of names")
    parser.add_argument("--most", type=float, default=200, metavar="MILLIONS", help="weights (%(default)s)")
    parser.add_argument("--limit", type=int, default=200, metavar="SECONDS", help="for each (%(default)s)")
    parser.add_argument("--fixed", action="store_true", help="leave no axis open")
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    torch.set_num_threads(1)  # a child has no other threads of its parent
    for at, name in enumerate(architectures()):
        there = (options.folder / f"{name}.json").exists()
        if there or (options.only and not any(fnmatchcase(name, pattern) for pattern in options.only)):
            continue
        print(f"{name}: {_apart(name, options, at % 2 == 0)}", flush=True)
        if not (options.folder / f"{name}.json").exists():
            (options.folder / f"{name}.onnx").unlink(missing_ok=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
