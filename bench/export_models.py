"""Exports models with random weights at their real sizes, for bench/cpu.py.

Transformers need ``torch``, ``transformers`` and ``onnxscript``, networks for images (``--vision``)
``timm`` and ``torchvision``, too, which nothing else here does: give this script a virtual environment
of its own (torch's wheels for the CPU alone are enough). Nothing is downloaded: the models are built
from their configurations. What it writes is large (about 3 GB) and is not to be committed.
bench/quantize_models.py makes some of them into ones of bytes.

    python bench/export_models.py FOLDER [--only NAME] [--vision]

Every ``NAME.onnx`` comes with ``NAME.json``: an object of inputs, each with ``dtype``, ``shape`` and ``high``
(integers are drawn from [0, high), floats from a normal distribution; ``ones`` for masks).
"""

from __future__ import annotations

import argparse
import json
import sys
import traceback
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import onnx
import torch
import transformers
from torch import Tensor, nn

OPSET = 20


@dataclass
class Export:
    """A module with the inputs that it is traced with, and the dimensions that may vary."""

    module: nn.Module
    inputs: dict[str, Tensor]
    outputs: list[str]
    high: int = 0
    dynamic: dict[str, dict[int, str]] = field(default_factory=dict)
    opset: int = OPSET
    # The older exporter, which traces: most models that are around came from it.
    traced: bool = False


def _tokens(batch: int, length: int, high: int) -> Tensor:
    return torch.randint(0, high, (batch, length), generator=torch.Generator().manual_seed(0))


class Bert(nn.Module):
    """BERT-base without a head."""

    def __init__(self) -> None:
        super().__init__()
        self.config = transformers.BertConfig(attn_implementation="sdpa")
        self.model = transformers.BertModel(self.config)

    def forward(
        self, input_ids: Tensor, attention_mask: Tensor, token_type_ids: Tensor
    ) -> tuple[Tensor, ...]:
        out = self.model(input_ids, attention_mask, token_type_ids)
        return out.last_hidden_state, out.pooler_output


class Gpt2(nn.Module):
    """GPT-2 small with its head, without a cache."""

    def __init__(self) -> None:
        super().__init__()
        self.config = transformers.GPT2Config(attn_implementation="sdpa", use_cache=False)
        self.model = transformers.GPT2LMHeadModel(self.config)

    def forward(self, input_ids: Tensor, attention_mask: Tensor) -> Tensor:
        return self.model(input_ids, attention_mask=attention_mask, use_cache=False).logits


class Gpt2Cached(nn.Module):
    """GPT-2 small with its head: ``past`` is [layers, 2, batch, heads, length, size of a head]."""

    def __init__(self) -> None:
        super().__init__()
        self.config = transformers.GPT2Config(attn_implementation="sdpa")
        self.model = transformers.GPT2LMHeadModel(self.config)

    def forward(self, input_ids: Tensor, attention_mask: Tensor, past: Tensor) -> tuple[Tensor, Tensor]:
        cache = transformers.DynamicCache([(layer[0], layer[1]) for layer in past.unbind(0)])
        out = self.model(input_ids, attention_mask=attention_mask, past_key_values=cache, use_cache=True)
        layers = [torch.stack((layer.keys, layer.values)) for layer in out.past_key_values.layers]
        return out.logits, torch.stack(layers)


class Llama(nn.Module):
    """A decoder of Llama's kind with 124 million weights: grouped queries, rotated by place, gated MLPs.

    ``past`` is [layers, 2, batch, heads of keys, length, size of a head]; without it there is no cache.
    """

    def __init__(self) -> None:
        super().__init__()
        self.config = transformers.LlamaConfig(
            hidden_size=768,
            intermediate_size=2048,
            num_hidden_layers=12,
            num_attention_heads=12,
            num_key_value_heads=4,
            vocab_size=32000,
            max_position_embeddings=2048,
            attn_implementation="sdpa",
        )
        self.model = transformers.LlamaForCausalLM(self.config)

    def forward(
        self, input_ids: Tensor, attention_mask: Tensor, past: Tensor | None = None
    ) -> tuple[Tensor, ...]:
        if past is None:
            return (self.model(input_ids, attention_mask=attention_mask, use_cache=False).logits,)
        cache = transformers.DynamicCache([(layer[0], layer[1]) for layer in past.unbind(0)])
        out = self.model(input_ids, attention_mask=attention_mask, past_key_values=cache, use_cache=True)
        layers = [torch.stack((layer.keys, layer.values)) for layer in out.past_key_values.layers]
        return out.logits, torch.stack(layers)


class Vit(nn.Module):
    """ViT-B/16 with its head."""

    def __init__(self) -> None:
        super().__init__()
        self.model = transformers.ViTForImageClassification(
            transformers.ViTConfig(num_labels=1000, attn_implementation="sdpa")
        )

    def forward(self, pixel_values: Tensor) -> Tensor:
        return self.model(pixel_values).logits


def _whisper_config() -> Any:
    return transformers.WhisperConfig(
        d_model=384,
        encoder_layers=4,
        decoder_layers=4,
        encoder_attention_heads=6,
        decoder_attention_heads=6,
        encoder_ffn_dim=1536,
        decoder_ffn_dim=1536,
        vocab_size=51865,
        attn_implementation="sdpa",
    )


class WhisperEncoder(nn.Module):
    """Whisper-tiny's encoder, of 30 seconds of sound."""

    def __init__(self) -> None:
        super().__init__()
        self.model = transformers.WhisperModel(_whisper_config()).encoder

    def forward(self, input_features: Tensor) -> Tensor:
        return self.model(input_features).last_hidden_state


class WhisperDecoder(nn.Module):
    """Whisper-tiny's decoder with its head, without a cache."""

    def __init__(self) -> None:
        super().__init__()
        self.model = transformers.WhisperForConditionalGeneration(_whisper_config())

    def forward(self, decoder_input_ids: Tensor, encoder_hidden_states: Tensor) -> Tensor:
        hidden = self.model.model.decoder(
            input_ids=decoder_input_ids, encoder_hidden_states=encoder_hidden_states, use_cache=False
        ).last_hidden_state
        return self.model.proj_out(hidden)


class Tagger(nn.Module):
    """Embedded words, a two-layer LSTM in both directions, a GRU: what taggers and recognizers have."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(10000, 128)
        self.lstm = nn.LSTM(128, 256, num_layers=2, bidirectional=True, batch_first=True)
        self.gru = nn.GRU(512, 256, batch_first=True)
        self.head = nn.Linear(256, 64)

    def forward(self, words: Tensor) -> Tensor:
        hidden, _ = self.lstm(self.embedding(words))
        hidden, _ = self.gru(hidden)
        return self.head(hidden)


def _bert(**more: Any) -> Export:
    ids = _tokens(1, 128, 30522)
    open_ = {0: "batch", 1: "sequence"}
    inputs = {
        "input_ids": ids,
        "attention_mask": torch.ones_like(ids),
        "token_type_ids": torch.zeros_like(ids),
    }
    dynamic = dict.fromkeys(inputs, open_) if more.pop("dynamic", False) else {}
    return Export(Bert(), inputs, ["last_hidden_state", "pooler_output"], 30522, dynamic, **more)


def _gpt2(**more: Any) -> Export:
    ids = _tokens(1, 128, 50257)
    inputs = {"input_ids": ids, "attention_mask": torch.ones_like(ids)}
    dynamic = {each: {0: "batch", 1: "sequence"} for each in inputs} if more.pop("dynamic", False) else {}
    return Export(Gpt2(), inputs, ["logits"], 50257, dynamic, **more)


def _gpt2_cached(**more: Any) -> Export:
    batch, past, new = (2, 128, 2) if more.get("dynamic") else (1, 128, 1)
    inputs = {
        "input_ids": _tokens(batch, new, 50257),
        "attention_mask": torch.ones(batch, past + new, dtype=torch.int64),
        "past": torch.randn(12, 2, batch, 12, past, 64),
    }
    dynamic = (
        {
            "input_ids": {0: "batch", 1: "sequence"},
            "attention_mask": {0: "batch", 1: "total"},
            "past": {2: "batch", 4: "past_sequence"},
        }
        if more.pop("dynamic", False)
        else {}
    )
    return Export(Gpt2Cached(), inputs, ["logits", "present"], 50257, dynamic, **more)


def _llama(new: int, past: int) -> Export:
    inputs = {
        "input_ids": _tokens(1, new, 32000),
        "attention_mask": torch.ones(1, past + new, dtype=torch.int64),
    }
    if not past:
        return Export(Llama(), inputs, ["logits"], 32000)
    inputs["past"] = torch.randn(12, 2, 1, 4, past, 64)
    return Export(Llama(), inputs, ["logits", "present"], 32000)


def _vit(**more: Any) -> Export:
    dynamic = {"pixel_values": {0: "batch"}} if more.pop("dynamic", False) else {}
    batch = 2 if dynamic else 1
    return Export(Vit(), {"pixel_values": torch.randn(batch, 3, 224, 224)}, ["logits"], 0, dynamic, **more)


def _whisper_encoder() -> Export:
    return Export(WhisperEncoder(), {"input_features": torch.randn(1, 80, 3000)}, ["hidden"])


def _whisper_decoder() -> Export:
    inputs = {
        "decoder_input_ids": _tokens(1, 32, 51865),
        "encoder_hidden_states": torch.randn(1, 1500, 384),
    }
    return Export(WhisperDecoder(), inputs, ["logits"], 51865)


def _tagger() -> Export:
    return Export(Tagger(), {"words": _tokens(1, 64, 10000)}, ["scores"], 10000, traced=True, opset=17)


class Named(nn.Module):
    """What a module that answers with a dictionary, or a list of them, answers as a tuple."""

    def __init__(self, module: nn.Module, listed: bool) -> None:
        super().__init__()
        self.module = module
        self.listed = listed

    def forward(self, x: Tensor) -> tuple[Tensor, ...]:
        found = self.module([x[0]])[0] if self.listed else self.module(x)
        return tuple(found.values())


def _timm(name: str, size: int = 224) -> Callable[[], Export]:
    def make() -> Export:
        import timm

        module = timm.create_model(name, pretrained=False)
        return Export(module, {"x": torch.randn(1, 3, size, size)}, ["y"], traced=True, opset=17)

    return make


def _torchvision(part: str, name: str, shape: tuple[int, ...]) -> Callable[[], Export]:
    def make() -> Export:
        import importlib

        room = importlib.import_module(f"torchvision.models{part}")
        none = {} if part in ("", ".video") else {"weights_backbone": None}
        module = getattr(room, name)(weights=None, **none)
        named = {".detection": True, ".segmentation": False}
        if part in named:
            module = Named(module, named[part])
        return Export(module, {"x": torch.rand(shape)}, [], traced=True, opset=17)

    return make


VISION: dict[str, Callable[[], Export]] = {
    "mobilenetv2": _timm("mobilenetv2_100"),
    "mobilenetv3": _timm("mobilenetv3_large_100"),
    "efficientnet_b0": _timm("efficientnet_b0"),
    "ghostnet": _timm("ghostnet_100"),
    "resnet18": _timm("resnet18"),
    "regnety_008": _timm("regnety_008"),
    "convnext_tiny": _timm("convnext_tiny"),
    "swin_tiny": _timm("swin_tiny_patch4_window7_224"),
    "mobilevit_s": _timm("mobilevit_s", 256),
    "resnext50": _torchvision("", "resnext50_32x4d", (1, 3, 224, 224)),
    "maxvit": _torchvision("", "maxvit_t", (1, 3, 224, 224)),
    "r3d_18": _torchvision(".video", "r3d_18", (1, 3, 8, 112, 112)),
    "lraspp": _torchvision(".segmentation", "lraspp_mobilenet_v3_large", (1, 3, 320, 320)),
    "ssdlite": _torchvision(".detection", "ssdlite320_mobilenet_v3_large", (1, 3, 320, 320)),
    "fasterrcnn": _torchvision(".detection", "fasterrcnn_mobilenet_v3_large_320_fpn", (1, 3, 320, 320)),
}

MODELS: dict[str, Callable[[], Export]] = {
    "bert_base": _bert,
    "bert_base_dynamic": lambda: _bert(dynamic=True),
    "bert_base_traced14": lambda: _bert(dynamic=True, traced=True, opset=14),
    "gpt2": _gpt2,
    "gpt2_dynamic": lambda: _gpt2(dynamic=True),
    "gpt2_cached": _gpt2_cached,
    "gpt2_cached_dynamic": lambda: _gpt2_cached(dynamic=True),
    "llama_token": lambda: _llama(1, 128),
    "llama_prompt": lambda: _llama(128, 0),
    "vit_b16": _vit,
    "vit_b16_dynamic": lambda: _vit(dynamic=True),
    "whisper_tiny_encoder": _whisper_encoder,
    "whisper_tiny_decoder": _whisper_decoder,
    "tagger_lstm_gru": _tagger,
}


def export(name: str, folder: Path) -> None:
    """Write one model and what its inputs look like."""
    torch.manual_seed(0)
    model = (MODELS | VISION)[name]()
    module = model.module.eval()
    path = folder / f"{name}.onnx"
    args = tuple(model.inputs.values())
    common: dict[str, Any] = {
        "input_names": list(model.inputs),
        "output_names": model.outputs or None,
        "opset_version": model.opset,
    }
    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if model.traced:
            torch.onnx.export(module, args, str(path), dynamic_axes=model.dynamic, dynamo=False, **common)
        else:
            shapes = None
            if model.dynamic:
                dims: dict[str, Any] = {}
                shapes = tuple(
                    {
                        axis: dims.setdefault(dim, torch.export.Dim.DYNAMIC)
                        for axis, dim in model.dynamic.get(each, {}).items()
                    }
                    for each in model.inputs
                )
            torch.onnx.export(
                module, args, str(path), dynamic_shapes=shapes, dynamo=True, external_data=False, **common
            )
    made = onnx.load(str(path))
    used = {value.name for value in made.graph.input}
    described = {}
    for each, value in model.inputs.items():
        if each in used:
            ones = each == "attention_mask"
            high = 0 if value.is_floating_point() else 2 if each == "token_type_ids" else model.high
            described[each] = {
                "dtype": str(value.dtype).removeprefix("torch."),
                "shape": list(value.shape),
                "high": high,
                "ones": ones,
            }
    (folder / f"{name}.json").write_text(json.dumps(described, indent=2) + "\n")
    print(f"{name}: {len(made.graph.node)} nodes, {path.stat().st_size / 1e6:.0f} MB", flush=True)


def main() -> int:
    """Export all models, or those whose name has a text in it; 1 when one could not be exported."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--only", default="", help="those with this in their name")
    parser.add_argument("--vision", action="store_true", help="networks for images")
    parser.add_argument("--missing", action="store_true", help="leave out what is already in the folder")
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    failed = False
    for name in VISION if options.vision else MODELS:
        if options.only not in name or (options.missing and (options.folder / f"{name}.json").exists()):
            continue
        try:
            export(name, options.folder)
        except Exception:
            traceback.print_exc()
            print(f"{name}: failed", flush=True)
            failed = True
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
