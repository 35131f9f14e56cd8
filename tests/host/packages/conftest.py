"""Fixtures for the tests of model packages."""

from __future__ import annotations

import importlib
import importlib.util
from pathlib import Path
from typing import Any

import pytest

HOSTS = ["ephost", "onnxruntime"]


def load_host(name: str) -> Any:
    """A host that has model packages."""
    if importlib.util.find_spec(name) is None:
        pytest.skip(f"{name} is not installed")
    host = importlib.import_module(name)
    if not hasattr(host, "ModelPackage"):
        pytest.skip(f"{name} {host.__version__} has no model packages")
    return host


@pytest.fixture(params=HOSTS)
def host(request: pytest.FixtureRequest) -> Any:
    """One host after the other."""
    return load_host(request.param)


@pytest.fixture(autouse=True)
def own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Each test works in a folder of its own, which relative paths begin at."""
    monkeypatch.chdir(tmp_path)
    return tmp_path
