"""Fixtures for the tests of model packages."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from package_folders import HOSTS, load_host


@pytest.fixture(params=HOSTS)
def host(request: pytest.FixtureRequest) -> Any:
    """One host after the other."""
    return load_host(request.param)


@pytest.fixture(autouse=True)
def own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Each test works in a folder of its own, which relative paths begin at."""
    monkeypatch.chdir(tmp_path)
    return tmp_path
