"""Several threads at once."""

from __future__ import annotations

import gc
import threading
from collections.abc import Callable

from ephost.checking.registry import check
from ephost.checking.subject import Subject, reference

_THREADS = 8
_ROUNDS = 20


def _together(works: list[Callable[[], None]]) -> None:
    """Do things at the same time, each in a thread; raises what the first one raised that failed."""
    barrier = threading.Barrier(len(works))
    failed: list[BaseException] = []

    def work(act: Callable[[], None]) -> None:
        barrier.wait()
        try:
            act()
        except BaseException as error:
            failed.append(error)

    threads = [threading.Thread(target=work, args=(act,)) for act in works]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failed:
        raise failed[0]


@check("threads.runs-at-once", 3, needs="model")
def _runs_at_once(subject: Subject) -> None:
    """Eight threads run one session at once, each with inputs of its own."""
    with subject.opened() as session:
        feeds = subject.sample.feed(4)

        def run(number: int) -> None:
            given = {name: (array * (number + 1)).astype(array.dtype) for name, array in feeds.items()}
            want = wanted[number]
            for _ in range(_ROUNDS):
                subject.require_equal(session.run(None, given), want, f"thread {number}")

        model = subject.sample.build(4)
        wanted = [
            reference(model, {name: (array * (at + 1)).astype(array.dtype) for name, array in feeds.items()})
            for at in range(_THREADS)
        ]
        subject.stage("running in eight threads")
        _together([lambda number=number: run(number) for number in range(_THREADS)])  # type: ignore[misc]


@check("threads.sizes-at-once", 4, needs="model")
def _sizes_at_once(subject: Subject) -> None:
    """Four threads run one session with an open dimension at once, each with another size."""
    with subject.opened("n") as session:
        sizes = (1, 3, 16, 33)
        wanted = {n: reference(subject.sample.build(n), subject.sample.feed(n)) for n in sizes}

        def run(n: int) -> None:
            feeds = subject.sample.feed(n)
            for _ in range(_ROUNDS):
                subject.require_equal(session.run(None, feeds), wanted[n], f"{n} rows")

        subject.stage("running in four threads")
        _together([lambda n=n: run(n) for n in sizes])  # type: ignore[misc]


@check("threads.sessions-at-once", 3, needs="model")
def _sessions_at_once(subject: Subject) -> None:
    """Four threads run a session each at once."""
    sessions = [subject.open(subject.sample.build(4)) for _ in range(4)]
    feeds = subject.sample.feed(4)
    want = reference(subject.sample.build(4), feeds)

    def run(number: int) -> None:
        for _ in range(_ROUNDS):
            subject.require_equal(sessions[number].run(None, feeds), want, f"session {number}")

    subject.stage("running four sessions in four threads")
    _together([lambda number=number: run(number) for number in range(4)])  # type: ignore[misc]


@check("threads.opening-at-once", 4, needs="model")
def _opening_at_once(subject: Subject) -> None:
    """Four threads open, run and close sessions at once."""
    feeds = subject.sample.feed(4)
    model = subject.sample.build(4)
    want = reference(model, feeds)
    _ = subject.devices

    def work() -> None:
        for _ in range(3):
            session = subject.host.InferenceSession(model, subject.session_options(), enable_fallback=0)
            subject.require_equal(session.run(None, feeds), want, "a session of a thread")
            del session

    subject.stage("opening and closing sessions in four threads")
    _together([work] * 4)


@check("threads.closing-beside-runs", 5, needs="model")
def _closing_beside_runs(subject: Subject) -> None:
    """Sessions open and close while another one runs."""
    feeds = subject.sample.feed(4)
    model = subject.sample.build(4)
    want = reference(model, feeds)
    running = subject.open(model)
    done = threading.Event()

    def run() -> None:
        while not done.is_set():
            subject.require_equal(running.run(None, feeds), want, "the session that runs")

    def come_and_go() -> None:
        try:
            for _ in range(5):
                session = subject.host.InferenceSession(model, subject.session_options(), enable_fallback=0)
                session.run(None, feeds)
                del session
                gc.collect()
        finally:
            done.set()

    subject.stage("closing sessions beside one that runs")
    _together([run, come_and_go])


@check("threads.new-thread-each-run", 4, needs="model")
def _new_thread_each_run(subject: Subject) -> None:
    """Fifty threads that end run a session one after the other."""
    with subject.opened() as session:
        feeds = subject.sample.feed(4)
        want = reference(subject.sample.build(4), feeds)
        for number in range(50):
            what = f"thread {number}"
            _together([lambda what=what: subject.require_equal(session.run(None, feeds), want, what)])  # type: ignore[misc]


@check("threads.closed-by-another", 4, needs="model")
def _closed_by_another(subject: Subject) -> None:
    """A session is opened by one thread, run by a second and closed by a third."""
    kept: list[object] = []
    _together([lambda: kept.append(subject.open(subject.sample.build(4)))])
    _together([lambda: subject.run_sample(kept[0])])

    def close() -> None:
        kept.clear()
        gc.collect()

    subject.stage("closing the session in another thread")
    _together([close])
    subject.unregister()


@check("threads.ended-before-closing", 5, needs="model")
def _ended_before(subject: Subject) -> None:
    """The thread that opened and ran a session has ended when it runs again and is closed."""
    kept: list[object] = []

    def work() -> None:
        kept.append(subject.open(subject.sample.build(4)))
        subject.run_sample(kept[0])

    _together([work])
    subject.run_sample(kept[0])
    kept.clear()
    subject.unregister()
