"""What a plugin shares with its process, and should leave alone."""

from __future__ import annotations

import contextlib
import ctypes
import locale
import os
import resource
import signal
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ephost.printed import Printed

_PRINTED = 1 << 16  # bytes


def descriptors() -> dict[int, str]:
    """Open file descriptors, and what they are."""
    found = {}
    for name in os.listdir("/proc/self/fd"):
        with contextlib.suppress(OSError):
            found[int(name)] = os.readlink(f"/proc/self/fd/{name}")
    return found


def native_threads() -> int:
    """Threads of the process, whoever started them."""
    return len(os.listdir("/proc/self/task"))


def thread_names() -> list[str]:
    """What the threads call themselves, but for Python's own."""
    own = {str(thread.native_id) for thread in threading.enumerate()}
    found = []
    for name in os.listdir("/proc/self/task"):
        if name not in own:
            with contextlib.suppress(OSError):
                found.append(Path(f"/proc/self/task/{name}/comm").read_text().strip())
    return sorted(found)


def mapped(path: str) -> bool:
    """Whether a file is mapped into the process."""
    return os.path.realpath(path) in Path("/proc/self/maps").read_text(errors="replace")


def libraries() -> set[str]:
    """The files whose code is mapped into the process."""
    lines = Path("/proc/self/maps").read_text(errors="replace").splitlines()
    fields = [line.split(maxsplit=5) for line in lines]
    return {each[5] for each in fields if len(each) == 6 and "x" in each[1] and each[5].startswith("/")}


def signals() -> dict[str, str]:
    """The signals that have handlers, are blocked, or ignored."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return {
        name: value.strip() for name, _, value in (line.partition(":") for line in lines) if name[:3] == "Sig"
    }


def signal_names(mask: str) -> list[str]:
    """The signals of a mask of /proc."""
    bits = int(mask, 16)
    names = []
    for number in range(1, 65):
        if bits >> (number - 1) & 1:
            with contextlib.suppress(ValueError):  # those that the C library keeps for its threads
                names.append(signal.Signals(number).name)
    return names


def environment() -> dict[str, str]:
    """The process' variables as C has them, which Python's own copy does not follow."""
    pointer = ctypes.POINTER(ctypes.c_char_p).in_dll(ctypes.CDLL(None), "environ")
    found = {}
    at = 0
    while pointer and pointer[at]:
        key, _, value = (pointer[at] or b"").decode("utf-8", "replace").partition("=")
        found[key] = value
        at += 1
    return found


def limits() -> dict[str, tuple[int, int]]:
    """The process' limits."""
    names = [name for name in dir(resource) if name.startswith("RLIMIT_")]
    return {name: resource.getrlimit(getattr(resource, name)) for name in names}


def standard_streams() -> dict[str, str]:
    """What the three standard streams are, and whether they wait for what they read and write."""
    found = {}
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        try:
            waits = "" if os.get_blocking(number) else ", which does not block"
            found[name] = os.readlink(f"/proc/self/fd/{number}") + waits
        except OSError:
            found[name] = "closed"
    return found


_TIMERS = {"real": signal.ITIMER_REAL, "virtual": signal.ITIMER_VIRTUAL, "profiling": signal.ITIMER_PROF}
_PR_GET_PDEATHSIG = 2


def _signal_at_parents_end() -> int:
    number = ctypes.c_int()
    ctypes.CDLL(None).prctl(_PR_GET_PDEATHSIG, ctypes.byref(number), 0, 0, 0)
    return number.value


def place() -> dict[str, Any]:
    """The process' session, group, priority and processors, its children, and what signals it will be sent by
    timers, and at the end of its parent.
    """
    children = Path(f"/proc/self/task/{os.getpid()}/children")
    return {
        "session": os.getsid(0),
        "process group": os.getpgid(0),
        "niceness": os.getpriority(os.PRIO_PROCESS, 0),
        "processors": sorted(os.sched_getaffinity(0)),
        "child processes": children.read_text().split() if children.exists() else [],
        "timers": [name for name, which in _TIMERS.items() if any(signal.getitimer(which))],
        "signal at its parent's end": _signal_at_parents_end(),
    }


def _traps() -> bool:
    """Whether an invalid operation or a division by zero is a signal; glibc tells."""
    with contextlib.suppress(OSError, AttributeError):
        return bool(ctypes.CDLL("libm.so.6").fegetexcept() > 0)
    return False


def floating_point() -> dict[str, bool]:
    """Whether arithmetic has denormal numbers, rounds to nearest, and ends the process by SIGFPE."""
    tiny = ctypes.c_double(5e-324)
    third = ctypes.c_double(1.0)
    return {"denormals": tiny.value * 1.0 != 0.0, "nearest": third.value + 2.0**-53 == 1.0, "traps": _traps()}


def locale_text() -> str:
    """The process' locale, as C has it."""
    return locale.setlocale(locale.LC_ALL)


@contextlib.contextmanager
def printed(into: list[str]) -> Iterator[None]:
    """The last lines that are written to the standard streams meanwhile, by whomever."""
    last = Printed(_PRINTED)
    kept = [(number, os.dup(number)) for number in (1, 2)]
    try:
        for number, _ in kept:
            os.dup2(last.file, number)
        yield
        ctypes.CDLL(None).fflush(None)
    finally:
        for number, copy in kept:
            os.dup2(copy, number)
            os.close(copy)
        into.extend(last.end().splitlines())


def differences(before: dict[Any, Any], after: dict[Any, Any]) -> list[str]:
    """What changed, in words."""
    keys = [*before, *(key for key in after if key not in before)]
    return [
        f"{key}: {before.get(key, 'nothing')} -> {after.get(key, 'nothing')}"
        for key in keys
        if before.get(key) != after.get(key)
    ]
