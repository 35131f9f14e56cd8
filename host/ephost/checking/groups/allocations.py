"""Allocations that fail: an error or the right answer, never a crash."""

from __future__ import annotations

import gc
import resource
from collections.abc import Callable

from ephost._bindings import lib
from ephost.checking.registry import check
from ephost.checking.subject import Subject, reference

_OURS = ["ephost"]
_MOST = 400  # allocations that are made to fail
_NEVER = -1


def _fail_each(subject: Subject, act: Callable[[], None], what: str, step: int) -> None:
    """Do something with each allocation of the host failing in turn, as far as there are any."""
    errors = 0
    for number in range(0, _MOST, step):
        subject.stage(f"{what} with the host's allocation {number} failing")
        lib.ephost_fail_allocation_after(number)
        failed = False
        try:
            act()
        except Exception:
            failed = True
        finally:
            lib.ephost_fail_allocation_after(_NEVER)
        errors += failed
        gc.collect()
    subject.numbers["errors"] = errors
    subject.stage(f"{what} afterwards")
    act()


@check("allocations.registering", 6, hosts=_OURS)
def _registering(subject: Subject) -> None:
    """It registers or fails in words whichever of the host's allocations fails."""

    def act() -> None:
        subject.register()
        subject.unregister()

    _fail_each(subject, act, "registering", 11)


@check("allocations.opening", 6, needs="model", hosts=_OURS)
def _opening(subject: Subject) -> None:
    """Sessions open or fail in words whichever of the host's allocations fails."""
    model = subject.sample.build(4)
    options = subject.session_options()

    def act() -> None:
        subject.host.InferenceSession(model, options, enable_fallback=0)

    _fail_each(subject, act, "opening a session", 5)


@check("allocations.running", 5, needs="model", hosts=_OURS)
def _running(subject: Subject) -> None:
    """Runs give the right numbers or fail in words whichever of the host's allocations fails."""
    feeds = subject.sample.feed(4)
    want = reference(subject.sample.build(4), feeds)
    with subject.opened() as session:

        def act() -> None:
            subject.require_equal(session.run(None, feeds), want, "a run")

        for number in range(40):
            subject.stage(f"running with the host's allocation {number} failing")
            lib.ephost_fail_allocation_after(number)
            try:
                act()
            except MemoryError:
                pass
            except Exception as error:
                subject.numbers["last"] = str(error)[:300]
            finally:
                lib.ephost_fail_allocation_after(_NEVER)
        act()


@check("allocations.little-memory", 8, needs="model")
def _little_memory(subject: Subject) -> None:
    """With little address space left it works, or fails in words."""
    _ = subject.devices
    model, feeds = subject.sample.build(4), subject.sample.feed(4)
    options = subject.session_options()
    used = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()  # noqa: SIM115
    before = resource.getrlimit(resource.RLIMIT_AS)
    for room in (256, 64, 16, 4):
        least = used + (room << 20)
        if before[1] != resource.RLIM_INFINITY:  # no process may raise what it was given
            least = min(least, before[1])
        resource.setrlimit(resource.RLIMIT_AS, (least, before[1]))
        subject.stage(f"opening and running with {room} MiB of address space left")
        try:
            session = subject.host.InferenceSession(model, options, enable_fallback=0)
            session.run(None, feeds)
            del session
        except Exception as error:
            subject.numbers[f"{room} MiB"] = f"{type(error).__name__}: {str(error)[:200]}"
        finally:
            resource.setrlimit(resource.RLIMIT_AS, before)
        gc.collect()
    subject.run_sample(subject.open(model), what="a session with memory again")
