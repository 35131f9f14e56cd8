"""Kernel registries: what a description holds, which nodes it fits, what a kernel may ask about its node."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from typing import Any

import pytest
from ephost._native import ffi, lib
from graph_builder import DOUBLE, FLOAT, INT64, Builder, float_tensor, floats_of, get
from native_objects import Refused, api, check, ep_api

INT_MAX = 2**31 - 1
FAIL, INVALID_ARGUMENT, EP_FAIL = 1, 2, 11
DEFAULT, CPU_INPUT, CPU_OUTPUT = 0, -2, -1


@pytest.fixture
def registry() -> Iterator[Any]:
    out = ffi.new("OrtKernelRegistry**")
    check(ep_api.CreateKernelRegistry(out))
    yield out[0]
    ep_api.ReleaseKernelRegistry(out[0])


@ffi.callback("OrtStatus*(void*, const OrtKernelInfo*, OrtKernelImpl**)")
def no_kernel(state: Any, info: Any, out: Any) -> Any:
    return ffi.NULL


def data_type(element_type: int) -> Any:
    out = ffi.new("const OrtDataType**")
    check(ep_api.GetTensorDataType(element_type, out))
    return out[0]


def describe(
    op_type: str = "Add",
    domain: str = "",
    versions: tuple[int, int] = (1, INT_MAX),
    constraints: dict[str, Sequence[int]] | None = None,
    ep: str = "ep",
) -> Any:
    """A kernel's description; release it with ReleaseKernelDef."""
    builder, out = ffi.new("OrtKernelDefBuilder**"), ffi.new("OrtKernelDef**")
    check(ep_api.CreateKernelDefBuilder(builder))
    check(ep_api.KernelDefBuilder_SetOperatorType(builder[0], op_type.encode()))
    check(ep_api.KernelDefBuilder_SetDomain(builder[0], domain.encode()))
    check(ep_api.KernelDefBuilder_SetSinceVersion(builder[0], *versions))
    check(ep_api.KernelDefBuilder_SetExecutionProvider(builder[0], ep.encode()))
    for name, types in (constraints or {}).items():
        handles = [data_type(t) for t in types]
        check(ep_api.KernelDefBuilder_AddTypeConstraint(builder[0], name.encode(), handles, len(handles)))
    check(ep_api.KernelDefBuilder_Build(builder[0], out))
    ep_api.ReleaseKernelDefBuilder(builder[0])
    return out[0]


def add(registry: Any, create: Any = no_kernel, **description: Any) -> None:
    definition = describe(**description)
    try:
        check(ep_api.KernelRegistry_AddKernel(registry, definition, create, ffi.NULL))
    finally:
        ep_api.ReleaseKernelDef(definition)


class Schemas:
    """Schema names for nodes; keeps the C strings alive."""

    def __init__(self) -> None:
        self.kept: list[Any] = []

    def names(self, texts: Sequence[str]) -> Any:
        strings = [ffi.new("char[]", t.encode()) if t else ffi.NULL for t in texts]
        array = ffi.new("const char*[]", strings)
        self.kept += [strings, array]
        return array

    def set(self, node: Any, inputs: Sequence[tuple[str, str]], outputs: Sequence[tuple[str, str]]) -> None:
        """Of each input and output: (type parameter, formal name)."""
        arrays = [self.names([pair[k] for pair in pairs]) for pairs in (inputs, outputs) for k in (0, 1)]
        lib.ephost_node_set_schema(node, *arrays, ffi.NULL, 0)


@pytest.fixture
def nodes() -> Iterator[dict[str, Any]]:
    """add: float + float; cast: int64 -> double; range: left out, int64; each with its schema's names."""
    b, schemas = Builder(), Schemas()
    for name, element_type in (("x", FLOAT), ("y", FLOAT), ("i", INT64), ("d", DOUBLE)):
        b.value(name, element_type)
    b.node("add", ["x", "x"], ["y"], "Add", version=14)
    b.node("cast", ["i"], ["d"], "Cast", version=13)
    b.node("pick", ["", "i"], ["q"], "Pick", "com.x", 1)
    b.finish()
    schemas.set(b.nodes["add"], [("T", "A"), ("T", "B")], [("T", "C")])
    schemas.set(b.nodes["cast"], [("T1", "input")], [("T2", "output")])
    schemas.set(b.nodes["pick"], [("T", "first"), ("T", "second")], [("", "out")])
    yield b.nodes
    lib.ephost_graph_free(b.graph)


def finds(registry: Any, node: Any, ep: bytes | Any = ffi.NULL) -> bool:
    return bool(lib.ephost_registry_find(registry, node, ep) != ffi.NULL)


@pytest.mark.parametrize(
    ("versions", "fits"),
    [
        ((14, INT_MAX), True),
        ((13, INT_MAX), False),
        ((15, INT_MAX), False),
        ((14, 14), True),
        ((7, 14), True),
        ((7, 20), True),
        ((7, 13), False),
        ((15, 20), False),
    ],
)
def test_a_version_range_must_hold_the_nodes_version(
    registry: Any, nodes: dict[str, Any], versions: tuple[int, int], fits: bool
) -> None:
    add(registry, versions=versions)
    assert finds(registry, nodes["add"]) == fits


@pytest.mark.parametrize(("domain", "fits"), [("", True), ("ai.onnx", True), ("com.x", False)])
def test_the_standards_domain_has_two_names(
    registry: Any, nodes: dict[str, Any], domain: str, fits: bool
) -> None:
    add(registry, versions=(14, 14), domain=domain)
    assert finds(registry, nodes["add"]) == fits


@pytest.mark.parametrize(
    ("constraints", "fits"),
    [
        ({"T": [FLOAT]}, True),
        ({"T": [DOUBLE, FLOAT]}, True),
        ({"T": [DOUBLE]}, False),
        ({"A": [FLOAT]}, True),
        ({"B": [DOUBLE]}, False),
        ({"C": [INT64]}, False),
        ({"Nothing": [INT64]}, True),
        ({}, True),
    ],
)
def test_type_constraints_hold_by_type_parameter_and_formal_name(
    registry: Any, nodes: dict[str, Any], constraints: dict[str, Sequence[int]], fits: bool
) -> None:
    add(registry, versions=(14, 14), constraints=constraints)
    assert finds(registry, nodes["add"]) == fits


def test_all_constraints_must_hold_and_outputs_count(registry: Any, nodes: dict[str, Any]) -> None:
    add(registry, op_type="Cast", versions=(13, 13), constraints={"T1": [INT64], "T2": [FLOAT]})
    assert not finds(registry, nodes["cast"])
    add(registry, op_type="Cast", versions=(13, 13), constraints={"T1": [INT64], "T2": [DOUBLE]})
    assert finds(registry, nodes["cast"])


def test_a_left_out_input_leaves_the_constraint_to_the_next(registry: Any, nodes: dict[str, Any]) -> None:
    add(registry, op_type="Pick", domain="com.x", constraints={"T": [FLOAT]})
    assert not finds(registry, nodes["pick"])
    add(registry, op_type="Pick", domain="com.x", constraints={"T": [INT64]})
    assert finds(registry, nodes["pick"])


def test_another_eps_kernels_are_not_found(registry: Any, nodes: dict[str, Any]) -> None:
    add(registry, versions=(14, 14), ep="ep")
    assert finds(registry, nodes["add"], b"ep")
    assert not finds(registry, nodes["add"], b"other")


def test_a_plugin_looks_its_kernels_up_while_it_claims(registry: Any, nodes: dict[str, Any]) -> None:
    add(registry, versions=(14, 14), constraints={"T": [FLOAT]})
    name = ffi.new("char[]", b"ep")
    get_name = ffi.callback(dict(ffi.typeof("OrtEp").fields)["GetName"].type, lambda ep: name)
    ep = ffi.new("OrtEp*", {"ort_version_supported": 24, "GetName": get_name})
    graph = get(api.Node_GetGraph, nodes["add"], "const OrtGraph*")
    info, out = lib.ephost_support_info_new(graph, ep, registry), ffi.new("const OrtKernelDef**")
    check(ep_api.EpGraphSupportInfo_LookUpKernel(info, nodes["add"], out))
    assert ffi.string(ep_api.KernelDef_GetOperatorType(out[0])) == b"Add"
    check(ep_api.EpGraphSupportInfo_LookUpKernel(info, nodes["cast"], out))
    assert out[0] == ffi.NULL
    lib.ephost_support_info_free(info)


def test_a_constraint_that_the_operator_does_not_know_is_an_error(
    registry: Any, nodes: dict[str, Any]
) -> None:
    add(registry, versions=(14, 14), constraints={"A": [FLOAT]})
    known = Schemas()
    lib.ephost_node_set_constraint_names(nodes["add"], known.names(["T"]), 1)
    graph = get(api.Node_GetGraph, nodes["add"], "const OrtGraph*")
    info, out = lib.ephost_support_info_new(graph, ffi.NULL, registry), ffi.new("const OrtKernelDef**")
    with pytest.raises(Refused, match=r"Add.*'A'") as error:
        check(ep_api.EpGraphSupportInfo_LookUpKernel(info, nodes["add"], out))
    assert (error.value.code, out[0]) == (FAIL, ffi.NULL)
    add(registry, versions=(14, 14), constraints={"T": [FLOAT]}, ep="other")
    check(ep_api.EpGraphSupportInfo_LookUpKernel(info, nodes["add"], out))
    assert out[0] != ffi.NULL
    lib.ephost_support_info_free(info)


def test_a_description_tells_what_was_set() -> None:
    builder, out = ffi.new("OrtKernelDefBuilder**"), ffi.new("OrtKernelDef**")
    check(ep_api.CreateKernelDefBuilder(builder))
    check(ep_api.KernelDefBuilder_SetOperatorType(builder[0], b"Mul"))
    check(ep_api.KernelDefBuilder_SetSinceVersion(builder[0], 7, 13))
    check(ep_api.KernelDefBuilder_SetInputMemType(builder[0], 2, CPU_INPUT))
    check(ep_api.KernelDefBuilder_SetOutputMemType(builder[0], 0, CPU_OUTPUT))
    check(ep_api.KernelDefBuilder_Build(builder[0], out))
    with pytest.raises(Refused):
        check(ep_api.KernelDefBuilder_SetOperatorType(builder[0], b"Add"))
    ep_api.ReleaseKernelDefBuilder(builder[0])
    definition, first, last = out[0], ffi.new("int*"), ffi.new("int*")
    check(ep_api.KernelDef_GetSinceVersion(definition, first, last))
    assert (first[0], last[0]) == (7, 13)
    assert ffi.string(ep_api.KernelDef_GetOperatorType(definition)) == b"Mul"
    assert ffi.string(ep_api.KernelDef_GetDomain(definition)) == b""
    assert ffi.string(ep_api.KernelDef_GetExecutionProvider(definition)) == b""
    kind = ffi.new("OrtMemType*")
    found = []
    for index in range(4):
        check(ep_api.KernelDef_GetInputMemType(definition, index, kind))
        found.append(kind[0])
    check(ep_api.KernelDef_GetOutputMemType(definition, 0, kind))
    assert (found, kind[0]) == ([DEFAULT, DEFAULT, CPU_INPUT, DEFAULT], CPU_OUTPUT)
    ep_api.ReleaseKernelDef(definition)


def test_a_registry_keeps_a_released_description(registry: Any, nodes: dict[str, Any]) -> None:
    add(registry, versions=(14, 14))
    entry = lib.ephost_registry_find(registry, nodes["add"], ffi.NULL)
    assert ffi.string(ep_api.KernelDef_GetOperatorType(lib.ephost_entry_def(entry))) == b"Add"


def test_kernels_that_nothing_tells_apart_conflict(registry: Any) -> None:
    add(registry, versions=(7, 13), constraints={"T": [FLOAT, DOUBLE]})
    with pytest.raises(Refused, match=r"Add.*7 to 13") as error:
        add(registry, versions=(13, 14), constraints={"T": [FLOAT]})
    assert error.value.code == FAIL
    add(registry, versions=(14, 14), constraints={"T": [FLOAT]})
    add(registry, versions=(7, 13), constraints={"T": [INT64]})
    add(registry, versions=(7, 13), constraints={"T": [FLOAT]}, domain="com.x")
    assert lib.ephost_registry_size(registry) == 4


def test_bad_descriptions_are_refused() -> None:
    builder, out = ffi.new("OrtKernelDefBuilder**"), ffi.new("OrtKernelDef**")
    types = ffi.new("const OrtDataType**")
    check(ep_api.CreateKernelDefBuilder(builder))
    b = builder[0]
    for status in (
        ep_api.KernelDefBuilder_SetOperatorType(b, ffi.NULL),
        ep_api.KernelDefBuilder_SetSinceVersion(b, 0, 3),
        ep_api.KernelDefBuilder_SetSinceVersion(b, 5, 4),
        ep_api.KernelDefBuilder_SetInputMemType(b, 2**40, DEFAULT),
        ep_api.KernelDefBuilder_AddTypeConstraint(b, b"T", [ffi.NULL], 1),
        ep_api.KernelDefBuilder_AddTypeConstraint(b, b"T", ffi.NULL, 0),
        ep_api.KernelDefBuilder_AddInputOutputAliases(b, [-2], [0], 1),
        ep_api.KernelDefBuilder_Build(b, out),  # without an operator
        ep_api.KernelDefBuilder_Build(ffi.NULL, out),
        ep_api.KernelRegistry_AddKernel(ffi.NULL, ffi.NULL, no_kernel, ffi.NULL),
        ep_api.GetTensorDataType(0, types),
        ep_api.GetTensorDataType(27, types),
    ):
        with pytest.raises(Refused) as error:
            check(status)
        assert error.value.code == INVALID_ARGUMENT
    assert (out[0], types[0]) == (ffi.NULL, ffi.NULL)
    ep_api.ReleaseKernelDefBuilder(b)
    for release in (ep_api.ReleaseKernelDefBuilder, ep_api.ReleaseKernelDef, ep_api.ReleaseKernelRegistry):
        release(ffi.NULL)
    assert ep_api.KernelDef_GetOperatorType(ffi.NULL) == ffi.NULL


def time_to_register(count: int, registry: Any) -> float:
    """Processor time to add so many kernels."""
    before = lib.ephost_registry_size(registry)
    start = time.thread_time()
    for i in range(before, before + count):
        add(registry, op_type=f"Op{i // 10}", versions=(i % 10 + 1, i % 10 + 1), constraints={"T": [FLOAT]})
    elapsed = time.thread_time() - start
    assert lib.ephost_registry_size(registry) == before + count
    return elapsed


@pytest.mark.resources
def test_time_to_register_a_kernel_does_not_grow_with_the_registry(registry: Any) -> None:
    """A ratio, which is the same on a slow machine: searching all kernels for each would make it 20."""
    first = min(time_to_register(200, registry) for _ in range(3))
    time_to_register(4_000, registry)
    assert min(time_to_register(200, registry) for _ in range(3)) < 8 * first


# ---- what a kernel asks ----


@pytest.fixture
def info() -> Iterator[Any]:
    """Of a node with all kinds of attributes, inputs x, (left out) and the constant w, and an output y."""
    b = Builder()
    b.inputs("x").initializer("w").outputs("y")
    node = b.node("conv/0", ["x", "", "w"], ["y"], "Conv", "com.x", 3)
    words = [ffi.new("char[]", w) for w in (b"one", b"t\0o")]
    lib.ephost_node_add_int(node, b"i", -5)
    lib.ephost_node_add_ints(node, b"is", [1, 2, 3], 3)
    lib.ephost_node_add_ints(node, b"none", [], 0)
    lib.ephost_node_add_float(node, b"f", 1.5)
    lib.ephost_node_add_floats(node, b"fs", [0.5, -2.0], 2)
    lib.ephost_node_add_string(node, b"s", b"text", 4)
    lib.ephost_node_add_strings(node, b"ss", words, [3, 3], 2)
    lib.ephost_node_add_tensor(node, b"t", float_tensor([3.0]))
    b.finish()
    constant = get(api.ValueInfo_GetInitializerValue, b.values["w"], "const OrtValue*")
    config = ffi.new("OrtKeyValuePairs**")
    api.CreateKeyValuePairs(config)
    api.AddKeyValuePair(config[0], b"key", b"value")
    made = lib.ephost_kernel_info_new(
        node,
        ffi.NULL,
        ffi.NULL,
        ffi.NULL,
        config[0],
        ffi.NULL,
        ffi.NULL,
        ffi.NULL,
        [ffi.NULL, ffi.NULL, constant],
    )
    api.ReleaseKeyValuePairs(config[0])
    yield made
    lib.ephost_kernel_info_free(made)
    lib.ephost_graph_free(b.graph)


def sized(slot: Any, info: Any, key: Any, kind: str = "char") -> list[Any]:
    """What a slot of the size protocol gives: asked for the size, with too little room, then for all."""
    leading = () if key is None else (key,)
    size = ffi.new("size_t*")
    check(slot(info, *leading, ffi.NULL, size))
    count = size[0]
    out = ffi.new(f"{kind}[]", count + 1)
    if count > 0:
        size[0] = count - 1
        with pytest.raises(Refused, match=f"{count} are needed") as error:
            check(slot(info, *leading, out, size))
        assert (error.value.code, size[0]) == (INVALID_ARGUMENT, count)
    size[0] = count + 1
    check(slot(info, *leading, out, size))
    assert size[0] == count
    return list(ffi.unpack(out, count)) if kind != "char" else [ffi.buffer(out, count)[:]]


def test_a_kernel_reads_scalars_and_arrays(info: Any) -> None:
    whole, real = ffi.new("int64_t*"), ffi.new("float*")
    check(api.KernelInfoGetAttribute_int64(info, b"i", whole))
    check(api.KernelInfoGetAttribute_float(info, b"f", real))
    assert (whole[0], real[0]) == (-5, 1.5)
    assert sized(api.KernelInfoGetAttributeArray_int64, info, b"is", "int64_t") == [1, 2, 3]
    assert sized(api.KernelInfoGetAttributeArray_int64, info, b"none", "int64_t") == []
    assert sized(api.KernelInfoGetAttributeArray_float, info, b"fs", "float") == [0.5, -2.0]
    assert sized(api.KernelInfoGetAttribute_string, info, b"s") == [b"text\0"]


def test_a_kernel_gets_strings_and_tensors_in_its_allocators_memory(info: Any) -> None:
    allocator, out, size = lib.ephost_cpu_allocator(), ffi.new("char***"), ffi.new("size_t*")
    check(api.KernelInfoGetAttributeArray_string(info, b"ss", allocator, ffi.NULL, size))
    assert size[0] == 2
    check(api.KernelInfoGetAttributeArray_string(info, b"ss", allocator, out, size))
    assert [ffi.buffer(out[0][i], 4)[:] for i in range(size[0])] == [b"one\0", b"t\0o\0"]
    for i in range(size[0]):
        allocator.Free(allocator, out[0][i])
    allocator.Free(allocator, out[0])
    tensor = ffi.new("OrtValue**")
    check(api.KernelInfoGetAttribute_tensor(info, b"t", allocator, tensor))
    assert floats_of(tensor[0]) == [3.0]
    api.ReleaseValue(tensor[0])


def test_an_absent_attribute_or_one_of_another_type_is_an_error_that_names_it(info: Any) -> None:
    whole, size = ffi.new("int64_t*", 77), ffi.new("size_t*")
    for name in (b"absent", b"f"):
        with pytest.raises(Refused, match=f"'{name.decode()}'") as error:
            check(api.KernelInfoGetAttribute_int64(info, name, whole))
        assert (error.value.code, whole[0]) == (FAIL, 77)
    with pytest.raises(Refused, match="absent"):
        check(api.KernelInfoGetAttributeArray_float(info, b"absent", ffi.NULL, size))


def test_a_kernel_knows_its_nodes_inputs_and_outputs(info: Any) -> None:
    assert get(api.KernelInfo_GetInputCount, info, "size_t") == 3
    assert get(api.KernelInfo_GetOutputCount, info, "size_t") == 1
    given = [sized(api.KernelInfo_GetInputName, info, i)[0] for i in range(3)]
    assert given == [b"x\0", b"\0", b"w\0"]
    assert sized(api.KernelInfo_GetOutputName, info, 0) == [b"y\0"]
    out = ffi.new("OrtTypeInfo**")
    check(api.KernelInfo_GetInputTypeInfo(info, 0, out))
    tensor = ffi.new("const OrtTensorTypeAndShapeInfo**")
    check(api.CastTypeInfoToTensorInfo(out[0], tensor))
    assert get(api.GetTensorElementType, tensor[0], "ONNXTensorElementDataType") == FLOAT
    api.ReleaseTypeInfo(out[0])
    for index in (1, 3):  # left out; beyond the last
        with pytest.raises(Refused) as error:
            check(api.KernelInfo_GetInputTypeInfo(info, index, out))
        assert (error.value.code, out[0]) == (INVALID_ARGUMENT, ffi.NULL)
    with pytest.raises(Refused, match="no number 1"):
        check(api.KernelInfo_GetOutputName(info, 1, ffi.NULL, ffi.new("size_t*")))


def test_a_kernel_sees_constants_and_its_session(info: Any) -> None:
    constant, value = ffi.new("int*"), ffi.new("const OrtValue**")
    check(api.KernelInfoGetConstantInput_tensor(info, 2, constant, value))
    assert (constant[0], floats_of(value[0])) == (1, [1.0, 2.0])
    check(api.KernelInfoGetConstantInput_tensor(info, 0, constant, value))
    assert (constant[0], value[0]) == (0, ffi.NULL)
    check(api.KernelInfoGetConstantInput_tensor(info, 3, constant, value))  # no such input
    assert (constant[0], value[0]) == (0, ffi.NULL)
    config = get(api.KernelInfo_GetConfigEntries, info, "OrtKeyValuePairs*")
    assert ffi.string(api.GetKeyValue(config, b"key")) == b"value"
    api.ReleaseKeyValuePairs(config)
    allocator = ffi.new("OrtAllocator**")
    check(api.KernelInfoGetAllocator(info, DEFAULT, allocator))
    assert allocator[0] == lib.ephost_cpu_allocator()
    api.ReleaseAllocator(allocator[0])


def test_a_copy_of_a_kernel_info_answers_after_the_first_is_gone(info: Any) -> None:
    copies = [ffi.new("OrtKernelInfo**") for _ in range(2)]
    check(api.CopyKernelInfo(info, copies[0]))
    check(api.CopyKernelInfo(copies[0][0], copies[1]))
    api.ReleaseKernelInfo(copies[0][0])
    copy = copies[1][0]
    assert sized(api.KernelInfo_GetNodeName, copy, None) == [b"conv/0\0"]
    assert sized(api.KernelInfo_GetOperatorType, copy, None) == [b"Conv\0"]
    assert sized(api.KernelInfo_GetOperatorDomain, copy, None) == [b"com.x\0"]
    assert get(api.KernelInfo_GetOperatorSinceVersion, copy, "int") == 3
    constant, value = ffi.new("int*"), ffi.new("const OrtValue**")
    check(api.KernelInfoGetConstantInput_tensor(copy, 2, constant, value))
    assert constant[0] == 1
    api.ReleaseKernelInfo(copy)


def test_a_kernel_is_made_by_its_entrys_function(registry: Any, nodes: dict[str, Any]) -> None:
    compute = ffi.callback("OrtStatus*(OrtKernelImpl*, OrtKernelContext*)", lambda kernel, context: ffi.NULL)
    kernel = ffi.new("OrtKernelImpl*", {"ort_version_supported": 24, "Compute": compute})
    answers = iter(["kernel", "none", "error"])

    @ffi.callback("OrtStatus*(void*, const OrtKernelInfo*, OrtKernelImpl**)")
    def create(state: Any, given: Any, out: Any) -> Any:
        answer = next(answers)
        if answer == "error":
            return api.CreateStatus(FAIL, b"not today")
        if answer == "kernel":
            out[0] = kernel
        return ffi.NULL

    add(registry, create=create, versions=(14, 14))
    three = [nodes["add"]] * 3
    entries, definitions = ffi.new("KernelEntry*[]", 3), ffi.new("OrtKernelDef*[]", 3)
    assert lib.ephost_registry_find_all(registry, three, 3, ffi.NULL, entries, definitions) == 3
    made = ffi.new("size_t*")
    for count, match, code in ((3, "'add'.*no kernel", EP_FAIL), (1, "not today", FAIL)):
        infos, kernels = ffi.new("OrtKernelInfo*[]", 3), ffi.new("OrtKernelImpl*[]", 3)
        nulls = [ffi.NULL] * 4
        with pytest.raises(Refused, match=match) as error:
            check(lib.ephost_kernels_new(three, entries, count, *nulls, [ffi.NULL] * 3, infos, kernels, made))
        assert error.value.code == code
        ready = 1 if count == 3 else 0
        assert made[0] == ready
        assert list(kernels) == [kernel] * ready + [ffi.NULL] * (3 - ready)
        assert [bool(info) for info in infos] == [True] * (ready + 1) + [False] * (2 - ready)
        for info in infos:
            lib.ephost_kernel_info_free(info)


def test_what_a_registry_lacks_is_found_at_the_first_node(registry: Any, nodes: dict[str, Any]) -> None:
    add(registry, versions=(14, 14))
    some = [nodes["add"], nodes["add"], nodes["cast"], nodes["add"]]
    entries, definitions = ffi.new("KernelEntry*[]", 4), ffi.new("OrtKernelDef*[]", 4)
    assert lib.ephost_registry_find_all(registry, some, 4, ffi.NULL, entries, definitions) == 2
    assert (
        [bool(each) for each in entries] == [bool(each) for each in definitions] == [True] * 2 + [False] * 2
    )
