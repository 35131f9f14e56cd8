"""Registering a library, and what that does to the process."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from typing import Any

from ephost.checking import process_state as state
from ephost.checking.registry import check
from ephost.checking.subject import Subject
from ephost.checking.verdicts import Failure

_SLOW = 5.0  # seconds


@check("registration.succeeds", 1)
def _succeeds(subject: Subject) -> None:
    """The library registers."""
    subject.register()


@check("registration.ends", 1)
def _ends(subject: Subject) -> None:
    """The library is registered and unregistered."""
    subject.register()
    subject.unregister()


@check("registration.any-name", 2)
def _any_name(subject: Subject) -> None:
    """It registers under whatever name the application chooses."""
    for name in ("x", "another name", "n\u00e4me", "a" * 500):
        subject.register(name)
        subject.unregister(name)


@check("registration.again", 2)
def _again(subject: Subject) -> None:
    """Registered anew, it offers the devices that it offered before."""
    first = [(d.ep_name, d.ep_vendor, d.device.type) for d in subject.register()]
    subject.unregister()
    second = [(d.ep_name, d.ep_vendor, d.device.type) for d in subject.register()]
    if first != second:
        raise Failure(f"it offered {first} first, and then {second}")


@check("registration.ten-rounds", 4)
def _ten_rounds(subject: Subject) -> None:
    """It is registered and unregistered ten times."""
    for _ in range(10):
        subject.register()
        subject.unregister()


@check("registration.two-names", 6)
def _two_names(subject: Subject) -> None:
    """Registered under two names at once it works, or refuses in words."""
    subject.register()
    try:
        subject.register("the same again")
    except Exception as error:
        subject.warn(f"it refuses to be registered under a second name: {error}")
    else:
        subject.unregister("the same again")
    subject.unregister()


@check("registration.in-a-thread", 4)
def _in_a_thread(subject: Subject) -> None:
    """It is registered in one thread and unregistered in another; both end."""
    for step in (subject.register, subject.unregister):
        failed: list[BaseException] = []

        def work(step: Callable[[], Any] = step, failed: list[BaseException] = failed) -> None:
            try:
                step()
            except BaseException as error:
                failed.append(error)

        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
        if failed:
            raise failed[0]


@check("registration.is-quick", 6)
def _is_quick(subject: Subject) -> None:
    """It registers within 5 seconds, in which applications do not come up."""
    began = time.perf_counter()
    subject.register()
    seconds = time.perf_counter() - began
    subject.numbers["seconds"] = seconds
    if seconds > _SLOW:
        subject.warn(f"it takes {seconds:.1f} s to register")


@check("registration.prints-nothing", 6)
def _prints_nothing(subject: Subject) -> None:
    """It writes nothing to the standard streams, which are the application's; there is a logger."""
    lines: list[str] = []
    with state.printed(lines):
        subject.register()
        subject.unregister()
    own = [line for line in lines if line and "ephost" not in line and "onnxruntime" not in line]
    if own:
        subject.warn(f"it prints {len(own)} lines, such as {own[0][:200]!r}")


def _unchanged(subject: Subject, what: str, look: Callable[[], dict[Any, Any]]) -> None:
    before = look()
    subject.register()
    found = state.differences(before, look())
    if found:
        raise Failure(f"it changes the process' {what}: {'; '.join(found[:5])}")


@check("registration.keeps-signals", 5)
def _keeps_signals(subject: Subject) -> None:
    """It installs no signal handlers, removes none, and blocks no signals."""
    before = state.signals()
    subject.register()
    after = state.signals()
    for key, what in (("SigCgt", "handles"), ("SigIgn", "ignores"), ("SigBlk", "blocks")):
        more = set(state.signal_names(after[key])) - set(state.signal_names(before[key]))
        if more:
            raise Failure(f"after registering it the process {what} {', '.join(sorted(more))}")
    for key, what in (("SigCgt", "handles"), ("SigIgn", "ignores")):
        less = set(state.signal_names(before[key])) - set(state.signal_names(after[key]))
        if less:
            raise Failure(f"after registering it the process no longer {what} {', '.join(sorted(less))}")


@check("registration.keeps-floating-point", 5)
def _keeps_floating_point(subject: Subject) -> None:
    """It leaves the rounding mode, denormal numbers and traps of the calling thread alone."""
    _unchanged(subject, "arithmetic", state.floating_point)


@check("registration.keeps-locale", 5)
def _keeps_locale(subject: Subject) -> None:
    """It leaves the process' locale alone."""
    _unchanged(subject, "locale", lambda: {"locale": state.locale_text()})


@check("registration.keeps-environment", 6)
def _keeps_environment(subject: Subject) -> None:
    """It sets no variables of the process' environment, which other threads may be reading."""
    before = state.environment()
    subject.register()
    if found := state.differences(before, state.environment()):
        subject.warn(f"it changes variables of the environment: {'; '.join(found[:5])}")


@check("registration.keeps-folder", 4)
def _keeps_folder(subject: Subject) -> None:
    """It leaves the working folder and the mask of new files' rights alone."""

    def look() -> dict[str, Any]:
        mask = os.umask(0o22)
        os.umask(mask)
        return {"working folder": os.getcwd(), "umask": mask}

    _unchanged(subject, "state", look)


@check("registration.keeps-streams", 4)
def _keeps_streams(subject: Subject) -> None:
    """It leaves the standard streams open, where they lead, and blocking."""
    _unchanged(subject, "standard streams", state.standard_streams)


@check("registration.keeps-place", 6)
def _keeps_place(subject: Subject) -> None:
    """It leaves session, group, priority and processors alone, and no child processes or timers."""
    _unchanged(subject, "place in the system", state.place)


@check("registration.keeps-limits", 6)
def _keeps_limits(subject: Subject) -> None:
    """It leaves the process' limits alone."""
    _unchanged(subject, "limits", state.limits)


@check("registration.starts-no-threads", 7)
def _starts_no_threads(subject: Subject) -> None:
    """It starts no threads before there is a session: a process may be forked then."""
    before = state.native_threads()
    subject.register()
    more = state.native_threads() - before
    if more > 0:
        subject.warn(f"registering it starts {more} threads: {', '.join(sorted(set(state.thread_names())))}")
