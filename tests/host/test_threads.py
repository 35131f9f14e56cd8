"""One session on many threads, and sessions that end while others run.

EPHOST_THREADS_SECONDS is how long the first test runs: 60 in the bench, 3 here.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from itertools import pairwise

import ephost
import numpy as np
import onnx
import pytest
from ephost import errors
from ephost.plugins import sample_compiler
from host_state import adds_model
from onnx import TensorProto, helper, numpy_helper

pytestmark = [pytest.mark.usefixtures("nothing_leaks"), pytest.mark.threads]
SECONDS = float(os.environ.get("EPHOST_THREADS_SECONDS", "3"))
THREADS = 16


def mixed_model() -> onnx.ModelProto:
    """Two layers of MatMul, Add, Relu, Tanh and a reduction, of which each EP takes another part."""
    rng = np.random.default_rng(0)
    weights = {f"w{i}": rng.standard_normal((32, 32), dtype=np.float32) / 6 for i in range(2)}
    nodes, last = [], "x"
    for i in range(2):
        nodes += [
            helper.make_node("MatMul", [last, f"w{i}"], [f"m{i}"]),
            helper.make_node("Add", [f"m{i}", "b"], [f"a{i}"]),
            helper.make_node("Relu", [f"a{i}"], [f"r{i}"]),
            helper.make_node("Tanh", [f"r{i}"], [f"t{i}"]),
        ]
        last = f"t{i}"
    nodes.append(helper.make_node("ReduceSum", [last, "axes"], ["y"], keepdims=0))
    graph = helper.make_graph(
        nodes,
        "mixed",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 32])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        [
            *(numpy_helper.from_array(array, name) for name, array in weights.items()),
            numpy_helper.from_array(rng.standard_normal(32, dtype=np.float32), "b"),
            numpy_helper.from_array(np.array([1]), "axes"),
        ],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def open_on(devices: list, model: onnx.ModelProto, **config: str) -> ephost.InferenceSession:
    options = ephost.SessionOptions()
    if devices:
        options.add_provider_for_devices(devices, {})
    return ephost.InferenceSession(model.SerializeToString(), options)


def run_all(workers: list[Callable[[], None]], seconds: float | None = None) -> None:
    """Runs each on a thread of its own, again and again for so long, and raises what one of them raised."""
    failures: list[BaseException] = []
    stop = threading.Event()

    def loop(worker: Callable[[], None]) -> None:
        try:
            worker()
            while seconds is not None and not stop.is_set():
                worker()
        except BaseException as error:
            failures.append(error)
            stop.set()

    threads = [threading.Thread(target=loop, args=(worker,)) for worker in workers]
    for thread in threads:
        thread.start()
    stop.wait(seconds or 0)
    stop.set()
    for thread in threads:
        thread.join(200)
    assert not any(thread.is_alive() for thread in threads)
    if failures:
        raise failures[0]


def share(devices: list, seconds: float) -> None:
    session = open_on(devices, mixed_model())
    rng = np.random.default_rng(1)
    feeds = [rng.standard_normal((n, 32), dtype=np.float32) for n in (1, 2, 3, 7, 16, 33, 64, 100)]
    expected = [session.run(None, {"x": x})[0] for x in feeds]
    counts = [0] * THREADS

    def worker(number: int) -> Callable[[], None]:
        def run() -> None:
            at = (counts[number] * 5 + number) % len(feeds)
            (got,) = session.run(None, {"x": feeds[at]})
            np.testing.assert_array_equal(got, expected[at])
            got.fill(np.nan)  # it is ours: nobody else may see that
            counts[number] += 1

        return run

    run_all([worker(i) for i in range(THREADS)], seconds)
    assert min(counts) > 0


def test_threads_get_the_same_answers_on_kernels(sample_kernels: list) -> None:
    share(sample_kernels, SECONDS)


def test_threads_get_the_same_answers_on_compiled_groups(sample_compiler: list) -> None:
    share(sample_compiler, SECONDS / 2)


def test_threads_get_the_same_answers_on_the_fallback() -> None:
    share([], SECONDS / 2)


def test_sessions_open_run_and_end_on_many_threads_at_once(sample_kernels: list) -> None:
    model, x = mixed_model(), np.ones((2, 32), np.float32)
    expected = open_on(sample_kernels, model).run(None, {"x": x})[0]

    def worker() -> None:
        session = open_on(sample_kernels, model)
        np.testing.assert_array_equal(session.run(None, {"x": x})[0], expected)
        session.close()

    run_all([worker] * 8, SECONDS / 2)


def test_a_session_that_is_closed_while_threads_run_it_refuses_or_ends_cleanly(sample_kernels: list) -> None:
    x = np.ones((2, 32), np.float32)
    for _ in range(30):
        session = open_on(sample_kernels, mixed_model())
        expected = session.run(None, {"x": x})[0]
        closed, started = threading.Event(), threading.Event()

        def use(session=session, started=started, closed=closed, expected=expected) -> None:
            for feed in (
                x,
                x[:, ::1].tolist(),
                np.asfortranarray(x),
            ):  # on the fast way in and on the slow one
                try:
                    got = session.run(None, {"x": feed})[0]
                except errors.Fail as error:
                    assert "the session is closed" in str(error)
                    assert closed.is_set()
                else:
                    np.testing.assert_array_equal(got, expected)
            started.set()

        def close(session=session, started=started, closed=closed) -> None:
            started.wait(100)
            deadline = time.monotonic() + 100
            while time.monotonic() < deadline:
                closed.set()
                try:
                    session.close()
                    return
                except errors.Fail as error:
                    assert "is running: it cannot be closed" in str(error)
                    time.sleep(0)
            raise AssertionError("the session was running all the time")

        run_all([*[use] * 4, close])
        with pytest.raises(errors.Fail, match="the session is closed"):
            session.run(None, {"x": x})


def test_a_library_is_registered_and_unregistered_by_many_threads() -> None:
    path = sample_compiler.get_library_path()
    outcomes: list[str] = []

    def worker() -> None:
        try:
            ephost.register_execution_provider_library("contested", path)
        except errors.Fail as error:
            outcomes.append("taken")
            assert "already registered" in str(error)
            return
        try:
            devices = [d for d in ephost.get_ep_devices() if d.registration_name == "contested"]
            open_on(devices, adds_model()).run(None, {"x": np.ones(2, np.float32)})
        finally:
            ephost.unregister_execution_provider_library("contested")
        outcomes.append("done")

    run_all([worker] * 8, 1.0)
    assert "done" in outcomes


def test_unregistering_waits_for_nobody_but_never_pulls_a_library_from_under_a_session() -> None:
    path = sample_compiler.get_library_path()
    ephost.register_execution_provider_library("pulled", path)
    devices = [d for d in ephost.get_ep_devices() if d.registration_name == "pulled"]
    refused = []

    def use() -> None:
        for _ in range(10):
            try:
                open_on(devices, adds_model()).run(None, {"x": np.ones(2, np.float32)})
            except errors.InvalidArgument as error:
                assert "not registered any more" in str(error)

    def unregister() -> None:
        while True:
            try:
                ephost.unregister_execution_provider_library("pulled")
                return
            except errors.Fail as error:
                refused.append(str(error))
                assert "in use" in str(error)

    run_all([*[use] * 4, unregister])
    assert all("'pulled' is in use by" in text for text in refused)


def test_a_feed_whose_values_another_thread_replaces_is_read_before_or_after(sample_kernels: list) -> None:
    session = open_on(sample_kernels, mixed_model())
    feeds = [np.full((2, 32), value, np.float32) for value in (1, 2)]
    expected = [session.run(None, {"x": x})[0].tolist() for x in feeds]
    feed = {"x": feeds[0]}

    def replace() -> None:
        for x in feeds * 50:
            feed["x"] = x.copy()

    def run() -> None:
        assert session.run(None, feed)[0].tolist() in expected

    run_all([replace, replace, *[run] * (THREADS - 2)], seconds=1)


def test_terminate_ends_a_run_from_another_thread(sample_kernels: list) -> None:
    names = ["x"] + [f"v{i}" for i in range(2000)]
    nodes = [helper.make_node("MatMul", [a, a], [b]) for a, b in pairwise(names)]
    graph = helper.make_graph(
        nodes,
        "long",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [150, 150])],
        [helper.make_tensor_value_info(names[-1], TensorProto.FLOAT, [150, 150])],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    session = open_on(sample_kernels, model)
    options = ephost.RunOptions()
    threading.Timer(0.2, lambda: setattr(options, "terminate", True)).start()
    with pytest.raises(errors.Fail, match="terminated"):
        session.run(None, {"x": np.zeros((150, 150), np.float32)}, options)
