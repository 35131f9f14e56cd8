"""Makes models of bytes, and of halves, of those that bench/export_models.py wrote, for bench/cpu.py.

Needs ``onnxruntime``, whose quantization tools it uses. Statically, each operator between QuantizeLinear
and DequantizeLinear, calibrated with numbers drawn at random: ``NAME_qdq.onnx`` has unsigned values and
weights by channel, ``NAME_s8.onnx`` is what the tools do when nothing is asked for (signed values, one
scale for each tensor). Dynamically (``NAME_int8.onnx``): inputs of matrix products are quantised in each run.
With weights of four bits in blocks of 32 (``NAME_q4.onnx``, with ``onnx_ir``): products by constants are
``MatMulNBits`` at accuracy level 4. ``NAME_half.onnx`` is of float16, by its converter, with inputs and
outputs of float32.

    python bench/quantize_models.py FOLDER [--static mobilenetv2,resnet18] [--signed mobilenetv2,resnet18]
                                           [--dynamic bert_base] [--four-bits llama_token,llama_prompt]
                                           [--half gpt2_cached,vit_b16,whisper_tiny_encoder]
"""

from __future__ import annotations

import argparse
import json
import shutil
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnxruntime.quantization import CalibrationDataReader, QuantType, quantize_dynamic, quantize_static
from onnxruntime.quantization.shape_inference import quant_pre_process
from onnxruntime.transformers.float16 import convert_float_to_float16


class Noise(CalibrationDataReader):
    """A few inputs of normally distributed numbers, as the model's description says."""

    def __init__(self, described: dict[str, dict[str, Any]]) -> None:
        random = np.random.default_rng(0)
        shapes = {name: value["shape"] for name, value in described.items()}
        self._feeds = iter(
            [
                {name: random.normal(size=shape).astype("float32") for name, shape in shapes.items()}
                for _ in range(4)
            ]
        )

    def get_next(self) -> dict[str, np.ndarray] | None:
        return next(self._feeds, None)


def describe(described: Path, target: Path) -> None:
    """Give a model that was made the description of the one that it was made of, and tell of it."""
    shutil.copy(described, target.with_suffix(".json"))
    print(f"{target.name}: {target.stat().st_size / 1e6:.0f} MB", flush=True)


def quantize(folder: Path, name: str, form: str) -> None:
    """Write the quantised model and its description beside the model."""
    source = folder / f"{name}.onnx"
    described = folder / f"{name}.json"
    target = folder / f"{name}_{form}.onnx"
    with tempfile.TemporaryDirectory() as work:
        prepared = Path(work) / "prepared.onnx"
        quant_pre_process(str(source), str(prepared), skip_symbolic_shape=True)
        if form == "int8":
            quantize_dynamic(str(prepared), str(target), weight_type=QuantType.QInt8)
        else:
            reader = Noise(json.loads(described.read_text()))
            unsigned = {"per_channel": True, "activation_type": QuantType.QUInt8} if form == "qdq" else {}
            quantize_static(str(prepared), str(target), reader, weight_type=QuantType.QInt8, **unsigned)
    describe(described, target)


def quantize_weights(folder: Path, name: str) -> None:
    """Write the model with weights of four bits and its description beside the model."""
    from onnxruntime.quantization.matmul_nbits_quantizer import MatMulNBitsQuantizer

    target = folder / f"{name}_q4.onnx"
    quantizer = MatMulNBitsQuantizer(
        onnx.load(str(folder / f"{name}.onnx")), block_size=32, is_symmetric=True, accuracy_level=4
    )
    quantizer.process()
    quantizer.model.save_model_to_file(str(target))
    describe(folder / f"{name}.json", target)


def halve(folder: Path, name: str) -> None:
    """Write the model of float16 and its description beside the model."""
    target = folder / f"{name}_half.onnx"
    made = convert_float_to_float16(onnx.load(folder / f"{name}.onnx"), keep_io_types=True)
    onnx.save(made, target)
    describe(folder / f"{name}.json", target)


def main() -> None:
    """Quantise the models that are named and there."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--static", default="mobilenetv2,resnet18")
    parser.add_argument("--signed", default="mobilenetv2,resnet18")
    parser.add_argument("--dynamic", default="bert_base")
    parser.add_argument("--four-bits", default="llama_token,llama_prompt")
    parser.add_argument("--half", default="gpt2_cached,vit_b16,whisper_tiny_encoder")
    options = parser.parse_args()
    for names, form in ((options.static, "qdq"), (options.signed, "s8"), (options.dynamic, "int8")):
        for name in filter(None, names.split(",")):
            quantize(options.folder, name, form)
    for name in filter(None, options.four_bits.split(",")):
        quantize_weights(options.folder, name)
    for name in filter(None, options.half.split(",")):
        halve(options.folder, name)


if __name__ == "__main__":
    main()
