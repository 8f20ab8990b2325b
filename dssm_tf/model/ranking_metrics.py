"""Keras metrics of rankings, for `Siamese.compile(metrics=...)`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import keras
from keras import ops

from dssm_tf.losses.ranking_loss import MASKED_LOGIT


class RankingMetrics:
    """Compiled metrics, each updated with one row per query.

    Differs from Keras's own container, which expects labels and predictions of the same structure.
    Here the labels are a dict, whose mask has the candidates that count.

    Args:
        identifiers: Keras metrics, their names, or functions of labels and scores; a list of them,
            or one. Metrics that compare the values of scores, such as `mse` or `crossentropy`, are
            of no use: they read the very low scores too.

    Attributes:
        metrics: the Keras metrics.

    Raises:
        ValueError: a name is unknown, or two metrics have the same name.
    """

    def __init__(self, identifiers: Any = ()) -> None:
        if isinstance(identifiers, (str, keras.metrics.Metric)) or callable(identifiers):
            identifiers = [identifiers]
        self.metrics = [_metric(identifier) for identifier in identifiers]
        names = [metric.name for metric in self.metrics]
        for name in names:
            if name == "loss" or names.count(name) > 1:
                raise ValueError(
                    f"metrics received the name {name!r} twice; give each metric its own name."
                )

    def update(self, labels: Mapping[str, keras.KerasTensor], scores: keras.KerasTensor) -> None:
        """Adds a batch.

        Args:
            labels: dict of `mask` `(batch, columns)`, and `targets` of the same shape or
                `(1, columns)`. A metric reads `targets` as `y_true`: 1 for the clicked title, 0 for
                the others.
            scores: `(batch, columns)`. A metric reads them as `y_pred`, very low for masked
                candidates.
        """
        if self.metrics:
            scores = ops.where(labels["mask"], ops.cast(scores, "float32"), MASKED_LOGIT)
            targets = ops.broadcast_to(labels["targets"], ops.shape(scores))
            for metric in self.metrics:
                metric.update_state(targets, scores)

    def serialize(self) -> list[Any]:
        """The metrics as `keras.saving` writes them."""
        return [keras.saving.serialize_keras_object(metric) for metric in self.metrics]


def _metric(identifier: Any) -> keras.metrics.Metric:
    """A metric from a name, or from a function of labels and scores; a metric is returned as is."""
    if identifier in ("accuracy", "acc", "Accuracy"):
        return keras.metrics.CategoricalAccuracy(name="accuracy")
    metric = None if identifier is None else keras.metrics.get(identifier)
    if isinstance(metric, keras.metrics.Metric):
        return metric
    if not callable(metric) or isinstance(metric, keras.losses.Loss):
        raise ValueError(
            f"metrics received {identifier!r}; expected a Keras metric, the name of one, or a "
            "function of labels and scores."
        )
    return keras.metrics.MeanMetricWrapper(metric, name=getattr(metric, "__name__", "metric"))
