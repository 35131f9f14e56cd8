"""Inputs and outputs that are bound ahead of runs."""

from __future__ import annotations

import weakref
from typing import Any

import ephost
import numpy as np
import pytest
from api_models import add_and_relu, model_bytes, tensor
from ephost.errors import InvalidArgument, NotImplemented
from onnx import TensorProto, helper

X = np.array([[1, -5, 2], [0, 1, -1]], np.float32)
Y = np.ones((2, 3), np.float32)
S = X + Y
Z = np.maximum(S, 0)


@pytest.fixture
def session() -> ephost.InferenceSession:
    return ephost.InferenceSession(add_and_relu())


def test_bound_outputs_are_written_in_place(session: ephost.InferenceSession) -> None:
    out = np.zeros((2, 3), np.float32)
    binding = session.io_binding()
    binding.bind_cpu_input("x", X)
    binding.bind_input("y", "cpu", 0, np.float32, Y.shape, Y.ctypes.data)
    binding.bind_output("z", "cpu", 0, np.float32, out.shape, out.ctypes.data)
    binding.bind_output("s")
    session.run_with_iobinding(binding)
    assert out.tolist() == Z.tolist()
    results = binding.get_outputs()
    assert [value.data_ptr() == out.ctypes.data for value in results] == [True, False]
    assert results[1].numpy().tolist() == S.tolist()
    copies = binding.copy_outputs_to_cpu()
    assert copies[0].tolist() == Z.tolist()
    assert not np.shares_memory(copies[0], out)


@pytest.mark.parametrize("shape", [(1 << 63,), (2, -3), (1 << 70, 0)])
def test_memory_of_a_shape_that_cannot_be_is_refused(session: ephost.InferenceSession, shape: Any) -> None:
    with pytest.raises(InvalidArgument, match=r"there is no tensor of type .* and shape \["):
        session.io_binding().bind_input("x", "cpu", 0, np.float32, shape, X.ctypes.data)


def test_a_binding_is_used_again_with_new_data(session: ephost.InferenceSession) -> None:
    feed, out = X.copy(), ephost.OrtValue.ortvalue_from_shape_and_type([2, 3], np.float32)
    binding = session.io_binding()
    binding.bind_ortvalue_input("x", ephost.OrtValue.ortvalue_from_numpy(feed))
    binding.bind_cpu_input("y", Y)
    binding.bind_ortvalue_output("s", out)
    for number in (1, 2):
        feed[...] = number
        session.run_with_iobinding(binding)
        assert out.numpy().tolist() == [[number + 1] * 3] * 2


def test_an_output_that_is_an_input_is_copied_into_what_is_bound() -> None:
    session = ephost.InferenceSession(
        model_bytes([helper.make_node("Identity", ["x"], ["y"])], [tensor("x", 3)], [tensor("y", 3)])
    )
    out = np.zeros(3, np.float32)
    binding = session.io_binding()
    binding.bind_cpu_input("x", np.array([1, 2, 3], np.float32))
    binding.bind_ortvalue_output("y", ephost.OrtValue.ortvalue_from_numpy(out))
    session.run_with_iobinding(binding)
    assert out.tolist() == [1, 2, 3]


@pytest.mark.parametrize("shape", [(4, 3), (2, 2), (6,)])
def test_a_bound_output_of_another_shape_is_an_error(
    session: ephost.InferenceSession, shape: tuple[int, ...]
) -> None:
    out = np.zeros(shape, np.float32)
    binding = session.io_binding()
    binding.bind_cpu_input("x", X)
    binding.bind_cpu_input("y", Y)
    binding.bind_output("z", "cpu", 0, np.float32, shape, out.ctypes.data)
    with pytest.raises(Exception, match="another type or shape than the value bound"):
        session.run_with_iobinding(binding)
    assert not out.any()


@pytest.mark.parametrize("dtype", [np.int8, np.float64])
def test_an_output_bound_to_memory_of_another_type_is_refused(sample_ep: str, dtype: type) -> None:
    # A kernel that wrote floats there would write beyond the end.
    session = ephost.InferenceSession(add_and_relu(), providers=[sample_ep])
    guarded = np.full(64, 7, dtype)
    binding = session.io_binding()
    binding.bind_cpu_input("x", X)
    binding.bind_cpu_input("y", Y)
    binding.bind_output("s", "cpu", 0, dtype, (2, 3), guarded.ctypes.data)
    with pytest.raises(InvalidArgument, match=r"'s' does not fit"):
        session.run_with_iobinding(binding)
    assert (guarded == 7).all()


def test_what_is_bound_anew_between_runs_is_what_the_next_run_takes(sample_ep: str) -> None:
    session = ephost.InferenceSession(add_and_relu(), providers=[sample_ep])
    first, second = (ephost.OrtValue.ortvalue_from_shape_and_type([2, 3], np.float32) for _ in range(2))
    binding = session.io_binding()
    binding.bind_ortvalue_input("x", ephost.OrtValue.ortvalue_from_numpy(X))
    binding.bind_ortvalue_input("y", ephost.OrtValue.ortvalue_from_numpy(Y))
    binding.bind_ortvalue_output("s", first)
    session.run_with_iobinding(binding)
    binding.bind_ortvalue_input("x", ephost.OrtValue.ortvalue_from_numpy(Y))
    session.run_with_iobinding(binding)
    assert first.numpy().tolist() == [[2] * 3] * 2
    binding.bind_ortvalue_output("s", second)
    binding.bind_cpu_input("x", X)
    session.run_with_iobinding(binding)
    assert (first.numpy().tolist(), second.numpy().tolist()) == ([[2] * 3] * 2, S.tolist())
    assert session.run(["s"], {"x": X, "y": X})[0].tolist() == (X + X).tolist()  # nothing of it is left


def test_a_binding_goes_on_with_what_its_session_was_opened_on_anew(sample_ep: str) -> None:
    session = ephost.InferenceSession(add_and_relu(), providers=[sample_ep])
    out = ephost.OrtValue.ortvalue_from_shape_and_type([2, 3], np.float32)
    binding = session.io_binding()
    for name, array in (("x", X), ("y", Y)):
        binding.bind_ortvalue_input(name, ephost.OrtValue.ortvalue_from_numpy(array))
    binding.bind_ortvalue_output("z", out)
    session.run_with_iobinding(binding)
    released = weakref.ref(session._resources)
    session.set_providers(["CPUExecutionProvider"])
    assert released() is None  # the binding does not keep what the session had
    out.update_inplace(np.zeros((2, 3), np.float32))
    session.run_with_iobinding(binding)
    assert out.numpy().tolist() == Z.tolist()


def test_nothing_may_be_fed_under_any_name(session: ephost.InferenceSession) -> None:
    """Programs that run single nodes feed None for what a node leaves out."""
    feed = {"x": X, "y": Y}
    (expected,) = session.run(["z"], feed)
    for extra in ({"": None}, {"q": None, "r": None}):
        np.testing.assert_array_equal(session.run(["z"], feed | extra)[0], expected)
    with pytest.raises(InvalidArgument, match="Invalid input name: q"):
        session.run(["z"], feed | {"": None, "q": X})
    with pytest.raises(ValueError, match="missing from input feed"):
        session.run(["z"], {"x": X, "q": None})


def test_an_input_may_be_bound_as_an_output_too(sample_ep: str) -> None:
    session = ephost.InferenceSession(add_and_relu(), providers=[sample_ep])
    state = ephost.OrtValue.ortvalue_from_numpy(np.zeros((2, 3), np.float32))
    binding = session.io_binding()
    binding.bind_ortvalue_input("x", state)
    binding.bind_ortvalue_input("y", ephost.OrtValue.ortvalue_from_numpy(Y))
    binding.bind_ortvalue_output("s", state)
    for count in range(1, 4):
        session.run_with_iobinding(binding)
        assert state.numpy().tolist() == [[count] * 3] * 2


def test_a_binding_says_what_is_wrong_with_it(session: ephost.InferenceSession) -> None:
    binding = session.io_binding()
    for call in (binding.bind_cpu_input, binding.bind_ortvalue_input):
        with pytest.raises(InvalidArgument, match="Invalid input name: q"):
            call("q", X)
    with pytest.raises(InvalidArgument, match="Invalid output name: q"):
        binding.bind_output("q")
    with pytest.raises(NotImplemented, match="No shared allocator found"):
        binding.bind_output("z", "cuda")
    with pytest.raises(ValueError, match="shape"):
        binding.bind_output("z", "cpu", 0, np.float32, None, 16)
    with pytest.raises(TypeError, match="OrtValue"):
        binding.bind_ortvalue_output("z", X)
    with pytest.raises(InvalidArgument, match="At least one output"):
        session.run_with_iobinding(binding)
    binding.bind_output("z")
    binding.bind_cpu_input("x", X)
    with pytest.raises(ValueError, match=r"\['y'\]"):
        session.run_with_iobinding(binding)
    with pytest.raises(ValueError, match="session that created it"):
        ephost.InferenceSession(add_and_relu()).run_with_iobinding(binding)


def test_a_cleared_binding_is_empty(session: ephost.InferenceSession) -> None:
    binding = session.io_binding()
    binding.bind_cpu_input("x", X)
    binding.bind_cpu_input("y", Y)
    binding.bind_output("z")
    session.run_with_iobinding(binding)
    binding.clear_binding_outputs()
    assert binding.get_outputs() == []
    binding.bind_output("z")
    binding.clear_binding_inputs()
    with pytest.raises(ValueError, match="missing"):
        session.run_with_iobinding(binding)


def test_before_a_run_the_outputs_are_what_they_are_bound_to(session: ephost.InferenceSession) -> None:
    binding = session.io_binding()
    binding.bind_ortvalue_output("s", ephost.OrtValue.ortvalue_from_numpy(np.full((2, 3), 7, np.float32)))
    assert binding.get_outputs()[0].numpy().tolist() == [[7] * 3] * 2
    assert binding.copy_outputs_to_cpu()[0].tolist() == [[7] * 3] * 2
    binding.bind_output("z")
    assert binding.get_outputs() == []


def test_an_input_that_nothing_reads_need_not_be_bound() -> None:
    nodes = [helper.make_node("Neg", ["x"], ["y"])]
    content = model_bytes(nodes, [tensor("x", 3), tensor("idle", 3)], [tensor("y", 3)])
    binding = ephost.InferenceSession(content).io_binding()
    binding.bind_cpu_input("x", np.array([1, 2, 3], np.float32))
    binding.bind_output("y")
    binding._session.run_with_iobinding(binding)
    assert binding.copy_outputs_to_cpu()[0].tolist() == [-1, -2, -3]


@pytest.mark.parametrize("through", ["a node", "a body", "nothing"])
def test_an_input_that_is_read_must_be_bound(through: str) -> None:
    inside = helper.make_graph(
        [helper.make_node("Identity", ["needed"], ["chosen"])], "body", [], [tensor("chosen", 3)]
    )
    nodes = {
        "a node": [helper.make_node("Add", ["x", "needed"], ["y"])],
        "a body": [
            helper.make_node("ReduceMax", ["x"], ["largest"], keepdims=0),
            helper.make_node("Cast", ["largest"], ["is"], to=TensorProto.BOOL),
            helper.make_node("If", ["is"], ["y"], then_branch=inside, else_branch=inside),
        ],
        "nothing": [],
    }[through]
    content = model_bytes(
        nodes, [tensor("x", 3), tensor("needed", 3)], [tensor("y" if nodes else "needed", 3)]
    )
    session = ephost.InferenceSession(content)
    binding = session.io_binding()
    binding.bind_cpu_input("x", np.array([1, 2, 3], np.float32))
    binding.bind_output("y" if nodes else "needed")
    with pytest.raises(ValueError, match=r"Required inputs \(\['needed'\]\) are missing"):
        session.run_with_iobinding(binding)
