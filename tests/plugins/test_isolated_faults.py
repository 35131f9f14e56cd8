"""Whatever ends an isolated plugin's process, and wherever: it is a typed exception, in time, and the next
session works.
"""

from __future__ import annotations

import gc
import logging
import os
import pickle
import signal
import socket
import struct
import subprocess
import sys
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import ephost
import numpy as np
import pytest
from ephost import environment
from ephost.errors import EPFail
from ephost.isolation import channel
from ephost.isolation.process import Worker
from ephost.isolation.settings import Isolation
from ephost.plugins import sample_kernels
from plugin_harness import ROOT
from plugin_models import model, node

NAME = "isolated"
# Sanitizers make everything slow, and look for other things than what each function's end is called.
SANITIZED = "-fsanitize" in os.environ.get("EPHOST_TEST_CFLAGS", "")
LIMIT = 20.0 if SANITIZED else 3.0  # seconds, of each step; a hang takes so long to be found out
PATIENCE = 100.0  # seconds that no step takes on the busiest machine, but for one that hangs
X = np.arange(6, dtype=np.float32).reshape(2, 3)
ADD = model([node("Add", "x x2", "y")], {"x": [2, 3], "x2": [2, 3]}, ["y"])
FEED = {"x": X, "x2": X}
KINDS = {
    "segv": (ephost.PluginCrashed, signal.SIGSEGV),
    "abort": (ephost.PluginCrashed, signal.SIGABRT),
    "exit": (ephost.PluginExited, 7),
    "hang": (ephost.PluginTimedOut, LIMIT),
}
MORE_KINDS = {
    "ill": (ephost.PluginCrashed, signal.SIGILL),
    "kill": (ephost.PluginCrashed, signal.SIGKILL),
    "overflow": (ephost.PluginCrashed, signal.SIGSEGV),
}
EVERYWHERE = ["segv"] if SANITIZED else list(KINDS)
# What is called, and how the fault names it.
CALLBACKS = {
    "load": "static constructors",
    "CreateEpFactories": "CreateEpFactories",
    "GetName": "GetName",
    "GetSupportedDevices": "GetSupportedDevices",
    "CreateEp": "CreateEp",
    "GetCapability": "GetCapability",
    "Compile": "Compile",
    "CreateState": "CreateState",
    "OnRunStart": "OnRunStart",
    "Compute": "Compute",
    "OnRunEnd": "OnRunEnd",
    "ReleaseState": "ReleaseState",
    "ReleaseNodeComputeInfos": "ReleaseNodeComputeInfos",
    "ReleaseEp": "ReleaseEp",
    "ReleaseEpFactory": "ReleaseEpFactory",
    "unload": "static destructors",
}
DEVICE_CALLBACKS = {
    "CreateAllocator": "CreateAllocator",
    "CreateDataTransfer": "CreateDataTransfer",
    "CanCopy": "CanCopy",
    "IsStreamAware": "IsStreamAware",
    "CreateKernel": "KernelCreate",
    "CreateSyncStreamForDevice": "CreateSyncStreamForDevice",
    "Alloc": "Alloc",
    "CopyTensors": "CopyTensors",
    "Compute": "Compute",
    "Flush": "Flush",
    "OnSessionRunEnd": "OnSessionRunEnd",
    "Free": "Free",
    "ReleaseKernel": "Release",
    "ReleaseStream": "Release",
    "ReleaseAllocator": "ReleaseAllocator",
    "ReleaseTransfer": "Release",
}


@pytest.fixture(autouse=True)
def _unregistered(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    caplog.set_level(logging.ERROR)
    yield
    gc.collect()
    if NAME in environment.registrations():
        ephost.unregister_execution_provider_library(NAME)


def register(library: Path, **settings: object) -> None:
    hangs = os.environ.get("EPHOST_FAULT", "").startswith("hang")
    limit = LIMIT if hangs else PATIENCE
    limits = {f"{step}_timeout_seconds": limit for step in ("run", "register", "compile", "release")}
    ephost.register_execution_provider_library(NAME, library, isolated={**limits, **settings})


def open_session(**entries: str) -> ephost.InferenceSession:
    options = ephost.SessionOptions()
    options.add_session_config_entry("session.disable_cpu_ep_fallback", "1")
    for key, value in entries.items():
        options.add_session_config_entry(f"ephost.isolation.{key}", value)
    options.add_provider_for_devices([d for d in ephost.get_ep_devices() if d.registration_name == NAME], {})
    return ephost.InferenceSession(ADD.SerializeToString(), options, enable_fallback=0)


def go_through(library: Path) -> ephost.PluginFault | None:
    """Everything from registering to unregistering; the first fault of it, raised or kept for who looks."""
    kept = None
    try:
        register(library)
        kept = environment.registrations()[NAME].library
        session = open_session()
        session.run(None, FEED)
        session.close()
        fault = kept.fault
        ephost.unregister_execution_provider_library(NAME)
        return fault
    except ephost.PluginFault as error:
        return error


def check_next_session(library: Path) -> None:
    gc.collect()
    if NAME not in environment.registrations():
        register(library)
    np.testing.assert_array_equal(open_session().run(None, FEED)[0], X + X)


def inject(monkeypatch: pytest.MonkeyPatch, library: Path, kind: str, function: str) -> ephost.PluginFault:
    monkeypatch.setenv("EPHOST_FAULT", f"{kind}:{function}")
    start = time.monotonic()
    fault = go_through(library)
    assert fault is not None, "nothing happened"
    assert time.monotonic() - start < LIMIT + PATIENCE
    monkeypatch.delenv("EPHOST_FAULT")
    return fault


def check_fault(fault: ephost.PluginFault, kind: str, last_call: str) -> None:
    expected, detail = {**KINDS, **MORE_KINDS}[kind]
    assert type(fault) is expected, fault
    told = {"PluginCrashed": "signal", "PluginExited": "exit_code", "PluginTimedOut": "seconds"}
    assert getattr(fault, told[expected.__name__]) == detail
    assert fault.library == NAME
    assert last_call in fault.last_call, fault


@pytest.mark.sampled(5)
@pytest.mark.parametrize("function", CALLBACKS)
@pytest.mark.parametrize("kind", EVERYWHERE)
def test_a_fault_in_any_function_of_a_compiling_plugin_is_an_exception(
    monkeypatch: pytest.MonkeyPatch, bad: Path, kind: str, function: str
) -> None:
    fault = inject(monkeypatch, bad, kind, function)
    check_fault(fault, kind, CALLBACKS[function])
    check_next_session(bad)


@pytest.mark.sampled(5)
@pytest.mark.parametrize("function", DEVICE_CALLBACKS)
@pytest.mark.parametrize("kind", EVERYWHERE)
def test_a_fault_in_any_function_of_a_plugin_with_kernels_and_a_device_is_an_exception(
    monkeypatch: pytest.MonkeyPatch, device_library: Path, kind: str, function: str
) -> None:
    monkeypatch.setenv("DEVICE_PLUGIN", "streams")
    fault = inject(monkeypatch, device_library, kind, function)
    check_fault(fault, kind, DEVICE_CALLBACKS[function])
    check_next_session(device_library)


@pytest.mark.parametrize("kind", MORE_KINDS)
def test_so_are_other_ways_to_end(monkeypatch: pytest.MonkeyPatch, bad: Path, kind: str) -> None:
    check_fault(inject(monkeypatch, bad, kind, "Compute"), kind, "Compute")
    check_next_session(bad)


@pytest.mark.parametrize("kind", ["segv", "abort", "hang"])
def test_a_fault_says_where_the_plugin_was(monkeypatch: pytest.MonkeyPatch, bad: Path, kind: str) -> None:
    fault = inject(monkeypatch, bad, kind, "Compute")
    assert "last call: OrtNodeComputeInfo::Compute" in fault.backtrace
    assert bad.name in fault.backtrace


def test_a_fault_has_the_last_messages(monkeypatch: pytest.MonkeyPatch, bad: Path) -> None:
    monkeypatch.setenv("EPHOST_BAD", "logs")
    fault = inject(monkeypatch, bad, "segv", "Compute")
    assert fault.messages[-1] == "OnRunStart"


def test_a_log_that_raises_is_no_fault_of_the_worker(
    monkeypatch: pytest.MonkeyPatch,
    bad: Path,
    capfd: pytest.CaptureFixture[str],
    caplog: pytest.LogCaptureFixture,
) -> None:
    class Broken(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            raise ValueError("this handler is broken")

    monkeypatch.setenv("EPHOST_BAD", "logs")
    caplog.set_level(logging.WARNING)
    handler = Broken()
    logging.getLogger("ephost").addHandler(handler)
    try:
        register(bad)
        np.testing.assert_array_equal(open_session().run(None, FEED)[0], X + X)
    finally:
        logging.getLogger("ephost").removeHandler(handler)
    assert "ValueError: this handler is broken" in capfd.readouterr().err


def _message(text: str) -> bytes:
    return struct.pack("<QI", len(text), 0) + text.encode()


@pytest.mark.parametrize(
    "said",
    [
        struct.pack("<QI", 1 << 60, 0),
        _message("no JSON"),
        _message("[]"),
        _message('{"log": 3}'),
        _message('{"log": ["a", "b", 1, 2, 3, 4]}'),
        _message("[" * 30000),
        _message('{"groups": [[[0], false]], "refused": []}'),
    ],
    ids=["size", "text", "list", "log", "kinds", "depth", "unasked"],
)
def test_a_worker_that_answers_nonsense_is_ended(
    monkeypatch: pytest.MonkeyPatch, bad: Path, said: bytes
) -> None:
    """Whatever a plugin writes where its worker speaks to the host."""
    monkeypatch.setenv("EPHOST_BABBLE", said.hex())
    register(bad)
    with pytest.raises(ephost.PluginFault, match="answered what is none"):
        open_session()
    monkeypatch.delenv("EPHOST_BABBLE")
    check_next_session(bad)


def test_other_sessions_of_the_same_plugin_go_on(monkeypatch: pytest.MonkeyPatch, bad: Path) -> None:
    register(bad)
    healthy = open_session()
    monkeypatch.setenv("EPHOST_FAULT", "segv:Compute")
    failing = open_session()
    monkeypatch.delenv("EPHOST_FAULT")
    with pytest.raises(ephost.PluginCrashed):
        failing.run(None, FEED)
    np.testing.assert_array_equal(healthy.run(None, FEED)[0], X + X)
    with pytest.raises(ephost.PluginCrashed):  # it stays as it is
        failing.run(None, FEED)
    np.testing.assert_array_equal(open_session().run(None, FEED)[0], X + X)


def test_a_worker_that_is_never_to_be_started_again_is_not(
    monkeypatch: pytest.MonkeyPatch, bad: Path
) -> None:
    monkeypatch.setenv("EPHOST_FAULT", "segv:Compute")
    register(bad, restart="never")
    with pytest.raises(ephost.PluginCrashed):
        open_session().run(None, FEED)
    with pytest.raises(ephost.PluginCrashed, match="not to be started again"):
        open_session()


def test_a_worker_that_is_always_to_be_started_again_waits_for_the_next_session(
    monkeypatch: pytest.MonkeyPatch, bad: Path
) -> None:
    monkeypatch.setenv("EPHOST_FAULT", "segv:Compute")
    register(bad, restart="always")
    session = open_session()
    monkeypatch.delenv("EPHOST_FAULT")
    with pytest.raises(ephost.PluginCrashed):
        session.run(None, FEED)
    library = environment.registrations()[NAME].library
    deadline = time.monotonic() + 30
    while library._spare is None and time.monotonic() < deadline:
        time.sleep(0.05)
    spare = library._spare
    assert spare is not None
    again = open_session()
    assert again._opened.resources.assignments[0].ep.shared_pool == spare.pool
    np.testing.assert_array_equal(again.run(None, FEED)[0], X + X)


def test_a_crash_may_be_repeated_without_plugins(monkeypatch: pytest.MonkeyPatch, bad: Path) -> None:
    monkeypatch.setenv("EPHOST_FAULT", "segv:Compute")
    register(bad)
    options = ephost.SessionOptions()
    options.add_session_config_entry("ephost.isolation.on_crash", "fallback")
    options.add_provider_for_devices([d for d in ephost.get_ep_devices() if d.registration_name == NAME], {})
    session = ephost.InferenceSession(ADD.SerializeToString(), options)
    with pytest.warns(ephost.FallbackWarning, match="SIGSEGV"):
        (result,) = session.run(None, FEED)
    np.testing.assert_array_equal(result, X + X)


def test_without_that_a_crash_is_raised_whatever_happens_to_errors(
    monkeypatch: pytest.MonkeyPatch, bad: Path
) -> None:
    monkeypatch.setenv("EPHOST_FAULT", "segv:Compute")
    register(bad)
    options = ephost.SessionOptions()
    options.add_provider_for_devices([d for d in ephost.get_ep_devices() if d.registration_name == NAME], {})
    session = ephost.InferenceSession(ADD.SerializeToString(), options)
    with pytest.raises(ephost.PluginCrashed):
        session.run(None, FEED)


def test_the_worker_dies_with_its_host(bad: Path) -> None:
    register(bad)
    session = open_session()
    session.run(None, FEED)
    pids = [worker.process.pid for worker in _workers()]
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:  # another host, which is killed
        os.close(reader)
        try:
            ephost.unregister_execution_provider_library  # noqa: B018 - the parent's stay as they are
            register_again = environment.registrations()[NAME].library.take()
            os.write(writer, str(register_again.process.pid).encode())
        finally:
            os.kill(os.getpid(), signal.SIGKILL)
    os.close(writer)
    grandchild = int(os.read(reader, 64))
    os.close(reader)
    os.waitpid(child, 0)
    deadline = time.monotonic() + 20
    while _is_running(grandchild) and time.monotonic() < deadline:
        time.sleep(0.02)
    assert not _is_running(grandchild)
    assert all(map(_is_running, pids))
    np.testing.assert_array_equal(session.run(None, FEED)[0], X + X)


KILLED_MEANWHILE = """
import os, signal, struct, sys, threading
import ephost
from ephost._bindings import lib, text
from ephost.isolation.process import Worker
from test_isolated_faults import FEED, NAME, open_session

library, function = sys.argv[1:]
ephost.register_execution_provider_library(NAME, library, isolated=True)
threading.Thread(target=lambda: open_session().run(None, FEED), daemon=True).start()
while True:
    for worker in list(Worker._living):
        if function in text(lib.ephost_call_name(struct.unpack_from("=I", worker._status)[0])):
            print(worker.process.pid, flush=True)
            os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.parametrize("function", ["GetCapability", "Compile", "Compute"])
def test_a_worker_that_hangs_dies_with_its_host(bad: Path, function: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", KILLED_MEANWHILE, str(bad), function],
        env={
            **os.environ,
            "EPHOST_FAULT": f"hang:{function}",
            "PYTHONPATH": os.pathsep.join([str(ROOT / "host"), str(Path(__file__).parent)]),
        },
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == -signal.SIGKILL, done.stderr
    deadline = time.monotonic() + PATIENCE
    while _is_running(int(done.stdout)) and time.monotonic() < deadline:
        time.sleep(0.02)
    assert not _is_running(int(done.stdout))


def _end_of(group: int) -> bool:
    """Whether a group of processes comes to its end: not all that has been killed is gone at once."""
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline:
        pids = [int(entry) for entry in os.listdir("/proc") if entry.isdigit()]
        if not any(map(_is_running, filter(partial(_is_in, group), pids))):
            return True
        time.sleep(0.02)
    return False


def _is_in(group: int, pid: int) -> bool:
    try:
        return os.getpgid(pid) == group
    except ProcessLookupError:
        return False


@pytest.mark.parametrize("function", ["CreateEpFactories", "Compile", "Compute"])
def test_a_process_that_the_plugin_has_started_hides_no_crash_and_ends_with_it(
    monkeypatch: pytest.MonkeyPatch, bad: Path, function: str
) -> None:
    """Such a child has all that the worker had open: that a socket ends tells nobody of the crash."""
    monkeypatch.setenv("EPHOST_FAULT", f"orphan:{function}")
    with pytest.raises(ephost.PluginCrashed) as caught:
        register(bad)
        open_session().run(None, FEED)
    assert caught.value.signal == signal.SIGKILL
    assert caught.value.last_call.endswith(function)
    assert _end_of(caught.value.pid)


def test_a_process_that_the_plugin_has_started_ends_when_it_is_unregistered(
    monkeypatch: pytest.MonkeyPatch, bad: Path, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("EPHOST_FAULT", "child:Compute")
    caplog.set_level(logging.WARNING)
    register(bad)
    session = open_session()
    np.testing.assert_array_equal(session.run(None, FEED)[0], X + X)
    (group,) = [worker.process.pid for worker in _workers()]
    session.close()
    ephost.unregister_execution_provider_library(NAME)
    assert _end_of(group)
    assert "has not left its run" not in caplog.text


@pytest.mark.parametrize("kind", ["segv", "hang"])
def test_where_no_descriptor_of_a_process_can_be_had_its_sockets_tell(
    monkeypatch: pytest.MonkeyPatch, bad: Path, kind: str
) -> None:
    """Pythons that were built on older systems have no function for it."""
    monkeypatch.delattr(os, "pidfd_open")
    fault = inject(monkeypatch, bad, kind, "Compute")
    assert isinstance(fault, KINDS[kind][0])
    check_next_session(bad)


@pytest.mark.parametrize("function", ["load", "CreateEpFactories", "Compile", "Compute"])
def test_a_child_in_which_the_plugin_returns_ends_and_the_worker_goes_on(
    monkeypatch: pytest.MonkeyPatch, bad: Path, capfd: pytest.CaptureFixture[str], function: str
) -> None:
    monkeypatch.setenv("EPHOST_FAULT", f"fork:{function}")
    assert go_through(bad) is None
    said = capfd.readouterr().err
    assert "forked, and returned in the child" in said
    assert (str(bad) if function == "load" else f"{function}") in said


@pytest.mark.parametrize("function", ["load", "CreateEpFactories", "Compile", "Compute"])
def test_a_plugin_that_ends_the_hosts_thread_gets_an_error(
    monkeypatch: pytest.MonkeyPatch, bad: Path, function: str
) -> None:
    monkeypatch.setenv("EPHOST_FAULT", f"thread_end:{function}")
    with pytest.raises(ephost.errors.OnnxRuntimeException, match="threw pthread_exit") as caught:
        register(bad)
        open_session().run(None, FEED)
    assert CALLBACKS[function] in str(caught.value)
    assert "end it when you can" not in str(caught.value)  # the worker, which nobody else needs


@pytest.mark.parametrize("function", ["load", "Compile"])
def test_a_plugin_that_closes_what_its_worker_is_asked_on_is_told_so(
    monkeypatch: pytest.MonkeyPatch, bad: Path, function: str
) -> None:
    monkeypatch.setenv("EPHOST_FAULT", f"close_all:{function}")
    with pytest.raises(ephost.PluginFault, match=r"closed the socket .* all descriptors from 3 on") as caught:
        register(bad)
        open_session()
    if function == "load":
        assert caught.value.last_call == "the library's static constructors"
    monkeypatch.delenv("EPHOST_FAULT")
    check_next_session(bad)


@pytest.mark.resources
def test_a_plugin_that_locks_its_memory_locks_none_that_nobody_uses(
    monkeypatch: pytest.MonkeyPatch, bad: Path
) -> None:
    """What both processes map has more addresses than the machine has memory."""
    monkeypatch.setenv("EPHOST_FAULT", "lock_memory:Compile")
    register(bad)
    session = open_session()
    np.testing.assert_array_equal(session.run(None, FEED)[0], X + X)
    (worker,) = [worker for worker in _workers() if worker.pool]
    status = Path(f"/proc/{worker.process.pid}/smaps_rollup").read_text()
    resident = int(next(line for line in status.splitlines() if line.startswith("Rss:")).split()[1])
    assert resident < 2 << 20, status


@pytest.mark.parametrize(
    ("mode", "said"),
    [
        ("create_ep_fails", " cannot be created: bad_plugin: CreateEp fails"),
        ("capability_fails", " failed in GetCapability: bad_plugin: GetCapability fails"),
        ("compile_fails", " failed in Compile: bad_plugin: Compile fails"),
        ("create_state_fails", " failed in CreateState for the group of 'y_node' (Add) (1 nodes): "
         "bad_plugin: CreateState fails"),
        ("compile_nothing", " gave no compute info for the group of 'y_node' (Add) (1 nodes) from Compile"),
    ],
)  # fmt: skip
def test_an_error_that_is_no_fault_is_in_the_words_that_it_has_in_one_process(
    monkeypatch: pytest.MonkeyPatch, bad: Path, mode: str, said: str
) -> None:
    monkeypatch.setenv("EPHOST_BAD", mode)
    register(bad)
    with pytest.raises(EPFail) as caught:
        open_session()
    assert str(caught.value) == f"the execution provider bad_plugin ({NAME}: {bad}){said}"


WITH_A_CHILD = """
import os, signal, sys
import ephost
from ephost.isolation.process import Worker
from test_isolated_faults import FEED, NAME, open_session

ephost.register_execution_provider_library(NAME, sys.argv[1], isolated=True)
open_session().run(None, FEED)
(worker,) = Worker._living
print(worker.process.pid, flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_a_process_that_the_plugin_has_started_ends_with_a_host_that_is_killed(
    bad: Path, tmp_path: Path
) -> None:
    with open(tmp_path / "said", "w") as said:
        done = subprocess.run(
            [sys.executable, "-c", WITH_A_CHILD, str(bad)],
            env={
                **os.environ,
                "EPHOST_FAULT": "child:Compute",
                "PYTHONPATH": os.pathsep.join([str(ROOT / "host"), str(Path(__file__).parent)]),
            },
            stdout=said,
            check=False,
        )
    assert done.returncode == -signal.SIGKILL
    group = int((tmp_path / "said").read_text())
    assert _end_of(group)


FEW_DESCRIPTORS = """
import os, resource, sys
import ephost
from test_isolated_faults import FEED, NAME, open_session

ephost.register_execution_provider_library(NAME, sys.argv[1], isolated=True)
first = open_session()
_, most = resource.getrlimit(resource.RLIMIT_NOFILE)
count = 1 + max(map(int, os.listdir("/proc/self/fd")))
for spare in range(12):
    resource.setrlimit(resource.RLIMIT_NOFILE, (count + spare, most))
    try:
        open_session().run(None, FEED)
    except ephost.errors.Fail as error:
        print("refused:", error)
        assert "Too many open files" in str(error) and NAME in str(error), error
    try:
        first.run(None, FEED)
    except ephost.errors.OnnxRuntimeException as error:
        print("run refused:", error)
resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
first.run(None, FEED)
open_session().run(None, FEED)
"""

FEW_ADDRESSES = """
import resource, sys
import ephost
from test_isolated_faults import FEED, NAME, open_session

resource.setrlimit(resource.RLIMIT_AS, (16 << 30, 16 << 30))
try:
    ephost.register_execution_provider_library(NAME, sys.argv[1], isolated=True)
except ephost.errors.Fail as error:
    assert "shared_bytes" in str(error), error
    print("refused:", error)
ephost.register_execution_provider_library(NAME, sys.argv[1], isolated={"shared_bytes": 1 << 30})
open_session().run(None, FEED)
"""


SHORT_FILES = """
import resource, sys
import ephost
import numpy as np
from onnx import numpy_helper
from plugin_models import model, node
from test_isolated_faults import FEED, NAME, open_session

resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, 1 << 20))
large = np.zeros(1 << 20, np.float32)
ephost.register_execution_provider_library(NAME, sys.argv[1], isolated=True)
open_session().run(None, FEED)

options = ephost.SessionOptions()
options.add_provider_for_devices([d for d in ephost.get_ep_devices() if d.registration_name == NAME], {})
made = model([node("Add", "x x", "y")], {"x": ["n"]}, ["y"])
fed = ephost.InferenceSession(made.SerializeToString(), options, enable_fallback=0)
try:
    fed.run(None, {"x": large})
except ephost.errors.Fail as error:
    assert "4194304 bytes find no room in the 1048576 bytes" in str(error), error
    assert "ulimit -f" in str(error), error
    print("refused:", error)
fed.run(None, {"x": large[:1000]})

weighed = model([node("Add", "x w", "y")], {"x": [1 << 20]}, ["y"])
weighed.graph.initializer.append(numpy_helper.from_array(large, "w"))
try:
    ephost.InferenceSession(weighed.SerializeToString(), options, enable_fallback=0)
except ephost.errors.Fail as error:
    said = "4194304 bytes of weights find no room"
    assert said in str(error) and "ulimit -f allows this process 1048576 bytes" in str(error), error
    print("refused:", error)
"""


@pytest.mark.skipif(SANITIZED, reason="sanitizers want addresses and descriptors of their own")
@pytest.mark.parametrize(
    "program", [FEW_DESCRIPTORS, FEW_ADDRESSES, SHORT_FILES], ids=["descriptors", "addresses", "files"]
)
def test_a_limit_of_the_hosts_is_an_error_and_no_end(bad: Path, program: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", program, str(bad)],
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT / "host"), str(Path(__file__).parent)])},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "refused:" in done.stdout


def test_a_forked_child_has_workers_of_its_own(bad: Path) -> None:
    register(bad)
    old = open_session()
    child = os.fork()
    if child == 0:
        code = 1
        try:
            np.testing.assert_array_equal(open_session().run(None, FEED)[0], X + X)
            with pytest.raises(EPFail, match="before fork"):
                old.run(None, FEED)
            code = 0
        finally:
            os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    np.testing.assert_array_equal(old.run(None, FEED)[0], X + X)


def _workers() -> list[object]:
    from ephost.isolation.process import Worker

    return [worker for worker in Worker._living if worker.is_alive]


def _is_running(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state != "Z"


def test_a_worker_whose_host_has_gone_ends_without_a_word(capfd: pytest.CaptureFixture[str]) -> None:
    worker = Worker("gone", sample_kernels.get_library_path(), Isolation())
    channel.send(worker._connection, pickle.dumps((1, "none", {}, b"")), [])
    worker._connection.shutdown(socket.SHUT_RDWR)  # before there is an answer
    assert worker.process.wait(30) == -signal.SIGKILL
    worker._close()
    assert "Traceback" not in capfd.readouterr().err
