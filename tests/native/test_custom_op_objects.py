"""Custom operators and packed weights as the tables have them: owners, errors, allocations that fail."""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Iterator
from typing import Any

import pytest
from graph_builder import Builder
from native_objects import Refused, api, check, ep_api, ffi, lib, live_handles, out
from test_allocation_failure import walk_failures

FLOAT = lib.ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT


@pytest.fixture
def node() -> Iterator[Any]:
    """A node with an attribute, an input and an output."""
    b = Builder()
    b.inputs("x").outputs("y")
    made = b.node("n", ["x"], ["y"], "Thing", "com.x", 3)
    lib.ephost_node_add_int(made, b"i", -5)
    b.finish()
    yield made
    lib.ephost_graph_free(b.graph)


class Op:
    """An OrtCustomOp of a version; functions that are not given are NULL."""

    def __init__(self, version: int = 22, **functions: Any) -> None:
        self.struct = ffi.new("OrtCustomOp*", {"version": version})
        self.name = ffi.new("char[]", b"Thing")
        self.calls: list[str] = []
        self._keep = {"GetName": ffi.callback("char*(OrtCustomOp*)", lambda _: self.name)}
        kinds = {
            "CreateKernel": "void*(OrtCustomOp*, OrtApi*, OrtKernelInfo*)",
            "CreateKernelV2": "OrtStatus*(OrtCustomOp*, OrtApi*, OrtKernelInfo*, void**)",
            "KernelCompute": "void(void*, OrtKernelContext*)",
            "KernelComputeV2": "OrtStatus*(void*, OrtKernelContext*)",
            "KernelDestroy": "void(void*)",
        }
        for name, function in functions.items():
            self._keep[name] = ffi.callback(kinds[name], function)
        for name, callback in self._keep.items():
            setattr(self.struct, name, callback)


def kernel_of(op: Op) -> Any:
    place = ffi.new("OrtKernelImpl**")
    check(lib.ephost_custom_kernel_new(op.struct, ffi.NULL, place))
    return place[0]


def test_a_domain_keeps_its_operators_in_order() -> None:
    before = live_handles()
    domain = out("OrtCustomOpDomain*", api.CreateCustomOpDomain, b"com.x")
    first, second = Op(), Op()
    for op in (first, second):
        check(api.CustomOpDomain_Add(domain, op.struct))
    ops = ffi.new("OrtCustomOp* const**")
    assert lib.ephost_domain_ops(domain, ops) == 2
    assert [ops[0][0], ops[0][1]] == [first.struct, second.struct]
    assert ffi.string(lib.ephost_domain_name(domain)) == b"com.x"
    api.ReleaseCustomOpDomain(domain)
    assert live_handles() == before


def test_clones_of_options_know_the_domains() -> None:
    options = out("OrtSessionOptions*", api.CreateSessionOptions)
    domain = out("OrtCustomOpDomain*", api.CreateCustomOpDomain, b"com.x")
    check(api.AddCustomOpDomain(options, domain))
    clone = out("OrtSessionOptions*", api.CloneSessionOptions, options)
    api.ReleaseSessionOptions(options)
    domains = ffi.new("OrtCustomOpDomain* const**")
    assert lib.ephost_session_options_domains(clone, domains) == 1
    assert domains[0][0] == domain
    api.ReleaseSessionOptions(clone)
    api.ReleaseCustomOpDomain(domain)


def test_the_functions_that_can_fail_come_first() -> None:
    calls = []

    def old(*_: Any) -> Any:
        calls.append("old")
        return ffi.NULL

    def new(*_: Any) -> Any:
        calls.append("new")
        return ffi.NULL

    def destroy(_: Any) -> None:
        calls.append("destroy")

    functions = {
        "CreateKernel": old,
        "CreateKernelV2": new,
        "KernelCompute": lambda *_: calls.append("old"),
        "KernelComputeV2": new,
        "KernelDestroy": destroy,
    }
    for version, which in ((22, "new"), (15, "old")):  # the second ones came with version 16
        op = Op(version, **functions)
        kernel = kernel_of(op)
        check(kernel.Compute(kernel, ffi.NULL))
        kernel.Release(kernel)
        assert calls == [which, which, "destroy"]
        calls.clear()


def test_an_operator_without_functions_makes_no_kernel() -> None:
    def made(*_: Any) -> Any:
        return ffi.NULL

    for op in (Op(), Op(CreateKernel=made), Op(KernelCompute=lambda *_: None)):
        with pytest.raises(Refused, match="Thing has no function to"):
            kernel_of(op)


def test_inference_reads_inputs_and_attributes_and_keeps_a_copy_of_answers(node: Any) -> None:
    before = live_handles()
    context = lib.ephost_infer_context_new(node, 2, 1)
    dims = ffi.new("int64_t[]", [2, -1])
    symbols = [ffi.new("char[]", b""), ffi.new("char[]", b"n")]
    texts = ffi.new("char*[]", symbols)  # borrowed, as `symbols` and `dims`
    kind = ffi.new("EphostTensorType*", (FLOAT, 2, dims, texts))
    assert lib.ephost_infer_context_set_input(context, 0, kind)
    count = ffi.new("size_t*")
    check(api.ShapeInferContext_GetInputCount(context, count))
    assert count[0] == 2
    info, absent = ffi.new("OrtTensorTypeAndShapeInfo**"), ffi.new("OrtTensorTypeAndShapeInfo**")
    check(api.ShapeInferContext_GetInputTypeShape(context, 0, info))
    for at in (1, 2):  # left out; beyond the last
        with pytest.raises(Refused, match=f"input {at}"):
            check(api.ShapeInferContext_GetInputTypeShape(context, at, absent))
    attribute = ffi.new("OrtOpAttr**")
    check(api.ShapeInferContext_GetAttribute(context, b"i", attribute))
    assert lib.ephost_attribute_ints(attribute[0])[0] == -5
    with pytest.raises(Refused, match="no attribute 'j'"):
        check(api.ShapeInferContext_GetAttribute(context, b"j", attribute))
    assert attribute[0] == ffi.NULL
    assert lib.ephost_infer_context_output(context, 0) == ffi.NULL
    for _ in range(2):  # the second answer takes the first one's place
        check(api.ShapeInferContext_SetOutputTypeShape(context, 0, info[0]))
    given = lib.ephost_infer_context_output(context, 0)
    assert given not in (ffi.NULL, info[0])
    rank = ffi.new("size_t*")
    check(api.GetDimensionsCount(given, rank))
    assert rank[0] == 2
    with pytest.raises(Refused, match="no output 1"):
        check(api.ShapeInferContext_SetOutputTypeShape(context, 1, info[0]))
    lib.ephost_infer_context_free(context)
    assert live_handles() == before


class Cache:
    """A weight cache, and blocks of the CPU's allocator to put into it."""

    def __init__(self) -> None:
        self.allocator = lib.ephost_cpu_allocator()
        self.pointer = lib.ephost_weight_cache_new(self.allocator)

    def block(self, nbytes: int) -> Any:
        return self.allocator.Alloc(self.allocator, nbytes)

    def store(self, *sizes: int) -> list[Any]:
        blocks = [self.block(size) for size in sizes]
        array = ffi.new("void*[]", blocks)
        check(
            ep_api.SharedPrePackedWeightCache_StoreWeightData(
                self.pointer, array, ffi.new("size_t[]", sizes), len(sizes)
            )
        )
        return blocks

    def in_use(self) -> int:
        pairs = ffi.new("OrtKeyValuePairs**")
        check(api.AllocatorGetStats(self.allocator, pairs))
        used = int(ffi.string(api.GetKeyValue(pairs[0], b"InUse")))
        api.ReleaseKeyValuePairs(pairs[0])
        return used


def test_a_cache_owns_what_is_stored() -> None:
    before = live_handles()
    cache = Cache()
    used = cache.in_use()
    assert not lib.ephost_weight_cache_is_stored(cache.pointer)
    blocks = cache.store(64, 128)
    assert lib.ephost_weight_cache_is_stored(cache.pointer)
    buffers, sizes = ffi.new("void* const**"), ffi.new("size_t**")
    assert lib.ephost_weight_cache_buffers(cache.pointer, buffers, sizes) == 2
    assert [buffers[0][0], buffers[0][1]] == blocks
    assert [sizes[0][0], sizes[0][1]] == [64, 128]
    assert cache.in_use() > used
    lib.ephost_weight_cache_free(cache.pointer)
    assert cache.in_use() == used
    assert live_handles() == before


def test_a_second_store_is_refused_and_its_buffers_are_freed() -> None:
    cache = Cache()
    cache.store(64)
    used = cache.in_use()
    with pytest.raises(Refused, match="stored already"):
        cache.store(256)
    assert cache.in_use() == used
    lib.ephost_weight_cache_free(cache.pointer)


def test_without_memory_stored_buffers_are_freed() -> None:
    for count in range(2):
        cache = Cache()
        used = cache.in_use()
        blocks = ffi.new("void*[]", [cache.block(64)])
        lib.ephost_fail_allocation_after(count)
        with pytest.raises(Refused):
            check(
                ep_api.SharedPrePackedWeightCache_StoreWeightData(
                    cache.pointer, blocks, ffi.new("size_t[]", [64]), 1
                )
            )
        lib.ephost_fail_allocation_after(-1)
        assert cache.in_use() == used
        assert not lib.ephost_weight_cache_is_stored(cache.pointer)
        lib.ephost_weight_cache_free(cache.pointer)


def test_making_each_may_fail(node: Any) -> None:
    def domain() -> Any:
        return out("OrtCustomOpDomain*", api.CreateCustomOpDomain, b"com.x")

    assert walk_failures(domain, api.ReleaseCustomOpDomain) == 2

    def refuse_null(pointer: Any) -> Any:
        if pointer == ffi.NULL:
            raise Refused(1, "out of memory")
        return pointer

    def context() -> Any:
        return refuse_null(lib.ephost_infer_context_new(node, 1, 1))

    assert walk_failures(context, lib.ephost_infer_context_free) == 3

    def cache() -> Any:
        return refuse_null(lib.ephost_weight_cache_new(lib.ephost_cpu_allocator()))

    assert walk_failures(cache, lib.ephost_weight_cache_free) == 1

    op = Op(CreateKernel=lambda *_: ffi.NULL, KernelCompute=lambda *_: None)
    assert walk_failures(lambda: kernel_of(op), lambda kernel: kernel.Release(kernel)) == 1


@pytest.mark.skipif(sys.platform != "linux", reason="asks glibc how large a block is")
@pytest.mark.parametrize("count", [3, 7])
def test_clones_of_options_have_room_for_more_domains(count: int) -> None:
    usable_size = ctypes.CDLL(None).malloc_usable_size
    usable_size.argtypes, usable_size.restype = [ctypes.c_void_p], ctypes.c_size_t
    options = out("OrtSessionOptions*", api.CreateSessionOptions)
    made = [out("OrtCustomOpDomain*", api.CreateCustomOpDomain, b"com.x") for _ in range(count + 1)]
    for domain in made[:-1]:
        check(api.AddCustomOpDomain(options, domain))
    clone = out("OrtSessionOptions*", api.CloneSessionOptions, options)
    domains = ffi.new("OrtCustomOpDomain* const**")
    assert lib.ephost_session_options_domains(clone, domains) == count
    assert usable_size(int(ffi.cast("uintptr_t", domains[0]))) >= (count + 1) * ffi.sizeof("void*")
    check(api.AddCustomOpDomain(clone, made[-1]))
    assert lib.ephost_session_options_domains(clone, domains) == count + 1
    assert [domains[0][at] for at in range(count + 1)] == made
    for each in (options, clone):
        api.ReleaseSessionOptions(each)
    for domain in made:
        api.ReleaseCustomOpDomain(domain)
