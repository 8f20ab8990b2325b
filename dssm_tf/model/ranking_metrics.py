"""Keras metrics of rankings, for `Siamese.compile(metrics=...)`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import keras
from keras import ops

from dssm_tf.losses.ranking_loss import MASKED_LOGIT


class RankingMetrics:
    """Compiled metrics, each updated with one row per query.

    Differs from Keras's own container, which expects labels and predictions of the same structure.
    Here the labels are a dict, whose mask has the candidates that count.

    Args:
        identifiers: Keras metrics, their names, or functions of labels and scores.

    Attributes:
        metrics: the Keras metrics.
    """

    def __init__(self, identifiers: Iterable[Any] = ()) -> None:
        self.metrics = [_metric(identifier) for identifier in identifiers]

    def update(self, labels: Mapping[str, keras.KerasTensor], scores: keras.KerasTensor) -> None:
        """Adds a batch.

        Args:
            labels: dict of `targets` and `mask`, each `(batch, columns)`. A metric reads `targets`
                as `y_true`: 1 for the clicked title, 0 for the others.
            scores: `(batch, columns)`. A metric reads them as `y_pred`, very low for masked
                candidates.
        """
        if self.metrics:
            scores = ops.where(labels["mask"], ops.cast(scores, "float32"), MASKED_LOGIT)
            for metric in self.metrics:
                metric.update_state(labels["targets"], scores)

    def serialize(self) -> list[Any]:
        """The metrics as `keras.saving` writes them."""
        return [keras.saving.serialize_keras_object(metric) for metric in self.metrics]


def _metric(identifier: Any) -> keras.metrics.Metric:
    """A metric from a name, or from a function of labels and scores; a metric is returned as is."""
    if identifier == "accuracy":
        return keras.metrics.CategoricalAccuracy(name="accuracy")
    metric = keras.metrics.get(identifier)
    if isinstance(metric, keras.metrics.Metric):
        return metric
    return keras.metrics.MeanMetricWrapper(metric, name=metric.__name__)
