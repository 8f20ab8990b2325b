"""What the server counts, for Prometheus."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from time import perf_counter

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

from dssm_tf.server.limits import Refusal

_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30)


class Metrics:
    """Counts since the start."""

    def __init__(self) -> None:
        self._registry = registry = CollectorRegistry()
        self._requests = Counter(
            "dssm_requests", "Requests, answered or refused", ["api", "status"], registry=registry
        )
        self._seconds = Histogram(
            "dssm_request_seconds", "From the first byte of a request to its answer", ["api"],
            registry=registry, buckets=_SECONDS,
        )  # fmt: skip
        self._loads = Counter(
            "dssm_loads", "Attempts to load a version", ["model", "status"], registry=registry
        )
        self._version = Gauge(
            "dssm_model_version", "The version that answers", ["model"], registry=registry
        )

    @contextmanager
    def request(self, api: str) -> Iterator[None]:
        """Counts the request that the block answers, by the status that it ends with."""
        started, status = perf_counter(), "CANCELLED"
        try:
            yield
            status = "OK"
        except Refusal as refusal:
            status = refusal.status
            raise
        finally:
            self._requests.labels(api, status).inc()
            self._seconds.labels(api).observe(perf_counter() - started)

    def loaded(self, model: str, version: int, well: bool) -> None:
        """Counts an attempt to load a version of a model."""
        self._loads.labels(model, "success" if well else "fail").inc()
        if well:
            self._version.labels(model).set(version)

    def text(self) -> bytes:
        """All of it in Prometheus's text format."""
        return generate_latest(self._registry)
