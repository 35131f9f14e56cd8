"""Without memory, whatever builds graphs, claims and kernels says so and takes nothing over."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from typing import Any

import pytest
from ephost._native import ffi, lib
from graph_builder import FLOAT, Builder, float_tensor, inputs_of, nodes_of
from native_objects import Refused, api, c_strings, check, editor, ep_api, live_handles, out, path_text

OUT_OF_MEMORY = "memory"


def made(handle: Any) -> Any:
    """A handle, or the error that there is none."""
    if handle == ffi.NULL:
        raise Refused(1, OUT_OF_MEMORY)
    return handle


def build_a_model_with_the_editor(stack: ExitStack, arm: Callable[[], None]) -> None:
    tensor = float_tensor([1.0, 2.0])
    type_info = out("OrtTypeInfo*", lib.ephost_type_tensor, FLOAT, True, [2], ffi.NULL, 1)
    stack.callback(api.ReleaseTypeInfo, type_info)
    taken: list[Any] = []
    stack.callback(lambda: None if taken else api.ReleaseValue(tensor))
    arm()
    model = out("OrtModel*", editor.CreateModel, c_strings(b"", b"com.x"), [21, 1], 2)
    stack.callback(api.ReleaseModel, model)
    graph = out("OrtGraph*", editor.CreateGraph)
    stack.callback(api.ReleaseGraph, graph)
    values = []
    for _ in range(2):
        values.append(out("OrtValueInfo*", editor.CreateValueInfo, b"x", type_info))
        stack.callback(api.ReleaseValueInfo, values[-1])
    attributes = ffi.new("OrtOpAttr*[2]")
    stack.callback(lambda: [api.ReleaseOpAttr(a) for a in attributes])
    check(api.CreateOpAttr(b"s", c_strings(b"a", b"b"), 2, lib.ORT_OP_ATTR_STRINGS, attributes))
    check(api.CreateOpAttr(b"t", tensor, 1, lib.ORT_OP_ATTR_TENSOR, attributes + 1))
    read, written = c_strings(b"x", b"w"), c_strings(b"m")
    node = out("OrtNode*", editor.CreateNode, b"Add", b"", b"n", read, 2, written, 1, attributes, 2)
    stack.callback(api.ReleaseNode, node)
    check(editor.AddNodeToGraph(graph, node))
    check(editor.SetGraphInputs(graph, values[:1], 1))
    check(editor.SetGraphOutputs(graph, values[1:], 1))
    check(editor.AddInitializerToGraph(graph, b"w", tensor, False))
    taken.append(tensor)
    check(editor.AddGraphToModel(model, graph))
    assert inputs_of(lib.ephost_model_graph(model)) == ["x"]


@ffi.callback("OrtStatus*(void*, const OrtKernelInfo*, OrtKernelImpl**)")
def no_kernel(state: Any, info: Any, kernel: Any) -> Any:
    return ffi.NULL


def one_node(stack: ExitStack) -> Builder:
    b = Builder()
    stack.callback(lib.ephost_graph_free, b.graph)
    b.inputs("x").outputs("y").node("n", ["x"], ["y"], "Relu")
    lib.ephost_node_add_strings(b.nodes["n"], b"ss", c_strings(b"a", b"b"), [1, 1], 2)
    b.finish()
    return b


def register_and_look_up_a_kernel(stack: ExitStack, arm: Callable[[], None]) -> None:
    node = one_node(stack).nodes["n"]
    types = [out("const OrtDataType*", ep_api.GetTensorDataType, FLOAT)]
    arm()
    registry = out("OrtKernelRegistry*", ep_api.CreateKernelRegistry)
    stack.callback(ep_api.ReleaseKernelRegistry, registry)
    builder = out("OrtKernelDefBuilder*", ep_api.CreateKernelDefBuilder)
    stack.callback(ep_api.ReleaseKernelDefBuilder, builder)
    check(ep_api.KernelDefBuilder_SetOperatorType(builder, b"Relu"))
    check(ep_api.KernelDefBuilder_SetDomain(builder, b""))
    check(ep_api.KernelDefBuilder_SetExecutionProvider(builder, b"ep"))
    check(ep_api.KernelDefBuilder_SetSinceVersion(builder, 14, 14))
    check(ep_api.KernelDefBuilder_SetInputMemType(builder, 1, 0))
    check(ep_api.KernelDefBuilder_AddInputOutputAliases(builder, [0], [0], 1))
    check(ep_api.KernelDefBuilder_AddTypeConstraint(builder, b"T", types, 1))
    definition = out("OrtKernelDef*", ep_api.KernelDefBuilder_Build, builder)
    stack.callback(ep_api.ReleaseKernelDef, definition)
    check(ep_api.KernelRegistry_AddKernel(registry, definition, no_kernel, ffi.NULL))
    assert lib.ephost_registry_find(registry, node, b"ep") != ffi.NULL


def ask_as_a_kernel(stack: ExitStack, arm: Callable[[], None]) -> None:
    node = one_node(stack).nodes["n"]
    arm()
    none = ffi.NULL
    info = made(lib.ephost_kernel_info_new(node, none, none, none, none, none, none, none, [none]))
    stack.callback(lib.ephost_kernel_info_free, info)
    stack.callback(api.ReleaseKernelInfo, out("OrtKernelInfo*", api.CopyKernelInfo, info))
    stack.callback(api.ReleaseKeyValuePairs, out("OrtKeyValuePairs*", api.KernelInfo_GetConfigEntries, info))
    stack.callback(api.ReleaseTypeInfo, out("OrtTypeInfo*", api.KernelInfo_GetInputTypeInfo, info, 0))


def claim_nodes(stack: ExitStack, arm: Callable[[], None]) -> None:
    b = one_node(stack)
    arm()
    info = made(lib.ephost_support_info_new(b.graph, ffi.NULL, ffi.NULL))
    stack.callback(lib.ephost_support_info_free, info)
    check(ep_api.EpGraphSupportInfo_AddNodesToFuse(info, nodes_of(b.graph), 1, ffi.NULL))
    check(ep_api.EpGraphSupportInfo_AddSingleNode(info, b.nodes["n"]))
    assert lib.ephost_support_info_claim_count(info) == 2


def read_metadata(stack: ExitStack, arm: Callable[[], None]) -> None:
    b = one_node(stack)
    arm()
    if not lib.ephost_graph_set_metadata(b.graph, b"p", b"g", b"d", b"", b"", 1):
        raise Refused(1, OUT_OF_MEMORY)
    if not lib.ephost_graph_add_metadata(b.graph, b"k\0v", 1):
        raise Refused(1, OUT_OF_MEMORY)
    metadata = out("OrtModelMetadata*", api.Graph_GetModelMetadata, b.graph)
    stack.callback(api.ReleaseModelMetadata, metadata)


def build_and_view_a_graph(stack: ExitStack, arm: Callable[[], None]) -> None:
    arm()
    graph = made(lib.ephost_graph_new(b"g", 10, path_text("/m/x.onnx")))
    stack.callback(lib.ephost_graph_free, graph)
    values = [made(lib.ephost_graph_add_tensor(graph, n, FLOAT, 1, [2], ffi.NULL)) for n in (b"x", b"y")]
    node = made(
        lib.ephost_graph_add_node(graph, 0, b"n", b"Relu", b"", 14, b"", values[:1], 1, values[1:], 1)
    )
    for success in (
        lib.ephost_graph_add_opset(graph, b"", 21),
        lib.ephost_graph_add_input(graph, values[0]),
        lib.ephost_graph_add_output(graph, values[1]),
        lib.ephost_value_set_external(values[0], path_text("/m/x.bin"), 0, 8),
        lib.ephost_node_add_ints(node, b"a", [1], 1),
    ):
        if not success:
            raise Refused(1, OUT_OF_MEMORY)
    check(lib.ephost_graph_finish(graph))
    stack.callback(api.ReleaseGraph, out("OrtGraph*", api.Graph_GetGraphView, graph, [node], 1))


@pytest.mark.parametrize(
    ("scenario", "allocations"),
    [
        (build_and_view_a_graph, 30),
        (build_a_model_with_the_editor, 20),
        (register_and_look_up_a_kernel, 9),
        (ask_as_a_kernel, 5),
        (claim_nodes, 5),
        (read_metadata, 10),
    ],
)
def test_any_allocation_may_fail(
    scenario: Callable[[ExitStack, Callable[[], None]], None], allocations: int
) -> None:
    before, tries, done = live_handles(), 0, False
    while not done:
        with ExitStack() as stack:
            stack.callback(lib.ephost_fail_allocation_after, -1)
            try:
                scenario(stack, lambda n=tries: lib.ephost_fail_allocation_after(n))  # type: ignore[misc]
                done = True
            except Refused as error:
                assert OUT_OF_MEMORY in str(error).lower()
            lib.ephost_fail_allocation_after(-1)
        assert live_handles() == before
        tries += 1
    assert tries > allocations
