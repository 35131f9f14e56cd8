"""One worker process as the host sees it: started, asked, and ended; its faults as exceptions."""

from __future__ import annotations

import contextlib
import json
import logging
import mmap
import os
import pickle
import queue
import select
import signal
import socket
import struct
import subprocess
import sys
import threading
import traceback
import weakref
from collections import deque
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from ephost._bindings import lib, text
from ephost.errors import (
    BY_CODE,
    Fail,
    InvalidArgument,
    NotImplemented,
    PluginCrashed,
    PluginExited,
    PluginFault,
    PluginTimedOut,
    fresh,
)
from ephost.isolation import channel, sandbox
from ephost.isolation.settings import VARIABLE, Isolation
from ephost.logs import deliver
from ephost.saving import reason

if TYPE_CHECKING:
    from ephost.isolation.memory import RemoteMemory

_LOG = logging.getLogger("ephost.isolation")
_STATUS_BYTES = 4096
_LAST_MESSAGES = 20
_START_SECONDS = 120.0
_CLOSED = "closed the socket on which its process is asked, as closing all descriptors from 3 on does,"
_GRACE = 1.0  # seconds that a worker which hangs has to say where


def check_supported(settings: Isolation) -> None:
    """Hold that this system has what isolation is made of.

    Raises:
        NotImplemented: it is not Linux, or cannot hold a process to what the settings say.
        InvalidArgument: what is to be writable does not exist.
    """
    if sys.platform != "linux":
        raise NotImplemented(f"plugins can be isolated on Linux alone so far, not on {sys.platform}")
    if why := sandbox.missing(network=settings.network, writable=settings.writable):
        what = "no network" if settings.writable is None else "read-only files"
        raise NotImplemented(f"a plugin cannot be isolated with {what} here: {why}")
    for path in settings.writable or ():
        if not os.path.exists(path):
            raise InvalidArgument(f"the isolation's writable has {path!r}, which does not exist")


class Worker:
    """A process with one plugin library in it, and at most one EP at a time."""

    _living: ClassVar[weakref.WeakSet[Worker]] = weakref.WeakSet()

    def __init__(self, name: str, path: str, settings: Isolation) -> None:
        """Start the process; the library is not loaded yet.

        Raises:
            Fail: it cannot be started.
        """
        self.name = name
        self.path = path
        self.settings = settings
        self.owner = os.getpid()
        self.fault: PluginFault | None = None
        self.on_fault: Callable[[PluginFault], None] | None = None
        self.messages: deque[str] = deque(maxlen=_LAST_MESSAGES)
        self._lock = threading.Lock()  # one request at a time
        self._fault_lock = threading.RLock()
        self._answers: queue.SimpleQueue[dict[str, Any] | None] = queue.SimpleQueue()
        self._ended = False
        self._garbled = ""  # what was wrong with what it sent
        self._number = 0  # of the last question
        self.pool: Any = None
        self.pidfd = -1  # can be read once the process has ended; -1: its sockets alone tell
        self.memories: dict[int, RemoteMemory] = {}  # of its devices, by number
        self._files: list[int] = []
        try:
            self._start()
        except OSError as error:
            self._close_files()
            raise Fail(
                f"no process can be started for the isolated plugin '{name}' ({path}): {reason(error)}"
            ) from error
        self._reader = threading.Thread(
            target=self._read, name=f"ephost-worker-{self.process.pid}", daemon=True
        )
        self._reader.start()
        Worker._living.add(self)
        self._await_start()

    def _await_start(self) -> None:
        """Wait until the program has started, which is no matter of the plugin's."""
        try:
            answer = self._answers.get(timeout=_START_SECONDS)
        except queue.Empty:
            self._close()
            raise Fail(f"the process for {self.label} has not started within {_START_SECONDS:g} s") from None
        if answer is None:
            code = self._wait(5.0)
            self._close()
            raise Fail(f"the process for {self.label} ended with {code} before the plugin was loaded")
        if answer.get("problem"):
            self._close()
            raise Fail(f"the process for {self.label} cannot be set up: {answer['problem']}")

    def _start(self) -> None:
        if not sys.executable:
            raise OSError("it is not known where Python's executable lies")
        self._status_file = self._memory("ephost-status", _STATUS_BYTES)
        self._report_file = self._memory("ephost-report")
        self.pool_file = self._memory("ephost-tensors")
        self._status = mmap.mmap(self._status_file, _STATUS_BYTES, prot=mmap.PROT_READ)
        ours, theirs = socket.socketpair()
        self._connection = channel.Hearing(fileno=ours.detach())
        self._life, their_life = socket.socketpair()
        settings = self.settings
        files = {
            "control": theirs.fileno(),
            "life": their_life.fileno(),
            "status": self._status_file,
            "report": self._report_file,
            "pool": self.pool_file,
        }
        start = {
            **files,
            "pool_bytes": settings.shared_bytes,
            "memory_limit": settings.memory_limit_bytes,
            "processor_seconds": settings.processor_seconds,
            "network": settings.network,
            "writable": settings.writable,
        }
        environment = dict(os.environ if settings.environment is None else settings.environment)
        environment.pop(VARIABLE, None)
        package = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
        before = environment.get("PYTHONPATH")
        environment["PYTHONPATH"] = package + (os.pathsep + before if before else "")
        with theirs, their_life:
            # subprocess uses vfork or posix_spawn, and closes what is not named here.
            self.process = subprocess.Popen(
                [sys.executable, "-P", sandbox.__file__, json.dumps(start)],
                stdin=subprocess.DEVNULL,
                pass_fds=list(files.values()),
                env=environment,
                start_new_session=True,  # Ctrl-C is the host's
            )
        # Not before Linux 5.3, where a filter forbids it, nor in a Python that was built on older systems.
        with contextlib.suppress(OSError, AttributeError):
            self.pidfd = os.pidfd_open(self.process.pid)
            self._files.append(self.pidfd)
        self._connection.process = self.pidfd

    def _memory(self, name: str, size: int = 0) -> int:
        """A file in memory, which is never cut: mapped memory that is cut off would end this process."""
        import fcntl  # not on every system

        file = os.memfd_create(name, os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
        self._files.append(file)
        if size:
            os.ftruncate(file, size)
        fcntl.fcntl(file, fcntl.F_ADD_SEALS, fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_SEAL)
        return file

    def map_pool(self) -> Any:
        """The memory that both processes map, once; the worker owns it."""
        if self.pool is None:
            self.pool = lib.ephost_pool_open(self.pool_file, self.settings.shared_bytes)
            if not self.pool:
                self.pool = None
                raise MemoryError(
                    f"the memory that is shared with {self.label} cannot be mapped: "
                    f"{self.settings.shared_bytes} bytes of addresses (the setting shared_bytes)"
                )
            self._files.remove(self.pool_file)
        return self.pool

    @property
    def label(self) -> str:
        """What messages call it."""
        return f"the isolated plugin '{self.name}' ({self.path})"

    @property
    def is_alive(self) -> bool:
        """Whether it can be asked: it runs, is this process' own, and has done nothing wrong."""
        return (
            not self._ended and self.fault is None and self.owner == os.getpid() and self._reader.is_alive()
        )

    # ---- asking ----

    def ask(
        self,
        operation: str,
        request: dict[str, Any] | None = None,
        *,
        timeout: float = 0.0,
        data: bytes = b"",
        descriptors: Sequence[int] = (),
    ) -> dict[str, Any]:
        """Have it do something.

        Args:
            operation: what; a method of the worker's.
            request: its arguments.
            timeout: seconds that it may take; 0: any time.
            data: bytes that go along.
            descriptors: likewise.

        Raises:
            PluginFault: it ended over it, or took too long.
            What the operation raised there.
        """
        with self._lock:
            if self.owner != os.getpid():
                raise Fail(f"the worker of {self.label} is the parent process', from before fork()")
            if self.fault is not None:
                raise fresh(self.fault)
            try:
                self._number += 1
                question = pickle.dumps((self._number, operation, request or {}, data))
                channel.send(self._connection, question, descriptors)
                answer = self._answers.get(timeout=timeout or None)
            except queue.Empty:
                raise fresh(self.fail(operation, timed_out=timeout)) from None
            except OSError:
                answer = None
            if answer is not None and answer.get("to") != self._number:
                self._garbled = "to another question"
                answer = None
            if answer is None:
                raise fresh(self.fail(operation))
        if (error := answer.get("error")) is not None:
            raise _error_of(error)
        return answer

    def open_lane(self, offset: int) -> int:
        """Have it serve a lane; the socket for it."""
        ours, theirs = socket.socketpair()
        with theirs:
            try:
                self.ask("open_lane", {"offset": offset}, timeout=30.0, descriptors=[theirs.fileno()])
            except BaseException:
                ours.close()
                raise
        return ours.detach()

    def _read(self) -> None:
        try:
            while (message := channel.receive(self._connection)) is not None:
                data, descriptors = message
                for descriptor in descriptors:  # of which none is asked for
                    os.close(descriptor)
                answer = json.loads(data)
                if not isinstance(answer, dict):
                    raise ValueError("what comes is no answer")
                if (log := answer.get("log")) is not None:
                    self._on_log(*log)
                else:
                    self._answers.put(answer)
        except OSError as error:
            if not self._ended:
                _LOG.debug("the worker of %s cannot be heard any more: %s", self.label, error)
        except Exception as error:  # whatever it has sent
            self._garbled = f"{type(error).__name__}: {error}"
        self._answers.put(None)

    def _on_log(self, name: str, level: int, message: str, file: str, line: int, function: str) -> None:
        if not all(isinstance(each, str) for each in (name, message, file, function)):
            raise ValueError("what comes is no message of a log")
        level, line = int(level), int(line)
        self.messages.append(message)
        try:
            deliver(level, name, message, file, line, function)
        except Exception:  # a handler of the application's, of which the worker knows nothing
            traceback.print_exc()

    # ---- faults ----

    def fail(self, operation: str, *, timed_out: float = 0.0) -> PluginFault:
        """End it, and say what became of it; the same fault for all who find out, who raise a fresh one.

        Args:
            operation: what the host wanted of it.
            timed_out: after so many seconds without an answer; 0: it ended.
        """
        with self._fault_lock:
            if self.fault is None:
                self.fault = self._find_fault(operation, timed_out)
                _LOG.info("%s", self.fault)  # who asked raises it, or logs it as an error
                self._close()
                if self.on_fault is not None:
                    self.on_fault(self.fault)
            return self.fault

    def _find_fault(self, operation: str, timed_out: float) -> PluginFault:
        if timed_out:
            with contextlib.suppress(OSError):
                self.process.send_signal(signal.SIGABRT)  # it writes down where it is
        if self._garbled:
            self.process.kill()
        code = self._wait_for_end(_GRACE if timed_out else 5.0)
        hears_no_more = code is None  # it goes on, and its end of the socket is closed
        if code is None:
            code = self._wait(0.0)
        noted, wrong = struct.unpack_from("=II", self._status)
        hears_no_more |= wrong == lib.EPHOST_WORKER_LOST_ITS_SOCKET
        last_call = text(lib.ephost_call_name(noted))
        backtrace = self._report()
        during = f" in {last_call}" if last_call else ""
        kind: type[PluginFault]
        if timed_out:
            kind, what = PluginTimedOut, f"did not answer within {timed_out:g} s and was ended"
        elif self._garbled:
            kind, what = PluginFault, f"answered what is none ({self._garbled}) and was ended"
        elif hears_no_more:
            kind, what = PluginFault, f"{_CLOSED} and was ended"
        elif code < 0:
            kind, what = PluginCrashed, f"crashed with {_signal_name(-code)}"
        else:
            kind, what = PluginExited, f"ended its process with the exit code {code}"
        self._reader.join(1.0)  # what it logged last
        said = f"; it logged last: {self.messages[-1]}" if self.messages else ""
        fault = kind(f"{self.label} {what}{during} (asked to {operation}, process {self.process.pid}){said}")
        fault.library, fault.pid = self.name, self.process.pid
        fault.last_call, fault.backtrace = last_call, backtrace
        fault.messages = tuple(self.messages)
        if isinstance(fault, PluginTimedOut):
            fault.seconds = timed_out
        elif isinstance(fault, PluginCrashed):
            fault.signal = -code
        elif isinstance(fault, PluginExited):
            fault.exit_code = code
        return fault

    def _wait(self, seconds: float) -> int:
        """Wait for its end, and make one after so many seconds; its exit code."""
        code = self._wait_for_end(seconds)
        if code is None:
            self.process.kill()
            code = self._wait_for_end(None)
        assert code is not None
        return code

    def _wait_for_end(self, limit: float | None) -> int | None:
        """Its exit code, or None after so many seconds. What it has started ends with it."""
        if self.pidfd >= 0 and self.process.returncode is None:
            poll = select.poll()
            poll.register(self.pidfd, select.POLLIN)
            if not poll.poll(None if limit is None else limit * 1000):
                return None
            with contextlib.suppress(OSError):  # mostly there is none
                os.killpg(self.process.pid, signal.SIGKILL)  # whose number is taken until it is waited for
        try:
            return self.process.wait(limit)
        except subprocess.TimeoutExpired:
            return None

    def _report(self) -> str:
        size = os.fstat(self._report_file).st_size
        return os.pread(self._report_file, min(size, 1 << 20), 0).decode(errors="backslashreplace")

    # ---- the end ----

    def stop(self) -> None:
        """Unregister the library there and end the process.

        Raises:
            PluginFault: that failed; the process is gone in any case.
        """
        if self.owner != os.getpid():
            self.abandon()
            return
        try:
            if self.is_alive:
                # The last call into the plugin has its answer, and the end of the process is the next.
                self.ask("close", timeout=self.settings.release_timeout_seconds)
                limit = self.settings.release_timeout_seconds
                if self._wait_for_end(limit or None) is None:
                    raise fresh(self.fail("end", timed_out=limit))
                if self.process.returncode != 0:
                    raise fresh(self.fail("end"))
        finally:
            self._close()

    def abandon(self) -> None:
        """Forget a parent's worker in a forked child: its sockets must not be held open here."""
        self._ended = True
        with contextlib.suppress(OSError):
            self._connection.close()
            self._life.close()
        self._close_files()

    def _close(self) -> None:
        if self._ended:
            return
        self._ended = True
        self._wait(0.0)
        with contextlib.suppress(OSError):
            self._connection.shutdown(socket.SHUT_RDWR)
        if threading.current_thread() is not self._reader:
            self._reader.join(1.0)  # it looks at the files that are closed here
        self._connection.close()
        self._life.close()
        self._status.close()
        if self.memories:
            from ephost.isolation.memory import release_memories

            release_memories(self)
        if self.pool is not None:
            lib.ephost_pool_release(self.pool)
            self.pool = None
        self._close_files()
        Worker._living.discard(self)

    def _close_files(self) -> None:
        for file in self._files:
            with contextlib.suppress(OSError):
                os.close(file)
        self._files.clear()


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def _error_of(error: dict[str, Any]) -> Exception:
    kind = BY_CODE.get(error.get("code", 0))
    if kind is not None:
        return kind(str(error["text"]))
    if error.get("kind") == "MemoryError":
        return MemoryError(str(error["text"]))
    return Fail(f"{error.get('kind')}: {error.get('text')}")


def _after_fork() -> None:
    for worker in list(Worker._living):
        worker.abandon()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
