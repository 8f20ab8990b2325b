"""Counts and latencies for Prometheus, under the names that TensorFlow Serving gives them."""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from itertools import accumulate
from threading import Lock

PATH = "/monitoring/prometheus/metrics"

_REQUESTS = ":tensorflow:serving:request_count"
_REQUEST_LATENCY = ":tensorflow:serving:request_latency"
_RUN_LATENCY = ":tensorflow:serving:runtime_latency"
_LOADS = ":tensorflow:cc:saved_model:load_attempt_count"
_LOAD_LATENCY = ":tensorflow:cc:saved_model:load_latency"

# Upper ends of a histogram's buckets in microseconds: from 10 to some twenty minutes.
_LIMITS = [10 * 1.8**power for power in range(33)]
_ENDS = [f"{limit:g}" for limit in _LIMITS] + ["+Inf"]


class Metrics:
    """What happened since the start. Threads share it."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._counts: dict[tuple[str, str], int] = defaultdict(int)
        self._buckets: dict[tuple[str, str], list[int]] = defaultdict(lambda: [0] * len(_ENDS))
        self._sums: dict[tuple[str, str], float] = defaultdict(float)

    def answered(self, model: str, status: str, api: str, entrypoint: str, seconds: float) -> None:
        """Counts a request, answered or refused.

        Args:
            model: its name; empty where there is no such model.
            status: the name of the gRPC status.
            api: `Predict` of gRPC, `predict` of REST.
            entrypoint: `GRPC` or `REST`.
            seconds: from the request's last byte to the answer.
        """
        labels = _labels(model_name=model, API=api, entrypoint=entrypoint)
        with self._lock:
            self._counts[_REQUESTS, _labels(model_name=model, status=status)] += 1
            self._observe(_REQUEST_LATENCY, labels, seconds)

    def ran(self, model: str, seconds: float) -> None:
        """Counts a run of a model."""
        with self._lock:
            labels = _labels(model_name=model, API="Predict", runtime="TF1")
            self._observe(_RUN_LATENCY, labels, seconds)

    def loaded(self, directory: object, well: bool, seconds: float) -> None:
        """Counts an attempt to load a version."""
        status = "success" if well else "fail"
        with self._lock:
            self._counts[_LOADS, _labels(model_path=str(directory), status=status)] += 1
            path = _labels(model_path=str(directory))
            self._counts[_LOAD_LATENCY, path] += round(1e6 * seconds)

    def text(self) -> str:
        """All of it in Prometheus's text format."""
        lines = []
        with self._lock:
            for name, labels in sorted(self._counts):
                lines.append((name, "counter", f"{name}{{{labels}}} {self._counts[name, labels]}"))
            for name, labels in sorted(self._buckets):
                below = list(accumulate(self._buckets[name, labels]))
                told = [
                    f'{name}_bucket{{{labels},le="{end}"}} {count}'
                    for end, count in zip(_ENDS, below, strict=True)
                ]
                told.append(f"{name}_sum{{{labels}}} {self._sums[name, labels]:g}")
                told.append(f"{name}_count{{{labels}}} {below[-1]}")
                lines.append((name, "histogram", "\n".join(told)))
        heads = {name: f"# TYPE {name} {kind}\n" for name, kind, _ in lines}
        return "".join(f"{heads.pop(name, '')}{told}\n" for name, _, told in lines)

    def _observe(self, name: str, labels: str, seconds: float) -> None:
        self._buckets[name, labels][bisect_left(_LIMITS, 1e6 * seconds)] += 1
        self._sums[name, labels] += 1e6 * seconds


def _labels(**labels: str) -> str:
    return ",".join(f'{name}="{_escaped(value)}"' for name, value in labels.items())


def _escaped(value: str) -> str:
    return value.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")
