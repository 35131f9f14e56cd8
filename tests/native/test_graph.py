"""Graphs as plugins see them: links, flags, attributes, views, claims, metadata and the model editor."""

from __future__ import annotations

import time
from typing import Any

import pytest
from ephost._native import ffi, lib
from graph_builder import (
    FLOAT,
    INT64,
    Builder,
    consumers_of,
    float_tensor,
    floats_of,
    get,
    initializers_of,
    inputs_of,
    many,
    names,
    nodes_of,
    outputs_of,
    path_of,
    producer_of,
    text,
    value_of,
)
from native_objects import Refused, api, check, editor, ep_api, path_text

INVALID_ARGUMENT, NOT_IMPLEMENTED, INVALID_GRAPH, NOT_FOUND = 2, 9, 10, 14
UNDEFINED, INT, INTS, ATTR_FLOAT, FLOATS, STRING, STRINGS, GRAPH, TENSOR = range(9)


def diamond() -> Builder:
    """a -> top -> t -> left, right -> l, r -> bottom -> y; t and y are outputs, w a constant, d a default."""
    b = Builder("diamond", path="/models/d.onnx")
    b.inputs("a", "d").initializer("w").initializer("d", constant=False).outputs("y", "t")
    b.node("top", ["a", "w"], ["t"])
    b.node("left", ["t", "d"], ["l"])
    b.node("right", ["t", "t"], ["r"])
    b.node("bottom", ["l", "r"], ["y"])
    b.finish()
    return b


def flags(value: Any) -> set[str]:
    slots = {
        "required": api.ValueInfo_IsRequiredGraphInput,
        "optional": api.ValueInfo_IsOptionalGraphInput,
        "output": api.ValueInfo_IsGraphOutput,
        "constant": api.ValueInfo_IsConstantInitializer,
        "outer": api.ValueInfo_IsFromOuterScope,
    }
    return {name for name, slot in slots.items() if get(slot, value, "bool")}


def test_links_name_producers_and_every_place_of_consumption() -> None:
    b = diamond()
    assert producer_of(b.values["t"]) == ("top", 0)
    assert producer_of(b.values["a"]) is None
    assert consumers_of(b.values["t"]) == [("left", 0), ("right", 0), ("right", 1)]
    assert consumers_of(b.values["y"]) == []
    assert [text(api.Node_GetName, n) for n in nodes_of(b.graph)] == ["top", "left", "right", "bottom"]
    lib.ephost_graph_free(b.graph)


def test_flags_tell_required_optional_constant_and_output() -> None:
    b = diamond()
    assert [flags(b.values[n]) for n in "adwty"] == [
        {"required"},
        {"optional"},
        {"constant"},
        {"output"},
        {"output"},
    ]
    assert inputs_of(b.graph) == ["a", "d"]
    assert initializers_of(b.graph) == ["w", "d"]
    assert floats_of(get(api.ValueInfo_GetInitializerValue, b.values["w"], "const OrtValue*")) == [1.0, 2.0]
    assert get(api.ValueInfo_GetInitializerValue, b.values["t"], "const OrtValue*") == ffi.NULL
    lib.ephost_graph_free(b.graph)


def test_old_ir_versions_list_constants_as_inputs_that_nobody_may_set() -> None:
    b = Builder(ir_version=3)
    b.inputs("x", "w").initializer("w").outputs("y").node("n", ["x", "w"], ["y"])
    b.finish()
    assert flags(b.values["w"]) == {"constant"}
    lib.ephost_graph_free(b.graph)


def test_left_out_inputs_and_outputs_are_null() -> None:
    b = Builder()
    b.inputs("x", "z").outputs("y")
    node = b.node("clip", ["x", "", "z"], ["", "y"], "Clip")
    b.finish()
    read = many(api.Node_GetNumInputs, api.Node_GetInputs, node, "const OrtValueInfo*")
    made = many(api.Node_GetNumOutputs, api.Node_GetOutputs, node, "const OrtValueInfo*")
    assert (names(read), names(made)) == (["x", None, "z"], [None, "y"])
    assert consumers_of(b.values["z"]) == [("clip", 2)]
    assert producer_of(b.values["y"]) == ("clip", 1)
    lib.ephost_graph_free(b.graph)


def test_a_value_with_two_sources_is_an_invalid_graph() -> None:
    b = Builder()
    b.inputs("x").outputs("y")
    b.node("first", ["x", "x"], ["y"])
    b.node("second", ["x", "x"], ["y"])
    with pytest.raises(Refused, match=r"'y'.*'second'") as error:
        b.finish()
    assert error.value.code == INVALID_GRAPH
    lib.ephost_graph_free(b.graph)


def test_types_keep_shape_and_symbols() -> None:
    b = Builder()
    symbols = [ffi.new("char[]", b"batch"), ffi.new("char[]", b"")]
    value = lib.ephost_graph_add_tensor(b.graph, b"x", INT64, 2, [-1, 3], symbols)
    info, count = ffi.new("const OrtTensorTypeAndShapeInfo**"), ffi.new("size_t*")
    check(api.CastTypeInfoToTensorInfo(get(api.GetValueInfoTypeInfo, value, "const OrtTypeInfo*"), info))
    check(api.GetDimensionsCount(info[0], count))
    dims, shown = ffi.new("int64_t[2]"), ffi.new("const char*[2]")
    check(api.GetDimensions(info[0], dims, 2))
    check(api.GetSymbolicDimensions(info[0], shown, 2))
    assert (count[0], list(dims), [ffi.string(s) for s in shown]) == (2, [-1, 3], [b"batch", b""])
    assert get(api.GetTensorElementType, info[0], "ONNXTensorElementDataType") == INT64
    lib.ephost_graph_free(b.graph)


def test_a_graph_tells_its_model() -> None:
    b = Builder("main", ir_version=9, path="/m/x.onnx")
    for domain, version in ((b"", 21), (b"com.vendor", 2)):
        assert lib.ephost_graph_add_opset(b.graph, domain, version)
    domains, versions = ffi.new("const char*[2]"), ffi.new("int64_t[2]")
    assert get(api.Graph_GetNumOperatorSets, b.graph, "size_t") == 2
    check(api.Graph_GetOperatorSets(b.graph, domains, versions, 2))
    assert ([ffi.string(d) for d in domains], list(versions)) == ([b"", b"com.vendor"], [21, 2])
    assert get(api.Graph_GetOnnxIRVersion, b.graph, "int64_t") == 9
    assert path_of(get(api.Graph_GetModelPath, b.graph, "const ORTCHAR_T*")) == "/m/x.onnx"
    assert text(api.Graph_GetName, b.graph) == "main"
    lib.ephost_graph_free(b.graph)


# ---- attributes ----


def read_attribute(attribute: Any, kind: int, room: int) -> tuple[bytes, int]:
    data, size = ffi.new("char[]", room + 1), ffi.new("size_t*")
    check(api.ReadOpAttr(attribute, kind, data, room, size))
    return bytes(ffi.buffer(data, size[0])), size[0]


def attribute_of(node: Any, name: str) -> Any:
    out = ffi.new("const OrtOpAttr**")
    check(api.Node_GetAttributeByName(node, name.encode(), out))
    return out[0]


def test_attributes_of_each_type_come_back_as_they_went_in() -> None:
    b = Builder()
    node = b.node("n", [], ["y"])
    words = [ffi.new("char[]", w) for w in (b"one", b"", b"t\0o")]
    assert lib.ephost_node_add_int(node, b"i", -5)
    assert lib.ephost_node_add_ints(node, b"is", [1, 2, 3], 3)
    assert lib.ephost_node_add_ints(node, b"none", [], 0)
    assert lib.ephost_node_add_float(node, b"f", 1.5)
    assert lib.ephost_node_add_floats(node, b"fs", [0.5, -2.0], 2)
    assert lib.ephost_node_add_string(node, b"s", b"a\0b", 3)
    assert lib.ephost_node_add_strings(node, b"ss", words, [3, 0, 3], 3)
    assert lib.ephost_node_add_tensor(node, b"t", float_tensor([3.0]))
    listed = many(api.Node_GetNumAttributes, api.Node_GetAttributes, node, "const OrtOpAttr*")
    kinds = [(text(api.OpAttr_GetName, a), get(api.OpAttr_GetType, a, "OrtOpAttrType")) for a in listed]
    assert kinds == [
        ("i", INT),
        ("is", INTS),
        ("none", INTS),
        ("f", ATTR_FLOAT),
        ("fs", FLOATS),
        ("s", STRING),
        ("ss", STRINGS),
        ("t", TENSOR),
    ]
    data, size = read_attribute(attribute_of(node, "is"), INTS, 24)
    assert (list(ffi.from_buffer("int64_t[]", data)), size) == ([1, 2, 3], 24)
    assert list(ffi.from_buffer("int64_t[]", read_attribute(listed[0], INT, 8)[0])) == [-5]
    assert list(ffi.from_buffer("float[]", read_attribute(listed[3], ATTR_FLOAT, 4)[0])) == [1.5]
    assert list(ffi.from_buffer("float[]", read_attribute(listed[4], FLOATS, 8)[0])) == [0.5, -2.0]
    assert read_attribute(listed[2], INTS, 0) == (b"", 0)
    assert read_attribute(listed[5], STRING, 3) == (b"a\0b", 3)
    assert read_attribute(listed[6], STRINGS, 9) == (b"one\0\0t\0o\0", 9)
    out = ffi.new("OrtValue**")
    check(api.OpAttr_GetTensorAttributeAsOrtValue(listed[7], out))
    assert floats_of(out[0]) == [3.0]
    api.ReleaseValue(out[0])
    lib.ephost_graph_free(b.graph)


def test_reading_an_attribute_with_too_little_room_tells_the_size() -> None:
    b = Builder()
    node = b.node("n", [], ["y"])
    lib.ephost_node_add_string(node, b"s", b"four", 4)
    data, size = ffi.new("char[8]", b"unharmed"), ffi.new("size_t*")
    with pytest.raises(Refused, match=r"4 bytes.*room for 3") as error:
        check(api.ReadOpAttr(attribute_of(node, "s"), STRING, data, 3, size))
    assert (error.value.code, size[0], bytes(ffi.buffer(data))) == (INVALID_ARGUMENT, 4, b"unharmed")
    with pytest.raises(Refused):
        check(api.ReadOpAttr(attribute_of(node, "s"), STRING, ffi.NULL, 0, size))
    assert size[0] == 4
    with pytest.raises(Refused, match="has the type 5, not 1"):
        check(api.ReadOpAttr(attribute_of(node, "s"), INT, data, 8, size))
    check(api.ReadOpAttr(attribute_of(node, "s"), INTS, data, 8, size))
    assert size[0] == 0
    lib.ephost_graph_free(b.graph)


def test_an_unset_optional_attribute_is_null_and_an_unknown_one_not_found() -> None:
    b = Builder()
    node = b.node("n", [], ["y"])
    known = [ffi.new("char[]", b"axis")]
    array = ffi.new("const char*[]", known)
    lib.ephost_node_set_schema(node, ffi.NULL, ffi.NULL, ffi.NULL, ffi.NULL, array, 1)
    assert attribute_of(node, "axis") == ffi.NULL
    with pytest.raises(Refused, match="'axes'") as error:
        attribute_of(node, "axes")
    assert error.value.code == NOT_FOUND
    lib.ephost_graph_free(b.graph)


def test_plugins_make_attributes_of_scalars_lists_and_bytes() -> None:
    def make(data: Any, length: int, kind: int) -> Any:
        out = ffi.new("OrtOpAttr**")
        check(api.CreateOpAttr(b"x", data, length, kind, out))
        return out[0]

    words = [ffi.new("char[]", b"q"), ffi.new("char[]", b"")]
    tensor = float_tensor([4.0])
    made = [
        (make(ffi.new("int64_t*", 7), 1, INT), INT, (7).to_bytes(8, "little")),
        (make(ffi.new("float[]", [1.0]), 1, FLOATS), FLOATS, b"\x00\x00\x80\x3f"),
        (make(ffi.new("char[]", b"a\0bc"), 4, STRING), STRING, b"a\0bc"),
        (make(ffi.new("char*[]", words), 2, STRINGS), STRINGS, b"q\0\0"),
        (make(ffi.NULL, 0, INTS), INTS, b""),
    ]
    for attribute, kind, expected in made:
        assert read_attribute(attribute, kind, 16)[0] == expected
        api.ReleaseOpAttr(attribute)
    copied = make(tensor, 1, TENSOR)
    api.ReleaseValue(tensor)
    assert floats_of(lib.ephost_attribute_tensor(copied)) == [4.0]
    api.ReleaseOpAttr(copied)
    api.ReleaseOpAttr(ffi.NULL)
    for bad in [(ffi.NULL, 0, INT), (ffi.NULL, 1, INTS), (words[0], -1, STRING), (words[0], 1, GRAPH)]:
        with pytest.raises(Refused) as error:
            make(*bad)
        assert error.value.code == INVALID_ARGUMENT


# ---- initializers in files, subgraphs, metadata ----


def test_external_data_tells_file_offset_and_size() -> None:
    b = Builder()
    b.initializer("w")
    assert lib.ephost_value_set_external(b.values["w"], path_text("/m/w.bin"), 64, 8)
    info = get(api.ValueInfo_GetExternalInitializerInfo, b.values["w"], "OrtExternalInitializerInfo*")
    assert path_of(api.ExternalInitializerInfo_GetFilePath(info)) == "/m/w.bin"
    assert api.ExternalInitializerInfo_GetFileOffset(info) == 64
    assert api.ExternalInitializerInfo_GetByteSize(info) == 8
    api.ReleaseExternalInitializerInfo(info)
    other = get(api.ValueInfo_GetExternalInitializerInfo, b.value("x"), "OrtExternalInitializerInfo*")
    assert other == ffi.NULL
    lib.ephost_graph_free(b.graph)


def with_subgraph() -> tuple[Builder, Builder]:
    """main: n0 makes m; if reads c and, through its branch, m and the constant k. The branch adds them."""
    main = Builder("main", path="/m/if.onnx")
    main.inputs("x", "c").initializer("k").outputs("y")
    main.node("n0", ["x", "x"], ["m"])
    node = main.node("if", ["c"], ["y"], "If", version=21)
    body = Builder("then")
    for name in ("m", "k"):
        lib.ephost_value_set_outer_scope(body.value(name))
        assert lib.ephost_node_add_implicit_input(node, main.values[name])
    data = get(api.ValueInfo_GetInitializerValue, main.values["k"], "const OrtValue*")
    assert lib.ephost_value_set_initializer(body.values["k"], ffi.cast("OrtValue*", data), False, True)
    body.outputs("o").node("inner", ["m", "k"], ["o"])
    body.finish()
    assert lib.ephost_node_add_graph(node, b"then_branch", body.graph)
    main.finish()
    return main, body


def test_subgraphs_name_their_parent_and_captured_values() -> None:
    main, body = with_subgraph()
    node = main.nodes["if"]
    graphs, attributes = ffi.new("const OrtGraph*[1]"), ffi.new("const char*[1]")
    assert get(api.Node_GetNumSubgraphs, node, "size_t") == 1
    check(api.Node_GetSubgraphs(node, graphs, 1, attributes))
    assert (graphs[0], ffi.string(attributes[0])) == (body.graph, b"then_branch")
    check(api.Node_GetSubgraphs(node, graphs, 1, ffi.NULL))
    assert get(api.Graph_GetParentNode, body.graph, "const OrtNode*") == node
    assert get(api.Graph_GetParentNode, main.graph, "const OrtNode*") == ffi.NULL
    implicit = many(api.Node_GetNumImplicitInputs, api.Node_GetImplicitInputs, node, "const OrtValueInfo*")
    assert names(implicit) == ["m", "k"]
    assert consumers_of(main.values["m"]) == [("if", -1)]
    assert flags(body.values["m"]) == {"outer"}
    assert flags(body.values["k"]) == {"outer", "constant"}
    assert initializers_of(body.graph) == []
    assert producer_of(body.values["m"]) is None
    assert path_of(get(api.Graph_GetModelPath, body.graph, "const ORTCHAR_T*")) == "/m/if.onnx"
    lib.ephost_graph_free(main.graph)


def given_text(slot: Any, metadata: Any, *key: bytes) -> str | None:
    """A string that a slot gives in memory of the CPU allocator."""
    allocator, out = lib.ephost_cpu_allocator(), ffi.new("char**")
    check(slot(metadata, allocator, *key, out))
    if out[0] == ffi.NULL:
        return None
    found = ffi.string(out[0]).decode()
    allocator.Free(allocator, out[0])
    return found


def test_metadata_comes_as_a_copy_in_the_callers_memory() -> None:
    main, body = with_subgraph()
    assert lib.ephost_graph_set_metadata(main.graph, b"maker", b"main", b"org.x", b"what", b"how", 3)
    assert lib.ephost_graph_add_metadata(main.graph, b"", 0)
    assert lib.ephost_graph_add_metadata(main.graph, b"k1\0v1\0k2\0", 2)
    metadata = get(api.Graph_GetModelMetadata, body.graph, "OrtModelMetadata*")
    lib.ephost_graph_free(main.graph)
    texts = [
        given_text(slot, metadata)
        for slot in (
            api.ModelMetadataGetProducerName,
            api.ModelMetadataGetGraphName,
            api.ModelMetadataGetDomain,
            api.ModelMetadataGetDescription,
            api.ModelMetadataGetGraphDescription,
        )
    ]
    assert texts == ["maker", "main", "org.x", "what", "how"]
    assert get(api.ModelMetadataGetVersion, metadata, "int64_t") == 3
    assert given_text(api.ModelMetadataLookupCustomMetadataMap, metadata, b"k1") == "v1"
    assert given_text(api.ModelMetadataLookupCustomMetadataMap, metadata, b"k2") == ""
    assert given_text(api.ModelMetadataLookupCustomMetadataMap, metadata, b"k3") is None
    allocator, keys, count = lib.ephost_cpu_allocator(), ffi.new("char***"), ffi.new("int64_t*")
    check(api.ModelMetadataGetCustomMetadataMapKeys(metadata, allocator, keys, count))
    assert [ffi.string(keys[0][i]) for i in range(count[0])] == [b"k1", b"k2"]
    for i in range(count[0]):
        allocator.Free(allocator, keys[0][i])
    allocator.Free(allocator, keys[0])
    api.ReleaseModelMetadata(metadata)


def test_a_model_that_says_nothing_of_itself_has_empty_metadata() -> None:
    b = diamond()
    metadata = get(api.Graph_GetModelMetadata, b.graph, "OrtModelMetadata*")
    assert given_text(api.ModelMetadataGetProducerName, metadata) == ""
    keys, count = ffi.new("char***"), ffi.new("int64_t*", 5)
    check(api.ModelMetadataGetCustomMetadataMapKeys(metadata, lib.ephost_cpu_allocator(), keys, count))
    assert (keys[0], count[0]) == (ffi.NULL, 0)
    api.ReleaseModelMetadata(metadata)
    lib.ephost_graph_free(b.graph)


# ---- views ----


def test_a_view_has_the_values_that_cross_its_border_as_inputs_and_outputs() -> None:
    b = diamond()
    view = b.view(["right", "top"])
    assert (inputs_of(view), outputs_of(view)) == (["a"], ["t", "r"])
    assert initializers_of(view) == ["w"]
    assert [text(api.Node_GetName, n) for n in nodes_of(view)] == ["top", "right"]
    assert [get(api.Node_GetId, n, "size_t") for n in nodes_of(view)] == [0, 2]
    assert consumers_of(value_of(view, "t")) == [("right", 0), ("right", 1)]
    assert flags(value_of(view, "r")) == {"output"}
    assert get(api.Node_GetGraph, nodes_of(view)[0], "const OrtGraph*") == view
    assert consumers_of(b.values["t"]) == [("left", 0), ("right", 0), ("right", 1)]
    assert flags(b.values["r"]) == set()
    api.ReleaseGraph(view)
    lib.ephost_graph_free(b.graph)


def test_what_a_view_takes_from_other_nodes_is_a_required_input() -> None:
    b = diamond()
    view = b.view(["left", "bottom"])
    assert (inputs_of(view), outputs_of(view)) == (["t", "d", "r"], ["y"])
    assert flags(value_of(view, "t")) == {"required"}
    assert flags(value_of(view, "d")) == {"optional"}
    assert producer_of(value_of(view, "t")) is None
    assert path_of(get(api.Graph_GetModelPath, view, "const ORTCHAR_T*")) == "/models/d.onnx"
    api.ReleaseGraph(view)
    lib.ephost_graph_free(b.graph)


def test_a_value_that_only_the_view_reads_does_not_leave_it() -> None:
    b = Builder()
    b.inputs("x").outputs("y")
    b.node("split", ["x"], ["p", "q", "unread"], "Split")
    b.node("add", ["p", "q"], ["s"])
    b.node("end", ["s", "q"], ["y"])
    b.finish()
    view = b.view(["split", "add"])
    assert outputs_of(view) == ["q", "s"]
    api.ReleaseGraph(view)
    lib.ephost_graph_free(b.graph)


def test_captured_values_are_inputs_of_a_view() -> None:
    main, body = with_subgraph()
    view = main.view(["if"])
    assert (inputs_of(view), outputs_of(view)) == (["c", "m"], ["y"])
    assert consumers_of(value_of(view, "m")) == [("if", -1)]
    inner = body.view(["inner"])
    assert inputs_of(inner) == ["m"]
    assert flags(value_of(inner, "m")) == {"required", "outer"}
    assert get(api.Graph_GetParentNode, inner, "const OrtNode*") == ffi.NULL
    api.ReleaseGraph(inner)
    api.ReleaseGraph(view)
    lib.ephost_graph_free(main.graph)


def test_a_view_of_a_view_and_nodes_of_either_graph_are_fine() -> None:
    b = diamond()
    outer = b.view(["top", "left", "right"])
    out = ffi.new("OrtGraph**")
    check(api.Graph_GetGraphView(outer, [b.nodes["left"], nodes_of(outer)[0]], 2, out))
    assert (inputs_of(out[0]), outputs_of(out[0])) == (["a", "d"], ["t", "l"])
    api.ReleaseGraph(out[0])
    with pytest.raises(Refused, match=r"'bottom'.*is not in graph"):
        check(api.Graph_GetGraphView(outer, [b.nodes["bottom"]], 1, out))
    assert out[0] == ffi.NULL
    api.ReleaseGraph(outer)
    lib.ephost_graph_free(b.graph)


def test_a_compiled_groups_view_has_the_inputs_it_was_given() -> None:
    b = diamond()
    out = ffi.new("OrtGraph**")
    group = [b.nodes["top"]]
    inputs = [b.values["w"], b.values["a"]]
    check(lib.ephost_graph_view(b.graph, b"EP_1_0", group, 1, inputs, 2, [b.values["t"]], 1, out))
    view = out[0]
    assert text(api.Graph_GetName, view) == "EP_1_0"
    assert (inputs_of(view), initializers_of(view)) == (["w", "a"], ["w"])
    assert flags(value_of(view, "w")) == {"constant", "optional"}
    lib.ephost_graph_free(view)
    check(lib.ephost_graph_view(b.graph, b"EP_1_1", group, 1, inputs[1:], 1, [b.values["t"]], 1, out))
    assert (inputs_of(out[0]), initializers_of(out[0])) == (["a"], ["w"])
    assert flags(value_of(out[0], "w")) == {"constant"}
    lib.ephost_graph_free(out[0])
    lib.ephost_graph_free(b.graph)


def test_a_view_refuses_what_is_no_set_of_nodes_of_its_graph() -> None:
    b, other = diamond(), diamond()
    out = ffi.new("OrtGraph**")
    for chosen, match in [
        ([], "num_nodes > 0"),
        ([ffi.NULL], "is NULL"),
        ([other.nodes["top"]], "'top'.*is not in graph"),
        ([b.nodes["top"], b.nodes["top"]], "'top'.*twice"),
    ]:
        with pytest.raises(Refused, match=match) as error:
            check(api.Graph_GetGraphView(b.graph, chosen, len(chosen), out))
        assert error.value.code == INVALID_ARGUMENT
    for builder in (b, other):
        api.ReleaseGraph(builder.graph)  # is the host's: nothing happens
        assert inputs_of(builder.graph) == ["a", "d"]
        lib.ephost_graph_free(builder.graph)


# ---- claims ----


def test_claims_come_back_in_order_with_their_kind_and_options() -> None:
    b = diamond()
    info = lib.ephost_support_info_new(b.graph, ffi.NULL, ffi.NULL)
    options = ffi.new(
        "OrtNodeFusionOptions*", {"ort_version_supported": 23, "drop_constant_initializers": True}
    )
    pair = [b.nodes["right"], b.nodes["left"]]
    check(ep_api.EpGraphSupportInfo_AddNodesToFuse(info, pair, 2, options))
    check(ep_api.EpGraphSupportInfo_AddNodesToFuse(info, [b.nodes["top"]], 1, ffi.NULL))
    view = b.view(["bottom"])
    check(ep_api.EpGraphSupportInfo_AddSingleNode(info, nodes_of(view)[0]))
    api.ReleaseGraph(view)
    claims = ffi.new("EphostClaim[]", lib.ephost_support_info_claim_count(info))
    ids = ffi.new("size_t[]", lib.ephost_support_info_node_count(info))
    lib.ephost_support_info_read(info, claims, ids)
    found = [(c.node_count, c.single, c.drops_constants) for c in claims]
    assert found == [(2, False, True), (1, False, False), (1, True, False)]
    assert list(ids) == [2, 1, 0, 3]
    lib.ephost_support_info_free(info)
    lib.ephost_graph_free(b.graph)


def test_claims_of_what_is_no_node_of_the_graph_are_refused() -> None:
    b, other = diamond(), diamond()
    info = lib.ephost_support_info_new(b.graph, ffi.NULL, ffi.NULL)
    top = b.nodes["top"]
    for chosen, match in [
        ([], "num_nodes > 0"),
        ([top, ffi.NULL], "node 1 of 2 is NULL"),
        ([top, other.nodes["left"]], r"'left' \(Add\) is not in graph 'diamond'"),
        ([top, top], r"'top' \(Add\) is there twice"),
        ([top] * 5, "5 nodes, but graph 'diamond' has 4"),
    ]:
        with pytest.raises(Refused, match=match) as error:
            check(ep_api.EpGraphSupportInfo_AddNodesToFuse(info, chosen, len(chosen), ffi.NULL))
        assert error.value.code == INVALID_ARGUMENT
    with pytest.raises(Refused, match="NULL"):
        check(ep_api.EpGraphSupportInfo_AddSingleNode(info, ffi.NULL))
    assert lib.ephost_support_info_claim_count(info) == 0
    lib.ephost_support_info_free(info)
    lib.ephost_graph_free(b.graph)
    lib.ephost_graph_free(other.graph)


# ---- the model editor ----


def tensor_type(element_type: int = FLOAT, dims: list[int] | None = None) -> Any:
    info, out = ffi.new("OrtTensorTypeAndShapeInfo**"), ffi.new("OrtTypeInfo**")
    check(api.CreateTensorTypeAndShapeInfo(info))
    check(api.SetTensorElementType(info[0], element_type))
    check(api.SetDimensions(info[0], dims or [2], len(dims or [2])))
    check(editor.CreateTensorTypeInfo(info[0], out))
    api.ReleaseTensorTypeAndShapeInfo(info[0])
    return out[0]


def editor_value(name: bytes) -> Any:
    out, type_info = ffi.new("OrtValueInfo**"), tensor_type()
    check(editor.CreateValueInfo(name, type_info, out))
    api.ReleaseTypeInfo(type_info)
    return out[0]


def editor_node(name: bytes, inputs: list[bytes], outputs: list[bytes], attributes: Any = ffi.NULL) -> Any:
    read, made = [ffi.new("char[]", n) for n in inputs], [ffi.new("char[]", n) for n in outputs]
    count = 0 if attributes == ffi.NULL else len(attributes)
    out = ffi.new("OrtNode**")
    check(
        editor.CreateNode(b"Add", b"ai.onnx", name, read, len(read), made, len(made), attributes, count, out)
    )
    return out[0]


def test_an_editors_model_can_be_read_back() -> None:
    attribute, graph, model = ffi.new("OrtOpAttr*[1]"), ffi.new("OrtGraph**"), ffi.new("OrtModel**")
    check(api.CreateOpAttr(b"note", b"hi", 2, STRING, attribute))
    second = editor_node(b"second", [b"m", b"w", b""], [b"y"], attribute)
    assert attribute[0] == ffi.NULL
    check(editor.CreateGraph(graph))
    inputs, outputs = ffi.new("OrtValueInfo*[]", [editor_value(b"x")]), [editor_value(b"y")]
    check(editor.SetGraphInputs(graph[0], inputs, 1))
    assert inputs[0] == ffi.NULL
    check(editor.SetGraphOutputs(graph[0], ffi.new("OrtValueInfo*[]", outputs), 1))
    check(editor.AddInitializerToGraph(graph[0], b"w", float_tensor([5.0, 6.0]), False))
    first = editor_node(b"first", [b"x", b"x"], [b"m"])
    for node in (first, second):
        check(editor.AddNodeToGraph(graph[0], node))
    versions = [ffi.new("char[]", b""), ffi.new("char[]", b"com.x")]
    check(editor.CreateModel(versions, [21, 1], 2, model))
    check(editor.AddGraphToModel(model[0], graph[0]))
    for release, handle in ((api.ReleaseNode, first), (api.ReleaseGraph, graph[0])):
        release(handle)  # belongs to the model by now: nothing happens
    read = lib.ephost_model_graph(model[0])
    assert (inputs_of(read), outputs_of(read), initializers_of(read)) == (["x"], ["y"], ["w"])
    assert [text(api.Node_GetName, n) for n in nodes_of(read)] == ["first", "second"]
    assert producer_of(value_of(read, "y")) == ("second", 0)
    assert consumers_of(value_of(read, "m")) == [("second", 0)]
    assert consumers_of(value_of(read, "x")) == [("first", 0), ("first", 1)]
    assert floats_of(lib.ephost_value_initializer(value_of(read, "w"))) == [5.0, 6.0]
    values = many(api.Node_GetNumInputs, api.Node_GetInputs, second, "const OrtValueInfo*")
    assert names(values) == ["m", "w", None]
    assert text(api.Node_GetDomain, second) == ""
    assert read_attribute(attribute_of(second, "note"), STRING, 2)[0] == b"hi"
    version = ffi.new("int*")
    opsets = []
    for i in range(lib.ephost_model_opset_count(model[0])):
        opsets.append((ffi.string(lib.ephost_model_opset(model[0], i, version)), version[0]))
    assert opsets == [(b"", 21), (b"com.x", 1)]
    api.ReleaseModel(model[0])


def test_an_editors_node_takes_an_attribute_once() -> None:
    made, twice = ffi.new("OrtOpAttr*[1]"), ffi.new("OrtOpAttr*[2]")
    check(api.CreateOpAttr(b"note", b"hi", 2, STRING, made))
    twice[0] = twice[1] = made[0]
    with pytest.raises(Refused, match="attribute 1 of node 'n' is there twice") as error:
        editor_node(b"n", [], [b"y"], twice)
    assert error.value.code == INVALID_ARGUMENT
    assert twice[0] == twice[1] == made[0]  # nothing was taken over
    api.ReleaseOpAttr(made[0])


def test_an_editors_lone_node_has_names_and_no_values() -> None:
    node = editor_node(b"lone", [b"a", b""], [b"b"])
    assert get(api.Node_GetNumInputs, node, "size_t") == 2
    assert [ffi.string(lib.ephost_node_input_name(node, i)) for i in range(2)] == [b"a", b""]
    assert ffi.string(lib.ephost_node_output_name(node, 0)) == b"b"
    out = ffi.new("const OrtValueInfo*[2]")
    with pytest.raises(Refused) as error:
        check(api.Node_GetInputs(node, out, 2))
    assert error.value.code == NOT_IMPLEMENTED
    api.ReleaseNode(node)


def test_nothing_is_taken_over_twice() -> None:
    graph, model, second = ffi.new("OrtGraph**"), ffi.new("OrtModel**"), ffi.new("OrtModel**")
    check(editor.CreateGraph(graph))
    node, value, tensor = editor_node(b"n", [b"x"], [b"y"]), editor_value(b"x"), float_tensor([1.0])
    check(editor.AddNodeToGraph(graph[0], node))
    check(editor.AddInitializerToGraph(graph[0], b"w", tensor, False))
    for models in (model, second):
        check(editor.CreateModel(ffi.NULL, ffi.NULL, 0, models))
    with pytest.raises(Refused, match="'x' is there twice"):
        check(editor.SetGraphInputs(graph[0], [value, value], 2))
    check(editor.SetGraphInputs(graph[0], [value], 1))
    check(editor.AddGraphToModel(model[0], graph[0]))
    for status in (
        editor.AddNodeToGraph(graph[0], node),
        editor.SetGraphInputs(graph[0], [value], 1),
        editor.SetGraphOutputs(graph[0], [value], 1),
        editor.AddInitializerToGraph(graph[0], b"w", tensor, False),
        editor.AddInitializerToGraph(graph[0], b"v", tensor, False),
        editor.AddGraphToModel(second[0], graph[0]),
        editor.AddGraphToModel(model[0], graph[0]),
    ):
        with pytest.raises(Refused) as error:
            check(status)
        assert error.value.code == INVALID_ARGUMENT
    api.ReleaseModel(model[0])
    api.ReleaseModel(second[0])


def test_an_editors_input_with_an_initializer_has_a_default() -> None:
    graph, model = ffi.new("OrtGraph**"), ffi.new("OrtModel**")
    check(editor.CreateGraph(graph))
    check(editor.AddInitializerToGraph(graph[0], b"x", float_tensor([1.0]), False))
    check(editor.SetGraphInputs(graph[0], [editor_value(b"x")], 1))
    check(editor.SetGraphOutputs(graph[0], [editor_value(b"x")], 1))
    check(editor.CreateModel(ffi.NULL, ffi.NULL, 0, model))
    check(editor.AddGraphToModel(model[0], graph[0]))
    assert lib.ephost_graph_input(graph[0], 0) == lib.ephost_graph_initializer(graph[0], 0)
    assert flags(lib.ephost_graph_output(graph[0], 0)) == {"optional", "output"}
    api.ReleaseModel(model[0])


def test_an_editors_graph_that_makes_a_value_twice_is_refused_and_stays_the_plugins() -> None:
    graph, model = ffi.new("OrtGraph**"), ffi.new("OrtModel**")
    check(editor.CreateGraph(graph))
    for name in (b"one", b"two"):
        check(editor.AddNodeToGraph(graph[0], editor_node(name, [b"x"], [b"y"])))
    check(editor.CreateModel(ffi.NULL, ffi.NULL, 0, model))
    inputs = ffi.new("OrtValueInfo*[]", [editor_value(b"x")])
    x = inputs[0]
    check(editor.SetGraphInputs(graph[0], inputs, 1))
    with pytest.raises(Refused, match=r"'y'.*'two'") as error:
        check(editor.AddGraphToModel(model[0], graph[0]))
    assert error.value.code == INVALID_GRAPH
    assert consumers_of(x) == []  # nobody knows yet who reads it
    api.ReleaseGraph(graph[0])
    api.ReleaseModel(model[0])


# ---- bad arguments, size, memory ----


def test_no_getter_crashes_on_null() -> None:
    scratch = ffi.new("char[64]")
    prefixes = (
        "Graph_",
        "Node_",
        "ValueInfo_",
        "OpAttr_",
        "ModelMetadata",
        "ExternalInitializerInfo_",
        "GetValueInfo",
    )
    status_type, refused = ffi.typeof("OrtStatus*"), set()
    for member, field in ffi.typeof("OrtApi").fields:
        if not member.startswith(prefixes):
            continue
        kinds = field.type.args
        nothing = [ffi.NULL if kind.kind == "pointer" else 0 for kind in kinds]
        no_object = nothing[:1] + [
            ffi.cast(kind, scratch) if kind.kind == "pointer" else 0 for kind in kinds[1:]
        ]
        for arguments in (nothing, no_object):
            result = getattr(api, member)(*arguments)
            if field.type.result is status_type:
                with pytest.raises(Refused) as error:
                    check(result)
                assert error.value.code == INVALID_ARGUMENT, member
                refused.add(member)
    assert len(refused) > 45


def test_lists_need_room_for_all_and_take_more() -> None:
    b = diamond()
    out = ffi.new("const OrtNode*[6]")
    with pytest.raises(Refused, match="there are 4, but room for 3"):
        check(api.Graph_GetNodes(b.graph, out, 3))
    check(api.Graph_GetNodes(b.graph, out, 6))
    assert out[3] == b.nodes["bottom"] and out[4] == ffi.NULL
    lib.ephost_graph_free(b.graph)


def time_of_a_chain(length: int) -> tuple[float, float]:
    """Processor time to build a graph of so many nodes; and to view it, and each tenth node, and free it."""
    start = time.thread_time()
    b = Builder()
    b.inputs("v0").outputs(f"v{length}")
    for i in range(length):
        node = b.node(f"n{i}", [f"v{i}", f"v{max(i - 1, 0)}"], [f"v{i + 1}"])
        lib.ephost_node_add_ints(node, b"axes", [i, 1], 2)
    b.finish()
    built = time.thread_time()
    view = b.view([f"n{i}" for i in range(length)])
    assert (inputs_of(view), outputs_of(view)) == (["v0"], [f"v{length}"])
    api.ReleaseGraph(view)
    for i in range(0, length, 10):
        api.ReleaseGraph(b.view([f"n{i}"]))
    lib.ephost_graph_free(b.graph)
    return built - start, time.thread_time() - built


@pytest.mark.resources
def test_time_to_build_view_and_free_a_graph_grows_as_its_nodes_do() -> None:
    """Ten times the nodes: ten times the time, not a hundred. A ratio is the same on a slow machine."""
    few, many = (
        [min(times) for times in zip(*(time_of_a_chain(length) for _ in range(3)), strict=True)]
        for length in (1_000, 10_000)
    )
    assert many[0] < 40 * few[0] and many[1] < 40 * few[1]
