"""The ways to run a session: by IO binding, OrtValues, threads, asyncio; profiling, and changing
providers.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import json
import logging
import os
import queue
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from functools import partial
from logging.handlers import QueueHandler
from pathlib import Path
from typing import Any

import ephost
import ml_dtypes
import numpy as np
import pytest
from api_models import add_and_relu, model_bytes, tensor
from ephost.capi.onnxruntime_pybind11_state import OrtValueVector
from ephost.devices import OrtDevice
from ephost.errors import Fail, InvalidArgument
from onnx import TensorProto, helper, numpy_helper

X = np.array([[1, -5, 2], [0, 1, -1]], np.float32)
Y = np.ones((2, 3), np.float32)
S = X + Y
Z = np.maximum(S, 0)


@pytest.fixture
def session() -> ephost.InferenceSession:
    return ephost.InferenceSession(add_and_relu())


# ---- arguments ----


def test_output_names_may_be_anything_that_gives_names(session: ephost.InferenceSession) -> None:
    for names in ({"z"}, (name for name in ["z"]), {"z": 1}.keys(), ("z",), np.array(["z"], object)):
        (found,) = session.run(names, {"x": X, "y": Y})
        assert found.tolist() == Z.tolist()


@pytest.mark.parametrize("names", ["z", b"z", 5, 1.5])
def test_what_gives_no_names_is_refused(session: ephost.InferenceSession, names: Any) -> None:
    with pytest.raises(TypeError, match="output names are a list of str"):
        session.run(names, {"x": X, "y": Y})


def test_an_error_among_names_is_the_callers(session: ephost.InferenceSession) -> None:
    def broken() -> Iterator[str]:
        yield "z"
        raise LookupError("mine")

    with pytest.raises(LookupError, match="mine"):
        session.run(broken(), {"x": X, "y": Y})


@pytest.mark.parametrize("options", [5, "terminate", ephost.SessionOptions()])
def test_options_of_another_kind_are_refused(session: ephost.InferenceSession, options: Any) -> None:
    feeds = {"x": X, "y": Y}
    values = {name: ephost.OrtValue.ortvalue_from_numpy(array) for name, array in feeds.items()}
    binding = session.io_binding()
    binding.bind_cpu_input("x", X)
    binding.bind_cpu_input("y", Y)
    for run in (
        lambda: session.run(None, feeds, options),
        lambda: session.run_with_ort_values(None, values, options),
        lambda: session.run_with_iobinding(binding, options),
    ):
        with pytest.raises(TypeError, match="the options of a run are a RunOptions, not"):
            run()
    if not isinstance(options, ephost.SessionOptions):
        with pytest.raises(TypeError, match="the options of a session are a SessionOptions, not"):
            ephost.InferenceSession(add_and_relu(), options)


# ---- OrtValues ----


def test_ort_values_run_by_name_and_by_position(session: ephost.InferenceSession) -> None:
    x, y = (ephost.OrtValue.ortvalue_from_numpy(a) for a in (X, Y))
    (z,) = session.run_with_ort_values(["z"], {"x": x, "y": y})
    assert z.numpy().tolist() == Z.tolist()
    fetches = OrtValueVector()
    session.run_with_ortvaluevector(None, ["y", "x"], [y, x], ["s", "z"], fetches, [OrtDevice(0, 0, 0)] * 2)
    assert [value.numpy().tolist() for value in fetches] == [S.tolist(), Z.tolist()]
    before = fetches[0].data_ptr()
    session.run_with_ortvaluevector(None, ["y", "x"], [y, y], ["s", "z"], fetches, [OrtDevice(0, 0, 0)] * 2)
    assert fetches[0].data_ptr() == before
    assert fetches[0].numpy().tolist() == [[2] * 3] * 2
    with pytest.raises(InvalidArgument, match="2 names for 1 feeds"):
        session.run_with_ortvaluevector(None, ["x", "y"], [x], ["z"], [], [])


# ---- defaults that a run replaces ----


def branches() -> tuple[list[Any], list[Any]]:
    then = helper.make_graph([helper.make_node("Add", ["x", "w"], ["t"])], "then", [], [tensor("t", 3)])
    other = helper.make_graph([helper.make_node("Mul", ["x", "w"], ["e"])], "other", [], [tensor("e", 3)])
    return [helper.make_node("If", ["c"], ["y"], then_branch=then, else_branch=other)], []


def loop() -> tuple[list[Any], list[Any]]:
    go, at = tensor("go", element_type=TensorProto.BOOL), tensor("at", element_type=TensorProto.INT64)
    nodes = [helper.make_node("Identity", ["go"], ["on"]), helper.make_node("Add", ["v", "w"], ["sum"])]
    on = tensor("on", element_type=TensorProto.BOOL)
    body = helper.make_graph(nodes, "body", [at, go, tensor("v", 3)], [on, tensor("sum", 3)])
    once = numpy_helper.from_array(np.array(1, np.int64), "once")
    return [helper.make_node("Loop", ["once", "c", "x"], ["y"], body=body)], [once]


@pytest.mark.parametrize("make", [branches, loop])
@pytest.mark.parametrize("claimed", [False, True], ids=["all on the fallback", "the body on a plugin"])
def test_a_body_reads_the_default_that_the_run_replaced(make: Any, claimed: bool, sample_ep: str) -> None:
    nodes, constants = make()
    default = numpy_helper.from_array(np.array([1, 2, 3], np.float32), "w")
    inputs = [tensor("x", 3), tensor("c", element_type=TensorProto.BOOL), tensor("w", 3)]
    options = ephost.SessionOptions()
    options.add_session_config_entry("ephost.offer_subgraphs", "1" if claimed else "0")
    session = ephost.InferenceSession(
        model_bytes(nodes, inputs, [tensor("y", 3)], [default, *constants]),
        options,
        providers=[sample_ep],
    )
    assert any(step.ep_name == sample_ep for step in session._resources.plan.all_steps()) == claimed
    x = np.array([1, 1, 1], np.float32)
    feed = {"x": x, "c": np.array(True)}
    for replaced, expected in (({}, [2, 3, 4]), ({"w": 10 * x}, [11, 11, 11]), ({}, [2, 3, 4])):
        assert session.run(None, {**feed, **replaced})[0].tolist() == expected


# ---- asynchronous runs ----


def test_an_asynchronous_run_calls_back_with_results_or_an_error(session: ephost.InferenceSession) -> None:
    calls: list[tuple[Any, ...]] = []
    done = threading.Event()

    def callback(results: list[Any], user_data: Any, error: str) -> None:
        calls.append((results, user_data, error, threading.get_ident()))
        done.set()

    session.run_async(["z"], {"x": X, "y": Y}, callback, "mine")
    assert done.wait(100)
    results, user_data, error, thread = calls.pop()
    assert (results[0].tolist(), user_data, error) == (Z.tolist(), "mine", "")
    assert thread != threading.get_ident()
    done.clear()
    session.run_async(["z"], {"x": X, "y": Y[:, :2]}, callback, None)
    assert done.wait(100)
    assert calls[0][0] == []
    assert "index: 1 Got: 2 Expected: 3" in calls[0][2]
    with pytest.raises(ValueError, match=r"\['y'\]"):
        session.run_async(None, {"x": X}, callback, None)
    for nobody in (None, "callback"):
        with pytest.raises(TypeError, match="callback has to be a function"):
            session.run_async(["z"], {"x": X, "y": Y}, nobody, None)  # type: ignore[arg-type]


class Metered:
    """Awaits a coroutine; meters the processor time that it takes of the event loop's thread, step by step.

    That is what a loop is blocked by us, and unlike time on the wall it is the same on a busy machine.
    """

    def __init__(self, coroutine: Any, steps: list[float]) -> None:
        self._coroutine, self._steps = coroutine, steps

    def __await__(self) -> Any:
        while True:
            before = time.thread_time()
            try:
                waits_for = self._coroutine.send(None)
            except StopIteration as end:
                return end.value
            finally:
                self._steps.append(time.thread_time() - before)
            yield waits_for


class Gate:
    """A feed that nobody gets to read before the event loop went on."""

    def __init__(self, opened: threading.Event, array: np.ndarray) -> None:
        self._opened, self._array = opened, array
        self.readers = 0

    def __array__(self, *_: Any, **__: Any) -> np.ndarray:
        self.readers += 1
        assert self._opened.wait(200), "the event loop did not go on while runs were under way"
        return self._array


def test_64_awaited_runs_all_answer_and_wait_for_none_on_the_event_loop(
    session: ephost.InferenceSession,
) -> None:
    opened = threading.Event()

    async def serve() -> list[Any]:
        feeds = [{"x": Gate(opened, X + number), "y": Y} for number in range(64)]
        tasks = [asyncio.create_task(session.run_asyncio(["s"], feed)) for feed in feeds]
        await asyncio.sleep(0)  # each has started its run, and none can have ended
        assert not any(task.done() for task in tasks)
        opened.set()
        return await asyncio.gather(*tasks)

    answers = asyncio.run(serve())
    assert [answer[0].tolist() for answer in answers] == [(S + number).tolist() for number in range(64)]


FORKED = f"""
import asyncio, os, time
import ephost, numpy
session = ephost.InferenceSession({add_and_relu()!r})
feed = dict.fromkeys("xy", numpy.ones((2, 3), numpy.float32))
asyncio.run(session.run_asyncio(None, feed))
time.sleep(0.1)  # the thread waits for more
child = os.fork()
if not child:
    print(asyncio.run(session.run_asyncio(["s"], feed))[0][0, 0], flush=True)
    os._exit(0)
os.waitpid(child, 0)
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork")
def test_a_forked_child_awaits_runs_as_its_parent_did() -> None:
    script = [sys.executable, "-W", "ignore", "-c", FORKED]
    with subprocess.Popen(script, stdout=subprocess.PIPE, start_new_session=True) as started:
        try:
            assert started.communicate(timeout=100)[0].split() == [b"2.0"]
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(started.pid, signal.SIGKILL)


@pytest.mark.parametrize("raised", [ValueError, asyncio.CancelledError, SystemExit, KeyboardInterrupt])
def test_whatever_a_callback_raises_is_logged(
    session: ephost.InferenceSession, raised: type[BaseException]
) -> None:
    logged: queue.SimpleQueue[logging.LogRecord] = queue.SimpleQueue()

    def callback(*_: Any) -> None:
        raise raised

    handler = QueueHandler(logged)
    logging.getLogger("ephost.session").addHandler(handler)
    try:
        session.run_async(["z"], {"x": X, "y": Y}, callback, None)
        text = logged.get(timeout=100).getMessage()
    finally:
        logging.getLogger("ephost.session").removeHandler(handler)
    assert "the callback of an asynchronous run" in text and raised.__name__ in text


def long_runs() -> tuple[ephost.InferenceSession, dict[str, np.ndarray]]:
    """A session of which a run takes more than 30 ms of the thread that it is on; its feed."""
    x, y = (tensor(name, 128, 128, element_type=TensorProto.INT32) for name in "xy")
    feed = {"x": np.ones((128, 128), np.int32)}
    for count in (1, 4, 16, 64, 256):
        names = ["x", *(f"v{at}" for at in range(count - 1)), "y"]
        nodes = [helper.make_node("MatMul", [names[at], "x"], [names[at + 1]]) for at in range(count)]
        session = ephost.InferenceSession(model_bytes(nodes, [x], [y]))
        before = time.thread_time()
        session.run(None, feed)
        if time.thread_time() - before > 0.03:
            return session, feed
    raise AssertionError("256 products of matrices take no time")


def test_awaited_runs_take_a_small_part_of_a_run_of_the_event_loop_at_a_time() -> None:
    session, feed = long_runs()

    async def serve() -> list[float]:
        steps: list[float] = []

        async def one() -> None:
            await Metered(session.run_asyncio(None, feed), steps)

        await asyncio.gather(*(one() for _ in range(64)))
        assert len(steps) >= 128  # at least one to start each run and one to take its results
        return steps

    # Both in processor time of a thread: a ratio is the same on a slow machine.
    assert any(max(asyncio.run(serve())) < 0.03 / 4 for _ in range(3))


@pytest.fixture
def turns() -> Iterator[Callable[[], int]]:
    """How often another thread of Python's had its turn, which it has only when the GIL is let go of."""
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1000)
    count, stopped = 0, False

    def work() -> None:
        nonlocal count
        while not stopped:
            count += 1
            time.sleep(0)

    thread = threading.Thread(target=work)
    thread.start()
    yield lambda: count
    stopped = True
    sys.setswitchinterval(interval)
    thread.join()


LONG_WORK: dict[str, Callable[[], Callable[[], object]]] = {
    "a large tensor is copied": lambda: ephost.OrtValue.from_python([np.ones(1 << 22, np.float32)]).numpy,
    "strings are read": lambda: partial(ephost.OrtValue.from_python, np.full(1 << 18, "text", object)),
    "4-bit integers are packed": lambda: partial(
        ephost.OrtValue.from_python, np.ones(1 << 22, ml_dtypes.int4)
    ),
    "4-bit integers are unpacked": lambda: (
        ephost.OrtValue.from_python(np.ones(1 << 22, ml_dtypes.int4)).numpy
    ),
}


@pytest.mark.parametrize("what", LONG_WORK)
def test_long_work_on_values_lets_other_threads_have_their_turn(what: str, turns: Callable[[], int]) -> None:
    work = LONG_WORK[what]()
    for _ in range(200):
        before = turns()
        result = work()
        after = turns()
        del result
        if after > before:
            return
    pytest.fail(f"no other thread had its turn while {what}")


def test_cancelling_a_task_terminates_its_run_alone(
    session: ephost.InferenceSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    options, opened, run = ephost.RunOptions(), threading.Event(), session.run
    failed: queue.SimpleQueue[Fail] = queue.SimpleQueue()

    def noted(*arguments: Any) -> list[Any]:
        try:
            return run(*arguments)
        except Fail as error:
            failed.put(error)
            raise

    monkeypatch.setattr(session, "run", noted)

    async def cancel() -> Any:
        gate = Gate(opened, X)
        feed = {"x": gate, "y": Y}
        one, other = (asyncio.create_task(session.run_asyncio(["z"], feed, options)) for _ in range(2))
        while gate.readers < 2:  # both runs have begun
            await asyncio.sleep(0.001)
        one.cancel()
        with pytest.raises(asyncio.CancelledError):
            await one
        opened.set()
        return await other

    assert asyncio.run(cancel())[0].tolist() == Z.tolist()
    assert "terminat" in str(failed.get(timeout=100)) and failed.empty()
    assert not options.terminate
    assert session.run(["z"], {"x": X, "y": Y}, options)[0].tolist() == Z.tolist()


def test_options_terminate_awaited_runs_too(session: ephost.InferenceSession) -> None:
    options, opened = ephost.RunOptions(), threading.Event()

    async def terminate() -> None:
        task = asyncio.create_task(session.run_asyncio(None, {"x": Gate(opened, X), "y": Y}, options))
        await asyncio.sleep(0)
        options.terminate = True
        opened.set()
        with pytest.raises(Fail, match="terminat"):
            await task
        with pytest.raises(Fail, match="terminat"):
            await session.run_asyncio(None, {"x": X, "y": Y}, options)
        options.terminate = False
        await session.run_asyncio(None, {"x": X, "y": Y}, options)

    asyncio.run(terminate())


def test_an_awaited_run_has_all_its_options() -> None:
    options = ephost.RunOptions()
    options.log_severity_level, options.log_verbosity_level, options.logid = 1, 4, "tag"
    options.only_execute_path_to_fetches = True
    options.add_run_config_entry("gpu_graph_id", "7")
    followed = options._follower()
    names = [
        name for name in dir(options) if not name.startswith("_") and not callable(getattr(options, name))
    ]
    assert "logid" in names
    assert [getattr(followed, name) for name in names] == [getattr(options, name) for name in names]
    assert followed.get_run_config_entry("gpu_graph_id") == "7"


# ---- profiling ----


@pytest.mark.in_process("kernels run in groups")
def test_profiling_writes_a_chrome_trace_of_the_steps(tmp_path: Any, sample_ep: str) -> None:
    options = ephost.SessionOptions()
    options.enable_profiling = True
    options.profile_file_prefix = str(tmp_path / "profile")
    before = time.monotonic_ns()
    session = ephost.InferenceSession(add_and_relu(), options, providers=[sample_ep])
    assert before <= session.get_profiling_start_time_ns() <= time.monotonic_ns()
    for _ in range(3):
        session.run(None, {"x": X, "y": Y})
    path = session.end_profiling()
    assert path.startswith(options.profile_file_prefix) and path.endswith(".json")
    events = json.loads(Path(path).read_text())
    nodes = [event for event in events if event["cat"] == "Node"]
    assert [event["name"] for event in nodes] == ["add_kernel_time", "relu_kernel_time"] * 3
    assert all(event["ph"] == "X" and event["dur"] >= 0 and event["ts"] >= 0 for event in nodes)
    assert {event["args"]["provider"] for event in nodes} >= {sample_ep}
    assert {"session_load", "session_partition"} <= {event["name"] for event in events}
    assert [event["name"] for event in events].count("model_run") == 3
    assert all(event["ts"] >= 0 for event in events)
    assert session.end_profiling() == ""


def test_a_trace_has_an_event_a_line_between_brackets(tmp_path: Path) -> None:
    options = ephost.SessionOptions()
    options.enable_profiling = True
    options.profile_file_prefix = str(tmp_path / "profile")
    session = ephost.InferenceSession(add_and_relu(), options)
    binding = session.io_binding()
    binding.bind_cpu_input("x", X)
    binding.bind_cpu_input("y", Y)
    binding.bind_output("z")
    session.run_with_iobinding(binding)
    first, *lines, last = Path(session.end_profiling()).read_text().splitlines()
    assert (first, last) == ("[", "]")
    events = [json.loads(line.rstrip(",")) for line in lines]
    assert all({"pid", "tid", "dur", "ts", "ph", "name", "args"} <= set(event) for event in events)
    assert [event["name"] for event in events].count("model_run") == 1


def test_a_trace_has_the_nodes_of_bodies(tmp_path: Path, sample_ep: str) -> None:
    body = helper.make_graph(
        [
            helper.make_node("Add", ["v", "v"], ["w"], name="inner"),
            helper.make_node("Identity", ["c"], ["d"]),
        ],
        "body",
        [
            tensor("i", element_type=TensorProto.INT64),
            tensor("c", element_type=TensorProto.BOOL),
            tensor("v", 3),
        ],
        [tensor("d", element_type=TensorProto.BOOL), tensor("w", 3)],
    )
    loop = helper.make_node("Loop", ["trips", "", "x"], ["z"], name="loop", body=body)
    inputs = [tensor("trips", element_type=TensorProto.INT64), tensor("x", 3)]
    options = ephost.SessionOptions()
    options.enable_profiling = True
    options.profile_file_prefix = str(tmp_path / "profile")
    session = ephost.InferenceSession(model_bytes([loop], inputs, [tensor("z", 3)]), options, [sample_ep])
    session.run(None, {"trips": np.int64(4), "x": X[0]})
    assert names_run(session).count("inner") == 4


def profiled(prefix: Path) -> ephost.InferenceSession:
    options = ephost.SessionOptions()
    options.enable_profiling = True
    options.profile_file_prefix = str(prefix)
    session = ephost.InferenceSession(add_and_relu(), options)
    session.run(None, {"x": X, "y": Y})
    return session


@pytest.mark.parametrize("end", ["close", "collect", "set_providers"])
def test_a_profile_that_nobody_ended_is_written_when_its_session_ends(end: str, tmp_path: Path) -> None:
    session = profiled(tmp_path / "profile")
    if end == "close":
        session.close()
        assert session.end_profiling() == ""
    elif end == "set_providers":
        session.set_providers()
    else:
        del session
    gc.collect()
    (path,) = tmp_path.iterdir()
    assert [event["name"] for event in json.loads(path.read_text())].count("model_run") == 1


def test_a_profile_that_nobody_ended_is_written_when_the_program_ends(tmp_path: Path) -> None:
    script = f"""
import ephost, numpy
options = ephost.SessionOptions()
options.enable_profiling, options.profile_file_prefix = True, {str(tmp_path / "profile")!r}
session = ephost.InferenceSession({add_and_relu()!r}, options)
session.run(None, dict.fromkeys("xy", numpy.ones((2, 3), numpy.float32)))
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    (path,) = tmp_path.iterdir()
    assert [event["name"] for event in json.loads(path.read_text())].count("model_run") == 1
    assert done.stderr == ""


def test_a_profile_that_could_not_be_written_is_kept_for_another_try(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    session = profiled(tmp_path / "none" / "profile")
    for _ in range(2):
        with pytest.raises(FileNotFoundError, match="none"):
            session.end_profiling()
    session.close()
    assert [record.levelname for record in caplog.records] == ["WARNING"]
    assert "the profile" in caplog.text and str(tmp_path / "none") in caplog.text
    (tmp_path / "none").mkdir()
    events = json.loads(Path(session.end_profiling()).read_text())
    assert [event["name"] for event in events].count("model_run") == 1
    assert session.end_profiling() == ""


def test_without_profiling_there_is_no_file(session: ephost.InferenceSession) -> None:
    assert session.end_profiling() == ""
    assert session.get_profiling_start_time_ns() == 0


# ---- execution providers of an open session ----


def test_set_providers_opens_the_model_again(session: ephost.InferenceSession, sample_ep: str) -> None:
    assert session.get_providers() == ["CPUExecutionProvider"]
    session.set_providers([sample_ep])
    assert session.get_providers() == [sample_ep, "CPUExecutionProvider"]
    assert session.get_input_epdevices()[0].ep_name == sample_ep
    assert session.run(["z"], {"x": X, "y": Y})[0].tolist() == Z.tolist()
    with pytest.raises(Fail, match="in use"):
        ephost.unregister_execution_provider_library("api-sample")
    session.set_providers(["CPUExecutionProvider"])
    assert session.get_input_epdevices() == [None, None]
    assert session.run(["z"], {"x": X, "y": Y})[0].tolist() == Z.tolist()


def test_set_providers_raises_for_a_name_that_nobody_has(session: ephost.InferenceSession) -> None:
    with pytest.raises(RuntimeError, match="Unknown Provider Type: Nobody"):
        session.set_providers(["Nobody"])
    assert session.run(["s"], {"x": X, "y": Y})[0].tolist() == S.tolist()


def test_a_failing_set_providers_leaves_the_session_as_it_was(session: ephost.InferenceSession) -> None:
    with pytest.raises(ValueError, match="sequence"):
        session.set_providers("oops")
    assert session.run(["z"], {"x": X, "y": Y})[0].tolist() == Z.tolist()


def test_dynamic_options_are_texts(session: ephost.InferenceSession) -> None:
    session.set_ep_dynamic_options({"key": "value"})
    with pytest.raises(TypeError):
        session.set_ep_dynamic_options({"key": 1})


def test_a_session_says_where_its_values_lie(session: ephost.InferenceSession) -> None:
    assert [info.name for info in session.get_input_memory_infos()] == ["Cpu", "Cpu"]
    assert len(session.get_output_memory_infos()) == 2
    value = session.create_ortvalue_from_shape_and_type([2, 3], np.float32, "cpu")
    assert value.shape() == [2, 3]


def test_a_closed_session_says_so(session: ephost.InferenceSession) -> None:
    binding = session.io_binding()
    binding.bind_output("z")
    session.close()
    for call in (
        lambda: session.run(None, {"x": X, "y": Y}),
        lambda: session.run_with_ort_values(None, {}),
        lambda: session.run_with_iobinding(binding),
        session.set_providers,
    ):
        with pytest.raises(Fail, match="closed"):
            call()


# ---- only what an output needs ----

BRANCHES = model_bytes(
    [
        helper.make_node("Neg", ["x"], ["n"], name="neg"),
        helper.make_node("Abs", ["n"], ["a"], name="abs"),
        helper.make_node("Reshape", ["n", "to"], ["r"], name="reshape"),
        helper.make_node("Add", ["n", "n"], ["d"], name="double"),
    ],
    [tensor("x", 4), tensor("to", 1, element_type=7)],
    [tensor("a", 4), tensor("r", "M"), tensor("d", 4)],
)
IMPOSSIBLE = {"x": np.array([1, -2, 3, -4], np.float32), "to": np.array([3])}


def only_fetches() -> ephost.RunOptions:
    options = ephost.RunOptions()
    options.only_execute_path_to_fetches = True
    assert options.only_execute_path_to_fetches
    return options


def names_run(session: ephost.InferenceSession) -> list[str]:
    events = json.loads(Path(session.end_profiling()).read_text())
    return [e["name"].removesuffix("_kernel_time") for e in events if e["cat"] == "Node"]


@pytest.mark.parametrize(
    "plugin", [False, pytest.param(True, marks=pytest.mark.in_process("kernels run in groups"))]
)
def test_steps_that_the_wanted_outputs_do_not_need_do_not_run(
    plugin: bool, sample_ep: str, tmp_path: Path
) -> None:
    options = ephost.SessionOptions()
    options.enable_profiling = True
    options.profile_file_prefix = str(tmp_path / "profile")
    options.graph_optimization_level = ephost.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = ephost.InferenceSession(BRANCHES, options, providers=[sample_ep] if plugin else [])
    a, d = session.run(["a", "d"], IMPOSSIBLE, only_fetches())
    assert (a.tolist(), d.tolist()) == ([1, 2, 3, 4], [-2, 4, -6, 8])
    assert session.run(["d"], IMPOSSIBLE, only_fetches())[0].tolist() == [-2, 4, -6, 8]
    assert names_run(session) == ["neg", "abs", "double", "neg", "double"]


def test_a_step_that_is_needed_runs_and_may_fail() -> None:
    session = ephost.InferenceSession(BRANCHES)
    with pytest.raises(Fail, match="reshape"):
        session.run(["a", "r"], IMPOSSIBLE, only_fetches())
    with pytest.raises(Fail, match="reshape"):
        session.run(["a"], IMPOSSIBLE)
    with pytest.raises(Fail, match="reshape"):  # None: all of them
        session.run(None, IMPOSSIBLE, only_fetches())
    options = only_fetches()
    options.only_execute_path_to_fetches = False
    with pytest.raises(Fail, match="reshape"):
        session.run(["a"], IMPOSSIBLE, options)


def test_what_is_needed_is_worked_out_for_each_set_of_outputs() -> None:
    session = ephost.InferenceSession(BRANCHES)
    feed, options = IMPOSSIBLE | {"to": np.array([4])}, only_fetches()
    wanted: list[list[str]] = [["a"], ["d", "r"], ["r", "d"], ["a"], ["a", "a", "a", "a"], ["d"]]
    full = dict(zip("ard", session.run(["a", "r", "d"], feed), strict=True))
    for names in wanted * 2:
        found = session.run(names, feed, options)
        assert [v.tolist() for v in found] == [full[name].tolist() for name in names]
    assert [v.tolist() for v in session.run(None, feed)] == [full[name].tolist() for name in "ard"]


def test_bindings_and_ort_values_run_only_what_they_need() -> None:
    session = ephost.InferenceSession(BRANCHES)
    binding, out = session.io_binding(), np.zeros(4, np.float32)
    for name, array in IMPOSSIBLE.items():
        binding.bind_cpu_input(name, array)
    binding.bind_output("a", "cpu", 0, np.float32, [4], out.ctypes.data)
    session.run_with_iobinding(binding, only_fetches())
    assert out.tolist() == [1, 2, 3, 4]
    values = {name: ephost.OrtValue.ortvalue_from_numpy(array) for name, array in IMPOSSIBLE.items()}
    (d,) = session.run_with_ort_values(["d"], values, only_fetches())
    assert d.numpy().tolist() == [-2, 4, -6, 8]
