"""Compiled models: the model as it is after partitioning, with an EPContext node in place of each group that
an EP has compiled, so that opening it needs no compilation.

Nodes that nobody compiled stay as they are. What an EPContext node holds (the compiled code itself, or the
name of a file beside the model) is the plugin's affair, as is what the model's metadata say of the devices
that it was compiled for.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

import onnx
from google.protobuf.message import EncodeError

from ephost._bindings import api, check, ffi, text
from ephost.enums import OrtCompiledModelCompatibility
from ephost.errors import EPFail, Fail, InvalidArgument, ModelRequiresCompilation, NotImplemented
from ephost.execution_provider import ExecutionProvider
from ephost.host_log import HostLog
from ephost.model.graph import NHWC_DOMAIN, Graph, Model, Node, Value
from ephost.model.native_graph import CONTEXT_DOMAIN, Constants, NativeGraph
from ephost.model.partition import (
    COMPATIBILITY_PREFIX,
    Assignment,
    Group,
    group_values,
    is_context,
)
from ephost.model.save import (
    appended,
    as_onnx,
    external_proto,
    external_size,
    in_utf8,
    initializer_proto,
    model_proto,
    node_proto,
    value_info,
)
from ephost.saving import written

_LOG = HostLog("ephost.context")

FILE_PATH = "ep.context_file_path"
EXTERNAL_INITIALIZERS = "ep.context_model_external_initializers_file_name"
FAIL_ON_SUBOPTIMAL = "session.fail_on_suboptimal_compiled_model"
_LARGEST = (1 << 31) - 1  # bytes that protobuf can hold

# Says where the data of an initializer lies that the caller has put into a file: its path, offset and size;
# None for one that is to lie in the model.
Placing = Callable[[Value], tuple[str, int, int] | None]


@dataclass(frozen=True)
class ContextTarget:
    """Where a compiled model goes, and what is refused."""

    path: str | None  # None: to `write`
    write: Callable[[bytes], Any] | None = None
    error_if_exists: bool = False
    error_if_nothing_compiled: bool = False
    none_if_nothing_compiled: bool = False  # there is no compiled model then
    external_file: str | None = None  # for initializers of more than `external_threshold` bytes
    external_threshold: int = 0
    place: Placing | None = None

    def check(self) -> None:
        """Find out before anything is compiled what would forbid to write the model.

        Raises:
            InvalidArgument: the path, or that of the initializers, is a folder, or in none, or no file's.
            Fail: the file exists and must not.
        """
        if self.external_file is not None:
            self._check_external()
        if self.path is None:
            return
        if "\0" in self.path:
            raise InvalidArgument(
                f"the compiled model cannot be written to {self.path!r}: no file has a NUL in its name"
            )
        if os.path.isdir(self.path) or not os.path.basename(self.path):
            raise InvalidArgument(f"the compiled model cannot be written to {self.path}: that is a folder")
        folder = os.path.dirname(os.path.abspath(self.path))
        if not os.path.isdir(folder):
            raise InvalidArgument(
                f"the compiled model cannot be written to {self.path}: there is no folder {folder}"
            )
        if self.error_if_exists and os.path.exists(self.path):
            raise Fail(f"the compiled model {self.path} exists already: remove it to compile again")

    def _check_external(self) -> None:
        path = self.external_path
        refused = f"the initializers cannot be written to {path!r}: "
        if "\0" in path:
            raise InvalidArgument(refused + "no file has a NUL in its name")
        if self.path is not None:
            folder = os.path.dirname(os.path.abspath(self.path))
            if os.path.relpath(path, folder).startswith(os.pardir):
                raise InvalidArgument(
                    f"{refused}a model's external data is in its own folder ({folder}) or below"
                )
            if os.path.realpath(path) == os.path.realpath(self.path):
                raise InvalidArgument(refused + "the compiled model itself goes there")
        if os.path.isdir(path):
            raise InvalidArgument(refused + "that is a folder")
        if not os.path.isdir(os.path.dirname(path)):
            raise InvalidArgument(f"{refused}there is no folder {os.path.dirname(path)}")

    @property
    def external_path(self) -> str:
        """Where the large initializers go."""
        assert self.external_file is not None
        folder = os.path.dirname(os.path.abspath(self.path)) if self.path else os.getcwd()
        return os.path.join(folder, self.external_file)


def default_path(model_path: str) -> str:
    """Where the compiled model of a file goes when nothing else is said."""
    return os.path.splitext(model_path)[0] + "_ctx.onnx"


def target_of_options(config: Mapping[str, str], model_path: str | None) -> ContextTarget:
    """Where the compiled model goes that a session's options ask for by ``ep.context_enable``.

    Raises:
        InvalidArgument: there is neither a path for it nor one of the model.
    """
    path = config.get(FILE_PATH) or (default_path(model_path) if model_path else None)
    if path is None:
        raise InvalidArgument(
            "ep.context_enable is set, but there is no path for the compiled model: the model is from "
            f"memory, and {FILE_PATH} is not set"
        )
    return ContextTarget(
        path,
        error_if_exists=True,
        none_if_nothing_compiled=True,
        external_file=config.get(EXTERNAL_INITIALIZERS) or None,
    )


# ---- what plugins hand over ----


def unclaimed_error(node: Node, providers: Iterable[str]) -> NotImplemented:
    """The error for such a node, naming who compiled it."""
    texts = {
        a.name: a.s.decode("utf-8", "replace")
        for a in node.proto.attribute
        if a.type == onnx.AttributeProto.STRING and a.name in ("source", "partition_name", "ep_sdk_version")
    }
    source = texts.get("source")
    what = [f"partition '{texts['partition_name']}'"] if texts.get("partition_name") else []
    if texts.get("ep_sdk_version"):
        what.append(f"version {texts['ep_sdk_version']}")
    holder = (
        f"holds what '{source}' compiled" if source else "holds what a plugin compiled that it does not name"
    )
    about = f" ({', '.join(what)})" if what else ""
    names = ", ".join(providers) or "none"
    return NotImplemented(
        f"node {node.label} {holder}{about}, and no execution provider of the session takes it (they are: "
        f"{names}). Register the library of the plugin that compiled it, and add its devices to the session"
    )


# ---- compatibility ----


def check_compatibility(
    ep: ExecutionProvider, metadata: Mapping[str, str], *, strict: bool, description: str
) -> None:
    """Ask an EP's factory whether what the model says of its compiled code fits the devices at hand.

    Raises:
        ModelRequiresCompilation: it does not, or with ``strict`` less than optimally.
    """
    info = metadata.get(COMPATIBILITY_PREFIX + ep.name)
    if info is None:
        return
    found = ask_compatibility(ep.factory_member("ValidateCompiledModelCompatibilityInfo"), ep.devices, info)
    kinds = OrtCompiledModelCompatibility
    if found in (kinds.EP_NOT_APPLICABLE, kinds.EP_SUPPORTED_OPTIMAL):
        return
    unsupported = found == kinds.EP_UNSUPPORTED
    what = (
        f"{description} was compiled for {ep.name} ('{info}'), which "
        f"{'cannot run it' if unsupported else 'prefers that it be compiled again'} on the device at hand"
    )
    if unsupported or strict:
        raise ModelRequiresCompilation(
            f"{what}: compile the original model again"
            + ("" if unsupported else f" ({FAIL_ON_SUBOPTIMAL} is set)")
        )
    _LOG.warning("%s", what)


def ask_compatibility(validate: Any, devices: Sequence[Any], info: str) -> OrtCompiledModelCompatibility:
    """What a factory says to compatibility information; EP_NOT_APPLICABLE when it has no say.

    Args:
        validate: the factory's ``ValidateCompiledModelCompatibilityInfo``, or None.
        devices: OrtEpDevices, all of that factory.
        info: as the model's metadata has it.

    Raises:
        EPFail: the factory gives what is no answer; or the error that it reports.
    """
    if validate is None:
        return OrtCompiledModelCompatibility.EP_NOT_APPLICABLE
    hardware = [api.EpDevice_Device(device._pointer) for device in devices]
    out = ffi.new("OrtCompiledModelCompatibility*")
    check(
        validate(devices[0]._factory, hardware, len(hardware), info.encode("utf-8", "surrogateescape"), out)
    )
    try:
        return OrtCompiledModelCompatibility(int(out[0]))
    except ValueError:
        raise EPFail(
            f"the factory of {devices[0].ep_name} answers {int(out[0])} to the compatibility information "
            f"'{info}'"
        ) from None


def _compatibility_info(ep: ExecutionProvider, native: NativeGraph, graph: Graph) -> str:
    if ep.member("GetCompiledModelCompatibilityInfo") is None:
        return ""
    return text(ep.ask("GetCompiledModelCompatibilityInfo", native.graphs[id(graph)][0]))


# ---- writing ----


def write_compiled_model(
    model: Model, assignments: Sequence[Assignment], constants: Constants, target: ContextTarget
) -> None:
    """Write the model with EPContext nodes in place of what EPs have compiled.

    The file appears complete or not at all.

    Raises:
        Fail: nothing was compiled although that was asked for (where nodes went to an EP's Compile,
            the partitioner has held it to its EPContext nodes), or the model is too large for protobuf.
        NotImplemented: a node is left that ONNX has no operator for, since an EP's kernel runs it in a layout
            of its own.
        OSError: a file cannot be written.
    """
    writer = _Writer(model, {g.fused.index: g for a in assignments for g in a.groups})
    compiled = [a for a in assignments if any(g.context is not None for g in a.groups)]
    if not compiled:
        complaint = (
            "Unable to compile any nodes to EPContext nodes: either no execution provider of the session "
            "claims nodes to compile, or what it claims is compiled already"
        )
        if target.error_if_nothing_compiled:
            raise Fail(complaint)
        if target.none_if_nothing_compiled:
            _LOG.warning("%s; no compiled model is written", complaint)
            return
        _LOG.warning("%s; the compiled model is the model itself", complaint)
    proto = in_utf8(writer.model)
    if compiled:
        native = NativeGraph(model, model.graph, constants)
        try:
            found = {a.ep.name: _compatibility_info(a.ep, native, model.graph) for a in compiled}
        finally:
            native.release()
        about = dict(model.metadata.custom)
        about.update({COMPATIBILITY_PREFIX + name: info for name, info in found.items() if info})
        onnx.helper.set_model_props(proto, about)
    _Files(target).write(proto, writer.initializers)


class _Writer:
    """Makes protos of what is left of a partitioned model."""

    def __init__(self, model: Model, groups: Mapping[int, Group]) -> None:
        self._model = model
        self._groups = groups
        self._calls: set[tuple[str, str, str]] = set()
        self.initializers: list[Value] = []  # of the main graph, whose data are not in the proto yet
        self._has_context = False

    def model(self) -> onnx.ModelProto:
        model = self._model
        proto = model_proto(model, graph=False)
        body = self._graph(model.graph, frozenset(), main=True)
        proto.graph.CopyFrom(body)
        proto.graph.doc_string = model.metadata.graph_description
        proto.ir_version = max(model.ir_version, 4)  # below, initializers would have to be inputs
        if self._has_context and CONTEXT_DOMAIN not in model.opsets:
            proto.opset_import.add(domain=CONTEXT_DOMAIN, version=1)
        del proto.functions[:]
        proto.functions.extend(self._functions())
        return proto

    def _functions(self) -> list[onnx.FunctionProto]:
        """Those that nodes of the compiled model call, and those that they call."""
        functions = self._model.functions
        waiting = [key for key in functions if key in self._calls]
        needed = set(waiting)
        while waiting:
            for node in functions[waiting.pop()].node:
                key = ("" if node.domain == "ai.onnx" else node.domain, node.op_type, node.overload)
                if key in functions and key not in needed:
                    needed.add(key)
                    waiting.append(key)
        return [as_onnx(onnx.FunctionProto, f) for key, f in functions.items() if key in needed]

    def _graph(self, graph: Graph, outer: frozenset[str], *, main: bool = False) -> onnx.GraphProto:
        protos: list[onnx.NodeProto] = []
        made: dict[str, Value] = {}
        read: dict[str, Value] = {}
        scope = outer | set(graph.values)
        for node in graph.nodes:
            group = self._groups.get(node.index)
            if group is not None and group.context is not None:
                self._has_context = True
                protos.append(as_onnx(onnx.NodeProto, group.context))
                made.update((v.name, v) for v in group.outputs)
                names = set(group.context.input)
                read.update((v.name, v) for v in group_values(group) if v.name in names)
                continue
            for original in group.nodes if group is not None else [node]:
                protos.append(self._node(original, scope))
                made.update((v.name, v) for v in original.outputs if v is not None)
                read.update((v.name, v) for v in original.reads())
        interface = {v.name for v in (*graph.inputs, *graph.outputs)}
        read.update((v.name, v) for v in graph.outputs if v.initializer is not None)
        # An initializer that is no constant is the default of an input, which stays, read or not.
        inputs = [v for v in graph.inputs if v.initializer is None or not v.is_constant]
        read.update((v.name, v) for v in inputs if v.initializer is not None)
        held = [
            v
            for v in read.values()
            if v.initializer is not None and (graph.values.get(v.name) is v or v.name not in scope)
        ]
        proto = onnx.GraphProto(
            name=graph.name,
            node=protos,
            input=[value_info(v) for v in inputs],
            output=[value_info(v) for v in graph.outputs],
            value_info=[
                value_info(v) for v in made.values() if v.name not in interface and v.type is not None
            ],
        )
        if main:
            self.initializers = held
        else:
            proto.initializer.extend(initializer_proto(v) for v in held)
        return proto

    def _node(self, node: Node, scope: frozenset[str]) -> onnx.NodeProto:
        if node.domain == NHWC_DOMAIN:
            raise NotImplemented(
                f"the compiled model would have the node {node.label}, which {node.ep_name or 'an EP'} runs "
                "in its own layout without compiling it: ONNX has no such operator"
            )
        self._has_context |= is_context(node)
        self._calls.add((node.domain, node.op_type, node.message.overload))
        return node_proto(node, lambda graph: self._graph(graph, scope))


class _Files:
    """Puts a model and its initializers where they belong."""

    def __init__(self, target: ContextTarget) -> None:
        self._target = target

    def write(self, proto: onnx.ModelProto, initializers: Sequence[Value]) -> None:
        target = self._target
        with ExitStack() as stack:
            try:
                if target.external_file:
                    self._external(stack, proto, initializers)
                else:
                    for value in initializers:
                        self._place(proto, value)
            except EncodeError:  # of one that is too large by itself
                raise self._too_large() from None
            data = self._serialized(proto)
            # Not opened before: it may be the file that the initializers are read from.
            if target.path is not None:
                with written(target.path) as file:
                    file.write(data)
                    file.flush()  # a full disk is told here
                    stack.close()  # the file of initializers takes its place first: the model names it
        if target.write is not None:
            target.write(data)

    def _serialized(self, proto: onnx.ModelProto) -> bytes:
        try:
            data: bytes = proto.SerializeToString()
        except (EncodeError, ValueError):
            data = b""
        if not data or len(data) > _LARGEST:
            raise self._too_large()
        return data

    def _too_large(self) -> Fail:
        return Fail(
            f"the compiled model is too large for one file ({self._target.path or 'in memory'}): do not "
            "embed the compiled code, and put the initializers into a file of their own"
        )

    def _place(self, proto: onnx.ModelProto, value: Value) -> None:
        placed = self._target.place(value) if self._target.place is not None else None
        if placed is None:
            proto.graph.initializer.append(initializer_proto(value))
        else:
            proto.graph.initializer.append(external_proto(value, *placed))

    def _external(self, stack: ExitStack, proto: onnx.ModelProto, initializers: Sequence[Value]) -> None:
        """Large initializers go, one after the other, into a file beside the model."""
        target = self._target
        path = target.external_path
        location = os.path.relpath(
            path, os.path.dirname(os.path.abspath(target.path)) if target.path else None
        )
        large = [v for v in initializers if external_size(v) > target.external_threshold]
        with_file = {id(v) for v in large}
        for value in initializers:
            if id(value) not in with_file:
                proto.graph.initializer.append(initializer_proto(value))
        if not large:
            return
        file = stack.enter_context(written(path))
        for value in large:
            proto.graph.initializer.append(appended(file, value, location))
