"""Say what kind the files of a folder are, with magika; print it as JSON."""

import json
import tempfile
from pathlib import Path

from magika import Magika

FILES = {
    "a.py": b"import os\n\n\ndef main() -> None:\n    print(os.getcwd())\n\n\nmain()\n" * 4,
    "b.json": b'{"name": "value", "list": [1, 2, 3], "deep": {"a": null}}\n' * 8,
    "c.html": b"<!DOCTYPE html><html><head><title>x</title></head><body><p>text</p></body></html>\n" * 6,
    "d.c": b'#include <stdio.h>\n\nint main(void) {\n  printf("hello\\n");\n  return 0;\n}\n' * 6,
    "e.bin": bytes(range(256)) * 16,
    "f.txt": b"The quick brown fox jumps over the lazy dog.\n" * 20,
    "g.sh": b"#!/bin/sh\nset -e\nfor i in 1 2 3; do\n  echo $i\ndone\n" * 6,
    "h.empty": b"",
}

magika = Magika()
found = {}
with tempfile.TemporaryDirectory() as folder:
    paths = []
    for name, data in FILES.items():
        paths.append(Path(folder, name))
        paths[-1].write_bytes(data)
    for path, result in zip(paths, magika.identify_paths(paths), strict=True):
        found[path.name] = [result.output.label, round(result.score, 3)]
print(json.dumps(found))
