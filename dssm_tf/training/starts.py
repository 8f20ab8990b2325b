"""Stages before the tower `words` learns clicks: start vectors, titles as queries, spelling."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import keras
import numpy as np
from numpy.typing import NDArray
from rich.console import Console

from dssm_tf.common.progress import progress_of
from dssm_tf.config.start import StartConfig
from dssm_tf.data.preprocessed import Preprocessed
from dssm_tf.model.siamese import Siamese
from dssm_tf.training.first_matrices import weights_with_changed_first_matrices
from dssm_tf.training.loop import TrainingLoop
from dssm_tf.training.model_state import assign_all
from dssm_tf.training.spelling import learn_spelling
from dssm_tf.training.start_vectors import NONE, with_start_vectors, word_vectors
from dssm_tf.training.validation import ValidationTask, score_task

Weights = list[NDArray[np.float32]]


@dataclass(frozen=True)
class Stage:
    """Weights after a stage, and their validation NDCG.

    Args:
        name: the kind of training, such as `spelling`.
        weights: in the order of `Siamese.weights`.
        metrics: validation NDCG at each cutoff; empty without validation queries.
    """

    name: str
    weights: Weights
    metrics: dict[str, float]

    def summary(self, *, chosen: bool) -> dict[str, Any]:
        """The name, the metrics, and whether the stage was chosen, for `ranking.json`."""
        return {"name": self.name, **self.metrics, "chosen": chosen}


class Starts:
    """Computes the weights from which a training of the tower `words` starts.

    Args:
        config: the section `start`.
        data: the preprocessed directory, with the vocabulary of the model.
        loop: the training, with its initial weights.
        task: the validation queries; None if there are none.
        seed: of the rotation of start vectors, and of typing errors.
        console: prints each stage.
    """

    def __init__(
        self,
        config: StartConfig,
        data: Preprocessed,
        loop: TrainingLoop,
        task: ValidationTask | None,
        seed: int,
        console: Console,
    ) -> None:
        self._config = config
        self._data = data
        self._loop = loop
        self._task = task
        self._seed = seed
        self._console = console

    def before_clicks(self) -> list[Stage]:
        """The weights to train from: random or with start vectors, then without or with spelling.

        With `spelling: auto` there are two; the first is the one without spelling.
        """
        before = self._before_spelling()
        if not self._config.spelling:
            return [before]
        after = self._after_spelling(before)
        return [before, after] if self._config.spelling == "auto" else [after]

    def without_clicks(self) -> list[Stage]:
        """All stages of a training on a catalog alone, in their order."""
        stages = [self._before_spelling()]
        epochs = self._config.title_epochs
        if self._config.vectors == NONE and epochs:
            name = f"titles as queries, {epochs} epoch{'s' if epochs > 1 else ''}"
            self._loop.fit("titles", ["train"], epochs, weights=stages[0].weights)
            stages.append(self._stage(name, current_weights(self._loop.ranking_model)))
        if self._config.spelling:
            stages.append(self._after_spelling(stages[-1]))
        return stages

    def _before_spelling(self) -> Stage:
        """Random rows, or start vectors."""
        source, model = self._config.vectors, self._loop.model
        if source == NONE:
            return self._stage("random rows", self._loop.initial_weights)
        weights = weights_of_vectors(source, model, self._data, self._seed)
        return self._stage(f"start vectors ({source})", weights)

    def _after_spelling(self, stage: Stage) -> Stage:
        """The weights after spelling, from those of a stage."""
        model = self._loop.ranking_model
        assign_all(model.weights, stage.weights)
        weights = spelled_weights(model, self._data, self._seed, quiet=self._console.quiet)
        return self._stage("spelling", weights)

    def _stage(self, name: str, weights: Weights) -> Stage:
        """Ranks the validation queries with some weights and prints the result."""
        metrics: dict[str, float] = {}
        if self._task is not None:
            assign_all(self._loop.ranking_model.weights, weights)
            show = not self._console.quiet
            with progress_of(f"ranking with {name}", None, show, unit=""):
                metrics = self._task.ndcg(score_task(self._loop.scorer, self._task))
            self._console.print(f"{name}: validation NDCG@10 {metrics['ndcg@10']:.3f}")
        return Stage(name, weights, metrics)


def best_stage(stages: Sequence[Stage]) -> Stage:
    """The stage with the highest validation NDCG@10; the last one without validation queries.

    Of equal stages, the first is the best.
    """
    if not stages[-1].metrics:
        return stages[-1]
    return max(stages, key=lambda stage: stage.metrics["ndcg@10"])


def weights_of_vectors(source: str, model: Siamese, data: Preprocessed, seed: int) -> Weights:
    """The weights of a model, with the rows of whole words from start vectors.

    Args:
        source: see `check_start_vectors`, but not `none`.
        model: the model, with its initial weights.
        data: the preprocessed directory, with the vocabulary of the model.
        seed: of the random rotation.
    """
    words = [*data.document_frequencies.words]
    vectors = word_vectors(source, words, data.rules)

    def change(kernel: NDArray[np.float32]) -> NDArray[np.float32]:
        changed = with_start_vectors(kernel, data.vocabulary, words, vectors, seed=seed)
        return changed.astype(np.float32)

    return weights_with_changed_first_matrices(model, change)


def spelled_weights(model: Siamese, data: Preprocessed, seed: int, *, quiet: bool) -> Weights:
    """The weights of a model after `learn_spelling`.

    Args:
        model: the model.
        data: the preprocessed directory, with the vocabulary of the model.
        seed: of the typing errors.
        quiet: whether to hide the progress bar.
    """
    frequencies = data.document_frequencies.words
    words, counts = [*frequencies], [*frequencies.values()]

    def spell(kernel: NDArray[np.float32]) -> NDArray[np.float32]:
        return learn_spelling(kernel, data.vocabulary, words, counts, seed=seed, quiet=quiet)

    return weights_with_changed_first_matrices(model, spell)


def current_weights(model: Siamese) -> Weights:
    """Copies of the weights of a model."""
    return [keras.ops.convert_to_numpy(weight).copy() for weight in model.weights]
