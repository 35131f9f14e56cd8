"""Operators that a plugin's factory or a library of custom operators brings: what their nodes may be, what
their outputs are, and kernels made from them.

As in onnxruntime, an operator has no ONNX schema but what its struct says, and is known to the sessions that
were given it. Whose it is, is in the struct too: an execution provider's, or the host's.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import onnx

from ephost._bindings import NULL, api, check, ep_api, ffi, lib, onnx_element_type, text
from ephost.environment import DEFAULT_PROVIDER
from ephost.errors import Fail, InvalidGraph, OnnxRuntimeException
from ephost.library import absolute, check_path, explain_open_error
from ephost.model.graph import Graph, Model, Node, TensorType, Value, all_graphs, tensor_type
from ephost.model.infer import merge
from ephost.model.native_graph import Constants, NativeGraph, native_tensor_type

_LOG = logging.getLogger("ephost.custom_ops")
_REQUIRED, _OPTIONAL, _VARIADIC = range(3)
# The API versions in which members of OrtCustomOp appeared.
_SINCE = {
    "GetInputMemoryType": 13,
    "GetVariadicInputMinArity": 14,
    "GetVariadicInputHomogeneity": 14,
    "GetVariadicOutputMinArity": 14,
    "GetVariadicOutputHomogeneity": 14,
    "InferOutputShapeFn": 17,
    "GetStartVersion": 17,
    "GetEndVersion": 17,
}


def _member(op: Any, name: str) -> Any:
    """A function of an ``OrtCustomOp*``, or None when it has none or is older than it."""
    return (getattr(op, name) or None) if int(op.version) >= _SINCE.get(name, 1) else None


@dataclass(frozen=True, slots=True)
class _Formal:
    """An input or output of an operator; element type (of ONNX) 0: any."""

    name: str
    element_type: int
    option: int
    least: int = 1  # how many values a variadic one stands for
    homogeneous: bool = True


@dataclass(slots=True, eq=False)
class CustomOp:
    """One operator, read from its ``OrtCustomOp``."""

    pointer: Any
    domain: str
    name: str
    ep_name: str  # "": the host's
    since_version: int
    end_version: int
    inputs: tuple[_Formal, ...]
    outputs: tuple[_Formal, ...]

    @property
    def label(self) -> str:
        """What messages call it."""
        return f"the custom operator {self.domain}.{self.name}"

    @property
    def is_hosts(self) -> bool:
        """Whether the host runs its nodes."""
        return self.ep_name in ("", DEFAULT_PROVIDER)

    def formals(self, of_inputs: bool, count: int) -> list[_Formal]:
        """The formal parameter of each of so many inputs or outputs."""
        known = self.inputs if of_inputs else self.outputs
        return [known[min(at, len(known) - 1)] for at in range(count)] if known else []

    def check(self, node: Node) -> None:
        """Look at how many inputs and outputs a node has.

        Raises:
            InvalidGraph: too few or too many, or one is left out that must be there.
        """
        for what, formals, values in (
            ("input", self.inputs, node.inputs),
            ("output", self.outputs, node.outputs),
        ):
            needed = [at for at, formal in enumerate(formals) if formal.option == _REQUIRED]
            least, most = max(needed, default=-1) + 1, len(formals)
            variadic = bool(formals) and formals[-1].option == _VARIADIC
            if variadic:
                least = max(least, len(formals) - 1 + formals[-1].least)
            if len(values) < least or (len(values) > most and not variadic):
                raise InvalidGraph(
                    f"node {node.label} has {len(values)} {what}s: {least} to "
                    f"{'any number' if variadic else most} are allowed"
                )
            for at in needed:
                if values[at] is None:
                    raise InvalidGraph(f"node {node.label} leaves out its {what} {at}, which is not optional")

    def type_error(self, kinds: Sequence[int]) -> str | None:
        """What is wrong with inputs of these element types (of ONNX; 0: not known); None: nothing."""
        name = onnx.TensorProto.DataType.Name
        first = 0
        for at, (kind, formal) in enumerate(zip(kinds, self.formals(True, len(kinds)), strict=False)):
            if not kind:
                continue
            if formal.element_type not in (0, kind):
                return (
                    f"its input {at} is tensor({name(kind).lower()}), and its operator takes "
                    f"tensor({name(formal.element_type).lower()})"
                )
            if formal.option == _VARIADIC and formal.homogeneous and not formal.element_type:
                first = first or kind
                if first != kind:
                    return (
                        f"its variadic inputs are of one type, but are tensor({name(first).lower()}) and "
                        f"tensor({name(kind).lower()})"
                    )
        return None

    def kernel_definition(self, inputs: int) -> Any:
        """A new ``OrtKernelDef*``, which says in which memory a node with so many inputs wants them."""
        builder, out = ffi.new("OrtKernelDefBuilder**"), ffi.new("OrtKernelDef**")
        check(ep_api.CreateKernelDefBuilder(builder))
        memory = _member(self.pointer, "GetInputMemoryType")
        try:
            check(ep_api.KernelDefBuilder_SetOperatorType(builder[0], self.name.encode()))
            check(ep_api.KernelDefBuilder_SetDomain(builder[0], self.domain.encode()))
            for at in range(inputs if memory is not None and self.inputs else 0):
                kind = memory(self.pointer, min(at, len(self.inputs) - 1))
                check(ep_api.KernelDefBuilder_SetInputMemType(builder[0], at, kind))
            check(ep_api.KernelDefBuilder_Build(builder[0], out))
        finally:
            ep_api.ReleaseKernelDefBuilder(builder[0])
        return out[0]


def _formals(op: Any, prefix: str) -> tuple[_Formal, ...]:
    count = int(getattr(op, f"Get{prefix}TypeCount")(op))
    characteristic = _member(op, f"Get{prefix}Characteristic")
    arity = _member(op, f"GetVariadic{prefix}MinArity")
    homogeneity = _member(op, f"GetVariadic{prefix}Homogeneity")
    made = []
    for at in range(count):
        option = int(characteristic(op, at)) if characteristic is not None else _REQUIRED
        variadic = option == _VARIADIC
        made.append(
            _Formal(
                f"{prefix}{at}",
                onnx_element_type(int(getattr(op, f"Get{prefix}Type")(op, at))),
                option,
                int(arity(op)) if variadic and arity is not None else 1,
                not variadic or homogeneity is None or bool(homogeneity(op)),
            )
        )
    return tuple(made)


def _read(domain: str, op: Any) -> CustomOp:
    start, end = _member(op, "GetStartVersion"), _member(op, "GetEndVersion")
    ep = op.GetExecutionProviderType
    return CustomOp(
        pointer=op,
        domain=domain,
        name=text(op.GetName(op)),
        ep_name=text(ep(op)) if ep else "",
        since_version=int(start(op)) if start is not None else 1,
        end_version=int(end(op)) if end is not None else 2**31 - 1,
        inputs=_formals(op, "Input"),
        outputs=_formals(op, "Output"),
    )


class CustomOpLibrary:
    """A library of custom operators; its ``RegisterCustomOps`` is called once. Closed with its last user."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        """Open the library and take its domains.

        Raises:
            NoSuchFile, Fail: it cannot be opened, or has no such function.
            The library's own error.
        """
        self.path = absolute(path)
        self._options = self._handle = NULL
        check_path(self.path)
        error = ffi.new("char[]", 1024)
        self._handle = lib.ephost_library_open(os.fsencode(self.path), error, 1024)
        if not self._handle:
            raise Fail(explain_open_error(self.path, text(error)))
        found = lib.ephost_library_symbol(self._handle, b"RegisterCustomOps")
        if not found:
            raise Fail(f"the library {self.path} has no function RegisterCustomOps: it brings no operators")
        out = ffi.new("OrtSessionOptions**")
        check(api.CreateSessionOptions(out))
        self._options = out[0]
        register = ffi.cast("OrtStatus*(*)(OrtSessionOptions*, const OrtApiBase*)", found)
        try:
            check(register(self._options, lib.ephost_get_api_base()))
        except OnnxRuntimeException as failed:
            raise type(failed)(f"{self.path} failed in RegisterCustomOps: {failed}") from None

    @property
    def domains(self) -> list[Any]:
        """``OrtCustomOpDomain*`` of each domain, as long as this object lives."""
        domains = ffi.new("OrtCustomOpDomain* const**")
        count = lib.ephost_session_options_domains(self._options, domains)
        return [domains[0][at] for at in range(count)]

    def __del__(self) -> None:
        if getattr(self, "_options", NULL):
            api.ReleaseSessionOptions(self._options)
        if getattr(self, "_handle", NULL):
            lib.ephost_library_close(self._handle)


def domains_of(factory: Any, member: Any, label: str) -> list[Any]:
    """The domains that an EP's factory offers.

    Args:
        factory: ``OrtEpFactory*``.
        member: gives the factory's function of a name, or None.
        label: what messages call it.

    Raises:
        The plugin's error.
    """
    ask, get = member("GetNumCustomOpDomains"), member("GetCustomOpDomains")
    if ask is None or get is None:
        return []
    number = ffi.new("size_t*")
    try:
        check(ask(factory, number))
        room = ffi.new("OrtCustomOpDomain*[]", max(int(number[0]), 1))
        check(get(factory, room, number[0]))
    except OnnxRuntimeException as error:
        raise type(error)(f"{label} failed to give its custom operators: {error}") from None
    given = [room[at] for at in range(number[0]) if room[at]]
    if len(given) < number[0]:
        _LOG.warning(
            "%s says that it has %d domains of operators, and gives %d", label, number[0], len(given)
        )
    return given


class CustomOps:
    """The custom operators that a session knows."""

    def __init__(self, domains: Iterable[Any], libraries: Sequence[CustomOpLibrary] = ()) -> None:
        """Read the operators.

        Args:
            domains: ``OrtCustomOpDomain*`` of each; of two operators of a name and version the first counts.
            libraries: what keeps some of the domains.
        """
        self._libraries = tuple(libraries)
        self._ops: dict[tuple[str, str], list[CustomOp]] = {}
        self._asked: dict[int, tuple[Any, ...]] = {}
        for domain in domains:
            name = text(lib.ephost_domain_name(domain))
            ops = ffi.new("OrtCustomOp* const**")
            for at in range(lib.ephost_domain_ops(domain, ops)):
                op = _read("" if name == "ai.onnx" else name, ops[0][at])
                self._ops.setdefault((op.domain, op.name), []).append(op)

    def __bool__(self) -> bool:
        return bool(self._ops)

    def find(self, op_type: str, domain: str, opset: int) -> CustomOp | None:
        """The operator as it is at an opset version; None: there is none."""
        known = [op for op in self._ops.get((domain, op_type), ()) if op.since_version <= opset]
        return max(known, key=lambda op: op.since_version) if known else None

    def attach(self, model: Model) -> None:
        """Let the nodes of a model that was loaded know what they are.

        Raises:
            InvalidGraph: a node has too few or too many inputs or outputs.
        """
        model.custom_ops = self
        for graph in all_graphs(model.graph):
            for node in graph.nodes:
                self.attach_node(model, node)

    def attach_node(self, model: Model, node: Node) -> None:
        """The same for one node."""
        op = self.find(node.op_type, node.domain, model.opsets.get(node.domain, 1))
        if op is not None:
            node.custom, node.since_version = op, op.since_version
            op.check(node)

    def infer(self, model: Model) -> bool:
        """Find the types of their outputs where the types of the inputs are known.

        Returns:
            Whether anything was found.
        """
        found = False
        for graph in all_graphs(model.graph):
            for node in graph.nodes:
                if node.custom is not None:
                    found = self._infer_node(model, node, node.custom) or found
        return found

    def _infer_node(self, model: Model, node: Node, op: CustomOp) -> bool:
        kinds = tuple(v.type if v and isinstance(v.type, TensorType) else None for v in node.inputs)
        if any(v is not None and v.type is None for v in node.inputs) or self._asked.get(node.index) == kinds:
            return False
        self._asked[node.index] = kinds
        told = self._ask(model, node, op, kinds)
        changed = False
        formals = op.formals(True, len(kinds))
        free = [k.element_type for k, f in zip(kinds, formals, strict=True) if k and not f.element_type]
        for value, formal, kind in zip(node.outputs, op.formals(False, len(told)), told, strict=True):
            if value is None:
                continue
            element_type = formal.element_type or (kind.element_type if kind else 0) or next(iter(free), 0)
            if element_type:
                changed = _refine(value, tensor_type(element_type, kind.dims if kind else None)) or changed
        return changed

    def _ask(
        self, model: Model, node: Node, op: CustomOp, kinds: Sequence[TensorType | None]
    ) -> list[TensorType | None]:
        """What the operator's own function says of each output."""
        infer = _member(op.pointer, "InferOutputShapeFn")
        nothing: list[TensorType | None] = [None] * len(node.outputs)
        if infer is None:
            return nothing
        # The node alone, for its attributes.
        bare = Node(node.index, node.proto, node.op_type, node.domain, node.name, node.since_version, [], [])
        constants = Constants()
        native = NativeGraph(model, Graph("", [bare], [], [], {}), constants)
        context = lib.ephost_infer_context_new(
            native.node_pointers[node.index], len(node.inputs), len(node.outputs)
        )
        try:
            if not context:
                raise MemoryError("no memory for shape inference")
            for at, kind in enumerate(kinds):
                if kind is not None:
                    described = native_tensor_type(kind)
                    if not lib.ephost_infer_context_set_input(context, at, described[0]):
                        raise MemoryError("no memory for shape inference")
            try:
                check(infer(op.pointer, context))
            except OnnxRuntimeException as error:
                raise InvalidGraph(
                    f"{op.label} cannot infer the outputs of node {node.label}: {error}"
                ) from None
            return [_type_of(lib.ephost_infer_context_output(context, at)) for at in range(len(nothing))]
        finally:
            lib.ephost_infer_context_free(context)
            native.release()
            constants.release()


def _type_of(info: Any) -> TensorType | None:
    if not info:
        return None
    kind, rank = ffi.new("ONNXTensorElementDataType*"), ffi.new("size_t*")
    check(api.GetTensorElementType(info, kind))
    element_type = onnx_element_type(int(kind[0]))
    if not api.TensorTypeAndShape_HasShape(info):
        return tensor_type(element_type, None)
    check(api.GetDimensionsCount(info, rank))
    dims, symbols = ffi.new("int64_t[]", int(rank[0])), ffi.new("char*[]", int(rank[0]))
    check(api.GetDimensions(info, dims, rank[0]))
    check(api.GetSymbolicDimensions(info, symbols, rank[0]))
    return tensor_type(
        element_type,
        tuple(int(d) if d >= 0 else (text(s) or None) for d, s in zip(dims, symbols, strict=True)),
    )


def _refine(value: Value, found: TensorType) -> bool:
    before = value.type
    value.type = merge(before, found)
    return value.type != before
