"""Requests of one model on their way to its instances: a bounded queue, batches, deadlines.

Each instance is a thread with a session of its own, which takes what waits and runs it, requests of one kind
together along their first axis. A request that was cancelled or is out of time is not run, and a run for such
requests alone is stopped. A batch that fails is run again request by request, so that one that the model
cannot take fails alone; what ends an isolated plugin is not tried again.
"""

from __future__ import annotations

import contextlib
import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np

from ephost.errors import InvalidArgument, OnnxRuntimeException, PluginFault
from ephost.options import RunOptions
from ephost.serving.config import Batching, Queue
from ephost.serving.errors import (
    BadRequest,
    Closed,
    DeadlineExceeded,
    QueueFull,
    RunFailed,
    ServingError,
    Unavailable,
)
from ephost.serving.signature import rows_of

_LOG = logging.getLogger("ephost.serving")
_LONGEST_PAUSE = 30.0  # seconds between tries to bring an instance back
_FIRST_PAUSE = 0.5
_PATIENCE = 5.0  # with a run that was told to stop, before the log says so
_ENDS = "the server ends, and the time for requests that it had accepted is over"

Arrays = dict[str, np.ndarray]


class Runnable(Protocol):
    """What an instance needs of a session."""

    def run(
        self,
        output_names: Sequence[str] | None,
        input_feed: Mapping[str, Any],
        run_options: RunOptions | None = None,
    ) -> list[Any]:
        """As :meth:`ephost.InferenceSession.run`."""
        ...

    def close(self) -> None:
        """As :meth:`ephost.InferenceSession.close`."""
        ...


class Observer(Protocol):
    """Who is told what happens, from the instances' threads."""

    def taken(self, waiting: int) -> None:
        """So many requests are waiting now."""

    def started(self) -> None:
        """An instance has begun a run."""

    def ran(self, rows: int, requests: int, seconds: float, waited: Sequence[float]) -> None:
        """A run of so many rows of so many requests, which waited so long each."""

    def ended(self) -> None:
        """It has ended, in whatever way."""

    def crashed(self, fault: PluginFault) -> None:
        """A plugin's process has ended in a run."""

    def reopened(self) -> None:
        """An instance is back."""


@dataclass(eq=False)
class Job:
    """One request in the queue."""

    inputs: Arrays
    outputs: tuple[str, ...]  # in the order in which they are wanted
    deadline: float | None = None  # on the clock of time.monotonic
    rows: int = 0  # 0: it is run alone
    group: tuple[Any, ...] = ()  # what it has in common with those that it can share a run with
    arrived: float = field(default_factory=time.monotonic)
    future: Future[list[Any]] = field(default_factory=Future)
    is_given_up: bool = False
    under_way: _Run | None = None

    def give_up(self) -> None:
        """Nobody waits for the outputs, says any thread. A run for such requests alone is stopped."""
        self.is_given_up = True
        if (run := self.under_way) is not None:
            run.stop_unless_wanted()

    def is_wanted(self) -> bool:
        """Whether to run it; a request that is out of time is told so. Then it cannot be cancelled."""
        if not self.future.set_running_or_notify_cancel():
            return False
        if self.deadline is not None and time.monotonic() >= self.deadline:
            self.future.set_exception(DeadlineExceeded("the request's time was over before it was run"))
            return False
        return True


class _Run:
    """A run that can be stopped."""

    def __init__(self, jobs: Sequence[Job]) -> None:
        self.options = RunOptions()
        self._jobs = jobs
        for job in jobs:
            job.under_way = self
        self.stop_unless_wanted()  # those that were given up before they could tell this run

    def stop_unless_wanted(self) -> None:
        """Stop, when nobody waits for any of the requests."""
        if all(job.is_given_up for job in self._jobs):
            self.stop()

    def stop(self) -> None:
        """End before the next node."""
        self.options.terminate = True

    def end(self) -> None:
        """The run is over: its requests hold it no longer, nor it them by each other."""
        for job in self._jobs:
            job.under_way = None


def fit(job: Job, max_size: int, label: str) -> None:
    """Find out what a request can share a run with.

    Args:
        job: gets its rows and its group, where runs have several rows.
        max_size: rows of a run.
        label: what messages call the model.

    Raises:
        BadRequest: it has more rows than a run may have.
    """
    if max_size <= 1:
        return
    job.rows = rows_of(job.inputs)
    if job.rows > max_size:
        raise BadRequest(f"the request has {job.rows} rows; {label} takes {max_size}")
    job.group = tuple(sorted((name, array.shape[1:]) for name, array in job.inputs.items()))


class Scheduler:
    """The queue of one version of a model, and its instances."""

    def __init__(
        self,
        sessions: Sequence[Runnable],
        reopen: Callable[[], Runnable],
        batching: Batching,
        queue: Queue,
        observer: Observer,
        label: str,
    ) -> None:
        """Start a thread for each session.

        Args:
            sessions: the instances' sessions, which the scheduler closes at its end.
            reopen: makes another session for an instance whose plugin's process has ended.
            batching: how requests are put together.
            queue: how many may wait.
            observer: is told what happens.
            label: what messages call the model.
        """
        self._reopen = reopen
        self._batching = batching
        self._limit = queue
        self._observer = observer
        self._label = label
        self._waiting: deque[Job] = deque()
        self._changed = threading.Condition()
        self._closing = False
        self._stopped = False
        self._runs: set[_Run] = set()
        self._ended = threading.Event()
        self._alive = len(sessions)
        self._broken = ""  # why no instance can be opened again
        self._threads = [
            threading.Thread(
                target=self._serve, args=(session,), name=f"ephost-serve-{label}-{at}", daemon=True
            )
            for at, session in enumerate(sessions)
        ]
        for thread in self._threads:
            thread.start()

    @property
    def is_ready(self) -> bool:
        """Whether an instance is there to run requests."""
        return self._alive > 0 and not self._closing

    def submit(self, job: Job) -> None:
        """Put a request into the queue; its future gets the outputs, or why there are none.

        Raises:
            BadRequest: it has more rows than a run may have.
            Unavailable: no instance is left, and the last try to open one failed.
            QueueFull: as many wait as may.
            Closed: the scheduler has been closed.
        """
        fit(job, self._batching.max_size, self._label)
        if self._limit.timeout_milliseconds and job.deadline is None:
            job.deadline = job.arrived + self._limit.timeout_milliseconds / 1000
        with self._changed:
            if self._closing:
                raise Closed
            if self._broken:
                raise Unavailable(self._broken)
            if len(self._waiting) >= self._limit.size:
                self._drop_unwanted()
            if len(self._waiting) >= self._limit.size:
                raise QueueFull(
                    f"the queue of {self._label} is full: {self._limit.size} requests are waiting"
                )
            self._waiting.append(job)
            self._observer.taken(len(self._waiting))
            self._changed.notify()

    def close(self) -> None:
        """Take no more requests, run those that wait, and close the sessions. Blocks until that is done."""
        with self._changed:
            self._closing = True
            self._ended.set()
            self._changed.notify_all()
        for thread in self._threads:
            while thread.is_alive():
                thread.join(_PATIENCE)
                if thread.is_alive() and self._stopped:
                    _LOG.warning("a run of %s does not stop, and is waited for", self._label)

    def stop(self) -> None:
        """Take no more requests, stop the runs, and answer those that wait with an error. Does not block."""
        with self._changed:
            self._closing = self._stopped = True
            self._ended.set()
            runs = list(self._runs)
            lost, self._waiting = self._waiting, deque()
            self._observer.taken(0)
            self._changed.notify_all()
        for run in runs:
            run.stop()
        for job in lost:
            if job.is_wanted():
                job.future.set_exception(Unavailable(_ENDS))

    # ---- batches; the lock is held ----

    def _drop_unwanted(self) -> None:
        """Forget the requests that nobody waits for any more."""
        now = time.monotonic()
        kept = []
        for job in self._waiting:
            late = job.deadline is not None and now >= job.deadline
            if late or job.future.cancelled():
                job.is_wanted()
            else:
                kept.append(job)
        self._waiting = deque(kept)

    def _next(self) -> list[Job]:
        """The requests of the next run, which can no longer be cancelled; none at the end."""
        with self._changed:
            while True:
                while not self._waiting:
                    if self._closing:
                        return []
                    self._changed.wait()
                self._wait_for_more()
                batch = self._take()
                self._observer.taken(len(self._waiting))
                if self._waiting:
                    self._changed.notify()  # what is left may be another instance's
                if batch:
                    return batch

    def _wait_for_more(self) -> None:
        """Wait until the first request's batch is full or its delay over."""
        while self._waiting and not self._closing:
            first = self._waiting[0]
            if not first.rows or self._batching.max_size <= 1:
                return
            rows = sum(job.rows for job in self._waiting if job.rows and job.group == first.group)
            left = first.arrived + self._batching.delay_milliseconds / 1000 - time.monotonic()
            if rows >= self._batching.max_size or left <= 0:
                return
            self._changed.wait(left)

    def _take(self) -> list[Job]:
        batch: list[Job] = []
        kept: deque[Job] = deque()
        rows = 0
        while self._waiting:
            job = self._waiting.popleft()
            if not batch:
                if job.is_wanted():
                    batch.append(job)
                    rows = job.rows
                continue
            fits = rows and job.rows and job.group == batch[0].group
            if not fits or rows + job.rows > self._batching.max_size:
                kept.append(job)
                if fits:
                    break  # who came first goes first
            elif job.is_wanted():
                batch.append(job)
                rows += job.rows
            if not rows or rows >= self._batching.max_size:
                break
        kept.extend(self._waiting)
        self._waiting = kept
        return batch

    # ---- an instance's thread ----

    def _serve(self, session: Runnable | None) -> None:
        pause = 0.0
        while True:
            if session is None:
                session, pause = self._bring_back(pause)
                if session is None:
                    if self._closing:
                        return
                    continue
            batch = self._next()
            if not batch:
                break
            self._observer.started()
            try:
                self._run(session, batch)
                pause = 0.0
            except PluginFault as fault:
                self._observer.crashed(fault)
                with self._changed:
                    self._alive -= 1
                _close(session)
                session = None
            finally:
                self._observer.ended()
            del batch  # arrays must not stay while nothing comes
        _close(session)

    def _bring_back(self, pause: float) -> tuple[Runnable | None, float]:
        """Another session, and how long to wait before the next time."""
        self._ended.wait(pause)
        following = min(max(_FIRST_PAUSE, 2 * pause), _LONGEST_PAUSE)
        try:
            session = self._reopen()
        except Exception as error:
            self._give_up(f"{self._label} cannot be opened again: {error}")
            return None, following
        with self._changed:
            self._alive += 1
            self._broken = ""
        self._observer.reopened()
        return session, following

    def _give_up(self, why: str) -> None:
        """Answer all that wait, unless another instance is there for them."""
        _LOG.error("%s", why)
        with self._changed:
            if self._alive:
                return
            self._broken = why
            lost, self._waiting = self._waiting, deque()
            self._observer.taken(0)
        for job in lost:
            if job.is_wanted():
                job.future.set_exception(Unavailable(why))

    def _run(self, session: Runnable, batch: list[Job]) -> None:
        """Run the requests, as one or one by one, and answer them.

        Raises:
            PluginFault: the session is of no use any more. The requests are answered.
        """
        try:
            started = time.monotonic()
            with self._stoppable(batch) as options:
                results = run_together(session, batch, self._label, options)
            seconds = time.monotonic() - started
        except PluginFault as fault:
            for job in batch:
                job.future.set_exception(RunFailed(str(fault)))
            raise
        except Exception as error:
            if len(batch) == 1 or self._stopped or all(job.is_given_up for job in batch):
                why = Unavailable(_ENDS) if self._stopped else answer(error)
                for job in batch:
                    job.future.set_exception(why)
                return
            _LOG.info("a batch of %d requests of %s is run one by one: %s", len(batch), self._label, error)
            for at, job in enumerate(batch):
                try:
                    self._run(session, [job])
                except PluginFault as fault:
                    for other in batch[at + 1 :]:
                        other.future.set_exception(RunFailed(str(fault)))
                    raise
            return
        self._observer.ran(
            sum(job.rows for job in batch) or 1, len(batch), seconds, [started - job.arrived for job in batch]
        )
        for job, result in zip(batch, results, strict=True):
            job.future.set_result(result)

    @contextlib.contextmanager
    def _stoppable(self, batch: Sequence[Job]) -> Iterator[RunOptions]:
        run = _Run(batch)
        with self._changed:
            self._runs.add(run)
            if self._stopped:
                run.stop()
        try:
            yield run.options
        finally:
            with self._changed:
                self._runs.discard(run)
            run.end()


def runs_of(jobs: Sequence[Job], max_size: int) -> list[list[Job]]:
    """The runs that requests make which came together: those of one group in order, up to so many rows."""
    runs: list[list[Job]] = []
    last: dict[Any, tuple[list[Job], int]] = {}  # of each group: its run that is not full, and its rows
    for job in jobs:
        run, rows = last.get(job.group, ([], 0)) if job.rows else ([], 0)
        if not run or rows + job.rows > max_size:
            runs.append(run := [])
            rows = 0
        run.append(job)
        if job.rows:
            last[job.group] = run, rows + job.rows
    return runs


def run_together(
    session: Runnable, batch: Sequence[Job], label: str, options: RunOptions | None = None
) -> list[list[Any]]:
    """Run requests of one group as one along the first axis.

    Args:
        session: to run them on.
        batch: the requests.
        label: what messages call the model.
        options: of the run.

    Returns:
        For each its outputs: views of the run's, where there are several.

    Raises:
        RunFailed: an output has not as many rows as the inputs together.
        What running raises.
    """
    first = batch[0]
    if len(batch) == 1:
        return [session.run(first.outputs, first.inputs, options)]
    names = list(dict.fromkeys(name for job in batch for name in job.outputs))
    feed = {name: np.concatenate([job.inputs[name] for job in batch]) for name in first.inputs}
    made = dict(zip(names, session.run(names, feed, options), strict=True))
    rows = sum(job.rows for job in batch)
    for name, value in made.items():
        if value.ndim == 0 or value.shape[0] != rows:
            raise RunFailed(
                f"output '{name}' of {label} has the shape {list(value.shape)} for a batch of {rows} rows: "
                "the model cannot be batched along the first axis"
            )
    results, start = [], 0
    for job in batch:
        stop = start + job.rows
        results.append([made[name][start:stop] for name in job.outputs])
        start = stop
    return results


def answer(error: Exception) -> ServingError:
    """What a request is answered with whose run raised this."""
    if isinstance(error, ServingError):
        return error
    if isinstance(error, (InvalidArgument, ValueError)):
        return BadRequest(str(error))
    if not isinstance(error, (OnnxRuntimeException, MemoryError)):
        _LOG.error("a run failed in a way that is not foreseen", exc_info=error)
    return RunFailed(f"{type(error).__name__}: {error}")


def _close(session: Runnable) -> None:
    try:
        session.close()
    except Exception as error:
        _LOG.error("a session could not be closed: %s", error)
