"""Counts and latencies for Prometheus, under the names that TensorFlow Serving gives them."""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from threading import Lock

Labels = tuple[tuple[str, str], ...]

PATH = "/monitoring/prometheus/metrics"

_REQUESTS = ":tensorflow:serving:request_count"
_REQUEST_LATENCY = ":tensorflow:serving:request_latency"
_RUN_LATENCY = ":tensorflow:serving:runtime_latency"
_LOADS = ":tensorflow:cc:saved_model:load_attempt_count"
_LOAD_LATENCY = ":tensorflow:cc:saved_model:load_latency"

# Upper ends of a histogram's buckets in microseconds: from 10 to some twenty minutes.
_LIMITS = [10 * 1.8**power for power in range(33)]


class Metrics:
    """What happened since the start. Threads share it."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._counters: dict[str, dict[Labels, int]] = defaultdict(lambda: defaultdict(int))
        self._histograms: dict[str, dict[Labels, _Histogram]] = defaultdict(
            lambda: defaultdict(_Histogram)
        )

    def answered(self, model: str, status: str, api: str, entrypoint: str, seconds: float) -> None:
        """Counts a request, answered or refused.

        Args:
            model: its name; empty where there is no such model.
            status: the name of the gRPC status.
            api: `Predict` of gRPC, `predict` of REST.
            entrypoint: `GRPC` or `REST`.
            seconds: from the request's last byte to the answer.
        """
        latency = (("model_name", model), ("API", api), ("entrypoint", entrypoint))
        with self._lock:
            self._counters[_REQUESTS][("model_name", model), ("status", status)] += 1
            self._histograms[_REQUEST_LATENCY][latency].add(1e6 * seconds)

    def ran(self, model: str, seconds: float) -> None:
        """Counts a run of a model."""
        labels = (("model_name", model), ("API", "Predict"), ("runtime", "TF1"))
        with self._lock:
            self._histograms[_RUN_LATENCY][labels].add(1e6 * seconds)

    def loaded(self, directory: object, well: bool, seconds: float) -> None:
        """Counts an attempt to load a version."""
        path = ("model_path", str(directory))
        with self._lock:
            self._counters[_LOADS][path, ("status", "success" if well else "fail")] += 1
            self._counters[_LOAD_LATENCY][(path,)] += round(1e6 * seconds)

    def text(self) -> str:
        """All of it in Prometheus's text format."""
        lines = []
        with self._lock:
            for name, counters in sorted(self._counters.items()):
                lines.append(f"# TYPE {name} counter")
                lines += [f"{name}{{{_shown(of)}}} {count}" for of, count in counters.items()]
            for name, histograms in sorted(self._histograms.items()):
                lines.append(f"# TYPE {name} histogram")
                for of, histogram in histograms.items():
                    lines += histogram.lines(name, _shown(of))
        return "".join(f"{line}\n" for line in lines)


class _Histogram:
    def __init__(self) -> None:
        self._counts = [0] * (len(_LIMITS) + 1)
        self._sum = 0.0

    def add(self, value: float) -> None:
        self._counts[bisect_left(_LIMITS, value)] += 1
        self._sum += value

    def lines(self, name: str, labels: str) -> list[str]:
        found, below = [], 0
        ends = [f"{limit:g}" for limit in _LIMITS] + ["+Inf"]
        for end, count in zip(ends, self._counts, strict=True):
            below += count
            found.append(f'{name}_bucket{{{labels},le="{end}"}} {below}')
        return [
            *found,
            f"{name}_sum{{{labels}}} {self._sum:g}",
            f"{name}_count{{{labels}}} {below}",
        ]


def _shown(labels: Labels) -> str:
    return ",".join(f'{name}="{_escaped(value)}"' for name, value in labels)


def _escaped(value: str) -> str:
    return value.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")
