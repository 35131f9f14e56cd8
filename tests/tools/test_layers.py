"""tools/layers.py finds what it is there to find."""

import importlib.util
from collections.abc import Callable
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
_spec = importlib.util.spec_from_file_location("layers", ROOT / "tools" / "layers.py")
assert _spec is not None and _spec.loader is not None
layers = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(layers)


@pytest.fixture
def tree(tmp_path: Path) -> Callable[[dict[str, str]], list[str]]:
    """What is found wrong with a tree of these files."""

    def check(files: dict[str, str]) -> list[str]:
        for folder in ("host", "plugins"):
            (tmp_path / folder).mkdir(exist_ok=True)
        for name, text in files.items():
            path = tmp_path / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        found: list[str] = layers.faults(tmp_path)
        return found

    return check


def test_the_sources_of_this_project_have_no_faults() -> None:
    assert layers.faults(ROOT) == []


def test_an_include_of_an_earlier_layer_is_fine(tree: Callable[[dict[str, str]], list[str]]) -> None:
    files = {
        "plugins/toolkit/graph.h": "",
        "plugins/cpu/operator.h": '#include "toolkit/graph.h"\n',
        "plugins/cpu/operators/conv.cc": '#include "cpu/operator.h"\n#include <vector>\n',
    }
    assert tree(files) == []


def test_an_include_of_a_later_layer_is_found(tree: Callable[[dict[str, str]], list[str]]) -> None:
    files = {
        "plugins/cpu/program/plan.h": "",
        "plugins/cpu/operators/loop.cc": '#include "cpu/program/plan.h"\n',
    }
    (fault,) = tree(files)
    assert fault.startswith("plugins/cpu/operators/loop.cc: includes cpu/program/plan.h")


def test_an_include_of_a_sibling_is_found(tree: Callable[[dict[str, str]], list[str]]) -> None:
    files = {
        "plugins/cpu/passes/fuse.h": "",
        "plugins/cpu/operators/conv.cc": '#include "cpu/passes/fuse.h"\n',
    }
    (fault,) = tree(files)
    assert "sibling" in fault


def test_an_include_of_another_plugin_is_found(tree: Callable[[dict[str, str]], list[str]]) -> None:
    files = {"plugins/cuda/driver.h": "", "plugins/cpu/engines/conv.cc": '#include "cuda/driver.h"\n'}
    (fault,) = tree(files)
    assert "cuda/driver.h" in fault


def test_what_the_toolkit_includes_of_a_plugin_is_found(tree: Callable[[dict[str, str]], list[str]]) -> None:
    files = {"plugins/cpu/operator.h": "", "plugins/toolkit/graph.cc": '#include "cpu/operator.h"\n'}
    (fault,) = tree(files)
    assert fault.startswith("plugins/toolkit/graph.cc")


def test_a_circle_of_headers_is_found_once(tree: Callable[[dict[str, str]], list[str]]) -> None:
    files = {
        "plugins/cpu/engines/a.h": '#include "cpu/engines/b.h"\n',
        "plugins/cpu/engines/b.h": '  #  include "c.h"\n',
        "plugins/cpu/engines/c.h": '#include "cpu/engines/a.h"\n',
        "plugins/cpu/engines/c.cc": '#include "cpu/engines/c.h"\n',
    }
    (fault,) = tree(files)
    assert fault.endswith("a circle") and all(f"engines/{name}.h" in fault for name in "abc")


def test_two_files_of_one_name_in_a_plugin_are_found(tree: Callable[[dict[str, str]], list[str]]) -> None:
    files = {
        "plugins/cpu/engines/pool.cc": "",
        "plugins/cpu/operators/pool.cc": "",
        "plugins/cuda/pool.cc": "",
    }
    (fault,) = tree(files)
    assert "cpu/engines/pool.cc" in fault and "cpu/operators/pool.cc" in fault


def test_a_file_that_lies_in_no_layer_is_found(tree: Callable[[dict[str, str]], list[str]]) -> None:
    (fault,) = tree({"plugins/cpu/helpers.cc": ""})
    assert "no layer" in fault


def test_a_source_that_is_too_long_is_found(tree: Callable[[dict[str, str]], list[str]]) -> None:
    (fault,) = tree({"host/native/call.h": "\n" * 801, "host/native/short.h": "\n" * 800})
    assert fault.startswith("host/native/call.h: 801 lines")
