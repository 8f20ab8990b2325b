"""Prometheus metrics of a server."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from prometheus_client import CollectorRegistry, Counter, Histogram, generate_latest
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from dssm_tf.server.admission import Admission
from dssm_tf.server.bodies import Bodies
from dssm_tf.server.limits import REASONS, Refusal
from dssm_tf.server.models import Snapshot

_SECONDS = (.0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30)  # fmt: skip


class Metrics:
    """Counts requests, refusals, searches and reloads.

    Args:
        snapshot: returns the current snapshot.
        admission: has the number of running requests.
        bodies: has the bytes of requests.
    """

    def __init__(
        self, snapshot: Callable[[], Snapshot], admission: Admission, bodies: Bodies
    ) -> None:
        self._registry = CollectorRegistry()
        self._requests = Histogram(
            "dssm_request_seconds", "From the first byte of a request to its answer or refusal",
            ["api", "status"], registry=self._registry, buckets=_SECONDS,
        )  # fmt: skip
        self._stages = Histogram(
            "dssm_stage_seconds",
            "Stages of answered requests: wait (for a slot and a worker), compute",
            ["stage"], registry=self._registry, buckets=_SECONDS,
        )  # fmt: skip
        self._refusals = Counter(
            "dssm_refusals", "Requests that were not answered", ["api", "reason"],
            registry=self._registry,
        )  # fmt: skip
        self._without_good_match = Counter(
            "dssm_searches_without_good_match", "Searches in which nothing matched well",
            registry=self._registry,
        )  # fmt: skip
        self._reloads = Counter(
            "dssm_reloads", "New versions that were loaded or refused", ["result"],
            registry=self._registry,
        )  # fmt: skip
        self._observers = {
            stage: self._stages.labels(stage).observe for stage in ("wait", "compute")
        }
        self._by_status: dict[tuple[str, str], Histogram] = {}
        self._registry.register(_State(snapshot, admission, bodies))

    def count_request(self, api: str, status: str, seconds: float) -> None:
        """Counts a request, by the status of its answer or refusal, and its seconds."""
        if (child := self._by_status.get((api, status))) is None:
            child = self._by_status[api, status] = self._requests.labels(api, status)
        child.observe(seconds)

    def count_refusal(self, api: str, error: Refusal) -> None:
        """Counts a refusal by its reason."""
        self._refusals.labels(api, REASONS[error.kind]).inc()

    def observe_stage(self, name: str, seconds: float) -> None:
        """Counts the seconds of a stage of an answered request."""
        self._observers[name](seconds)

    def count_search(self, no_good_match: bool) -> None:
        """Counts a search if it has no good match."""
        if no_good_match:
            self._without_good_match.inc()

    def count_reload(self, is_new: bool) -> None:
        """Counts a reload: a new version was loaded (`is_new`), or one was refused."""
        self._reloads.labels("loaded" if is_new else "refused").inc()

    def text(self) -> bytes:
        """All metrics in Prometheus's text format."""
        return generate_latest(self._registry)


class _State(Collector):
    """Gauges that are computed for each request of `/metrics`."""

    def __init__(
        self, snapshot: Callable[[], Snapshot], admission: Admission, bodies: Bodies
    ) -> None:
        self._snapshot, self._admission, self._bodies = snapshot, admission, bodies

    def collect(self) -> Iterator[GaugeMetricFamily]:
        """The version of each model, running and waiting requests, and bytes of requests."""
        versions = GaugeMetricFamily(
            "dssm_model_version", "The newest version in use", labels=["model"]
        )
        for model in self._snapshot().models:
            versions.add_metric([model.name], model.version)
        yield versions
        for name, text, value in (
            ("dssm_requests_running", "Short requests being computed or waiting",
             self._admission.running),
            ("dssm_request_bytes", "Bytes of requests being received or computed",
             self._bodies.total),
        ):  # fmt: skip
            yield GaugeMetricFamily(name, text, value)
