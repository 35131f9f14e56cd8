"""The queue and its instances, on sessions that the tests hold by the hand."""

import logging
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pytest
from ephost.errors import InvalidArgument, PluginCrashed, PluginFault, RuntimeException
from ephost.serving import batching
from ephost.serving.batching import Job, Scheduler, fit, runs_of
from ephost.serving.config import Batching, Queue
from ephost.serving.errors import BadRequest, Closed, DeadlineExceeded, QueueFull, RunFailed, Unavailable

LONG = 60.0


class Session:
    """Doubles; waits where it is told to, fails on -1, and dies on -2."""

    def __init__(self) -> None:
        self.go = threading.Event()
        self.go.set()
        self.runs: list[list[float]] = []
        self.entered = threading.Semaphore(0)
        self.closed = False
        self.stops = True

    def run(
        self, output_names: Sequence[str] | None, input_feed: Mapping[str, Any], run_options: Any = None
    ) -> list[Any]:
        self.entered.release()
        until = time.monotonic() + LONG
        while not self.go.wait(0.01):
            assert time.monotonic() < until
            if self.stops and run_options.terminate:
                raise RuntimeException("it was terminated")
        x = input_feed["x"]
        self.runs.append(x[:, 0].tolist())
        if (x == -2).any():
            raise PluginCrashed("it crashed")
        if (x == -1).any():
            raise InvalidArgument("it does not like this")
        return [2 * x if name == "y" else x[:1] for name in output_names or ["y"]]

    def close(self) -> None:
        self.closed = True


class Seen:
    def __init__(self) -> None:
        self.crashes: list[PluginFault] = []
        self.reopened_count = 0
        self.rows: list[int] = []

    def taken(self, waiting: int) -> None:
        pass

    def started(self) -> None:
        pass

    def ended(self) -> None:
        pass

    def ran(self, rows: int, requests: int, seconds: float, waited: Sequence[float]) -> None:
        self.rows.append(rows)

    def crashed(self, fault: PluginFault) -> None:
        self.crashes.append(fault)

    def reopened(self) -> None:
        self.reopened_count += 1


class Bench:
    def __init__(self) -> None:
        self.session, self.seen, self.reopened = Session(), Seen(), Session()
        self.opened_again = 0
        self.fails_to_open = False
        self.made: list[Scheduler] = []

    def start(
        self, max_size: int = 1, delay: float = 0.0, size: int = 256, timeout: float = 0.0
    ) -> Scheduler:
        self.made.append(
            Scheduler(
                [self.session],
                self._reopen,
                Batching(max_size, delay),
                Queue(size, timeout),
                self.seen,
                "model 'm'",
            )
        )
        return self.made[-1]

    def _reopen(self) -> Session:
        self.opened_again += 1
        if self.fails_to_open:
            raise InvalidArgument("there is no such device")
        return self.reopened


@pytest.fixture
def bench() -> Iterator[Bench]:
    made = Bench()
    yield made
    made.session.go.set()
    for scheduler in made.made:
        scheduler.close()


def job(*values: float, outputs: tuple[str, ...] = ("y",), deadline: float | None = None) -> Job:
    return Job({"x": np.array(values, np.float32).reshape(-1, 1)}, outputs, deadline)


def submitted(scheduler: Scheduler, *jobs: Job) -> list[Job]:
    for each in jobs:
        scheduler.submit(each)
    return list(jobs)


def answer(of: Job) -> Any:
    return of.future.result(LONG)[0].ravel().tolist()


def held(bench: Bench, scheduler: Scheduler) -> Job:
    """A request that the instance is busy with until ``bench.session.go`` is set."""
    bench.session.go.clear()
    # With a deadline of its own: a queue's must not pass before the instance has taken it.
    first = submitted(scheduler, job(0, deadline=time.monotonic() + 1e6))[0]
    assert bench.session.entered.acquire(timeout=LONG)
    return first


def test_requests_that_wait_together_are_one_run(bench: Bench) -> None:
    scheduler = bench.start(max_size=8)
    first = held(bench, scheduler)
    jobs = submitted(scheduler, job(1), job(2, 3), job(4))
    bench.session.go.set()
    assert [answer(each) for each in [first, *jobs]] == [[0], [2], [4, 6], [8]]
    assert bench.session.runs == [[0], [1, 2, 3, 4]]
    scheduler.close()
    assert bench.seen.rows == [1, 4]


def test_without_batching_every_request_is_a_run(bench: Bench) -> None:
    scheduler = bench.start()
    first = held(bench, scheduler)
    jobs = submitted(scheduler, job(1), job(2))
    bench.session.go.set()
    assert [answer(each) for each in [first, *jobs]] == [[0], [2], [4]]
    assert bench.session.runs == [[0], [1], [2]]


def test_a_run_has_no_more_rows_than_it_may(bench: Bench) -> None:
    scheduler = bench.start(max_size=4)
    first = held(bench, scheduler)
    jobs = submitted(scheduler, job(1, 2, 3), job(4, 5), job(6, 7))
    bench.session.go.set()
    assert [answer(each) for each in [first, *jobs]] == [[0], [2, 4, 6], [8, 10], [12, 14]]
    assert bench.session.runs == [[0], [1, 2, 3], [4, 5, 6, 7]]
    with pytest.raises(BadRequest, match="5 rows"):
        scheduler.submit(job(1, 2, 3, 4, 5))


def test_a_batch_waits_for_more_but_not_when_it_is_full(bench: Bench) -> None:
    scheduler = bench.start(max_size=2, delay=1e3 * LONG)
    jobs = submitted(scheduler, job(1), job(2))
    assert [answer(each) for each in jobs] == [[2], [4]]
    assert bench.session.runs == [[1, 2]]


def test_a_delay_ends(bench: Bench) -> None:
    scheduler = bench.start(max_size=1000, delay=20.0)
    assert answer(submitted(scheduler, job(1))[0]) == [2]


def test_other_shapes_are_other_runs(bench: Bench) -> None:
    scheduler = bench.start(max_size=8)
    first = held(bench, scheduler)
    wide = Job({"x": np.full((1, 2), 5, np.float32)}, ("y",))
    jobs = submitted(scheduler, job(1), wide, job(2))
    bench.session.go.set()
    assert [answer(each) for each in [first, *jobs]] == [[0], [2], [10, 10], [4]]
    assert bench.session.runs == [[0], [1, 2], [5]]


def test_each_request_gets_the_outputs_that_it_asks_for(bench: Bench) -> None:
    scheduler = bench.start(max_size=8)
    first = held(bench, scheduler)
    one, both = submitted(scheduler, job(1), job(2, outputs=("y", "y")))
    bench.session.go.set()
    assert answer(first) == [0] and len(one.future.result(LONG)) == 1 and len(both.future.result(LONG)) == 2


def test_a_model_that_mixes_rows_is_found_out_and_run_alone(bench: Bench) -> None:
    scheduler = bench.start(max_size=8)
    first = held(bench, scheduler)
    jobs = submitted(scheduler, job(1, outputs=("first",)), job(2, outputs=("first",)))
    bench.session.go.set()
    assert [answer(each) for each in [first, *jobs]] == [[0], [1], [2]]


def test_a_request_that_fails_fails_alone(bench: Bench) -> None:
    scheduler = bench.start(max_size=8)
    first = held(bench, scheduler)
    good, bad, other = submitted(scheduler, job(1), job(-1), job(3))
    bench.session.go.set()
    assert [answer(each) for each in (first, good, other)] == [[0], [2], [6]]
    with pytest.raises(BadRequest, match="does not like"):
        bad.future.result(LONG)


def test_a_full_queue_refuses_and_forgets_those_that_nobody_waits_for(bench: Bench) -> None:
    scheduler = bench.start(size=2)
    first = held(bench, scheduler)
    waiting = submitted(scheduler, job(1), job(2))
    with pytest.raises(QueueFull, match="2 requests"):
        scheduler.submit(job(3))
    assert waiting[0].future.cancel()
    later = submitted(scheduler, job(4))[0]
    bench.session.go.set()
    assert [answer(each) for each in (first, waiting[1], later)] == [[0], [4], [8]]
    assert bench.session.runs == [[0], [2], [4]]


def test_requests_that_are_cancelled_or_late_are_not_run(bench: Bench) -> None:
    scheduler = bench.start(max_size=8)
    first = held(bench, scheduler)
    cancelled, late, good = submitted(scheduler, job(1), job(2, deadline=time.monotonic()), job(3))
    assert cancelled.future.cancel()
    bench.session.go.set()
    assert answer(first) == [0] and answer(good) == [6]
    with pytest.raises(DeadlineExceeded):
        late.future.result(LONG)
    assert bench.session.runs == [[0], [3]]


def test_a_queue_has_a_deadline_of_its_own(bench: Bench) -> None:
    scheduler = bench.start(timeout=1.0)
    first = held(bench, scheduler)
    late = submitted(scheduler, job(1))[0]
    assert late.deadline is not None
    time.sleep(max(0.0, late.deadline - time.monotonic()))
    bench.session.go.set()
    with pytest.raises(DeadlineExceeded):
        late.future.result(LONG)
    assert answer(first) == [0]


def test_a_crash_costs_its_batch_alone_and_the_instance_comes_back(bench: Bench) -> None:
    scheduler = bench.start(max_size=2)
    first = held(bench, scheduler)
    jobs = submitted(scheduler, job(1), job(-2), job(3))
    bench.session.go.set()
    assert answer(first) == [0] and answer(jobs[2]) == [6]
    for lost in jobs[:2]:
        with pytest.raises(RunFailed, match="it crashed"):
            lost.future.result(LONG)
    assert bench.session.closed and bench.opened_again == 1 and bench.reopened.runs == [[3]]
    assert len(bench.seen.crashes) == 1 and bench.seen.reopened_count == 1
    assert scheduler.is_ready


def test_a_model_that_does_not_come_back_says_why(bench: Bench) -> None:
    scheduler = bench.start()
    bench.fails_to_open = True
    first = held(bench, scheduler)
    crash, waiting = submitted(scheduler, job(-2), job(3))
    bench.session.go.set()
    assert answer(first) == [0]
    with pytest.raises(RunFailed):
        crash.future.result(LONG)
    with pytest.raises(Unavailable, match="no such device"):
        waiting.future.result(LONG)
    assert not scheduler.is_ready
    with pytest.raises(Unavailable, match="no such device"):
        scheduler.submit(job(4))


def test_what_was_taken_is_run_before_the_end(bench: Bench) -> None:
    scheduler = bench.start()
    jobs = [held(bench, scheduler), *submitted(scheduler, job(1), job(2))]
    closing = threading.Thread(target=scheduler.close)
    closing.start()
    while scheduler.is_ready:
        time.sleep(0.001)
    with pytest.raises(Closed):
        scheduler.submit(job(3))
    bench.session.go.set()
    closing.join(LONG)
    assert [answer(each) for each in jobs] == [[0], [2], [4]]
    assert bench.session.closed


def test_a_run_ends_when_nobody_waits_for_any_of_its_requests(bench: Bench) -> None:
    scheduler = bench.start(max_size=2)
    first = held(bench, scheduler)
    jobs = submitted(scheduler, job(1), job(2))
    first.give_up()
    with pytest.raises(RunFailed, match="terminated"):
        first.future.result(LONG)
    assert bench.session.entered.acquire(timeout=LONG)
    jobs[0].give_up()
    time.sleep(0.05)
    assert not jobs[1].future.done()  # somebody waits for one
    jobs[1].give_up()
    for each in jobs:
        with pytest.raises(RunFailed, match="terminated"):
            each.future.result(LONG)
    bench.session.go.set()
    assert answer(submitted(scheduler, job(3))[0]) == [6]
    assert bench.session.runs == [[3]]


def test_a_request_that_is_given_up_before_its_run_is_known_ends_it(bench: Bench) -> None:
    scheduler = bench.start()
    bench.session.go.clear()
    late = job(1)
    late.give_up()
    with pytest.raises(RunFailed, match="terminated"):
        submitted(scheduler, late)[0].future.result(LONG)


def test_a_stop_ends_runs_and_answers_what_waits(bench: Bench) -> None:
    scheduler = bench.start()
    jobs = [held(bench, scheduler), *submitted(scheduler, job(1), job(2))]
    scheduler.stop()
    for each in jobs:
        with pytest.raises(Unavailable, match="the server ends"):
            each.future.result(LONG)
    with pytest.raises(Closed):
        scheduler.submit(job(3))
    scheduler.close()
    assert bench.session.closed and bench.session.runs == []


def test_the_log_says_what_does_not_stop(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(batching, "_PATIENCE", 0.05)
    bench.session.stops = False
    scheduler = bench.start()
    first = held(bench, scheduler)
    with caplog.at_level(logging.WARNING, "ephost.serving"):
        scheduler.stop()
        closing = threading.Thread(target=scheduler.close)
        closing.start()
        while not caplog.records:
            time.sleep(0.01)
        bench.session.go.set()
        closing.join(LONG)
    assert answer(first) == [0]
    assert caplog.records[0].getMessage() == "a run of model 'm' does not stop, and is waited for"


def test_requests_that_came_together_make_runs_of_one_group_and_few_rows() -> None:
    def fitted(rows: int, width: int) -> Job:
        made = Job({"x": np.zeros((rows, width), np.float32)}, ("y",))
        fit(made, 4, "model 'm'")
        return made

    wide, narrow = [fitted(rows, 2) for rows in (1, 2, 2, 1)], [fitted(rows, 1) for rows in (3, 1, 4)]
    alone = Job({"x": np.zeros((), np.float32)}, ("y",))
    found = runs_of([wide[0], narrow[0], alone, wide[1], wide[2], narrow[1], narrow[2], wide[3]], 4)
    assert found == [[wide[0], wide[1]], [narrow[0], narrow[1]], [alone], [wide[2], wide[3]], [narrow[2]]]
    with pytest.raises(BadRequest, match="the request has 5 rows; model 'm' takes 4"):
        fitted(5, 1)
