"""Find the characters in pictures that this program draws, with ddddocr; print their boxes as JSON."""

import io
import json

import ddddocr
from PIL import Image, ImageDraw, ImageFont

engine = ddddocr.DdddOcr(det=True, ocr=False, show_ad=False)
found = []
for text in ("8fK2", "hello", "4711"):
    image = Image.new("RGB", (320, 200), "white")
    for at, letter in enumerate(text):
        draw = ImageDraw.Draw(image)
        draw.text((20 + 60 * at, 30 + 25 * at), letter, fill="black", font=ImageFont.load_default(48))
    data = io.BytesIO()
    image.save(data, "png")
    found.append(engine.detection(data.getvalue()))
print(json.dumps(found))
