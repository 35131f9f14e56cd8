"""Read a line of text from an image, on two plugin execution providers.

`make demo` runs this. An image is prepared by a small model on a vendor's plugin (nxrt-ep-cpu, as its wheel
ships it), and read by a real text-recognition model (from the package rapidocr-onnxruntime) that is offered
to the vendor's plugin and to one that comes with ephost. Exits with 1 when it reads what was not drawn.
"""

import argparse
import importlib.util
import sys
import time
from pathlib import Path
from typing import Any

import ephost as ort
import numpy as np
import nxrt_ep_cpu
from ephost.plugins import sample_kernels
from onnx import TensorProto, helper, numpy_helper
from PIL import Image, ImageDraw, ImageFont

HEIGHT = 48  # of the images that the model was trained on


def draw(text: str) -> np.ndarray:
    """The text, black on white, as an image of shape (48, width, 3) and dtype uint8."""
    font = ImageFont.load_default(32)
    _, _, right, _ = font.getbbox(text)
    image = Image.new("RGB", (int(right) + 24, HEIGHT), "white")
    ImageDraw.Draw(image).text((12, HEIGHT // 2), text, "black", font, anchor="lm")
    return np.asarray(image)


def preparation() -> bytes:
    """A model that makes such an image what the recogniser takes: float32 (1, 3, 48, width) from -1 to 1."""
    nodes = [
        helper.make_node("Cast", ["image"], ["floats"], to=TensorProto.FLOAT),
        helper.make_node("Mul", ["floats", "scale"], ["scaled"]),
        helper.make_node("Sub", ["scaled", "one"], ["centred"]),
        helper.make_node("Transpose", ["centred"], ["planes"], perm=[2, 0, 1]),
        helper.make_node("Unsqueeze", ["planes", "axis"], ["x"]),
    ]
    graph = helper.make_graph(
        nodes,
        "prepare",
        [helper.make_tensor_value_info("image", TensorProto.UINT8, [HEIGHT, "width", 3])],
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 3, HEIGHT, "width"])],
        [
            numpy_helper.from_array(np.array(2 / 255, np.float32), "scale"),
            numpy_helper.from_array(np.array(1, np.float32), "one"),
            numpy_helper.from_array(np.array([0]), "axis"),
        ],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    return bytes(model.SerializeToString())


def recogniser() -> Path:
    """The model in the package rapidocr-onnxruntime, which need not be imported for that."""
    spec = importlib.util.find_spec("rapidocr_onnxruntime")
    if spec is None or spec.origin is None:
        raise SystemExit("the package rapidocr-onnxruntime is not installed: it has the model")
    return Path(spec.origin).with_name("models") / "ch_PP-OCRv4_rec_infer.onnx"


def decode(scores: np.ndarray, characters: list[str]) -> str:
    """The text of (steps, classes) scores: each step's best class, without repetitions and "nothing" (0).

    The spaces that the image's margins may give are cut off.
    """
    best = scores.argmax(axis=-1)
    found = (characters[k - 1] for at, k in enumerate(best) if k != 0 and (at == 0 or k != best[at - 1]))
    return "".join(found).strip()


def session(model: bytes | Path, *libraries: str) -> ort.InferenceSession:
    """A session on the devices of these libraries, in this order of priority."""
    options = ort.SessionOptions()
    for library in libraries:
        options.add_provider_for_devices(
            [d for d in ort.get_ep_devices() if d.registration_name == library], {}
        )
    return ort.InferenceSession(model, options)


def show_assignment(title: str, opened: ort.InferenceSession) -> None:
    """Which EP runs which nodes."""
    explanation = ort.explain(opened)
    print(f"\n{title}: {explanation.node_count} nodes, opened in {explanation.stages['total'] * 1e3:.0f} ms")
    for provider in explanation.providers:
        mine = [p for p in explanation.partitions if p.ep_name == provider.ep_name]
        print(
            f"  {provider.ep_name:20}{provider.nodes:4} nodes  {operators(mine) or 'it claims none of them'}"
        )
    left = [p for p in explanation.partitions if p.kind == "fallback"]
    print(f"  {'(fallback)':20}{len(explanation.fallback):4} nodes  {operators(left)}".rstrip())


def operators(partitions: list[Any]) -> str:
    """The most frequent operators of partitions."""
    counts: dict[str, int] = {}
    for partition in partitions:
        for name, count in partition.op_counts.items():
            counts[name] = counts.get(name, 0) + count
    ordered = sorted(counts.items(), key=lambda item: -item[1])
    shown = ", ".join(f"{name} {count}" for name, count in ordered[:6])
    return shown + (", ..." if len(ordered) > 6 else "")


def main() -> int:
    """Register, open, run, compare."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("text", nargs="?", default="Plugins run here: 2026")
    text = parser.parse_args().text

    ort.register_execution_provider_library("nxrt", nxrt_ep_cpu.get_library_path())
    ort.register_execution_provider_library("bundled", sample_kernels.get_library_path())
    print("Devices that plugins offer:")
    for device in ort.get_ep_devices():
        version = device.ep_metadata.get("version", "?")
        library = Path(device.ep_metadata["library_path"]).name
        where = f"{device.device.type.name} ({device.device.vendor})"
        print(
            f"  {device.ep_name:20} by {device.ep_vendor}, version {version}, on the {where}, from {library}"
        )

    prepare = session(preparation(), "nxrt")
    recognise = session(recogniser(), "nxrt", "bundled")
    show_assignment("Preparing the image", prepare)
    show_assignment("Recognising the text", recognise)

    image = draw(text)
    characters = [*recognise.get_modelmeta().custom_metadata_map["character"].splitlines(), " "]
    started = time.perf_counter()
    (x,) = prepare.run(None, {"image": image})
    prepared = time.perf_counter()
    (scores,) = recognise.run(None, {"x": x})
    recognised = time.perf_counter()
    found = decode(scores[0], characters)

    print(f"\nDrawn:      {text!r}, {image.shape[1]} x {image.shape[0]} pixels")
    print(f"Recognised: {found!r}")
    times = (prepared - started) * 1e3, (recognised - prepared) * 1e3
    print(f"Time:       {times[0]:.1f} ms to prepare, {times[1]:.0f} ms to recognise")
    if found != text:
        print("What was recognised is not what was drawn.", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
