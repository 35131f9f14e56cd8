"""Operators that a plugin's factory or a library of custom operators brings: what their nodes may be, what
their outputs are, and kernels made from them.

As in onnxruntime, an operator has no ONNX schema but what its struct says, and is known to the sessions that
were given it. Whose it is, is in the struct too: an execution provider's, or the host's.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from ephost._bindings import NULL, api, check, ffi, guarded, lib, onnx_element_type, text
from ephost.errors import Fail, InvalidGraph, OnnxRuntimeException, naming
from ephost.host_log import HostLog
from ephost.library import absolute, assume_version
from ephost.library_files import check_path, explain_open_error
from ephost.model.check import unknown_operator
from ephost.model.custom_op import CustomOp, op_member, read_operator
from ephost.model.graph import Graph, Model, Node, TensorType, Value, all_graphs, tensor_type
from ephost.model.infer import merge
from ephost.model.native_graph import Constants, NativeGraph

_LOG = HostLog("ephost.custom_ops")


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
        register = ffi.cast("RegisterCustomOpsFn", found)
        assume_version()
        with naming(lambda: f"{self.path} failed in RegisterCustomOps"):
            check(guarded("RegisterCustomOpsFn")(register, self._options, lib.ephost_get_api_base()))

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
    with naming(lambda: f"{label} failed to give its custom operators"):
        check(ask(factory, number))
        room = ffi.new("OrtCustomOpDomain*[]", max(int(number[0]), 1))
        check(get(factory, room, number[0]))
    given = [room[at] for at in range(number[0]) if room[at]]
    if len(given) < number[0]:
        _LOG.warning(
            "%s says that it has %d domains of operators, and gives %d", label, number[0], len(given)
        )
    return given


def operators_of(domains: Iterable[Any]) -> Iterator[CustomOp]:
    """The operators in domains, in order.

    Args:
        domains: ``OrtCustomOpDomain*`` of each.
    """
    for domain in domains:
        name = text(lib.ephost_domain_name(domain))
        ops = ffi.new("OrtCustomOp* const**")
        for at in range(lib.ephost_domain_ops(domain, ops)):
            yield read_operator("" if name == "ai.onnx" else name, ops[0][at])


class CustomOps:
    """The custom operators that a session knows."""

    def __init__(self, operators: Iterable[CustomOp], libraries: Sequence[CustomOpLibrary] = ()) -> None:
        """Know these.

        Args:
            operators: of two of a name and version the first counts.
            libraries: what keeps some of them.
        """
        self._libraries = tuple(libraries)
        self._ops: dict[tuple[str, str], list[CustomOp]] = {}
        self._asked: dict[int, tuple[Any, ...]] = {}
        for op in operators:
            self._ops.setdefault((op.domain, op.name), []).append(op)

    def __bool__(self) -> bool:
        return bool(self._ops)

    def find(self, op_type: str, domain: str, opset: int) -> CustomOp | None:
        """The operator as it is at an opset version; None: there is none."""
        known = [op for op in self._ops.get((domain, op_type), ()) if op.since_version <= opset]
        return max(known, key=lambda op: op.since_version) if known else None

    def attach(self, model: Model, nodes: Iterable[Node]) -> None:
        """Let nodes of a model know what they are.

        Raises:
            InvalidGraph: a node has too few or too many inputs or outputs, or an operator that nobody has.
        """
        for node in nodes if self else ():
            op = self.find(node.op_type, node.domain, model.opsets.get(node.domain, 1))
            if op is not None:
                node.custom, node.since_version = op, op.since_version
                op.check(node.label, node.inputs, node.outputs)
        for node in model.unknown:
            if node.custom is None:
                raise unknown_operator(node, model.opsets.get(node.domain))
        model.unknown.clear()

    def attach_all(self, model: Model) -> None:
        """The same for all nodes of a model that was loaded, and for those that it will get."""
        model.custom_ops = self
        self.attach(model, (node for graph in all_graphs(model.graph) for node in graph.nodes))

    def infer(self, model: Model) -> bool:
        """Find the types of their outputs where the types of the inputs are known.

        Returns:
            Whether anything was found.

        Raises:
            InvalidGraph: an operator makes another element type than the model declares, or cannot tell.
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
        ask = op.elsewhere.infer if op.elsewhere is not None else infer_outputs
        told = ask(model, node, kinds)
        changed = False
        formals = op.formals(True, len(kinds))
        free = [k.element_type for k, f in zip(kinds, formals, strict=True) if k and not f.element_type]
        for value, formal, kind in zip(node.outputs, op.formals(False, len(told)), told, strict=True):
            if value is None:
                continue
            own = formal.element_type or (kind.element_type if kind else 0)
            if not own and len(set(free)) == 1:
                own = free[0]  # as onnxruntime has it
            if own:
                _refuse_another(node, value, own)
            if element_type := own or next(iter(free), 0):
                changed = _refine(value, tensor_type(element_type, kind.dims if kind else None)) or changed
        return changed


def infer_outputs(model: Model, node: Node, kinds: Sequence[TensorType | None]) -> list[TensorType | None]:
    """What the own function of a node's operator says of each output.

    Args:
        model: whose node it is; only its versions are looked at.
        node: of a custom operator.
        kinds: the types of its inputs; None: left out, or no tensor.

    Raises:
        InvalidGraph: the function fails.
    """
    op = node.custom
    assert op is not None
    infer = op_member(op.pointer, "InferOutputShapeFn")
    nothing: list[TensorType | None] = [None] * len(node.outputs)
    if infer is None:
        return nothing
    # The node alone, for its attributes.
    bare = Node(node.index, node.proto, node.op_type, node.domain, node.name, node.since_version, [], [])
    constants = Constants()
    native = NativeGraph(model, Graph("", [bare], [], [], {}), constants)
    context = lib.ephost_infer_context_new(native.pointer_of(bare), len(node.inputs), len(node.outputs))
    try:
        if not context:
            raise MemoryError("no memory for shape inference")
        for at, kind in enumerate(kinds):
            if kind is not None:
                described = ffi.cast("EphostTensorType*", kind.native()[0])
                if not lib.ephost_infer_context_set_input(context, at, described):
                    raise MemoryError("no memory for shape inference")
        try:
            check(infer(op.pointer, context))
        except OnnxRuntimeException as error:
            raise InvalidGraph(f"{op.label} cannot infer the outputs of node {node.label}: {error}") from None
        return [_type_of(lib.ephost_infer_context_output(context, at)) for at in range(len(nothing))]
    finally:
        lib.ephost_infer_context_free(context)
        native.release()
        constants.release()


def _refuse_another(node: Node, value: Value, element_type: int) -> None:
    # The kernel would write elements of its own type into memory for those that are declared.
    declared = value.type
    if declared is None or (isinstance(declared, TensorType) and not declared.element_type):
        return
    if not isinstance(declared, TensorType) or declared.element_type != element_type:
        raise InvalidGraph(
            f"the output '{value.name}' of node {node.label} is declared as "
            f"{declared if isinstance(declared, TensorType) else 'no tensor'}, but its operator makes "
            f"{tensor_type(element_type, None)}"
        )


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
