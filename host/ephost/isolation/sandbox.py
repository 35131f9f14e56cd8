"""What a worker process is held to, and its program: ``python sandbox.py START``, which only the host calls.

The process gives up what it is not to have while it has one thread and nothing of ephost, numpy or the plugin
in it, since that holds for a thread and what comes of it. Hence the plain system calls: Landlock for files,
a seccomp filter for the rest. Nothing of ephost may be imported at the top of this file.
"""

from __future__ import annotations

import ctypes
import os
import platform
import signal
import sys
from collections.abc import Mapping, Sequence
from typing import Any

_PR_GET_SECCOMP, _PR_SET_SECCOMP, _PR_SET_NO_NEW_PRIVS = 21, 22, 38
_SECCOMP_MODE_FILTER = 2

# Landlock: system calls, which have one number everywhere, and rights to change files.
_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446
_VERSION, _PATH_BENEATH = 1, 1
_WRITE_FILE, _TRUNCATE = 1 << 1, 1 << 14
_CHANGES = _WRITE_FILE | _TRUNCATE | sum(1 << bit for bit in range(4, 14))
_SCOPE_ABSTRACT_SOCKETS, _SCOPE_SIGNALS = 1, 2
_LANDLOCK_NEEDED = 3  # before, files could be cut short that may not be written
_LANDLOCK_WITH_SCOPES = 6
_ALWAYS_WRITABLE = ("/dev/null", "/dev/zero", "/dev/full")

# Of each processor its name for seccomp, and the numbers of system calls.
_SOCKETPAIR = {"x86_64": 53, "aarch64": 199}
_AUDIT = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
_X32 = 0x40000000  # numbers from here on are the same calls of x86-64 once more
# Other processes' memory and descriptors: what does for it what it must not do itself.
_OTHERS = {"x86_64": (101, 310, 311, 438), "aarch64": (117, 270, 271, 438)}
# socket, and io_uring_setup, which makes sockets as well
_NETWORK = {"x86_64": (41, 425), "aarch64": (198, 425)}
# chmod, chown, utime, setxattr, removexattr and their like, which Landlock knows nothing of
_ATTRIBUTES = {
    "x86_64": (90, 91, 92, 93, 94, 132, 188, 189, 190, 197, 198, 199, 235, 260, 261, 268, 280, 452, 463, 466),
    "aarch64": (5, 6, 7, 14, 15, 16, 52, 53, 54, 55, 88, 452, 463, 466),
}
_LOAD, _IF_EQUAL, _IF_AT_LEAST, _AND, _RETURN = 0x20, 0x15, 0x35, 0x54, 0x06
_ALLOW, _DENY = 0x7FFF0000, 0x00050000 | 13  # EACCES
_NUMBER_AT, _AUDIT_AT, _SECOND_ARGUMENT_AT = 0, 4, 24
_DATAGRAMS = 2


def missing(*, network: bool, writable: Sequence[str] | None) -> str:
    """Why this system cannot hold a process to that; "" when it can."""
    if network and writable is None:
        return ""
    if platform.machine() not in _AUDIT:
        return f"it is known for {' and '.join(_AUDIT)}, not for {platform.machine()}"
    if _libc().prctl(_PR_GET_SECCOMP, 0, 0, 0, 0) < 0:
        return "the kernel has no seccomp filters"
    if writable is not None and (version := _landlock_version()) < _LANDLOCK_NEEDED:
        return f"files need version {_LANDLOCK_NEEDED} of Landlock (Linux 6.2), and the kernel has " + (
            f"version {version}" if version > 0 else "none, or none that is switched on"
        )
    return ""


def _limit(kind: int, soft: int, hard: int) -> None:
    """Set a limit of this process, or keep a lower one that it was started with: none can be raised."""
    import resource

    most = resource.getrlimit(kind)[1]
    if most != resource.RLIM_INFINITY:
        soft, hard = min(soft, most), min(hard, most)
    resource.setrlimit(kind, (soft, hard))


def hold(start: Mapping[str, Any]) -> None:
    """Take from this process what it does not need.

    Raises:
        OSError: that cannot be.
    """
    signal.pthread_sigmask(signal.SIG_SETMASK, [])
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_DFL)
    import resource

    resource.setrlimit(resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1]))
    if limit := int(start["memory_limit"]):
        _limit(resource.RLIMIT_DATA, limit, limit)
    if limit := int(start["processor_seconds"]):
        _limit(resource.RLIMIT_CPU, limit, limit + 1)
    _prctl(_PR_SET_NO_NEW_PRIVS, 1, 0)
    writable, network = start["writable"], start["network"]
    if writable is not None:
        _hold_files(writable)
    if writable is not None or not network:
        _hold_calls(network=network, attributes=writable is None)


def _libc() -> Any:
    return ctypes.CDLL(None, use_errno=True)


def _landlock_version() -> int:
    return int(_libc().syscall(_CREATE_RULESET, None, ctypes.c_size_t(0), _VERSION))


def _checked(result: int, what: str) -> int:
    if result < 0:
        raise OSError(ctypes.get_errno(), f"{what}: {os.strerror(ctypes.get_errno())}")
    return result


def _prctl(option: int, first: Any, second: Any) -> None:
    zero = ctypes.c_ulong(0)
    arguments = [ctypes.c_ulong(a) if isinstance(a, int) else a for a in (first, second)]
    _checked(_libc().prctl(option, *arguments, zero, zero), f"prctl {option}")


class _Ruleset(ctypes.Structure):
    _fields_ = (
        ("handled_access_fs", ctypes.c_uint64),
        ("handled_access_net", ctypes.c_uint64),
        ("scoped", ctypes.c_uint64),
    )


class _PathBeneath(ctypes.Structure):
    _pack_ = 1
    _fields_ = (("allowed_access", ctypes.c_uint64), ("parent_fd", ctypes.c_int32))


def _hold_files(writable: Sequence[str]) -> None:
    """Files can be changed below these paths alone; where the kernel can, signals reach no other process."""
    libc = _libc()
    scoped = _landlock_version() >= _LANDLOCK_WITH_SCOPES
    attributes = _Ruleset(_CHANGES, 0, _SCOPE_ABSTRACT_SOCKETS | _SCOPE_SIGNALS if scoped else 0)
    size = ctypes.sizeof(attributes) if scoped else _Ruleset.handled_access_net.offset
    ruleset = _checked(
        libc.syscall(_CREATE_RULESET, ctypes.byref(attributes), ctypes.c_size_t(size), 0), "Landlock"
    )
    for path in (*_ALWAYS_WRITABLE, *writable):
        file = os.open(path, os.O_PATH | os.O_CLOEXEC)
        rights = _CHANGES if os.path.isdir(path) else _WRITE_FILE | _TRUNCATE
        rule = _PathBeneath(rights, file)
        _checked(
            libc.syscall(_ADD_RULE, ruleset, _PATH_BENEATH, ctypes.byref(rule), 0), f"Landlock for {path}"
        )
        os.close(file)
    _checked(libc.syscall(_RESTRICT_SELF, ruleset, 0), "Landlock")
    os.close(ruleset)


class _Instruction(ctypes.Structure):
    _fields_ = (
        ("code", ctypes.c_uint16),
        ("if_true", ctypes.c_uint8),
        ("if_false", ctypes.c_uint8),
        ("value", ctypes.c_uint32),
    )


class _Program(ctypes.Structure):
    _fields_ = (("length", ctypes.c_ushort), ("instructions", ctypes.POINTER(_Instruction)))


def _hold_calls(*, network: bool, attributes: bool) -> None:
    """Deny system calls: with EACCES, so that what asks finds that it may not."""
    machine = platform.machine()
    denied = [*_OTHERS[machine]]
    denied += [] if network else _NETWORK[machine]
    denied += [] if attributes else _ATTRIBUTES[machine]
    deny, allow = (_RETURN, 0, 0, _DENY), (_RETURN, 0, 0, _ALLOW)
    lines = [(_LOAD, 0, 0, _AUDIT_AT), (_IF_EQUAL, 1, 0, _AUDIT[machine]), deny]
    lines += [(_LOAD, 0, 0, _NUMBER_AT)]
    if machine == "x86_64":
        lines += [(_IF_AT_LEAST, 0, 1, _X32), deny]
    for number in denied:
        lines += [(_IF_EQUAL, 0, 1, number), deny]
    if not network:
        # One of a pair for datagrams could send to anybody's address.
        lines += [(_IF_EQUAL, 0, 4, _SOCKETPAIR[machine]), (_LOAD, 0, 0, _SECOND_ARGUMENT_AT)]
        lines += [(_AND, 0, 0, 0xF), (_IF_EQUAL, 0, 1, _DATAGRAMS), deny]
    lines += [allow]
    instructions = (_Instruction * len(lines))(*[_Instruction(*line) for line in lines])
    program = _Program(len(lines), instructions)
    _prctl(_PR_SET_SECCOMP, _SECCOMP_MODE_FILTER, ctypes.byref(program))


def main() -> None:
    """Become a worker."""
    import json
    from importlib import import_module

    start = json.loads(sys.argv[1])
    problem = ""
    try:
        hold(start)
    except (OSError, ValueError) as error:
        problem = str(error)
    # By its name: the host imports this file too, for what the kernel can do, and is none of the worker's.
    import_module("ephost.isolation.worker").serve(start, problem)


if __name__ == "__main__":
    main()
