"""The way into plugins: each function of each of their structs is called through one that catches."""

from __future__ import annotations

import ctypes
import re
import subprocess
from pathlib import Path
from typing import Any

import ephost
import pytest
from ephost._bindings import NULL, api, check, ffi, guarded, lib, text
from ephost.errors import EPFail, RuntimeException

ENTRIES = {
    "CreateEpApiFactoriesFn": "CreateEpFactories",
    "ReleaseEpApiFactoryFn": "ReleaseEpFactory",
    "RegisterCustomOpsFn": "RegisterCustomOps",
    "OrtKernelCreateFunc": "the kernel's OrtKernelCreateFunc",
}
catches = pytest.mark.skipif(
    not lib.ephost_catches_exceptions(), reason="the C half was built without a C++ compiler"
)


def members() -> list[tuple[str, str]]:
    """Each function pointer of each struct that plugins fill, by its guard."""
    names = [name.removeprefix("ephost_guard_") for name in dir(lib) if name.startswith("ephost_guard_")]
    return [(struct, member) for struct, _, member in (name.partition("_") for name in names) if member]


@pytest.fixture(scope="module")
def thrower(tmp_path_factory: pytest.TempPathFactory) -> int:
    """The address of a function that throws, whatever it is called with."""
    folder = tmp_path_factory.mktemp("thrower")
    (folder / "thrower.cc").write_text(
        '#include <stdexcept>\nextern "C" void* thrower() { throw std::runtime_error("thrown by a test"); }\n'
    )
    library = folder / "libthrower.so"
    subprocess.run(["c++", "-shared", "-fPIC", folder / "thrower.cc", "-o", library], check=True)
    function = ctypes.CDLL(str(library)).thrower
    return int(ctypes.cast(function, ctypes.c_void_p).value or 0)


def call(name: str, first: Any) -> tuple[Any, str]:
    """What the guard returns for that struct or function and zeros; the message of what it kept or gave."""
    function = getattr(lib, f"ephost_guard_{name}")
    kinds = ffi.typeof(function).args[1:]
    answer = function(first, *(NULL if kind.kind == "pointer" else 0 for kind in kinds))
    is_status = ffi.typeof(function).result.cname.endswith("OrtStatus *")
    status = answer if is_status else lib.ephost_take_thrown()
    message = text(api.GetErrorMessage(status))
    api.ReleaseStatus(status)
    return (None if is_status else answer), message


def filled(struct: str, member: str, address: int) -> Any:
    made = ffi.new(f"{struct}*")
    setattr(made, member, ffi.cast(ffi.typeof(getattr(made, member)), address))
    return made


def is_release(name: str) -> bool:
    return ffi.typeof(getattr(lib, f"ephost_guard_{name}")).result.kind == "void" and not name.endswith(
        "KernelCompute"
    )


def test_there_is_one_for_each_function_of_a_plugin() -> None:
    declared = {
        (struct[1], member)
        for header in (Path(ephost.get_include()) / "ephost").glob("*.h")
        for struct in re.finditer(r"^struct (\w+) \{(.*?)^\};", header.read_text("utf-8"), re.S | re.M)
        for member in re.findall(r"\(ORT_API_CALL\* (\w+)\)\(", struct[2])
        if not struct[1].endswith(("Api", "ApiBase"))
    }
    assert len(declared) > 100
    assert declared == set(members())


@catches
@pytest.mark.parametrize(("struct", "member"), members())
def test_what_any_of_them_throws_is_caught(
    struct: str, member: str, thrower: int, caplog: pytest.LogCaptureFixture
) -> None:
    answer, message = call(f"{struct}_{member}", filled(struct, member, thrower))
    said = f"{struct}::{member} threw std::runtime_error: thrown by a test"
    assert answer in (None, NULL, 0, False)
    if is_release(f"{struct}_{member}"):
        assert (message, [record.getMessage() for record in caplog.records]) == ("", [said])
    else:
        assert message == said


@catches
@pytest.mark.parametrize("name", ENTRIES)
def test_so_is_what_an_exported_function_throws(name: str, thrower: int) -> None:
    _, message = call(name, ffi.cast(name, thrower))
    assert message == f"{ENTRIES[name]} threw std::runtime_error: thrown by a test"


@pytest.mark.parametrize(("struct", "member"), members())
def test_one_that_is_null_is_an_error_unless_it_releases(struct: str, member: str) -> None:
    answer, message = call(f"{struct}_{member}", ffi.new(f"{struct}*"))
    assert answer in (None, NULL, 0, False)
    expected = (
        "" if is_release(f"{struct}_{member}") else f"{struct}::{member} is NULL in what the plugin gave"
    )
    assert message == expected


@catches
def test_from_python_a_function_without_status_raises(thrower: int) -> None:
    with pytest.raises(RuntimeException, match=r"OrtEp::GetName threw std::runtime_error: thrown by a test"):
        guarded("OrtEp_GetName")(filled("OrtEp", "GetName", thrower))
    with pytest.raises(EPFail, match="OrtEp::GetName is NULL"):
        guarded("OrtEp_GetName")(ffi.new("OrtEp*"))


@catches
def test_the_first_of_several_is_kept(thrower: int) -> None:
    lib.ephost_guard_OrtEp_GetName(filled("OrtEp", "GetName", thrower))
    lib.ephost_guard_OrtEpFactory_GetName(filled("OrtEpFactory", "GetName", thrower))
    with pytest.raises(RuntimeException, match="OrtEp::GetName"):
        check(lib.ephost_take_thrown())
    assert not lib.ephost_take_thrown()


def test_no_module_calls_a_plugin_past_its_guard() -> None:
    names = "|".join(sorted({member for _, member in members()}))
    package = Path(ephost.__file__).parent
    found = [
        f"{path.relative_to(package)}: {line.strip()}"
        for path in sorted(package.rglob("*.py"))
        for line in path.read_text(encoding="utf-8").splitlines()
        if re.search(rf"\.({names})\(", line)
    ]
    assert found == []
