"""Read lines of text that this program draws, with rapidocr-onnxruntime; print what was found as JSON."""

import json

import numpy as np
from PIL import Image, ImageDraw, ImageFont
from rapidocr_onnxruntime import RapidOCR

LINES = ["Plugin execution", "providers 12345", "Hello, world!"]


def page(size: int) -> np.ndarray:
    """White paper with the lines in black."""
    image = Image.new("RGB", (size * 12, size * 6), "white")
    draw = ImageDraw.Draw(image)
    font = ImageFont.load_default(size)
    for at, line in enumerate(LINES):
        draw.text((size, size // 2 + at * size * 2), line, fill="black", font=font)
    return np.asarray(image)


engine = RapidOCR()
found = []
for size in (24, 40):
    result, _ = engine(page(size))
    found.append(
        [[text, round(float(score), 3), np.round(box).tolist()] for box, text, score in result or []]
    )
print(json.dumps(found))
