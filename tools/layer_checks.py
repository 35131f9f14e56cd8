"""What the layer ``validate`` has to know of each function: generated from the headers, as the wrappers are.

A handle is a pointer to one of the host's opaque structs. Which argument of which function makes, lends,
takes or releases one follows from the rules at the top of ``include/ephost/types.h``; what does not stands
in the tables here.
"""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

import generate
from pycparser import c_ast

if TYPE_CHECKING:
    from generate_layer import Wrapper

# Lent to a plugin for the call that it is in: they have no function that releases them, or are the host's.
EXPIRING = (
    "OrtKernelContext",
    "OrtGraph",
    "OrtNode",
    "OrtValueInfo",
    "OrtEpGraphSupportInfo",
    "OrtSessionOptions",
    "OrtKernelInfo",
    "OrtNodeComputeContext",
    "OrtShapeInferContext",
    "OrtProfilingEventsContainer",
    "OrtDeviceEpIncompatibilityDetails",
)
# Objects that several callers share, each of which releases it once.
COUNTED = frozenset(["OrtAllocator", "OrtEnv"])
# Structs of the plugin's, which host/layer/objects.c knows.
NO_HANDLES = frozenset(["OrtKernelImpl", "OrtExternalMemoryHandle", "OrtExternalSemaphoreHandle"])
TAKEN = frozenset(
    {
        ("OrtModelEditorApi.CreateNode", "attributes"),
        ("OrtModelEditorApi.SetGraphInputs", "inputs"),
        ("OrtModelEditorApi.SetGraphOutputs", "outputs"),
        ("OrtModelEditorApi.AddInitializerToGraph", "tensor"),
        ("OrtModelEditorApi.AddNodeToGraph", "node"),
        ("OrtModelEditorApi.AddGraphToModel", "graph"),
    }
)
BORROWED = frozenset(  # for as long as what they belong to
    {
        "OrtApi.GetAllocatorWithDefaultOptions",
        "OrtApi.CreateSharedAllocator",
        "OrtApi.GetSharedAllocator",
        "OrtApi.KernelContext_GetSyncStream",
        "OrtApi.ShapeInferContext_GetInputTypeShape",
    }
)
GIVEN = frozenset(  # arrays that a plugin reads, though their type lets it write entries
    {
        ("OrtDataTransferImpl.CopyTensors", "dst_tensors"),
        ("OrtDataTransferImpl.CopyTensors", "streams"),
    }
)
OF_A_COMPUTE = frozenset(
    {
        "OrtApi.KernelContext_GetInput",
        "OrtApi.KernelContext_GetOutput",
        "OrtApi.KernelContext_GetPreallocatedOutput",
    }
)
_COMPUTE = "outputs_begin(&checked, {context}, {maker})"
BEFORE = {
    "OrtEp.GetCapability": "claims_begin(graph, graph_support_info, this_ptr)",
    "OrtEpApi.EpGraphSupportInfo_AddNodesToFuse": "claim_group(graph_support_info, nodes, num_nodes)",
    "OrtEpApi.EpGraphSupportInfo_AddSingleNode": "claim_single(graph_support_info, node)",
    "OrtModelEditorApi.CreateNode": (
        "check_context_node(operator_name, domain_name, node_name, attributes, attribs_len)"
    ),
    "OrtNodeComputeInfo.Compute": _COMPUTE.format(context="kernel_context", maker="this_ptr"),
    "OrtKernelImpl.Compute": _COMPUTE.format(context="context", maker="this_ptr"),
    "OrtCustomOp.KernelCompute": _COMPUTE.format(context="context", maker="NULL"),
    "OrtCustomOp.KernelComputeV2": _COMPUTE.format(context="context", maker="NULL"),
    "OrtApi.CreateStatus": "check_status_code(code)",
    "OrtAllocator.Free": "check_freed(this_, p)",
}
AFTER = {
    "OrtEp.GetCapability": "claims_end(graph_support_info)",
    "OrtEp.GetName": "check_ep_name(this_ptr, result)",
    "OrtEp.Compile": (
        "for (size_t at = 0; result == NULL && at < count; ++at) {\n"
        '    check_made("a compute info", node_compute_infos[at]);\n'
        "    outputs_declared(node_compute_infos[at], fused_nodes[at]);\n"
        "  }\n"
        "  if (checked.on && result == NULL) check_context_nodes(ep_context_nodes, count)"
    ),
    "OrtEpFactory.GetName": "check_factory_name(result)",
    "OrtEpFactory.GetVendor": "check_text(result)",
    "OrtEpFactory.CreateEp": (
        'if (result == NULL) check_made("the EP", *ep);\n'
        "  if (result == NULL && *ep != NULL) check_ep_of(*ep)"
    ),
    "OrtEpFactory.CreateAllocator": (
        "if (result == NULL && *allocator != NULL) allocator_made(*allocator, memory_info)"
    ),
    "OrtEp.CreateAllocator": (
        "if (result == NULL && *allocator != NULL) allocator_made(*allocator, memory_info)"
    ),
    "OrtEpFactory.ReleaseAllocator": "allocator_released(allocator)",
    "OrtEpFactory.IsStreamAware": "check_stream_aware(this_ptr, result)",
    "OrtEpFactory.CreateSyncStreamForDevice": 'if (result == NULL) check_made("the stream", *stream)',
    "OrtSyncStreamImpl.CreateNotification": (
        'if (result == NULL) check_made("the notification", *notification)'
    ),
    "OrtEpFactory.GetSupportedDevices": (
        'if (result == NULL) check_room("EP devices", *num_ep_devices, max_ep_devices);\n'
        "  bool fits = result == NULL && *num_ep_devices <= max_ep_devices;\n"
        "  for (size_t at = 0; fits && at < *num_ep_devices; ++at) {\n"
        '    check_made("an EP device", ep_devices[at]);\n'
        "    check_once(ep_devices[at], (const void* const*)ep_devices, at);\n"
        "    if (ep_devices[at] != NULL) {\n"
        "      (void)handle_handed_over(handle_type_ep_device, ep_devices[at]);\n"
        "    }\n"
        "  }"
    ),
    "OrtNodeComputeInfo.Compute": "outputs_end(&checked, result == NULL)",
    "OrtKernelImpl.Compute": "outputs_end(&checked, result == NULL)",
    "OrtCustomOp.KernelCompute": "outputs_end(&checked, true)",
    "OrtCustomOp.KernelComputeV2": "outputs_end(&checked, result == NULL)",
    "OrtApi.KernelContext_GetInput": "if (result == NULL) outputs_took(context, index, out)",
    "OrtApi.KernelContext_GetOutput": (
        "if (result == NULL) outputs_gave(context, index, dim_values, dim_count, out)"
    ),
    "OrtApi.KernelContext_GetPreallocatedOutput": (
        "if (result == NULL) outputs_preallocated(context, output_index, *output)"
    ),
    "OrtApi.CreateMemoryInfo_V2": "if (result == NULL) memory_info_made(*out, device_type, alignment)",
    "OrtAllocator.Alloc": "check_allocated(this_, result, size)",
    "OrtAllocator.Reserve": "check_allocated(this_, result, size)",
    "OrtAllocator.AllocOnStream": "check_allocated(this_, result, size)",
    "OrtAllocator.Info": "check_location(result)",
    "OrtDataTransferImpl.CopyTensors": (
        "check_copied(this_ptr, src_tensors, dst_tensors, num_tensors, result)"
    ),
}
_ROLES_BY_HAND = {"OrtKernelCreateFunc": [("g", "OrtKernelInfo", 1, 0)]}


def load_rules() -> ModuleType:
    """ephost.layers.rules, without the rest of the package, which may not be built yet."""
    path = Path(__file__).parents[1] / "host" / "ephost" / "layers" / "rules.py"
    spec = importlib.util.spec_from_file_location("ephost_layer_rules", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module


def rules_text() -> str:
    """The text of rules.inc."""
    rows = [
        f'RULE({rule.name.replace("-", "_")}, "{rule.name}", SEVERITY_{rule.severity.upper()}, "{rule.text}")'
        for rule in load_rules().RULES.values()
    ]
    return "\n".join(["/* Generated from host/ephost/layers/rules.py. */", *rows, ""])


def _named(node: c_ast.Node) -> tuple[str, bool]:
    """The name of the type that is pointed to, and whether it is constant."""
    named = generate.innermost(node)
    names = named.type.names if isinstance(named.type, c_ast.IdentifierType) else [named.type.name or ""]
    return names[-1], "const" in named.quals


class Checks:
    """What is said of all functions."""

    def __init__(self, wrappers: Sequence[Wrapper], tables: Sequence[str], enums: set[str]) -> None:
        self.tables, self.enums = tables, enums
        released = [
            _named(w.parameters[0].type)[0]
            for w in wrappers
            if w.struct in tables and w.member.startswith("Release") and len(w.parameters) == 1
        ]
        self.types = sorted({*released, *EXPIRING} - NO_HANDLES)

    def roles(
        self, wrapper: Wrapper, is_count: Callable[[c_ast.Decl], bool]
    ) -> list[tuple[str, str, int, int]]:
        """How, type, field and the field of the count of each handle."""
        is_hosts = wrapper.struct in self.tables
        at = {name: number for number, (_, name) in enumerate(wrapper.inputs)}
        found = []
        for number, parameter in enumerate(wrapper.parameters):
            if not isinstance(parameter.type, c_ast.PtrDecl):
                continue
            name, constant = _named(parameter.type)
            if name not in self.types or parameter.name not in at:
                continue
            after = wrapper.parameters[number + 1 :]
            if is_hosts:
                after = after[:1]
            # A plugin's function may have several arrays, and one count behind them.
            count = next((each for each in after if not isinstance(each.type, c_ast.PtrDecl)), None)
            counted = count is not None and is_count(count) and count.name in at
            how = self._how(wrapper.key, parameter, constant, is_hosts, counted)
            if how:
                size = at[count.name] if count is not None and how in "UTBG" else 0
                found.append((how, name, at[parameter.name], size))
        result, constant = wrapper.result_type
        if is_hosts and constant and result in self.types:
            found.append(("b", result, 255, 0))
        return found

    @staticmethod
    def _how(key: str, parameter: c_ast.Decl, constant: bool, is_hosts: bool, counted: bool) -> str:
        target = parameter.type.type
        if isinstance(target, c_ast.TypeDecl):
            if not is_hosts:
                return "g"
            if key.partition(".")[2].startswith("Release"):
                return "r"
            return "t" if (key, parameter.name) in TAKEN else "u"
        if not isinstance(target, c_ast.PtrDecl) or isinstance(target.type, c_ast.PtrDecl):
            return ""
        given = "const" in target.quals  # the array's entries
        if not is_hosts:
            read = given or constant or (key, parameter.name) in GIVEN
            return "G" if counted and read else ""
        if (key, parameter.name) in TAKEN:
            return "T"
        if counted:
            return "U" if given else "B" if constant else ""
        if given:
            return ""
        if key in OF_A_COMPUTE:
            return "x"
        return "b" if constant or key in BORROWED else "o"

    def enumerated(self, wrapper: Wrapper) -> list[tuple[str, int, bool]]:
        """Enumeration and field of each value of one that the host is given, or that the plugin answers
        with, and whether it is such an answer.
        """
        is_hosts = wrapper.struct in self.tables
        at = {name: number for number, (_, name) in enumerate(wrapper.inputs)}
        found = []
        for parameter in wrapper.parameters:
            target = parameter.type if is_hosts else getattr(parameter.type, "type", None)
            if isinstance(target, c_ast.TypeDecl) and (is_hosts or wrapper.gives_status):
                name, constant = _named(target)
                if name in self.enums and parameter.name in at and not constant:
                    found.append((name, at[parameter.name], not is_hosts))
        return found

    def write(
        self,
        by_hand: Sequence[tuple[str, str, str]],
        wrappers: Sequence[Wrapper],
        since: dict[tuple[str, str], int],
        made: set[str],
        enumerators: dict[str, list[str]],
        is_count: Callable[[c_ast.Decl], bool],
    ) -> str:
        """The tables."""
        numbers = {name: number for number, name in enumerate(self.types)}
        parts = ["const HandleType handle_types[] = {"]
        parts += [
            f'    {{"{name}", {str(name in EXPIRING).lower()}, {str(name in COUNTED).lower()}}},'
            for name in self.types
        ]
        parts.append("};")
        for short, name in (
            ("status", "OrtStatus"),
            ("context", "OrtKernelContext"),
            ("value", "OrtValue"),
            ("node", "OrtNode"),
            ("ep_device", "OrtEpDevice"),
            ("env", "OrtEnv"),
        ):
            parts.append(f"const uint8_t handle_type_{short} = {numbers[name]};")
        rows = []
        used = {name for wrapper in wrappers for name, *_ in self.enumerated(wrapper)}
        for name in sorted(used):
            parts.append(f"static const int64_t values_of_{name}[] = {{{', '.join(enumerators[name])}}};")
        for name, *_ in by_hand:
            roles = _ROLES_BY_HAND.get(name, [])
            hosts = name.startswith("OrtApiBase.")
            gives = not hosts
            rows.append(self._row(name, parts, numbers, roles, [], 0, hosts, gives, not hosts))
        for wrapper in wrappers:
            rows.append(
                self._row(
                    wrapper.symbol,
                    parts,
                    numbers,
                    self.roles(wrapper, is_count),
                    self.enumerated(wrapper),
                    since.get((wrapper.struct, wrapper.member), 1),
                    wrapper.struct in self.tables,
                    wrapper.gives_status,
                    wrapper.key in made,
                )
            )
        return "\n".join([*parts, "const Described layer_described[] = {", *rows, "};", ""])

    @staticmethod
    def _row(
        symbol: str,
        parts: list[str],
        numbers: dict[str, int],
        roles: Sequence[tuple[str, str, int, int]],
        enumerated: Sequence[tuple[str, int, bool]],
        since: int,
        hosts: bool,
        gives: bool,
        makes: bool,
    ) -> str:
        symbol = symbol.replace(".", "_")
        if roles:
            rows = ", ".join(f"{{'{how}', {numbers[name]}, {field}, {n}}}" for how, name, field, n in roles)
            parts.append(f"static const Role roles_of_{symbol}[] = {{{rows}}};")
        if enumerated:
            rows = ", ".join(
                f'{{{field}, {str(answer).lower()}, "{name}", values_of_{name}, '
                f"sizeof values_of_{name} / sizeof values_of_{name}[0]}}"
                for name, field, answer in enumerated
            )
            parts.append(f"static const Enumerated enumerated_of_{symbol}[] = {{{rows}}};")
        flags = ", ".join(str(flag).lower() for flag in (hosts, gives, makes))
        return (
            f"    {{{f'roles_of_{symbol}' if roles else 'NULL'}, {len(roles)}, "
            f"{f'enumerated_of_{symbol}' if enumerated else 'NULL'}, {len(enumerated)}, {since}, {flags}}},"
        )
