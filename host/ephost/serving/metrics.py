"""What Prometheus is told, in a registry of the server's own."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, Summary
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest

from ephost.errors import PluginFault

CONTENT_TYPE = CONTENT_TYPE_LATEST
_SECONDS = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30)
_SIZES = (1, 2, 4, 8, 16, 32, 64, 128, 256)
_VERSION = ("model", "version")


@dataclass
class Counts:
    """What is known of one version's requests since the server began, in seconds where it is a time."""

    succeeded: float = 0
    succeeded_seconds: float = 0.0  # from a request's decoding to its outputs
    failed: float = 0
    failed_seconds: float = 0.0
    last: float = 0.0  # when the last one was over, since the epoch
    run: float = 0  # requests that were part of a run
    run_seconds: float = 0.0  # of the runs that they were part of
    waited_seconds: float = 0.0
    runs: float = 0
    rows: float = 0


# Which of Prometheus' samples has what is counted.
_FIELDS = {
    "ephost_request_seconds_count": "succeeded",
    "ephost_request_seconds_sum": "succeeded_seconds",
    "ephost_failed_request_seconds_count": "failed",
    "ephost_failed_request_seconds_sum": "failed_seconds",
    "ephost_last_request_timestamp_seconds": "last",
    "ephost_request_run_seconds_count": "run",
    "ephost_request_run_seconds_sum": "run_seconds",
    "ephost_queue_seconds_sum": "waited_seconds",
    "ephost_batch_rows_count": "runs",
    "ephost_batch_rows_sum": "rows",
}


class Metrics:
    """The server's counters. Any thread may call its methods. With a thousand models those that read all of
    them take a second, which the event loop does not have.
    """

    def __init__(self) -> None:
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
        self._failed_seconds = Summary(
            "ephost_failed_request_seconds",
            "From a failed request's decoding to its failure.",
            _VERSION,
            registry=registry,
        )
        self._last = Gauge(
            "ephost_last_request_timestamp_seconds",
            "When the last request was over, since the epoch.",
            _VERSION,
            registry=registry,
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
        self._run_of_request = Summary(
            "ephost_request_run_seconds",
            "Runs, once for each request in them.",
            _VERSION,
            registry=registry,
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
        if outcome == "succeeded":
            self._seconds.labels(model, version).observe(seconds)
        elif outcome == "failed":
            self._failed_seconds.labels(model, version).observe(seconds)
        self._last.labels(model, version).set_to_current_time()

    def counts(self) -> dict[tuple[str, str], Counts]:
        """What is known of each model and version that was asked for, whether it is loaded now or not."""
        found: dict[tuple[str, str], Counts] = {}
        for family in self._registry.collect():
            for sample in family.samples:
                if (field := _FIELDS.get(sample.name)) is not None:
                    key = sample.labels["model"], sample.labels["version"]
                    setattr(found.setdefault(key, Counts()), field, sample.value)
        return found

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
        self._run_of_request = metrics._run_of_request.labels(model, version)

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
            self._run_of_request.observe(seconds)

    def crashed(self, fault: PluginFault) -> None:
        """A plugin's process has ended in a run."""
        self._metrics._crashes.labels(*self._version, fault.library).inc()

    def reopened(self) -> None:
        """An instance is back."""
        self._metrics._reopened.labels(*self._version).inc()
