"""What Prometheus is told, in a registry of the server's own."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest

from ephost.errors import PluginFault

CONTENT_TYPE = CONTENT_TYPE_LATEST
_SECONDS = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30)
_SIZES = (1, 2, 4, 8, 16, 32, 64, 128, 256)
_VERSION = ("model", "version")


@dataclass
class Counts:
    """What is known of one version's requests, in seconds where it is a time."""

    succeeded: int = 0
    succeeded_seconds: float = 0.0  # from a request's decoding to its outputs
    failed: int = 0
    failed_seconds: float = 0.0
    last: float = 0.0  # when the last one was over, since the epoch
    run: int = 0  # requests that were part of a run
    run_seconds: float = 0.0  # of the runs that they were part of
    waited_seconds: float = 0.0
    runs: int = 0
    rows: int = 0


class Metrics:
    """The server's counters. Any thread may call its methods."""

    def __init__(self) -> None:
        self._counts: dict[tuple[str, str], Counts] = {}
        self._lock = threading.Lock()  # of the counts
        registry = self._registry = CollectorRegistry()
        self._requests = Counter(
            "ephost_requests", "Requests by how they ended.", (*_VERSION, "outcome"), registry=registry
        )
        self._seconds = Histogram(
            "ephost_request_seconds",
            "From a request's decoding to its outputs.",
            _VERSION,
            registry=registry,
            buckets=_SECONDS,
        )
        self._waiting = Gauge(
            "ephost_queue_requests", "Requests that wait for an instance.", _VERSION, registry=registry
        )
        self._busy = Gauge(
            "ephost_instances_busy", "Instances that are in a run.", _VERSION, registry=registry
        )
        self._waited = Histogram(
            "ephost_queue_seconds", "In the queue.", _VERSION, registry=registry, buckets=_SECONDS
        )
        self._rows = Histogram(
            "ephost_batch_rows", "Rows of a run's first axis.", _VERSION, registry=registry, buckets=_SIZES
        )
        self._run = Histogram(
            "ephost_run_seconds",
            "Runs, by the execution providers of the session.",
            (*_VERSION, "providers"),
            registry=registry,
            buckets=_SECONDS,
        )
        self._crashes = Counter(
            "ephost_plugin_crashes",
            "Processes of isolated plugins that ended in a run.",
            (*_VERSION, "library"),
            registry=registry,
        )
        self._reopened = Counter(
            "ephost_instances_reopened", "Instances that came back after that.", _VERSION, registry=registry
        )

    def requested(self, model: str, version: str, outcome: str, seconds: float) -> None:
        """A request of a version is over: succeeded, failed or cancelled."""
        self._requests.labels(model, version, outcome).inc()
        counts = self.counts(model, version)
        with self._lock:
            if outcome == "succeeded":
                counts.succeeded += 1
                counts.succeeded_seconds += seconds
            elif outcome == "failed":
                counts.failed += 1
                counts.failed_seconds += seconds
            counts.last = time.time()
        if outcome == "succeeded":
            self._seconds.labels(model, version).observe(seconds)

    def counts(self, model: str, version: str) -> Counts:
        """What is known of a version's requests; it goes on counting when the version is loaded again."""
        with self._lock:
            if (found := self._counts.get((model, version))) is None:
                found = self._counts[model, version] = Counts()
            return found

    def of_version(self, model: str, version: str) -> Counts:
        """The same as it is now."""
        counts = self.counts(model, version)
        with self._lock:
            return replace(counts)

    def observer(self, model: str, version: str, providers: tuple[str, ...]) -> VersionMetrics:
        """Who is told of a version's runs."""
        return VersionMetrics(self, model, version, providers)

    def text(self) -> bytes:
        """All of them in Prometheus' text format, which is :data:`CONTENT_TYPE`."""
        return generate_latest(self._registry)


class VersionMetrics:
    """The part of the metrics that is about one version of a model."""

    def __init__(self, metrics: Metrics, model: str, version: str, providers: tuple[str, ...]) -> None:
        self._metrics = metrics
        self._version = (model, version)
        # Labels are looked up once: a look-up takes longer than counting.
        self._waiting = metrics._waiting.labels(model, version)
        self._busy = metrics._busy.labels(model, version)
        self._waited = metrics._waited.labels(model, version)
        self._rows = metrics._rows.labels(model, version)
        self._run = metrics._run.labels(model, version, ",".join(providers))
        self._counts = metrics.counts(model, version)

    def taken(self, waiting: int) -> None:
        """So many requests are waiting now."""
        self._waiting.set(waiting)

    def started(self) -> None:
        """An instance has begun a run."""
        self._busy.inc()

    def ended(self) -> None:
        """It has ended, in whatever way."""
        self._busy.dec()

    def ran(self, rows: int, requests: int, seconds: float, waited: Sequence[float]) -> None:
        """A run of so many rows of so many requests, which waited so long each."""
        self._rows.observe(rows)
        self._run.observe(seconds)
        for each in waited:
            self._waited.observe(each)
        with self._metrics._lock:
            self._counts.run += requests
            self._counts.run_seconds += requests * seconds
            self._counts.waited_seconds += sum(waited)
            self._counts.runs += 1
            self._counts.rows += rows

    def crashed(self, fault: PluginFault) -> None:
        """A plugin's process has ended in a run."""
        self._metrics._crashes.labels(*self._version, fault.library).inc()

    def reopened(self) -> None:
        """An instance is back."""
        self._metrics._reopened.labels(*self._version).inc()
