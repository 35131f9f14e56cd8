"""No mutated model and no mutated option crashes the host, or raises what is none of its errors.

EPHOST_FUZZ_TRIES is how many are tried in all: 10,000 for a release, fewer here.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest

TRIES = int(os.environ.get("EPHOST_FUZZ_TRIES", "900"))


@pytest.mark.timeout(3000)
@pytest.mark.parametrize("plugin", ["none", "kernels", "compiler"])
def test_mutations_end_in_errors_of_the_host(python: Callable, tmp_path: Path, plugin: str) -> None:
    worker = str(Path(__file__).with_name("fuzz_worker.py"))
    seed = os.environ.get("EPHOST_FUZZ_SEED", "1")
    done = python(worker, str(TRIES // 3), str(tmp_path), plugin, seed, timeout=2900)
    assert done.returncode == 0, (
        f"exit code {done.returncode} on {tmp_path}/model.onnx with "
        f"{(tmp_path / 'options.json').read_text()}\n"
        f"{done.stderr[-4000:]}"
    )
    found = json.loads(done.stdout)
    assert found["unexpected"] == {}
    assert found["leaked"] == {}
    assert found["ended"].get("ran", 0) > 0 and found["ended"].get("InvalidGraph", 0) > 0, found
