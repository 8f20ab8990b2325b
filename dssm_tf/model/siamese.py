"""Two towers and a score: the model of all systems that learn from clicks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from typing import Any

import keras
from keras import ops

from dssm_tf import losses
from dssm_tf.common.keras_internals import added_losses
from dssm_tf.model.ranking_metrics import RankingMetrics
from dssm_tf.optimizers import ScheduledNesterov
from dssm_tf.scores import Cosine, Score
from dssm_tf.scores.score import apply_to_words, normalize_vectors
from dssm_tf.towers.tower import Tower
from dssm_tf.towers.words import Words


@keras.saving.register_keras_serializable(package="dssm_tf")
class Siamese(keras.Model):
    """Scores of each query and its candidate titles.

    Distinct titles are encoded once per batch and then picked per query. A title that is clicked,
    a negative and an in-batch negative at once is encoded once.

    Args:
        query_tower: encodes queries.
        title_tower: encodes titles; None shares the query tower. The papers have two towers.
        score: compares queries with titles; None is the cosine, as in the papers.

    Call arguments:
        inputs: dict with `query` and `titles`, two text batches of `batch` and `distinct_titles`
            texts, and `candidates` int `(batch, columns)`, rows of `titles`; column 0 is the
            clicked title. If there is also `in_batch` int `(count,)`, the first `count` titles are
            further candidates of every query, in columns after the others; its values are not
            read. With a cosine, shared
            towers also take one text batch `texts`, the titles after the queries: one pass through
            the tower instead of two.

    Returns:
        Scores float32 `(batch, columns + count)`, such as cosines.

    Reference: Palangi et al. 2016, eq. 3; Shen et al. 2014, eq. 4.
    """

    def __init__(
        self,
        query_tower: Tower,
        title_tower: Tower | None = None,
        score: Score | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        for tower in (query_tower, title_tower):
            if tower is not None and not isinstance(tower, Tower):
                raise ValueError(
                    f"Siamese received a {type(tower).__name__} as a tower; expected a Tower, such "
                    "as dssm_tf.towers.dssm.DSSM."
                )
        if title_tower is not None and title_tower.dimension != query_tower.dimension:
            raise ValueError(
                f"The towers' vectors have lengths {query_tower.dimension} and "
                f"{title_tower.dimension}; a cosine needs equal lengths."
            )
        self.query_tower = query_tower
        self.shared = title_tower is None
        self.title_tower = query_tower if title_tower is None else title_tower
        self.score = Cosine(name="score") if score is None else score
        if self.score.reads_words and not (self.shared and isinstance(query_tower, Words)):
            raise ValueError(
                f"The score {type(self.score).__name__} compares words; it needs one shared tower "
                "of the class dssm_tf.towers.words.Words."
            )
        self._ranking_metrics = RankingMetrics()

    def build(self, *_: Any) -> None:
        """Builds both towers; no weight's shape depends on the input."""
        towers = {"query_tower": self.query_tower}
        if not self.shared:
            towers["title_tower"] = self.title_tower
        for name, tower in towers.items():
            if not tower.built:  # a tower loaded from a file is built
                # In a file, the paths of the weights begin with `query_tower` or `title_tower`.
                with nullcontext() if tower.name == name else keras.name_scope(name):
                    tower.build()
        if not self.score.built:
            self.score.build()
        self.built = True

    def call(self, inputs: Mapping[str, Any], training: bool = False) -> keras.KerasTensor:
        """Scores of each query and its candidates."""
        if "texts" in inputs:
            if not self.shared or self.score.reads_words:
                raise ValueError(
                    "Siamese received `texts`, queries and titles in one text batch, but has two "
                    "towers or compares words; expected `query` and `titles`."
                )
            vectors = self.query_tower(inputs["texts"], training=training)
            rows = ops.shape(inputs["candidates"])[0]
            queries, titles = vectors[:rows], vectors[rows:]
        else:
            queries, titles = self._encode(inputs["query"], inputs["titles"], training)
        scores = self.score(queries, titles)
        candidate_scores = ops.take_along_axis(scores, inputs["candidates"], axis=1)
        if "in_batch" not in inputs:
            return candidate_scores
        # A slice needs no matrix of indices, neither here nor for the gradient.
        count = ops.shape(inputs["in_batch"])[0]
        return ops.concatenate([candidate_scores, scores[:, :count]], axis=1)

    def set_sparse_products(self, enabled: bool) -> None:
        """Sets `uses_sparse_product` of both towers' `WordHashing` and of the score."""
        for tower in (self.query_tower, self.title_tower):
            tower.hashing.uses_sparse_product = enabled
        self.score.set_sparse_products(enabled)

    def _encode(
        self, queries: Mapping[str, Any], titles: Mapping[str, Any], training: bool
    ) -> tuple[Any, Any]:
        """The score's inputs: vectors of texts, or text batches with vectors of their words."""
        if not self.score.reads_words:
            query_vectors = self.query_tower(queries, training=training)
            return query_vectors, self.title_tower(titles, training=training)

        def word_vectors(groups: tuple[Any, ...]) -> keras.KerasTensor:
            return self.query_tower.word_vectors({"word_ngrams": groups}, training=training)

        query_words, title_words = apply_to_words(word_vectors, queries, titles)
        return {**queries, "word_vectors": query_words}, {**titles, "word_vectors": title_words}

    def score_matrix(
        self, queries: Mapping[str, Any], titles: Mapping[str, Any]
    ) -> keras.KerasTensor:
        """Scores float32 `(queries, titles)` of two text batches."""
        return self.score(*self._encode(queries, titles, training=False))

    def compile(
        self,
        optimizer: Any = "adam",
        loss: str | keras.losses.Loss | None = None,
        metrics: Sequence[Any] | None = None,
        **kwargs: Any,
    ) -> None:
        """Configures the model for training.

        Args:
            optimizer: see `keras.Model.compile`.
            loss: a `RankingLoss`, or the name of one, such as `"click_softmax"`.
            metrics: Keras metrics, or their names. Labels are 1 for the clicked title, and a masked
                candidate has a very low score; see `RankingMetrics`. So
                `keras.metrics.TopKCategoricalAccuracy(3)` is the fraction of the queries whose
                clicked title is among the first three. Each query counts once, whatever its weight.
            kwargs: see `keras.Model.compile`; `weighted_metrics` and `loss_weights` are refused.

        Raises:
            ValueError: the loss is not one of `dssm_tf.losses`, or an argument is refused.
        """
        for name in ("weighted_metrics", "loss_weights"):
            if kwargs.get(name):
                raise ValueError(
                    f"Siamese received {name}={kwargs[name]!r}; it has one loss, and metrics that "
                    "count each query once. Use `loss` and `metrics`."
                )
        if not self.built:
            self.build()
        loss = None if loss is None else losses.get(loss)
        super().compile(optimizer, loss, **kwargs)
        self._ranking_metrics = RankingMetrics(metrics or ())
        if isinstance(self.optimizer, ScheduledNesterov):
            towers = [self.query_tower] if self.shared else [self.query_tower, self.title_tower]
            self.optimizer.clip_separately([tower.trainable_variables for tower in towers])

    @property
    def metrics(self) -> list[keras.metrics.Metric]:
        """The mean loss and the compiled metrics."""
        return [*super().metrics, *self._ranking_metrics.metrics]

    def compute_loss(
        self,
        x: Any = None,
        y: Any = None,
        y_pred: Any = None,
        sample_weight: Any = None,
        training: bool = True,
    ) -> keras.KerasTensor:
        """The compiled loss, plus the losses that `add_loss` added.

        Differs from `keras.Model.compute_loss`, which expects one output per key of `y`.
        """
        del x, training
        if self.loss is None:
            raise ValueError(
                "Siamese was compiled without a loss; expected, e.g., "
                'model.compile(loss="click_softmax").'
            )
        return sum(added_losses(self), self.loss(y, y_pred, sample_weight))

    def compute_metrics(
        self, x: Any, y: Any, y_pred: Any, sample_weight: Any = None
    ) -> dict[str, Any]:
        """Updates the compiled metrics and returns the results of all metrics."""
        del x, sample_weight
        self._ranking_metrics.update(y, y_pred)
        results: dict[str, Any] = self.get_metrics_result()
        return results

    def get_compile_config(self) -> dict[str, Any]:
        """The arguments of `compile`, for `keras.saving`; empty if it was not called."""
        config: dict[str, Any] = super().get_compile_config()
        return config and config | {"metrics": self._ranking_metrics.serialize()}

    def compile_from_config(self, config: dict[str, Any]) -> None:
        """Compiles a loaded model."""
        self.compile(**keras.saving.deserialize_keras_object(config))
        self.optimizer.build(self.trainable_variables)

    def encode_query(self, texts: Mapping[str, Any]) -> keras.KerasTensor:
        """Unit semantic vectors of a text batch of queries, float32 `(texts, dimension)`."""
        return normalize_vectors(self.query_tower(texts, training=False))

    def encode_title(self, texts: Mapping[str, Any]) -> keras.KerasTensor:
        """Unit semantic vectors of a text batch of titles, float32 `(texts, dimension)`."""
        return normalize_vectors(self.title_tower(texts, training=False))

    def get_build_config(self) -> dict[str, Any]:
        """A placeholder: with an empty dict, Keras would not build a loaded model."""
        return {"input_shape": None}

    def build_from_config(self, config: dict[str, Any]) -> None:
        """Builds the weights before they are loaded."""
        del config
        self.build()

    def get_config(self) -> dict[str, Any]:
        """Constructor arguments, for `keras.saving`."""
        serialize = keras.saving.serialize_keras_object
        config: dict[str, Any] = super().get_config()
        return config | {
            "query_tower": serialize(self.query_tower),
            "title_tower": None if self.shared else serialize(self.title_tower),
            "score": serialize(self.score),
        }

    @classmethod
    def from_config(
        cls, config: Mapping[str, Any], custom_objects: Mapping[str, Any] | None = None
    ) -> Siamese:
        """Rebuilds the model with its towers and its score."""
        deserialize = keras.saving.deserialize_keras_object
        arguments = dict(config)
        for name in ("query_tower", "title_tower", "score"):
            if arguments[name] is not None:
                arguments[name] = deserialize(arguments[name], custom_objects=custom_objects)
        return cls(**arguments)
