"""Windows' paths of libraries: long ones need a prefix there, which users do not write."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

import ephost
import pytest
from ephost.errors import NoSuchFile
from ephost.plugins import sample_kernels

pytestmark = [
    pytest.mark.usefixtures("nothing_leaks"),
    pytest.mark.skipif(sys.platform != "win32", reason="paths of Windows"),
]
PREFIX = "\\\\?\\"
MAX_PATH = 260


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[str]:
    """A folder whose path is longer than MAX_PATH."""
    path = os.path.join(str(tmp_path), *["a folder with a name of 33 signs-\N{GREEK SMALL LETTER ALPHA}"] * 9)
    os.makedirs(PREFIX + path)
    assert len(path) > MAX_PATH
    yield path
    shutil.rmtree(PREFIX + str(tmp_path))


def devices_of(path: str) -> int:
    """How many devices the library there offers."""
    ephost.register_execution_provider_library("here", path)
    try:
        return sum(device.registration_name == "here" for device in ephost.get_ep_devices())
    finally:
        ephost.unregister_execution_provider_library("here")


@pytest.mark.parametrize("prefix", ["", PREFIX])
def test_a_library_at_a_long_path(folder: str, prefix: str) -> None:
    path = os.path.join(folder, "plugin.dll")
    shutil.copy(sample_kernels.get_library_path(), PREFIX + path)
    assert devices_of(prefix + path) == 1


def test_slashes_and_folders_above_in_a_long_path(folder: str) -> None:
    shutil.copy(sample_kernels.get_library_path(), PREFIX + os.path.join(folder, "plugin.dll"))
    written = folder.replace("\\", "/") + "/../" + os.path.basename(folder) + "/./plugin.dll"
    assert devices_of(written) == 1


@pytest.fixture
def share(tmp_path: Path) -> str:
    """The path of a folder without its first backslashes, as this machine shares its drive with itself."""
    drive, rest = os.path.splitdrive(str(tmp_path))
    shared = f"localhost\\{drive[0].lower()}${rest}"
    if not os.path.isdir("\\\\" + shared):
        pytest.skip(f"this machine does not share {drive}")
    return shared


@pytest.mark.parametrize("prefix", ["\\\\", "\\\\?\\UNC\\", "//"])
@pytest.mark.parametrize("folders", [0, 9])
def test_a_library_on_a_share(share: str, prefix: str, folders: int) -> None:
    within = os.path.join(share, *["a folder with a name of 33 signs-\N{GREEK SMALL LETTER ALPHA}"] * folders)
    path = os.path.join(within, "plugin.dll")
    assert (len(path) > MAX_PATH) == (folders > 0)
    os.makedirs("\\\\?\\UNC\\" + within, exist_ok=True)
    shutil.copy(sample_kernels.get_library_path(), "\\\\?\\UNC\\" + path)
    assert devices_of(prefix + (path.replace("\\", "/") if prefix == "//" else path)) == 1
    shutil.rmtree("\\\\?\\UNC\\" + share)


def test_what_is_not_on_a_share(share: str) -> None:
    with pytest.raises(NoSuchFile, match=r"[\\]localhost[\\].*[\\]not_here\.dll does not exist"):
        ephost.register_execution_provider_library("here", f"\\\\{share}\\not_here.dll")
