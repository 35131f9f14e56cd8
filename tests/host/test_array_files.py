"""Files of arrays that something was done to are refused, whatever numpy stumbles over."""

from __future__ import annotations

import io
import random
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner
from ephost.array_files import load_arrays
from ephost.cli import main

ARRAYS = {"x": np.ones((2, 4), np.float32), "i": np.array([1, 2])}


def written(kind: str) -> bytes:
    file = io.BytesIO()
    if kind == "npy":
        np.save(file, ARRAYS["x"])
    else:
        {"npz": np.savez, "compressed": np.savez_compressed}[kind](file, **ARRAYS)  # type: ignore[operator]
    return file.getvalue()


def changed(data: bytes, source: random.Random) -> bytes:
    for _ in range(source.randint(1, 4)):
        at, count = source.randrange(len(data) + 1), source.randint(0, 8)
        data = data[:at] + source.choice([b"", source.randbytes(count)]) + data[at + count :]
        if source.random() < 0.1:
            data = data[:at]
    return data


@pytest.mark.parametrize("kind", ["npy", "npz", "compressed"])
def test_what_is_changed_is_read_or_refused(tmp_path: Path, kind: str) -> None:
    original, source, file = written(kind), random.Random(0), tmp_path / "changed"
    refused = 0
    for _ in range(400):
        file.write_bytes(changed(original, source))
        try:
            load_arrays(file)
        except ValueError:
            refused += 1
    assert refused > 100


def test_what_is_as_it_was_is_read(tmp_path: Path) -> None:
    for kind in ("npz", "compressed"):
        (tmp_path / kind).write_bytes(written(kind))
        found = load_arrays(tmp_path / kind)
        assert isinstance(found, dict) and found.keys() == ARRAYS.keys()
        for name, array in ARRAYS.items():
            np.testing.assert_array_equal(found[name], array)


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (written("npy")[:60], "holds no array: EOF"),
        (written("npy")[:-3], "holds no array: "),
        (b"", "holds no array: No data left in file"),
        (b"not an array", "holds no array\n"),
        (written("npy").replace(b"'shape': (2, 4)", b"'shape': [2, (4"), "holds no array: "),
        (written("npy").replace(b"(2, 4), ", b"(2**60,"), "holds no array: "),
        (written("npz"), "holds arrays by name"),
    ],
)
def test_run_says_what_is_wrong_with_an_input(tmp_path: Path, data: bytes, said: str) -> None:
    from onnx import parser

    model, file = tmp_path / "m.onnx", tmp_path / "x.npy"
    text = '<ir_version: 8, opset_import: ["": 17]> g (float[2, 4] x) => (float[2, 4] y) { y = Abs(x) }'
    model.write_bytes(parser.parse_model(text).SerializeToString())
    file.write_bytes(data)
    done = CliRunner().invoke(main, ["run", str(model), "--input", f"x={file}"])
    assert done.exit_code == 1 and f"{file} {said}" in done.output
