"""Unregistering the library, and the end of the process."""

from __future__ import annotations

import ctypes
import gc
import os
import sys
import threading
import time

from ephost.checking import process_state as state
from ephost.checking.elf import read_elf
from ephost.checking.registry import check
from ephost.checking.subject import Subject, require_error
from ephost.checking.verdicts import Failure

_KEPT: list[object] = []  # until the process ends


def _use(subject: Subject) -> None:
    with subject.opened() as session:
        subject.run_sample(session)


@check("unload.after-use", 2, needs="model")
def _after_use(subject: Subject) -> None:
    """It is unregistered after a session has run and was closed."""
    _use(subject)
    subject.unregister()


@check("unload.and-again", 3, needs="model")
def _and_again(subject: Subject) -> None:
    """Five rounds of registering, running and unregistering give the right numbers."""
    for _ in range(5):
        _use(subject)
        subject.unregister()


@check("unload.in-use-is-refused", 3, needs="model", hosts=["ephost"])
def _in_use(subject: Subject) -> None:
    """Unregistering while a session is open is refused, and does no harm."""
    with subject.opened() as session:
        require_error(
            lambda: subject.host.unregister_execution_provider_library(subject.given.name),
            "unregistering a library in use",
        )
        subject.run_sample(session, what="the session after that")


@check("unload.after-a-failed-session", 4, needs="devices")
def _after_a_failed_session(subject: Subject) -> None:
    """It is unregistered after a session that could not be opened."""
    _ = subject.devices
    require_error(lambda: subject.open(b"no model"), "opening what is no model")
    subject.unregister()


@check("unload.after-a-failed-run", 4, needs="model")
def _after_a_failed_run(subject: Subject) -> None:
    """It is unregistered after a run that failed."""

    def fail() -> None:
        with subject.opened() as session:
            session.run(None, {name: array.reshape(-1) for name, array in subject.sample.feed(4).items()})

    require_error(fail, "a run with a wrong shape")
    subject.unregister()


@check("unload.threads-end", 6, needs="model")
def _threads_end(subject: Subject) -> None:
    """Its threads have ended when it is unregistered: their code may be gone.

    Those of a library that it brought along, and that stays in memory, may go on.
    """
    before, loaded = state.native_threads(), state.libraries()
    _use(subject)
    subject.unregister()
    until = time.monotonic() + 1
    while (more := state.native_threads() - before) > 0 and time.monotonic() < until:
        time.sleep(0.02)
    if more > 0:
        text = (
            f"{more} threads go on after it was unregistered: {', '.join(sorted(set(state.thread_names())))}"
        )
        stayed = sorted(os.path.basename(path) for path in state.libraries() - loaded)
        if not stayed:
            raise Failure(f"{text}, and its code is not in memory any more")
        subject.warn(f"{text}; they may be of what stays in memory: {', '.join(stayed)}")


def _why_it_stays(path: str) -> str:
    """What of a library's file keeps it in memory, in words; "" where nothing there does."""
    found = read_elf(path)
    if found is not None and found.stays:
        return ": it was linked with -z nodelete"
    if found is None or not found.unique:
        return ""
    first = ", ".join(sorted(found.unique)[:3])
    return (
        f", for {len(found.unique)} of its symbols are one for all libraries of a process, such as {first}: "
        "-fvisibility=hidden or -fno-gnu-unique makes them its own"
    )


@check("unload.leaves-memory", 7, needs="model")
def _leaves_memory(subject: Subject) -> None:
    """Unregistered, the library is not mapped any more."""
    _use(subject)
    subject.unregister()
    if state.mapped(subject.path):
        subject.warn(f"the library stays in memory after it was unregistered{_why_it_stays(subject.path)}")


@check("unload.slowly", 6, needs="model")
def _slowly(subject: Subject) -> None:
    """Nothing happens in the half second after it was unregistered."""
    _use(subject)
    subject.unregister()
    subject.stage("waiting after unregistering")
    time.sleep(0.5)


@check("exit.unregistered", 2, exits=True)
def _unregistered(subject: Subject) -> None:
    """A process that registered and unregistered it ends well."""
    subject.register()
    subject.unregister()


@check("exit.registered", 3, exits=True)
def _registered(subject: Subject) -> None:
    """A process that leaves it registered ends well."""
    subject.register()


@check("exit.after-use", 3, needs="model", exits=True)
def _exit_after_use(subject: Subject) -> None:
    """A process that used it and unregistered it ends well."""
    _use(subject)
    subject.unregister()


@check("exit.session-open", 3, needs="model", exits=True)
def _session_open(subject: Subject) -> None:
    """A process that ends with a session open ends well."""
    session = subject.open(subject.sample.build(4))
    subject.run_sample(session)
    _KEPT.append(session)


@check("exit.session-open-never-run", 4, needs="model", exits=True)
def _never_run(subject: Subject) -> None:
    """A process that ends with a session that never ran ends well."""
    _KEPT.append(subject.open(subject.sample.build(4)))


@check("exit.two-sessions-open", 4, needs="model", exits=True)
def _two_open(subject: Subject) -> None:
    """A process that ends with two sessions open ends well."""
    for _ in range(2):
        session = subject.open(subject.sample.build(4))
        subject.run_sample(session)
        _KEPT.append(session)


@check("exit.outputs-kept", 4, needs="model", exits=True)
def _outputs_kept(subject: Subject) -> None:
    """A process that keeps a run's outputs to its end ends well."""
    session = subject.open(subject.sample.build(4))
    _KEPT.append(subject.run(session, subject.sample.feed(4)))


@check("exit.in-a-thread", 5, needs="model", exits=True)
def _in_a_thread(subject: Subject) -> None:
    """A process whose sessions belong to threads that have ended ends well."""

    def work() -> None:
        session = subject.open(subject.sample.build(4))
        subject.run_sample(session)
        _KEPT.append(session)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()


@check("exit.while-running", 6, needs="model", exits=True)
def _while_running(subject: Subject) -> None:
    """A process that ends while a thread is running a session ends well."""
    session = subject.open(subject.sample.build(4))
    feeds = subject.sample.feed(4)

    def work() -> None:
        while True:
            session.run(None, feeds)

    threading.Thread(target=work, daemon=True).start()
    time.sleep(0.05)
    _KEPT.append(session)


@check("exit.after-an-error", 5, needs="devices", exits=True)
def _after_an_error(subject: Subject) -> None:
    """A process that ends after a model could not be opened ends well."""
    _ = subject.devices
    require_error(lambda: subject.open(b"no model"), "opening what is no model")


@check("exit.with-code", 4, needs="model", exits=True)
def _with_code(subject: Subject) -> None:
    """A process that calls C's exit in the middle ends with the code that it gave."""
    session = subject.open(subject.sample.build(4))
    subject.run_sample(session)
    _KEPT.append(session)
    sys.stdout.flush()
    child = os.fork() if state.native_threads() == 1 else -1
    if child == 0:
        ctypes.CDLL(None).exit(3)
    if child > 0:
        _, status = os.waitpid(child, 0)
        code = os.waitstatus_to_exitcode(status)
        if code != 3:
            raise Failure(f"a process that called exit(3) ended with {code}")
    gc.collect()
