"""ephost.plugins.*: where an application finds the bundled libraries."""

import importlib
import sys
from pathlib import Path

import pytest
from plugin_harness import ROOT

NAMES = ["sample_compiler", "sample_kernels"]


@pytest.fixture
def package(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """A copy of ephost.plugins without libraries, importable without the rest of ephost."""
    source = ROOT / "host" / "ephost" / "plugins"
    for path in source.rglob("__init__.py"):
        copy = tmp_path / "ephost" / "plugins" / path.relative_to(source)
        copy.parent.mkdir(parents=True, exist_ok=True)
        copy.write_text(path.read_text())
    (tmp_path / "ephost" / "__init__.py").touch()
    for name in [n for n in sys.modules if n.partition(".")[0] == "ephost"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.syspath_prepend(tmp_path)
    yield importlib.import_module(f"ephost.plugins.{request.param}")
    for name in [n for n in sys.modules if n.partition(".")[0] == "ephost"]:
        del sys.modules[name]


@pytest.mark.parametrize("package", NAMES, indirect=True)
def test_a_library_that_was_not_built_is_an_error_that_says_how_to_build_it(package) -> None:
    with pytest.raises(FileNotFoundError, match=r"was not built.*cmake -S"):
        package.get_library_path()


@pytest.mark.parametrize("package", NAMES, indirect=True)
def test_the_library_is_found_beside_its_package(package) -> None:
    name = package.__name__.rpartition(".")[2]
    suffix = {"win32": "dll", "darwin": "dylib"}.get(sys.platform, "so")
    library = Path(package.__file__).with_name(
        f"{name}.{suffix}" if sys.platform == "win32" else f"lib{name}.{suffix}"
    )
    library.touch()
    assert package.get_library_path() == str(library)


@pytest.mark.parametrize("package", NAMES, indirect=True)
def test_the_ep_is_called_like_its_package(package) -> None:
    name = package.__name__.rpartition(".")[2]
    assert package.get_ep_name() == name
    assert package.get_ep_names() == [name]
