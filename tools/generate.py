"""Generate the tables of the C ABI from the public headers, which are its only declaration.

Run by CMake. Reads ``include/ephost/*.h`` (after the C preprocessor), finds out which slots are implemented,
and writes into the output folder:

``slots.h``
    a prototype for each slot that C implements, so that the compiler holds the definition to the header;
``tables.c``
    the tables with every slot filled: the C function, the Python function, or a stub that answers
    ``ORT_NOT_IMPLEMENTED`` by name and counts its calls; and the list behind ``ephost.abi_coverage()``;
``_native.c``
    the extension module that cffi makes of the same declarations and ``host/native/python.h``.

A slot is implemented in C by a definition under ``SLOT(Table, Member)`` in ``host/native/*.c``, and in Python
by a function decorated ``@slot("Table.Member")`` in ``host/ephost/abi/*.py``. There is no list to keep in
step.
"""

from __future__ import annotations

import argparse
import ast
import re
import subprocess
from dataclasses import dataclass
from pathlib import Path

import cffi
from pycparser import c_ast, c_generator, c_parser

TABLES = {
    "OrtApiBase": "ephost_api_base",
    "OrtApi": "ephost_api",
    "OrtEpApi": "ephost_ep_api",
    "OrtModelEditorApi": "ephost_model_editor_api",
    "OrtCompileApi": "ephost_compile_api",
    "OrtInteropApi": "ephost_interop_api",
}
PRELUDE = """
typedef _Bool bool;
typedef unsigned long size_t;
typedef signed char int8_t;
typedef short int16_t;
typedef int int32_t;
typedef long int64_t;
typedef unsigned char uint8_t;
typedef unsigned short uint16_t;
typedef unsigned int uint32_t;
typedef unsigned long uint64_t;
"""


@dataclass(frozen=True)
class Slot:
    """One function pointer of a table."""

    table: str
    member: str
    declaration: c_ast.FuncDecl
    since: int
    implementation: str  # "native", "python" or "missing"

    @property
    def symbol(self) -> str:
        """The C function that implements the slot."""
        return f"ephost_{self.table}_{self.member}"


def preprocess(compiler: list[str], include: Path, header: str) -> str:
    """The header's text after the C preprocessor, without system headers."""
    msvc = Path(compiler[0]).stem.lower() in ("cl", "clang-cl")
    flags = ["/EP", "/TC"] if msvc else ["-E", "-P", "-x", "c"]
    source = include / "ephost" / header
    command = [*compiler, *flags, "-DEPHOST_CDEF", f"-I{include}", str(source)]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def since_versions(include: Path) -> dict[tuple[str, str], int]:
    """(struct, member) -> API version, from the ``EPHOST_SINCE`` marks in the headers' raw text."""
    found: dict[tuple[str, str], int] = {}
    for header in sorted((include / "ephost").glob("*.h")):
        text = re.sub(r"/\*.*?\*/", " ", header.read_text(encoding="utf-8"), flags=re.S)
        text = re.sub(r"//[^\n]*", " ", text)
        for struct in re.finditer(r"^struct (\w+) \{(.*?)^\};", text, flags=re.S | re.M):
            version = 1
            for part in re.split(r"(EPHOST_SINCE\(\d+\))", struct[2]):
                if mark := re.fullmatch(r"EPHOST_SINCE\((\d+)\)", part):
                    version = int(mark[1])
                    continue
                for member in re.finditer(r"\(\s*(?:ORT_API_CALL)?\s*\*\s*(\w+)\)\s*\(|(\w+)\s*;", part):
                    found.setdefault((struct[1], member[1] or member[2]), version)
    return found


def native_slots(native: Path) -> set[tuple[str, str]]:
    """The slots that host/native/*.c defines."""
    found = set()
    for source in sorted(native.glob("*.c")):
        text = re.sub(r"/\*.*?\*/", " ", source.read_text(encoding="utf-8"), flags=re.S)
        for match in re.finditer(r"SLOT\(\s*(\w+)\s*,\s*(\w+)\s*\)\s*\([^;{}]*\)\s*\{", text):
            if (match[1], match[2]) in found:
                raise SystemExit(f"{source}: {match[1]}.{match[2]} is defined twice")
            found.add((match[1], match[2]))
    return found


def python_slots(abi: Path) -> set[tuple[str, str]]:
    """The slots that functions in host/ephost/abi/*.py are registered for."""
    found = set()
    for source in sorted(abi.glob("*.py")):
        for node in ast.walk(ast.parse(source.read_text(encoding="utf-8"), str(source))):
            if not isinstance(node, ast.FunctionDef):
                continue
            for decorator in node.decorator_list:
                if isinstance(decorator, ast.Call) and getattr(decorator.func, "id", "") == "slot":
                    argument = decorator.args[0]
                    if not isinstance(argument, ast.Constant):
                        raise SystemExit(f"{source}:{node.lineno}: slot() takes a literal name")
                    table, member = str(argument.value).split(".")
                    found.add((table, member))
    return found


def collect_slots(text: str, include: Path, native: Path, abi: Path) -> list[Slot]:
    """Every slot of every table, in order."""
    tree = c_parser.CParser().parse(PRELUDE + text, "ephost.h")
    structs = {
        node.type.name: node.type
        for node in tree.ext
        if isinstance(node, c_ast.Decl) and isinstance(node.type, c_ast.Struct) and node.type.decls
    }
    since = since_versions(include)
    in_c, in_python = native_slots(native), python_slots(abi)
    if both := in_c & in_python:
        raise SystemExit(f"implemented both in C and in Python: {sorted(both)}")
    slots = []
    for table in TABLES:
        for declaration in structs[table].decls:
            pointer = declaration.type
            if not (isinstance(pointer, c_ast.PtrDecl) and isinstance(pointer.type, c_ast.FuncDecl)):
                raise SystemExit(f"{table}.{declaration.name} is not a function pointer")
            key = (table, declaration.name)
            where = "native" if key in in_c else "python" if key in in_python else "missing"
            slots.append(Slot(*key, pointer.type, since[key], where))
    known = {(slot.table, slot.member) for slot in slots}
    if unknown := (in_c | in_python) - known:
        raise SystemExit(f"implemented, but in no table of the headers: {sorted(unknown)}")
    return slots


def function_text(slot: Slot, name: str) -> str:
    """The slot's prototype under another name."""
    result = slot.declaration.type
    while not isinstance(result, c_ast.TypeDecl):
        result = result.type
    before, result.declname = result.declname, name
    text = c_generator.CGenerator().visit(slot.declaration)
    result.declname = before
    return str(text)


def returns_status(slot: Slot) -> bool:
    """Whether the slot's function returns an ``OrtStatus*``."""
    text = c_generator.CGenerator().visit(slot.declaration.type)
    return text.replace(" ", "").startswith("OrtStatus*")


def returns_void(slot: Slot) -> bool:
    """Whether the slot's function returns nothing."""
    inner = slot.declaration.type
    return (
        isinstance(inner, c_ast.TypeDecl)
        and isinstance(inner.type, c_ast.IdentifierType)
        and inner.type.names == ["void"]
    )


def calling_convention(text: str, name: str) -> str:
    """The declaration of the function ``name`` with the ABI's calling convention in it."""
    return re.sub(rf"\b{name}\(", f"ORT_API_CALL {name}(", text, count=1)


def write_slots_h(slots: list[Slot]) -> str:
    """The text of slots.h: a prototype for each slot that C implements."""
    lines = [
        "/* Generated from include/ephost by tools/generate.py. */",
        "#ifndef EPHOST_SLOTS_H_",
        "#define EPHOST_SLOTS_H_",
    ]
    lines += [
        calling_convention(function_text(s, s.symbol), s.symbol) + ";"
        for s in slots
        if s.implementation == "native"
    ]
    return "\n".join([*lines, "#endif", ""])


def write_tables_c(slots: list[Slot]) -> str:
    """The text of tables.c: every table, a stub for each missing slot, and what Python asks."""
    out = [
        "/* Generated from include/ephost by tools/generate.py. */",
        '#include "native.h"',
        '#include "python.h"',
        "",
        "#if defined(__GNUC__)",
        '#pragma GCC diagnostic ignored "-Wunused-parameter"',
        "#endif",
        "",
        f"#define SLOT_COUNT {len(slots)}",
        "static atomic_uint_least64_t stub_calls[SLOT_COUNT];",
        "",
    ]
    for index, slot in enumerate(slots):
        if slot.implementation == "python":
            out.append("extern " + calling_convention(function_text(slot, slot.symbol), slot.symbol) + ";")
        elif slot.implementation == "missing":
            name = f"stub_{slot.table}_{slot.member}"
            body = f"  atomic_fetch_add(&stub_calls[{index}], 1);\n"
            if returns_status(slot):
                body += f'  return status_not_implemented("{slot.table}", "{slot.member}");\n'
            else:
                body += (
                    f'  host_log(ORT_LOGGING_LEVEL_WARNING, "a plugin called {slot.table}::{slot.member}, '
                    'which ephost does not implement");\n'
                )
                if not returns_void(slot):
                    body += "  return 0;\n"
            out.append(
                "static " + calling_convention(function_text(slot, name), name) + " {\n" + body + "}\n"
            )
    for table, variable in TABLES.items():
        out.append(f"const {table} {variable} = {{")
        for slot in slots:
            if slot.table == table:
                target = (
                    f"stub_{slot.table}_{slot.member}" if slot.implementation == "missing" else slot.symbol
                )
                out.append(f"  .{slot.member} = {target},")
        out.append("};\n")
    out.append("static const EphostSlot slot_list[SLOT_COUNT] = {")
    for slot in slots:
        out.append(f'  {{"{slot.table}", "{slot.member}", "{slot.implementation}", {slot.since}}},')
    out.append("};\n")
    out.append(
        "const OrtApiBase* ephost_get_api_base(void) { return &ephost_api_base; }\n"
        "size_t ephost_slot_count(void) { return SLOT_COUNT; }\n"
        "const EphostSlot* ephost_slot(size_t index) {\n"
        "  return index < SLOT_COUNT ? &slot_list[index] : NULL;\n}\n"
        "uint64_t ephost_stub_calls(size_t index) {\n"
        "  return index < SLOT_COUNT ? atomic_load(&stub_calls[index]) : 0;\n}"
    )
    return "\n".join([*out, ""])


def write_since_c(since: dict[tuple[str, str], int]) -> str:
    """The table behind ephost_member_since: structs that plugins fill, with each member's first version."""
    rows = [
        f'  {{"{struct}", "{member}", {version}}},'
        for (struct, member), version in sorted(since.items())
        if struct not in TABLES
    ]
    return "\n".join(
        [
            "static const EphostMember member_list[] = {",
            *rows,
            "};",
            "size_t ephost_member_count(void) { return sizeof member_list / sizeof member_list[0]; }",
            "const EphostMember* ephost_member(size_t index) {",
            "  return index < ephost_member_count() ? &member_list[index] : NULL;",
            "}",
            "",
        ]
    )


def write_native_c(text: str, python_h: str, slots: list[Slot], path: Path) -> None:
    """Write cffi's module for the declarations of the headers and of host/native/python.h."""
    ffi = cffi.FFI()
    ffi.cdef(text)
    ffi.cdef(python_h)
    ffi.cdef("\n".join(f"extern const {table} {variable};" for table, variable in TABLES.items()))
    exported = [function_text(s, s.symbol) + ";" for s in slots if s.implementation == "python"]
    if exported:
        ffi.cdef('extern "Python+C" {\n' + "\n".join(exported) + "\n}")
    ffi.set_source(
        "ephost._native",
        '#include "native.h"\n#include "python.h"\n',
        py_limited_api=True,
    )
    ffi.emit_c_code(str(path))


def main() -> None:
    """Read the headers and sources that the arguments name, and write the generated files."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--include", type=Path, required=True)
    parser.add_argument("--native", type=Path, required=True)
    parser.add_argument("--abi", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("compiler", nargs="+")
    arguments = parser.parse_args()
    text = preprocess(arguments.compiler, arguments.include, "ephost.h")
    slots = collect_slots(text, arguments.include, arguments.native, arguments.abi)
    python_h = (arguments.native / "python.h").read_text(encoding="utf-8")
    python_h = "\n".join(line for line in python_h.splitlines() if not line.startswith("#"))
    arguments.out.mkdir(parents=True, exist_ok=True)
    (arguments.out / "slots.h").write_text(write_slots_h(slots), encoding="utf-8")
    since = since_versions(arguments.include)
    tables = write_tables_c(slots) + "\n" + write_since_c(since)
    (arguments.out / "tables.c").write_text(tables, encoding="utf-8")
    write_native_c(text, python_h, slots, arguments.out / "_native.c")
    counts = {kind: sum(s.implementation == kind for s in slots) for kind in ("native", "python", "missing")}
    print(f"ephost ABI: {len(slots)} slots, " + ", ".join(f"{n} {kind}" for kind, n in counts.items()))


if __name__ == "__main__":
    main()
