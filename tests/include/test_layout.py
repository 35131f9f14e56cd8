"""What compilers make of the headers: layout, warnings, calling convention, and what cffi reads."""

import re
import shutil
import subprocess
from pathlib import Path

import abi_tables
import pytest

STRUCTS = abi_tables.expected_structs()
STRICT = ["-Wall", "-Wextra", "-Wpedantic", "-Wconversion", "-Wstrict-prototypes", "-Werror"]
COMPILERS = {
    "c11": ["cc", "-std=c11", "-x", "c"],
    "c++17": ["c++", "-std=c++17", "-x", "c++"],
    "windows-c11": ["x86_64-w64-mingw32-gcc", "-std=c11", "-x", "c"],
    "windows-c++17": ["x86_64-w64-mingw32-g++", "-std=c++17", "-x", "c++"],
}


def compile_text(language: str, text: str, tmp_path: Path, *flags: str) -> subprocess.CompletedProcess[str]:
    """Compiles ``text`` against the headers with every warning an error; skips without the compiler."""
    command = COMPILERS[language]
    if not shutil.which(command[0]):
        pytest.skip(f"needs {command[0]} (on Debian: apt install gcc-mingw-w64-x86-64 g++-mingw-w64-x86-64)")
    strict = [flag for flag in STRICT if language.endswith("c11") or flag != "-Wstrict-prototypes"]
    source = tmp_path / "source.txt"
    source.write_text(text, encoding="utf-8")
    arguments = [*command, *strict, *flags, f"-I{abi_tables.INCLUDE}", "-c", str(source)]
    return subprocess.run([*arguments, "-o", str(tmp_path / "out.o")], capture_output=True, text=True)


def layout_asserts() -> list[str]:
    """A static assertion for each member's offset and each struct's size, computed from the table."""
    lines = []
    for struct in STRUCTS:
        offsets, size, _ = abi_tables.expected_layout(struct, STRUCTS)
        lines += [
            f'CHECK(offsetof(struct {struct}, {member.name}) == {offset}, "{struct}.{member.name}");'
            for member, offset in zip(STRUCTS[struct], offsets, strict=True)
        ]
        lines.append(f'CHECK(sizeof(struct {struct}) == {size}, "sizeof {struct}");')
    return lines


CHECK = (
    '#include "ephost/ephost.h"\n#include "ephost/plugin.h"\n#include "ephost/config_keys.h"\n'
    "#ifdef __cplusplus\n#define CHECK static_assert\n#else\n#define CHECK _Static_assert\n#endif\n"
)


@pytest.mark.parametrize("language", COMPILERS)
def test_every_member_is_where_the_published_abi_has_it(language, tmp_path):
    done = compile_text(language, CHECK + "\n".join(layout_asserts()) + "\n", tmp_path)
    assert done.returncode == 0, done.stderr


def test_the_layout_check_sees_a_member_that_moved(tmp_path):
    lines = layout_asserts()
    wrong = next(i for i, line in enumerate(lines) if "offsetof(struct OrtEp, Compile)" in line)
    lines[wrong] = re.sub(r"== (\d+)", lambda match: f"== {int(match[1]) + 8}", lines[wrong])
    done = compile_text("c11", CHECK + "\n".join(lines) + "\n", tmp_path)
    assert done.returncode != 0
    assert "OrtEp.Compile" in done.stderr


@pytest.mark.parametrize("language", COMPILERS)
@pytest.mark.parametrize("header", [path.name for path in abi_tables.HEADERS])
def test_each_header_compiles_alone_without_warnings(header, language, tmp_path):
    text = f'#include "ephost/{header}"\ntypedef int at_least_one_declaration;\n'
    done = compile_text(language, text, tmp_path)
    assert done.returncode == 0, done.stderr


def test_tables_are_nothing_but_slots():
    """Slot n of a table lies at 8 * n, which the host's generated tables and interposers rely on."""
    for table in ("OrtApiBase", "OrtApi", "OrtEpApi", "OrtModelEditorApi", "OrtCompileApi", "OrtInteropApi"):
        assert all(member.is_slot for member in STRUCTS[table])
        offsets, size, _ = abi_tables.expected_layout(table, STRUCTS)
        assert offsets == [8 * index for index in range(len(offsets))]
        assert size == 8 * len(offsets)


# Bytes that a struct of each API version has: what a host may read of it. Once published, fixed.
SIZES = {
    "OrtEpFactory": {22: 48, 23: 112, 24: 144, 25: 160, 28: 168, 32: 176},
    "OrtEp": {22: 16, 23: 104, 24: 120, 25: 136, 26: 176, 27: 200, 30: 208, 31: 216},
    "OrtAllocator": {0: 32, 18: 40, 23: 56, 25: 64},
    "OrtNodeComputeInfo": {23: 32},
    "OrtKernelImpl": {0: 8, 24: 40},
    "OrtDataTransferImpl": {0: 4, 23: 32},
    "OrtSyncStreamImpl": {0: 4, 23: 48},
    "OrtSyncNotificationImpl": {0: 4, 23: 40},
}


@pytest.mark.parametrize("struct", SIZES)
def test_a_structs_size_at_each_version_stays_what_it_was(struct):
    members = abi_tables.declared_structs()[struct]
    sizes = {}
    for version in sorted({member.since for member in members}):
        known = {**STRUCTS, struct: [member for member in members if member.since <= version]}
        sizes[version] = abi_tables.expected_layout(struct, known)[1]
    assert sizes == SIZES[struct]


@pytest.mark.parametrize("language", COMPILERS)
def test_functions_declared_with_the_convention_fit_the_slots(language, tmp_path):
    text = CHECK + (
        "static const char* ORT_API_CALL name(const OrtEp* ep) { (void)ep; return NULL; }\n"
        "void fill(OrtEp* ep, CreateEpApiFactoriesFn* create);\n"
        "void fill(OrtEp* ep, CreateEpApiFactoriesFn* create) {\n"
        "  ep->GetName = name; *create = CreateEpFactories;\n"
        "}\n"
    )
    done = compile_text(language, text, tmp_path)
    assert done.returncode == 0, done.stderr


def test_function_pointers_name_the_calling_convention_except_where_published_without():
    """What runs on the host's own threads, and the two exported functions, have the compiler's convention."""
    bare = re.findall(r"\(\s*\*\s*(\w+)\s*\)\s*\(", abi_tables.all_text())
    assert sorted(bare) == [
        "CreateEpApiFactoriesFn",
        "OrtCustomCreateThreadFn",
        "OrtCustomJoinThreadFn",
        "OrtThreadPoolWorkAbandonFn",
        "OrtThreadPoolWorkEnqueueFn",
        "OrtThreadPoolWorkStartFn",
        "OrtThreadPoolWorkStopFn",
        "OrtThreadWorkerFn",
        "ReleaseEpApiFactoryFn",
        "RunAsyncCallbackFn",
        "fn",
    ]


def preprocessed(*flags: str, compiler: str = "cc") -> str:
    """What is left of the umbrella header after preprocessing."""
    if not shutil.which(compiler):
        pytest.skip(f"needs {compiler}")
    command = [compiler, "-E", "-P", *flags, f"-I{abi_tables.INCLUDE}", "-xc", "-"]
    source = '#include "ephost/ephost.h"\n'
    return subprocess.run(command, input=source, capture_output=True, text=True, check=True).stdout


def test_windows_gets_its_convention_and_wide_paths():
    """By the macro: 64-bit compilers drop the convention itself, as there is only one."""
    windows = "x86_64-w64-mingw32-gcc"
    assert "#define ORT_API_CALL __stdcall\n" in preprocessed("-dM", compiler=windows)
    assert "typedef wchar_t ORTCHAR_T;" in preprocessed(compiler=windows)
    assert "#define ORT_API_CALL\n" in preprocessed("-dM").replace(" \n", "\n")
    assert "typedef char ORTCHAR_T;" in preprocessed()


def test_cffi_reads_the_headers_and_finds_the_same_layout():
    cffi = pytest.importorskip("cffi")
    ffi = cffi.FFI()
    text = preprocessed("-DEPHOST_CDEF")
    assert "stdint" not in text
    ffi.cdef(text)
    for struct in STRUCTS:
        offsets, size, _ = abi_tables.expected_layout(struct, STRUCTS)
        assert ffi.sizeof(struct) == size
        assert [(name, field.offset) for name, field in ffi.typeof(struct).fields] == [
            (member.name, offset) for member, offset in zip(STRUCTS[struct], offsets, strict=True)
        ]
