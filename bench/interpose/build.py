"""Build the interposing plugin library: ``python bench/interpose/build.py OUT.so``.

The library stands between a host and a real plugin EP and logs what each says to the other; interpose.c's
first comment says how to use it. This script generates a logging wrapper for every function of the ABI's
tables, and for every function that a plugin hands to the host, from include/ephost, and compiles them with
interpose.c.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from pycparser import c_ast, c_generator, c_parser

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools"))
import generate  # noqa: E402  (the headers' reader, shared with the extension module's build)

HOST_TABLES = ("OrtApi", "OrtEpApi", "OrtModelEditorApi", "OrtCompileApi", "OrtInteropApi")
PLUGIN_STRUCTS = ("OrtEpFactory", "OrtEp", "OrtNodeComputeInfo")
INTEGERS = frozenset(
    ["bool", "size_t", "int", "unsigned", "long", "char"]
    + [f"{sign}int{bits}_t" for sign in ("", "u") for bits in (8, 16, 32, 64)]
)
COUNT_WORDS = ("num", "count", "length", "len", "size", "max")


def text_of(node: c_ast.Node) -> str:
    """The declaration as C source."""
    return str(c_generator.CGenerator().visit(node))


def innermost(node: c_ast.Node) -> c_ast.TypeDecl:
    """The declared name's own node, below all pointers."""
    while not isinstance(node, c_ast.TypeDecl):
        node = node.type
    return node


class Types:
    """What the wrappers have to know about a parameter to print it."""

    def __init__(self, tree: c_ast.FileAST) -> None:
        self.enums = {
            node.name
            for node in tree.ext
            if isinstance(node, c_ast.Typedef) and isinstance(node.type.type, c_ast.Enum)
        }

    def scalar(self, node: c_ast.Node) -> str:
        """ "integer", "real" or "" for the type of a declaration that is no pointer."""
        if not isinstance(node, c_ast.TypeDecl):
            return ""
        if isinstance(node.type, c_ast.Enum):
            return "integer"
        names = node.type.names if isinstance(node.type, c_ast.IdentifierType) else [""]
        if names[-1] in ("float", "double"):
            return "real"
        return "integer" if INTEGERS.issuperset(names) or names[0] in self.enums else ""

    @staticmethod
    def is_char(node: c_ast.Node) -> bool:
        return (
            isinstance(node, c_ast.TypeDecl)
            and isinstance(node.type, c_ast.IdentifierType)
            and node.type.names in (["char"], ["ORTCHAR_T"])
        )

    def is_string(self, node: c_ast.Node) -> bool:
        """Whether it is a ``const char*``."""
        return isinstance(node, c_ast.PtrDecl) and self.is_char(node.type) and "const" in node.type.quals


def prototype(declaration: c_ast.FuncDecl, name: str) -> tuple[str, list[c_ast.Decl]]:
    """The function's head under ``name``, and its parameters, all of them named."""
    parameters = list(declaration.args.params) if declaration.args else []
    if len(parameters) == 1 and text_of(parameters[0]).strip() == "void":
        parameters = []
    for index, parameter in enumerate(parameters):
        if not isinstance(parameter, c_ast.Decl):
            raise SystemExit(f"{name}: parameter {index} has no name")
    result = innermost(declaration.type)
    result.declname = ""
    head = f"static {text_of(declaration.type)} ORT_API_CALL {name}"
    return f"{head}({', '.join(text_of(p) for p in parameters) or 'void'})", parameters


def is_void(declaration: c_ast.FuncDecl) -> bool:
    return text_of(declaration.type).strip() == "void"


def print_inputs(types: Types, parameters: list[c_ast.Decl]) -> list[str]:
    """Statements that add the arguments to ``line``."""
    out = []
    for parameter in parameters:
        name = parameter.name
        if kind := types.scalar(parameter.type):
            cast = "(double)" if kind == "real" else "(long long)"
            out.append(f'add_{kind}(&line, "{name}", {cast}{name});')
        elif types.is_string(parameter.type):
            out.append(f'add_string(&line, "{name}", {name});')
        elif isinstance(parameter.type, c_ast.PtrDecl) and isinstance(parameter.type.type, c_ast.FuncDecl):
            out.append(f'add_flag(&line, "{name}", {name} != NULL);')
        elif isinstance(parameter.type, c_ast.PtrDecl | c_ast.ArrayDecl) or "Fn" in text_of(parameter):
            out.append(f'add_pointer(&line, "{name}", (const void*)(uintptr_t){name});')
        else:
            out.append(f'add_flag(&line, "{name}", {name} != NULL);')  # a named function type
    return out


def print_outputs(types: Types, parameters: list[c_ast.Decl]) -> list[str]:
    """Statements that add what a successful call wrote through its arguments.

    A pointer that a count follows is an array, which may be empty and then point anywhere: it is left alone.
    """
    out = []
    for index, parameter in enumerate(parameters):
        pointer = parameter.type
        if not isinstance(pointer, c_ast.PtrDecl):
            continue
        following = parameters[index + 1].name.lower() if index + 1 < len(parameters) else ""
        if any(word in following for word in COUNT_WORDS) and not isinstance(
            parameters[index + 1].type, c_ast.PtrDecl
        ):
            continue
        name, target = parameter.name, pointer.type
        if isinstance(target, c_ast.PtrDecl):
            if "const" in target.quals or isinstance(target.type, c_ast.FuncDecl):
                continue
            if types.is_string(target):
                out.append(f'if ({name}) add_string(&line, "*{name}", *{name});')
            else:
                out.append(f'if ({name}) add_pointer(&line, "*{name}", (const void*)(uintptr_t)*{name});')
        elif (
            isinstance(target, c_ast.TypeDecl)
            and "const" not in target.quals
            and not types.is_char(target)
            and (kind := types.scalar(target))
        ):
            cast = "(double)" if kind == "real" else "(long long)"
            out.append(f'if ({name}) add_{kind}(&line, "*{name}", {cast}*{name});')
    return out


def print_result(types: Types, declaration: c_ast.FuncDecl, outputs: list[str]) -> list[str]:
    """Statements that add ``result`` and, unless it is an error, the outputs."""
    written = text_of(declaration.type).replace(" ", "")
    if written.startswith("OrtStatus*") or written.startswith("OrtStatusPtr"):
        return ["if (add_status(&line, result)) {", *(f"  {line}" for line in outputs), "}"]
    if is_void(declaration):
        return outputs
    if types.is_string(declaration.type):
        return ['add_string(&line, "result", result);', *outputs]
    if kind := types.scalar(declaration.type):
        return [
            f'add_{kind}(&line, "result", ({"double" if kind == "real" else "long long"})result);',
            *outputs,
        ]
    return ['add_pointer(&line, "result", (const void*)(uintptr_t)result);', *outputs]


def wrapper(types: Types, struct: str, member: str, declaration: c_ast.FuncDecl, index: int) -> str:
    """The C function that logs and passes on a call of ``struct.member``."""
    head, parameters = prototype(declaration, f"wrap_{struct}_{member}")
    arguments = ", ".join(parameter.name for parameter in parameters)
    call = f"real->{member}({arguments})"
    result_type = head.removeprefix("static ").split(" ORT_API_CALL ")[0]
    key = f"{struct}_{member}"
    if struct in HOST_TABLES:
        real = f"  const {struct}* real = real_{struct};"
    else:
        real = f"  const {struct}* real = original_of({parameters[0].name});"
    body = [
        head + " {",
        real,
        f'  Line line = {{.function = "{struct}.{member}", .wanted = wanted[{index}]}};',
        f"#ifdef BEFORE_{key}",
        f"  BEFORE_{key};",
        "#endif",
        "  if (line.wanted) {",
        *(f"    {line}" for line in print_inputs(types, parameters)),
        "    entering(&line);" if struct in PLUGIN_STRUCTS else "",
        "  }",
        f"  {call};" if is_void(declaration) else f"  {result_type} result = {call};",
        "  if (line.wanted) {",
        *(f"    {line}" for line in print_result(types, declaration, print_outputs(types, parameters))),
        "    finish(&line);",
        "  }",
        f"#ifdef AFTER_{key}",
        f"  AFTER_{key};",
        "#endif",
        "" if is_void(declaration) else "  return result;",
        "}",
        "",
    ]
    return "\n".join(line for line in body if line != "") + "\n"


def generate_wrappers(include: Path) -> str:
    """wrappers.h: the functions, the names for EPHOST_INTERPOSE_ONLY, and what fills a table with them."""
    compiler = [os.environ.get("CC", "cc")]
    tree = c_parser.CParser().parse(generate.PRELUDE + generate.preprocess(compiler, include, "ephost.h"))
    since = generate.since_versions(include)
    types = Types(tree)
    structs = {
        node.type.name: node.type.decls
        for node in tree.ext
        if isinstance(node, c_ast.Decl) and isinstance(node.type, c_ast.Struct) and node.type.decls
    }
    names: list[str] = []
    functions: list[str] = []
    fillers: list[str] = []
    for struct in (*HOST_TABLES, *PLUGIN_STRUCTS):
        fill = []
        for member in structs[struct]:
            pointer = member.type
            if not (isinstance(pointer, c_ast.PtrDecl) and isinstance(pointer.type, c_ast.FuncDecl)):
                continue
            if member.name.startswith("Reserved"):
                continue
            functions.append(wrapper(types, struct, member.name, pointer.type, len(names)))
            names.append(f"{struct}.{member.name}")
            known = "" if struct in HOST_TABLES else f"version >= {since[struct, member.name]} && "
            fill.append(
                f"  if ({known}table->{member.name}) table->{member.name} = wrap_{struct}_{member.name};"
            )
        version = "" if struct in HOST_TABLES else ", uint32_t version"
        fillers.append(
            f"static void fill_{struct}({struct}* table{version}) {{\n" + "\n".join(fill) + "\n}\n"
        )
    return "\n".join(
        [
            f"#define FUNCTION_COUNT {len(names)}",
            "static const char* const function_names[FUNCTION_COUNT] = {",
            *(f'  "{name}",' for name in names),
            "};",
            "static bool wanted[FUNCTION_COUNT];",
            "",
            *functions,
            *fillers,
        ]
    )


def main() -> None:
    """Generate, then compile to the path given."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("output", type=Path, help="the shared library to write")
    output = parser.parse_args().output
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "wrappers.h").write_text(generate_wrappers(ROOT / "include"), encoding="utf-8")
        compiler = [
            os.environ.get("CC", "cc"),
            "-std=c11",
            "-O1",
            "-g",
            "-Wall",
            "-Wextra",
            "-Wconversion",
            "-Werror",
        ]
        places = [f"-I{ROOT / 'include'}", f"-I{folder}", str(Path(__file__).with_name("interpose.c"))]
        link = ["-shared", "-fPIC", "-fvisibility=hidden", "-pthread", "-ldl", "-o", str(output)]
        subprocess.run([*compiler, *places, *link], check=True)


if __name__ == "__main__":
    main()
