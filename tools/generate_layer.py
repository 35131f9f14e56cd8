"""Generate the functions of the layer (host/layer), which sees every call between a host and a plugin.

Run by CMake. Reads ``include/ephost/*.h`` as ``generate.py`` does, and writes ``wrappers.c``: for each slot
of the host's tables and each function of each struct that a plugin hands over, a function that records the
call and passes it on; what puts these functions into tables and structs; and the signatures by which a trace
is read.

What is done at a call beside recording it stands in ``BEFORE`` and ``AFTER``. A new function in the headers
is wrapped without a line here; a struct of functions that nothing hooks is an error.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Sequence
from pathlib import Path

import generate
import layer_checks
from pycparser import c_ast, c_generator, c_parser

TABLES = tuple(table for table in generate.TABLES if table != "OrtApiBase")
BY_HAND = [  # FUNCTION_... of host/layer/layer.h
    ("CreateEpFactories", "s:registered_name,i:max_factories", "i:num_factories"),
    ("ReleaseEpFactory", "p:factory", ""),
    ("OrtApiBase.GetApi", "i:version", "p:table"),
    ("OrtApiBase.GetVersionString", "", "s:version"),
    ("OrtKernelCreateFunc", "p:state,p:info", "p:kernel"),
]
# They take nothing that tells whose they are.
NAMELESS = frozenset(
    {
        f"OrtCustomOp.{name}"
        for name in ("GetMayInplace", "ReleaseMayInplace", "GetAliasMap", "ReleaseAliasMap")
    }
)
BEFORE = {
    "OrtEpFactory.GetSupportedDevices": "show_devices(devices, num_devices)",
    "OrtEpFactory.CreateEp": "show_session_options(session_options)",
    "OrtEpFactory.ReleaseEp": "unhook(ep)",
    "OrtEpFactory.ReleaseAllocator": "unhook(allocator)",
    "OrtEp.GetCapability": 'show_graph("GetCapability", graph)',
    "OrtEp.Compile": "show_compiled(graphs, fused_nodes, count)",
    "OrtEp.ReleaseNodeComputeInfos": (
        "for (size_t at = 0; at < num_node_compute_infos; ++at) unhook(node_compute_infos[at])"
    ),
    "OrtEpApi.KernelRegistry_AddKernel": (
        "replace_create_func(&kernel_create_func, &kernel_create_func_state)"
    ),
    "OrtEpApi.CreateLoopKernel": "if (helper != NULL) hook_OrtLoopKernelHelper(helper, NULL)",
    "OrtEpApi.CreateScanKernel": "if (helper != NULL) hook_OrtScanKernelHelper(helper, NULL)",
    "OrtApi.CustomOpDomain_Add": (
        "if (op != NULL) hook_OrtCustomOp((OrtCustomOp*)(uintptr_t)op, custom_op_domain)"
    ),
    "OrtCustomOp.KernelDestroy": "unhook(op_kernel)",
    "OrtExternalResourceImporterImpl.ReleaseMemory": "unhook(handle)",
    "OrtExternalResourceImporterImpl.ReleaseSemaphore": "unhook(handle)",
}
AFTER = {
    "OrtApi.GetEpApi": "result = copy_of_OrtEpApi(result)",
    "OrtApi.GetModelEditorApi": "result = copy_of_OrtModelEditorApi(result)",
    "OrtApi.GetCompileApi": "result = copy_of_OrtCompileApi(result)",
    "OrtApi.GetInteropApi": "result = copy_of_OrtInteropApi(result)",
    "OrtEpFactory.GetSupportedDevices": "if (result == NULL) show_ep_devices(ep_devices, *num_ep_devices)",
    "OrtEp.Compile": (
        "for (size_t at = 0; result == NULL && at < count; ++at) {\n"
        "    if (node_compute_infos[at] != NULL) hook_OrtNodeComputeInfo(node_compute_infos[at], this_ptr);\n"
        "  }"
    ),
    "OrtEpApi.CreateIfKernel": "if (result == NULL) remember_hosts_kernel(*kernel_out)",
    "OrtEpApi.CreateLoopKernel": "if (result == NULL) remember_hosts_kernel(*kernel_out)",
    "OrtEpApi.CreateScanKernel": "if (result == NULL) remember_hosts_kernel(*kernel_out)",
    "OrtCustomOp.CreateKernel": "remember_kernel(result, op)",
    "OrtCustomOp.CreateKernelV2": "if (result == NULL) remember_kernel(*kernel, op)",
}
# What a function hands out: the function, its parameter, the struct.
MADE = [
    ("OrtEpFactory.CreateEp", "ep", "OrtEp"),
    ("OrtEpFactory.CreateAllocator", "allocator", "OrtAllocator"),
    ("OrtEpFactory.CreateDataTransfer", "data_transfer", "OrtDataTransferImpl"),
    ("OrtEpFactory.CreateSyncStreamForDevice", "stream", "OrtSyncStreamImpl"),
    (
        "OrtEpFactory.CreateExternalResourceImporterForDevice",
        "out_importer",
        "OrtExternalResourceImporterImpl",
    ),
    ("OrtEp.CreateAllocator", "allocator", "OrtAllocator"),
    ("OrtEp.CreateSyncStreamForDevice", "stream", "OrtSyncStreamImpl"),
    ("OrtEp.CreateProfiler", "profiler", "OrtEpProfilerImpl"),
    ("OrtExternalResourceImporterImpl.ImportMemory", "out_handle", "OrtExternalMemoryHandle"),
    ("OrtExternalResourceImporterImpl.ImportSemaphore", "out_handle", "OrtExternalSemaphoreHandle"),
    ("OrtSyncStreamImpl.CreateNotification", "notification", "OrtSyncNotificationImpl"),
]
NO_PLUGINS = frozenset(["OrtApiBase", "OrtThreadPoolCallbacksConfig"])  # the host's, and an application's
HOOKED_IN_C = frozenset({"OrtEpFactory", "OrtKernelImpl"})  # by entry.c
INTEGERS = frozenset(
    ["bool", "size_t", "int", "unsigned", "long", "char"]
    + [f"{sign}int{bits}_t" for sign in ("", "u") for bits in (8, 16, 32, 64)]
)
COUNT_WORDS = ("num", "count", "length", "len", "size", "max")
_MEMBER_OF = {"i": "integer", "d": "real", "p": "pointer", "f": "pointer", "s": "string"}


def text_of(node: c_ast.Node) -> str:
    """The declaration as C."""
    return str(c_generator.CGenerator().visit(node))


def is_pointer(node: c_ast.Node) -> bool:
    """Whether it is a pointer or an array, which a parameter of that type is too."""
    return isinstance(node, c_ast.PtrDecl | c_ast.ArrayDecl)


def is_count(parameter: c_ast.Decl) -> bool:
    """Whether it says how many entries the array in front of it has."""
    return not is_pointer(parameter.type) and any(word in parameter.name.lower() for word in COUNT_WORDS)


class Types:
    """What has to be known of types to record a value."""

    def __init__(self, tree: c_ast.FileAST) -> None:
        self.enums: set[str] = set()
        self.enumerators: dict[str, list[str]] = {}
        self.functions: set[str] = set()
        for node in tree.ext:
            if not isinstance(node, c_ast.Typedef):
                continue
            named = node.type.type if isinstance(node.type, c_ast.PtrDecl) else node.type
            if isinstance(named, c_ast.FuncDecl):
                self.functions.add(node.name)
            elif isinstance(node.type.type, c_ast.Enum):
                self.enums.add(node.name)
                listed = node.type.type.values
                self.enumerators[node.name] = [each.name for each in listed.enumerators] if listed else []

    def kind(self, node: c_ast.Node) -> str:
        """The letter of a value (see Function in host/layer/layer.h); "" for one that is not recorded."""
        if is_pointer(node):
            if isinstance(node.type, c_ast.FuncDecl):
                return "f"
            return "s" if self._is_char(node.type) and "const" in node.type.quals else "p"
        if not isinstance(node, c_ast.TypeDecl):
            return ""
        if isinstance(node.type, c_ast.Enum):
            return "i"
        names = node.type.names if isinstance(node.type, c_ast.IdentifierType) else [""]
        if names[-1] in ("float", "double"):
            return "d"
        if names[-1] in self.functions:
            return "f"
        return "i" if INTEGERS.issuperset(names) or names[0] in self.enums else ""

    def enum_of(self, node: c_ast.Node) -> str:
        """ "=" and the name of the enumeration that a value is of; "" for others."""
        kind = node.type if isinstance(node, c_ast.TypeDecl) else None
        name = kind.names[-1] if isinstance(kind, c_ast.IdentifierType) else getattr(kind, "name", None)
        return f"={name}" if name in self.enums else ""

    @staticmethod
    def _is_char(node: c_ast.Node) -> bool:
        return (
            isinstance(node, c_ast.TypeDecl)
            and isinstance(node.type, c_ast.IdentifierType)
            and node.type.names in (["char"], ["ORTCHAR_T"])
        )

    def outputs(self, parameters: Sequence[c_ast.Decl]) -> list[tuple[str, str, str]]:
        """Letter, name and C expression of what a call writes through its arguments.

        A pointer that a count follows is an array, which may be empty and then point anywhere: it is left
        alone.
        """
        found = []
        for at, parameter in enumerate(parameters):
            if not isinstance(parameter.type, c_ast.PtrDecl):
                continue
            after = parameters[at + 1] if at + 1 < len(parameters) else None
            if after is not None and is_count(after):
                continue
            target = parameter.type.type
            if isinstance(target, c_ast.FuncDecl) or "const" in getattr(target, "quals", []):
                continue
            if isinstance(target, c_ast.PtrDecl):
                if self._is_char(target.type) and "const" not in target.type.quals:
                    continue  # a buffer
            elif self._is_char(target):
                continue
            if kind := self.kind(target):
                name = parameter.name
                found.append((kind, f"*{name}", f"{name} != NULL ? {value(kind, '*' + name)} : 0"))
        return found


def value(kind: str, expression: str) -> str:
    """The C expression of a member of Field."""
    if kind == "i":
        return f"(int64_t){expression}"
    if kind == "d":
        return f"(double){expression}"
    return f"(const void*)(uintptr_t){expression}" if kind in "pf" else expression


def letters(signature: str) -> str:
    """The letters of "i:name,p:name"."""
    return "".join(re.findall(r"(\w):", signature))


def fields(kind_and_value: Sequence[tuple[str, str]], name: str) -> str:
    """The array of fields."""
    rows = ", ".join(f"{{.{_MEMBER_OF[kind]} = {expression}}}" for kind, expression in kind_and_value)
    return f"Field {name}[] = {{{rows}}};"


class Wrapper:
    """The function for one member of a struct."""

    def __init__(self, types: Types, struct: str, member: str, declaration: c_ast.FuncDecl) -> None:
        self.struct, self.member = struct, member
        self.key = f"{struct}.{member}"
        self.symbol = f"wrap_{struct}_{member}"
        parameters = list(declaration.args.params) if declaration.args else []
        if len(parameters) == 1 and text_of(parameters[0]).strip() == "void":
            parameters = []
        for at, parameter in enumerate(parameters):
            if not isinstance(parameter, c_ast.Decl):  # it has no name
                name = f"argument{at}"
                generate.innermost(parameter.type).declname = name
                parameters[at] = c_ast.Decl(name, [], [], [], [], parameter.type, None, None)
        self.parameters = parameters
        inner = generate.innermost(declaration.type)
        inner.declname = None
        self.result_type = (
            inner.type.names[-1] if isinstance(inner.type, c_ast.IdentifierType) else "",
            "const" in inner.quals and isinstance(declaration.type, c_ast.PtrDecl),
        )
        self.result = text_of(declaration.type).strip()
        self.is_void = self.result == "void"
        self.gives_status = self.result.replace(" ", "") in ("OrtStatus*", "OrtStatusPtr")
        self.inputs = [(kind, p.name) for p in parameters if (kind := types.kind(p.type))]
        # What a trace is read with: the names of enumerations behind those of what is of them.
        self.enums = {p.name: types.enum_of(p.type) for p in parameters}
        self.enums |= {f"*{p.name}": types.enum_of(p.type.type) for p in parameters if is_pointer(p.type)}
        self.enums["result"] = types.enum_of(declaration.type)
        self.outputs = types.outputs(parameters)
        if not self.is_void and not self.gives_status and (kind := types.kind(declaration.type)):
            self.outputs.append((kind, "result", value(kind, "result")))

    @property
    def signature(self) -> tuple[str, str, str]:
        """Name, inputs and outputs, as the trace has them."""
        return (
            self.key,
            ",".join(f"{kind}:{name}{self.enums.get(name, '')}" for kind, name in self.inputs),
            ",".join(f"{kind}:{name}{self.enums.get(name, '')}" for kind, name, _ in self.outputs),
        )

    def _real(self) -> str:
        if self.struct in TABLES:
            return f"real_{self.struct}->{self.member}"
        return f'((const {self.struct}*)original_of({self.parameters[0].name}, "{self.key}"))->{self.member}'

    def _ending(self) -> list[str]:
        """What completes the call's record."""
        status = "result" if self.gives_status else "NULL"
        if not self.outputs:
            return [f"call_end(&recorded, {status}, NULL);"]
        guard = "recorded.at != 0 && result == NULL" if self.gives_status else "recorded.at != 0"
        given = fields([(kind, expression) for kind, _, expression in self.outputs], "call_outputs")
        return [
            f"if ({guard}) {{\n    {given}\n    call_end(&recorded, {status}, call_outputs);\n  }} else {{",
            f"  call_end(&recorded, {status}, NULL);\n  }}",
        ]

    def _hooks(self) -> list[str]:
        """What is done with the structs that the call gave."""
        after = [AFTER[self.key]] if self.key in AFTER else []
        for function, parameter, struct in MADE:
            if function == self.key:
                owner = self.parameters[0].name
                after.append(
                    f"if (result == NULL && {parameter} != NULL && *{parameter} != NULL) "
                    f"hook_{struct}(*{parameter}, {owner})"
                )
        return after

    def write(self, number: int) -> str:
        """The C function."""
        listed = ", ".join(text_of(p) for p in self.parameters) or "void"
        arguments = ", ".join(p.name for p in self.parameters)
        pointer = f"{self.result} (ORT_API_CALL* call_real)({listed}) = {self._real()};"
        body = [pointer]
        if self.inputs:
            body.append(fields([(kind, value(kind, name)) for kind, name in self.inputs], "call_inputs"))
        given = "call_inputs" if self.inputs else "NULL"
        body.append(f"CALL recorded = call_begin({number}, {given});")
        body.append("CHECKED checked = {.on = validates};")
        refused = "(void)refused; return"
        if not self.is_void:
            refused = "return refused" if self.gives_status else f"(void)refused; return ({self.result})0"
        refuse = (
            "    OrtStatus* refused = check_refused(&checked);\n"
            "    call_end(&recorded, refused, NULL);\n"
            f"    {refused};\n  }}"
        )
        body.append(f"if (checked.on && !check_begin(&checked, {number}, {given})) {{\n{refuse}")
        if before := layer_checks.BEFORE.get(self.key):
            body.append(f"if (checked.on) {before};")
            if self.struct in TABLES:
                body.append(f"if (checked.on && checked.finding != NULL) {{\n{refuse}")
        if before := BEFORE.get(self.key):
            body.append(before + ";")
        elif self.member == "Release" and self.struct not in TABLES:
            body.append(f"unhook({self.parameters[0].name});")
        body.append(f"{'' if self.is_void else self.result + ' result = '}call_real({arguments});")
        body += self._ending()
        body += [line + ";" if not line.endswith("}") else line for line in self._hooks()]
        if after := layer_checks.AFTER.get(self.key):
            body.append(f"if (checked.on) {{\n  {after}{'' if after.endswith('}') else ';'}\n  }}")
        pointer = self.result_type[0] and self.result_type[1]
        told = "(const void*)result" if pointer else "NULL"
        if self.gives_status:
            body.append(f"if (checked.on) result = check_end(&checked, result, {given}, NULL);")
        else:
            body.append(f"if (checked.on) check_end(&checked, NULL, {given}, {told});")
        if not self.is_void:
            body.append("return result;")
        head = f"static {self.result} ORT_API_CALL {self.symbol}({listed})"
        return head + " {\n" + "".join(f"  {line}\n" for line in body) + "}\n"


def write_table(table: str, members: Sequence[Wrapper], since: dict[tuple[str, str], int]) -> str:
    """What copies a table of the host's: slots that the host has not, being older, stay NULL."""
    rows = [
        f"    if (host_version() >= {since[table, w.member]} && real->{w.member} != NULL)"
        f" copy.{w.member} = {w.symbol};"
        for w in members
    ]
    return "\n".join(
        [
            f"{'' if table == 'OrtApi' else 'static '}const {table}* copy_of_{table}(const {table}* real) {{",
            "  static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;",
            f"  static {table} copy;",
            "  if (real == NULL) return NULL;",
            "  pthread_mutex_lock(&mutex);",
            f"  if (real_{table} == NULL) {{",
            f"    real_{table} = real;",
            *rows,
            "  }",
            "  pthread_mutex_unlock(&mutex);",
            "  return &copy;",
            "}",
            "",
        ]
    )


def write_struct(struct: str, members: Sequence[tuple[str, int, Wrapper | None]], version: str) -> str:
    """What replaces the members of a plugin's struct, and what the struct has at each of its versions."""
    fills = [
        f"  if (version >= {since} && object->{name} != NULL) object->{name} = {wrapper.symbol};"
        for name, since, wrapper in members
        if wrapper is not None
    ]
    sizes = []
    for name, since, _ in reversed(members):
        sizes.append((since, f"offsetof({struct}, {name}) + sizeof(((const {struct}*)0)->{name})"))
    lines = [f"static void fill_{struct}(void* any, uint32_t version) {{", f"  {struct}* object = any;"]
    lines += [*fills, "}", "", f"static size_t size_of_{struct}(uint32_t version) {{"]
    lines += [f"  if (version >= {since}) return {size};" for since, size in sizes]
    lines += [f"  return sizeof(uint32_t);\n}}\n\nvoid hook_{struct}({struct}* object, const void* owner) {{"]
    lines += [f"  uint32_t version = object->{version};"]
    lines += [
        f'  hook("{struct}", object, size_of_{struct}(version), version, owner, fill_{struct});',
        "}",
        "",
    ]
    return "\n".join(lines)


def generate_wrappers(compiler: list[str], include: Path) -> str:
    """The text of wrappers.c."""
    tree = c_parser.CParser().parse(generate.PRELUDE + generate.preprocess(compiler, include, "ephost.h"))
    since = generate.since_versions(include)
    types = Types(tree)
    structs = generate.structs_of(tree)
    parts: list[str] = []
    signatures = list(BY_HAND)
    fillers: list[str] = []
    hooks: list[str] = []
    everything: list[Wrapper] = []
    for struct, definition in structs.items():
        if struct in NO_PLUGINS:
            continue
        found: list[tuple[str, int, Wrapper | None]] = []
        for member in definition.decls:
            wrapper = None
            pointer = member.type
            if isinstance(pointer, c_ast.PtrDecl) and isinstance(pointer.type, c_ast.FuncDecl):
                key = f"{struct}.{member.name}"
                if key not in NAMELESS and not member.name.startswith("Reserved"):
                    wrapper = Wrapper(types, struct, member.name, pointer.type)
                    parts.append(wrapper.write(len(signatures)))
                    signatures.append(wrapper.signature)
            found.append((member.name, since.get((struct, member.name), 1), wrapper))
        wrappers = [wrapper for *_, wrapper in found if wrapper is not None]
        everything += wrappers
        if struct in TABLES:
            fillers.append(write_table(struct, wrappers, since))
        elif wrappers:
            version = "version" if found[0][0] == "version" else "ort_version_supported"
            fillers.append(write_struct(struct, found, version))
            hooks.append(f"void hook_{struct}({struct}* object, const void* owner);")
            spoken = " ".join([*BEFORE.values(), *AFTER.values(), *(f"hook_{made}(" for *_, made in MADE)])
            if struct not in HOOKED_IN_C and f"hook_{struct}(" not in spoken:
                raise SystemExit(
                    f"{struct} is a struct of functions, and nothing hooks it: see BEFORE and MADE"
                )
    checks = layer_checks.Checks(everything, TABLES, types.enums)
    made = {function for function, *_ in MADE} | {"OrtEpFactory.GetSupportedDevices"}
    functions = [
        f'  {{"{name}", "{letters(inputs)}", "{letters(outputs)}"}},' for name, inputs, outputs in signatures
    ]
    return "\n".join(
        [
            "/* Generated from include/ephost by tools/generate_layer.py. */",
            "#define _GNU_SOURCE",
            "#include <pthread.h>",
            "#include <stddef.h>",
            "",
            '#include "checks.h"',
            "",
            "const OrtApi* real_OrtApi;",
            *(f"static const {table}* real_{table};" for table in TABLES if table != "OrtApi"),
            *hooks,
            *(f"static const {table}* copy_of_{table}(const {table}* real);" for table in TABLES[1:]),
            "",
            *parts,
            *fillers,
            checks.write(BY_HAND, everything, since, made, types.enumerators, is_count),
            "const Function layer_functions[] = {",
            *functions,
            "};",
            f"const size_t layer_function_count = {len(signatures)};",
            "const char layer_signatures[] =",
            *(f'    "{name}|{inputs}|{outputs}\\n"' for name, inputs, outputs in signatures),
            "    ;",
            "const size_t layer_signatures_size = sizeof layer_signatures - 1;",
            "",
        ]
    )


def main() -> None:
    """Write the file that the arguments name."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--include", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("compiler", nargs="+")
    arguments = parser.parse_args()
    arguments.out.mkdir(parents=True, exist_ok=True)
    written = generate_wrappers(arguments.compiler, arguments.include)
    (arguments.out / "wrappers.c").write_text(written, encoding="utf-8")
    (arguments.out / "rules.inc").write_text(layer_checks.rules_text(), encoding="utf-8")


if __name__ == "__main__":
    main()
