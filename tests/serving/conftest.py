"""Servers that tests share: one process for all tests that leave it as it was."""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from served import Served


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator["Served"]:
    """Models that tests only ask."""
    # Here, so that tests which need no server run without what it stands on.
    from served import KINDS, Served, add_and_subtract, identity, looked_up, save, scaled

    folder: Path = tmp_path_factory.mktemp("models")
    for name, kind in KINDS.items():
        save(folder, f"same_{name}", identity(kind))
    save(folder, "two", add_and_subtract())
    save(folder, "table", looked_up(), config="[batching]\nmax_size = 8\ndelay_milliseconds = 50\n")
    save(folder, "versions", scaled(1.0), 1, 'versions = "all"\n')
    save(folder, "versions", scaled(2.0), 2)
    save(folder, "versions", scaled(10.0), 10)
    (folder / "secret.onnx").write_bytes(b"not a model")
    with Served(folder, "--max-request-bytes", "100000") as served:
        yield served
