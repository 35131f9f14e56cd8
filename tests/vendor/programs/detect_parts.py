"""Look for people in pictures that this program draws, with nudenet; print boxes as JSON."""

import json
import tempfile
from pathlib import Path

import numpy as np
from nudenet import NudeDetector
from PIL import Image, ImageDraw

image = Image.new("RGB", (320, 320), (90, 120, 160))
draw = ImageDraw.Draw(image)
draw.rectangle((110, 170, 210, 320), fill=(170, 40, 40))
draw.ellipse((115, 60, 205, 180), fill=(224, 172, 140))
for x in (140, 180):
    draw.ellipse((x - 9, 105, x + 9, 117), fill="white")
    draw.ellipse((x - 4, 107, x + 4, 115), fill="black")
draw.arc((140, 130, 180, 155), 10, 170, fill=(150, 40, 50), width=5)
draw.polygon([(160, 115), (152, 138), (168, 138)], fill=(205, 150, 120))
detector = NudeDetector()
with tempfile.TemporaryDirectory() as folder:
    path = Path(folder, "drawn.png")
    image.save(path)
    found = detector.detect(str(path))
print(json.dumps([[part["class"], round(part["score"], 3), part["box"]] for part in found]))

# A drawing is hardly a person to the model: what it computes is compared before it is judged.
session = detector.onnx_session
(feed,), (output,) = session.get_inputs(), session.get_outputs()
noise = np.random.default_rng(1).random((1, 3, 320, 320), dtype=np.float32)
scores = session.run([output.name], {feed.name: noise})[0][0, 4:]
print(feed.name, feed.type, feed.shape, output.name, scores.shape)
print(json.dumps([round(float(score), 4) for score in scores.max(axis=1)]))
