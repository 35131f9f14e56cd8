"""The process from which checks are started: ``python -m ephost.checking.server FD HOST``.

It imports what checks need, and never loads the plugin: for each check it forks a process, which has all
that ready and shares nothing with other checks. A packet on the socket at that file descriptor is a request,
with three more descriptors: where the check talks to, where what it prints goes, and a file with what is
asked for.
"""

from __future__ import annotations

import contextlib
import ctypes
import faulthandler
import gc
import importlib
import json
import logging
import os
import select
import signal
import socket
import sys
import time
import traceback
import warnings
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from ephost.checking.probing import probe
from ephost.checking.registry import Check, all_checks
from ephost.checking.subject import Given, Subject
from ephost.checking.verdicts import FAILED, PASS, SKIPPED, WARNING, Failure, Skip
from ephost.own_processes import module_command
from ephost.reference.operators import load_package

_PR_SET_CHILD_SUBREAPER = 36


def perform(made: Check, subject: Subject) -> dict[str, Any]:
    """Do a check, and say what became of it."""
    from ephost.errors import OnnxRuntimeException

    began = time.perf_counter()
    status, message = PASS, ""
    numbers: dict[str, Any] = {}
    try:
        made.function(subject)
    except Skip as reason:
        status, message = SKIPPED, str(reason)
    except Failure as failure:
        status, message, numbers = FAILED, str(failure), failure.numbers
    except MemoryError as error:
        status, message = FAILED, f"the process has no memory left: {error}"
    except Exception as error:
        status, message = FAILED, f"{type(error).__name__}: {error}"
        if not isinstance(error, OnnxRuntimeException) and type(error).__module__ != _native_errors():
            message = f"unexpected {message}"
            traceback.print_exc()
    if status == PASS and subject.notes:
        status, message = WARNING, subject.notes[0]
    return {
        "status": status,
        "message": message,
        "seconds": time.perf_counter() - began,
        "numbers": {**subject.numbers, **numbers},
        "notes": list(subject.notes),
    }


def _native_errors() -> str:
    return "onnxruntime.capi.onnxruntime_pybind11_state"


def settle(host: str) -> None:
    """What holds for every check: no plugin but the one that is checked, and only what it says is shown."""
    os.environ["EPHOST_CPU_PLUGIN"] = "0"  # what the plugin leaves is the reference's
    warnings.simplefilter("ignore")
    module = importlib.import_module(host)
    module.set_default_logger_severity(2)
    form = "%(levelname)s %(name)s: %(message)s"
    logging.basicConfig(stream=sys.stderr, level=logging.WARNING, format=form)


def subject_of(request: dict[str, Any], stage: Any) -> Subject:
    """The plugin that a request is about."""
    given = Given(**request["given"])
    return Subject(given, request["facts"], request["seed"], stage, request["cases"])


def _read(file: int) -> dict[str, Any]:
    """The request that a file is."""
    with open(file, "rb", closefd=False) as asked:
        asked.seek(0)
        request: dict[str, Any] = json.load(asked)
    return request


def _child(channel: int, log: int, file: int) -> bool:
    """Do what is asked for; whether the process is to end as a program does."""
    os.setsid()
    request = _read(file)
    os.dup2(log, 1)
    os.dup2(log, 2)
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    faulthandler.enable(2, all_threads=False)
    os.environ.pop("OPENBLAS_NUM_THREADS", None)
    os.environ.update(request["given"]["environment"])
    told = Connection(channel)
    told.send(("pid", os.getpid()))
    if request["check"] == "":
        os.close(file)
        settle(request["given"]["host"])
        probe(subject_of(request, lambda text: told.send(("stage", text))), told.send)
        return False
    made = all_checks()[request["check"]]
    os.environ.update(made.environment)
    if made.exits and request["given"]["host"] != "ephost":
        _begin_anew(request["given"]["host"], channel, file)
    os.close(file)
    return _told(made, request, told)


def _begin_anew(host: str, channel: int, file: int) -> None:
    """Go on in this process with an interpreter that starts from nothing.

    onnxruntime starts threads when it is imported; a fork has none of them, and waits for them as it ends.
    """
    for kept in (channel, file):
        os.set_inheritable(kept, True)
    os.execv(sys.executable, module_command("ephost.checking.server", str(channel), host, str(file)))


def _told(made: Check, request: dict[str, Any], told: Connection) -> bool:
    """Do a check and tell what became of it; whether the process is to end as a program does."""
    settle(request["given"]["host"])
    subject = subject_of(request, lambda text: told.send(("stage", text)))
    answer = perform(made, subject)
    sys.stdout.flush()
    sys.stderr.flush()
    told.send(("verdict", answer))
    if made.exits:
        told.send(("stage", "ending the process"))
    return made.exits


def _ends_while_asked(process: int, connection: socket.socket) -> bool:
    """Wait for a process to end; False when whoever asked for the check ends first."""
    end = os.pidfd_open(process)
    try:
        ready, _, _ = select.select([end, connection.fileno()], [], [])
        return end in ready
    finally:
        os.close(end)


def _end_what_it_started() -> None:
    """End the processes of a check that has ended: they are this one's by now, in whatever session."""
    left = Path(f"/proc/self/task/{os.getpid()}/children")
    with contextlib.suppress(FileNotFoundError):  # a kernel that does not tell
        while orphans := left.read_text().split():
            for each in map(int, orphans):
                os.kill(each, signal.SIGKILL)
                os.waitpid(each, 0)


def _serve(connection: socket.socket) -> None:
    while True:
        data, descriptors, _, _ = socket.recv_fds(connection, 1, 3)
        if not data:
            return
        process = os.fork()
        if process == 0:
            connection.close()
            if _child(*descriptors):
                return  # to the end of the interpreter
            os._exit(0)
        for descriptor in descriptors:
            os.close(descriptor)
        if not _ends_while_asked(process, connection):
            os.kill(process, signal.SIGKILL)
            os.waitpid(process, 0)
            _end_what_it_started()
            return
        _, status = os.waitpid(process, 0)
        _end_what_it_started()
        try:
            connection.send(json.dumps({"pid": process, "code": os.waitstatus_to_exitcode(status)}).encode())
        except BrokenPipeError:  # whoever asked has ended
            return


def _alone(channel: int, request: dict[str, Any]) -> None:
    """Do the one check for which this interpreter was started, and come to its end."""
    faulthandler.enable(2, all_threads=False)
    _told(all_checks()[request["check"]], request, Connection(channel))


def main() -> None:
    """Serve one connection until it ends; or, where a request is given, do what it asks for."""
    if len(sys.argv) > 3:
        request = _read(int(sys.argv[3]))
        os.close(int(sys.argv[3]))
        _alone(int(sys.argv[1]), request)
        return
    connection = socket.socket(fileno=int(sys.argv[1]))
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    all_checks()
    for name in ("onnx.numpy_helper", "ephost.hardware", "ephost.plugins.cpu", "ephost.bisection.measuring"):
        importlib.import_module(name)
    importlib.import_module(sys.argv[2])
    load_package()
    import ephost

    # These import their modules when they are first asked for.
    _ = ephost.InferenceSession, ephost.SessionOptions, ephost.GraphOptimizationLevel, ephost.get_ep_devices
    gc.collect()
    gc.freeze()  # The collector of a fork would write to, and so copy, what all of them share.
    _serve(connection)


if __name__ == "__main__":
    main()
