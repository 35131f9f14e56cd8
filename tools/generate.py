"""Generate the tables of the C ABI from the public headers, which are its only declaration.

Run by CMake. Reads ``include/ephost/*.h`` (after the C preprocessor), finds out which slots are implemented,
and writes into the output folder:

``slots.h``
    a prototype for each slot that is implemented, so that the compiler holds the definition to the header,
    and the API version of each member that is newer than its struct (``EPHOST_SINCE_Struct_Member``);
``tables.c``
    the tables with every slot filled: its function, or a stub that answers ``ORT_NOT_IMPLEMENTED`` by name
    and counts its calls; stubs behind the end of each table, for versions that nobody knows yet; and the list
    behind ``ephost.abi_coverage()``; and the keys of configuration entries;
``guards.h``, ``guards.inc``
    for each function that a plugin hands over one that calls it and catches what it throws
    (``host/native/guard.cc``), under the name that ``GUARDED(Struct, Member)`` gives. Of a function that is
    NULL it says so, but for those that only release something;
``_native.c``
    the extension module that cffi makes of the same declarations and ``host/native/python.h``.

A slot is implemented by a definition under ``SLOT(Table, Member)`` in ``host/native/*.c``. There is no list
to keep in step. A call of a plugin's function past its guard is an error.
"""

from __future__ import annotations

import argparse
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
SLOTS_BEYOND = 128  # EPHOST_SLOTS_BEYOND of host/native/abi.h
PRELUDE = """
typedef _Bool bool;
typedef unsigned long size_t;
typedef unsigned short wchar_t;
typedef signed char int8_t;
typedef short int16_t;
typedef int int32_t;
typedef long int64_t;
typedef unsigned char uint8_t;
typedef unsigned short uint16_t;
typedef unsigned int uint32_t;
typedef unsigned long uint64_t;
"""
# Functions that a plugin hands over outside of any struct: their type, and what messages call them.
ENTRIES = {
    "CreateEpApiFactoriesFn": "CreateEpFactories",
    "ReleaseEpApiFactoryFn": "ReleaseEpFactory",
    "RegisterCustomOpsFn": "RegisterCustomOps",
    "OrtKernelCreateFunc": "the kernel's OrtKernelCreateFunc",
}


@dataclass(frozen=True)
class Slot:
    """One function pointer of a table."""

    table: str
    member: str
    declaration: c_ast.FuncDecl
    since: int
    is_implemented: bool

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


def structs_of(tree: c_ast.FileAST) -> dict[str, c_ast.Struct]:
    """The structs that are defined, by name."""
    return {
        node.type.name: node.type
        for node in tree.ext
        if isinstance(node, c_ast.Decl) and isinstance(node.type, c_ast.Struct) and node.type.decls
    }


@dataclass(frozen=True)
class Guard:
    """One function that a plugin hands over."""

    owner: str  # its struct, or its own type
    member: str  # "" when it is in no struct
    declaration: c_ast.FuncDecl

    @property
    def symbol(self) -> str:
        """The C function that calls it."""
        return f"ephost_guard_{self.owner}_{self.member}" if self.member else f"ephost_guard_{self.owner}"

    @property
    def result(self) -> str:
        """The type that it returns."""
        return str(c_generator.CGenerator().visit(self.declaration.type))

    @property
    def only_releases(self) -> bool:
        """Whether there is nothing that its caller could do about an error."""
        return self.result == "void" and re.match("Release|Free|KernelDestroy", self.member) is not None

    def _parameters(self) -> list[tuple[str, str]]:
        """Type and name of each parameter."""
        given = self.declaration.args.params if self.declaration.args else []
        found = []
        for at, parameter in enumerate(given):
            name = getattr(parameter, "name", None) or f"argument{at}"
            innermost(parameter.type).declname = None
            found.append((str(c_generator.CGenerator().visit(parameter.type)), name))
        return found

    @property
    def said(self) -> str:
        """What messages call it."""
        return f"{self.owner}::{self.member}" if self.member else ENTRIES[self.owner]

    def write(self, number: int) -> tuple[str, str]:
        """Its prototype, and its definition: the struct or the function comes first, then the arguments.

        ``number`` is what a worker process notes of its calls.
        """
        parameters = self._parameters()
        arguments = ", ".join(name for _, name in parameters)
        if not self.member:
            callee, said = "function", self.said
            parameters.insert(0, (self.owner, callee))
        else:
            said = self.said
            if not parameters or not re.fullmatch(rf"(const )?(struct )?{self.owner} \*", parameters[0][0]):
                parameters.insert(0, (f"const {self.owner} *", "owner"))
            callee = f"{parameters[0][1]}->{self.member}"
        listed = ", ".join(f"{kind} {name}" for kind, name in parameters)
        prototype = f"{self.result} {self.symbol}({listed})"
        call = f"{callee}({arguments});"
        if self.result.replace(" ", "") == "OrtStatus*":
            missing = f'return missing_status("{said}");'
            caught = f'return exception_status("{said}");'
            last = ""
        else:
            last = "return;" if self.result == "void" else f"return ({self.result})0;"
            missing = last if self.only_releases else f'{{ missing_keep("{said}"); {last} }}'
            caught = f'exception_{"log" if self.only_releases else "keep"}("{said}");'
        body = f"  if ({callee} == NULL) {missing}\n" if self.member else ""
        body += f"  note({number}u);\n"
        body += f"  GUARD_TRY {{ {'' if self.result == 'void' else 'return '}{call} }}\n"
        body += f"  GUARD_CATCH {{ {caught} }}\n  {last}\n"
        return prototype + ";", f"{prototype} {{\n{body}}}\n"


def collect_guards(text: str) -> list[Guard]:
    """Every function of every struct that plugins fill, and those of ENTRIES."""
    tree = c_parser.CParser().parse(PRELUDE + text, "ephost.h")
    guards = [
        Guard(struct, member.name, member.type.type)
        for struct, definition in structs_of(tree).items()
        if struct not in TABLES
        for member in definition.decls
        if isinstance(member.type, c_ast.PtrDecl) and isinstance(member.type.type, c_ast.FuncDecl)
    ]
    types = {node.name: node.type for node in tree.ext if isinstance(node, c_ast.Typedef)}
    return guards + [Guard(name, "", types[name].type) for name in ENTRIES]


def check_calls(native: Path, guards: list[Guard]) -> None:
    """Look for calls of plugins' functions past their guards in host/native/*.c."""
    members = "|".join(sorted({guard.member for guard in guards if guard.member}))
    for source in sorted(native.glob("*.c")):
        for number, line in enumerate(source.read_text(encoding="utf-8").splitlines(), 1):
            if found := re.search(rf"(?:->|\.)({members})\(", line):
                raise SystemExit(f"{source}:{number}: {found[1]} is called past its guard: use GUARDED()")


def write_guards(guards: list[Guard]) -> tuple[str, str, str]:
    """The texts of guards.h and guards.inc, and the prototypes for cffi."""
    written = [guard.write(number) for number, guard in enumerate(guards, 1)]
    names = [
        "",
        *(guard.said for guard in guards),
        "the library's static constructors",
        "the library's static destructors",
    ]
    table = ",\n".join(f'    "{name}"' for name in names)
    calls = f"""enum {{ CALL_OPEN = {len(guards) + 1}, CALL_CLOSE, CALL_COUNT }};
static const char* const call_names[CALL_COUNT] = {{
{table}}};

const char* ephost_call_name(uint32_t number);
const char* ephost_call_name(uint32_t number) {{ return number < CALL_COUNT ? call_names[number] : ""; }}
"""
    prototypes = "\n".join(prototype for prototype, _ in written)
    header = f"""/* Generated from include/ephost by tools/generate.py. */
#ifndef EPHOST_GUARDS_H_
#define EPHOST_GUARDS_H_
#include "ephost/ephost.h"
#define GUARDED(structure, member) ephost_guard_##structure##_##member
#ifdef __cplusplus
extern "C" {{
#endif
{prototypes}
#ifdef __cplusplus
}}
#endif
#endif
"""
    return header, calls + "\n".join(definition for _, definition in written), prototypes


def collect_slots(text: str, include: Path, native: Path) -> list[Slot]:
    """Every slot of every table, in order."""
    structs = structs_of(c_parser.CParser().parse(PRELUDE + text, "ephost.h"))
    since = since_versions(include)
    implemented = native_slots(native)
    slots = []
    for table in TABLES:
        for declaration in structs[table].decls:
            pointer = declaration.type
            if not (isinstance(pointer, c_ast.PtrDecl) and isinstance(pointer.type, c_ast.FuncDecl)):
                raise SystemExit(f"{table}.{declaration.name} is not a function pointer")
            key = (table, declaration.name)
            slots.append(Slot(*key, pointer.type, since[key], key in implemented))
    known = {(slot.table, slot.member) for slot in slots}
    if unknown := implemented - known:
        raise SystemExit(f"implemented, but in no table of the headers: {sorted(unknown)}")
    return slots


def innermost(declarator: c_ast.Node) -> c_ast.TypeDecl:
    """What the pointers, arrays and functions of a declarator end in: it holds the declared name."""
    while not isinstance(declarator, c_ast.TypeDecl):
        declarator = declarator.type
    return declarator


def function_text(slot: Slot, name: str) -> str:
    """The slot's prototype under another name."""
    result = innermost(slot.declaration.type)
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


def write_slots_h(slots: list[Slot], since: dict[tuple[str, str], int]) -> str:
    """The text of slots.h: a prototype for each implemented slot, and the versions of members of structs."""
    lines = [
        "/* Generated from include/ephost by tools/generate.py. */",
        "#ifndef EPHOST_SLOTS_H_",
        "#define EPHOST_SLOTS_H_",
    ]
    lines += [
        calling_convention(function_text(s, s.symbol), s.symbol) + ";" for s in slots if s.is_implemented
    ]
    lines += [
        f"#define EPHOST_SINCE_{struct}_{member} {version}"
        for (struct, member), version in sorted(since.items())
        if struct not in TABLES
    ]
    return "\n".join([*lines, "#endif", ""])


def write_tables_c(slots: list[Slot]) -> str:
    """The text of tables.c: every table, a stub for each missing slot, and what Python asks."""
    out = [
        "/* Generated from include/ephost by tools/generate.py. */",
        "#include <string.h>",
        "",
        '#include "logger.h"',
        '#include "python.h"',
        '#include "status.h"',
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
        if not slot.is_implemented:
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
        members = [slot for slot in slots if slot.table == table]
        beyond = [f"beyond_{table}_{len(members) + at}" for at in range(SLOTS_BEYOND)]
        for at, name in enumerate(beyond, len(members)):
            out.append(
                f'static OrtStatus* ORT_API_CALL {name}(void) {{ return status_beyond("{table}", {at}); }}'
            )
        out.append(f"const struct {variable}_and_beyond {variable}_table = {{")
        out.append("  .known = {")
        for slot in members:
            target = slot.symbol if slot.is_implemented else f"stub_{slot.table}_{slot.member}"
            out.append(f"    .{slot.member} = {target},")
        out.append("  },")
        out.append(f"  .beyond = {{{', '.join(beyond)}}},")
        out.append("};\n")
    out.append("static const EphostSlot slot_list[SLOT_COUNT] = {")
    for slot in slots:
        implemented = str(slot.is_implemented).lower()
        out.append(f'  {{"{slot.table}", "{slot.member}", {implemented}, {slot.since}}},')
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


def config_keys(include: Path) -> list[tuple[str, str]]:
    """(constant, key) of every key that a header gives a name."""
    text = (include / "ephost" / "config_keys.h").read_text(encoding="utf-8")
    return re.findall(r'^#define (k\w+)[ \\\n]+"([^"]*)"$', text, re.M)


def write_config_keys_c(keys: list[tuple[str, str]]) -> str:
    """The table behind ephost_config_key."""
    rows = [f'  {{"{constant}", "{key}"}},' for constant, key in keys]
    return "\n".join(
        [
            "static const EphostConfigKey config_key_list[] = {",
            *rows,
            "};",
            "size_t ephost_config_key_count(void) {",
            "  return sizeof config_key_list / sizeof config_key_list[0];",
            "}",
            "const EphostConfigKey* ephost_config_key(size_t index) {",
            "  return index < ephost_config_key_count() ? &config_key_list[index] : NULL;",
            "}",
            "",
        ]
    )


def write_since_c(since: dict[tuple[str, str], int]) -> str:
    """The table behind ephost_member_since: structs that plugins fill, with each member's first version."""
    rows = [
        f'  {{"{struct}", "{member}", {version}}},'
        for (struct, member), version in sorted(since.items())
        if struct not in TABLES
    ]
    return "\n".join(
        [
            "static const struct { const char *structure, *member; uint32_t since; } member_list[] = {",
            *rows,
            "};",
            "uint32_t ephost_member_since(const char* structure, const char* member) {",
            "  for (size_t i = 0; i < sizeof member_list / sizeof member_list[0]; ++i) {",
            "    if (strcmp(member_list[i].member, member) == 0 &&",
            "        strcmp(member_list[i].structure, structure) == 0) {",
            "      return member_list[i].since;",
            "    }",
            "  }",
            "  return 0;",
            "}",
            "",
        ]
    )


def write_native_c(text: str, python_h: str, guards: str, path: Path) -> None:
    """Write cffi's module for the declarations of the headers, of host/native/python.h and of the guards."""
    ffi = cffi.FFI()
    ffi.cdef(text)
    ffi.cdef(python_h)
    ffi.cdef(guards)
    ffi.cdef("\n".join(f"extern const {table} {variable};" for table, variable in TABLES.items()))
    ffi.set_source(
        "ephost._native",
        '#include "abi.h"\n#include "python.h"\n',
        py_limited_api=True,
    )
    ffi.emit_c_code(str(path))


def main() -> None:
    """Read the headers and sources that the arguments name, and write the generated files."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--include", type=Path, required=True)
    parser.add_argument("--native", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("compiler", nargs="+")
    arguments = parser.parse_args()
    text = preprocess(arguments.compiler, arguments.include, "ephost.h")
    slots = collect_slots(text, arguments.include, arguments.native)
    python_h = (arguments.native / "python.h").read_text(encoding="utf-8")
    python_h = "\n".join(line for line in python_h.splitlines() if not line.startswith("#"))
    arguments.out.mkdir(parents=True, exist_ok=True)
    since = since_versions(arguments.include)
    (arguments.out / "slots.h").write_text(write_slots_h(slots, since), encoding="utf-8")
    keys = write_config_keys_c(config_keys(arguments.include))
    tables = "\n".join([write_tables_c(slots), write_since_c(since), keys])
    (arguments.out / "tables.c").write_text(tables, encoding="utf-8")
    guards = collect_guards(text)
    check_calls(arguments.native, guards)
    guards_h, guards_inc, prototypes = write_guards(guards)
    (arguments.out / "guards.h").write_text(guards_h, encoding="utf-8")
    (arguments.out / "guards.inc").write_text(guards_inc, encoding="utf-8")
    write_native_c(text, python_h, prototypes, arguments.out / "_native.c")
    print(f"ephost ABI: {len(slots)} slots, {sum(s.is_implemented for s in slots)} of them implemented")


if __name__ == "__main__":
    main()
