"""Shared assets: their hashes, what they may be made of, and how they get into a package."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import ephost
import pytest
from ephost.packages.assets import directory_hash
from package_folders import tree, write_manifest, write_source

FOLDERS: dict[str, dict[str, bytes | None]] = {
    "empty": {},
    "an empty folder": {"a": None},
    "one file": {"a": b"x"},
    "an empty file": {"a": b""},
    "the order of paths": {"s/a": b"x", "s.b": b"y", "s-": b"z", "s/b/c": b"", "t": b""},
    "upper and lower case": {"A": b"1", "a": b"2", "B": b"3"},
    "names beyond ASCII": {"é": b"1", "e\u0301": b"2", "\U0001f600": b"3", "\ufffd": b"4"},
    "odd names": {"a b\n": b"1", ".hidden": b"2"},
    "large": {"a": b"1" * (3 << 20)},
}


def fill(folder: Path, files: dict[str, bytes | None]) -> None:
    folder.mkdir()
    for name, data in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.mkdir() if data is None else path.write_bytes(data)


@pytest.mark.parametrize("name", FOLDERS)
def test_a_hash_is_the_same_in_both_hosts(host: Any, name: str) -> None:
    fill(Path("folder"), FOLDERS[name])
    assert host.ModelPackage.compute_directory_hash("folder") == directory_hash("folder")


def test_a_hash_is_what_sha256sum_prints() -> None:
    fill(Path("folder"), {"a": b"x"})
    assert (
        directory_hash("folder") == "sha256:4a4b874a1e9776a52e38fd82a053825f309f46187a803a0fc0c6670c6670e768"
    )
    fill(Path("nothing"), {})
    assert (
        directory_hash("nothing") == "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
    )


@pytest.mark.skipif(os.name == "nt", reason="links need rights there, and there are no pipes in folders")
def test_links_and_pipes_have_no_hash(host: Any) -> None:
    fill(Path("folder"), {"a": b"x"})
    Path("link").symlink_to("folder")
    assert host.ModelPackage.compute_directory_hash("link") == directory_hash("folder")
    with pytest.raises(ValueError, match="link"):
        host.ModelPackage().add_shared_asset("link")
    for target in ("a", "missing", "."):
        Path("folder/link").symlink_to(target)
        with pytest.raises(ValueError, match="link"):
            host.ModelPackage.compute_directory_hash("folder")
        Path("folder/link").unlink()
    os.mkfifo("folder/pipe")
    with pytest.raises(ValueError, match="pipe"):
        host.ModelPackage().add_shared_asset("folder")


def test_what_is_no_folder_has_no_hash(host: Any) -> None:
    Path("file").write_text("")
    for path in ("file", "missing"):
        with pytest.raises(FileNotFoundError, match=path):
            host.ModelPackage.compute_directory_hash(path)
        with pytest.raises(FileNotFoundError, match=path):
            host.ModelPackage().add_shared_asset(path)
    for path in (None, 1):
        with pytest.raises(TypeError):
            host.ModelPackage.compute_directory_hash(path)
    with pytest.raises(OSError, match="path"):
        host.ModelPackage.compute_directory_hash("")


def test_an_asset_is_copied_when_the_package_is_committed(host: Any) -> None:
    write_source(Path("source"))
    package = host.ModelPackage()
    uri = package.add_shared_asset("source", package.compute_directory_hash("source"))
    assert package.add_shared_asset("source") == uri
    assert package.get_info()["shared_assets"] == [{"uri": uri, "resolved_path": "source"}]
    assert package.resolve_asset_uri(uri) == "source"
    assert package.resolve_string_ref(f"{uri}/weights.bin") == str(Path("source/weights.bin").resolve())
    package.commit("package")
    folder = Path("package/shared_assets", uri.replace(":", "-"))
    assert tree(folder) == tree(Path("source"))
    assert package.resolve_asset_uri(uri) == str(folder.resolve())
    with host.ModelPackage.open("package") as again:
        assert again.get_info()["shared_assets"] == [{"uri": uri, "resolved_path": str(folder.resolve())}]


def test_another_hash_than_expected_is_an_error(host: Any) -> None:
    write_source(Path("source"))
    package = host.ModelPackage()
    uri = package.compute_directory_hash("source")
    for expected in ("sha256:00", uri.upper(), uri[:-1] + ("0" if uri[-1] != "0" else "1"), ""):
        with pytest.raises(RuntimeError, match="hash"):
            package.add_shared_asset("source", expected)
    assert package.get_info()["shared_assets"] == []


def test_an_asset_that_changed_is_not_written(host: Any) -> None:
    write_source(Path("source"))
    write_manifest(Path("package"))
    package = host.ModelPackage.open("package")
    uri = package.add_shared_asset("source")
    Path("source/more").write_text("")
    with pytest.raises(RuntimeError, match="sha256"):
        package.commit()
    assert [name for name in tree(Path("package")) if "sha256" in name or "more" in name] == []
    os.rename("source", "elsewhere")
    with pytest.raises(FileNotFoundError, match="source"):
        package.commit()
    Path("elsewhere/more").unlink()
    os.rename("elsewhere", "source")
    package.commit()
    assert uri.replace(":", "-") in os.listdir("package/shared_assets")


def test_an_asset_elsewhere_is_for_installed_packages(host: Any) -> None:
    write_source(Path("source"))
    package = host.ModelPackage()
    with pytest.raises(RuntimeError, match="portable"):
        package.add_shared_asset("source", copy_in=False)
    write_manifest(Path("package"), layout="installed")
    package = host.ModelPackage.open("package")
    uri = package.add_shared_asset("../source", copy_in=False) if Path("../source").exists() else None
    uri = uri or package.add_shared_asset(str(Path("source").resolve()), copy_in=False)
    package.commit()
    assert host.ModelPackage.open("package").resolve_string_ref(uri) == str(Path("source").resolve())
    package.set_layout("portable")
    with pytest.raises(ValueError, match="source"):
        package.commit()


def test_a_removed_asset_is_deleted(host: Any) -> None:
    write_source(Path("source"))
    package = host.ModelPackage()
    uri = package.add_shared_asset("source")
    package.commit("package")
    package.remove_shared_asset("sha256:" + "0" * 64)
    package.remove_shared_asset("anything")
    package.remove_shared_asset(uri)
    package.commit()
    assert os.listdir("package/shared_assets") == []
    with pytest.raises(FileNotFoundError, match=uri):
        package.resolve_asset_uri(uri)
    assert tree(Path("source"))  # where it came from stays


def test_an_asset_that_the_manifest_has_elsewhere_is_not_deleted(host: Any) -> None:
    write_source(Path("package/elsewhere"))
    uri = host.ModelPackage.compute_directory_hash("package/elsewhere")
    write_manifest(Path("package"), shared_assets={uri: "elsewhere"})
    package = host.ModelPackage.open("package")
    assert package.resolve_asset_uri(uri) == str(Path("package/elsewhere").resolve())
    package.remove_shared_asset(uri)
    package.commit()
    assert Path("package/elsewhere/weights.bin").exists()


def test_what_lies_under_the_name_of_an_asset_is_checked() -> None:
    write_source(Path("source"))
    write_manifest(Path("package"))
    uri = directory_hash("source")
    Path("package/shared_assets", uri.replace(":", "-")).mkdir(parents=True)
    package = ephost.ModelPackage.open("package")
    package.add_shared_asset("source")
    with pytest.raises(RuntimeError, match="has the hash sha256:e3b0c442"):
        package.commit()


@pytest.mark.skipif(os.name == "nt", reason="links need rights there")
def test_a_link_among_the_assets_is_an_error(host: Any) -> None:
    write_manifest(Path("package"))
    Path("package/shared_assets").symlink_to("/etc")
    with pytest.raises(ValueError, match="shared_assets"):
        host.ModelPackage.open("package")
    Path("package/shared_assets").unlink()
    Path("package/shared_assets").mkdir()
    Path("package/shared_assets", "sha256-" + "a" * 64).symlink_to("/etc")
    with pytest.raises(ValueError, match="sha256-aaa"):
        host.ModelPackage.open("package")
    Path("package/shared_assets", "sha256-" + "a" * 64).unlink()
    Path("package/away").symlink_to("/etc")
    for path in ("away", "../x", "/etc", ".", ""):
        write_manifest(Path("package"), shared_assets={"sha256:" + "a" * 64: path})
        with pytest.raises(ValueError):
            host.ModelPackage.open("package", allow_external_paths=True)


def test_what_else_lies_there_is_no_asset(host: Any) -> None:
    write_manifest(Path("package"))
    for name in ("junk", "sha256-" + "A" * 64, "sha256-" + "b" * 63, "sha256-" + "b" * 65):
        Path("package/shared_assets", name).mkdir(parents=True)
    Path("package/shared_assets", "sha256-" + "c" * 64).write_text("")
    for digit in "20":
        Path("package/shared_assets", "sha256-" + digit * 64).mkdir()
    found = [asset["uri"] for asset in host.ModelPackage.open("package").get_info()["shared_assets"]]
    assert found == ["sha256:" + digit * 64 for digit in "02"]
