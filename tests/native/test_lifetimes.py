"""Values that live at the same time share no byte, and the memory of those that have ended is used again."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from native_objects import Refused, api, check, cpu_tensor, dims, ep_api, ffi, lib

BYTES, STRINGS = lib.ONNX_TENSOR_ELEMENT_DATA_TYPE_UINT8, lib.ONNX_TENSOR_ELEMENT_DATA_TYPE_STRING
KERNEL, HOST = 1, 4  # kinds of steps
Step = tuple[Sequence[int], Sequence[int]]  # slots that are read, slots that are written


class Layout:
    """Where a plan's values lie."""

    def __init__(self, pointer: Any, slots: int) -> None:
        sizes = [ffi.new("size_t*") for _ in range(4)]
        check(lib.ephost_plan_share_memory(pointer, sizes[0], sizes[1]))
        self.arena, self.planned = int(sizes[0][0]), int(sizes[1][0])
        self.places: dict[int, tuple[int, int]] = {}
        for slot in range(slots):
            if lib.ephost_plan_place(pointer, slot, sizes[2], sizes[3]):
                self.places[slot] = int(sizes[2][0]), int(sizes[3][0])

    def offsets(self, *slots: int) -> list[int]:
        return [self.places[slot][0] for slot in slots]


@contextmanager
def planned(
    sizes: Sequence[int | None],
    steps: Sequence[Step],
    *,
    inputs: Sequence[int] = (),
    outputs: Sequence[int] = (),
    definition: Any = ffi.NULL,
    element_types: Mapping[int, int] = {},
) -> Iterator[Any]:
    """A plan that is never run: slots of so many bytes, None for a size that is not known, and kernels."""
    pointer = lib.ephost_plan_new(len(sizes), ffi.NULL, ffi.NULL, False)
    try:
        shapes = [None if size is None else dims(size) for size in sizes]
        rows = [
            (element_types.get(at, BYTES), -1 if shape is None else 1, shape or ffi.NULL, ffi.NULL, ffi.NULL)
            for at, shape in enumerate(shapes)
        ]
        check(lib.ephost_plan_set_slots(pointer, rows))
        something = ffi.cast("void*", 1)
        records = [
            (KERNEL, -1, something, ffi.NULL, definition, len(read), len(made)) for read, made in steps
        ]
        slots = [slot for read, made in steps for slot in (*read, *made)]
        check(lib.ephost_plan_add_steps(pointer, records, len(records), slots, b"n\0T\0" * len(records)))
        apart = [-1] * max(len(inputs), len(outputs))
        check(
            lib.ephost_plan_set_interface(
                pointer, list(inputs), apart, len(inputs), list(outputs), apart, len(outputs)
            )
        )
        yield pointer
    finally:
        lib.ephost_plan_free(pointer)


def lay_out(sizes: Sequence[int | None], steps: Sequence[Step], **more: Any) -> Layout:
    with planned(sizes, steps, **more) as pointer:
        return Layout(pointer, len(sizes))


@pytest.fixture
def definition() -> Iterator[Any]:
    """A kernel whose first output is its second input's memory, or may be its first's."""
    builder, out = ffi.new("OrtKernelDefBuilder**"), ffi.new("OrtKernelDef**")
    check(ep_api.CreateKernelDefBuilder(builder))
    check(ep_api.KernelDefBuilder_SetOperatorType(builder[0], b"Mul"))
    check(ep_api.KernelDefBuilder_AddInputOutputAliases(builder[0], [1], [0], 1))
    check(ep_api.KernelDefBuilder_AddInputOutputMutableAliases(builder[0], [0, 0, 9], [0, 9, 0], 3))
    check(ep_api.KernelDefBuilder_Build(builder[0], out))
    ep_api.ReleaseKernelDefBuilder(builder[0])
    yield out[0]
    ep_api.ReleaseKernelDef(out[0])


def test_values_that_live_together_lie_one_after_the_other() -> None:
    found = lay_out([64, 100, 1, 0], [([], [0, 1, 2, 3]), ([0, 1, 2, 3], [])])
    assert found.places == {0: (0, 64), 1: (64, 128), 2: (192, 64), 3: (256, 64)}
    assert (found.arena, found.planned) == (320, 320)


def test_a_chain_takes_turns_in_two_places() -> None:
    found = lay_out([64] * 6, [([], [0]), *(([at], [at + 1]) for at in range(5))])
    assert found.offsets(*range(6)) == [0, 64, 0, 64, 0, 64]
    assert (found.arena, found.planned) == (128, 6 * 64)


def test_the_smallest_gap_that_is_large_enough_is_taken() -> None:
    sizes = [256, 64, 128, 64, 192, 64, 128, 128, 64, 256]
    steps = [([], range(6)), ([0, 2, 4], []), ([], range(6, 10)), ([1, 3, 5, *range(6, 10)], [])]
    found = lay_out(sizes, [(list(read), list(made)) for read, made in steps])
    held = dict(enumerate(found.offsets(*range(6))))
    assert found.offsets(6) == [held[2]]  # fits exactly
    assert found.offsets(7) == [held[4]]  # 192 wastes less than 256
    assert found.offsets(8) == [held[4] + 128]  # what was left of it
    assert found.offsets(9) == [held[0]]
    assert found.arena == 768


@pytest.mark.parametrize("order", [(0, 1, 2), (2, 1, 0), (0, 2, 1), (1, 0, 2), (1, 2, 0)])
def test_neighbours_given_back_become_one_gap(order: Sequence[int]) -> None:
    steps: list[Step] = [([], [0, 1, 2, 3]), *(([at], []) for at in order), ([], [4]), ([3, 4], [])]
    found = lay_out([64, 64, 64, 64, 192], steps)
    assert (found.offsets(4), found.arena) == ([0], 256)


def test_a_gap_at_the_end_grows() -> None:
    found = lay_out([64, 64, 256], [([], [0, 1]), ([1], []), ([], [2]), ([0, 2], [])])
    assert (found.offsets(2), found.arena) == ([64], 320)


def test_what_a_caller_gives_or_gets_and_what_is_of_no_known_size_has_no_place() -> None:
    sizes = [64, None, 64, 64, 64]
    steps: list[Step] = [([0], [1]), ([1], [2]), ([2], [3]), ([3, -1], [-1, 4])]
    found = lay_out(sizes, steps, inputs=[0], outputs=[4], element_types={3: STRINGS})
    assert list(found.places) == [2]


def test_constants_have_no_place() -> None:
    value = cpu_tensor((2,))
    with planned([64, 64, 64], [([0], [1]), ([1], [2])]) as pointer:
        check(lib.ephost_plan_set_constant(pointer, 0, value))
        assert sorted(Layout(pointer, 3).places) == [1, 2]


def test_what_the_host_makes_itself_has_no_place() -> None:
    host = ffi.new("EphostHostKernel**")
    labels = cpu_tensor((1,))
    check(lib.ephost_zip_map_new(labels, host))
    api.ReleaseValue(labels)
    pointer = lib.ephost_plan_new(2, ffi.NULL, ffi.NULL, False)
    kind = (BYTES, 1, dims(64), ffi.NULL, ffi.NULL)
    check(lib.ephost_plan_set_slots(pointer, [kind, kind]))
    rows = [
        (HOST, -1, host[0], ffi.NULL, ffi.NULL, 0, 1),
        (KERNEL, -1, ffi.cast("void*", 1), ffi.NULL, ffi.NULL, 1, 1),
    ]
    check(lib.ephost_plan_add_steps(pointer, rows, 2, [0, 0, 1], b"n\0T\0" * 2))
    assert list(Layout(pointer, 2).places) == [1]
    lib.ephost_plan_free(pointer)


def test_a_kernel_writes_over_what_its_definition_names(definition: Any) -> None:
    steps: list[Step] = [([], [0, 1]), ([0, 1], [2]), ([2], [3]), ([3], [4])]
    found = lay_out([64] * 5, steps, definition=definition)
    # Of an alias and what may be one the alias counts; then each takes its only input's.
    assert found.offsets(0, 1, 2, 3, 4) == [0, 64, 64, 64, 64]
    assert (found.arena, found.planned) == (128, 128)


@pytest.mark.parametrize(
    ("sizes", "steps", "inputs"),
    [
        (
            [64, 64, 64, 64],
            [([], [0, 1]), ([0, 1], [2]), ([0, 1, 2], [3])],
            [],
        ),  # it is needed after that
        ([64, 64, 64, 64], [([], [0]), ([0, 0], [2])], []),  # it is read as another input as well
        ([64, 64, 64, 64], [([0, 1], [2]), ([2], [])], [0, 1]),  # a caller has given it
        ([64, 64, 128, 64], [([], [0, 1]), ([0, 1], [2]), ([2], [])], []),  # it is of another size
    ],
)
def test_a_kernel_writes_over_nothing_that_is_needed_or_too_small(
    definition: Any, sizes: list[int], steps: list[Step], inputs: list[int]
) -> None:
    found = lay_out(sizes, steps, inputs=inputs, definition=definition)
    taken = [place for slot, place in found.places.items() if slot < 2]
    for start, size in taken:
        offset, length = found.places[2]
        assert offset + length <= start or start + size <= offset


def test_memory_that_was_handed_on_is_given_back_once(definition: Any) -> None:
    # 1 takes 0's memory over, and ends; 2 and 3 live together after that.
    steps: list[Step] = [([], [0]), ([0], [1]), ([1], []), ([], [2, 3]), ([2, 3], [4])]
    found = lay_out([64, 64, 64, 64, 128], steps, definition=definition)
    assert found.offsets(0, 1) == [0, 0]
    assert found.offsets(2, 3) == [0, 64]


def test_values_beyond_all_memory_are_refused() -> None:
    huge = 2**55
    with planned([huge] * 300, [([], list(range(300))), (list(range(300)), [])]) as pointer:
        sizes = ffi.new("size_t[2]")
        with pytest.raises(Refused, match="larger than memory can be"):
            check(lib.ephost_plan_share_memory(pointer, sizes, sizes + 1))


def test_memory_is_shared_once() -> None:
    with planned([64], [([], [0])]) as pointer:
        Layout(pointer, 1)
        with pytest.raises(Refused):
            Layout(pointer, 1)


def test_each_allocation_may_fail() -> None:
    for count in range(20):
        with planned([64] * 40, [([], list(range(40))), *(([at], []) for at in range(0, 40, 2))]) as pointer:
            lib.ephost_fail_allocation_after(count)
            try:
                Layout(pointer, 40)
            except Refused:
                continue
            finally:
                lib.ephost_fail_allocation_after(-1)
            assert count > 3  # two arrays, the releases, and the gaps
            return
    raise AssertionError("it never succeeds")


@given(
    st.lists(st.integers(0, 500), min_size=1, max_size=40),
    st.lists(st.lists(st.integers(0, 39), max_size=4), max_size=40),
    st.booleans(),
)
def test_values_that_live_at_the_same_time_never_overlap(
    sizes: list[int], reads: list[list[int]], one_more: bool
) -> None:
    """Step `at` makes slot `at`, and reads some of those before it."""
    steps: list[Step] = []
    for at in range(len(sizes)):
        wanted = reads[at] if at < len(reads) else []
        steps.append(([slot for slot in wanted if slot < at], [at]))
    if one_more:
        steps.append((list(range(len(sizes))), []))
    found = lay_out(sizes, steps)
    last = {slot: at for at, (read, made) in enumerate(steps) for slot in (*read, *made)}
    for one, (start, size) in found.places.items():
        assert start % 64 == 0 and size % 64 == 0 and size >= max(sizes[one], 1)
        assert start + size <= found.arena
        for other, (begin, length) in found.places.items():
            if one < other <= last[one]:
                assert start + size <= begin or begin + length <= start
    assert len(found.places) == len(sizes) and found.arena <= found.planned
